"""Algorithm 1 of SimTune: while a fleet runs, its simulator and its scheduler are tuned after every interval.

Per interval: monitor (lines 2 and 5), decide (3), enact (4), move the parameters to where the surrogate
agrees with what was measured, by the tree search (6), make data for other decisions (7), tune the scheduler (8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time
from typing import Literal, Protocol

import numpy as np

from cosim.contract.records import Floats, Ints, Records
from cosim.extensions.cosco.interval import Interval, IntervalView
from cosim.extensions.cosco.interval.layout import FIGURE
from cosim.extensions.cosco.interval.simulator import IntervalSnapshot
from cosim.extensions.simtune.surrogate import tree
from cosim.extensions.simtune.surrogate.encoding import Encoding
from cosim.extensions.simtune.surrogate.monitor import (
    QOS,
    Decisions,
    IntervalRow,
    IntervalTrace,
    MonitorModel,
    Testbed,
    explore,
    random_decisions,
)
from cosim.extensions.simtune.surrogate.network import QosNetwork, TrainingOptions, TrainingResult
from cosim.extensions.simtune.surrogate.placement import LearnedPlacement

Moment = tuple[IntervalSnapshot, float]  # of `Testbed.snapshot`
Answers = Callable[[Ints], Records]  # of decisions (K, C), as `Interval.branch` is asked

_WEIGHTS = np.full(len(QOS), 1.0 / len(QOS))
_DRAWS = 2  # of Monte-Carlo dropout per question
_NEAR = (0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.02, 0.02)  # steps in the unit cube that the simulator is asked about


@dataclass(frozen=True, slots=True)
class OnlineOptions:
    """Options of the loop.

    `generator` makes the data of line 7: the surrogate as in the paper, or the simulator itself (the paper's "w/o
    LoFi"). `agree` is the model whose answers line 6 brings near the measured ones. `offline` is the source of the
    scheduler's first data: the simulator, or the surrogate ("w/o HiFi"). `tune` off keeps the parameters ("human
    set"). A `TunedScheduler` learns first in `beforehand` intervals of the simulator at the start parameters.
    """

    intervals: int = 40
    window: int = 10  # of the last intervals that line 6 agrees with; the paper's is 1
    candidates: int = 8  # decisions per interval in line 7
    tune: bool = True
    generator: Literal["surrogate", "simulator"] = "surrogate"
    agree: Literal["surrogate", "simulator"] = "surrogate"
    offline: Literal["surrogate", "simulator"] = "simulator"
    beforehand: int = 12
    tree: tree.Tree = field(default_factory=lambda: tree.Tree(rollouts=8, step=0.15))


class TunedScheduler(Protocol):
    """A scheduler g that decides and learns from the simulator itself, in the state of reality.

    `cosim.extensions.metanet.catalogue.tuning` has SimTune's six.
    """

    def decide(self, twin: Interval) -> Ints:
        """(k, 2) decisions, slot and host."""

    def learn(self, twin: Interval, answers: Answers | None = None) -> None:
        """Lines 7 and 8, from the results of other decisions: those of `answers`, else of `twin.branch`."""


@dataclass(frozen=True, slots=True, eq=False)
class OnlineHistory:
    """What happened, a row per interval."""

    measured: Floats  # (n, 2) normalised QoS
    values: Floats  # (n, d) parameters after the interval
    window_gap: Floats  # (n,) of the parameters that line 6 found, over its window, by the model that it uses
    simulator_gap: Floats  # (n,) of the simulator one interval ahead, under the parameters before the interval
    start_gap: Floats  # (n,) the same under the parameters of the beginning
    seconds: Floats  # (n, 3) of CPU: the decision, the parameters (line 6), and what the scheduler learns


@dataclass(frozen=True, slots=True, eq=False)
class OfflineResult:
    """The outcome of the offline part: f, f^ and how well it learned."""

    model: MonitorModel
    network: QosNetwork
    learned: TrainingResult
    trace: IntervalTrace


def prepare(
    model: MonitorModel, *, runs: int = 60, intervals: int = 20, seed: int = 1, training: TrainingOptions | None = None
) -> OfflineResult:
    """Train the surrogate on the simulator under a random scheduler and random parameters."""
    trace = explore(model, runs=runs, intervals=intervals, seed=seed)
    encoding = Encoding(model.space)
    network = QosNetwork(trace.workload.shape[2], trace.hosts.shape[2], encoding.width, len(QOS), seed=seed)
    how = training or TrainingOptions(epochs=30)
    learned = network.fit(trace.workload, trace.hosts, encoding.features(trace.units), trace.qos, how)
    return OfflineResult(model, network, learned, trace)


def scheduler(prepared: OfflineResult, unit: Floats, *, offline: str = "simulator", seed: int = 1) -> LearnedPlacement:
    """g after its offline training with the parameters at `unit` (d,): data of the simulator or of the surrogate."""
    if offline == "simulator":
        trace = explore(prepared.model, runs=8, intervals=25, seed=seed, units=unit)
    else:
        some = IntervalTrace(*(part[::4] for part in prepared.trace))
        features = np.repeat(Encoding(prepared.model.space).features(unit), len(some.units), axis=0)
        said = prepared.network.predict(some.workload, some.hosts, features).mean(axis=0)
        trace = some._replace(qos=np.asarray(said, np.float64))
    learner = LearnedPlacement()
    learner.tune(trace.workload[:, -1], trace.hosts, trace.qos)
    return learner


def _answers(
    prepared: OfflineResult, testbed: Testbed, view: IntervalView, unit: Floats, past: Floats, response: float
) -> Answers:
    """The surrogate's answers about decisions at the state of `view`, under the parameters at `unit` (d,).

    `past` is W of the intervals before, `response` the normalised response that was measured last. The answer's energy
    is that of the interval; its response stands for the time of all containers by Little's law: a decision under which
    they take twice as long as measured has twice as much of it. What is left for later intervals is not in an answer.
    """
    graph, features = testbed.graph(view), Encoding(prepared.model.space).features(unit)
    lately = max(float(testbed.unscaled(np.array([[0.0, response]]))[1][0]), prepared.model.length)

    def said(rows: Ints) -> Records:
        series = []
        for row in rows:
            chosen = (row >= 0) & (row != view.host)
            step = testbed.step(view, np.stack([view.slot[chosen], row[chosen]], axis=1))
            series.append(np.concatenate([past, step[None]]))
        every = np.repeat(features, len(rows), axis=0)
        qos = prepared.network.predict(np.array(series), graph[None], every, draws=_DRAWS).mean(axis=0)
        energy, response = testbed.unscaled(np.asarray(qos, np.float64))
        figures: Records = np.zeros(len(rows), FIGURE)
        figures["energy"] = energy
        figures["present"] = response / lately * len(view.slot) * prepared.model.length
        figures["waiting"] = ((rows < 0) & (view.host < 0)).sum(axis=1)
        return figures

    return said


def _beforehand(prepared: OfflineResult, tuned: TunedScheduler, start: Floats, how: OnlineOptions, seed: int) -> None:
    """What `tuned` learns before it meets the system: on the simulator at the parameters `start` (d,)."""
    stream = int(np.random.SeedSequence([seed, 0x6F66]).generate_state(1)[0])
    simulated = prepared.model.testbed(prepared.model.space.values(start)[0], stream)
    for _ in range(how.beforehand):
        decisions = tuned.decide(simulated.simulation)
        surrogate = how.offline == "surrogate"
        moment = simulated.view(), start, simulated.past, simulated.snapshot()[1]
        tuned.learn(simulated.simulation, _answers(prepared, simulated, *moment) if surrogate else None)
        simulated.enact(decisions)


def run(
    prepared: OfflineResult,
    reality: Testbed,
    start: Floats,
    *,
    online: OnlineOptions | None = None,
    seed: int = 1,
    tuned: TunedScheduler | None = None,
) -> tuple[OnlineHistory, LearnedPlacement]:
    """Algorithm 1 over `reality`, from the parameters at `start` (d,) of the unit cube; everything from `seed`.

    With `tuned` that scheduler decides and learns; the linear one returned then has learned nothing.
    """
    how, model = online or OnlineOptions(), prepared.model
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6F6E]))
    learner = LearnedPlacement() if tuned else scheduler(prepared, start, offline=how.offline, seed=seed)
    unit, seen, met = np.asarray(start, np.float64), list[IntervalRow](), list[tuple[Moment, Floats, Decisions]]()
    rows: list[tuple[Floats, Floats, float, float, float, list[float]]] = []
    values = model.space.values(unit)[0]
    first = now = model.testbed(values, seed)
    if tuned:
        _beforehand(prepared, tuned, unit, how, seed)
    for t in range(how.intervals):
        view = reality.view()
        graph = reality.graph(view)
        before = reality.step(view, np.empty((0, 2), np.int64))
        state = reality.snapshot()
        marks = [process_time()]
        decisions = tuned.decide(now.at(state[0])) if tuned else learner.decide(view, before, graph)
        marks.append(process_time())
        options = [] if tuned else [random_decisions(view, random) for _ in range(how.candidates)]
        series = np.array([reality.series(view, option) for option in options])
        past, row = reality.past, reality.enact(decisions)
        seen, met = [*seen, row][-how.window :], [*met, (state, row.qos, decisions)][-how.window :]
        gaps = [_norm(row.qos - simulated.predicted(*state, decisions)) for simulated in (now, first)]
        reported = float("nan")
        marks.append(process_time())
        if how.tune:
            if how.agree == "simulator":
                unit, reported = _by_simulator(model, met, unit, seed, random)
            else:
                unit, reported = _line_6(prepared, seen, unit, how, seed + t)
            now = model.testbed(model.space.values(unit)[0], seed)
        marks.append(process_time())
        if tuned:
            said = None if how.generator == "simulator" else _answers(prepared, now, view, unit, past, state[1])
            tuned.learn(now.at(state[0]), said)
        else:
            if how.generator == "simulator":
                qos = np.array([now.predicted(*state, option) for option in options])
            else:
                features = np.repeat(Encoding(model.space).features(unit), len(options), axis=0)
                graphs = np.repeat(graph[None], len(options), axis=0)
                qos = prepared.network.predict(series, graphs, features, draws=_DRAWS).mean(axis=0)
            learner.tune(series[:, -1], graph[None], qos)
        spent = [marks[1] - marks[0], marks[3] - marks[2], process_time() - marks[3]]
        rows.append((row.qos, model.space.values(unit)[0], reported, *gaps, spent))
    return OnlineHistory(*(np.array(column) for column in zip(*rows, strict=True))), learner


def _norm(difference: Floats) -> float:
    return float(np.sqrt((_WEIGHTS * difference**2).sum()))


def _by_simulator(
    model: MonitorModel,
    met: list[tuple[Moment, Floats, Decisions]],
    unit: Floats,
    seed: int,
    random: np.random.Generator,
) -> tuple[Floats, float]:
    """As `_line_6`, by what the simulator makes of each state and decision of the window: `unit`, any point, near ones.

    A near point is a normal step from the best so far, so that the search goes on from interval to interval.
    """

    def loss(at: Floats) -> float:
        simulated = model.testbed(model.space.values(at)[0], seed)
        return float(np.mean([_norm(qos - simulated.predicted(*state, decisions)) for state, qos, decisions in met]))

    best, least = unit, loss(unit)
    for step in (None, *_NEAR):
        size = len(best)
        point = random.random(size) if step is None else np.clip(best + step * random.standard_normal(size), 0.0, 1.0)
        gap = loss(point)
        if gap < least:
            best, least = point, gap
    return best, least


def _line_6(
    prepared: OfflineResult, seen: list[IntervalRow], unit: Floats, how: OnlineOptions, seed: int
) -> tuple[Floats, float]:
    """The parameters, and their gap, that the tree search finds for the rows of the window, from `unit`."""
    encoding = Encoding(prepared.model.space)
    series, graphs, measured = (np.array([getattr(row, name) for row in seen]) for name in IntervalRow._fields)

    def each(units: Floats) -> tuple[Floats, Floats, Floats]:
        """Every unit with every row."""
        count = len(units)
        features = np.repeat(encoding.features(units), len(seen), axis=0)
        return np.tile(series, (count, 1, 1)), np.tile(graphs, (count, 1, 1)), features

    def loss(units: Floats) -> Floats:
        said = prepared.network.predict(*each(units), draws=_DRAWS).mean(axis=0)
        error = (said - np.tile(measured, (len(units), 1))) ** 2 @ _WEIGHTS
        return np.asarray(np.sqrt(error).reshape(len(units), len(seen)).mean(axis=1), np.float64)

    def gradient(at: Floats) -> Floats:
        _, slopes = prepared.network.slopes(*each(at[None]), measured, _WEIGHTS, draws=_DRAWS)
        return np.asarray(slopes.mean(axis=0), np.float64)

    found = tree.search(encoding, loss, gradient, unit, tree=how.tree, seed=seed)
    return found.units[0], float(found.losses[0])
