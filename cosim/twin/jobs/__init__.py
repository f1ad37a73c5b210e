"""Calibrations against published measurements; each module makes the problems of one data set.

    problems = load("power")(Path("../shared/data"), {})

A module offers `problems(data, settings) -> list[Problem]`, and in `SETTINGS` the names that it knows.
`data` is a folder that holds the data's files somewhere below it, by the names of their publishers or
by those of this project's collection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.hints import did_you_mean
from cosim.contract.plugins import installed
from cosim.contract.plugins import load as plugin
from cosim.scenario.gather import split
from cosim.scenario.load import load as load_scenario
from cosim.twin.problem import CalibrationProblem
from cosim.twin.space import Value

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded


def load(name: str) -> Callable[[Path, Mapping[str, object]], list[CalibrationProblem]]:
    """`problems` of job `name`. Raises `ScenarioError` for a name that no job has, and for its settings likewise."""
    known = installed("jobs")
    if name not in known:
        raise ScenarioError(Mistake(f"there is no job '{name}'", "calibrate.job", hint=f"there are {', '.join(known)}"))
    try:
        module = plugin("jobs", name)
    except SetupError as error:
        raise ScenarioError(Mistake(str(error), "calibrate.job")) from error

    def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
        for key in settings:
            if key not in module.SETTINGS:
                hint = did_you_mean(key, module.SETTINGS, otherwise="settings")
                raise ScenarioError(
                    Mistake(f"job '{name}' has no such setting", f"calibrate.settings.{key}", hint=hint)
                )
        found: list[CalibrationProblem] = module.problems(data, settings)
        return found

    return problems


def setting(settings: Mapping[str, object], name: str, default: float) -> float:
    """The number that `settings` gives for `name`. Raises `ScenarioError` when it is none."""
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScenarioError(Mistake(f"{value!r} is no number", f"calibrate.settings.{name}"))
    return float(value)


def held_back(settings: Mapping[str, object]) -> Path | None:
    """The folder with data for the judgement only, when `settings` names one as `held_back`."""
    found = settings.get("held_back")
    return None if found is None else Path(str(found))


def fields(loaded: Loaded, problem: CalibrationProblem, values: Mapping[str, Value]) -> dict[str, Any]:
    """Dotted path -> value as the field is written, from the values of the job's parameters.

    Raises `ScenarioError` for a result that the job does not have, and for an entry of a list, which an
    overlay cannot set alone.
    """
    block = loaded.scenario.calibrate
    wanted = block.fields if block is not None else {}
    if not wanted:
        return {}
    results = problem.results(values) if problem.results is not None else {}
    found = {}
    for path, name in wanted.items():
        where = ("calibrate", "fields", path)
        if name not in results:
            hint = did_you_mean(name, results, otherwise="results") if results else "it has none"
            raise ScenarioError(loaded.problem(where, f"the job has no result '{name}'", hint))
        if any(isinstance(key, int) for key in split(loaded.root, path)):
            raise ScenarioError(loaded.problem(where, "is an entry of a list", "name the whole list"))
        found[path] = results[name]
    return found


def check(loaded: Loaded, overrides: Sequence[str], problem: CalibrationProblem) -> None:
    """Try the fields with what the parameters have before. Raises `ScenarioError` when one does not take it."""
    space = problem.space
    reported = {one.name: one.as_written(at) for one, at in zip(space.parameters, space.start, strict=True)}
    found = fields(loaded, problem, reported)
    if found:
        load_scenario(loaded.path, [*overrides, *(f"{path}={json.dumps(value)}" for path, value in found.items())])
