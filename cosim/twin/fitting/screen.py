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
from cosim.twin.search.meter import Floats

Answers = Callable[[Floats], Floats]  # points (n, d) -> (n, s, q): q figures under s seeds
PRIOR_SD = 12.0**-0.5  # of a coordinate of the cube
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

    def ratio(self) -> Floats:
        """(d,) the greatest change of any figure, in standard deviations over seeds."""
        return np.asarray((self.change / np.maximum(self.noise, 1e-300)).max(axis=1))

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
    told = answers(points.reshape(-1, d))
    seeds, figures = told.shape[1:]
    told = told.reshape(trajectories, d + 1, seeds, figures)
    usable = np.isfinite(told).all(axis=(1, 2, 3))
    found = np.zeros((trajectories, d, seeds, figures))
    rows = np.arange(trajectories)
    for k in range(d):
        found[rows, moves[:, k]] = (told[:, k + 1] - told[:, k]) * signs[:, k, None, None] / step
    found, told = found[usable], told[usable]
    if not len(found):
        return Effects(np.full((d, figures), np.inf), np.zeros(figures), np.zeros((0, d, figures)))
    means = found.mean(axis=2)
    chance = found.var(axis=2, ddof=1) / seeds if seeds > 1 else np.zeros_like(means)
    change = np.sqrt(np.maximum((means**2 - chance).mean(axis=0), 0.0))
    noise = np.sqrt(told.var(axis=2, ddof=1).mean(axis=(0, 1))) if seeds > 1 else np.zeros(figures)
    return Effects(change, noise, means)


def sobol(
    figure: Callable[[Floats], Floats], d: int, random: np.random.Generator, count: int = 256
) -> tuple[Floats, Floats]:
    """First-order and total indices (d,) of a figure (n,), from count times d + 2 points.

    A. Saltelli et al., Computer Physics Communications 181 (2010): the estimator of their table 2 (b)
    for the first order, M. Jansen's (1999) for the total. Both lie in 0 to 1 up to the error of sampling.
    """

    def filled() -> Floats:
        strata = np.stack([random.permutation(count) for _ in range(d)], axis=1)
        return np.asarray((strata + random.random((count, d))) / count)

    a, b = filled(), filled()
    mixed = np.repeat(a[None], d, axis=0)
    mixed[np.arange(d), :, np.arange(d)] = b.T
    told = figure(np.concatenate([a, b, mixed.reshape(-1, d)])).reshape(d + 2, count)
    usable = np.isfinite(told).all(axis=0)
    told = told[:, usable] - told[:2, usable].mean()
    variance = float(told[:2].var()) or 1.0
    fa, fb, fm = told[0], told[1], told[2:]
    first = (fb * (fm - fa)).mean(axis=1) / variance
    total = ((fa - fm) ** 2).mean(axis=1) / (2.0 * variance)
    return first, total


def fisher(answers: Answers, at: Floats, step: float = 0.03) -> tuple[Floats, Floats]:
    """Information (d, d) about coordinates of the cube at a point, and the slopes (q, d) it comes from.

    By central differences under the same seeds; figures are taken as normal and independent, with their
    variance over seeds. NaN where a point could not be simulated.
    """
    d = len(at)
    up, down = np.minimum(at + step, 1.0) - at, at - np.maximum(at - step, 0.0)
    told = answers(np.concatenate([at[None], at + np.diag(up), at - np.diag(down)]))
    if not np.isfinite(told).all():
        return np.full((d, d), np.nan), np.full((told.shape[2], d), np.nan)
    slopes = ((told[1 : d + 1] - told[d + 1 :]).mean(axis=1) / (up + down)[:, None]).T
    noise = told[0].var(axis=0, ddof=1) if told.shape[1] > 1 else np.zeros(told.shape[2])
    noise = np.maximum(noise, 1e-12)
    return np.asarray(slopes.T @ (slopes / noise[:, None])), slopes


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
        told = ", ".join(f"{names[j]} ({correlation[k, j]:+.2f})" for j in some)
        if vague[k] and some:
            found.append(Identity("correlated", f"only known together with {told}"))
        elif sd[k] > 0.9 * PRIOR_SD:
            found.append(Identity("no effect", "the data leave it as uncertain as its bounds do"))
        elif strong[k].any():
            found.append(Identity("fitted", f"correlated with {told}"))
        else:
            found.append(Identity("fitted"))
    return tuple(found)
