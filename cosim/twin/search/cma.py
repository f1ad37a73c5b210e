"""CMA-ES: a normal distribution that moves and stretches along what was better.

Constants and updates of N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772 (2016),
with restarts of doubled population (A. Auger, N. Hansen, "A restart CMA evolution strategy with
increasing population size", CEC 2005). The bounds reflect: the distribution lives in all of R^d and
the loss of a point is that of its mirror image in the cube, so that steps need no repair.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.twin.search.meter import CONVERGED, Floats, Meter, SearchResult


def reflect(points: Floats) -> Floats:
    """Mirror images in the unit cube."""
    folded = np.abs(np.mod(points + 1.0, 2.0) - 1.0)
    return np.minimum(folded, np.nextafter(1.0, 0.0))


class _Distribution:
    """Mean, step and covariance; `sample` draws a generation, `update` learns from its losses.

    Its constants are those of the tutorial's table 1 for one population size.
    """

    def __init__(self, mean: Floats, sigma: float, population: int, least: Floats) -> None:
        n = len(mean)
        self.mean, self.sigma, self.population, self._least = mean.copy(), sigma, population, least
        raw = math.log((population + 1) / 2) - np.log(np.arange(1, population // 2 + 1))
        self._weights: Floats = raw / raw.sum()
        self._effective = mu = float(1.0 / (self._weights**2).sum())
        self._c_sigma = (mu + 2) / (n + mu + 5)
        self._d_sigma = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (n + 1)) - 1) + self._c_sigma
        self._c_c = (4 + mu / n) / (n + 4 + 2 * mu / n)
        self._c_1 = 2 / ((n + 1.3) ** 2 + mu)
        self._c_mu = min(1 - self._c_1, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + mu))
        self._usual = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))  # length of a standard normal vector
        self.covariance = np.eye(n)
        self._axes, self._lengths = np.eye(n), np.ones(n)
        self._path_sigma, self._path_c, self._generation = np.zeros(n), np.zeros(n), 0

    def sample(self, random: np.random.Generator) -> tuple[Floats, Floats]:
        """(population, d) points anywhere, and their steps in units of sigma.

        A discrete coordinate keeps a spread of `least`, or it could not change its level any more.
        """
        steps = random.standard_normal((self.population, len(self.mean))) * self._lengths @ self._axes.T
        spread = self.sigma * np.sqrt(np.diag(self.covariance))
        wider = np.maximum(1.0, self._least / np.maximum(spread, 1e-300))
        return self.mean + self.sigma * steps * wider, steps

    def update(self, points: Floats, steps: Floats, losses: Floats) -> None:
        n = len(self.mean)
        order = np.argsort(losses, kind="stable")[: len(self._weights)]
        self.mean = self._weights @ points[order]
        step = self._weights @ steps[order]
        self._generation += 1
        white = self._axes @ ((self._axes.T @ step) / self._lengths)
        self._path_sigma = (1 - self._c_sigma) * self._path_sigma + math.sqrt(
            self._c_sigma * (2 - self._c_sigma) * self._effective
        ) * white
        norm = float(np.linalg.norm(self._path_sigma))
        fresh = math.sqrt(1 - (1 - self._c_sigma) ** (2 * self._generation))
        turning = norm / fresh < (1.4 + 2 / (n + 1)) * self._usual
        self._path_c = (1 - self._c_c) * self._path_c
        if turning:
            self._path_c = self._path_c + math.sqrt(self._c_c * (2 - self._c_c) * self._effective) * step
        rank_one = np.outer(self._path_c, self._path_c)
        if not turning:
            rank_one = rank_one + self._c_c * (2 - self._c_c) * self.covariance
        rank_mu = (steps[order].T * self._weights) @ steps[order]
        self.covariance = (1 - self._c_1 - self._c_mu) * self.covariance + self._c_1 * rank_one + self._c_mu * rank_mu
        self.sigma *= math.exp(min(1.0, (self._c_sigma / self._d_sigma) * (norm / self._usual - 1)))
        values, self._axes = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        self._lengths = np.sqrt(np.maximum(values, 1e-20))
        # Beyond the size of the cube a distribution is uniform by its mirror images.
        self.sigma = min(self.sigma, 1.0 / float(self._lengths.max()))

    @property
    def width(self) -> float:
        """The longest axis."""
        return self.sigma * float(self._lengths.max())


def cma_es(
    meter: Meter, start: Floats, random: np.random.Generator, *, sigma: float = 0.25, levels: Floats | None = None,
    restarts: int = 4, tolerance: float = 1e-9,
) -> SearchResult:  # fmt: skip
    """Search from `start` (d,), then from points at random, until runs agree or the budget ends.

    `levels` (d,) counts the values of discrete parameters, 0 for real ones. A run ends when its losses
    differ by less than `tolerance`, relatively, over some generations or its longest axis is below
    1e-7; restarts double the population. Two runs in succession that do not better the best by 1 part in
    1000 end the search.
    """
    n = len(start)
    levels = np.zeros(n) if levels is None else levels
    least = np.where(levels > 0, 0.4 / np.maximum(levels, 1), 0.0)
    size = 4 + int(3 * math.log(n))
    idle, begin = 0, np.asarray(start, np.float64)
    for _ in range(restarts + 1):
        before = meter.best
        _run(meter, _Distribution(begin, sigma, size, least), random, tolerance)
        if meter.over:
            break
        idle = 0 if meter.best < before - 1e-3 * abs(before) or not math.isfinite(before) else idle + 1
        if idle == 2:
            break
        begin, size, sigma = random.random(n), 2 * size, max(sigma, 0.25)
    return meter.found(start, meter.over or CONVERGED)


def _run(meter: Meter, law: _Distribution, random: np.random.Generator, tolerance: float) -> None:
    """One descent."""
    patience = 10 + math.ceil(30 * len(law.mean) / law.population)
    lowest: list[float] = []
    while not meter.over:
        points, steps = law.sample(random)
        losses = meter(reflect(points))
        if not np.isfinite(losses).any():
            law.sigma = min(1.5 * law.sigma, 1.0)  # nothing could be simulated here: look further
            lowest.append(math.inf)
            if len(lowest) > patience and not np.isfinite(lowest[-patience:]).any():
                return
            continue
        law.update(points, steps, losses)
        lowest.append(float(losses.min()))
        if law.width < 1e-7:
            return
        recent = lowest[-patience:]
        if len(lowest) >= patience:
            spread = max(max(recent) - min(recent), float(np.ptp(losses[np.isfinite(losses)])))
            if spread <= tolerance * max(abs(recent[-1]), 1e-12):
                return
