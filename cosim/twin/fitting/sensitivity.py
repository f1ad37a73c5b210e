"""What each free value does to each measured signal, before anything is searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cosim.twin.fitting.misfit import Misfit
from cosim.twin.fitting.screen import morris
from cosim.twin.problem import CalibrationProblem, Floats

_SEEDS = 3  # the fewest with a deviation that is not that of a pair
_TRAJECTORIES = 10  # F. Campolongo et al., Environmental Modelling & Software 22 (2007): 10 to 50


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The effects of one parameter: moved over its bounds, it changes the misfit of a signal by so much.

    Signals that do not count in the misfit are left out.
    """

    name: str
    misfit: float  # of all signals
    signals: dict[str, float]
    noise: float  # standard deviation of the misfit over seeds
    effect: bool  # whether any change can be distinguished from chance


def sensitivities(problem: CalibrationProblem, *, seed: int = 1) -> tuple[Sensitivity, ...]:
    """Morris' effects of every parameter on the misfit, whole and by signal; 30 (d + 1) runs, 10 (d + 1) of a
    deterministic problem.
    """
    observed = problem.fit.observed
    whole = Misfit(observed, problem.distance)
    counted = {name: signal for name, signal in observed.items() if signal.weight > 0.0}
    single = {name: Misfit({name: signal}, problem.distance) for name, signal in counted.items()}
    roots = np.random.SeedSequence(seed).generate_state(_SEEDS, np.uint64) >> np.uint64(1)
    seeds = [int(word) for word in (roots[:1] if problem.deterministic else roots)]

    def answers(units: Floats) -> Floats:
        values = problem.space.values(units)
        found = []
        for one in seeds:
            simulated = problem.fit.simulate(values, one)
            found.append(np.stack([m.losses(simulated) for m in (whole, *single.values())], axis=1))
        return np.stack(found, axis=1)

    effects = morris(answers, len(problem.space), np.random.default_rng(seed), _TRAJECTORIES)
    least = np.maximum(effects.noise, 1e-9)
    return tuple(
        Sensitivity(
            name,
            float(effects.change[k, 0]),
            dict(zip(single, effects.change[k, 1:].tolist(), strict=True)),
            float(effects.noise[0]),
            bool((effects.change[k] > least).any()),
        )
        for k, name in enumerate(problem.space.names)
    )
