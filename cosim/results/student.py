"""Student's t distribution and Holm's correction, without scipy.

Abramowitz & Stegun, Handbook of Mathematical Functions: the distribution function is
1 - I_x(v/2, 1/2) / 2 with x = v / (v + t^2) (26.7.1), I the regularised incomplete beta function by
its continued fraction (26.5.8), evaluated by Lentz's method.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, isfinite, lgamma, log, sqrt

_TINY = 1e-300
_LEVELS = ("dB", "dBm")  # units of what may be below 0


def cdf(t: float, freedom: float) -> float:
    """The probability that a t variable with `freedom` (> 0) degrees of freedom is at most `t`."""
    if not freedom > 0:
        raise ValueError(f"degrees of freedom must be positive, not {freedom}")
    square = t * t
    if not isfinite(square):
        return 1.0 if t > 0 else 0.0
    tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))
    return 1.0 - tail if t > 0 else tail


def quantile(p: float, freedom: float) -> float:
    """The t that `cdf` gives `p` (0 < p < 1) for."""
    if not 0.0 < p < 1.0:
        raise ValueError(f"a probability between 0 and 1 is needed, not {p}")
    if p < 0.5:
        return -quantile(1.0 - p, freedom)
    low, high = 0.0, 1.0
    while cdf(high, freedom) < p:
        low, high = high, 2 * high
        if not isfinite(high):
            raise ValueError(f"the quantile {p} with {freedom} degrees of freedom is too large")
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle, freedom) < p else (low, middle)
    return 0.5 * (low + high)


def incomplete_beta(a: float, b: float, x: float, rest: float | None = None) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1.

    `rest` is 1 - x where the caller knows it better than the subtraction does.
    """
    rest = 1.0 - x if rest is None else rest
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest))
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast; elsewhere by symmetry
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, rest) / b


def interval(values: list[float], level: float = 0.95) -> tuple[float, float]:
    """Mean of `values` and half the width of its confidence interval (NaN for fewer than two)."""
    n = len(values)
    mean = sum(values) / n if n else float("nan")
    if n < 2:
        return mean, float("nan")
    return mean, quantile(0.5 + level / 2, n - 1) * sqrt(variance(values) / n)


def floor(values: Iterable[float], unit: str = "") -> float:
    """The bound below the mean of figures: 0 where none of the `values` is below 0, -inf else and for levels in dB."""
    return 0.0 if min(values, default=-1.0) >= 0.0 and unit not in _LEVELS else -inf


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for their number (S. Holm, Scand. J. Statistics 6, 1979), in the order given."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def variance(values: list[float]) -> float:
    """Sample variance with n - 1."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of I_x(a, b)."""
    c, d = 1.0, _away(1.0 - (a + b) * x / (a + 1))
    d = 1.0 / d
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1.0 / _away(1.0 + even * d), _away(1.0 + even / c)
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1.0 / _away(1.0 + odd * d), _away(1.0 + odd / c)
        result *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return result


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
