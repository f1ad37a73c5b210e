"""What energy costs and emits over time: steps, files, and green energy while there is some.

A `StepSeries` is constant between its steps, so that its integrals are exact whatever the interval. A
`PlaceTariff` splits the power that is drawn into a green part, as far as green power is available, and a
brown rest, each with a price and a carbon intensity. Times are in s, prices in currency/J, carbon in
g/J, power in W; energy is billed when it is used, at the price of that time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.delimited import content, records
from cosim.contract.records import Floats


@dataclass(frozen=True, slots=True, eq=False)
class StepSeries:
    """A function of time, constant from each step to the next; before the first step, the first value."""

    since: Floats  # (n,) s, ascending
    value: Floats  # (n,)

    def __post_init__(self) -> None:
        if len(self.since) != len(self.value) or len(self.since) == 0 or self.since.ndim != 1:
            raise ValueError(f"a series needs as many times as values; found {len(self.since)} and {len(self.value)}")
        if not np.all(np.diff(self.since) > 0.0):
            raise ValueError("the times of a series must ascend")
        if np.isnan(self.value).any():
            raise ValueError("a series holds a value that is not a number")

    def at(self, time: ArrayLike) -> Floats:
        """The value at each time."""
        found = np.searchsorted(self.since, np.asarray(time, np.float64), "right") - 1
        return np.asarray(self.value[np.maximum(found, 0)])

    def cuts(self, start: float, end: float) -> Floats:
        """`start`, the steps inside, and `end`: between them the value is constant."""
        inside = self.since[(self.since > start) & (self.since < end)]
        return np.concatenate([[start], inside, [end]])

    def integral(self, start: float, end: float) -> float:
        """The integral from `start` to `end`; over prices, what 1 W costs."""
        cuts = self.cuts(start, end)
        return float(self.at(cuts[:-1]) @ np.diff(cuts))

    def mean(self, start: float, end: float) -> float:
        """The mean from `start` to `end`; of an empty interval, the value there."""
        return self.integral(start, end) / (end - start) if end > start else float(self.at(start))


def constant(value: float) -> StepSeries:
    """`value` at all times."""
    return StepSeries(np.zeros(1), np.array([value], np.float64))


def steps(values: ArrayLike, every: float, start: float = 0.0) -> StepSeries:
    """`values[k]` from `start + k every` s on; the last one for ever."""
    value = np.array(values, np.float64)
    return StepSeries(start + every * np.arange(len(value), dtype=np.float64), value)


def windows(spans: Sequence[tuple[float, float]], inside: float, outside: float = 0.0) -> StepSeries:
    """`inside` within the spans [from, to) in s, `outside` elsewhere. Spans must not overlap."""
    since, value = [-math.inf], [outside]
    for begin, end in sorted(spans):
        if not end > begin:
            raise ValueError(f"the window from {begin:g} s to {end:g} s is empty")
        if begin < since[-1]:
            raise ValueError(
                f"the window that begins at {begin:g} s overlaps the one before, which ends at {since[-1]:g} s"
            )
        if begin == since[-1]:
            since.pop()
            value.pop()
        since += [begin, end]
        value += [inside, outside]
    return StepSeries(np.array(since), np.array(value))


def read_series(path: Path, every: float, factor: float = 1.0) -> StepSeries:
    """A series from a text file (.gz too): one value a line every `every` s, or lines `s, value`.

    A first line that holds no number is a header. Values are multiplied by `factor` (to SI).
    Raises `ValueError` that names file and line.
    """
    rows: list[list[float]] = []
    for number, cells in records(content(path), path):
        if not "".join(cells).strip():
            continue
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            if number > 1:
                raise ValueError(f"{path}:{number}: '{','.join(cells)}' is not a number") from None
            continue
        if len(rows[-1]) > 2 or len(rows[-1]) != len(rows[0]) or not np.all(np.isfinite(rows[-1])):
            raise ValueError(f"{path}:{number}: expected a value, or a time and a value, as in the first row")
    if not rows:
        raise ValueError(f"{path}: holds no values")
    columns = np.array(rows).T
    if len(columns) == 1:
        return steps(columns[0] * factor, every)
    try:
        return StepSeries(columns[0], columns[1] * factor)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class Bill:
    """What some energy cost; `energy` is the sum of its green and brown part."""

    energy: float = 0.0  # J
    green: float = 0.0  # J
    cost: float = 0.0  # currency
    carbon: float = 0.0  # g

    @property
    def brown(self) -> float:
        """J that were not green."""
        return self.energy - self.green

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.energy + other.energy, self.green + other.green, self.cost + other.cost, self.carbon + other.carbon
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlaceTariff:
    """The energy of one place. Green power comes first, up to what is available."""

    price: StepSeries = field(default_factory=lambda: constant(0.0))  # currency/J, brown
    carbon: StepSeries = field(default_factory=lambda: constant(0.0))  # g/J, brown
    green: StepSeries = field(default_factory=lambda: constant(0.0))  # W available, inf: without limit
    green_price: StepSeries = field(default_factory=lambda: constant(0.0))  # currency/J
    green_carbon: StepSeries = field(default_factory=lambda: constant(0.0))  # g/J

    def bill(self, power: float, start: float, end: float) -> Bill:
        """What drawing `power` W from `start` to `end` costs, exactly, whatever changes in between."""
        all_series = (self.price, self.carbon, self.green, self.green_price, self.green_carbon)
        cuts = np.unique(np.concatenate([series.cuts(start, end) for series in all_series]))
        begin, span = cuts[:-1], np.diff(cuts)
        green = np.minimum(power, self.green.at(begin)) * span
        brown = power * span - green
        return Bill(
            energy=float(power * span.sum()),
            green=float(green.sum()),
            cost=float(brown @ self.price.at(begin) + green @ self.green_price.at(begin)),
            carbon=float(brown @ self.carbon.at(begin) + green @ self.green_carbon.at(begin)),
        )

    def marginal(self, power: float, time: float) -> float:
        """Currency/J of one more Watt at `time`, when `power` W are drawn already: what a policy compares."""
        series = self.green_price if power < float(self.green.at(time)) else self.price
        return float(series.at(time))
