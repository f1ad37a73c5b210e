"""Calibrations against published measurements; each module makes the problems of one data set.

    problems = load("power")(Path("../shared/data"), {})

A module offers `problems(data, settings) -> list[Problem]`, and in `SETTINGS` the names that it knows.
`data` is a folder that holds the data's files somewhere below it, by the names of their publishers or
by those of this project's collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.hints import did_you_mean
from cosim.contract.plugins import installed
from cosim.contract.plugins import load as plugin
from cosim.twin.problem import CalibrationProblem


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
