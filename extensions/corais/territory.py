"""Territorial schedulers in a run: each decides, round by round, which edge of its region runs which request.

A round of a region, every `every` s, is what the paper describes in eight steps. Edges report to their scheduler with
the briefs of requests that have come in; it decides about all briefs that have arrived; the answers travel back; edges
send the inputs to where they are computed. Messages take as long as a reference transfer (100 kB) on the same way, more
than a brief needs, and a decision takes `takes` s. Our choices, since the paper does not state them: times between
edges become places by classical scaling (Torgerson 1952), run times a line fitted to the work of the last requests, and
the edge at which a client will be is the one at which clients' next requests came in most often.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context
from cosim.contract.entities import Scene
from cosim.contract.errors import require
from cosim.contract.records import Floats
from cosim.contract.selector import selects
from cosim.extensions.corais import exact, network, search
from cosim.extensions.corais.problem import Decision, Instance
from cosim.schedulers.state import EDGE, KEEP, REFERENCE, State, decides

LIMIT = 1.0  # s of wall time of the exact solver per round; the paper's has 0.02 to 10 s
DRAWS = 1000  # CoRaiS(1k)
KNOWN = 1000  # of the last requests, to which run times are fitted
# Without the adapter: a decision whenever there is something to decide, and no messages.
AT_ONCE: dict[str, Any] = {"regions": {}, "central": {}, "every": 0.0, "missed": 1, "takes": 0.0}


@dataclass(slots=True)
class _Brief:
    """A request, from its arrival at an edge to its end."""

    source: int  # host where it came in
    since: float  # s, when it did
    target: int  # host at which its result will be wanted
    input: float  # B
    output: float  # B
    host: int = KEEP  # decided
    due: float = inf  # s, when its edge knows
    sent: float = inf  # s, when its edge did as decided


@dataclass(slots=True)
class _Region:
    """A scheduler's edges, and what it knows of them."""

    edges: tuple[int, ...]
    scheduler: int = -1  # host
    central: bool = False  # it stays where it is
    silent: dict[int, int] = field(default_factory=dict)  # edge that is registered -> reports that it has missed
    turn: float = 0.0  # s, of its next round


def members(regions: dict[str, Any], scene: Scene) -> dict[str, tuple[int, ...]]:
    """Slots of the edges of each region; without regions of one that has all edges with cores."""
    able = [(slot, node) for slot, node in enumerate(scene.nodes) if node.tier == "edge" and node.cores > 0]
    asked = {name: selects(nodes) for name, nodes in (regions or {"all": "*"}).items()}
    return {name: tuple(slot for slot, node in able if within(node.id, node)) for name, within in asked.items()}


def places(seconds: Floats) -> Floats:
    """(n, 2) whose distances are like `seconds` (n, n), as far as a plane has them."""
    square = np.square(0.5 * (seconds + seconds.T))
    square -= square.mean(axis=0) + square.mean(axis=1)[:, None] - square.mean()
    value, vector = np.linalg.eigh(-0.5 * square)
    found: Floats = vector[:, -2:] * np.sqrt(np.maximum(value[-2:], 0.0))
    apart = np.linalg.norm(found[:, None] - found, axis=2)
    found *= (apart * seconds).sum() / max(float(np.square(apart).sum()), 1e-300)
    return found


@decides("interval")
class Corais:
    """territorial schedulers share requests among the edges of regions: CoRaiS' network, the best of 1000 draws"""

    of_waiting = True

    def __init__(self) -> None:
        self._set, self._message = AT_ONCE, 0.0  # times of a way that a message takes
        self._regions: list[_Region] = []
        self._briefs: dict[int, _Brief] = {}  # by the number of the task
        self._last: dict[int, tuple[int, int]] = {}  # device -> where its last request came in, and the edge predicted
        self._next: defaultdict[int, Counter[int]] = defaultdict(Counter)  # host -> hosts of the requests that followed
        self._work: deque[tuple[float, float]] = deque(maxlen=KNOWN)  # B and cycles of requests
        self._between = np.empty((0, 0))  # s of a reference transfer between hosts, NaN: not known yet
        self._count = Counter[str](
            dict.fromkeys(("registrations", "dropped", "elections", "rounds", "briefs", "predictions", "predicted"), 0)
        )

    def solve(self, instance: Instance) -> Decision:
        """The edge of each request."""
        return network.solve(instance, network.stored(), count=DRAWS)

    def begin(self, context: Context) -> None:
        """Take the regions of the adapter `corais`, if the run has one."""
        if "corais" in context.offered:
            self._set, self._message = dict(context.offered["corais"]), 1.0
        hosts = {k: node.id for k, node in enumerate(context.scene.nodes) if node.tier != "device" and node.cores > 0}
        numbers, names = {slot: number for number, slot in enumerate(hosts)}, list(hosts.values())
        for name, slots in members(self._set["regions"], context.scene).items():
            region = _Region(tuple(numbers[slot] for slot in slots))
            if name in self._set["central"]:
                region.scheduler, region.central = names.index(self._set["central"][name]), True
            self._regions.append(region)

    def summary(self) -> dict[str, float]:
        """What schedulers heard and did, and the share of predicted edges at which the next request came in."""
        return {**self._count, "predicted": self._count["predicted"] / max(self._count["predictions"], 1)}

    def __call__(self, state: State) -> NDArray[np.int64]:
        """Hosts of the requests whose edges have been told; all others wait."""
        if not self._regions:  # of a model without a scene
            self._regions = [_Region(tuple(np.flatnonzero(state.hosts["tier"] == EDGE).tolist()))]
        waiting = self._hear(state)
        up = state.hosts["up"] != 0.0
        for region in self._regions:
            if state.time + 1e-9 < region.turn:
                continue
            if every := self._set["every"]:
                region.turn = (np.floor(state.time / every + 1e-9) + 1.0) * every
            self._report(region, up)
            if region.scheduler >= 0 and up[region.scheduler]:
                self._decide(state, region, list(waiting.values()))
        found = np.full(len(state.tasks), KEEP, np.int64)
        mine = {edge for region in self._regions for edge in region.edges}
        for row, brief in waiting.items():
            if brief.source not in mine:  # nobody decides there
                brief.host, brief.due = brief.source, state.time
            if brief.due > state.time + 1e-9:
                continue
            if up[brief.host] and np.isfinite(state.reach[row, brief.host]):
                found[row], brief.sent = brief.host, state.time
            else:  # its edge cannot send it there and reports it anew
                brief.host, brief.due, brief.since = KEEP, inf, state.time
        return found

    def _hear(self, state: State) -> dict[int, _Brief]:
        """Rows of waiting requests within coverage, and their briefs; forget those that ended."""
        count, tasks = len(state.hosts), state.tasks
        if len(self._between) != count:
            self._between = np.where(np.eye(count) == 1.0, 0.0, np.nan)
        numbers = tasks["task"].astype(np.int64).tolist()
        self._briefs = {number: self._briefs[number] for number in numbers if number in self._briefs}
        waiting = {}
        for row in np.flatnonzero((tasks["host"] == KEEP) & np.isfinite(state.reach).any(axis=1)).tolist():
            source = int(state.reach[row].argmin())
            way = state.reach[row] - state.reach[row, source]
            known = np.isfinite(way)
            self._between[source, known] = way[known]
            brief = self._briefs.get(numbers[row])
            if brief is None:
                brief = self._briefs[numbers[row]] = self._new(tasks[row], source, state.time)
            elif brief.source != source:  # its client has moved on with it
                brief.source, brief.host, brief.due, brief.since = source, KEEP, inf, state.time
            waiting[row] = brief
        return waiting

    def _new(self, task: Any, source: int, now: float) -> _Brief:  # noqa: ANN401 - a row of `TASK`
        """The brief of a request, with the edge at which its client will be."""
        device = int(task["device"])
        if device in self._last:
            before, said = self._last[device]
            self._next[before][source] += 1
            self._count["predictions"] += 1
            self._count["predicted"] += said == source
        target = max(self._next[source].items(), key=lambda one: (one[1], one[0] == source), default=(source, 0))[0]
        self._last[device] = source, target
        self._work.append((float(task["input"]), float(task["work"])))
        self._count["briefs"] += 1
        return _Brief(source, now, target, float(task["input"]), float(task["output"]))

    def _report(self, region: _Region, up: NDArray[np.bool_]) -> None:
        """Reports of edges that are there; one that has missed too many is dropped and has to register again."""
        for edge in region.edges:
            if up[edge]:
                self._count["registrations"] += edge not in region.silent
                region.silent[edge] = 0
            elif edge in region.silent:
                region.silent[edge] += 1
                if region.silent[edge] >= self._set["missed"]:
                    del region.silent[edge]
                    self._count["dropped"] += 1
        if region.central or region.scheduler in region.silent or not region.silent:
            return
        near = [edge for edge in region.silent if up[edge]]
        ways = self._seconds()[np.ix_(near, near)].sum(axis=0)
        region.scheduler = near[int(ways.argmin())]
        self._count["elections"] += 1

    def _seconds(self) -> Floats:
        """(hosts, hosts) s between hosts; a way that no request has shown is as the way back, or the longest known."""
        known = np.where(np.isnan(self._between), self._between.T, self._between)
        return np.where(np.isnan(known), np.nanmax(known, initial=0.0), known)

    def _decide(self, state: State, region: _Region, waiting: Sequence[_Brief]) -> None:
        """A round of a region's scheduler about the briefs that have reached it."""
        ways = self._seconds()
        told = self._message * ways[region.scheduler]
        heard = self._message * ways[:, region.scheduler]
        asked = [
            brief for brief in waiting
            if brief.host == KEEP and brief.source in region.silent
            and brief.since + heard[brief.source] <= state.time + 1e-9
        ]  # fmt: skip
        if not asked:
            return
        edges = list(region.silent)
        self._count["rounds"] += 1
        for brief, edge in zip(asked, self.solve(self._instance(state, edges, asked, ways)).tolist(), strict=True):
            brief.host = edges[edge]
            brief.due = state.time + self._set["takes"] + told[brief.source]

    def _instance(self, state: State, edges: list[int], asked: Sequence[_Brief], ways: Floats) -> Instance:
        """The problem of a round: `edges` of the region first, then all other hosts as places where results go.

        Data are in units of the largest input and times in units of the longest run time, as the network learned them.
        """
        order = [*edges, *(host for host in range(len(ways)) if host not in edges)]
        number = {host: k for k, host in enumerate(order)}
        unit = max(max(brief.input for brief in asked), 1.0)
        cores, speed = state.hosts["cores"][edges], state.hosts["speed"][edges]
        slope, offset = (part * cores / speed for part in self._run_times(unit))
        scale = max(float((slope + offset).max()), 1e-12)
        own, other, coming, leaving = (np.zeros(len(edges)) for _ in range(4))
        for task in state.tasks[(state.tasks["host"] >= 0) & (state.tasks["work"] > 0.0)]:
            host, brief = int(task["host"]), self._briefs.get(int(task["task"]))
            if host not in edges:
                continue
            q = number[host]
            if brief is None or brief.source == host:  # placed before by another policy, or where it came in
                own[q] += task["work"] / speed[q]
            else:
                other[q] += task["work"] / speed[q]
                coming[q] = max(coming[q], brief.sent + ways[brief.source, host] * brief.input / REFERENCE - state.time)
            if brief is not None:
                leaving[q] = max(leaving[q], ways[host, brief.target] * brief.output / REFERENCE)
        return Instance(
            places(ways[np.ix_(order, order)]), slope / scale, offset / scale, cores.astype(np.int64), own / scale,
            other / scale, coming / scale, leaving / scale, np.array([number[brief.source] for brief in asked]),
            np.array([number[brief.target] for brief in asked]), np.array([brief.input for brief in asked]) / unit,
            np.array([brief.output for brief in asked]) / unit, unit / REFERENCE / scale,
        )  # fmt: skip

    def _run_times(self, unit: float) -> tuple[float, float]:
        """Cycles of a request per `unit` B of input, and of any request: a line through the last ones, not below 0."""
        size, work = np.array(self._work).T
        spread = float(size.var())
        slope = float(((size - size.mean()) * work).mean()) / spread if spread > 0.0 else -1.0
        rest = float(work.mean() - slope * size.mean())
        if slope < 0.0:
            return 0.0, float(work.mean())
        return (slope * unit, rest) if rest >= 0.0 else (float(work.mean() / size.mean()) * unit, 0.0)


class CoraisGreedy(Corais):
    """as corais, by the likeliest edge of each request"""

    def solve(self, instance: Instance) -> Decision:
        return network.solve(instance, network.stored())


class CoraisSearch(Corais):
    """as corais, by this package's search"""

    def solve(self, instance: Instance) -> Decision:
        return search.solve(instance)


class CoraisExact(Corais):
    """as corais, by HiGHS within 1 s of wall time, from the decision of corais-search on (extra `opt`)"""

    def __init__(self) -> None:
        require("opt", "highspy")
        super().__init__()

    def solve(self, instance: Instance) -> Decision:
        begin = search.solve(instance)
        found = exact.solve(instance, LIMIT, start=begin).decision
        return begin if found is None else found
