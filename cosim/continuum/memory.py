"""Rows of the state arrays by address, for compiled code.

Passing twenty arrays from function to function costs numba most of its compile time and the kernel
most of its run time (measured: 108 s and a tenth of the speed). So compiled functions get one
record, `META`, which holds the addresses of all others; `task(s.tasks, i)` is row i, a plain
pointer. The arrays themselves belong to `Engine.state`, which keeps them alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba
import numba.core.types
import numba.extending
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numpy.typing import NDArray

from cosim.compiling import jitted
from cosim.continuum import layout
from cosim.continuum.layout import Record

# numba's stubs cover neither intrinsics nor pointers
types: Any = numba.core.types
intrinsic: Any = numba.extending.intrinsic
carray: Any = numba.carray  # type: ignore[attr-defined]
njit: Any = numba.njit

Row = Callable[[int, int], Record]


class _Row:
    """A record for plain Python, with its fields as attributes (numpy's own records hide some of them)."""

    __slots__ = ("_record",)
    _record: Any

    def __init__(self, record: Any) -> None:  # noqa: ANN401 - numpy's void
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._record[name]

    def __setattr__(self, name: str, value: object) -> None:
        self._record[name] = value


def world(meta: NDArray[np.void]) -> Any:  # noqa: ANN401
    """`meta` as entry points take it: something whose first item has the fields as attributes."""
    return meta if jitted() else [_Row(meta[0])]


def _at(dtype: np.dtype[Any], address: int, count: int) -> NDArray[Any]:
    """The array of `count` `dtype` at the address, for plain Python."""
    memory: Any = (ctypes.c_char * (dtype.itemsize * count)).from_address(int(address))
    return np.ndarray((count,), dtype, memory)


def rows_of(dtype: np.dtype[Any]) -> Row:
    """A compiled function (address, i) -> record i of the array of `dtype` at the address."""
    if not jitted():
        return lambda address, i: _Row(_at(dtype, int(address) + int(i) * dtype.itemsize, 1)[0])
    record = numba.from_dtype(dtype)
    size = dtype.itemsize

    def row(typing_context: object, address: object, i: object) -> Any:  # noqa: ANN401, ARG001 - numba's protocol
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            start, number = arguments
            place = builder.add(start, builder.mul(number, ir.Constant(ir.IntType(64), size)))
            return builder.inttoptr(place, context.get_value_type(record))

        return record(types.int64, types.int64), generate

    compiled: Row = intrinsic(row)
    return compiled


def _array_of(dtype: np.dtype[Any]) -> Callable[[int, int], NDArray[Any]]:
    """A compiled function (address, n) -> the array of n `dtype` at the address."""
    if not jitted():
        return lambda address, count: _at(dtype, address, count)
    element = numba.from_dtype(dtype)

    def pointer(typing_context: object, address: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(element)))

        return types.CPointer(element)(types.int64), generate

    cast = intrinsic(pointer)

    def array(address: int, count: int) -> NDArray[Any]:
        found: NDArray[Any] = carray(cast(address), count)
        return found

    compiled: Callable[[int, int], NDArray[Any]] = njit(array)
    return compiled


meta = rows_of(layout.META)
task = rows_of(layout.TASK)
station = rows_of(layout.STATION)
node = rows_of(layout.NODE)
kind = rows_of(layout.KIND)
link = rows_of(layout.LINK)
host = rows_of(layout.HOST)
source = rows_of(layout.SOURCE)
workload = rows_of(layout.WORKLOAD)
ended = rows_of(layout.ENDED)
stage = rows_of(layout.STAGE)
job = rows_of(layout.JOB)
traced = rows_of(layout.TRACED)
machine = rows_of(layout.MACHINE)
accelerator = rows_of(layout.ACCELERATOR)
point = rows_of(layout.POINT)
battery = rows_of(layout.BATTERY)
real = rows_of(np.dtype([("v", "f8")]))  # a float64 array's element is real(address, i).v
whole = rows_of(np.dtype([("v", "i8")]))  # of an int64 array


def _caller() -> Callable[[int, int, int, int, int, float], int]:
    """A compiled function that calls `cosim.continuum.beyond.beyond` at an address.

    So the kernel needs not be compiled together with what few systems have.
    """
    if not jitted():

        def plain(place: int, address: int, what: int, a: int, b: int, now: float) -> int:  # noqa: ARG001
            from cosim.continuum.beyond import beyond

            return int(beyond(address, what, a, b, now))

        return plain

    def call(typing_context: object, place: object, a: object, b: object, c: object, d: object, e: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word, word, word, word, ir.DoubleType()])
            return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

        return types.int64(*[types.int64] * 5, types.float64), generate

    compiled: Callable[[int, int, int, int, int, float], int] = intrinsic(call)
    return compiled


_call = _caller()


def _ask(s: Record, what: int, a: int, b: int, now: float) -> int:
    return _call(s.beyond, s.self, what, a, b, now)


beyond: Callable[[Record, int, int, int, float], int] = (
    njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(_ask) if jitted() else _ask
)
reals = _array_of(np.dtype("f8"))
hosts = _array_of(layout.HOST)
