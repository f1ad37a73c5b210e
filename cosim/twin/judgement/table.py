"""The table of statistics by which data and models are judged.

A row names a statistic of a node's values, from which difference on it matters, and what
to look at where simulations of the fitted model never show it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cosim.twin.judgement.course import EXACT, Course, Floats, correlation, grid, ranks

_NAN = math.nan
# Differences that matter. Shares and correlations below a tenth, and levels that differ by less than the 5 % within
# which a model of a service is usually called right (R. Jain, The Art of Computer Systems Performance Analysis, 1991,
# 25.2, takes 10 % of means), are no news to a reader, however many values show them.
RELATIVE, SHAPE = 0.05, 0.1

LAW = (
    "try another law of service times or sizes, a cause that only some values have (contention, a second mode), or "
    "look for the offset of a meter"
)
MODES = "try a second mode: two kinds of tasks, a cache, or a throttled node"
MEANS = "look at rates, sizes and the number of nodes"
BURSTS = "try arrivals in bursts (bag), a quota group that throttles, or other work on the node"
ORDERLY = (
    "look at which response belongs to which task and at clocks, leave the beginning out, or let tasks be served in "
    "another order or elsewhere"
)
FOLLOW = "follow the run with --follow, fit a shorter time, or look for a meter that drifts"
WARM = "leave the beginning out: fit: {from: ...}"
UNIT = "another unit or scale, a word for a missing value, or too narrow bounds"
SCALE = "another unit, scale or machine, or other rates, sizes or numbers of nodes"
SMOOTH = "averaged over a window or interpolated, or with a cause that the scenario lacks"
NAMES = "are the names of the two nodes exchanged?"


@dataclass(frozen=True, slots=True)
class CheckedStatistic:
    """A row of the table."""

    name: str
    of: Callable[[Course], float]  # NaN where it says nothing of such values
    least: float  # difference from simulations that matters
    remedy: str
    side: int = 0  # 1: only what is more than in simulations, -1: only what is less
    level: bool = False  # on the scale of `Course.size`
    law: bool = False  # of the law of the values, which bends fitted values


def _level(at: float) -> Callable[[Course], float]:
    return lambda c: _NAN if c.load else c.size(c.at(at))


def _between(high: float, low: float) -> Callable[[Course], float]:
    return lambda c: _NAN if c.load else c.size(c.at(high)) - c.size(c.at(low))


def _over(a: float, b: float, c: float, d: float) -> Callable[[Course], float]:
    """From quantile `b` to `a` over the same and from `d` to `c`: a share, as one of both may be next to nothing."""

    def over(course: Course) -> float:
        one, two = course.at(a) - course.at(b), course.at(c) - course.at(d)
        return one / (one + two) if not course.load and one + two > EXACT * course.scale else _NAN

    return over


def _lean(c: Course) -> float:
    """Bowley's skewness of the middle 80 %."""
    low, middle, high = c.at(0.1), c.at(0.5), c.at(0.9)
    return (high + low - 2.0 * middle) / (high - low) if high > low else 0.0


def _modes(c: Course) -> float:
    """How empty the middle is between both halves: their variances over that of all."""
    half = len(c.ordered) // 2
    within = c.ordered[:half].var() + c.ordered[half:].var()
    return float(1.0 - within / (2.0 * c.ordered.var())) if np.ptp(c.ordered) > 0.0 else 0.0


def _variation(c: Course) -> float:
    """Standard deviation over the mean above the lowest value."""
    above = float(c.values.mean()) - float(c.ordered[0])
    return float(c.values.std()) / above if above > 0.0 else 0.0


def _far_together(c: Course) -> float:
    """Rank correlation between means of ten values that follow one another."""
    means = c.values[: len(c.values) // 10 * 10].reshape(-1, 10).mean(axis=1)
    return correlation(means[:-1], means[1:]) if len(means) >= 8 else _NAN


def _ratio(one: Floats, other: Floats) -> float:
    a, b = float(np.median(one)), float(np.median(other))
    return math.log(a / b) if a > 0.0 and b > 0.0 else _NAN


def _shape(of: Callable[[Course], float]) -> Callable[[Course], float]:
    return lambda c: _NAN if c.load else of(c)


def _timed(of: Callable[[Course], float]) -> Callable[[Course], float]:
    return lambda c: _NAN if c.times is None or c.load else of(c)


def _queue(name: str) -> Callable[[Course], float]:
    return lambda c: c.queue.get(name, _NAN)


def _coarse(c: Course) -> float:
    wide = c.at(0.75) - c.at(0.25)
    return grid(c.values) / wide if wide > 0.0 else 0.0


def neighbours(c: Course) -> dict[str, float]:
    """Other node -> rank correlation of its values with these."""
    return {name: correlation(c.ranks, ranks(values)) for name, values in c.others.items()}


def _law(name: str, of: Callable[[Course], float], remedy: str = LAW, least: float = SHAPE) -> CheckedStatistic:
    return CheckedStatistic(name, _shape(of), least, remedy, law=True)


TABLE: tuple[CheckedStatistic, ...] = (
    CheckedStatistic("lowest values", _level(0.02), RELATIVE, LAW, level=True, law=True),
    CheckedStatistic("lower quarter", _level(0.25), RELATIVE, LAW, level=True, law=True),
    CheckedStatistic("median", _level(0.5), RELATIVE, LAW, level=True, law=True),
    CheckedStatistic("upper quarter", _level(0.75), RELATIVE, LAW, level=True, law=True),
    CheckedStatistic("95th percentile", _level(0.95), RELATIVE, LAW, level=True, law=True),
    CheckedStatistic("mean", lambda c: _NAN if c.load else c.size(float(c.values.mean())), RELATIVE, MEANS, level=True),
    CheckedStatistic("least value", _level(0.0), 5 * SHAPE, UNIT, -1, level=True),
    CheckedStatistic("largest value", _level(1.0), 5 * SHAPE, UNIT, 1, level=True),
    _law("spread", _between(0.9, 0.1)),
    _law("upper tail", _between(0.98, 0.5)),
    _law("lower tail", _between(0.5, 0.02)),
    _law("lower half", _over(0.5, 0.02, 0.25, 0.02), least=RELATIVE),
    _law("far tail", _over(0.99, 0.5, 0.9, 0.5), least=RELATIVE),
    _law("lower edge", _over(0.1, 0.0, 0.25, 0.0), least=RELATIVE),
    _law("skewness", _lean),
    _law("variation", _variation),
    _law("modes", _modes, MODES),
    CheckedStatistic("share of the commonest value", _shape(lambda c: c.commonest), RELATIVE,
          "a sensor that stood still, a limit, or a word for a missing value", 1),
    CheckedStatistic("share of values that occur again", _shape(lambda c: c.twice), RELATIVE,
          "rows that were written again, or too few digits", 1),
    CheckedStatistic("step of the values, over their middle half", _shape(_coarse), SHAPE, "rounded", 1),
    CheckedStatistic("share of values on straight lines", _timed(lambda c: c.straight), 3 * SHAPE,
          "interpolated between fewer readings", 1),
    CheckedStatistic("share of values that fall", _timed(lambda c: float(np.mean(c.steps < 0.0))), 2 * SHAPE,
          "a counter since some beginning, where the scenario has what happens meanwhile", -1),
    CheckedStatistic("likeness of steps", _timed(lambda c: c.smoothness[0]), SHAPE, SMOOTH, 1),
    CheckedStatistic("steps that are undone later", _timed(lambda c: c.smoothness[1]), SHAPE, SMOOTH, 1),
    CheckedStatistic("bursts", _timed(lambda c: c.along(1)), SHAPE, BURSTS),
    CheckedStatistic("rhythm", _timed(lambda c: c.along(4)), SHAPE, BURSTS),
    CheckedStatistic("slow changes", _timed(_far_together), SHAPE, BURSTS),
    CheckedStatistic("drift", _timed(lambda c: correlation(c.ranks, np.arange(len(c.values), dtype=np.float64))), SHAPE,
                     FOLLOW),
    CheckedStatistic("growth of steps", _timed(lambda c: _ratio(*np.array_split(np.abs(c.steps), 2))), 2 * SHAPE,
                     FOLLOW),
    CheckedStatistic("first tenth over the rest", _timed(lambda c: _ratio(*np.split(c.values, [len(c.values) // 10]))),
          SHAPE, WARM),
    CheckedStatistic("likeness to another node", _timed(lambda c: max(neighbours(c).values(), default=_NAN)), 2 * SHAPE,
          "a meter that adds another's, or a copy", 1),
    CheckedStatistic("mean load", lambda c: c.size(float(c.values.mean())) if c.load else _NAN, 5 * SHAPE,
          "percent or a fraction, the load of one core or of another node, or other work", level=True),
    CheckedStatistic("response by the answers awaited", _queue("awaited"), RELATIVE, ORDERLY),
    CheckedStatistic("response by the tasks found", _queue("found"), RELATIVE, ORDERLY),
    CheckedStatistic("response by the gap before", _queue("gap"), RELATIVE, ORDERLY),
    CheckedStatistic("share of tasks that are answered before an earlier one", _queue("overtaken"), RELATIVE, ORDERLY),
    CheckedStatistic("places that a task loses or gains till its answer", _queue("moved"), 2 * RELATIVE,
                     ORDERLY),  # one that is overtaken moves two
    CheckedStatistic("places that the slowest tasks lose till their answer", _queue("behind"), 1.0, ORDERLY),
    CheckedStatistic("response after one of the longest", _queue("after"), RELATIVE, ORDERLY),
    CheckedStatistic("longest times between answers", _queue("between"), RELATIVE, ORDERLY),
    CheckedStatistic("times between answers at first", _queue("at first"), RELATIVE, WARM),
    CheckedStatistic("times between answers in the first tenths", _queue("in the first tenths"), RELATIVE, WARM),
    CheckedStatistic("spread of the gaps between tasks", _queue("gaps"), 2 * SHAPE,
          "rows are missing, or the tasks come in another way"),
    CheckedStatistic("share of tasks created at once", _queue("at once"), RELATIVE,
                     "tried again, and counted twice?", 1),
    CheckedStatistic("longest time without a task, over the mean gap", _queue("silence"), 1.0, "rows are missing", 1),
    CheckedStatistic("step of the times of creation, over the mean gap", _queue("grid"), SHAPE,
          "rounded times, or rows are missing between the others", 1),
    CheckedStatistic("number of tasks", _queue("number"), SHAPE,
          "rows are missing, or the arrivals are others than the scenario's"),
)  # fmt: skip


LEVELS = frozenset(one.name for one in TABLE if one.level)


def figures(course: Course) -> Floats:
    """(len(TABLE),) statistics of a course; NaN for those that say nothing of it, and for too few values."""
    if len(course.values) < 2:
        return np.full(len(TABLE), np.nan)
    with np.errstate(all="ignore"):
        return np.array([one.of(course) for one in TABLE], np.float64)
