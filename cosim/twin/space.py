"""The free parameters of a calibration and the unit cube that searches move in.

Searches, screens and posteriors know points of the unit cube only, `u` in [0, 1)^d; a `Space` maps
them to values with units, by each parameter's bounds and scale, and back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Floats

Kind = Literal["real", "integer", "boolean", "category"]
Scale = Literal["linear", "log"]
Value = float | bool | str  # as an author writes it; integers are floats to the type checker


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before any data: uniform along the scale, or normal (log-normal on a log scale)."""

    law: Literal["uniform", "normal"] = "uniform"
    mean: float = 0.0  # in the unit of the parameter; the median on a log scale
    sd: float = 1.0  # in the unit of the parameter; on a log scale of the natural logarithm


@dataclass(frozen=True, slots=True)
class Parameter:
    """One free value. A value of kind integer, boolean or category is the index or the number itself.

    `members` are the fields that share this value, as dotted paths of the scenario; a parameter of a
    model that has no scenario has none. Raises `ScenarioError` for bounds that hold nothing.
    """

    name: str
    low: float = 0.0
    high: float = 1.0
    kind: Kind = "real"
    scale: Scale = "linear"
    unit: str = ""
    start: float | None = None  # before calibration; None: the middle of the bounds along the scale
    prior: Prior = Prior()
    choices: tuple[Value, ...] = ()  # of kind category: value k stands for choices[k]
    members: tuple[str, ...] = ()
    varies: float = 0.0  # standard deviation over value, from one time to another

    def __post_init__(self) -> None:
        if self.kind == "boolean":
            object.__setattr__(self, "low", 0.0)
            object.__setattr__(self, "high", 1.0)
        elif self.kind == "category":
            object.__setattr__(self, "low", 0.0)
            object.__setattr__(self, "high", float(len(self.choices) - 1))
            if len(self.choices) < 2:
                raise self._wrong("a category needs two choices or more", "choices: [a, b]")
        if not (math.isfinite(self.low) and math.isfinite(self.high)) or self.low >= self.high:
            raise self._wrong(f"the bounds {self.low:g} and {self.high:g} hold nothing", "write the smaller one first")
        if self.scale == "log" and self.low <= 0.0:
            raise self._wrong(f"a log scale cannot begin at {self.low:g}", "take a bound above 0 or scale: linear")
        if self.kind == "integer" and (self.low != round(self.low) or self.high != round(self.high)):
            raise self._wrong(f"the bounds {self.low:g} and {self.high:g} are not whole numbers", "")
        if self.start is not None and not self.low <= self.start <= self.high:
            raise self._wrong(
                f"the start {self.start:g} lies outside {self.low:g} to {self.high:g}", "widen the bounds"
            )
        if self.prior.law == "normal" and self.prior.sd <= 0.0:
            raise self._wrong("a normal prior needs an sd above 0", "")

    @property
    def discrete(self) -> bool:
        return self.kind != "real"

    @property
    def levels(self) -> int:
        """How many values there are; 0 for a real number."""
        return int(self.high - self.low) + 1 if self.discrete else 0

    def as_written(self, value: float) -> Value:
        """The value as an author writes it: a number, a whole number, true or false, a choice."""
        if self.kind == "category":
            return self.choices[round(value)]
        if self.kind == "boolean":
            return bool(round(value))
        return round(value) if self.kind == "integer" else float(value)

    def _wrong(self, message: str, hint: str) -> ScenarioError:
        return ScenarioError(Problem(message, f"calibrate.{self.name}", hint=hint))


class Space:
    """Named parameters in a fixed order; `values` are (n, d) in their units, `units` (n, d) in [0, 1)."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        names = [parameter.name for parameter in parameters]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ScenarioError(Problem(f"'{twice[0]}' is declared twice", "calibrate"))
        self.parameters = tuple(parameters)
        self._low = np.array([self._along(p, p.low) for p in parameters], np.float64)
        self._high = np.array([self._along(p, p.high) for p in parameters], np.float64)
        self._log = np.array([p.scale == "log" for p in parameters], np.bool_)
        self._levels = np.array([p.levels for p in parameters], np.float64)

    @staticmethod
    def _along(parameter: Parameter, value: float) -> float:
        return math.log(value) if parameter.scale == "log" else value

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def start(self) -> Floats:
        """(d,) values before calibration."""
        middle = self.values(np.full((1, len(self)), 0.5))[0]
        as_written = [p.start for p in self.parameters]
        return np.array([m if s is None else s for m, s in zip(middle, as_written, strict=True)], np.float64)

    def values(self, units: ArrayLike) -> Floats:
        """(n, d) values of points of the unit cube; each level of a discrete parameter has an equal part."""
        units = np.clip(np.atleast_2d(np.asarray(units, np.float64)), 0.0, 1.0)
        values = self._low + units * (self._high - self._low)
        values = np.where(self._log, np.exp(np.where(self._log, values, 0.0)), values)
        for column, p in enumerate(self.parameters):
            if not p.discrete:
                np.clip(values[:, column], p.low, p.high, out=values[:, column])
            elif p.scale == "log":
                values[:, column] = np.clip(np.round(values[:, column]), p.low, p.high)
            else:
                level = np.minimum(np.floor(units[:, column] * p.levels), p.levels - 1)
                values[:, column] = p.low + level
        return values

    def units(self, values: ArrayLike) -> Floats:
        """(n, d) points of the unit cube of values; a level of a discrete parameter is its middle."""
        values = np.atleast_2d(np.asarray(values, np.float64))
        along = np.where(self._log, np.log(np.maximum(values, 1e-300)), values)
        units = (along - self._low) / (self._high - self._low)
        for column, p in enumerate(self.parameters):
            if p.discrete and p.scale == "linear":
                units[:, column] = (values[:, column] - p.low + 0.5) / p.levels
        return np.clip(units, 0.0, 1.0)

    def sample(self, count: int, random: np.random.Generator) -> Floats:
        """(count, d) points of the unit cube drawn from the prior, stratified for uniform ones (Latin hypercube)."""
        strata = np.stack([random.permutation(count) for _ in self.parameters], axis=1)
        units = (strata + random.random((count, len(self)))) / count
        for column, p in enumerate(self.parameters):
            if p.prior.law == "normal" and not p.discrete:
                units[:, column] = self._normal(column, count, random)
        return units

    def _normal(self, column: int, count: int, random: np.random.Generator) -> Floats:
        """(count,) draws of a normal prior within the bounds, by rejection; uniform when hardly any fall inside."""
        p = self.parameters[column]
        span = self._high[column] - self._low[column]
        mean, sd = (self._along(p, p.prior.mean) - self._low[column]) / span, p.prior.sd / span
        draws = mean + sd * random.standard_normal(32 * count)
        inside = draws[(draws >= 0.0) & (draws < 1.0)][:count]
        return inside if len(inside) == count else random.random(count)

    def log_prior(self, units: ArrayLike) -> Floats:
        """(n,) logarithm of the prior's density over the unit cube, up to a constant; 0 where uniform."""
        units = np.atleast_2d(np.asarray(units, np.float64))
        total = np.zeros(len(units))
        for column, p in enumerate(self.parameters):
            if p.prior.law == "normal" and not p.discrete:
                span = self._high[column] - self._low[column]
                mean = (self._along(p, p.prior.mean) - self._low[column]) / span
                total -= 0.5 * ((units[:, column] - mean) * span / p.prior.sd) ** 2
        return total

    def as_written(self, values: ArrayLike) -> Mapping[str, Value]:
        """Parameter -> value as an author writes it, of one point (d,)."""
        row = np.asarray(values, np.float64).reshape(-1)
        return {p.name: p.as_written(v) for p, v in zip(self.parameters, row, strict=True)}
