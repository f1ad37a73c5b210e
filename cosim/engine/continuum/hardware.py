"""What nodes may have beyond a plain processor, as given to the engine, and its layout.

All of it is off by default: a node without it has no row in `State.machines` and
`State.batteries`, and costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.contract.entities import PricedQuantities, WorkloadQuantities
from cosim.contract.equipment import AcceleratorQuantities, ScalingQuantities
from cosim.contract.equipment import PowerStates as PowerStates
from cosim.contract.quantity import quantities
from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum.layout import (
    ABSENT,
    ACCELERATOR,
    BATTERY,
    MACHINE,
    ONDEMAND,
    PERFORMANCE,
    POINT,
    POWERSAVE,
    STATES,
)


@dataclass(frozen=True, slots=True)
class MachineAccelerator(AcceleratorQuantities):
    """Equal units of one kind, such as two GPUs."""

    kind: int  # number of the kind; a workload asks for it by this number
    units: int
    speed: float  # FLOP/s of one unit
    shared: bool = False  # all tasks share the units, instead of one task per unit and a queue


@dataclass(frozen=True, slots=True)
class MachinePoint:
    """A clock at which the cores can run, and the power there as in `Kind.power`."""

    clock: float  # cycles/s
    power: tuple[float, ...] = ()  # W


@dataclass(frozen=True, slots=True)
class MachineScaling(ScalingQuantities):
    """Operating points, slowest first, and who chooses among them.

    The governor `ondemand` looks every `period`: use above `threshold` takes it to the fastest
    point, otherwise it takes the slowest at which the use would have stayed below the threshold
    (Pallipadi and Starikovskiy, "The ondemand governor", Ottawa Linux Symposium 2006).
    """

    points: tuple[MachinePoint, ...]
    governor: int = int(PERFORMANCE)  # USERSPACE starts at the fastest point and stays where it is put

    @property
    def start(self) -> int:
        """The point in the beginning."""
        return 0 if self.governor in (POWERSAVE, ONDEMAND) else len(self.points) - 1


@dataclass(frozen=True, slots=True)
class NodeBattery:
    """What a node lives on. Its level in the beginning is uniform between `low` and `high`."""

    capacity: float  # J
    low: float = 1.0  # part of the capacity
    high: float = 1.0


@dataclass(frozen=True, slots=True)
class Quota:
    """CPU time for all tasks on a node together, as the kernel's CFS bandwidth control gives it to a group.

    In every `period` the tasks may use `quota` core-seconds; then they stop until the next one. Up to
    `burst` of what is left over is kept. Periods begin at `phase` and its multiples.
    """

    period: float  # s
    quota: float  # core-s
    burst: float = 0.0  # core-s
    phase: float = 0.0  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipped(PricedQuantities):
    """The part of `cosim.engine.continuum.system.Kind` that is laid out here."""

    accelerators: tuple[MachineAccelerator, ...] = ()
    states: PowerStates | None = None
    scaling: MachineScaling | None = None  # then `clock` is the fastest point's, and the points' powers hold
    battery: NodeBattery | None = None
    quota: Quota | None = None  # of CPU time, for all tasks on the node together


def _is_machine(kind: Equipped, memory: bool, storage: bool) -> bool:
    limits = (memory and kind.memory > 0.0) or (storage and kind.storage > 0.0)
    return bool(limits or kind.accelerators or kind.states is not None or kind.scaling is not None or kind.quota)


def _holders(kinds: Sequence[Equipped], kind: Ints, has: Callable[[Equipped], bool]) -> list[int]:
    """The nodes whose kind `has` what is asked about. A record that stands for many kinds is asked once."""
    known = {id(one): has(one) for one in {id(one): one for one in kinds}.values()}
    found: list[int] = np.flatnonzero(np.array([known[id(one)] for one in kinds], np.bool_)[kind]).tolist()
    return found


def tables(scaling: MachineScaling | None) -> list[tuple[float, ...]]:
    """The power tables of the operating points."""
    return [] if scaling is None else [double(point.power) for point in scaling.points]


def double(power: tuple[float, ...]) -> tuple[float, ...]:
    """A power table has at least two values."""
    return power * 2 if len(power) == 1 else power


def machines(
    kinds: Sequence[Equipped], kind: Ints, first_power: Sequence[int], memory: bool, storage: bool
) -> tuple[Records, Records, Records]:
    """MACHINE, ACCELERATOR and POINT rows of the nodes that need them.

    `first_power[k]` is where the power tables of kind k's operating points begin; `memory` and
    `storage` are whether any task takes some.
    """
    slots = _holders(kinds, kind, lambda one: _is_machine(one, memory, storage))
    rows: Records = np.zeros(len(slots), MACHINE)
    units: list[tuple[float, float, int, int, int]] = []
    points: list[tuple[float, int, int]] = []
    for row, n in zip(rows, slots, strict=True):
        one = kinds[kind[n]]
        states = one.states or PowerStates()
        for name in quantities(PowerStates):
            row[name] = getattr(states, name)
        for name in ("memory", "storage"):
            row[name] = row[f"free_{name}"] = getattr(one, name) or math.inf
        row["node"], row["state"] = n, ABSENT
        if one.quota is not None:
            row["quota"], row["quota_period"], row["burst"] = one.quota.quota, one.quota.period, one.quota.burst
            row["phase"], row["refills"] = one.quota.phase, -1
        row["head"] = row["tail"] = -1
        row["first_accelerator"], row["accelerators"] = len(units), len(one.accelerators)
        units += [(part.idle, part.max, 0, n, part.kind) for part in one.accelerators]
        row["first_point"] = len(points)
        place = first_power[kind[n]]
        for point, table in zip(one.scaling.points if one.scaling else (), tables(one.scaling), strict=True):
            points.append((point.clock, place, len(table)))
            place += len(table)
        if one.scaling is not None:
            row["points"], row["governor"] = len(one.scaling.points), one.scaling.governor
            for name in quantities(ScalingQuantities):
                row[name] = getattr(one.scaling, name)
            row["point"] = one.scaling.start
    return rows, np.array(units, ACCELERATOR), np.array(points, POINT)


def batteries(kinds: Sequence[Equipped], kind: Ints) -> Records:
    """BATTERY rows of the nodes that have one."""
    slots = _holders(kinds, kind, lambda one: one.battery is not None)
    rows: Records = np.zeros(len(slots), BATTERY)
    for row, n in zip(rows, slots, strict=True):
        cell = kinds[kind[n]].battery
        if cell is not None:
            row["capacity"], row["low"], row["high"] = (
                cell.capacity,
                cell.low * cell.capacity,
                cell.high * cell.capacity,
            )
        row["node"] = n
    return rows


def spells(rows: Records) -> Floats:
    """(machines, STATES) s spent in each state: none yet."""
    return np.zeros((len(rows), int(STATES)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(WorkloadQuantities):
    """The part of `cosim.engine.continuum.system.WorkloadStream` with what its tasks need of a host."""

    accelerator: int = -1  # kind of accelerator that a task needs after its work, -1: none
    graph: tuple[Any, ...] = ()  # the stages of a job, `JobStage`; without any, a plain task that does `work`


def runs_anywhere(load: Asking, kinds: Sequence[Equipped]) -> bool:
    """Whether hosts of all these kinds could run every task of the workload, if they were empty."""
    asked = {load.accelerator, *(stage.accelerator for stage in load.graph)} - {-1}
    return all(
        load.memory <= (kind.memory or math.inf)
        and load.storage <= (kind.storage or math.inf)
        and asked <= {part.kind for part in kind.accelerators}
        for kind in kinds
    )
