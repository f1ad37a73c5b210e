"""A scene as the interval model wants it: its hosts, its workloads, and who makes containers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene, SlotRange
from cosim.contract.entities import Workload as Stream
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.laws import Law
from cosim.extensions.cosco.adapter.chance import EXPONENTIAL, NORMAL, NOTHING, UNIFORM, draws, words_of
from cosim.extensions.cosco.adapter.config import IntervalConfig
from cosim.extensions.cosco.interval.fleet import HostFleet, Type
from cosim.extensions.cosco.interval.quirks import QUIRKS, compatible
from cosim.extensions.cosco.interval.workload import ContainerWorkload

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
    problems += _oversized(scene, config, [scene.nodes[slot] for slot in slots], where)
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
            node.price_cpu * node.cores * 3600.0,
        )
        for node in nodes
    )  # fmt: skip
    fleet = HostFleet(types, tuple(range(len(nodes))), latency, config.router / 8.0 / MEGA)
    return IntervalWorld(np.array(slots, np.int32), nodes, fleet, _workload(scene, config), quirks)


def _oversized(scene: Scene, config: IntervalConfig, hosts: Sequence[Node], where: str) -> Iterator[Problem]:
    """Containers that no host could ever take."""
    cycles = max((node.cores * node.clock for node in hosts), default=math.inf)
    room = max((node.memory or math.inf for node in hosts), default=math.inf)
    for load in scene.workloads:
        own = config.containers.get(load.name)
        demand, memory = (own.demand if own and own.demand else config.demand), load.input.mean
        if demand > cycles:
            path = f"{where}.containers.{load.name}.demand" if own and own.demand else f"{where}.demand"
            text = f"containers of '{load.name}' demand {demand / 1e9:g} GHz, the largest host has {cycles / 1e9:g} GHz"
            yield Problem(text, path, hint="lower 'demand', or give a host a larger 'cpu'")
        if memory > room:
            text = f"a container takes the memory of its input, {memory:g} B, and the largest host has {room:g} B"
            yield Problem(text, f"workloads.{load.name}.input", hint="give a host more memory")


def _workload(scene: Scene, config: IntervalConfig) -> ContainerWorkload:
    """One profile per workload; containers are added as they come."""
    count = max(len(scene.workloads), 1)
    demand, peak = np.zeros((count, 1, 6)), np.zeros(count)
    for k, load in enumerate(scene.workloads):
        own = config.containers.get(load.name)
        demand[k, 0, 0] = (own.demand if own and own.demand else config.demand) / MEGA
        demand[k, 0, 1] = load.input.mean / MEGA
        peak[k] = (own.peak if own and own.peak else config.peak) / MEGA
    names = tuple(load.name for load in scene.workloads) or ("none",)
    one = np.ones(count, np.int64)
    nothing = np.zeros(count)
    workload = ContainerWorkload(
        names, demand, one, peak, nothing, np.ones(count), work=nothing, due=np.stack([one, one], 1)
    )
    return workload.replay(np.empty((0, 4)))


_LAWS = {"exponential": EXPONENTIAL, "uniform": UNIFORM, "log-normal": NORMAL}


def _sizes(law: Law, drawn: NDArray[np.float64], marks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sizes by a law, from draws of its standard form and, for one with two parts, those that choose between them."""
    if law.law == "exponential":
        usual = law.a * drawn
    elif law.law == "uniform":
        usual = law.a + (law.b - law.a) * drawn
    elif law.law == "log-normal":
        variance = math.log1p(law.b * law.b)
        spread = math.sqrt(variance)
        usual = law.a * np.array([math.exp(x) for x in (-0.5 * variance + spread * drawn).tolist()])
    else:
        usual = np.full(len(drawn), law.a)
    return np.where(marks < law.share, law.times * usual, usual) if law.share > 0.0 else usual


def _slots(ranges: tuple[SlotRange, ...]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([np.arange(part.first, part.first + part.count) for part in ranges]))


class Sources:
    """The devices that make containers: what comes at the end of each interval."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._period = context.period
        self._chance = np.random.Generator(np.random.PCG64(0))
        self._loads: list[tuple[Stream, NDArray[np.int64]]] = []
        for k, load in enumerate(context.scene.workloads):
            slots = _slots(load.sources)
            taking_part = context.rng(0, k).random(context.scene.capacity)[slots] < load.share
            self._loads.append((load, slots[taking_part]))

    def come(self, interval: int, present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Containers made while interval `interval` passed: rows as `Interval.add` takes them, and their devices."""
        rows, makers = [np.empty((0, 4))], [np.empty(0, np.int64)]
        for k, (load, slots) in enumerate(self._loads):
            there = slots[present[slots]]
            counts, _, work = self._made(k, load, [self._context.seed], [interval], [len(there)])
            rows.append(self._rows(k, np.full(len(work), float(interval)), work))
            makers.append(np.repeat(there, counts))
        return np.concatenate(rows), np.concatenate(makers)

    def all_of(
        self, seeds: Sequence[tuple[int, ...]], intervals: int, present: NDArray[np.bool_]
    ) -> list[NDArray[np.float64]]:
        """The rows of `come` for the intervals 1 to `intervals`, one after the other, under each of these seeds."""
        found: list[list[NDArray[np.float64]]] = [[np.empty((0, 4))] for _ in seeds]
        loads = [Sources(replace(self._context, seed=seed))._loads for seed in seeds]
        numbers = range(1, intervals + 1)
        which = np.tile(np.array(numbers, np.float64), len(seeds))
        for k in range(len(self._loads)):
            devices = [int(present[mine[k][1]].sum()) for mine in loads]
            _, totals, work = self._made(k, self._loads[k][0], seeds, numbers, devices)
            made = self._rows(k, np.repeat(which, totals), work)
            ends = np.cumsum(totals.reshape(len(seeds), intervals).sum(axis=1))
            for rows, part in zip(found, np.split(made, ends[:-1]), strict=True):
                rows.append(part)
        joined = [np.concatenate(rows) for rows in found]
        return [rows[np.argsort(rows[:, 0], kind="stable")] for rows in joined]

    def _made(
        self, k: int, load: Stream, seeds: Sequence[tuple[int, ...]], intervals: Sequence[int], devices: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """What so many devices of load k make under each of the seeds while these intervals pass, one after the other.

        How many containers each device makes in the last one, how many come in each, and the work (cycles) of all.
        """
        passed, rows = np.tile(np.array(intervals, np.float64), len(seeds)), len(intervals)
        begin = np.maximum((passed - 1.0) * self._period, load.start)
        end = np.minimum(passed * self._period, load.stop)
        entropy = np.empty((len(passed), len(seeds[0]) + 3), np.uint64)
        entropy[:, :-3] = np.repeat(np.array(seeds, np.uint64), rows, axis=0)
        entropy[:, -3], entropy[:, -2], entropy[:, -1] = 1, passed, k
        makers = np.repeat(np.array(devices, np.int64), rows)
        on = load.active / (load.active + load.idle) if load.active > 0.0 else 1.0
        if load.arrivals == "poisson":
            expected = np.where(end > begin, load.rate * on * (end - begin), 0.0)
        else:
            first, last = (np.floor(load.rate * on * (t - load.start) + 1e-9) for t in (begin, end))
            expected = np.where(end > begin, last - first, 0.0)
        counts, totals = np.zeros(makers.max(initial=0), np.int64), np.zeros(len(makers), np.int64)
        law, marked = _LAWS.get(load.work.law, NOTHING), load.work.share > 0.0
        rules = np.array([load.arrivals == "poisson", law, marked], np.int64)
        mean = (expected * makers).sum()
        room = int(mean + 6.0 * math.sqrt(mean)) + 8
        while True:
            drawn = np.zeros((2, room))
            count = draws(
                self._chance, words_of(self._chance), entropy, makers, expected, rules, counts, totals, drawn
            )  # fmt: skip
            if count <= room:
                return counts, totals, _sizes(load.work, *drawn[:, :count])
            room = count

    def _rows(self, k: int, moments: NDArray[np.float64], work: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows as `Interval.add` takes them, of containers of load k with so much work (cycles)."""
        found = np.empty((len(work), 4))
        found[:, 0], found[:, 1], found[:, 2] = moments, k, work / MEGA
        found[:, 3] = self._loads[k][0].deadline / self._period
        return found
