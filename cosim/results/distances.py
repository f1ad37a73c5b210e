"""Distances between samples: one measured sample against many simulated ones at once.

Samples may have different sizes; both distances are exact for the empirical distributions.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Ints

Positions = Ints

_LARGEST = 2_000_000  # values of a temporary array; more rows are taken in parts


@lru_cache(maxsize=64)
def coupling(first: int, second: int) -> tuple[Positions, Positions, Floats]:
    """How the sorted values of two samples pair up along their quantiles.

    The two quantile functions are constant between the points i/first and j/second. Returns, for
    each of those pieces, the index into the one sample, into the other, and the width; widths add
    up to 1. The points are compared as whole numbers i*second and j*first, so none is doubled by rounding.
    """
    one = np.arange(1, first + 1, dtype=np.int64) * second
    other = np.arange(1, second + 1, dtype=np.int64) * first
    ends = np.union1d(one, other)
    widths = np.diff(ends, prepend=0) / (first * second)
    return np.searchsorted(one, ends), np.searchsorted(other, ends), widths


def wasserstein(observed: ArrayLike, simulated: ArrayLike, *, power: int = 1) -> Floats:
    """(n,) Wasserstein distance of order `power` between `observed` (m,) and each row of `simulated` (n, k).

    In the unit of the samples. A row that holds NaN or infinity is infinitely far away. Source:
    W_p^p is the integral of |F^-1(q) - G^-1(q)|^p over q (Villani, Topics in Optimal Transportation, 2.2).
    """
    real, rows = _samples(observed, simulated)
    at, beside, widths = coupling(len(real), rows.shape[1])
    real = np.sort(real)[at]
    same = len(widths) == rows.shape[1]  # `beside` is then 0, 1, 2, ...
    result = np.empty(len(rows))
    for part in _parts(len(rows), len(widths)):
        ordered = np.sort(rows[part], axis=1)
        if not same:
            ordered = np.take(ordered, beside, axis=1)
        with np.errstate(invalid="ignore"):  # infinity less infinity, in rows that count as infinite
            ordered = np.abs(ordered - real)
        # Not by a matrix product: how that rounds depends on the number of rows.
        result[part] = np.sum((ordered if power == 1 else ordered**power) * widths, axis=1)
    return _far(result if power == 1 else result ** (1.0 / power))


def energy_distance(observed: ArrayLike, simulated: ArrayLike) -> Floats:
    """(n,) energy distance between `observed` (m,) and each row of `simulated` (n, k).

    In the square root of the unit: sqrt(2 integral (F - G)^2 dx) = sqrt(2 E|X-Y| - E|X-X'| - E|Y-Y'|)
    (Szekely and Rizzo, 2013). A row that holds NaN or infinity is infinitely far away.
    """
    real, rows = _samples(observed, simulated)
    step = np.concatenate([np.full(len(real), 1.0 / len(real)), np.full(rows.shape[1], -1.0 / rows.shape[1])])
    result = np.empty(len(rows))
    for part in _parts(len(rows), len(step)):
        both = np.concatenate([np.broadcast_to(real, (len(rows[part]), len(real))), rows[part]], axis=1)
        order = np.argsort(both, axis=1)
        both = np.take_along_axis(both, order, axis=1)
        between = np.cumsum(step[order], axis=1)[:, :-1]  # F - G between neighbouring values
        with np.errstate(invalid="ignore"):
            result[part] = np.sqrt(2.0 * np.sum(between**2 * np.diff(both, axis=1), axis=1))
    return _far(np.where(np.isfinite(rows).all(axis=1), result, np.inf))


def _samples(observed: ArrayLike, simulated: ArrayLike) -> tuple[Floats, Floats]:
    real = np.asarray(observed, np.float64)
    rows = np.atleast_2d(np.asarray(simulated, np.float64))
    if real.ndim != 1 or len(real) == 0 or rows.shape[1] == 0:
        raise ValueError(f"a sample needs one value or more; shapes are {real.shape} and {rows.shape}")
    if not np.isfinite(real).all():
        raise ValueError("measured values must be finite; leave missing ones out")
    return real, rows


def _parts(rows: int, width: int) -> list[slice]:
    size = max(_LARGEST // max(width, 1), 1)
    return [slice(start, start + size) for start in range(0, rows, size)]


def _far(distances: Floats) -> Floats:
    return np.where(np.isfinite(distances), distances, np.inf)
