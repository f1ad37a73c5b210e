"""Rows about hosts and devices, and the ledgers at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.real_load import RealLoad
from cosim.adapters.continuum.world import ContinuumWorld
from cosim.contract.adapter import Summary
from cosim.contract.entities import Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import ACCELERATORS, MACHINE_STATE, TASK, TASK_STATUS
from cosim.contract.unfinished import reported
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.ledger import NodeMeters, RunLedger, owned
from cosim.engine.continuum.resources import Resources
from cosim.engine.continuum.system import System

Slots = NDArray[np.int64]
ByNode = Callable[[NDArray[np.float64]], dict[str, float]]
# columns of the `task` signal that the engine calls otherwise
_ENGINE_NAMES = {"task": "serial"}


class HostAccounts:
    """Turns the engine's meters, which run on for a slot, into rows about the node that is there."""

    def __init__(self, engine: Engine, world: ContinuumWorld, scene: Scene, real: RealLoad | None = None) -> None:
        self._engine, self._real = engine, RealLoad(scene) if real is None else real
        kinds, kind = world.system.kinds, world.system.kind

        def each(name: str) -> NDArray[np.float64]:
            return np.array([float(getattr(one, name)) for one in kinds])[kind]

        self._cores = each("cores")
        self._prices = each("price_cpu"), each("price_transfer"), each("price_energy"), each("price_own")
        self._billed = each("tariff") >= 0
        self._rented = any(one.rented for one in kinds)
        static = np.arange(scene.capacity) < len(scene.nodes)
        radio = np.zeros(scene.capacity, np.bool_)
        radio[: len(scene.nodes)] = [node.tier == "device" and node.radio is not None for node in scene.nodes]
        self._sends = radio | ~static
        self._zero = np.zeros((6, scene.capacity))  # readings when the node appeared
        self._last = np.zeros((3, scene.capacity))  # s, busy s and J at the last row, as the engine has them

    def begin(self, slots: Slots) -> None:
        """Other nodes are at these slots from now on: their meters start at zero."""
        meters = self._engine.meters(slots)
        self._zero[:, slots] = self._readings(slots, meters, self._engine.now, self._billed_now(slots))
        self._note(slots, self._engine.now, meters)

    def _note(self, slots: Slots, time: float, meters: NodeMeters) -> None:
        self._last[0, slots] = time
        self._last[1, slots] = meters.busy
        self._last[2, slots] = meters.energy

    def _billed_now(self, slots: Slots) -> NDArray[np.float64] | None:
        """What the energy of these nodes costs by their tariffs; None: none has one."""
        return self._engine.bills()[1, slots] if self._billed.any() else None

    def _readings(
        self, slots: Slots, meters: NodeMeters, now: float | NDArray[np.float64], billed: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """(6, n) J, cost, completed, B sent, B received, busy s; (6, m, n) for meters and `now` of m times."""
        cpu, transfer, energy, own = (price[slots] for price in self._prices)
        paid = energy * meters.energy
        if billed is not None:
            paid = np.where(self._billed[slots], billed, paid)
        if self._rented:
            now = owned(self._engine.state, self._engine.system)[slots]
        real = self._real.energy[slots]
        cost = cpu * meters.busy + transfer * meters.transferred + paid + energy * real + own * now
        return np.stack([meters.energy + real, cost, meters.completed, meters.sent, meters.received, meters.busy])

    def _there(self, which: NDArray[np.bool_]) -> Slots:
        return np.flatnonzero(which & (self._engine.state.nodes["present"] != 0))

    def host_frame(self, time: float) -> Frame:
        """One row per present node with cores; means are over the time since its last row."""
        slots = self._there(self._cores > 0)
        meters = self._engine.meters(slots)
        since, busy, joules = self._last[:, slots]
        span = time - since
        real = self._real.busy[slots], self._real.energy[slots]
        share = self._share(slots, span, meters.busy - busy)
        self._real.passed(slots, span, share, meters.energy - joules, meters.up)
        more_busy, more_joules = self._real.busy[slots] - real[0], self._real.energy[slots] - real[1]
        readings = self._readings(slots, meters, self._engine.now, self._billed_now(slots)) - self._zero[:, slots]
        columns = self._columns(slots, span, meters, share, more_busy, meters.energy - joules + more_joules, readings)
        self._note(slots, time, meters)
        return Frame("host", time, slots.astype(np.int32), columns)

    def _share(self, slots: Slots, span: NDArray[np.float64], busy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean share of the cores that were busy for `busy` s in all."""
        return np.where(span > 0.0, busy / (np.where(span > 0.0, span, 1.0) * self._cores[slots]), 0.0)

    def _columns(
        self, slots: Slots, span: NDArray[np.float64], meters: NodeMeters, share: NDArray[np.float64],
        more_busy: NDArray[np.float64] | float, joules: NDArray[np.float64], readings: NDArray[np.float64],
    ) -> dict[str, NDArray[Any]]:  # fmt: skip
        """Those of the signal `host`, after a `span` in which nodes took these `joules`."""
        safe = np.where(span > 0.0, span, 1.0)
        return {
            "running": meters.running.astype(np.int32),
            "utilisation": share + more_busy / (safe * self._cores[slots]),
            "power": np.where(span > 0.0, joules / safe, meters.power),
            "energy": readings[0],
            "cost": readings[1],
            "completed": readings[2].astype(np.int64),
            "up": meters.up,
        }

    def traffic_frame(self, time: float) -> Frame:
        """One row per present device with a radio."""
        slots = self._there(self._sends)
        meters = self._engine.meters(slots)
        readings = self._readings(slots, meters, self._engine.now, None) - self._zero[:, slots]
        columns = {
            "uploads": meters.uploads.astype(np.int32),
            "downloads": meters.downloads.astype(np.int32),
            "sent": readings[3],
            "received": readings[4],
        }
        return Frame("traffic", time, slots.astype(np.int32), columns)


class HostLog(HostAccounts):
    """The rows of a run that are read only at its end, without nodes that come, go or really compute."""

    def __init__(self, engine: Engine, world: ContinuumWorld, scene: Scene) -> None:
        super().__init__(engine, world, scene)
        self._slots = self._there(self._cores > 0)
        self._seen: list[tuple[float, NodeMeters, NDArray[np.float64] | None]] = []

    def look(self) -> None:
        """Take down what the meters show now."""
        self._seen.append((self._engine.now, self._engine.meters(self._slots), self._billed_now(self._slots)))

    def rows(self) -> dict[str, NDArray[Any]]:
        """The columns of `host_frame` at each look, one after another, and `time` and `slot`."""
        slots, times = self._slots, np.array([time for time, _, _ in self._seen])[:, None]
        meters = NodeMeters(**{
            one.name: np.stack([getattr(seen, one.name) for _, seen, _ in self._seen]) for one in fields(NodeMeters)
        })  # fmt: skip
        billed = np.stack([bill for _, _, bill in self._seen if bill is not None]) if self._billed.any() else None
        span, busy, joules = (np.diff(values, axis=0, prepend=0.0) for values in (times, meters.busy, meters.energy))
        share, readings = self._share(slots, span, busy), self._readings(slots, meters, times, billed)
        columns = {
            **self._columns(slots, span, meters, share, 0.0, joules, readings),
            "time": np.broadcast_to(times, share.shape),
            "slot": np.broadcast_to(slots, share.shape),
        }
        return {name: column.reshape(-1) for name, column in columns.items()}


def task_frame(engine: Engine, time: float, ended: Mapping[str, NDArray[Any]]) -> Frame:
    """The rows of what the engine drained; a job has one row, and its stages are in the books."""
    if len(engine.state.stages):
        whole = ended["stage"] < 0
        ended = {name: column[whole] for name, column in ended.items()}
    columns: dict[str, NDArray[np.generic]] = {
        column.name: np.ascontiguousarray(ended[_ENGINE_NAMES.get(column.name, column.name)].astype(column.dtype))
        for column in TASK.columns
    }
    return Frame("task", time, ended["device"].astype(np.int32), columns)


def _tasks(tally: NDArray[np.int64], in_flight: int) -> dict[str, object]:
    """The book of tasks from one row of the engine's tally."""
    failed = {name: int(tally[2 + status]) for status, name in enumerate(TASK_STATUS) if status > 0}
    return {
        "created": int(tally[0]),
        "completed": int(tally[2]),
        "late": int(tally[1]),
        "failed": {name: count for name, count in failed.items() if count},
        "in_flight": in_flight,
    }


def _equipment(now: Resources, by_node: ByNode, world: ContinuumWorld) -> dict[str, object]:
    """The books of accelerators, machines and batteries, as far as there are any."""
    count = len(world.group)

    def each(slots: Slots, amount: NDArray[np.float64]) -> dict[str, float]:
        sums = np.zeros(count)
        np.add.at(sums, slots, amount)
        return by_node(sums)

    found: dict[str, object] = {}
    if len(now.accelerator_node):
        found["accelerators"] = {
            ACCELERATORS[kind]: {
                "energy": each(now.accelerator_node[of], now.accelerator_energy[of]),
                "busy": each(now.accelerator_node[of], now.accelerator_busy[of]),
                "waited": each(now.accelerator_node[of], now.accelerator_waited[of]),
                "completed": int(now.accelerator_completed[of].sum()),
            }
            for kind in np.unique(now.accelerator_kind).tolist()
            for of in (now.accelerator_kind == kind,)
        }
    if len(now.machine_node):
        found["states"] = {
            name: each(now.machine_node, now.spells[:, code]) for code, name in enumerate(MACHINE_STATE[:-1])
        }
    if len(now.battery_node):
        names = ("charged", "consumed", "taken", "level")
        found["batteries"] = {
            **{name: each(now.battery_node, getattr(now, name)) for name in names},
            "empty": int(now.empty.sum()),
        }
    return found


def _demand(books: RunLedger, scene: Scene, by_node: ByNode) -> dict[str, object]:
    """The books of graphs, tariffs and agreements, as far as there are any."""
    found: dict[str, object] = {}
    stages: dict[str, dict[str, object]] = {load.name: {} for load in scene.workloads if load.graph}
    names = [(load.name, stage.name) for load in scene.workloads for stage in load.graph]
    for k, (load, stage) in enumerate(names):
        row = books.stages[k]
        stages[load][stage] = _tasks(np.concatenate([row[:1], [0], row[1:]]), int(books.stages_in_flight[k]))
    if stages:
        found["stages"] = stages
    if scene.tariffs:
        found["carbon"] = {
            "grams": float(books.carbon.sum()),
            "green_energy": float(books.green.sum()),
            "brown_energy": float(books.brown.sum()),
            "by_node": by_node(books.carbon),
        }
    if books.services:
        found["agreements"] = {
            scene.workloads[k].name: {
                "tasks": service.standing.tasks,
                "violations": service.standing.violations,
                "excess": service.standing.excess,
                "periods_below": service.standing.periods_below,
                "kept": service.kept,
                "met": service.met,
                "penalty": service.penalty,
            }
            for k, service in books.services.items()
        }
    return found


def _tariffs(
    books: RunLedger, system: System, scene: Scene
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, dict[str, float]]]:
    """Energy by price window of each tariff that has windows, and the cost of energy by tariff."""
    tariff = np.array([kind.tariff for kind in system.kinds])[system.kind]
    by_window = {}
    for k, one in enumerate(scene.tariffs):
        if not one.windows:
            continue
        mine = tariff == k
        inside = books.windows[: len(one.windows), mine].sum(axis=1)
        names = (f"{window.begin:g}..{window.end:g} s" for window in one.windows)
        by_window[one.name] = {name: float(joules) for name, joules in zip(names, inside, strict=True)}
        by_window[one.name]["otherwise"] = float(books.energy[mine].sum() - inside.sum())
    cost = {one.name: float(books.cost_energy[tariff == k].sum()) for k, one in enumerate(scene.tariffs)}
    return {"by_window": by_window} if by_window else {}, {"energy_by_tariff": cost} if cost else {}


def _use(engine: Engine, world: ContinuumWorld, scene: Scene, real: RealLoad) -> dict[str, object]:
    """The cores of each host, and the mean share of them in use; not of fleets, whose members come and go."""
    if any(fleet.template.cores > 0 for fleet in scene.fleets) or engine.now <= 0.0:
        return {}
    slots = np.array([slot for slot, node in enumerate(scene.nodes) if node.cores > 0], np.int64)
    cores = np.array([scene.nodes[slot].cores for slot in slots.tolist()])
    use = (engine.meters(slots).busy + real.busy[slots]) / (cores * engine.now)
    names = [world.names[slot] for slot in slots]
    return {
        name: dict(zip(names, map(float, each), strict=True)) for name, each in (("utilisation", use), ("cores", cores))
    }


def _penalty(books: RunLedger, scene: Scene) -> dict[str, object]:
    """What is owed for agreements that were not kept, if anything is agreed."""
    if not books.services:
        return {}
    owed = {scene.workloads[k].name: service.penalty for k, service in books.services.items()}
    return {"penalty": {"total": books.penalty, "by_workload": owed}}


def _real(real: RealLoad, by_node: ByNode, world: ContinuumWorld) -> dict[str, object]:
    """What hosts that really computed add to the books, if there were any."""
    if not real.metered and not real.modelled:
        return {}
    names = [{world.names[world.group[slot]] for slot in slots} for slots in (real.metered, real.modelled)]
    return {
        "real_load": {
            "energy": float(real.energy.sum()),
            "energy_by_node": by_node(real.energy),
            "core_seconds": by_node(real.busy),
            "metered": sorted(names[0]),
            "modelled": sorted(names[1]),
        },
        "origins": {"host": sorted({"simulated", "measured", *(("modelled",) if real.modelled else ())})},
    }


def summary(engine: Engine, world: ContinuumWorld, scene: Scene, real: RealLoad | None = None) -> Summary:
    """The ledgers: tasks, bytes, energy and cost. Fleets are booked under the fleet's name.

    `energy.total` is the sum over `by_node` plus `radio`, `cells` (if they use any) and `links`;
    `cost.total` the sum over `by_node` plus `penalty.total` (if anything is agreed), and of `cpu`,
    `transfer`, `energy`, `own` (if any node has a price of owning it) and `penalty.total`.
    `energy.by_window` of a tariff adds up to the energy of its nodes, and so do `carbon.green_energy`
    and `carbon.brown_energy` of all tariffs. All of them include the energy of hosts that really
    computed; `real_load` is the part beyond what the engine simulates.
    """
    books = engine.ledger()
    real = RealLoad(scene) if real is None else real
    kinds, kind = world.system.kinds, world.system.kind
    priced = real.energy * np.array([one.price_energy for one in kinds])[kind]
    other = real.energy * np.array([one.tariff >= 0 for one in kinds])[kind]  # tariffs do not know of it
    books = replace(
        books, energy=books.energy + real.energy, cost_energy=books.cost_energy + priced, brown=books.brown + other
    )
    count = len(world.names)

    def by_node(amount: NDArray[np.float64]) -> dict[str, float]:
        sums = np.bincount(world.group, weights=amount, minlength=count)
        return {name: float(value) for name, value in zip(world.names, sums, strict=True) if value}

    def flow(values: tuple[float, float, float, float]) -> dict[str, float]:
        return dict(zip(("offered", "delivered", "dropped", "in_transit"), values, strict=True))

    tiers = np.bincount(world.tier, weights=books.energy, minlength=3)
    radio, cells, links = float(books.radio.sum()), float(books.cells.sum()), float(books.links.sum())
    cost = books.cost_cpu + books.cost_transfer + books.cost_energy + books.cost_own
    by_window, by_tariff = _tariffs(books, world.system, scene)
    of, ages = books.unfinished
    loads = {
        load.name: {**_tasks(books.tally[k], int(books.in_flight[k])), "ages": reported(ages[of == k])}
        for k, load in enumerate(scene.workloads)
    }
    return {
        **_equipment(engine.resources(), by_node, world),
        "tasks": _tasks(books.tally.sum(axis=0), int(books.in_flight.sum())),
        "workloads": loads,
        "bytes": {"input": flow(books.input), "output": flow(books.output)},
        "energy": {
            "total": float(books.energy.sum()) + radio + cells + links,
            "by_node": by_node(books.energy),
            "by_tier": {name: float(tiers[k]) for k, name in enumerate(("device", "edge", "cloud"))},
            "radio": radio,
            "links": links,
            **({"cells": cells} if cells else {}),
            **by_window,
        },
        "cost": {
            "total": books.cost,
            "by_node": by_node(cost),
            "cpu": float(books.cost_cpu.sum()),
            "transfer": float(books.cost_transfer.sum()),
            "energy": float(books.cost_energy.sum()),
            **({"own": float(books.cost_own.sum())} if books.cost_own.any() else {}),
            **by_tariff,
            **_penalty(books, scene),
        },
        **_use(engine, world, scene, real),
        **_real(real, by_node, world),
        "events": int(engine.state.meta["events"][0]),
        **_demand(books, scene, by_node),
    }
