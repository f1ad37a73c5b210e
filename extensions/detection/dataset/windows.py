"""Features of windows that end at a row: the value, its mean and deviation over the window, and its difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry

Floats = NDArray[np.float64]
KINDS = ("", "_mean", "_dev", "_diff")  # of each column; "" is the value itself
ROWS = "rows"  # rows in the window: a node that was not heard for a while has few


@entry()
def windowed(values: Floats, begin: NDArray[np.int64], mean: Floats, deviation: Floats) -> None:
    """Write `mean` and `deviation` (n,) of `values` (n,) over begin..i for each row i, both included.

    They are sums of differences to the window's last value and depend on nothing outside it, so that a
    window has the same bits in a run and in a data set, and one of equal values the deviation 0.
    """
    for i in range(len(values)):
        number, total, middle = 0, 0.0, np.nan
        for j in range(i, begin[i] - 1, -1):
            if values[j] == values[j]:
                if number == 0:
                    middle = values[j]
                total += values[j] - middle
                number += 1
        shift, square = total / number, 0.0
        for j in range(i, begin[i] - 1, -1):
            if values[j] == values[j]:
                square += (values[j] - middle - shift) ** 2
        mean[i], deviation[i] = middle + shift, np.sqrt(square / number)


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
    begin = np.maximum(np.searchsorted(line, line - window + 1e-9 * window, side="right"), first).astype(np.int64)
    here = np.arange(count)
    mean, deviation = np.empty(count), np.empty(count)
    for k, column in enumerate(columns.values()):
        values = np.ascontiguousarray(column, np.float64)
        windowed(values, begin, mean, deviation)
        before = np.where(here > first, np.roll(values, 1), values)
        at = len(KINDS) * k
        found[:, at] = values
        found[:, at + 1] = mean
        found[:, at + 2] = deviation
        found[:, at + 3] = values - before
    found[:, -1] = here - begin + 1
    return found
