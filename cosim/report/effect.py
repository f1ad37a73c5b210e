"""Means with confidence intervals, differences between groups, and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.results import student
from cosim.results.compare import hedges_g, paired, welch


@dataclass(frozen=True)
class Mean:
    """A mean over `n` values and the half width of its 95 % interval (NaN for one value)."""

    value: float
    half: float
    n: int


@dataclass(frozen=True)
class Difference:
    """How a second group differs from a first one.

    `half`: half width of the 95 % interval, paired by seed or Welch's; `size`: Hedges' g, the difference in
    pooled standard deviations with its small-sample correction. Both NaN unless each group has two
    values. `clear`: the interval excludes zero.
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
    value, half = student.interval(known)
    return Mean(value, half, len(known))


def difference(
    first: Sequence[float], second: Sequence[float], pairs: Sequence[tuple[float, float]] = ()
) -> Difference:
    """`second` minus `first`: of means, with an interval and Hedges' g where they exist.

    The interval is that of `pairs`, the values of runs with equal seeds, where there are two or more, else Welch's.
    """
    if len(pairs) > 1:
        value, low, high, _ = paired(pairs)
        base = student.interval([x for x, _ in pairs])[0]
        size = hedges_g(list(first), list(second))
        return Difference(value, value / abs(base) if base else math.nan, (high - low) / 2, size)
    a, b = [v for v in first if math.isfinite(v)], [v for v in second if math.isfinite(v)]
    if not a or not b:
        return Difference(math.nan, math.nan, math.nan, math.nan)
    base = student.interval(a)[0]
    value = student.interval(b)[0] - base
    low, high = welch(a, b)
    return Difference(value, value / abs(base) if base else math.nan, (high - low) / 2, hedges_g(a, b))


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
