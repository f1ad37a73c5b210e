"""Rows of the state arrays by address, for compiled code; see `cosim.engine.continuum.memory` for the reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.compiled.compiling import part
from cosim.engine.continuum import memory
from cosim.extensions.gpu_cluster.cluster.engine import layout

Record = Any  # a record with the fields of one of the layouts; numba infers which

job = memory.rows_of(layout.JOB)
leaf = memory.rows_of(layout.LEAF)
server = memory.rows_of(layout.SERVER)
gpu = memory.rows_of(layout.GPU)
port = memory.rows_of(layout.PORT)
switch = memory.rows_of(layout.SWITCH)
fault = memory.rows_of(layout.FAULT)
row = memory.rows_of(layout.ROW)
short = memory.rows_of(np.dtype([("v", "i4")]))
real, whole = memory.real, memory.whole


@part
def cell(s: Record, line: int, i: int) -> Record:
    """Element i of a row of `scratch`."""
    return whole(s.scratch, line * s.width + i)


@part
def line(s: Record, number: int) -> int:
    """The address of a row of `scratch`: loops look it up once."""
    address: int = s.scratch + number * s.width * 8
    return address
