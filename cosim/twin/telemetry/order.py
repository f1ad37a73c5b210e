"""How tasks follow one another in a queue: figures of their creation times and of their durations.

A distribution of responses does not show which task each of them belongs to. In a queue it matters: a task that finds
others under way waits for them (D. V. Lindley, Proc. Cambridge Phil. Soc. 48, 1952), one that comes after a long gap
does not, and those behind a slow one are slow too. Responses that were given to other tasks, or lengthened after they
were measured, may leave the distribution unchanged, but not these figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.twin.telemetry.quantities import Pairing, Quantity, Rows

Floats = NDArray[np.float64]

_LEAST = 30  # tasks of a device
_DEVICES = 24  # that are looked at one by one
_TOP = 0.04  # share of the longest responses
_FADING = np.array([[0.03], [0.1]])  # of the period, after which a warm-up has faded to a third
OVERTAKEN = "share of tasks that are answered before an earlier one"
GAPS = "spread of the gaps between tasks"
# Of the tasks of one device, in the mean over the devices.
_OWN = (
    "response by the answers awaited",
    "response by the tasks found",
    "response by the gap before",
    OVERTAKEN,
    "places that a task loses or gains till its answer",
    "places that the slowest tasks lose till their answer",
    "response after one of the longest",
    "longest times between answers",
    "times between answers at first",
    "times between answers in the first tenths",
    GAPS,
)
# Of all tasks, whose servers may be the same.
_ALL = ("response of all by the tasks found", "response of all after one of the longest")
FIGURES = (*_OWN, *_ALL)


class Order(Pairing):
    """Stands opposite measured tasks with `figures` instead of values."""

    def __init__(self, quantity: Quantity, measured: Rows) -> None:
        super().__init__(quantity, measured, paired=False)
        self.known = figures(self.measured)

    @property
    def count(self) -> int:
        return len(FIGURES)

    def values(self, simulated: Rows, end: float) -> Floats:
        """(count,) figures of the simulated tasks of the window."""
        return figures(simulated.only(self._quantity.within(simulated)))


def figures(rows: Rows) -> Floats:
    """(len(FIGURES),) of tasks whose values are the s from creation to answer; NaN where there are too few tasks."""
    kept = np.isfinite(rows.values) & np.isfinite(rows.times)
    created, response, devices = rows.times[kept], rows.values[kept], rows.nodes[kept]
    every = _figures(created, response)
    own, weights = [], []
    numbers = np.unique(devices).tolist()
    if 1 < len(numbers) <= _DEVICES:
        for k in numbers:
            mine = devices == k
            if mine.sum() >= _LEAST:
                own.append(_figures(created[mine], response[mine]))
                weights.append(int(mine.sum()))
    mean = np.average(own, axis=0, weights=weights) if own else every
    return np.concatenate([mean, every[[1, 6]]])


def _figures(created: Floats, response: Floats) -> Floats:
    """(len(_OWN),) of tasks in any order."""
    n = len(created)
    if n < _LEAST or np.ptp(created) == 0.0:
        return np.full(len(_OWN), np.nan)
    order = np.argsort(created, kind="stable")
    gaps = np.quantile(np.diff(created[order]), [0.1, 0.5, 0.9])
    rounding = 1e-6 * float(np.median(response))  # clocks have so few digits; what is alike shall not be ranked by them
    created, response = created[order], np.round(response[order] / rounding) * rounding if rounding else response
    ended = created + response
    last = np.maximum.accumulate(ended)[:-1]  # of the answers to earlier tasks
    by_end = np.argsort(ended, kind="stable")
    ends, place = ended[by_end], np.empty(n)
    place[by_end] = np.arange(n)
    found = np.searchsorted(created, created) - np.searchsorted(ends, created)  # of those created before
    lost = place - np.arange(n)
    longest = np.argsort(response)[-max(round(_TOP * n), 3) :]
    places = ranks(response)
    # A server in turn takes for a task the time from its coming, or from the answer before, to its answer.
    took = ends - np.maximum(created[by_end], np.concatenate([[-np.inf], ends[:-1]]))
    took = np.round(took / rounding) * rounding if rounding else took
    middle, high = np.quantile(took, [0.5, 0.98])
    courses = np.exp(-(created[by_end] - created[0]) / np.ptp(created) / _FADING)
    took_ranks = ranks(took)
    return np.array([
        correlation(places[1:], ranks(np.maximum(last - created[1:], 0.0))),
        correlation(places, ranks(found.astype(np.float64))),
        correlation(places[1:], ranks(np.diff(created))),
        float(np.mean(ended[1:] < last - 2.0 * rounding)),
        float(np.mean(np.abs(lost))),
        float(np.quantile(lost, 0.98)),
        float(places[np.minimum(longest + 1, n - 1)].mean()) / n,
        float(np.log(high / middle)) if middle > 0.0 else 0.0,
        *(correlation(took_ranks, course) for course in courses),
        float((gaps[2] - gaps[0]) / gaps[1]) if gaps[1] > 0.0 else 0.0,
    ])  # fmt: skip


def ranks(values: Floats) -> Floats:
    """(n,) places of values in ascending order; equal ones have the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - 0.5 * (counts + 1))[inverse], np.float64)


def correlation(a: Floats, b: Floats) -> float:
    """0 where one of them is constant."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0.0 and np.ptp(b) > 0.0 else 0.0
