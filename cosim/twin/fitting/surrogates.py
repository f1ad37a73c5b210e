"""A calibration through a surrogate: a network or a process learns what the simulator answers, and is searched instead.

For simulators that are slow. SimTune's offline pipeline, and those of the methods that it was compared with; see
`cosim.extensions.simtune.surrogate.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.simtune.surrogate.methods import Pipeline, Tuned, tune
from cosim.twin.problem import CalibrationProblem, Floats

NAMES = {"simtune": "SimTune", "hgp": "HGP+ES", "lstm": "LSTM+SGD"}  # as `calibrate.method` has them
TRAINING = 120.0  # s of CPU at most that a surrogate learns
LEARNED = 0.3  # R2 below which it is told to know little


def through_surrogate(
    problem: CalibrationProblem,
    searched: NDArray[np.bool_],
    rest: Floats,
    method: str,
    *,
    runs: int,
    seconds: float,
    seed: int,
) -> Tuned:
    """What the surrogate `method` proposes for the `searched` parameters (d,); the others stay at `rest`."""
    names = [name for name, one in zip(problem.space.names, searched, strict=True) if one]

    def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
        whole = np.tile(rest, (len(values), 1))
        whole[:, searched] = values
        return problem.fit.simulate(whole, seed)

    inner = replace(
        problem, space=problem.space.only(names), fit=replace(problem.fit, simulate=simulate), held_back=None
    )
    return tune(inner, NAMES[method], pipeline=Pipeline(runs=runs, seconds=min(seconds, TRAINING)), seed=seed)
