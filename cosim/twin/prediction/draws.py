"""Draws of a calibration's posterior as a scenario has them, in a file beside the overlay.

    write(folder / "pi.draws.json", calibration, free)
    for settings in read(folder):
        load(scenario, overrides(settings))

A draw is one set of values that the data allow: a run with each gives what the data allow to predict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.seals import sealed, unsealed
from cosim.contract.units import DIMENSIONS
from cosim.results.folder import write_json
from cosim.scenario import tree
from cosim.twin.calibration import Calibration

if TYPE_CHECKING:
    from cosim.scenario.free import Free

SUFFIX = ".draws.json"
Settings = Mapping[str, Any]  # dotted path -> value as the scenario has it


def settings(calibration: Calibration, free: Sequence[Free] = ()) -> list[dict[str, Any]]:
    """Every draw as the fields of the scenario have it; of parameters without effect nothing is set."""
    by_name = {one.name: one for one in free}
    found = []
    for row in calibration.draws:
        values: dict[str, Any] = {}
        for estimate, number in zip(calibration.estimates, row, strict=True):
            if estimate.verdict not in ("fitted", "correlated"):
                continue
            known = by_name.get(estimate.name)
            written = known.written(number) if known is not None else _with_unit(number, estimate.unit)
            members = [tree.dotted(keys) for keys in known.members] if known is not None else estimate.members
            values.update(dict.fromkeys(members, written))
        found.append(values)
    return found


def write(path: Path, calibration: Calibration, free: Sequence[Free] = ()) -> Path | None:
    """Write the draws at `path`; None when there are none that set anything."""
    found = [values for values in settings(calibration, free) if values]
    if not found:
        path.unlink(missing_ok=True)
        return None
    write_json(path, sealed({"format": 2, "calibration": calibration.problem, "draws": found}))
    return path


def read(place: Path) -> list[dict[str, Any]]:
    """The draws in the folder of a calibration, or beside an overlay file. Raises `ScenarioError`."""
    if not place.exists():
        hint = "a folder of 'cosim calibrate'"
        raise ScenarioError(Problem(f"there is no file or folder '{place}'", "twin", hint=hint))
    folder = place if place.is_dir() else place.parent
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if place.name.endswith(SUFFIX):
        files = [place]
    if not files or not files[0].is_file():
        hint = "calibrate with enough runs for intervals; 'cosim calibrate' writes the draws beside the overlay"
        raise ScenarioError(Problem(f"there are no draws of a posterior in {folder}", "twin", hint=hint))
    try:
        found = unsealed(files[0], must="format")["draws"]
    except KeyError as error:
        raise ScenarioError(Problem(f"cannot be read: {error}", "twin", files[0])) from None
    return [dict(values) for values in found]


def overrides(values: Settings) -> list[str]:
    """What sets the values, for `load`."""
    return [f"{path}={json.dumps(value)}" for path, value in values.items()]


def _with_unit(number: float, unit: str) -> Any:  # noqa: ANN401 - YAML data
    return f"{number!r} {unit}" if any(unit in factors for factors in DIMENSIONS.values()) and unit != "1" else number
