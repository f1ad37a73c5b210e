"""When a host counts as over-loaded: compiled, one host at a time.

A detector sees the present load and the history of the load, newest first. `iqr`, `mad`, `lr` and
`lrr` are those of Beloglazov and Buyya 2012 (doi 10.1002/cpe.1867); `fop` is a weighted mean of the
past, as described in `docs/datacentre.md`. While the history is too short for a detector, the
present load is compared with the threshold.
"""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import part
from cosim.contract.records import Floats
from cosim.extensions.extcloudsim.datacentre import layout as l

FOP_PERIODS = 10
FOP_MARGIN = 1.05
REGRESSION = 10  # periods that the regression looks at
SPREAD = 12  # periods that iqr and mad need more than


@part
def spread_limit(detector: int, safety: float, history: Floats, length: int) -> float:
    """1 - s times the interquartile range, or the median absolute deviation, of this much of the history."""
    ordered = np.sort(history[:length])
    if detector == l.IQR:
        low = int(np.floor(0.25 * (length + 1) + 0.5)) - 1
        high = int(np.floor(0.75 * (length + 1) + 0.5)) - 1
        return float(1.0 - safety * (ordered[high] - ordered[low]))
    return float(1.0 - safety * np.median(np.abs(ordered - np.median(ordered))))


@part
def limit(detector: int, threshold: float, safety: float, history: Floats, length: int) -> float:
    """The load above which a host is over-loaded under `iqr` and `mad`: 1 - s spread; else the threshold."""
    if detector not in (l.IQR, l.MAD) or length <= SPREAD:
        return threshold
    return spread_limit(detector, safety, history, length)


@part
def foreseen(history: Floats) -> float:
    """The load that `fop` foresees: entries 1..10 of the history weighted (10, 9, ..., 1)^2, times 1.05."""
    total, weights = 0.0, 0.0
    for i in range(1, FOP_PERIODS + 1):
        weight = float((FOP_PERIODS + 1 - i) ** 2)
        total += weight * history[i]
        weights += weight
    return FOP_MARGIN * total / weights


@part
def fit(history: Floats, weights: Floats) -> tuple[float, float]:
    """(level at x = 0, slope) of the least squares line through the newest entries, x = 10 the newest."""
    sw, sx, sy, sxx, sxy = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(REGRESSION):
        x, y, weight = float(REGRESSION - i), history[i], weights[i]
        sw += weight
        sx += weight * x
        sy += weight * y
        sxx += weight * x * x
        sxy += weight * x * y
    slope = (sw * sxy - sx * sy) / (sw * sxx - sx * sx)
    return (sy - slope * sx) / sw, slope


@part
def extrapolated(history: Floats, ahead: float, robust: bool) -> float:
    """Load `ahead` periods after the newest entry by local regression over the last ten.

    Weights are tricube in the distance to the newest entry; the robust form multiplies them by bisquare
    weights of the residuals (Cleveland 1979, doi 10.1080/01621459.1979.10481038) and fits again.
    """
    weights = np.empty(REGRESSION)
    for i in range(REGRESSION):
        weights[i] = (1.0 - (i / REGRESSION) ** 3) ** 3
    level, slope = fit(history, weights)
    if robust:
        off = np.empty(REGRESSION)
        for i in range(REGRESSION):
            off[i] = abs(history[i] - level - slope * (REGRESSION - i))
        scale = 6.0 * np.median(off)
        if scale > 0.0:
            for i in range(REGRESSION):
                weights[i] *= (1.0 - min(1.0, off[i] / scale) ** 2) ** 2
            level, slope = fit(history, weights)
    return level + slope * (REGRESSION + ahead)


@part
def overloaded(
    detector: int, threshold: float, safety: float, load: float, history: Floats, length: int, ahead: float
) -> bool:
    """Whether a host with this present load and history is over-loaded."""
    if detector == l.FOP and length > FOP_PERIODS:
        return foreseen(history) > threshold
    if detector in (l.LR, l.LRR) and length >= REGRESSION:
        return safety * extrapolated(history, ahead, detector == l.LRR) >= threshold
    return load > limit(detector, threshold, safety, history, length)


@part
def entries(history: Floats) -> int:
    """Length of a history without the zeros at its old end."""
    length = l.HISTORY
    while length > 0 and history[length - 1] == 0.0:
        length -= 1
    return length
