"""Enforce the data contract at every tick: check what an adapter publishes before any reader gets it.

The checks cover the frames' signals, times and shapes, the range and uniqueness of their slots, every
value against the bounds of its column, and the slot tables of fleets with their generations. The loops
over rows are compiled. The plain functions of `cosim.contract.frame` check suspicious frames again and
word the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np

from cosim.bus.scan import CONSTANT, TALLY, UNBOUNDED, Rules, compile_all, kind_of, rules_of, sound, usable
from cosim.compiled.compiling import direct
from cosim.contract.entities import Scene
from cosim.contract.frame import Array, Frame, SlotTable, fault, misshapen, outside
from cosim.contract.signals import LARGEST, Column, Signal
from cosim.contract.tables import Names, TableCheck
from cosim.scenario.plan.plan import AdapterPlan


@dataclass(slots=True)
class ContractRecord:
    """What one adapter has published under the contract so far."""

    frames: int = 0
    rows: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # values at fault, by column

    def as_dict(self) -> dict[str, Any]:
        return {"frames": self.frames, "rows": self.rows, "faults": dict(self.faults)}


@dataclass(slots=True)
class _Layout:
    """How the frames of one signal are looked at."""

    signal: Signal
    pick: Callable[[Mapping[str, Array]], tuple[Array, ...]]  # the columns in the order of the declaration
    rules: Rules
    at: int  # address of `rules`
    size: int  # rows of `rules`
    count: int  # of columns
    rest: tuple[Column, ...]  # what compiled code does not look at
    tallies: Mapping[str, Array]  # of its counters
    last: tuple[object, ...] = ()  # keeps alive what `rules` remember by its address


class Inspection:
    """Looks at everything that one adapter publishes.

    `counting` lets a run go on whose only fault is in values: they are counted and passed on.
    """

    def __init__(
        self, plan: AdapterPlan, signals: Mapping[str, Signal], scene: Scene, *, counting: bool = False,
        names: Names | None = None,
    ) -> None:  # fmt: skip
        self.record = ContractRecord()
        self._signals = {name: signals[name] for name in plan.writes}
        self._capacity, self._workloads = scene.capacity, len(scene.workloads)
        self._simulated = plan.origin == "simulated"
        self._counting = counting
        self._tallies: list[Array] = []  # see `cosim.bus.scan.grows`
        self._layouts = {name: self._layout(signal) for name, signal in self._signals.items()}
        names = names or Names(scene)
        if self._tallies:
            names.on_reborn.append(self._reborn)
        self._tables = TableCheck(plan.name, scene, names)
        self._owns = any(fleet.adapter == plan.name for fleet in scene.fleets)
        self._mark = np.zeros(scene.capacity + 1, np.int64)  # see `cosim.bus.scan.sound_slots`
        self._mark_at = self._mark.ctypes.data
        self._compiled = usable()
        compile_all()
        self._sound = direct(sound) if self._compiled else sound

    def _layout(self, signal: Signal) -> _Layout:
        columns, rest = [], []
        tallies: dict[str, Array] = {}
        for column in signal.columns:
            dtype = np.dtype(column.dtype)
            low, high = column.bounds(self._capacity, self._workloads)
            bounded = dtype.kind in "iuf" and (low > -LARGEST or high < LARGEST or high == inf)
            if dtype.kind == "i":  # bounds as whole numbers of the dtype, so that nothing is converted
                info = np.iinfo(dtype)
                bounded = low > info.min or high < info.max
                low, high = int(max(low, info.min)), int(min(high, info.max))
            kind = kind_of(dtype, bounded=bounded, optional=column.optional)
            if kind is None:
                rest.append(column)
            elif column.role == "counter" and signal.rows == "node":
                tallies[column.name] = np.zeros((2, self._capacity))
            columns.append((dtype, UNBOUNDED if kind is None else kind, low, high))
        names = tuple(column.name for column in signal.columns)
        rules = rules_of(columns, self._capacity, unique=signal.rows == "node")
        for k, column in enumerate(signal.columns, 2):
            if column.name in tallies:
                rules[k, TALLY] = tallies[column.name].ctypes.data
        self._tallies += tallies.values()
        pick, at, size = _picker(names), rules.ctypes.data, len(rules)
        return _Layout(signal, pick, rules, at, size, len(names), tuple(rest), tallies)

    def look(self, frame: Frame, time: float) -> str:
        """Why `frame`, published at `time` (s), breaks the contract of its signal; "" when it does not."""
        record = self.record
        record.frames += 1
        if type(frame.time) is not float and not isinstance(frame.time, (float, int)):
            return f"the '{frame.signal}' frame carries a time that is a {type(frame.time).__name__}, not a number in s"
        if frame.time != time and (self._simulated or not 0.0 <= frame.time <= time):
            return f"the '{frame.signal}' frame carries the time {frame.time!r} s at the step to {time!r} s"
        layout, slot = self._layouts[frame.signal], frame.slot
        try:
            columns = layout.pick(frame.columns)
            found = len(frame.columns) == layout.count and self._compiled
        except (KeyError, TypeError):
            found = False
        if found and self._sound(id(slot), id(columns), layout.at, layout.size, self._mark_at):
            layout.last = slot, columns
            found = not layout.rest or self._inside(frame, layout)
        else:
            layout.rules[1:, CONSTANT] = 0
            found = False
        if not found:
            wrong = self._judge(frame, layout)
            if wrong:
                return wrong
        record.rows += len(slot)
        if self._owns or frame.table is not None:
            return self._tables.look(frame)
        return ""

    def kept(self, frame: Frame) -> SlotTable | None:
        """The table of `frame`, which was found good, as its owner cannot change it."""
        return None if frame.table is None else self._tables.kept(frame.table)

    def _reborn(self, slots: Array) -> None:
        """Allow every counter of `slots`, which have another member now, to begin again once."""
        for tally in self._tallies:
            tally[1, slots] += 1

    def _inside(self, frame: Frame, layout: _Layout) -> bool:
        """Whether the columns are inside their bounds that compiled code does not look at."""
        return not any(outside(frame[c.name], c, self._capacity, self._workloads)[0] for c in layout.rest)

    def _judge(self, frame: Frame, layout: _Layout) -> str:
        """The same in plain numpy, with the words for what is wrong."""
        signal = layout.signal
        wrong = misshapen(frame, signal, self._capacity)
        if wrong:
            return wrong
        for column in signal.columns:
            count, _ = outside(frame[column.name], column, self._capacity, self._workloads)
            if count:
                entry = f"{signal.name}.{column.name}"
                self.record.faults[entry] = self.record.faults.get(entry, 0) + count
                # slots are what readers find their rows by: a wrong one cannot be passed on
                if not self._counting or column.role not in ("value", "counter"):
                    return fault(frame, signal, self._capacity, self._workloads)
        return self._falls(frame, layout)

    def _falls(self, frame: Frame, layout: _Layout) -> str:
        """Which counter of `frame`, otherwise sound, is below what it was for the same member."""
        if layout.tallies and frame.table is not None:
            self._tables.look(frame)  # a slot's next member begins again; the look that counts comes later
        for name, tally in layout.tallies.items():
            values, slot = frame[name].astype(np.float64), frame.slot
            last = tally[0, slot]
            fallen = np.flatnonzero(values < last)
            if (cheating := fallen[tally[1, slot[fallen]] <= 0.0]).size and not self._counting:
                row = cheating[0]
                return (
                    f"{layout.signal.name}.{name} fell from {last[row]:.9g} to {values[row]:.9g} at slot {slot[row]}; "
                    "a counter only grows"
                )
            if cheating.size:
                entry = f"{layout.signal.name}.{name}"
                self.record.faults[entry] = self.record.faults.get(entry, 0) + cheating.size
            tally[1, slot[fallen]] -= 1
            tally[0, slot] = np.where(np.isnan(values), last, values)
        return ""


def _picker(names: tuple[str, ...]) -> Callable[[Mapping[str, Array]], tuple[Array, ...]]:
    if len(names) == 1:
        only = names[0]
        return lambda columns: (columns[only],)
    return itemgetter(*names) if names else lambda _columns: ()
