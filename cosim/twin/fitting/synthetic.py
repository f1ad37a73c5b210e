"""The posterior of a simulator with chance, by a synthetic likelihood.

The summaries of one run are taken as normal around a mean that depends on the parameters (S. Wood, Nature 466, 2010).
The mean is a quadratic of the parameters, fitted to runs in a region that shrinks in rounds to where the measurement is
likely: an emulated mean needs only one run per point. Every run has the measurement's length, so its chance is the
measurement's; the interval contains both.

One combination of the summaries is kept per parameter; the most informative ones are chosen (P. Fearnhead, D. Prangle,
J. R. Stat. Soc. B 74, 2012, take the posterior mean; near a normal law both span the same space).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.results.outliers import OUTLIER
from cosim.twin.fitting.posterior import PRIOR_SD, Posterior
from cosim.twin.judgement.course import EXACT
from cosim.twin.judgement.subject import BEYOND, FALSE, SURE
from cosim.twin.search.cma import reflect
from cosim.twin.search.meter import Floats
from cosim.twin.search.regression import features, quadratic

# (points (n, d), number of the first run) -> summaries (n, k), every row under a seed of its own
Draw = Callable[[Floats, int], Floats]
LogPrior = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class _Region:
    """A box in the cube along `axes`; what sticks out of the cube is not in it."""

    axes: Floats  # (d, d) orthonormal columns
    low: Floats  # (d,) along the axes
    high: Floats

    def inside(self, points: Floats) -> NDArray[np.bool_]:
        along = points @ self.axes
        within = (along >= self.low) & (along <= self.high) & (points >= 0.0) & (points <= 1.0)
        return np.asarray(within.all(axis=1))

    def features(self, points: Floats, squares: bool) -> Floats:
        """(n, f) of points: 1, all coordinates along the axes scaled to -1..1, and their products."""
        x = 2.0 * (points @ self.axes - self.low) / (self.high - self.low) - 1.0
        return quadratic(x) if squares else np.concatenate([np.ones((len(x), 1)), x], axis=1)

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """(up to count, d) points, evenly; fewer where hardly any of the box lies in the cube."""
        parts: list[Floats] = []
        left = count
        for _ in range(20):
            along = self.low + (self.high - self.low) * random.random((2 * count, len(self.low)))
            points = along @ self.axes.T
            parts.append(points[self.inside(points)][:left])
            left -= len(parts[-1])
            if left == 0:
                break
        return np.concatenate(parts)


def _solve(features: Floats, wanted: Floats) -> Floats:
    """Least squares with a ridge that only matters where there are too few rows."""
    normal = features.T @ features + 1e-6 * len(features) * np.eye(features.shape[1])
    return np.asarray(np.linalg.solve(normal, features.T @ wanted))


class Emulator:
    """Summaries as functions of the parameters within a region: a mean and a covariance that scales.

    `extra` (k, k) is a covariance that the runs do not have but the measurement has.
    """

    def __init__(self, region: _Region, points: Floats, summaries: Floats, observed: Floats, extra: Floats) -> None:
        d = points.shape[1]
        self.region = region
        self._quadratic = len(points) >= 3 * features(d)
        terms = region.features(points, self._quadratic)
        kept = _near(terms, summaries)
        terms, summaries = terms[kept], summaries[kept]
        self._whole = mean = _solve(terms, summaries)
        left = summaries - terms @ mean
        freedom = max(len(left) - terms.shape[1], 1)
        covariance = left.T @ left / freedom + extra + EXACT**2 * np.eye(left.shape[1])
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-18))
        correlation = 0.98 * (covariance / np.outer(scale, scale)) + 0.02 * np.eye(len(scale))
        values, axes = np.linalg.eigh(correlation)
        self._whiten = (axes / np.sqrt(np.maximum(values, 1e-6))) / scale[:, None]  # (k, k)
        white = mean @ self._whiten
        # Slopes of the whitened summaries over the region; the strongest directions hold what there is.
        strongest = np.linalg.svd(white[1:], full_matrices=False)[2][:d]
        self._kept = self._whiten @ strongest.T  # (k, r)
        self._mean = _solve(terms, summaries @ self._kept)
        self._observed = observed @ self._kept
        left = summaries @ self._kept - terms @ self._mean
        self._log_scale = self._scales(region.features(points[kept], False), left, d)
        spread = np.exp(0.5 * region.features(points[kept], False) @ self._log_scale)
        # The weights of the summaries suit these runs: in-sample the variance is too low by 1 - k / n, and they suit
        # others worse by as much (J. Hartlap et al., A&A 464, 2007; W. Percival et al., MNRAS 439, 2014).
        fresh = (1.0 + terms.shape[1] / len(left)) / max(1.0 - len(scale) / freedom, 0.5) ** 2
        noise = fresh * (left / spread).T @ (left / spread) / freedom
        extra = extra + EXACT**2 * np.eye(len(extra))
        noise = noise + self._kept.T @ extra @ self._kept + 1e-9 * np.eye(len(noise))
        self._root = np.linalg.inv(np.linalg.cholesky(noise))
        freedom = max(len(scale) - d, 1)
        made = _without_itself(terms, (((summaries - terms @ mean) @ self._whiten) ** 2).sum(axis=1))
        self._usual = float(np.quantile(made, 1.0 - 0.5 * FALSE)) / freedom
        off = observed - terms @ mean
        distances = ((off @ self._whiten) ** 2).sum(axis=1)
        nearest = int(np.argmin(distances))
        self.unexplained = float(distances[nearest]) / freedom  # squared distance from any mean, over the expected one
        # Summaries are asinh of ten times a value over the usual one (`Summaries`); small ones count as the usual one.
        beyond = np.sign(off[nearest]) * np.maximum(np.abs(off[nearest]) - BEYOND * scale, 0.0)
        made_there = np.sinh(observed - beyond)
        self.off = float(np.max(np.abs(np.sinh(observed) - made_there) / np.maximum(np.abs(made_there), 10.0)))

    @staticmethod
    def _scales(features: Floats, left: Floats, d: int) -> Floats:
        """(1 + d, r) coefficients of the log variance, whose mean over the points is 0."""
        if len(left) < 20 * (1 + d):
            return np.zeros((1 + d, left.shape[1]))
        found = _solve(features, np.log(left**2 + 1e-12))
        # Less what is chance (W. James, C. Stein, 1961): log chi squared varies by pi^2 / 2, even points by 1 / 3.
        chance = 1.5 * math.pi**2 / len(left)
        found[1:] = np.clip(found[1:] * np.maximum(1.0 - chance / found[1:] ** 2, 0.0), -1.5, 1.5)
        found[0] -= (features @ found).mean(axis=0)
        return found

    @property
    def doubtful(self) -> float:
        """Above this, `unexplained` is more than chance: three deviations of chi squared, or what runs hardly ever are.

        Summaries are not normal where many values are alike, as responses of a server of constant speed.
        """
        freedom = max(len(self._whiten) - len(self.region.low), 1)
        return max(1.0 + SURE * math.sqrt(2.0 / freedom) + SURE / freedom, float(self._usual))

    def slopes(self, at: Floats, step: float = 0.01) -> Floats:
        """(k, d) of the mean summaries at a point, by central differences."""
        ways = step * np.eye(len(at))
        up, down = (self.region.features(at + sign * ways, self._quadratic) @ self._whole for sign in (1.0, -1.0))
        return np.asarray((up - down).T / (2.0 * step))

    def log_likelihood(self, points: Floats, widened: float = 1.0) -> Floats:
        """(n,) of the measurement at points of the region, -inf outside; deviations are `widened` times as large."""
        mean = self.region.features(points, self._quadratic) @ self._mean
        logs = self.region.features(points, False) @ self._log_scale
        white = ((self._observed - mean) * np.exp(-0.5 * logs)) @ self._root.T
        simulated = -0.5 * (white**2).sum(axis=1) / widened**2 - 0.5 * logs.sum(axis=1)
        return np.where(self.region.inside(points), simulated, -np.inf)


def _without_itself(features: Floats, distances: Floats) -> Floats:
    """(n,) squared `distances` of rows as they are from what is fitted to all the others, as a measurement's is.

    Each has bent mean and covariance to itself (R. Cook, S. Weisberg, Residuals and Influence in Regression, 1982).
    """
    kept = np.maximum(1.0 - np.einsum("ij,ji->i", features, np.linalg.pinv(features)), EXACT)
    freedom = max(len(features) - features.shape[1], 2)
    within = distances / kept
    return np.asarray((freedom - 1) / freedom * within / np.maximum(1.0 - within / freedom, EXACT) / kept)


def _near(features: Floats, summaries: Floats) -> NDArray[np.bool_]:
    """The rows that are no outliers in any summary."""
    left = summaries - features @ _solve(features, summaries)
    middle = np.median(left, axis=0)
    deviation = 1.4826 * np.median(np.abs(left - middle), axis=0) + 1e-12
    kept: NDArray[np.bool_] = np.logical_and.reduce(np.abs(left - middle) <= OUTLIER * deviation, axis=1)
    return kept if kept.mean() > 0.8 else np.ones(len(kept), np.bool_)


def _sample(
    emulator: Emulator, known: Floats, log_prior: LogPrior, widened: float, random: np.random.Generator, count: int
) -> Floats:
    """(count, d) of the emulated posterior: importance sampling in the box, then differential evolution moves.

    C. ter Braak, Statistics and Computing 16 (2006); steps are mirrored at the cube's bounds. `known` (n, d)
    are points inside, for boxes that hardly lie in the cube.
    """
    region = emulator.region

    def density(points: Floats) -> Floats:
        return emulator.log_likelihood(points, widened) + log_prior(points)

    d = len(region.low)
    pool = np.concatenate([known, region.draw(20_000, random)])
    logs = density(pool)
    for _ in range(3):  # closer and closer to where it is likely
        chances = np.exp((logs - logs.max()) * min(1.0, 8.0 / max(1e-9, float(logs.max() - np.median(logs)))))
        places = pool[random.choice(len(pool), 5_000, p=chances / chances.sum())]
        spread = np.cov(places.T).reshape(d, d) * 0.5 + 1e-14 * np.eye(d)
        moved = reflect(places + random.multivariate_normal(np.zeros(d), spread, len(places)))
        pool, logs = np.concatenate([pool, moved]), np.concatenate([logs, density(moved)])
    order = np.argsort(-logs)[: max(count // 2, 4 * d)]
    walkers = pool[np.resize(order, count)]
    logs = density(walkers)
    small = 1e-5 * float((region.high - region.low).min())
    for step in range(250):
        a, b = random.integers(0, count, (2, count))
        gamma = 1.0 if step % 10 == 9 else 2.38 / math.sqrt(2 * d)
        jump = gamma * (walkers[a] - walkers[b]) + small * random.standard_normal((count, d))
        tried = reflect(walkers + jump)
        new = density(tried)
        take = np.log(random.random(count)) < new - logs
        walkers[take], logs[take] = tried[take], new[take]
    return walkers


def synthetic(
    draw: Draw, observed: Floats, start: Floats, random: np.random.Generator, *, runs: int = 4000, rounds: int = 4,
    count: int = 1000, extra: Floats | None = None, sampling: Floats | None = None, log_prior: LogPrior | None = None,
    sample: Callable[[int], Floats] | None = None,
) -> Posterior:  # fmt: skip
    """Posterior (count, d) of the parameters given the summaries `observed` (k,), from at most `runs` runs.

        `start` (d,) is the best known point, `sample(n)` draws from the prior. When the measurement lies
        further from all that the model makes than chance explains, deviations are widened so that it is as
    expected (R. Birge, Physical Review 40, 1932). `sampling` is the covariance (k, k) of the summaries by a bootstrap
    of the recording: no interval is narrower than it allows. Raises `ValueError` when hardly a run succeeds.
    """
    d, k = len(start), len(observed)
    extra = np.zeros((k, k)) if extra is None else extra
    believed: LogPrior = log_prior or (lambda points: np.zeros(len(points)))
    first = runs // rounds
    points = sample(first) if sample is not None else random.random((first, d))
    summaries = draw(points, 0)
    region = _first_region(points, summaries, observed, start)
    made, widened = points, 1.0
    for turn in range(1, rounds):
        some = region.draw(first if turn == 1 else first // 2, random)
        if len(some) < first:  # the rest where the posterior is, a little wider
            chosen = made[random.integers(0, len(made), first - len(some))]
            wider = np.cov(made.T).reshape(d, d) + 1e-14 * np.eye(d)
            near = reflect(chosen + random.multivariate_normal(np.zeros(d), wider, len(chosen)))
            some = np.concatenate([some, near])
        points = np.concatenate([points, some])
        summaries = np.concatenate([summaries, draw(some, turn * first)])
        usable = np.isfinite(summaries).all(axis=1) & region.inside(points)
        if usable.sum() < 4 * (d + 1):
            raise ValueError(f"{int(usable.sum())} of {len(usable)} runs around the best point could be used")
        emulator = Emulator(region, points[usable], summaries[usable], observed, extra)
        ratio = emulator.unexplained
        widened = math.sqrt(ratio) if ratio > emulator.doubtful else 1.0
        made = _sample(emulator, points[usable], believed, widened, random, count)
        if turn < rounds - 1:
            region = _around(made, region)
    if sampling is not None:
        made = _no_narrower(made, emulator.slopes(np.median(made, axis=0)), sampling)
    return Posterior(made, "synthetic likelihood", widened, emulator.off if widened > 1.0 else 0.0)


def _no_narrower(made: Floats, slopes: Floats, sampling: Floats) -> Floats:
    """Draws (n, d) of which none is known better than the recording alone allows.

    The least covariance of the values is the inverse of the information that the summaries have with their `sampling`
    covariance (Cramer and Rao), and that of the bounds.
    """
    known = np.diag(sampling) > 0.0
    if not known.any():
        return made
    spread = np.sqrt(np.diag(sampling)[known] + EXACT**2)  # quantiles of constant times are the same in every sample
    correlation = 0.98 * sampling[np.ix_(known, known)] / np.outer(spread, spread) + 0.02 * np.eye(len(spread))
    per = slopes[known] / spread[:, None]
    information = per.T @ np.linalg.solve(correlation, per)
    least = np.sqrt(np.diag(np.linalg.inv(information + np.eye(len(information)) / PRIOR_SD**2)))
    middle = np.median(made, axis=0)
    wider = np.maximum(least / np.maximum(made.std(axis=0), 1e-12), 1.0)
    return np.asarray(np.clip(middle + wider * (made - middle), 0.0, 1.0))


def _first_region(points: Floats, summaries: Floats, observed: Floats, start: Floats) -> _Region:
    """The box of the runs that come nearest to the measurement, and of the best known point."""
    usable = np.isfinite(summaries).all(axis=1)
    points, summaries, d = points[usable], summaries[usable], points.shape[1]
    least = 20 * d
    if len(points) < least:
        return _Region(np.eye(d), np.zeros(d), np.ones(d))
    scale = 1.4826 * np.median(np.abs(summaries - np.median(summaries, axis=0)), axis=0) + 1e-12
    far = (np.minimum(np.abs((summaries - observed) / scale), 3.0) ** 2).sum(axis=1)
    near = points[np.argsort(far, kind="stable")[: max(least, len(points) // 5)]]
    low, high = np.minimum(near.min(axis=0), start), np.maximum(near.max(axis=0), start)
    wider = 0.05 + 0.1 * (high - low)
    return _Region(np.eye(d), np.maximum(low - wider, 0.0), np.minimum(high + wider, 1.0))


def _around(made: Floats, before: _Region) -> _Region:
    """The box of the samples along their principal axes, wider by a third on each side.

    So parameters that only matter together leave a thin box, on which a quadratic is a good mean. Where
    samples press against the last box, and not because of the cube, the box grows by its whole size.
    """
    along = made @ before.axes
    low, high = np.quantile(along, [0.002, 0.998], axis=0)
    reach = 0.02 * (before.high - before.low)
    at_cube: NDArray[np.bool_] = np.logical_or.reduce((made < 0.01) | (made > 0.99), axis=1)
    pressed = np.zeros(len(low), np.bool_)
    for outermost, close in ((along <= low, low - before.low < reach), (along >= high, before.high - high < reach)):
        pressed |= close & np.logical_and(outermost, ~at_cube[:, None]).any(axis=0)
    axes: Floats = np.linalg.eigh(np.cov(made.T).reshape(len(low), -1))[1].astype(np.float64)
    low, high = np.quantile(made @ axes, [0.002, 0.998], axis=0)
    size = np.maximum(high - low, 1e-3)
    wider = (0.35 + 0.65 * (np.abs(axes.T @ before.axes) * pressed).max(axis=1)) * size
    return _Region(axes, low - wider, high + wider)
