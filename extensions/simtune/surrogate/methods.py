"""The offline pipeline of SimTune, and of the methods that it was compared with, for any problem.

All share the pipeline: simulate random parameter vectors, train a surrogate, search on the surrogate, simulate
what it proposes, learn from that too, and repeat; the proposal with the lowest simulated gap wins. They differ
in surrogate and search. The scheduler of the paper's training trace is that of the problem's simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import process_time

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.errors import Problem as Wrong
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats
from cosim.extensions.simtune.surrogate import evolution, tree
from cosim.extensions.simtune.surrogate.encoding import Encoding
from cosim.extensions.simtune.surrogate.layers import Architecture
from cosim.extensions.simtune.surrogate.models import NetworkSurrogate, ProcessSurrogate, Surrogate
from cosim.extensions.simtune.surrogate.network import TrainingOptions, TrainingResult
from cosim.extensions.simtune.surrogate.target import Conditions, QosTarget
from cosim.twin.problem import CalibrationProblem

# Surrogate and search of each; without one: the simulator itself is searched.
METHODS: Mapping[str, tuple[str, str]] = {
    "human set": ("", ""),
    "SimTune": ("simtune", "gdmc"),
    "SimTune w/o HiFi": ("simtune", "gdmc"),
    "SimTune w/o LoFi": ("", "gdmc"),
    "HGP+ES": ("hgp", "es"),
    "LSTM+SGD": ("lstm", "sgd"),
    "LSTM+Sim2Real": ("lstm", "crossover"),
}


@dataclass(slots=True)
class Simulator:
    """The high-fidelity model f of equation 1 over the fit part of a problem.

    `runs` simulations of one vector under one seed may be spent, and `seconds` of CPU from now on.
    """

    problem: CalibrationProblem
    runs: int
    seconds: float = float("inf")
    seed: int = 1
    spent: int = 0
    target: QosTarget = field(init=False)
    encoding: Encoding = field(init=False)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.target, self.encoding = QosTarget(self.problem.fit.observed), Encoding(self.problem.space)
        self.began = process_time()

    @property
    def left(self) -> int:
        """Runs that may still be spent."""
        return self.runs - self.spent

    def time_left(self) -> float:
        """Seconds of CPU that may still be spent."""
        return max(0.0, self.seconds - (process_time() - self.began))

    def qos(self, units: ArrayLike, stream: int = 0) -> Floats:
        """(n, q) QoS vectors of points (n, d) of the unit cube; the same stream means the same random numbers.

        Raises `ValueError` when the budget of runs does not suffice: who plans the runs must look at `left`.
        """
        units = np.atleast_2d(np.asarray(units, np.float64))
        if len(units) > self.left:
            raise ValueError(f"{len(units)} runs wanted, {self.left} of {self.runs} left")
        self.spent += len(units)
        seed = int(np.random.SeedSequence([self.seed, stream]).generate_state(1)[0])
        return self.target.qos(self.problem.fit.simulate(self.problem.space.values(units), seed))

    def gaps(self, units: ArrayLike, stream: int = 0) -> Floats:
        """(n,) reality gaps, equation 2."""
        return self.target.gaps(self.qos(units, stream))

    def slope(self, unit: Floats, stream: int = 0, step: float = 0.02) -> Floats:
        """(e,) central differences of the gap by the features; those of discrete parameters are 0."""
        real = self.encoding.real
        found = np.zeros(self.encoding.width)
        if len(real):
            ends = np.repeat(unit[None], 2 * len(real), axis=0)
            rows = np.arange(len(real))
            ends[rows, real] = np.minimum(unit[real] + step, 1.0)
            ends[rows + len(real), real] = np.maximum(unit[real] - step, 0.0)
            width = ends[rows, real] - ends[rows + len(real), real]
            up, down = np.split(self.gaps(ends, stream), 2)
            found[self.encoding.real_features] = (up - down) / width
        return found


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How the budget is spent."""

    runs: int = 1000
    seconds: float = 60.0  # of CPU; training ends when it is spent
    first: float = 0.6  # share of the runs for random parameters, before there is a surrogate
    rounds: int = 4  # of training, search and simulation
    streams: int = 4  # of random numbers that the random vectors are spread over
    finalists: int = 8  # proposals simulated once more under every stream
    training: TrainingOptions = field(default_factory=lambda: TrainingOptions(epochs=30, patience=10))
    tree: tree.Tree = field(default_factory=lambda: tree.Tree(rollouts=40))


@dataclass(frozen=True, slots=True, eq=False)
class MethodResult:
    """What a method proposes."""

    method: str
    unit: Floats  # (d,)
    values: Floats  # (d,) in the units of the parameters
    gap: float  # reality gap of the fit part by its simulator; w/o HiFi by the surrogate
    runs: int
    cpu_seconds: float
    r2: float  # of the surrogate's test rows, after the last training; NaN without surrogate


def tune(
    problem: CalibrationProblem,
    method: str,
    *,
    pipeline: Pipeline | None = None,
    conditions: Conditions | None = None,
    seed: int = 1,
) -> MethodResult:
    """Tune the parameters of `problem` by one of `METHODS`; only the fit part is looked at.

    `conditions` are W and G; without them `Conditions.of(problem)`. The same seed gives the same answer as
    long as the budget of time is not what ends the training. Raises `ScenarioError` for an unknown method
    and `SetupError` when its network needs torch and there is none.
    """
    if method not in METHODS:
        raise ScenarioError(Wrong(f"there is no method '{method}'", hint=f"take one of {', '.join(METHODS)}"))
    how, began = pipeline or Pipeline(), process_time()
    simulator = Simulator(problem, how.runs, how.seconds, seed)
    start = problem.space.units(problem.space.start)[0]
    surrogate, _ = METHODS[method]
    if method == "human set":
        gap = float(simulator.gaps(start)[0])
        return _outcome(problem, method, start, gap, simulator, began, float("nan"))
    if not surrogate:
        return _outcome(problem, method, *_direct(simulator, how, start), simulator, began, float("nan"))
    model = _model(surrogate, simulator, conditions or Conditions.of(problem), seed)
    unit, gap, r2 = _through(model, simulator, how, method, start, seed)
    return _outcome(problem, method, unit, gap, simulator, began, r2)


def _outcome(
    problem: CalibrationProblem, method: str, unit: Floats, gap: float, simulator: Simulator, began: float, r2: float
) -> MethodResult:
    values = problem.space.values(unit)[0]
    return MethodResult(method, unit, values, gap, simulator.spent, process_time() - began, r2)


def _model(kind: str, simulator: Simulator, conditions: Conditions, seed: int) -> Surrogate:
    if kind == "hgp":
        return ProcessSurrogate(simulator.target, seed)
    architecture: Architecture = "lstm" if kind == "lstm" else "simtune"
    return NetworkSurrogate(architecture, conditions, simulator.target, simulator.encoding.width, seed)


def _through(
    model: Surrogate, simulator: Simulator, how: Pipeline, method: str, start: Floats, seed: int
) -> tuple[Floats, float, float]:
    """The proposal of a method with a surrogate, its gap, and R2 of the surrogate."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x7475]))
    high = method != "SimTune w/o HiFi"
    units = simulator.problem.space.sample(max(8, int(how.first * how.runs)), random)
    qos = np.concatenate([simulator.qos(part, k) for k, part in enumerate(np.array_split(units, how.streams))])
    finals = how.finalists * how.streams
    each = max(1, (simulator.left - finals - 1) // how.rounds)
    # The author's own values are where the search begins, and a proposal like any other.
    proposed, gaps = start[None], simulator.gaps(start) if high else np.array([np.inf])
    learned = TrainingResult(0, float("nan"), float("nan"), "")
    for turn in range(how.rounds):
        # The first training is the long one; the others go on from its weights.
        share = 0.7 if turn == 0 else 0.8 / (how.rounds - turn)
        epochs = how.training.epochs if turn == 0 else max(1, how.training.epochs // 10)
        seconds = min(how.training.seconds, share * simulator.time_left())
        features = simulator.encoding.features(units)
        learned = model.fit(features, qos, replace(how.training, epochs=epochs, seconds=seconds))
        tried = _searched(METHODS[method][1], model, simulator.encoding, proposed[np.argmin(gaps)], how, seed + turn)
        fresh = _apart(tried.units, each)
        # Without the simulator the surrogate's own answers are what is learned next, and what is believed.
        said = simulator.qos(fresh, 0) if high else model.predict(simulator.encoding.features(fresh))
        units, qos = np.concatenate([units, fresh]), np.concatenate([qos, said])
        proposed = np.concatenate([proposed, fresh])
        gaps = np.concatenate([gaps, simulator.target.gaps(said)])
    order = np.argsort(gaps, kind="stable")
    if not high:
        return proposed[order[0]], float(gaps[order[0]]), learned.r2
    return *_final(simulator, proposed[order[: how.finalists]], how.streams), learned.r2


def _final(simulator: Simulator, units: Floats, streams: int) -> tuple[Floats, float]:
    """Of a few points the one with the lowest gap of the mean QoS vector over `streams`."""
    units = units[: max(1, simulator.left // streams)]
    streams = min(streams, simulator.left // len(units))
    if streams == 0:
        return units[0], float("nan")
    gaps = simulator.target.gaps(np.mean([simulator.qos(units, k) for k in range(streams)], axis=0))
    return units[int(np.argmin(gaps))], float(gaps.min())


def _direct(simulator: Simulator, how: Pipeline, start: Floats) -> tuple[Floats, float]:
    """The tree search on the simulator itself, its slopes by central differences: SimTune without surrogate."""
    finals = how.finalists * how.streams
    cost = how.tree.width + 2 * len(simulator.encoding.real)
    rollouts = max(1, (simulator.left - finals - 1) // cost)
    found = tree.search(
        simulator.encoding, simulator.gaps, simulator.slope, start, tree=replace(how.tree, rollouts=rollouts),
        seed=simulator.seed,
    )  # fmt: skip
    return _final(simulator, _apart(found.units, how.finalists), how.streams)


def _searched(
    kind: str, model: Surrogate, encoding: Encoding, start: Floats, how: Pipeline, seed: int
) -> evolution.EvolutionTrials:
    def loss(units: Floats) -> Floats:
        return model.gaps(encoding.features(units))

    if kind == "gdmc":

        def gradient(unit: Floats) -> Floats:
            return np.asarray(model.gradients(encoding.features(unit))[0], np.float64)

        found = tree.search(encoding, loss, gradient, start, tree=how.tree, seed=seed)
        return evolution.EvolutionTrials(found.units, found.losses)
    if kind == "es":
        return evolution.evolution_strategy(loss, start, seed=seed)
    if kind == "crossover":
        return evolution.mutation_crossover(loss, start, seed=seed)

    def slopes(units: Floats) -> Floats:
        return encoding.relaxed(model.gradients(encoding.features(units)))

    random = np.random.default_rng(np.random.SeedSequence([seed, 0x7367]))
    starts = np.clip(start + 0.1 * random.standard_normal((8, len(start))), 0.0, 1.0)
    starts[0] = start
    return evolution.descent(loss, slopes, encoding, starts)


def _apart(units: Floats, count: int) -> Floats:
    """The first `count` of ordered points that are not the same as one before, or fewer."""
    _, first = np.unique(np.round(units, 4), axis=0, return_index=True)
    return units[np.sort(first)[:count]]
