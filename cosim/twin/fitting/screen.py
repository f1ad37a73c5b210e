"""Which parameters the data carry information about.

`morris` looks for effects over the whole cube before a search; `sensitivities` reports them for each signal. After a
search, `identify` finds from the remaining uncertainty which parameters can only be identified together. A parameter
may have an effect and still not be identifiable: when only a product matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.calibration import Verdict
from cosim.twin.fitting.misfit import Misfit
from cosim.twin.fitting.posterior import PRIOR_SD
from cosim.twin.problem import CalibrationProblem, Floats, seeds_of

Answers = Callable[[Floats], Floats]  # points (n, d) -> (n, s, q): q figures under s seeds
CORRELATED = 0.9  # reported: a variance inflated five times, as R2 is 0.81 (D. Marquardt, Technometrics 12, 1970)
SEEDS = 3  # the fewest with a deviation that is not that of a pair
_GRID = 4  # levels of Morris' grid; a step goes over half of them (as in Morris' example, 1991)


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """What moving each parameter does.

    `change` is the effect of moving it over its bounds on each figure, root mean square over the cube
    and without what chance adds; `noise` the standard deviation of each figure over seeds.
    """

    change: Floats  # (d, q)
    noise: Floats  # (q,)
    elementary: Floats  # (trajectories, d, q) means over seeds, per unit of the cube

    @property
    def mean_absolute(self) -> Floats:
        """(d, q) Morris' mu*: the mean length of the elementary effects (Campolongo et al. 2007)."""
        return np.asarray(np.abs(self.elementary).mean(axis=0))


def morris(answers: Answers, d: int, random: np.random.Generator, trajectories: int = 10) -> Effects:
    """Elementary effects along trajectories on a grid: `trajectories` times d + 1 points.

    M. Morris, Technometrics 33 (1991); 10 to 50 of them: F. Campolongo et al., Environmental Modelling & Software 22
    (2007). Trajectories with a point that cannot be simulated are left out.
    All points are run under the same seeds, so that an effect of exactly nothing is found to be that.
    """
    step = _GRID / (2.0 * (_GRID - 1))
    points = np.empty((trajectories, d + 1, d))
    moves = np.empty((trajectories, d), np.int64)
    signs = np.empty((trajectories, d))
    for t in range(trajectories):
        at = random.integers(0, _GRID // 2, d) / (_GRID - 1)
        down = random.random(d) < 0.5
        at[down] += step
        moves[t] = random.permutation(d)
        points[t, 0] = at
        for k, p in enumerate(moves[t]):
            at = at.copy()
            at[p] += -step if down[p] else step
            signs[t, k] = -1.0 if down[p] else 1.0
            points[t, k + 1] = at
    simulated = answers(points.reshape(-1, d))
    seeds, figures = simulated.shape[1:]
    simulated = simulated.reshape(trajectories, d + 1, seeds, figures)
    usable = np.isfinite(simulated).all(axis=(1, 2, 3))
    found = np.zeros((trajectories, d, seeds, figures))
    rows = np.arange(trajectories)
    for k in range(d):
        found[rows, moves[:, k]] = (simulated[:, k + 1] - simulated[:, k]) * signs[:, k, None, None] / step
    found, simulated = found[usable], simulated[usable]
    if not len(found):
        return Effects(np.full((d, figures), np.inf), np.zeros(figures), np.zeros((0, d, figures)))
    means = found.mean(axis=2)
    chance = found.var(axis=2, ddof=1) / seeds if seeds > 1 else np.zeros_like(means)
    change = np.sqrt(np.maximum((means**2 - chance).mean(axis=0), 0.0))
    noise = np.sqrt(simulated.var(axis=2, ddof=1).mean(axis=(0, 1))) if seeds > 1 else np.zeros(figures)
    return Effects(change, noise, means)


@dataclass(frozen=True, slots=True)
class Identity:
    """The verdict on one parameter after a search."""

    verdict: Verdict
    reason: str = ""


def identify(covariance: Floats, names: Sequence[str]) -> tuple[Identity, ...]:
    """Verdicts from the covariance (d, d), in the unit cube, of the remaining uncertainty.

    A parameter is "correlated" when it is not known well and would be known at least five times better if the others
    were known, or when it is strongly correlated with such a one. It has "no effect" when it is as uncertain as the
    bounds alone make it, whatever the others are. Strong correlations of parameters that are known well are only
    reported.
    """
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-30))
    correlation = covariance / np.outer(sd, sd)
    ridge = correlation + 1e-6 * np.eye(len(sd))
    ratio = np.sqrt(np.diag(np.linalg.inv(ridge)))  # how many times better each is known if the others are
    vague = ((ratio > 5.0) & (sd > 0.03)) | ((ratio > 2.0) & (sd > 0.5 * PRIOR_SD))
    strong = (np.abs(correlation) > CORRELATED) & ~np.eye(len(sd), dtype=np.bool_)
    vague |= (strong & vague).any(axis=1) & (sd > 0.03)  # known only together with a vague one
    found = []
    for k in range(len(names)):
        order = [int(j) for j in np.argsort(-np.abs(correlation[k]), kind="stable") if j != k]
        some = [j for j in order if strong[k, j]] or [j for j in order if abs(correlation[k, j]) > 0.25][:3]
        simulated = ", ".join(f"{names[j]} ({correlation[k, j]:+.2f})" for j in some)
        if vague[k] and some:
            found.append(Identity("correlated", f"only known together with {simulated}"))
        elif sd[k] > 0.9 * PRIOR_SD:
            found.append(Identity("no effect", "the data leave it as uncertain as its bounds do"))
        elif strong[k].any():
            found.append(Identity("fitted", f"correlated with {simulated}"))
        else:
            found.append(Identity("fitted"))
    return tuple(found)


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
    seeds = seeds_of(seed, count=1 if problem.deterministic else SEEDS)

    def answers(units: Floats) -> Floats:
        values = problem.space.values(units)
        found = []
        for one in seeds:
            simulated = problem.fit.simulate(values, one)
            found.append(np.stack([m.losses(simulated) for m in (whole, *single.values())], axis=1))
        return np.stack(found, axis=1)

    effects = morris(answers, len(problem.space), np.random.default_rng(seed))
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
