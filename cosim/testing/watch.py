"""Rules that frames keep over time: the declared signals, growing counters, honest fleet tables.

`cosim.contract.frame.fault` judges one frame by itself; a `Watch` follows an adapter from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosim.contract.entities import Scene
from cosim.contract.frame import Array, Frame, SlotTable, fault
from cosim.contract.signals import Signal
from cosim.contract.tables import TableCheck


@dataclass
class Watch:
    """Looks at all frames of one adapter, step after step.

    `generation(slot array)` returns the identity that holds each slot now, so that a counter may start
    again when another node takes the slot.
    """

    adapter: str
    writes: tuple[str, ...]
    signals: Mapping[str, Signal]
    scene: Scene
    simulated: bool
    _counters: dict[tuple[str, str], tuple[Array, Array]] = field(default_factory=dict)
    _tables: TableCheck = field(init=False)

    def __post_init__(self) -> None:
        self._tables = TableCheck(self.adapter, self.scene)

    def look(self, time: float, frames: Sequence[Frame], generation: Callable[[Array], Array]) -> list[str]:
        """What is wrong with `frames`, which the adapter returned for `time` (s)."""
        strangers = [type(frame).__name__ for frame in frames if not isinstance(frame, Frame)]
        if strangers:
            return [f"step must return frames, not {', '.join(strangers)}"]
        names = [frame.signal for frame in frames]
        if sorted(names) != sorted(self.writes):
            declared, returned = ", ".join(self.writes) or "none", ", ".join(names) or "none"
            return [f"step must return one frame for each of its signals ({declared}); it returned {returned}"]
        faults: list[str] = []
        for frame in frames:
            faults += self._frame(time, frame, generation)
        return faults

    def _frame(self, time: float, frame: Frame, generation: Callable[[Array], Array]) -> list[str]:
        signal = self.signals[frame.signal]
        text = fault(frame, signal, self.scene.capacity, len(self.scene.workloads))
        if text:
            return [text]
        faults = []
        if frame.time > time or (self.simulated and frame.time != time):
            faults.append(f"'{frame.signal}' carries another time than that of its step")
        wrong = self._tables.look(frame)
        faults += [wrong] if wrong else []
        if signal.rows == "node":
            own = self._tables.generation if self._tables.owner else generation
            faults += self._growth(frame, signal, own(frame.slot))
        return faults

    def _growth(self, frame: Frame, signal: Signal, identity: Array) -> list[str]:
        faults = []
        for column in signal.columns:
            if column.role != "counter":
                continue
            key = (signal.name, column.name)
            if key not in self._counters:
                self._counters[key] = (np.full(self.scene.capacity, -np.inf), np.full(self.scene.capacity, -1))
            last, holder = self._counters[key]
            values = frame[column.name].astype(np.float64)
            if np.any((values < last[frame.slot]) & (holder[frame.slot] == identity)):
                faults.append(f"the counter {signal.name}.{column.name} shrinks")
            if np.any(np.isnan(values)):
                faults.append(f"the counter {signal.name}.{column.name} is not a number")
            last[frame.slot], holder[frame.slot] = values, identity
        return faults


def frozen(frame: Frame) -> Frame:
    """A copy of `frame` down to its table."""
    copy = frame.copy()
    copy.table = _frozen(frame.table) if frame.table is not None else None
    return copy


def _frozen(table: SlotTable) -> SlotTable:
    return SlotTable(table.first, table.ids, table.generation.copy(), table.epoch)
