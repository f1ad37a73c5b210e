"""A scene as the interval model wants it: its hosts, its workloads, and who makes containers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.interval.config import IntervalConfig
from cosim.contract.adapter import Context
from cosim.contract.entities import Law, Node, Scene, SlotRange
from cosim.contract.entities import Workload as Stream
from cosim.contract.errors import Problem, ScenarioError
from cosim.peers.interval.fleet import HostFleet, Type
from cosim.peers.interval.quirks import QUIRKS, compatible
from cosim.peers.interval.workload import ContainerWorkload

MEGA = 1e6
_REMEDY = "remove it, or use the adapter 'continuum'"
_ENDLESS = 1e18  # rates and sizes that a scenario does not limit


@dataclass(frozen=True, slots=True, eq=False)
class IntervalWorld:
    """The hosts by slot, and the containers' profiles, one per workload of the scene."""

    slots: NDArray[np.int32]  # (H,) nodes of the scene
    nodes: tuple[Node, ...]
    fleet: HostFleet
    workload: ContainerWorkload
    quirks: frozenset[str]


def build(scene: Scene, config: IntervalConfig, name: str) -> IntervalWorld:
    """Hosts are the edge and cloud nodes with a cpu. Raises `ScenarioError` with all that is wrong."""
    where = f"adapters.{name}"
    problems = [
        Problem(
            f"there is no quirk '{quirk}'; known: {', '.join(QUIRKS)}", path=f"{where}.quirks", hint="correct the name"
        )
        for quirk in config.quirks
        if quirk not in QUIRKS
    ]
    known = [load.name for load in scene.workloads]
    problems += [
        Problem(
            f"there is no workload '{load}'; known: {', '.join(known) or 'none'}", path=f"{where}.containers.{load}"
        )
        for load in config.containers
        if load not in known
    ]
    slots = [slot for slot, node in enumerate(scene.nodes) if node.tier != "device" and node.cores > 0]
    if not slots:
        problems.append(
            Problem("no edge or cloud node has a cpu", path="nodes", hint="give a node of tier edge 'cpu: 4 x 1.8 GHz'")
        )
    problems += [
        Problem(f"the model knows no {words}", path=f"workloads.{load.name}.{key}", hint=_REMEDY)
        for load in scene.workloads
        for key, words in load.specialities().items()
    ]
    if problems:
        raise ScenarioError(problems)
    nodes = tuple(scene.nodes[slot] for slot in slots)
    quirks = compatible() if config.physics == "compatible" else frozenset[str]()
    quirks = (quirks | {q for q, on in config.quirks.items() if on}) - {q for q, on in config.quirks.items() if not on}
    up, down = config.uplink / 8.0 / MEGA, config.downlink / 8.0 / MEGA
    if "swapped-bandwidth" in quirks:
        up, down = down, up
    latency = None
    if "latency-by-index" in quirks:
        near = round(0.6 * len(nodes))
        latency = tuple(config.edge_latency if i < near else config.cloud_latency for i in range(len(nodes)))
    types = tuple(
        Type(
            node.cores * node.clock / MEGA, node.memory / MEGA or _ENDLESS, _ENDLESS, (_ENDLESS, _ENDLESS),
            (_ENDLESS, _ENDLESS), up, down, node.power.table if node.power else (0.0, 0.0),
            config.cloud_latency if node.tier == "cloud" else config.edge_latency,
            node.cost.cpu * node.cores * 3600.0,
        )
        for node in nodes
    )  # fmt: skip
    fleet = HostFleet(types, tuple(range(len(nodes))), latency, config.router / 8.0 / MEGA)
    return IntervalWorld(np.array(slots, np.int32), nodes, fleet, _workload(scene, config), quirks)


def _workload(scene: Scene, config: IntervalConfig) -> ContainerWorkload:
    """One profile per workload; containers are added as they come."""
    count = max(len(scene.workloads), 1)
    demand, peak = np.zeros((count, 1, 6)), np.zeros(count)
    for k, load in enumerate(scene.workloads):
        own = config.containers.get(load.name)
        demand[k, 0, 0] = (own.demand if own and own.demand else config.demand) / MEGA
        demand[k, 0, 1] = _mean(load.input) / MEGA
        peak[k] = (own.peak if own and own.peak else config.peak) / MEGA
    names = tuple(load.name for load in scene.workloads) or ("none",)
    one = np.ones(count, np.int64)
    nothing = np.zeros(count)
    workload = ContainerWorkload(
        names, demand, one, peak, nothing, np.ones(count), work=nothing, due=np.stack([one, one], 1)
    )
    return workload.replay(np.empty((0, 4)))


def _mean(law: Law) -> float:
    return (law.a + law.b) / 2.0 if law.law == "uniform" else law.a


def _draw(law: Law, chance: np.random.Generator, count: int) -> NDArray[np.float64]:
    if law.law == "exponential":
        return chance.exponential(law.a, count)
    if law.law == "uniform":
        return chance.uniform(law.a, law.b, count)
    if law.law == "log-normal":
        variance = math.log1p(law.b * law.b)
        return law.a * chance.lognormal(-0.5 * variance, math.sqrt(variance), count)
    return np.full(count, law.a)


def _slots(ranges: tuple[SlotRange, ...]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([np.arange(part.first, part.first + part.count) for part in ranges]))


class Sources:
    """The devices that make containers: what comes at the end of each interval."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._period = context.period
        self._loads: list[tuple[Stream, NDArray[np.int64]]] = []
        for k, load in enumerate(context.scene.workloads):
            slots = _slots(load.sources)
            taking_part = context.rng(0, k).random(context.scene.capacity)[slots] < load.share
            self._loads.append((load, slots[taking_part]))

    def come(self, interval: int, present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Containers made while interval `interval` passed: rows as `Interval.add` takes them, and their devices."""
        rows, makers = [np.empty((0, 4))], [np.empty(0, np.int64)]
        for k, (load, slots) in enumerate(self._loads):
            chance = self._context.rng(1, interval, k)
            begin = max((interval - 1) * self._period, load.start)
            end = min(interval * self._period, load.stop)
            there = slots[present[slots]]
            if end <= begin or not len(there):
                continue
            on = load.active / (load.active + load.idle) if load.active > 0.0 else 1.0
            if load.arrivals == "poisson":
                counts = chance.poisson(load.rate * on * (end - begin), len(there))
            else:
                first, last = (int(load.rate * on * (t - load.start) + 1e-9) for t in (begin, end))
                counts = np.full(len(there), last - first)
            maker = np.repeat(there, counts)
            work = _draw(load.work, chance, len(maker)) / MEGA
            due = load.deadline / self._period
            same = np.tile([float(interval), float(k)], (len(maker), 1))
            rows.append(np.column_stack([same, work, np.full(len(maker), due)]))
            makers.append(maker)
        return np.concatenate(rows), np.concatenate(makers)
