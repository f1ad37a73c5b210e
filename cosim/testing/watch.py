"""Rules that frames keep over time: the declared signals, growing counters, honest fleet tables.

`cosim.bus.frame.fault` judges one frame by itself; a `Watch` follows an adapter from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cosim.bus.frame import Array, Frame, SlotTable, fault
from cosim.plan.entities import Scene
from cosim.telemetry.signals import Signal


def same_table(a: SlotTable | None, b: SlotTable | None) -> bool:
    """Whether two frames introduce the same ids."""
    if a is None or b is None:
        return a is b
    same_range = a.first == b.first and a.ids == b.ids and a.epoch == b.epoch
    return same_range and np.array_equal(a.generation, b.generation)


@dataclass
class Watch:
    """Looks at all frames of one adapter, step after step.

    `generation(slot array)` tells which identity holds each slot now, so that a counter may start
    again when a slot is taken by another node.
    """

    adapter: str
    writes: tuple[str, ...]
    signals: Mapping[str, Signal]
    scene: Scene
    simulated: bool
    _counters: dict[tuple[str, str], tuple[Array, Array]] = field(default_factory=dict)
    _table: SlotTable | None = None

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
        text = fault(frame, signal, self.scene.capacity)
        if text:
            return [text]
        faults = []
        if frame.time > time or (self.simulated and frame.time != time):
            faults.append(f"'{frame.signal}' carries another time than that of its step")
        faults += self._codes(frame, signal)
        faults += self._tables(frame)
        if signal.rows == "node":
            own = self._own_generation if self._table is not None else generation
            faults += self._growth(frame, signal, own(frame.slot))
        return faults

    def _codes(self, frame: Frame, signal: Signal) -> list[str]:
        faults = []
        for column in signal.columns:
            values = frame[column.name]
            if not len(values):
                continue
            if column.role == "slot" and (values.min() < -1 or values.max() >= self.scene.capacity):
                faults.append(f"{signal.name}.{column.name} refers to slots that the scene does not have")
            if column.role == "code":
                known = len(self.scene.workloads) if column.codes == "workloads" else len(column.codes)
                if values.min() < 0 or values.max() >= known:
                    faults.append(f"{signal.name}.{column.name} holds codes outside 0..{known - 1}")
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

    def _own_generation(self, slots: Array) -> Array:
        generation = np.zeros(len(slots), np.int64)
        table = self._table
        if table is not None:
            inside = (slots >= table.first) & (slots < table.first + len(table.ids))
            generation[inside] = table.generation[slots[inside] - table.first]
        return generation

    def _tables(self, frame: Frame) -> list[str]:
        """The rules of `SlotTable`, for the fleet that the adapter owns."""
        fleets = {fleet.first: fleet for fleet in self.scene.fleets if fleet.adapter == self.adapter}
        table = frame.table
        if table is None:
            ranges = [(fleet.first, fleet.first + fleet.capacity) for fleet in fleets.values()]
            inside = [np.any((frame.slot >= low) & (frame.slot < high)) for low, high in ranges]
            if frame.signal == "mobility" and any(inside):
                return ["the mobility frame has rows of the adapter's own fleet but no table"]
            return []
        where = f"the table of '{frame.signal}'"
        fleet = fleets.get(table.first)
        if fleet is None:
            return [f"{where} starts at slot {table.first}, where no fleet of this adapter starts"]
        n = len(table.ids)
        if n > fleet.capacity:
            return [f"{where} has {n} ids for a fleet of {fleet.capacity}"]
        if table.generation.shape != (n,) or table.generation.dtype != np.int32:
            return [f"{where} must have one int32 generation per id"]
        rows = frame.slot[(frame.slot >= fleet.first) & (frame.slot < fleet.first + fleet.capacity)] - fleet.first
        if np.any(rows >= n) or any(not table.ids[row] for row in rows):
            return [f"{where} has no id for a slot that has a row"]
        faults = []
        if len({table.ids[row] for row in rows}) != len(rows):
            faults.append(f"{where} gives one id to two members that are present")
        before, self._table = self._table, _frozen(table)
        if before is not None:
            faults += [f"{where} {text}" for text in _changes(before, table)]
        return faults


def frozen(frame: Frame) -> Frame:
    """A copy of `frame` down to its table."""
    copy = frame.copy()
    copy.table = _frozen(frame.table) if frame.table is not None else None
    return copy


def _frozen(table: SlotTable) -> SlotTable:
    return SlotTable(table.first, table.ids, table.generation.copy(), table.epoch)


def _changes(before: SlotTable, after: SlotTable) -> list[str]:
    """What is wrong with the step from one table to the next."""
    if after.epoch == before.epoch:
        return [] if same_table(before, after) else ["has changed while its epoch has not"]
    n = min(len(before.ids), len(after.ids))
    if len(after.ids) < len(before.ids):
        return ["has become shorter"]
    faults = []
    if np.any(after.generation[:n] < before.generation[:n]):
        faults.append("has a generation that shrinks")
    renamed = np.array([bool(a) and a != b for a, b in zip(before.ids, after.ids, strict=False)], bool)
    if np.any(renamed & (after.generation[:n] == before.generation[:n])):
        faults.append("gives a slot to another id without a new generation")
    return faults
