"""Estimate what a plan needs (tasks, memory, disk, time), and what of it this machine does not have.

The figures are rough and meant to distinguish a run of minutes from one that cannot end. The factors were
measured with the radio and the continuum on one core of a virtual machine. What files of others need, and how many
members a fleet has, adapters say that know it. Of other fleets tasks count the capacity, and memory a tenth of it.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cosim.contract.entities import Scene, SlotRange, Workload
from cosim.contract.errors import Problem
from cosim.contract.signals import CATALOGUE
from cosim.scenario.plan.plan import Plan

BASE_MEMORY = 350e6  # B, interpreter and compiled code
SLOT_MEMORY = 8e3  # B: 99,000 devices took 1.2 GB
PAIR_MEMORY = 300.0  # B per pair of linked nodes
ROUTE_MEMORY = 12.0  # B, in the continuum, from each node that forwards to each other one, and again to each host
TASK_MEMORY = 500.0  # B, of a task that is new in this step: engine, frame, recorder
TASK_SECONDS = 9e-6  # CPU s
ROW_SECONDS = 3.8e-6  # CPU s per node and step
STEP_SECONDS = 3e-4  # CPU s per adapter and step
PACKED = 0.5  # part of the columns' bytes that Parquet keeps
_SUMMARY = 2000  # B of a column's statistics in a window: some 4 groups with 80 bins each
_BYTES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4}  # of a value; others have 8
LONGEST = 30 * 86_400.0  # s that a run may take


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is."""

    memory: float  # B
    disk: float  # B free where results go

    @staticmethod
    def here(folder: Path | None = None) -> Machine:
        """This machine; memory as far as the control group lets us have it."""
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
            try:
                memory = min(memory, float(Path(file).read_text(encoding="ascii")))
            except (OSError, ValueError):  # no such group, or "max"
                continue
        return Machine(memory, float(shutil.disk_usage(folder or Path.cwd()).free))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run takes."""

    tasks: float  # made in the whole run
    memory: float  # B
    disk: float  # B
    seconds: float  # s, until it ends
    heaviest: str = ""  # the workload that makes most tasks
    crowd: float = 0.0  # tasks that are made in one step at most
    paced: bool = False  # the clock on the wall sets the time
    held: Mapping[str, float] = field(default_factory=dict)  # B of files of others, by adapter

    def as_dict(self) -> dict[str, float]:
        """The figures for people's programs."""
        return {name: asdict(self)[name] for name in ("tasks", "memory", "disk", "seconds")}

    def __str__(self) -> str:
        return (
            f"about {_number(self.tasks)} tasks, {_bytes(self.memory)} of memory, {_bytes(self.disk)} of results, "
            f"{_time(self.seconds)}"
        )

    def excess(self, machine: Machine) -> list[Problem]:
        """What of it `machine` does not have."""
        force = "--force plans it all the same"
        found = []
        load = f"workloads.{self.heaviest}.arrivals"
        if self.memory > machine.memory:
            most = max(self.held, key=self.held.__getitem__, default="")
            if self.held.get(most, 0.0) > 0.5 * self.memory:
                text = f"its files take {_bytes(self.held[most])} of memory, this machine has {_bytes(machine.memory)}"
                found.append(Problem(text, most, hint=force))
            elif self.crowd * TASK_MEMORY > 0.5 * self.memory:
                text = f"makes {_number(self.crowd)} tasks in one step, which take {_bytes(self.crowd * TASK_MEMORY)}"
                found.append(Problem(f"{text}; this machine has {_bytes(machine.memory)}", load, hint=force))
            else:
                text = f"the scene takes {_bytes(self.memory)} of memory, this machine has {_bytes(machine.memory)}"
                found.append(Problem(text, "nodes", hint=force))
        if self.seconds > LONGEST and not found:
            mostly = load if self.tasks * TASK_SECONDS > 0.5 * self.seconds and not self.paced else "run.duration"
            text = f"the run would take {_time(self.seconds)}, more than {_time(LONGEST)}"
            found.append(Problem(text, mostly, hint=f"a shorter run, or a longer run.step; {force}"))
        if self.disk > machine.disk and not found:
            text = f"results would take {_bytes(self.disk)}, and {_bytes(machine.disk)} are free"
            hint = f"keep less with 'record', for example  record: {{'*': {{every: 1 min}}}}; {force}"
            found.append(Problem(text, "run.duration", hint=hint))
        return found


def estimate(plan: Plan) -> Estimate:
    """What a run of `plan` takes."""
    scene = plan.scene
    made = {load.name: _tasks(load, plan) for load in scene.workloads}
    tasks = math.fsum(made.values())
    crowd = math.fsum(_crowd(load, plan) for load in scene.workloads)
    pairs = sum(_count(link.a) * _count(link.b) for link in scene.links)
    rows = len(scene.nodes) * plan.ticks
    seconds = tasks * TASK_SECONDS + rows * ROW_SECONDS
    seconds += sum(plan.ticks / adapter.period * STEP_SECONDS for adapter in plan.adapters)
    paced = plan.duration / plan.pacing if plan.pacing > 0.0 else 0.0
    fixed = BASE_MEMORY + sum(plan.held.values())
    return Estimate(
        tasks=tasks,
        memory=fixed + SLOT_MEMORY * _slots(scene) + PAIR_MEMORY * pairs + _routes(plan) + TASK_MEMORY * crowd,
        disk=_disk(plan, tasks),
        seconds=max(seconds, paced),
        heaviest=max(made, key=made.__getitem__, default=""),
        crowd=crowd,
        paced=paced > seconds,
        held=plan.held,
    )


def _routes(plan: Plan) -> float:
    """B of the tables of routes."""
    forwarding = [node for node in plan.scene.nodes if node.tier != "device"]
    if not any(adapter.use == "continuum" for adapter in plan.adapters):
        return 0.0
    return ROUTE_MEMORY * len(forwarding) * (len(forwarding) + sum(node.cores > 0 for node in forwarding))


def _slots(scene: Scene) -> int:
    return len(scene.nodes) + sum(fleet.capacity for fleet in scene.fleets) // 10


def _count(ranges: Sequence[SlotRange]) -> int:
    return sum(part.count for part in ranges)


def _makers(load: Workload, plan: Plan) -> float:
    most = {fleet.first: plan.members.get(f"adapters.{fleet.adapter}", fleet.capacity) for fleet in plan.scene.fleets}
    return sum(min(part.count, most.get(part.first, part.count)) for part in load.sources) * load.share


def _per_second(load: Workload) -> float:
    """Tasks/s of one maker."""
    on = load.active / (load.active + load.idle) if load.active > 0.0 else 1.0
    return load.rate * on * (load.bag[0] if load.arrivals == "bag" else 1.0)


def _tasks(load: Workload, plan: Plan) -> float:
    span = max(0.0, min(load.stop, plan.duration) - load.start)
    return 0.0 if load.arrivals == "trace" else _makers(load, plan) * _per_second(load) * span


def _crowd(load: Workload, plan: Plan) -> float:
    """Tasks of `load` that are made within one step, at most."""
    step = max((adapter.period for adapter in plan.adapters), default=1) * plan.step
    makers = _makers(load, plan)
    bag = makers * load.bag[0] if load.arrivals == "bag" else 0.0
    return max(min(makers * _per_second(load) * step, _tasks(load, plan)), bag)


def _disk(plan: Plan, tasks: float) -> float:
    """B of the recorded columns of static nodes, and of tasks."""
    periods = {name: adapter.period * plan.step for adapter in plan.adapters for name in adapter.writes}
    total = 0.0
    for recording in plan.recordings:
        signal = CATALOGUE.get(recording.signal)
        if signal is None or not recording.keep:
            continue
        columns = [column for column in signal.columns if not recording.columns or column.name in recording.columns]
        row = 4 + sum(_BYTES.get(column.dtype, 8) for column in columns)  # with the slot
        kept = plan.duration / max(recording.every, periods.get(recording.signal, plan.step)) + 1.0
        nodes = sum(count for _, count in recording.slots) if recording.slots else len(plan.scene.nodes)
        if recording.summary:
            total += PACKED * _SUMMARY * len(columns) * (plan.duration / recording.summary + 1.0)
            continue
        rows = kept * nodes if signal.rows == "node" else tasks if recording.signal == "task" else 0.0
        total += PACKED * row * rows
    return total


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e7 else f"{value:.2g}"


def _bytes(value: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def _time(seconds: float) -> str:
    for unit, size in (("years", 365.25 * 86_400), ("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size or (unit == "min" and seconds >= 60.0):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"
