"""Which parameters the data carry information about.

`morris` looks for effects over the whole cube before a search, and `sobol` apportions the variance of the misfit. After
a search, `identify` finds from the remaining uncertainty which parameters can only be identified together. A parameter
may have an effect and still not be identifiable: when only a product matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.calibration import Verdict
from cosim.twin.fitting.posterior import PRIOR_SD
from cosim.twin.search.meter import Floats

Answers = Callable[[Floats], Floats]  # points (n, d) -> (n, s, q): q figures under s seeds
CORRELATED = 0.9  # correlations beyond this are reported
_GRID = 4  # levels of Morris' grid; a step goes over half of them


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

    M. Morris, Technometrics 33 (1991). Trajectories with a point that cannot be simulated are left out.
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


def sobol(figure: Callable[[Floats], Floats], d: int, random: np.random.Generator, count: int = 256) -> Floats | None:
    """Total indices (d,) of a figure (n,), from `count` (a power of 2) times d + 2 points; None without scipy.

    A. Saltelli et al., Computer Physics Communications 181 (2010).
    """
    try:
        from scipy.stats import sobol_indices, uniform
    except ImportError:
        return None
    found = sobol_indices(func=lambda points: figure(points.T), n=count, dists=[uniform()] * d, random_state=random)
    return np.asarray(found.total_order, np.float64)


def fisher(answers: Answers, at: Floats, step: float = 0.03) -> Floats:
    """Information (d, d) about coordinates of the cube at a point.

    By central differences under the same seeds; figures are taken as normal and independent, with their
    variance over seeds. NaN where a point could not be simulated.
    """
    d = len(at)
    up, down = np.minimum(at + step, 1.0) - at, at - np.maximum(at - step, 0.0)
    simulated = answers(np.concatenate([at[None], at + np.diag(up), at - np.diag(down)]))
    if not np.isfinite(simulated).all():
        return np.full((d, d), np.nan)
    slopes = ((simulated[1 : d + 1] - simulated[d + 1 :]).mean(axis=1) / (up + down)[:, None]).T
    noise = simulated[0].var(axis=0, ddof=1) if simulated.shape[1] > 1 else np.zeros(simulated.shape[2])
    noise = np.maximum(noise, 1e-12)
    return np.asarray(slopes.T @ (slopes / noise[:, None]))


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
    alone = 1.0 / np.sqrt(np.diag(np.linalg.inv(ridge)))  # over sd: what is left when the others are known
    ratio = 1.0 / alone
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
