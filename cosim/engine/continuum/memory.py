"""Rows of the engine's state arrays by address, for compiled code (see `cosim.compiled.rowtypes`).

The arrays themselves belong to `Engine.state`, which keeps them alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from cosim.compiled.compiling import array_at, jitted
from cosim.compiled.rowtypes import Row, intrinsic, rows_of, types
from cosim.engine.continuum import layout
from cosim.engine.continuum.layout import Record

njit: Any = numba.njit

__all__ = ["Row", "rows_of"]


TASK_SIZE, STATION_SIZE = layout.TASK.itemsize, layout.STATION.itemsize  # B
NODE_SIZE, SOURCE_SIZE = layout.NODE.itemsize, layout.SOURCE.itemsize
HOST_SIZE, LINK_SIZE = layout.HOST.itemsize, layout.LINK.itemsize
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
fewest = rows_of(layout.FEWEST)
real = rows_of(np.dtype([("v", "f8")]))  # a float64 array's element is real(address, i).v
whole = rows_of(np.dtype([("v", "i8")]))  # of an int64 array
number = rows_of(np.dtype([("v", "i4")]))  # of an int32 array


def _caller() -> Callable[[int, int, int, int, int, float], int]:
    """A compiled function that calls `cosim.engine.continuum.equipment.equipment` at an address.

    So the kernel needs not be compiled together with what few systems have.
    """
    if not jitted():

        def plain(place: int, address: int, what: int, a: int, b: int, now: float) -> int:  # noqa: ARG001
            from cosim.engine.continuum.equipment import equipment

            return int(equipment(address, what, a, b, now))

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
    return _call(s.equipment, s.self, what, a, b, now)


equipment: Callable[[Record, int, int, int, float], int] = (
    njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(_ask) if jitted() else _ask
)
reals = array_at(np.dtype("f8"))
hosts = array_at(layout.HOST)
