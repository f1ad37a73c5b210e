"""Finding and reading the files of a published data set, in which nothing may be doubtful."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cosim.contract.delimited import content, refuse_twice, sheet
from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.reading.columns import NOTHING
from cosim.contract.records import Floats


def find(data: Path, *patterns: str) -> list[Path]:
    """The files below `data` that match the first pattern that any file matches, sorted by path.

    Patterns are those of `Path.rglob`; several stand for the names that several publishers use.
    Raises `ScenarioError` when no file matches.
    """
    for pattern in patterns:
        found = sorted(path for path in Path(data).rglob(pattern) if path.is_file())
        if found:
            return found
    raise ScenarioError(
        Mistake(f"there is no {' or '.join(patterns)} below it", file=data, hint="name the folder with the data")
    )


def matrix(path: Path) -> Floats:
    """(rows, columns) of a CSV file of numbers without a header, packed or not.

    Raises `ScenarioError` for a cell that is no number and for rows of different lengths.
    """
    text = content(path)
    try:
        return np.loadtxt(io.StringIO(text), delimiter=",", dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise ScenarioError(Mistake(f"is no table of numbers: {error}", file=path)) from error


def table(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file with a header, as text.

    Raises `ScenarioError` for a row of another length, and for two columns of one name.
    """
    found = sheet(content(path), path)
    refuse_twice(path, found.names)
    return found.columns()


def numbers(
    found: Mapping[str, list[str]], name: str, path: Path, low: float = -math.inf, high: float = math.inf
) -> Floats:
    """Column `name` of a table as numbers; NaN for a cell that stands for none ("-", "", "Null").

    Raises `ScenarioError` when there is none, for a cell that holds something else, as a number with a unit, and for
    a number outside `low` and `high`, as one in another unit.
    """
    cells = column(found, name, path)
    values = np.array([math.nan if cell.strip().lower() in NOTHING else _number(cell) for cell in cells], np.float64)
    bad = np.flatnonzero(np.isinf(values) | (values < low) | (values > high))
    if len(bad):
        text = f"'{cells[bad[0]][:40]}' in column '{name}' is no number"
        text += f" between {low:g} and {high:g}" if math.isfinite(values[bad[0]]) else ""
        raise ScenarioError(Mistake(text, file=path, line=int(bad[0]) + 2, hint="leave a cell without a value empty"))
    return values


def column(found: Mapping[str, list[str]], name: str, path: Path) -> list[str]:
    """Column `name` of a table. Raises `ScenarioError` when there is none."""
    if name not in found:
        raise ScenarioError(Mistake(f"has no column '{name}'", file=path, hint=f"it has {', '.join(found)}"))
    return found[name]


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.inf
