"""Sweeps: from the values that a scenario names to one variant per combination.

sweep: {run.seed: 1..20, adapters.continuum.scheduler: [least-loaded, ga], run.step: 0.1..0.5 step 0.1 s}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem, ScenarioError

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded

MOST_VARIANTS = 100_000

_NUMBER = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})"
_RANGE = re.compile(
    rf"\s*({_NUMBER})\s*\.\.\s*({_NUMBER})\s*(?:step\s+({_NUMBER})\s*)?([A-Za-z%/]\S{{0,15}})?\s*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One combination of a sweep: the value of each path, and the overrides that pass them to `load`."""

    assignments: Mapping[str, Any]  # dotted path -> YAML value

    @property
    def overrides(self) -> tuple[str, ...]:
        return tuple(f"{path}={json.dumps(value)}" for path, value in self.assignments.items())

    @property
    def label(self) -> str:
        """Short text for tables: ``run.seed=3, adapters.continuum.scheduler=ga``."""
        return ", ".join(
            f"{path}={value if isinstance(value, str) else json.dumps(value)}"
            for path, value in self.assignments.items()
        )


def expand(scenario: Loaded | Mapping[str, Any], chosen: Sequence[int] = ()) -> list[Variant]:
    """All combinations of a loaded scenario's `sweep` (or of such a mapping); the last key varies fastest.

    A scenario without a sweep has one variant that sets nothing. With `chosen` seeds each variant has all of them, and
    a seed that it sets itself gives way. Raises `ScenarioError` for values that are none and for more than 100,000
    combinations.
    """
    choices = _choices(scenario)
    found = [dict(zip(choices, one, strict=True)) for one in product(*choices.values())]
    return [Variant({**one, "run.seed": seed}) for one in found for seed in chosen] or [*map(Variant, found)]


def size(scenario: Loaded) -> int:
    """How many variants `expand` gives, without making them. Raises `ScenarioError` as it does."""
    return math.prod(map(len, _choices(scenario).values()))


def _choices(scenario: Loaded | Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """The values of each path."""
    if isinstance(scenario, Mapping):
        sweep, problem = scenario, Problem("a sweep", "sweep")
    else:
        sweep, where = scenario.scenario.sweep, scenario.place(("sweep",))
        problem = Problem("a sweep", "sweep", where.file, where.line, where.column)
    try:
        choices: dict[str, Sequence[Any]] = {path: values(written) for path, written in sweep.items()}
    except ValueError as error:
        raise ScenarioError(Problem(str(error), "sweep", problem.file, problem.line, problem.column)) from None
    if (count := math.prod(map(len, choices.values()))) > MOST_VARIANTS:
        message = f"has {count:,} combinations, more than {MOST_VARIANTS:,}"
        raise ScenarioError(Problem(message, "sweep", problem.file, problem.line, problem.column, "take fewer values"))
    return choices


def values(written: object) -> list[Any]:
    """The values that one key of a sweep takes: a list, or a range such as ``1..20`` or ``0.1..0.5 step 0.1``.

    A unit behind a range goes to every value: ``10..50 step 10 ms``. Raises `ValueError`.
    """
    if isinstance(written, list):
        if not written:
            raise ValueError("an empty list has nothing to sweep over")
        texts = [json.dumps(value, default=str) for value in written]
        if twice := next((text for text in texts if texts.count(text) > 1), ""):
            raise ValueError(f"the value {twice[:60]} stands there twice; leave one out, run.seed makes replications")
        return written
    if not isinstance(written, str) or ".." not in written:
        return [written]
    match = _RANGE.fullmatch(written)
    if match is None:
        raise ValueError(f"'{written[:60]}' is not a range; write 1..20, 0.1..0.5 step 0.1, or a list")
    low, high = Decimal(match[1]), Decimal(match[2])
    step = Decimal(match[3] or 1)
    if step <= 0 or high < low:
        raise ValueError(f"the range '{written}' runs backwards; write the smaller number first and a step above 0")
    count = int((high - low) / step) + 1
    if count > MOST_VARIANTS:
        raise ValueError(f"the range '{written}' has {count:,} values, more than {MOST_VARIANTS:,}")
    numbers = [low + index * step for index in range(count)]
    if match[4]:
        return [f"{number.normalize():f} {match[4]}" for number in numbers]
    return [
        int(n) if n == n.to_integral_value() and "." not in written.replace("..", "") else float(n) for n in numbers
    ]


def seeds(text: str) -> tuple[int, ...]:
    """The seeds in ``1..20``, ``3,5,9`` or ``1..3,7``, each once. Raises `ScenarioError`."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,19})\s*(?:\.\.\s*(\d{1,19})\s*)?", part, re.ASCII)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if high < low or high >= 2**63:
            raise ScenarioError(Problem(f"'{text[:60]}' is not a list of seeds", "seed", hint="write 1..20 or 3,5,9"))
        if high - low >= MOST_VARIANTS or len(found) > MOST_VARIANTS:
            raise ScenarioError(Problem(f"'{text[:60]}' has more than {MOST_VARIANTS:,} seeds", "seed"))
        found.update(dict.fromkeys(range(low, high + 1)))
    return tuple(found)
