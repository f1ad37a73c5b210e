"""A calibration through a surrogate: a network or a process learns what the simulator answers, and is searched instead.

For simulators that are slow. SimTune's offline pipeline, and those of the methods that it was compared with; see
`cosim.extensions.simtune.surrogate.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.simtune.surrogate.methods import Pipeline, tune
from cosim.twin.fitting.methods import Proposal
from cosim.twin.problem import CalibrationProblem, Floats
from cosim.twin.search import Budget
from cosim.twin.space import Space

TRAINING = 120.0  # s of CPU at most that a surrogate learns


def simtune(
    problem: CalibrationProblem, searched: NDArray[np.bool_], rest: Floats, budget: Budget, seed: int
) -> Proposal:
    """SimTune's offline pipeline, as a method of `calibrate.method`."""
    return _through_surrogate("SimTune", problem, searched, rest, budget, seed)


def hgp(problem: CalibrationProblem, searched: NDArray[np.bool_], rest: Floats, budget: Budget, seed: int) -> Proposal:
    """A heteroscedastic Gaussian process and an evolution strategy."""
    return _through_surrogate("HGP+ES", problem, searched, rest, budget, seed)


def lstm(problem: CalibrationProblem, searched: NDArray[np.bool_], rest: Floats, budget: Budget, seed: int) -> Proposal:
    """An LSTM and gradient descent on it."""
    return _through_surrogate("LSTM+SGD", problem, searched, rest, budget, seed)


def _through_surrogate(
    method: str, problem: CalibrationProblem, searched: NDArray[np.bool_], rest: Floats, budget: Budget, seed: int
) -> Proposal:
    space = Space([one for one, free in zip(problem.space.parameters, searched, strict=True) if free])

    def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
        whole = np.tile(rest, (len(values), 1))
        whole[:, searched] = values
        return problem.fit.simulate(whole, seed)

    inner = replace(problem, space=space, fit=replace(problem.fit, simulate=simulate), held_back=None)
    pipeline = Pipeline(runs=budget.runs, seconds=min(budget.seconds, TRAINING))
    tuned = tune(inner, method, pipeline=pipeline, seed=seed)
    return Proposal(tuned.unit, tuned.runs, tuned.r2)
