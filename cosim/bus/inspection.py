"""The data contract, held to at every tick: what an adapter publishes is looked at before anyone reads it.

Looked at are the frames' signals, times and shapes, the range and uniqueness of their slots, every
value against the bounds of its column, and the slot tables of fleets with their generations. The loops
over rows are compiled. What they find suspicious is judged again by the plain functions of
`cosim.contract.frame`, which also give the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cosim.bus.scan import compile_all, finite, inside, inside_i4, inside_i8, sound_slots
from cosim.compiling import jitted
from cosim.contract.entities import Scene
from cosim.contract.frame import Array, Frame, fault, outside
from cosim.contract.signals import LARGEST, Column, Signal
from cosim.contract.tables import TableCheck
from cosim.plan.plan import AdapterPlan

_COMPILED: Mapping[str, Callable[..., int]] = {"float64": inside, "int32": inside_i4, "int64": inside_i8}


@dataclass(slots=True)
class ContractRecord:
    """What one adapter has published under the contract so far."""

    frames: int = 0
    rows: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # values at fault, by column

    def as_dict(self) -> dict[str, Any]:
        return {"frames": self.frames, "rows": self.rows, "faults": dict(self.faults)}


class _Limit(NamedTuple):
    """How the values of one column are looked at."""

    name: str
    dtype: np.dtype[Any]
    scan: Callable[..., int] | None  # None: in plain numpy
    low: float | int
    high: float | int
    optional: bool
    checked: bool  # whether a value of this dtype can be at fault at all
    column: Column


class Inspection:
    """Looks at everything that one adapter publishes.

    `counting` lets a run go on whose only fault is in values: they are counted and passed on.
    """

    def __init__(
        self, plan: AdapterPlan, signals: Mapping[str, Signal], scene: Scene, *, counting: bool = False
    ) -> None:
        self.record = ContractRecord()
        self._signals = {name: signals[name] for name in plan.writes}
        self._capacity, self._workloads = scene.capacity, len(scene.workloads)
        self._simulated = plan.origin == "simulated"
        self._counting = counting
        self._unique = {name: signal.rows == "node" for name, signal in self._signals.items()}
        self._limits = {name: self._columns(signal) for name, signal in self._signals.items()}
        self._tables = TableCheck(plan.name, scene)
        self._owns = any(fleet.adapter == plan.name for fleet in scene.fleets)
        self._mark = np.zeros(max(1, scene.capacity), np.int64)  # slot -> stamp of the frame that held it last
        self._stamp = 0
        compile_all()
        # the loops take arrays of this process; what came from another one is read-only
        self._plain = set(self._signals) if plan.isolated or plan.connect or not jitted() else set[str]()

    def _columns(self, signal: Signal) -> tuple[_Limit, ...]:
        found = []
        for column in signal.columns:
            dtype = np.dtype(column.dtype)
            low, high = column.bounds(self._capacity, self._workloads)
            if dtype.kind in "iu":  # bounds as whole numbers of the dtype, so that nothing is converted
                info = np.iinfo(dtype)
                checked = low > info.min or high < info.max
                low, high = int(max(low, info.min)), int(min(high, info.max))
            else:
                checked, low, high = dtype.kind == "f", float(low), float(high)
            scan = _COMPILED.get(dtype.name) if checked else None
            if scan is inside and (low, high, column.optional) == (-LARGEST, LARGEST, False):
                scan = finite
            found.append(_Limit(column.name, dtype, scan, low, high, column.optional, checked, column))
        return tuple(found)

    def look(self, frame: Frame, time: float) -> str:
        """Why `frame`, published at `time` (s), breaks the contract of its signal; "" when it does not."""
        name = frame.signal
        self.record.frames += 1
        if frame.time != time and (self._simulated or not 0.0 <= frame.time <= time):
            return f"the '{name}' frame carries the time {frame.time!r} s at the step to {time!r} s"
        if (name in self._plain or not self._sound(frame, name)) and (wrong := self._judge(frame, name)):
            return wrong
        self.record.rows += len(frame.slot)
        if self._owns or frame.table is not None:
            return self._tables.look(frame)
        return ""

    def _sound(self, frame: Frame, name: str) -> bool:
        """Whether nothing is suspicious. The loops refuse whatever is no plain array of the right kind."""
        limits, slot, columns = self._limits[name], frame.slot, frame.columns
        try:
            shape, rows = slot.shape, len(slot)
            self._stamp = stamp = self._stamp + 1
            if not sound_slots(slot, self._mark, stamp, self._capacity, self._unique[name]):
                return False
            if len(columns) != len(limits):
                return False
            for column, dtype, scan, low, high, optional, _, declared in limits:
                values = columns[column]
                if values.shape != shape or values.dtype is not dtype:
                    return False
                if scan is not None:
                    if scan(values, low, high, optional) != rows:
                        return False
                elif not values.flags.c_contiguous or outside(values, declared, self._capacity, self._workloads)[0]:
                    return False
        except (AttributeError, KeyError, TypeError):
            self._plain.add(name)  # its producer hands out views; they are looked at with numpy from now on
            return False
        return True

    def _judge(self, frame: Frame, name: str) -> str:
        """The same in plain numpy, with the words for what is wrong."""
        signal, limits = self._signals[name], self._limits[name]
        if not self._shaped(frame, limits) or not self._slots_sound(frame.slot, self._unique[name]):
            wrong = fault(frame, signal, self._capacity, self._workloads)
            if wrong:
                return wrong
        for limit in limits:
            if limit.checked and len(frame.slot):
                wrong = self._value_at_fault(frame, signal, limit)
                if wrong:
                    return wrong
        return ""

    def _shaped(self, frame: Frame, limits: tuple[_Limit, ...]) -> bool:
        """Whether the arrays are as declared, as far as that is seen at a glance."""
        slot, columns = frame.slot, frame.columns
        if type(slot) is not np.ndarray or slot.ndim != 1 or not slot.flags.c_contiguous:
            return False
        if len(columns) != len(limits):
            return False
        shape = slot.shape
        for limit in limits:
            column = columns.get(limit.name)
            if type(column) is not np.ndarray or column.dtype is not limit.dtype:
                return False
            if column.shape != shape or not column.flags.c_contiguous:
                return False
        return True

    def _slots_sound(self, slot: Array, unique: bool) -> bool:
        """Whether all of `slot` lie in the scene and, with `unique`, none is there twice."""
        if slot.dtype != np.int32:
            return False
        if not len(slot):
            return True
        if not slot.flags.carray:  # a view of what another process sent
            slot = np.array(slot, np.int32)
        self._stamp += 1
        return bool(sound_slots(slot, self._mark, self._stamp, self._capacity, unique))

    def _value_at_fault(self, frame: Frame, signal: Signal, limit: _Limit) -> str:
        name = limit.name
        count, _ = outside(frame[name], limit.column, self._capacity, self._workloads)
        if not count:
            return ""
        entry = f"{signal.name}.{name}"
        self.record.faults[entry] = self.record.faults.get(entry, 0) + count
        # slots are what readers find their rows by: a wrong one cannot be passed on
        if self._counting and limit.column.role in ("value", "counter"):
            return ""
        return fault(frame, signal, self._capacity, self._workloads)
