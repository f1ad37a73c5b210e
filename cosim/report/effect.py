"""Means with confidence intervals, differences between groups, and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mean:
    """A mean over `n` values and the half width of its 95 % interval (NaN for one value)."""

    value: float
    half: float
    n: int


@dataclass(frozen=True)
class Difference:
    """How a second group differs from a first one.

    `half`: half width of the 95 % interval by Welch's t; `size`: Hedges' g, the difference in
    pooled standard deviations with its small-sample correction. Both NaN unless each group has two
    values. `clear` says that the interval leaves out zero.
    """

    value: float
    ratio: float  # value over the first mean, NaN when that is 0
    half: float
    size: float

    @property
    def clear(self) -> bool:
        return math.isfinite(self.half) and abs(self.value) > self.half


def mean(values: Sequence[float]) -> Mean:
    """The mean of the finite ones among `values`, with its 95 % interval by Student's t."""
    known = [v for v in values if math.isfinite(v)]
    n = len(known)
    if n == 0:
        return Mean(math.nan, math.nan, 0)
    centre = math.fsum(known) / n
    return Mean(centre, math.nan if n < 2 else t_quantile(n - 1) * math.sqrt(_variance(known) / n), n)


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """`second` minus `first`: of means, with Welch's interval and Hedges' g where they exist."""
    a, b = [v for v in first if math.isfinite(v)], [v for v in second if math.isfinite(v)]
    if not a or not b:
        return Difference(math.nan, math.nan, math.nan, math.nan)
    base = math.fsum(a) / len(a)
    value = math.fsum(b) / len(b) - base
    ratio = value / abs(base) if base else math.nan
    if len(a) < 2 or len(b) < 2:
        return Difference(value, ratio, math.nan, math.nan)
    u, w = _variance(a) / len(a), _variance(b) / len(b)
    if u + w == 0:
        return Difference(value, ratio, 0.0, math.nan if value else 0.0)
    freedom = (u + w) ** 2 / (u**2 / (len(a) - 1) + w**2 / (len(b) - 1))
    total = len(a) + len(b) - 2
    pooled = math.sqrt(((len(a) - 1) * _variance(a) + (len(b) - 1) * _variance(b)) / total)
    return Difference(value, ratio, t_quantile(freedom) * math.sqrt(u + w), value / pooled * (1 - 3 / (4 * total - 1)))


def cliffs_delta(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """P(second > first) - P(second < first) for sorted samples: -1 all lower, 0 alike, 1 all higher."""
    if not len(first) or not len(second):
        return math.nan
    below = np.searchsorted(first, second, "left").sum(dtype=np.float64)
    above = (len(first) - np.searchsorted(first, second, "right")).sum(dtype=np.float64)
    return float((below - above) / (len(first) * len(second)))


def size_in_words(delta: float) -> str:
    """Cliff's delta in words, by the bounds 0.147, 0.33 and 0.474 (Romano et al., 2006)."""
    if not math.isfinite(delta):
        return ""
    bounds = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
    return next((name for bound, name in bounds if abs(delta) < bound), "large")


def _variance(values: Sequence[float]) -> float:
    centre = math.fsum(values) / len(values)
    return math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1)


@cache
def t_quantile(freedom: float, share: float = 0.975) -> float:
    """The quantile of Student's t for `share` >= 0.5, by bisection on its distribution function."""
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_below(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def _t_below(t: float, freedom: float) -> float:
    return 1 - 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            result *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * result


def _away(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
