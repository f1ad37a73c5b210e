"""Finding and reading the files of a data set, and the settings that a job was given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.contract.delimited import content, sheet
from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError

Floats = NDArray[np.float64]


def find(data: Path, *patterns: str) -> list[Path]:
    """The files below `data` that match the first pattern that any file matches, sorted by path.

    Patterns are those of `Path.rglob`; several stand for the names that several publishers use.
    Raises `ScenarioError` when no file matches.
    """
    for pattern in patterns:
        found = sorted(path for path in data.rglob(pattern) if path.is_file())
        if found:
            return found
    raise ScenarioError(
        Mistake(f"there is no {' or '.join(patterns)} below it", file=data, hint="name the folder with the data")
    )


def matrix(path: Path) -> Floats:
    """(rows, columns) of a CSV file of numbers without a header, gzipped or not.

    Raises `ScenarioError` for a cell that is no number and for rows of different lengths.
    """
    try:
        return np.atleast_2d(np.loadtxt(path, delimiter=",", dtype=np.float64, ndmin=2))
    except ValueError as error:
        raise ScenarioError(Mistake(f"is no table of numbers: {error}", file=path)) from error


def table(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file with a header, as text. Raises `ScenarioError` for a row of another length."""
    return sheet(content(path), path).columns()


def numbers(cells: list[str]) -> Floats:
    """The cells as numbers; NaN for what is none ("-", "", "Null")."""
    return np.array([_number(cell) for cell in cells], np.float64)


def column(found: Mapping[str, list[str]], name: str, path: Path) -> list[str]:
    """Column `name` of a table. Raises `ScenarioError` when there is none."""
    if name not in found:
        raise ScenarioError(Mistake(f"has no column '{name}'", file=path, hint=f"it has {', '.join(found)}"))
    return found[name]


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


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
