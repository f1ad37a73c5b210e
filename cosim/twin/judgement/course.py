"""The values of one node in order of time, and what is computed once of them for several statistics.

Of tasks it is known when each was created, too. A distribution of responses does not show which task each belongs to.
In a queue it matters: a task that finds others under way waits for them (D. V. Lindley, Proc. Cambridge Phil. Soc. 48,
1952), one that comes after a long gap does not, and those behind a slow one are slow too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EXACT = 1e-3  # of a value, to which no model is right: responses of a server of constant speed are exactly alike
LEAST = 30  # values, with which the 2nd and the 98th percentile are no longer those at the ends
_WINDOW = 60  # values of a moving average, at most: a minute of seconds
_TOP = 0.04  # share of the longest responses: 1 in 25, as many as slow ones are that hold up others
_FADING = np.array([[0.03], [0.1]])  # of the period, after which a warm-up has faded to 1/e
_DIGITS_OFF = 0.35  # of a step: 30 values are not as near by chance (0.7^30)


class Course:
    """Values (m,) of a node, and when each was read or created (s); `times` is None where their order means nothing.

    `scale` is the size of the measured values, the same for all that is compared with them. `others` are values of
    other nodes at the same times, by name; `load` marks the load of a node, which is compared by its mean alone.
    """

    def __init__(
        self, values: Floats, times: Floats | None = None, *, tasks: bool = False, load: bool = False,
        scale: float = 1.0, others: Mapping[str, Floats] | None = None,
    ) -> None:  # fmt: skip
        self.values, self.times, self.tasks, self.load = values, times, tasks and times is not None, load
        self.scale, self.others = scale, others or {}

    @cached_property
    def ordered(self) -> Floats:
        return np.sort(self.values)

    @cached_property
    def ranks(self) -> Floats:
        return ranks(self.values)

    @cached_property
    def steps(self) -> Floats:
        return np.diff(self.values)

    @cached_property
    def gaps(self) -> Floats:
        assert self.times is not None
        return np.diff(self.times)

    def at(self, level: float) -> float:
        """A quantile."""
        place = (len(self.ordered) - 1) * level
        low, high = self.ordered[int(place)], self.ordered[min(int(place) + 1, len(self.ordered) - 1)]
        return float(low + (high - low) * (place - int(place)))

    def size(self, value: float) -> float:
        """On a scale of relative differences, but for values near 0 (asinh: N. Johnson, Biometrika 36, 1949)."""
        return float(np.arcsinh(10.0 * value / self.scale))

    def along(self, distance: int) -> float:
        """Rank correlation of values so far apart."""
        return correlation(self.ranks[:-distance], self.ranks[distance:])

    @cached_property
    def commonest(self) -> float:
        """Share of the value that there is most often."""
        return float(np.unique(self._rounded, return_counts=True)[1].max()) / len(self.values)

    @cached_property
    def twice(self) -> float:
        """Share of values that another one equals."""
        return 1.0 - len(np.unique(self._rounded)) / len(self.values)

    @cached_property
    def _rounded(self) -> Floats:
        """To a ten-millionth of their size, so that equal ones stay equal when a unit was converted."""
        return np.asarray(np.round(self.values * 1e7 / self.scale))

    @cached_property
    def straight(self) -> float:
        """Share of values that rise or fall and are the mean of their neighbours."""
        usual = float(np.median(np.abs(self.steps)))
        tolerance = max(1e-6 * float(np.ptp(self.values)), grid(self.values))
        if tolerance > 0.05 * usual:  # steps of the digits are no lines
            return 0.0
        moving = np.abs(self.steps) > tolerance
        return float(np.mean((np.abs(np.diff(self.steps)) <= 2.0 * tolerance) & moving[1:] & moving[:-1]))

    @cached_property
    def smoothness(self) -> tuple[float, float]:
        """How alike steps from one value to the next are, and how much a step is undone later.

        A moving average over k values takes back after k values what it had added: steps are opposed k apart, and
        nearer ones are as alike as values were.
        """
        usual = float(np.quantile(np.abs(self.steps), 0.9))
        if usual == 0.0:
            return 0.0, 0.0
        steps = np.clip(self.steps, -usual, usual)
        apart = range(1, max(min(_WINDOW, len(self.values) // 5), 3))
        alike = [float(np.mean(steps[:-k] * steps[k:]) / np.mean(steps**2)) for k in apart]
        return alike[0], -min(alike[1:])

    @cached_property
    def queue(self) -> Mapping[str, float]:
        """How tasks follow one another in a queue; empty for what are no tasks, and for too few of them."""
        if not self.tasks or len(self.values) < LEAST or self.times is None or np.ptp(self.times) == 0.0:
            return {}
        created, n = self.times, len(self.values)
        # Clocks have so few digits; what is alike is not ranked by them.
        rounding = 1e-6 * float(np.median(self.values))
        response = np.round(self.values / rounding) * rounding if rounding else self.values
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
        took_ranks, apart = ranks(took), np.quantile(self.gaps, [0.1, 0.5, 0.9])
        even = self.gaps.mean()
        return {
            "awaited": correlation(places[1:], ranks(np.maximum(last - created[1:], 0.0))),
            "found": correlation(places, ranks(found.astype(np.float64))),
            "gap": correlation(places[1:], ranks(self.gaps)),
            "overtaken": float(np.mean(ended[1:] < last - 2.0 * rounding)),
            "moved": float(np.mean(np.abs(lost))),
            "behind": float(np.sort(lost)[-len(longest) :].mean()),
            "after": float(places[np.minimum(longest + 1, n - 1)].mean()) / n,
            "between": float(np.log(high / middle)) if middle > 0.0 else 0.0,
            "at first": correlation(took_ranks, courses[0]),
            "in the first tenths": correlation(took_ranks, courses[1]),
            "gaps": float((apart[2] - apart[0]) / apart[1]) if apart[1] > 0.0 else 0.0,
            "at once": float(np.mean(self.gaps == 0.0)),
            "silence": float(self.gaps.max() / even),
            "grid": grid(created) / even,
            "number": float(np.log(n)),
        }


def ranks(values: Floats) -> Floats:
    """(n,) places of values in ascending order; equal ones have the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - 0.5 * (counts + 1))[inverse], np.float64)


def correlation(a: Floats, b: Floats) -> float:
    """0 where one of them is constant."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0.0 and np.ptp(b) > 0.0 else 0.0


def grid(values: Floats) -> float:
    """The step that all values are multiples of; 0 if there is no clear one."""
    found = np.unique(values)
    steps = np.diff(found)
    steps = steps[steps > 1e-4 * np.ptp(values)]
    if len(steps) < 2 or len(found) > 2000:
        return 0.0
    step = float(steps.min())
    places = (found - found[0]) / step
    return step if np.abs(places - np.round(places)).max() < 0.02 else 0.0


def scale_of(values: Floats) -> float:
    """The size of measured values."""
    return float(np.median(np.abs(values))) or float(np.abs(values).max()) or 1.0


def decimal_step(values: Floats) -> float:
    """The power of ten that all `values` (n,) are multiples of, as of a column with so many digits; 0 if there is none.

    Times since 1970 hold no more than a quarter of a microsecond, so differences of them may be off by that.
    """
    found = np.abs(values[np.isfinite(values)])
    if len(found) < LEAST or not found.any():
        return 0.0
    first = int(np.floor(np.log10(float(np.median(found[found > 0.0])))))
    for exponent in range(first, first - 9, -1):
        places = found * 10.0**-exponent
        if np.abs(places - np.round(places)).max() < _DIGITS_OFF:
            return float(10.0**exponent)
    return 0.0


def rounded(values: Floats, step: float) -> Floats:
    """`values` as multiples of `step`; as they are where it is 0."""
    return np.asarray(np.round(values / step) * step) if step > 0.0 else values
