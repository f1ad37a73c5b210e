"""Features of windows that end at a row: the value, its mean and deviation over the window, and its difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
KINDS = ("", "_mean", "_dev", "_diff")  # of each column; "" is the value itself
ROWS = "rows"  # rows in the window: a node that was not heard for a while has few


def names(columns: Sequence[str]) -> tuple[str, ...]:
    """The features that `columns` give, in their order."""
    return (*(column + kind for column in columns for kind in KINDS), ROWS)


def features(node: NDArray[np.int64], time: Floats, columns: Mapping[str, Floats], window: float) -> Floats:
    """Features (n, 4 k + 1) of rows that are sorted by `node` (n,) and `time` (n,) s, from k columns (n,).

    A window holds the rows of the node with times in (t - window, t]. The deviation is that of its
    rows (division by their number), the difference that to the row before, 0 for the first one. NaN is
    no value: it counts in no mean, and a window of nothing else has NaN.
    """
    count = len(time)
    found = np.empty((count, len(KINDS) * len(columns) + 1))
    if not count:
        return found
    starts = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))
    lengths = np.diff(np.append(starts, count))
    first = np.repeat(starts, lengths)  # first row of the node
    base = time.min()
    span = float(time.max() - base) + 2.0 * window + 1.0
    line = np.repeat(np.arange(len(starts)), lengths) * span + (time - base)
    begin = np.maximum(np.searchsorted(line, line - window + 1e-9 * window, side="right"), first)
    here = np.arange(count)
    for k, values in enumerate(columns.values()):
        known = ~np.isnan(values)
        center = float(values[known].mean()) if known.any() else 0.0  # sums of squares lose fewer digits near 0
        shifted = np.where(known, values - center, 0.0)
        number = _sums(known.astype(np.float64), begin, here)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = _sums(shifted, begin, here) / number
            square = _sums(shifted * shifted, begin, here) / number
        before = np.where(here > first, np.roll(values, 1), values)
        at = len(KINDS) * k
        found[:, at] = values
        found[:, at + 1] = mean + center
        found[:, at + 2] = np.sqrt(np.maximum(square - mean * mean, 0.0))
        found[:, at + 3] = values - before
    found[:, -1] = here - begin + 1
    return found


def _sums(values: Floats, begin: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
    """Sums (n,) of `values` over begin..end, both included."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[end + 1] - total[begin])
