"""Find the smallest of ordered values for which goals hold on average, with as few runs as necessary.

Each value is run with seeds 1, 2, 3, ... - the same for all values, so that runs of equal seeds differ in the
value alone - until the mean of the goal's figure lies on one side of its limit with the requested confidence.

Runs are evaluated after `least`, 2 `least`, 4 `least`, ... of them. A value meets a goal once the confidence
bound of the mean (Student's t) has passed the limit. The error is divided equally among all values that
may be tried, all evaluations and all goals (Bonferroni), so that the probability of any wrong verdict is at
most 1 - confidence (for means that are about normal; no bound covers events that no run contained).

The search halves the range. That alone would assume that a larger value never does worse, so every
smaller value is tried as well, unless that assumption is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf, isfinite, log2, nan, sqrt
from typing import Any, Literal

from cosim.contract.condition import Condition, ConditionError, Named
from cosim.contract.errors import SetupError
from cosim.contract.units import convert
from cosim.results.compare import paired
from cosim.results.student import floor, quantile, variance

Verdict = Literal["meets", "misses", "undecided"]
Sample = Mapping[str, float | None]  # figures of a run; FIGURE.high is inf where its value is a lower bound
Make = Callable[[int, int, int], Sequence[Sample]]  # value, first seed, number of runs -> their figures


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and what its mean must be below or above: `late_share < 1 %`."""

    figure: str
    below: bool
    number: float
    unit: str  # as written, "" for a bare number

    def __str__(self) -> str:
        return f"{self.figure} {'<' if self.below else '>'} {self.number:g}{f' {self.unit}' if self.unit else ''}"

    def limit(self, unit: str) -> float:
        """The limit in `unit`, that of the figure. Raises `SetupError` when it measures something else."""
        try:
            return convert(self.number, self.unit, unit)
        except ValueError as error:
            raise SetupError(f"the goal '{self}' cannot be: {error}") from None


def goals_in(text: str) -> list[Goal]:
    """The goals in `text`, of which `and` joins several. Raises `SetupError`."""
    try:
        found = Condition(text, _figure).comparisons()
    except ConditionError as error:
        raise SetupError(
            f"'{text[:60]}' is no goal: {error}; write a figure, < or >, and a limit: 'late_share < 1 %'"
        ) from None
    equal = next((one for one in found if one.sign in ("==", "!=")), None)
    if equal is not None:
        raise SetupError(f"'{text[:60]}' is no goal: a mean is never exactly a number; write < or >")
    return [Goal(".".join(one.name), one.sign[0] == "<", one.number, one.unit) for one in found]


def _figure(parts: tuple[str, ...]) -> Named:
    """A figure of runs; its unit comes from the runs."""
    if len(parts) != 1:
        raise ValueError(f"'{'.'.join(parts)}' is not the name of a figure")
    return Named("number", None)


@dataclass
class SizeTrial:
    """A value that was tried: its runs by seed 1, 2, ..., and the verdict from them."""

    index: int
    samples: list[Sample] = field(default_factory=list)
    verdict: Verdict = "undecided"

    def values(self, figure: str) -> list[float]:
        """The figure in each run. Raises `SetupError` for a run without it."""
        found = [sample.get(figure) for sample in self.samples]
        if any(value is None or not isfinite(value) for value in found):
            raise SetupError(f"{sum(v is None for v in found)} of {len(found)} runs have no value of '{figure}'")
        return [value for value in found if value is not None]


@dataclass(frozen=True, slots=True)
class Contrary:
    """Two neighbouring values of which the larger does worse, beyond chance."""

    lower: int
    upper: int
    figure: str
    difference: float  # of the figure, upper - lower, in pairs of equal seeds
    low: float
    high: float


class Smallest:
    """The search over `count` values; `make` carries out runs of one of them."""

    def __init__(
        self,
        count: int,
        goals: Sequence[Goal],
        make: Make,
        units: Callable[[str], str],
        *,
        confidence: float = 0.95,
        least: int = 5,
        most: int = 40,
        monotone: bool = False,
    ) -> None:
        if not 0.5 <= confidence < 1.0:
            raise SetupError(f"a confidence of {confidence:g} cannot be had; write at least 50 % and less than 100 %")
        if not 2 <= least <= most:
            raise SetupError(f"{least} to {most} runs of a value: at least 2 are needed, and the most not below them")
        self.goals, self.monotone, self.confidence = tuple(goals), monotone, confidence
        self._make, self._units, self._count = make, units, count
        self.looks = [least]
        while self.looks[-1] < most:
            self.looks.append(min(2 * self.looks[-1], most))
        self.values_at_risk = min(count, ceil(log2(count)) + 1) if monotone and count > 1 else count
        self.risk = (1.0 - confidence) / (self.values_at_risk * len(self.looks) * len(self.goals))
        self.tried: dict[int, SizeTrial] = {}

    def run(self) -> int | None:
        """The smallest value that is shown to meet all goals; None when none is."""
        low, high = -1, self._count
        while high - low > 1:
            middle = (low + high) // 2
            if self._verdict(middle) == "meets":
                high = middle
            else:
                low = middle
        if self.monotone:
            return high if high < self._count else None
        for index in range(high):
            if self._verdict(index) == "meets":
                return index
        return high if high < self._count else None

    def lowest(self, answer: int) -> int:
        """The smallest value that may be the right answer: all below it are shown to miss (or a larger one is)."""
        missing = {i for i, one in self.tried.items() if one.verdict == "misses" and i < answer}
        if self.monotone:
            return max(missing, default=-1) + 1
        return next((i for i in range(answer) if i not in missing), answer)

    def bounds(self, index: int, figure: str) -> tuple[float, float, float]:
        """Mean of `figure` at a value, and the bounds that hold for all values, looks and goals together."""
        values = self.tried[index].values(figure)
        mean = sum(values) / len(values)
        half = quantile(1.0 - self.risk, len(values) - 1) * sqrt(variance(values) / len(values))
        open_ended = any(sample.get(f"{figure}.high") == inf for sample in self.tried[index].samples)
        return mean, mean - half, inf if open_ended else mean + half

    def contrary(self) -> list[Contrary]:
        """Adjacent tried values that contradict 'larger is never worse', compared in pairs of equal seeds."""
        found = []
        order = sorted(self.tried)
        level = 1.0 - (1.0 - self.confidence) / max(1, (len(order) - 1) * len(self.goals))
        for one in self.goals:
            for a, b in pairwise(order):
                pairs = list(zip(self.tried[a].values(one.figure), self.tried[b].values(one.figure), strict=False))
                mean, low, high, _ = paired(pairs, level)
                if (low > 0.0) if one.below else (high < 0.0):
                    found.append(Contrary(a, b, one.figure, mean, low, high))
        return found

    def paired(self, a: int, b: int, figure: str) -> tuple[float, float, float]:
        """Difference of `figure` between two tried values (b - a), its 95 % interval in pairs of equal seeds."""
        sides = [[sample.get(figure) for sample in self.tried[i].samples] for i in (a, b)]
        pairs = [(x, y) for x, y in zip(*sides, strict=False) if x is not None and y is not None]
        return paired(pairs)[:3] if len(pairs) > 1 else (nan, nan, nan)

    def _verdict(self, index: int) -> Verdict:
        known = self.tried.get(index)
        if known is not None:
            return known.verdict
        one = self.tried[index] = SizeTrial(index)
        for runs in self.looks:
            done = len(one.samples)
            one.samples += self._make(index, done + 1, runs - done)
            one.verdict = self._look(index)
            if one.verdict != "undecided":
                break
        return one.verdict

    def _look(self, index: int) -> Verdict:
        met = 0
        for one in self.goals:
            limit = one.limit(self._units(one.figure))
            _, low, high = self.bounds(index, one.figure)
            if (high < limit) if one.below else (low > limit):
                met += 1
            elif (low > limit) if one.below else (high < limit):
                return "misses"
        return "meets" if met == len(self.goals) else "undecided"

    def as_dict(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        """What was tried, in order, as plain data."""
        rows = []
        for index in sorted(self.tried):
            one = self.tried[index]
            figures = {}
            for goal in self.goals:
                mean, low, high = self.bounds(index, goal.figure)
                low = max(low, floor(one.values(goal.figure), self._units(goal.figure)))
                figures[goal.figure] = {"mean": mean, "low": low, "high": high if isfinite(high) else None}
            rows.append({"value": values[index], "runs": len(one.samples), "verdict": one.verdict, "figures": figures})
        return rows
