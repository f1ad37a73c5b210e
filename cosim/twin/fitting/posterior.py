"""How far a calibrated value may be off: samples of the parameters given the data.

`laplace` is for deterministic models with paired signals: the posterior under normal errors of unknown
size, by importance sampling from the normal law at the least squares. For simulators with chance there is
`cosim.twin.fitting.synthetic`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosim.twin.search.cma import reflect
from cosim.twin.search.least_squares import Residuals, jacobian
from cosim.twin.search.meter import Floats, Objective

LEVEL = 0.9  # of the intervals, as every page states them
PRIOR_SD = 12.0**-0.5  # of a coordinate of the cube, which is uniform: its exact deviation


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Samples of the searched parameters.

    `widened` is the factor by which intervals were widened because the model does not reproduce the
    data within its noise, 1 where it does, and `off` by what share of a value it is then off, beyond chance.
    """

    units: Floats  # (n, d)
    method: str  # laplace, importance sampling, synthetic likelihood
    widened: float = 1.0
    off: float = 0.0

    @property
    def covariance(self) -> Floats:
        return np.atleast_2d(np.cov(self.units.T))

    @property
    def middle(self) -> Floats:
        """(d,) the median of every parameter."""
        return np.median(self.units, axis=0)

    def interval(self, level: float = LEVEL) -> tuple[Floats, Floats]:
        """(d,) bounds that hold `level` of the samples, as much left out on either side."""
        low, high = np.quantile(self.units, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high


def independent(residuals: Floats) -> float:
    """How many of the residuals count as independent: n over 1 + 2 sum of the autocorrelation.

    Summed over even pairs while they are positive (C. Geyer, Statistical Science 7, 1992).
    """
    n = len(residuals)
    centred = residuals - residuals.mean()
    power = float(centred @ centred)
    if n < 8 or power <= 0.0:
        return float(n)
    spectrum = np.fft.rfft(centred, 2 * n)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:n] / power
    pairs = correlation[1 : 1 + 2 * ((n - 1) // 2)].reshape(-1, 2).sum(axis=1)
    # a single pair above 0 may be chance: its deviation is sqrt(2 / n)
    stop = int(np.argmax(pairs < math.sqrt(2.0 / n))) if (pairs < math.sqrt(2.0 / n)).any() else len(pairs)
    return float(n / max(1.0, 1.0 + 2.0 * pairs[:stop].sum()))


def laplace(
    residuals: Residuals, squares_of: Objective, at: Floats, random: np.random.Generator, *, runs: int = 3000,
    count: int = 2000, log_prior: Callable[[Floats], Floats] | None = None,
) -> Posterior:  # fmt: skip
    """Posterior (count, d) around the least squares `at` (d,), spending at most `runs` runs.

    `squares_of` returns only the sums of squared residuals, as there may be many residuals. With the size of the errors
    integrated out under Jeffreys' prior, the density is the sum of squares to the power -n/2 (Gelman et al., Bayesian
    Data Analysis, 3rd edition, 14.2), where n is the number of independent residuals. Proposals are Student's t with 5
    degrees of freedom around `at`, with the covariance of the normal approximation, and that of the prior where the
    data carry no information; those outside are mirrored. If they cover the density badly, or there are no runs for
    them, the normal approximation itself is returned.
    """
    d = len(at)
    now, slope = jacobian(residuals, at)
    # Differences over 1e-4 that are exactly 0 hide effects of steps; the prior is 1/12, the cube's.
    n = min(float(len(now)), independent(now))
    freedom = max(n - d, 1.0)
    squares = max(float(now @ now), 1e-24)
    variance = squares / len(now) * (n / freedom)  # of one residual
    information = slope.T @ slope * (n / len(now)) / variance
    values, axes = np.linalg.eigh(information + 12.0 * np.eye(d))
    spreads = 1.0 / np.sqrt(values)
    student = math.sqrt(freedom / (freedom - 2.0)) if freedom > 2.0 else 3.0
    normal = at + student * (random.standard_normal((count, d)) * spreads) @ axes.T
    inside = ((normal >= 0.0) & (normal <= 1.0)).all(axis=1)
    normal = normal[inside] if inside.mean() > 0.2 else reflect(normal)
    left = runs - (2 * d + 1)
    if left < 200:
        return Posterior(normal, "laplace")

    def density(points: Floats) -> Floats:
        total = squares_of(points)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = -0.5 * n * np.log((np.maximum(total, 1e-24)) / squares)
        logs = np.where(np.isfinite(total), logs, -np.inf)
        return logs + (log_prior(points) if log_prior is not None else 0.0)

    centre = at
    for _ in range(3):
        draws = min(2 * count, left // 3)
        spread = axes * spreads
        steps = random.standard_normal((draws, d)) @ spread.T
        stretch = np.sqrt(5.0 / random.chisquare(5.0, draws))
        points = centre + steps * stretch[:, None]
        inside = ((points >= 0.0) & (points <= 1.0)).all(axis=1)
        if inside.sum() < 50:
            break
        points = points[inside]
        distance = (((points - centre) @ axes / spreads) ** 2).sum(axis=1)
        logs = density(points) + 0.5 * (5.0 + d) * np.log1p(distance / 5.0)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        effective = 1.0 / float((weights**2).sum())
        centre = weights @ points
        moved = (points - centre).T * weights @ (points - centre)
        values, axes = np.linalg.eigh(moved + 1e-4 * np.diag(np.diag(moved)) + 1e-16 * np.eye(d))
        spreads = np.sqrt(np.maximum(values, 1e-18))
        if effective >= 300.0:
            return Posterior(points[random.choice(len(points), count, p=weights)], "importance sampling")
    return Posterior(normal, "laplace")
