"""A search whose answer is regressed over all of its runs, for losses that chance blurs.

Points are drawn in batches from the normal law of the best quarter so far (an estimation of distribution:
P. Larranaga, J. Lozano, 2002). All points of a batch share a seed, so that they differ by their
parameters and not by chance, and every batch has a fresh one, so that no point is good by the luck of
one seed alone. The answer is the minimum of a quadratic fitted to the best third (a response surface:
G. Box, K. Wilson, J. R. Stat. Soc. B 13, 1951): every run counts, where the best of many noisy points
is too good to be true.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from cosim.twin.search.cma import reflect
from cosim.twin.search.meter import CONVERGED, Floats, Meter, SearchResult

_ELITE = 0.25  # of all points: the law that the next batch is drawn from
_NEAR = 1.0 / 3.0  # of all points: what the surface is fitted to
_WIDTH = 1e-6  # deviation below which all points are the same
_CANDIDATES = 4000  # points at which the surface is looked at


def features(d: int) -> int:
    """Coefficients of a quadratic of `d` parameters."""
    return 1 + d + d * (d + 1) // 2


def regression(
    meter: Meter, first: Floats, random: np.random.Generator, *, levels: Floats | None = None
) -> tuple[SearchResult, Floats]:
    """Search from the points `first` (n, d) until the budget is used; where the surface is lowest, and rivals (k, d).

    `meter` answers the points of one call under one seed, each call under another. Rivals are the middle
    of the best quarter and the best points themselves: the surface may be of another shape than a
    quadratic, so that the caller compares them under fresh seeds. `levels` (d,) counts the values of whole numbers.
    """
    d = first.shape[1]
    least = np.where(levels > 0, 0.4 / np.maximum(levels, 1), 0.0) if levels is not None else np.zeros(d)
    points, losses = first[: meter.room], meter(first)[: len(first)]
    losses = losses[: len(points)]
    while room := meter.room:
        finite = np.isfinite(losses)
        if finite.sum() < 2 * d:
            batch = random.random((min(room, 15 * d), d))
        else:
            middle, spread = _law(points[finite], losses[finite], d)
            if np.sqrt(np.linalg.eigvalsh(spread)[-1]) < _WIDTH:
                break
            spread = spread + np.diag(least**2)
            batch = reflect(random.multivariate_normal(middle, spread, min(room, max(15 * d, len(points) // 10))))
        found = meter(batch)
        points, losses = np.concatenate([points, batch]), np.concatenate([losses, found])
    stopped = meter.over or CONVERGED
    finite = np.isfinite(losses)
    if not finite.any():
        return meter.found(first[0], stopped), np.empty((0, d))
    points, losses = points[finite], losses[finite]
    at, height = lowest(points, losses, random)
    middle, _ = _law(points, losses, d)
    return SearchResult(at, height, stopped), np.stack([np.clip(middle, 0.0, 1.0), points[np.argmin(losses)]])


def _law(points: Floats, losses: Floats, d: int) -> tuple[Floats, Floats]:
    """Mean and covariance of the best quarter, of at least as many points as make a covariance."""
    count = min(len(points), max(10 * d, int(_ELITE * len(points))))
    best = points[np.argsort(losses, kind="stable")[:count]]
    return best.mean(axis=0), np.atleast_2d(np.cov(best.T)) + 1e-15 * np.eye(d)


def lowest(points: Floats, losses: Floats, random: np.random.Generator) -> tuple[Floats, float]:
    """Where (d,) a quadratic through the best third of the points (n, d) is lowest, among them, and how low."""
    d = points.shape[1]
    order = np.argsort(losses, kind="stable")
    near = order[: max(min(2 * features(d), len(points)), int(_NEAR * len(points)))]
    points, losses = points[near], losses[near]
    if len(points) < features(d) + d:
        return points[0], float(losses[0])
    middle, scale = points.mean(axis=0), points.std(axis=0) + 1e-12
    weight = (losses - losses.min() + 0.02 * (np.ptp(losses) or 1.0)) ** -0.5
    surface = quadratic((points - middle) / scale)
    coefficients = np.linalg.lstsq(surface * weight[:, None], losses * weight, rcond=None)[0]
    pairs = points[random.integers(len(points), size=(_CANDIDATES, 2))].mean(axis=1)  # in the hull of the points
    height = quadratic((pairs - middle) / scale) @ coefficients
    some = np.argsort(height)[: _CANDIDATES // 20]
    return pairs[some].mean(axis=0), float(height[some].mean())


def quadratic(x: Floats) -> Floats:
    """(n, features(d)) 1, coordinates (n, d) and their products."""
    columns = [np.ones(len(x)), *x.T]
    columns += [x[:, a] * x[:, b] for a, b in combinations_with_replacement(range(x.shape[1]), 2)]
    return np.stack(columns, axis=1)
