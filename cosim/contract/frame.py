"""Frames: named, contiguous numpy columns over slots, the only data that crosses the bus.

Ownership: only the producer of a frame may write into its arrays, and no earlier than at the step after its next
one. Two alternating buffers are enough, and readers need no copy within a tick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.signals import LARGEST, Column, Signal

Array = NDArray[Any]
_MOST_COLUMNS = 1000  # of a mapping that may have no end


@dataclass(frozen=True, slots=True, eq=False)
class SlotTable:
    """Which node is at which slot of one fleet: `ids[i]` is at slot `first + i`.

    `generation[i]` grows each time slot `first + i` is taken by another node, so that a reader sees
    a change of identity without comparing text. `epoch` changes whenever anything here does; equal
    epochs mean the same table. An empty id means that the slot was never taken.
    """

    first: int
    ids: tuple[str, ...]
    generation: NDArray[np.int32]  # (len(ids),)
    epoch: int


class Frame:
    """The rows of one signal at one time.

    `slot` (n,) int32 is the node of each row. For signals with one row per node no slot occurs
    twice; a node without a row is absent. `columns` are (n,) arrays. `table` is set on the frames
    of the adapter that owns a fleet: it introduces the ids of that fleet's slots.
    """

    __slots__ = ("columns", "signal", "slot", "table", "time")

    def __init__(
        self,
        signal: str,
        time: float,
        slot: NDArray[np.int32],
        columns: Mapping[str, Array],
        table: SlotTable | None = None,
    ) -> None:
        self.signal = signal
        self.time = time  # s, simulated time that the values hold for
        self.slot = slot
        self.columns = columns
        self.table = table

    def __getitem__(self, column: str) -> Array:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.slot)

    def __repr__(self) -> str:
        return f"Frame({self.signal!r}, time={self.time:g}, rows={len(self.slot)}, columns={list(self.columns)})"

    def copy(self) -> Frame:
        """The same rows in arrays of its own."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        return Frame(self.signal, self.time, self.slot.copy(), columns, self.table)

    def taken(self) -> Frame:
        """What a foreign producer has just returned, looked at once: plain columns that it cannot change any more."""
        columns = self.columns
        if isinstance(columns, Mapping):
            columns = {name: _own(columns[name]) for name in islice(columns, _MOST_COLUMNS)}
        return Frame(self.signal, self.time, _own(self.slot), columns, self.table)

    def guarded(self) -> Frame:
        """The same rows in arrays that their reader cannot write to."""
        columns = {name: _read_only(column) for name, column in self.columns.items()}
        return Frame(self.signal, self.time, _read_only(self.slot), columns, self.table)

    def same_as(self, other: Frame) -> bool:
        """Bit-equal rows: NaN equals NaN, -0.0 differs from 0.0."""
        return (
            self.signal == other.signal
            and self.time == other.time
            and np.array_equal(self.slot, other.slot)
            and list(self.columns) == list(other.columns)
            and all(
                a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
                for a, b in zip(self.columns.values(), other.columns.values(), strict=True)
            )
        )


def _own(values: Array) -> Array:
    """A copy of a plain array; anything else as it is, for the contract to refuse."""
    return values.copy() if type(values) is np.ndarray and values.flags.c_contiguous else values


def _read_only(values: Array) -> Array:
    """The same values; unlike a view, an array over a read-only buffer cannot be made writable again."""
    base: object = values.base
    return values if isinstance(base, bytes) else np.asarray(values.data.toreadonly())


def constant(values: Array) -> Array:
    """A copy of `values` (n,) that can never change: the bus checks it once, not at every tick."""
    return np.frombuffer(values.tobytes(), values.dtype)


def fault(frame: Frame, signal: Signal, capacity: int, workloads: int = 2**15) -> str:
    """Why `frame` breaks the contract of `signal`, or "" when it does not.

    `capacity` is the number of slots of the scene, `workloads` that of its workloads. The bus asks
    compiled code first (`cosim.bus.inspection`) and this function for the words.
    """
    wrong = misshapen(frame, signal, capacity)
    if wrong:
        return wrong
    for column in signal.columns:
        values = frame.columns[column.name]
        count, first = outside(values, column, capacity, workloads)
        if count:
            low, high = column.bounds(capacity, workloads)
            found = f"{values[first]!s} at slot {frame.slot[first]}"
            more = f" and in {count - 1} more rows" if count > 1 else ""
            return f"{signal.name}.{column.name} is {found}{more}; {_allowed(column, low, high)}"
    return ""


def outside(values: Array, column: Column, capacity: int, workloads: int) -> tuple[int, int]:
    """How many of `values` the declaration of `column` does not allow, and the row of the first one."""
    if values.dtype.kind not in "iuf" or not len(values):
        return 0, -1
    low, high = column.bounds(capacity, workloads)
    inside = (values >= np.float64(low)) & (values <= np.float64(high))  # a float32 cannot hold every bound
    if column.optional and values.dtype.kind == "f":
        inside |= np.isnan(values)
    count = len(values) - int(np.count_nonzero(inside))
    return count, int(np.argmin(inside)) if count else -1


def _allowed(column: Column, low: float, high: float) -> str:
    unit = f" {column.unit}" if column.unit not in ("", "1") else ""
    if column.role == "slot":
        return f"slots are 0..{high:.0f}, or -1"
    if column.role == "code" and column.codes:
        return f"codes are {low:.0f}..{high:.0f}"
    if low > -LARGEST and high < LARGEST:
        return f"allowed are {low:g}..{high:g}{unit}"
    below = f"{low:g}{unit} or more" if low > -LARGEST else ""
    finite = "" if high == float("inf") else "a finite number"
    return f"allowed is {', '.join(filter(None, (finite, below)))}{' or NaN' if column.optional else ''}"


def misshapen(frame: Frame, signal: Signal, capacity: int) -> str:
    """What is wrong with the arrays of `frame` whatever their values are, apart from slots."""
    slot = frame.slot
    if type(slot) is not np.ndarray or slot.dtype != np.int32 or slot.ndim != 1:
        return f"{signal.name}.slot must be a one-dimensional int32 array"
    if not slot.flags.c_contiguous:
        return f"{signal.name}.slot is not contiguous"
    if len(slot) and (slot.min() < 0 or slot.max() >= capacity):
        return f"{signal.name}.slot holds {slot.min()}..{slot.max()}, outside the scene's slots 0..{capacity - 1}"
    if signal.rows == "node" and len(np.unique(slot)) != len(slot):
        return f"{signal.name} holds more than one row for the same slot"
    expected = {column.name: np.dtype(column.dtype) for column in signal.columns}
    if not isinstance(frame.columns, Mapping) or set(frame.columns) != set(expected):
        found = ", ".join(map(str, frame.columns)) if isinstance(frame.columns, Mapping) else "no mapping"
        return f"{signal.name} must have the columns {', '.join(expected)}; it has {found}"
    for name, dtype in expected.items():
        column = frame.columns[name]
        if type(column) is not np.ndarray:  # e.g. a masked array, which hides values that readers would use
            return f"{signal.name}.{name} must be a numpy array, not {type(column).__name__}"
        if column.dtype != dtype:
            return f"{signal.name}.{name} must be {dtype}, not {column.dtype}"
        if column.shape != slot.shape:
            return f"{signal.name}.{name} has {column.shape} values for {len(slot)} rows"
        if not column.flags.c_contiguous:
            return f"{signal.name}.{name} is not contiguous"
    return ""
