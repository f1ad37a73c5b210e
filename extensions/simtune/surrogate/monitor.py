"""A fleet simulated interval by interval, watched as SimTune watches it: W, G, decisions and Q of every interval.

The high-fidelity model f of equation 1 is the interval model of `cosim.extensions.cosco.interval` under values of
free parameters. A testbed with hidden values can stand for reality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Ints
from cosim.extensions.cosco.interval import ContainerWorkload, HostFleet, Interval, IntervalView
from cosim.extensions.cosco.interval.replicas import applied
from cosim.extensions.cosco.interval.simulator import IntervalSnapshot
from cosim.twin.space import Space

Decisions = Ints  # (k, 2) slot, host

# What a host is, beside how it is: taken from the fleet when the state of another simulation is restored.
_IS = ("mips", "ram", "disk", "ram_read", "ram_write", "disk_read", "disk_write", "up_link", "down_link", "latency")
_USUAL = 4.0  # intervals of response that are 0.5 in the normalised figure
QOS = ("energy", "response")


class IntervalRow(NamedTuple):
    """One interval: a row of the trace {(W, G, Q)}."""

    # (T, 2 H) per host MIPS demanded and memory used, as shares of the fleet's stated size; the last step is after
    # the decision.
    workload: Floats
    hosts: Floats  # (H, 4) MIPS, memory and latency over the fleet's largest; utilisation
    qos: Floats  # (2,) energy over that of full load; response r as r / (r + 4 intervals)


@dataclass(frozen=True, slots=True, eq=False)
class MonitorModel:
    """The simulator: a fleet, its workload, and the space of what is not known of them.

    The names of the space are of `cosim.extensions.cosco.interval.replicas.PARAMETERS`. "NAME of GROUP" is NAME
    for the hosts of the types that `groups` has under GROUP.
    """

    fleet: HostFleet
    workload: ContainerWorkload
    space: Space
    length: float = 300.0  # s
    steps: int = 6  # T, intervals that W holds
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Interval`: slots, switch_off, boot
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # positions among the fleet's types

    def testbed(self, values: ArrayLike, seed: int) -> Testbed:
        """A simulation under `values` (d,)."""
        return Testbed(self, np.asarray(values, np.float64), seed)

    def interval(self, values: Floats, seed: int) -> Interval:
        """The interval model under `values` (d,), decided from outside."""
        fleet, workload, overhead = self.fleet, self.workload, 0.0
        for name, value in zip(self.space.names, values.tolist(), strict=True):
            what, _, group = name.partition(" of ")
            if name == "overhead":
                overhead = value
            elif group:
                types = applied(what, value, fleet, workload)[0].types
                mine = self.groups[group]
                both = enumerate(zip(types, fleet.types, strict=True))
                fleet = replace(fleet, types=tuple(new if k in mine else old for k, (new, old) in both))
            else:
                fleet, workload = applied(name, value, fleet, workload)
        return Interval(
            fleet, workload, seed, policy=None, length=self.length, overhead=overhead, keep=False, **self.options
        )


class Testbed:
    """One simulation and what was seen of it."""

    def __init__(self, model: MonitorModel, values: Floats, seed: int) -> None:
        self.model = model
        self.simulation = model.interval(values, seed)
        self._own = self.simulation.world.hosts[list(_IS)].copy()
        self._overhead = float(self.simulation.world.rules["overhead"][0])
        hosts, power = model.fleet.hosts()
        self._said = {name: hosts[name].copy() for name in ("mips", "ram")}
        known = [hosts[name] / max(float(hosts[name].max()), 1e-12) for name in ("mips", "ram", "latency")]
        self._known = np.stack(known, axis=1)
        self._full = float(power.max(axis=1).sum()) * model.length
        self.past: Floats = np.zeros((model.steps - 1, 2 * len(hosts)))  # W of the intervals before
        self._response = 0.0
        self.figures: list[dict[str, float]] = []  # of `Interval.step`, of all intervals that were enacted

    @property
    def energy(self) -> float:
        """J of all intervals that were enacted."""
        return sum(row["energy"] for row in self.figures)

    def view(self) -> IntervalView:
        """What a scheduler decides about."""
        return self.simulation.state()

    def series(self, view: IntervalView, decisions: Decisions) -> Floats:
        """(T, 2 H) W of the interval about to pass under `decisions`."""
        return np.concatenate([self.past, self.step(view, decisions)[None]])

    def step(self, view: IntervalView, decisions: Decisions) -> Floats:
        """(2 H,) shares of MIPS demanded and memory used per host, once `decisions` are enacted."""
        host = view.host.copy()
        at = {int(slot): k for k, slot in enumerate(view.slot)}
        for slot, target in decisions:
            host[at[int(slot)]] = target
        placed, count = host >= 0, len(view.mips)
        demand = np.bincount(host[placed], view.demand[placed], count) / self._said["mips"]
        memory = np.bincount(host[placed], view.size[placed], count) / self._said["ram"]
        return np.asarray(np.minimum(np.concatenate([demand, memory]), 3.0), np.float64)

    def graph(self, view: IntervalView) -> Floats:
        """(H, 4) G: the stated fleet, before the parameters are applied, and its utilisation."""
        return np.concatenate([self._known, view.utilisation[:, None]], axis=1)

    def enact(self, decisions: Decisions) -> IntervalRow:
        """Let one interval pass under `decisions`; what was seen. Decisions that do not fit are refused."""
        view = self.view()
        series, graph = self.series(view, decisions), self.graph(view)
        figures = self.simulation.step(decisions)
        self.figures.append(figures)
        qos = self._qos(figures)
        self.past = series[1:]
        return IntervalRow(series, graph, qos)

    def _qos(self, figures: dict[str, float]) -> Floats:
        """(2,) normalised; without completions the response is that of the last interval with some."""
        if figures["completed"] > 0:
            intervals = figures["response"] / figures["completed"] / self.model.length
            self._response = intervals / (intervals + _USUAL)
        return np.array([min(figures["energy"] / self._full, 1.0), self._response])

    def unscaled(self, qos: Floats) -> tuple[Floats, Floats]:
        """J of an interval and s of response that normalised figures (n, 2) stand for."""
        share = np.clip(qos[:, 1], 0.0, 0.99)
        return qos[:, 0] * self._full, _USUAL * share / (1.0 - share) * self.model.length

    def at(self, snapshot: IntervalSnapshot) -> Interval:
        """This simulation in the state of another one of the same model.

        The other's work already done stays done; speeds, latencies, power and overheads are this one's.
        """
        self.simulation.restore(snapshot)
        hosts = self.simulation.world.hosts
        for name in _IS:
            hosts[name] = self._own[name]
        self.simulation.world.rules["overhead"] = self._overhead
        return self.simulation

    def predicted(self, snapshot: IntervalSnapshot, response: float, decisions: Decisions) -> Floats:
        """(2,) f(W, G; phi): what this simulation makes of another's state in one interval under `decisions`.

        `snapshot` and `response` are `Testbed.snapshot` of the other one.
        """
        self.at(snapshot)
        self._response = response
        return self._qos(self.simulation.step(decisions))

    def snapshot(self) -> tuple[IntervalSnapshot, float]:
        """The state, for `foretold` of another testbed of the same model."""
        return self.simulation.snapshot(), self._response


def random_decisions(view: IntervalView, random: np.random.Generator) -> Decisions:
    """A random scheduler: new containers anywhere, and each other one moves anywhere with chance 0.1."""
    chosen = view.slot[(view.host < 0) | (random.random(len(view.slot)) < 0.1)]
    return np.stack([chosen, random.integers(len(view.mips), size=len(chosen))], axis=1).astype(np.int64)


class IntervalTrace(NamedTuple):
    """Rows {(W, G, phi, Q)} of many intervals."""

    workload: Floats  # (n, T, 2 H)
    hosts: Floats  # (n, H, 4)
    units: Floats  # (n, d)
    qos: Floats  # (n, 2)


def explore(model: MonitorModel, *, runs: int, intervals: int, seed: int, units: Floats | None = None) -> IntervalTrace:
    """Intervals under a random scheduler and random parameters: what surrogate and scheduler learn first.

    Every run has parameters of its own, or all have `units` (d,). The first `model.steps` intervals are not kept.
    """
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6578]))
    drawn = model.space.sample(runs, random) if units is None else np.repeat(units[None], runs, axis=0)
    rows, kept = [], []
    for k, unit in enumerate(drawn):
        testbed = model.testbed(model.space.values(unit)[0], seed * 100_003 + k)
        for t in range(model.steps + intervals):
            row = testbed.enact(random_decisions(testbed.view(), random))
            if t >= model.steps:
                rows.append(row)
                kept.append(unit)
    return IntervalTrace(
        np.array([row.workload for row in rows]), np.array([row.hosts for row in rows]), np.array(kept),
        np.array([row.qos for row in rows]),
    )  # fmt: skip
