"""Fields of a scenario that take the results of a job, as `calibrate.fields` names them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.scenario.gather import split
from cosim.scenario.load import load
from cosim.twin.problem import CalibrationProblem
from cosim.twin.space import Value

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded


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
        load(loaded.path, [*overrides, *(f"{path}={json.dumps(value)}" for path, value in found.items())])
