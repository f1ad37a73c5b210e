"""The values whose simulations are nearest to a measurement, by its figures: damped Gauss-Newton steps.

    found = nearest(made, real, start, low, high)       # made(x): (repeats, figures) of each part of the data
    off(made(found.point), real, found.roots)

Figures are taken as normal with the mean and covariance that runs have (synthetic likelihood, Wood, Nature 466, 2010).
Runs at all points have the same seeds. Logarithms of quantiles weigh the whole distribution equally, while a distance
of distributions follows its tail: they need a fraction of the values for the same information.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.judgement.course import EXACT
from cosim.twin.problem import Floats

Made = Callable[[Floats], Sequence[Floats]]

AT = np.array([0.02, 0.08, 0.2, 0.35, 0.5, 0.65, 0.8, 0.92, 0.98])  # quantiles
REPEATS = 24  # runs at a point
STEPS, _FAR = 8, 0.5  # the most; the longest
AHEAD = 0.03  # over which slopes are taken, of logarithms or of bounds


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """A point (d,) and how far the measurement is from what is made there."""

    point: Floats
    deviance: float  # -2 log likelihood
    roots: tuple[Floats, ...]  # of each part: of the inverse of the covariance of its figures


def quantile(values: Floats, levels: Floats) -> Floats:
    """What `np.quantile` gives for finite `values` (n,) and `levels` (k,), to the bit, in a fifth of the time."""
    ordered = np.sort(values)
    place = (len(ordered) - 1) * levels
    below = place.astype(np.intp)
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    share, apart = place - below, high - low
    return np.where(share >= 0.5, high - apart * (1 - share), low + apart * share)


def quantiles(values: Floats) -> Floats:
    """Logarithms of the quantiles `AT` of positive `values` (n,)."""
    return np.asarray(np.log(np.maximum(quantile(values, AT), 1e-12)))


def off(made: Sequence[Floats], real: Sequence[Floats], roots: Sequence[Floats]) -> float:
    """How far figures `real` are from those `made`, root mean square, in the deviations of `roots`."""
    rest = _rest(made, real, roots)
    return math.sqrt(float(rest @ rest) / len(rest))


def nearest(
    made: Made, real: Sequence[Floats], start: Floats, low: Floats, high: Floats, *, steps: int = STEPS
) -> Nearest:
    """The nearest point between `low` and `high` (d,) from `start` on; slopes are taken over `AHEAD`."""
    point = np.clip(start, low, high)
    damping, there = 1e-3, made(point)
    roots = [root(some) for some in there]
    for step in range(steps):
        if 0 < 2 * step < steps:  # then deviations stay as they are, so that the steps converge
            roots = [root(some) for some in there]
        rest = _rest(there, real, roots)
        ways = np.where(point + AHEAD <= high, AHEAD, -AHEAD)
        slopes = np.array([
            (_rest(made(point + way * unit), real, roots) - rest) / way
            for way, unit in zip(ways.tolist(), np.eye(len(point)), strict=True)
        ])  # fmt: skip
        square = slopes @ slopes.T
        for _ in range(4):
            way = -np.linalg.solve(square + np.diag(damping * np.diag(square) + 1e-3), slopes @ rest)
            new = np.clip(point + np.clip(way, -_FAR, _FAR), low, high)
            then = made(new)
            after = _rest(then, real, roots)
            if after @ after < rest @ rest:
                break
            damping = 10.0 * max(damping, 1e-3)
        else:
            break
        moved = float(np.abs(new - point).max())
        point, there, damping = new, then, max(damping / 10.0, 1e-6)
        if moved < EXACT:
            break
    roots = [root(some) for some in there]
    rest = _rest(there, real, roots)
    volume = sum(float(np.log(np.abs(np.diag(one))).sum()) for one in roots)
    return Nearest(point, float(rest @ rest) - 2.0 * volume, tuple(roots))


def _rest(made: Sequence[Floats], real: Sequence[Floats], roots: Sequence[Floats]) -> Floats:
    return np.concatenate([
        one @ (known - some.mean(axis=0)) for known, some, one in zip(real, made, roots, strict=True)
    ])  # fmt: skip


def root(made: Floats) -> Floats:
    """The root of the inverse of the covariance of figures (n, k), which n runs only estimate."""
    covariance = np.cov(made.T) * (1.0 + 1.0 / len(made))
    scale = np.maximum(np.sqrt(np.diag(covariance)), 1e-4)
    correlation = 0.9 * covariance / np.outer(np.maximum(scale, 1e-4), scale) + 0.1 * np.eye(len(scale))
    return np.asarray(np.linalg.cholesky(np.linalg.inv(correlation)).T / scale)
