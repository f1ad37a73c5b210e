"""Values that are far from their kind: from the median of all, or from their neighbours."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from cosim.contract.records import Flags, Floats

Mask = Flags

_LEAST = 5  # values
_LONG_TAIL = 4.0  # robust standard deviations of the logarithm
OUTLIER = 8.0  # robust standard deviations: 1 of 10^15 normal values; wide laws have their logarithm as well
PART = 0.1  # more are no gross errors: 1 to 10 % of routine data are (F. Hampel et al., Robust Statistics, 1986, 1.2)
_ENDS = 2.0 * NormalDist().inv_cdf(1.0 - PART)  # standard deviations between both ends of a normal law
_WINDOW = 5  # neighbours, the value itself among them
_SMOOTH = 0.1  # deviation from the neighbours over that from the median: below it a series is smooth


def robust(values: Floats) -> tuple[float, float]:
    """Median, and a standard deviation by the median absolute deviation; by the mean one if most values are equal.

    Source: Iglewicz and Hoaglin, How to detect and handle outliers (1993).
    """
    middle = float(np.median(values))
    away = np.abs(values - middle)
    scale = 1.4826 * float(np.median(away))
    return middle, scale if scale > 0.0 else 1.2533 * float(np.mean(away))


def far(values: Floats, threshold: float) -> Mask:
    """(m,) which values are `threshold` robust standard deviations from the median; missing ones are not.

    If most values are alike, such as responses of a server that is seldom busy, the deviation of the middle does not
    describe the others: then no tenth of all values at either end is far. Values that are all positive may have a long
    tail, as response times do: then the logarithm must be far off too, by half as many deviations or `_LONG_TAIL`.
    """
    kept = np.isfinite(values)
    if kept.sum() < _LEAST:
        return np.zeros(len(values), np.bool_)
    middle, scale = robust(values[kept])
    with np.errstate(invalid="ignore"):
        found = kept & (np.abs(values - middle) > threshold * scale)
        if found.mean() <= PART:
            low, high = np.quantile(values[kept], [PART, 1.0 - PART])
            found &= np.abs(values - middle) > threshold * float(high - low) / _ENDS
        if scale > 0.0 and values[kept].min() > 0.0:
            center, spread = robust(np.log(values[kept]))
            found &= np.abs(np.log(values) - center) > min(threshold / 2.0, _LONG_TAIL) * spread
    return found


def spikes(values: Floats, threshold: float) -> Mask:
    """(m,) which single values of a smooth series are far from their neighbours (Hampel's filter).

    Far is `threshold` robust standard deviations of what values usually differ from the median of
    `_WINDOW` neighbours, and half a standard deviation of the series. A series that also jumps without
    coming back at once, as power does with its load, has no spikes.
    """
    found = np.zeros(len(values), np.bool_)
    rows = np.flatnonzero(np.isfinite(values))
    if len(rows) < 4 * _WINDOW:
        return found
    kept = values[rows]
    padded = np.pad(kept, _WINDOW // 2, mode="reflect")
    off = np.abs(kept - np.median(np.lib.stride_tricks.sliding_window_view(padded, _WINDOW), axis=1))
    usual, scale = 1.4826 * float(np.median(off)), robust(kept)[1]
    if usual >= _SMOOTH * scale:
        return found
    limit = max(threshold * usual, 0.5 * scale)
    single = off > limit
    jumps = np.abs(np.diff(kept)) > limit
    beside = np.concatenate([[False], single]) | np.concatenate([single, [False]])  # of the steps, with both ends
    if not (jumps & ~beside[1:-1]).any():
        found[rows] = single
    return found
