"""Which search for which problem, and how each is begun."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError, SetupError, lacking
from cosim.contract.plugins import installed
from cosim.twin.problem import CalibrationProblem, Floats
from cosim.twin.search import Budget, Meter, bayesian, cma_es, least_squares, regression
from cosim.twin.search.regression import features

AUTO = "auto"
METHODS = ("least squares", "regression", "cma-es", "bayesian")
_SURFACE = 12  # runs per coefficient of a surface: 10 to 20 (F. Harrell, Regression Modeling Strategies, 2015, 4.4)
_LEVELS = 8  # of a whole number, from which on it is taken as a real one
_DESCENTS = 4  # of least squares: one of them is from the start
EXPENSIVE = 1.0  # s of CPU per run from which on a surrogate proposes where to run


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a method of an extension proposes, and what it has spent.

    Such a method is a function of a problem, which parameters (d,) it may move, the values (d,) of the others, a budget
    and a seed. It has a name in the entry-point group `cosim.calibrations`.
    """

    unit: Floats  # (searched,) in the unit cube of the searched parameters
    runs: int
    r2: float = math.nan  # of its surrogate on runs that it has not seen, NaN without one


def method_names() -> tuple[str, ...]:
    """The names that `calibrate.method` may have besides `auto`."""
    return (*METHODS, *installed("calibrations"))


def choose(problem: CalibrationProblem, searched: NDArray[np.bool_], runs: int) -> str:
    """The method for a problem with these parameters left to search, and so many runs.

    Least squares for deterministic models with paired signals and real parameters; Bayesian for runs of
    a second and more, as long as there are few parameters and scikit-learn is there; regression for simulations with
    chance, where the runs are enough for its surface; CMA-ES for all others, as for categories.
    """
    left = [p for p, one in zip(problem.space.parameters, searched, strict=True) if one]
    counted = [signal for signal in problem.fit.observed.values() if signal.weight > 0.0]
    if problem.deterministic and all(s.paired for s in counted) and not any(p.discrete for p in left):
        return "least squares"
    if problem.cost >= EXPENSIVE and len(left) <= 20 and not lacking("sklearn", "twin"):
        return "bayesian"
    numbers = all(p.kind == "real" or (p.kind == "integer" and p.levels >= _LEVELS) for p in left)
    if numbers and not problem.deterministic and runs >= _SURFACE * features(len(left)):
        return "regression"
    return "cma-es"


@dataclass(slots=True, eq=False)
class Searching:
    """What a search is given; `meters` holds those that it used, with the best points that they saw."""

    start: Floats  # (d,)
    losses: Callable[[Floats, list[int]], Floats]  # mean over seeds
    residuals: Callable[[Floats], Floats]
    squares: Callable[[Floats], Floats]  # sums of squared residuals
    seeds: list[int]  # the same for all candidates
    fresh: Callable[[int], int]  # number of a batch -> its seed
    levels: Floats  # (d,) of discrete parameters, 0 for real ones
    sample: Callable[[int], Floats]  # points from the prior
    random: np.random.Generator
    budget: Budget
    clock: Callable[[], float]
    meters: list[Meter] = field(default_factory=list)
    answer: Floats | None = None  # (1 + k, d) of a search that regresses: its answer, then rivals

    def meter(self, objective: Callable[[Floats], Floats], runs_per_point: int = 1) -> Meter:
        spent = sum(meter.runs for meter in self.meters)
        left = Budget(max(self.budget.runs - spent, 0), self.budget.seconds)
        self.meters.append(Meter(objective, left, runs_per_point=runs_per_point, clock=self.clock))
        return self.meters[-1]

    def candidates(self, most: int = 8) -> Floats:
        """(n, d) the answer and its rivals, or the best points of the last meter that differ, best first."""
        if self.answer is not None:
            return self.answer
        seen = next((meter for meter in reversed(self.meters) if np.isfinite(meter.best)), None)
        chosen: list[Floats] = []
        for point, loss in zip(seen.points, seen.losses, strict=True) if seen is not None else ():
            if np.isfinite(loss) and all(np.abs(point - other).max() > 0.002 for other in chosen):
                chosen.append(point)
        return np.array(chosen[:most], np.float64).reshape(-1, len(self.start))


def search(method: str, given: Searching) -> str:
    """Search by `method`; why it ended. The points found are in `given.candidates()`."""
    if method == "least squares":
        return _least_squares(given)
    if method == "regression":
        return _regression(given)
    meter = given.meter(lambda units: given.losses(units, given.seeds), len(given.seeds))
    if method == "bayesian":
        if without := lacking("sklearn", "twin"):
            raise SetupError(without)
        first = max(4, min(2 * len(given.start) + 4, meter.room // 3))
        return bayesian(meter, _scattered(given, first - 1), given.random).stopped
    # From the best of the start and of points all over the bounds.
    meter(_scattered(given, min(8 * len(given.start), meter.room // 5)))
    return cma_es(meter, meter.found(given.start, "").units, given.random, levels=given.levels).stopped


def _scattered(given: Searching, count: int) -> Floats:
    """(1 + count, d) the start, and points from the prior."""
    return np.concatenate([given.start[None], given.sample(count)]) if count > 0 else given.start[None]


def _regression(given: Searching) -> str:
    """From points of the prior, a batch under a seed of its own after another."""
    batches = itertools.count()
    meter = given.meter(lambda units: given.losses(units, [given.fresh(next(batches))]))
    d = len(given.start)
    first = max(min(8 * features(d), meter.room // 3), 2)
    points = _scattered(given, first - 1)
    found, rivals = regression(meter, points, given.random, levels=given.levels)
    given.answer = np.concatenate([found.units[None], rivals])
    return found.stopped


def _least_squares(given: Searching) -> str:
    """From the start and from the best of some points all over the bounds, in the order of their losses.

    So a budget that ends early has been spent where it is worth most, and the answer is no worse than any of them.
    """
    if given.levels.any():
        hint = "use cma-es, or leave them out"
        raise ScenarioError(Mistake("least squares cannot search whole numbers and categories", "calibrate", hint=hint))

    scout = given.meter(given.squares)
    scout(_scattered(given, min(16 * len(given.start), scout.room // 4)))
    starts = scout.points[:_DESCENTS].reshape(-1, len(given.start))
    if not (starts == given.start).all(axis=1).any():
        starts = np.concatenate([starts[: _DESCENTS - 1], given.start[None]])
    found, _ = least_squares(given.residuals, given.meter, starts)
    return found.stopped
