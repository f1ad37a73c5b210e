"""One compiled look at everything that a frame holds: its slots and all its columns in a single call.

A call that hands numba an array for every column costs more than the look at a thousand rows. So all
arrays are handed over by addresses: those of a frame by that of their Python objects, of which the
compiled code reads kind, shape and data as numpy's own C code does. The fields of `PyArrayObject` are part of numpy's
binary interface; `usable` tries them on a known array before anything relies on them.

Rows are read from the last block to the first: what their producer wrote last is still in the
processor's cache then, and what a reader wants first is there when it comes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import array_at, entry, jitted, part, ready, reduction

Rules = NDArray[np.int64]  # (2 + columns, 6): HEAD, then the slots and each column by FIELDS
HEAD = ("array type", "bytes type", "capacity", "unique", "", "")
# low and high of float columns are the bits of a float64
FIELDS = ("dtype", "kind", "low", "high", "constant", "tally")
WIDTH = len(FIELDS)
CONSTANT = FIELDS.index("constant")  # address of the unchangeable array that was good last, 0: none
TALLY = FIELDS.index("tally")  # address of what a counter has reached, see `grows`, 0: no counter

# kinds of a column
UNBOUNDED, FINITE, FLOAT64, OPTIONAL64, FLOAT32, OPTIONAL32, INT8, INT16, INT32, INT64 = range(10)

_TYPE, _DATA, _NDIM, _SHAPE, _BASE, _DTYPE, _FLAGS = 8, 16, 24, 32, 48, 56, 64  # B, in numpy's PyArrayObject
_ITEMS = 24  # B, in CPython's PyTupleObject
_ORDERLY = 0x101  # contiguous, aligned
_WRITEABLE = 0x400
_BLOCK = 4096  # rows, 32 KiB of the widest column

_words = array_at(np.dtype("i8"))
_halves = array_at(np.dtype("i4"))
_float64 = array_at(np.dtype("f8"))
_float32 = array_at(np.dtype("f4"))
_int8 = array_at(np.dtype("i1"))
_int16 = array_at(np.dtype("i2"))


@part
def _word(address: int) -> int:
    return _words(address, 1)[0]  # type: ignore[no-any-return]


@part
def _plain_array(array: int, array_type: int, dtype: int) -> bool:
    """Whether the object at `array` is a one-dimensional, contiguous numpy array of exactly this dtype."""
    if _word(array + _TYPE) != array_type:
        return False
    orderly = _halves(array + _FLAGS, 1)[0] & _ORDERLY == _ORDERLY
    return orderly and _halves(array + _NDIM, 1)[0] == 1 and _word(array + _DTYPE) == dtype


@part
def _constant(array: int, bytes_type: int) -> bool:
    """Whether the array lies in a `bytes` object, so that its values can never change."""
    if _halves(array + _FLAGS, 1)[0] & _WRITEABLE != 0:
        return False
    base = _word(array + _BASE)
    return base != 0 and _word(base + _TYPE) == bytes_type


@part
def _blocks(rows: int) -> int:
    return (rows + _BLOCK - 1) // _BLOCK


@part
def inside(values: Any, low: Any, high: Any) -> bool:  # noqa: ANN401 - of any dtype
    """Whether all of `values` lie in `low`..`high`."""
    for block in range(_blocks(len(values)) - 1, -1, -1):
        some = values[block * _BLOCK : (block + 1) * _BLOCK]
        count = 0
        for i in range(len(some)):  # this shape of loop, without branches, becomes vector instructions
            count += (some[i] >= low) & (some[i] <= high)
        if count != len(some):
            return False
    return True


@part
def inside_or_nan(values: Any, low: Any, high: Any) -> bool:  # noqa: ANN401 - of any dtype
    """Whether all of `values` lie in `low`..`high` or are NaN."""
    for block in range(_blocks(len(values)) - 1, -1, -1):
        some = values[block * _BLOCK : (block + 1) * _BLOCK]
        count = 0
        for i in range(len(some)):
            x = some[i]
            count += ((x >= low) & (x <= high)) | (x != x)
        if count != len(some):
            return False
    return True


@reduction
def finite(values: NDArray[np.float64]) -> bool:
    """Whether none of `values` is infinite or NaN: 0 x is NaN then, and so is every sum with it.

    One multiplication and addition per vector, where a comparison takes three instructions; two sums, as one
    waits for itself.
    """
    for block in range(_blocks(len(values)) - 1, -1, -1):
        some = values[block * _BLOCK : (block + 1) * _BLOCK]
        half = len(some) // 2
        a = b = 0.0
        for i in range(half):
            a += 0.0 * some[i]
            b += 0.0 * some[half + i]
        if len(some) % 2:
            a += 0.0 * some[-1]
        if a + b != 0.0:
            return False
    return True


@part
def sound_slots(slot: NDArray[np.int32], mark: NDArray[np.int64], capacity: int, unique: bool) -> bool:
    """Whether `slot` lies in 0..capacity-1 and, with `unique`, holds nothing twice.

    `mark` (capacity + 1,) remembers in which look a slot was seen last, and counts the looks. Most
    frames are in the order of their slots, which one pass without branches shows.
    """
    n = len(slot)
    if n == 0:
        return True
    falls = 0
    for block in range(_blocks(n) - 1, -1, -1):
        some = slot[block * _BLOCK : (block + 1) * _BLOCK + 1]  # and the first of the next block
        for i in range(len(some) - 1):
            falls += some[i] >= some[i + 1]
    if falls == 0:
        return bool(slot[0] >= 0 and slot[n - 1] < capacity)
    if not inside(slot, 0, capacity - 1):
        return False
    if not unique:
        return True
    mark[-1] += 1
    for i in range(n):
        if mark[slot[i]] == mark[-1]:
            return False
        mark[slot[i]] = mark[-1]
    return True


@part
def _allowed(data: int, rows: int, kind: int, low: int, high: int, least: float, most: float) -> bool:
    """Whether the column at `data` holds what its declaration allows; `least` and `most` are its bounds as floats."""
    if kind == UNBOUNDED:
        return True
    if kind == FINITE:
        return finite(_float64(data, rows))
    if kind == FLOAT64:
        return inside(_float64(data, rows), least, most)
    if kind == OPTIONAL64:
        return inside_or_nan(_float64(data, rows), least, most)
    if kind == FLOAT32:
        return inside(_float32(data, rows), least, most)
    if kind == OPTIONAL32:
        return inside_or_nan(_float32(data, rows), least, most)
    if kind == INT8:
        return inside(_int8(data, rows), low, high)
    if kind == INT16:
        return inside(_int16(data, rows), low, high)
    if kind == INT32:
        return inside(_halves(data, rows), low, high)
    return inside(_words(data, rows), low, high)


@part
def grows(values: Any, slot: NDArray[np.int32], reached: NDArray[np.float64], again: NDArray[np.float64]) -> bool:  # noqa: ANN401 - of any dtype
    """Whether no counter falls below what it has `reached` (capacity,) for its slot, which is brought up to date.

    A slot has got another member `again` (capacity,) so many times: for each, its counter may fall once. NaN stands
    for a count that is not known.
    """
    for i in range(len(slot)):
        s, x = slot[i], np.float64(values[i])
        if x < reached[s]:
            if again[s] <= 0.0:
                return False
            again[s] -= 1.0
            reached[s] = x
        elif x > reached[s]:
            reached[s] = x
    return True


@part
def _grows(data: int, slots: int, rows: int, kind: int, tally: int, capacity: int) -> bool:
    slot, reached = _halves(slots, rows), _float64(tally, capacity)
    again = _float64(tally + 8 * capacity, capacity)
    if kind == INT32:
        return grows(_halves(data, rows), slot, reached, again)
    if kind == INT64:
        return grows(_words(data, rows), slot, reached, again)
    if kind in (FLOAT32, OPTIONAL32):
        return grows(_float32(data, rows), slot, reached, again)
    if kind == INT8:
        return grows(_int8(data, rows), slot, reached, again)
    if kind == INT16:
        return grows(_int16(data, rows), slot, reached, again)
    return grows(_float64(data, rows), slot, reached, again)


@entry()
def sound(slot: int, columns: int, rules_at: int, rows_of_rules: int, mark_at: int) -> bool:
    """Whether the array `slot` and the tuple of arrays `columns`, given by their ids, hold nothing suspicious.

    `rules_at` is the address of `Rules` with that many rows, `mark_at` that of (capacity + 1,) int64 (see
    `sound_slots`). An array that cannot change is not read again as long as it stays the same one; the
    caller keeps the last arrays that were good alive, and clears `CONSTANT` when the answer is no.
    """
    rules, bounds = _words(rules_at, rows_of_rules * WIDTH), _float64(rules_at, rows_of_rules * WIDTH)
    array_type, bytes_type, capacity = rules[0], rules[1], rules[2]
    if not _plain_array(slot, array_type, rules[WIDTH]):
        return False
    rows = _word(_word(slot + _SHAPE))
    if rules[WIDTH + CONSTANT] != slot:
        mark = _words(mark_at, capacity + 1)
        if not sound_slots(_halves(_word(slot + _DATA), rows), mark, capacity, rules[3] != 0):
            return False
        rules[WIDTH + CONSTANT] = slot if _constant(slot, bytes_type) else 0
    for i in range(2, rows_of_rules):
        k = i * WIDTH
        column = _word(columns + _ITEMS + 8 * (i - 2))
        if not _plain_array(column, array_type, rules[k]) or _word(_word(column + _SHAPE)) != rows:
            return False
        if rules[k + CONSTANT] != column:
            data = _word(column + _DATA)
            if not _allowed(data, rows, rules[k + 1], rules[k + 2], rules[k + 3], bounds[k + 2], bounds[k + 3]):
                return False
            rules[k + CONSTANT] = column if _constant(column, bytes_type) else 0
        if rules[k + TALLY] != 0:
            data, slots = _word(column + _DATA), _word(slot + _DATA)
            if not _grows(data, slots, rows, rules[k + 1], rules[k + TALLY], capacity):
                return False
    return True


def rules_of(columns: Sequence[tuple[np.dtype[Any], int, float, float]], capacity: int, *, unique: bool) -> Rules:
    """The rules of a frame with these columns (dtype, kind, low, high), in a scene of `capacity` slots."""
    rules = np.zeros((2 + len(columns), WIDTH), np.int64)
    rules[0] = id(np.ndarray), id(bytes), capacity, unique, 0, 0
    rules[1, 0] = id(np.dtype(np.int32))
    bounds = rules.view(np.float64)
    for i, (dtype, kind, low, high) in enumerate(columns, 2):
        rules[i, :2] = id(dtype), kind
        (rules if dtype.kind == "i" else bounds)[i, 2:4] = low, high
    return rules


def kind_of(dtype: np.dtype[Any], *, bounded: bool, optional: bool) -> int | None:
    """Which kind of column this is; None for one that compiled code does not look at."""
    if dtype.name == "float64":
        return OPTIONAL64 if optional else FLOAT64 if bounded else FINITE
    if dtype.name == "float32":
        return OPTIONAL32 if optional else FLOAT32
    if not bounded:
        return UNBOUNDED
    return {"int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64}.get(dtype.name)


def compiled() -> bool:
    """Whether the look starts without compiling."""
    return not usable() or ready(sound)


@cache
def usable() -> bool:
    """Whether compiled code can look into numpy's arrays in this interpreter."""
    if not jitted() or object.__basicsize__ != 2 * 8 or np.ndarray.__basicsize__ < _FLAGS + 8:
        return False
    array = np.frombuffer(bytes(24), np.float64)
    shape = ctypes.c_int64.from_address(id(array) + _SHAPE)
    expected = {_TYPE: id(np.ndarray), _DATA: array.ctypes.data, _BASE: id(array.base), _DTYPE: id(array.dtype)}
    if any(ctypes.c_int64.from_address(id(array) + place).value != value for place, value in expected.items()):
        return False
    small = {_NDIM: 1, _FLAGS: array.flags.num}
    if any(ctypes.c_int32.from_address(id(array) + place).value != value for place, value in small.items()):
        return False
    pair = (array, shape)
    items = [ctypes.c_int64.from_address(id(pair) + _ITEMS + 8 * i).value for i in range(2)]
    return ctypes.c_int64.from_address(shape.value).value == 3 and items == [id(array), id(shape)]


def compile_all() -> None:
    """Compile the look, or take it from the cache."""
    if usable():
        empty = np.zeros(0, np.int32)
        columns = (np.zeros(0),)
        rules = rules_of([(np.dtype("f8"), FINITE, 0.0, 0.0)], 1, unique=True)
        mark = np.zeros(2, np.int64)
        sound(id(empty), id(columns), rules.ctypes.data, len(rules), mark.ctypes.data)
