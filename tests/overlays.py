"""Overlay files of calibrations, read by themselves; scenarios include them."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario import tree
from cosim.scenario.calibrated import CalibratedBlock
from cosim.scenario.reading import read_file
from cosim.scenario.wording import problems_of


class Overlay(BaseModel):
    """The block `calibrated`, and the keys of the scenario that the file sets."""

    calibrated: dict[str, CalibratedBlock]
    fields: dict[str, Any]


def read(path: Path) -> Overlay:
    """The overlay file at `path`. Raises `ScenarioError` with everything that is wrong with it."""
    problems: list[Problem] = []
    root = read_file(path, problems)
    if problems or root is None:
        raise ScenarioError(problems)
    data = tree.plain(root)
    if not isinstance(data, dict) or "calibrated" not in data:
        raise ScenarioError(Problem("has no block 'calibrated'", file=path, line=1, column=1))
    fields = {key: value for key, value in data.items() if key != "calibrated"}
    try:
        return Overlay.model_validate({"calibrated": data["calibrated"], "fields": fields})
    except ValidationError as error:
        raise ScenarioError(problems_of(error, Overlay, root, ())) from None
