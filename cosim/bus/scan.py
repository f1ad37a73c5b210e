"""Loops over the rows of a frame, compiled. Arrays are contiguous, aligned and writable: one signature each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, jitted, only, ready

Mark = NDArray[np.int64]


@entry()
def inside(values: NDArray[np.float64], low: float, high: float, optional: bool) -> int:
    """How many of `values` lie in `low`..`high` or, with `optional`, are NaN."""
    count = 0
    if optional:
        for i in range(len(values)):
            x = values[i]
            count += ((x >= low) & (x <= high)) | (x != x)
    else:
        for i in range(len(values)):
            x = values[i]
            count += (x >= low) & (x <= high)
    return count


@entry()
def finite(values: NDArray[np.float64], _low: float, _high: float, _optional: bool) -> int:
    """How many of `values` are numbers and not infinite: the bits of their exponents are not all set."""
    count = 0
    bits = values.view(np.uint64)
    exponent = np.uint64(0x7FF0000000000000)
    for i in range(len(bits)):
        count += (bits[i] & exponent) != exponent
    return count


@entry()
def inside_i4(values: NDArray[np.int32], low: int, high: int, _optional: bool) -> int:
    """How many of `values` lie in `low`..`high`."""
    count = 0
    for i in range(len(values)):
        count += (values[i] >= low) & (values[i] <= high)
    return count


@entry()
def inside_i8(values: NDArray[np.int64], low: int, high: int, _optional: bool) -> int:
    """How many of `values` lie in `low`..`high`."""
    count = 0
    for i in range(len(values)):
        count += (values[i] >= low) & (values[i] <= high)
    return count


@entry()
def sound_slots(slot: NDArray[np.int32], mark: Mark, stamp: int, capacity: int, unique: bool) -> bool:
    """Whether `slot` lies in 0..capacity-1 and, with `unique`, holds nothing twice.

    `mark` (capacity,) remembers the stamp of the last look that saw a slot. Most frames are in the
    order of their slots, which one pass without branches shows.
    """
    n = len(slot)
    if n == 0:
        return True
    falls = 0
    for i in range(n - 1):
        falls += slot[i] >= slot[i + 1]
    if falls == 0:
        return bool(slot[0] >= 0 and slot[n - 1] < capacity)
    wrong = 0
    for i in range(n):
        wrong += (slot[i] < 0) | (slot[i] >= capacity)
    if wrong > 0 or not unique:
        return wrong == 0
    for i in range(n):
        if mark[slot[i]] == stamp:
            return False
        mark[slot[i]] = stamp
    return True


def compiled() -> bool:
    """Whether the loops start without compiling."""
    return ready(inside, finite, inside_i4, inside_i8, sound_slots)


def compile_all() -> None:
    """Compile the loops, or take them from the cache; from then on they refuse arrays of another kind."""
    if not jitted():
        return
    inside(np.zeros(1), 0.0, 1.0, False)
    finite(np.zeros(1), 0.0, 1.0, False)
    inside_i4(np.zeros(1, np.int32), 0, 1, False)
    inside_i8(np.zeros(1, np.int64), 0, 1, False)
    sound_slots(np.zeros(1, np.int32), np.zeros(1, np.int64), 1, 1, True)
    for loop in (inside, finite, inside_i4, inside_i8, sound_slots):
        only(loop)
