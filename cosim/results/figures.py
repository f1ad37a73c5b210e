"""The form of a figure of a run, what is read from tables to make one, and what readers of figures have to know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.results.load import Run

# {"value": float | None, "unit": str, "meaning": str}, and "low", "high" and "at_least" where tasks were unfinished
Figure = dict[str, Any]
UNFINISHED = 0.05  # of all tasks: above it, those that ended do not stand for all (bounds alone are shown)


def warnings(figures: Mapping[str, Figure]) -> list[str]:
    """What readers of a run's figures have to know, wherever they are shown; [] when nothing."""
    share, created, done, flight = (
        figures.get(key, {}).get("value")
        for key in ("unfinished_share", "tasks_created", "tasks_completed", "tasks_in_flight")
    )
    if created and done == 0:
        return [f"none of {created:,.0f} tasks was completed"]
    if share is None or share <= UNFINISHED:
        return []
    text = f"{flight:,.0f} of {created:,.0f} tasks ({100 * share:.3g} %) were unfinished at the end"
    return [f"{text}: too much load, or too short a run; figures with ≥ are lower bounds"]


def measured(run: Path) -> dict[str, Figure]:
    """The figures that a run has written; {} when it has none."""
    try:
        found = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["figures"]
        return {key: entry for key, entry in found.items() if isinstance(entry, dict)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def figure(value: float | None, unit: str, meaning: str) -> Figure:
    usable = value is not None and isfinite(value)
    return {"value": float(value) if usable and value is not None else None, "unit": unit, "meaning": meaning}


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def row_of(run: Run, query: str) -> dict[str, Any]:
    """The only row of a query."""
    relation = run.sql(query)
    (values,) = relation.fetchall()
    return dict(zip(relation.columns, values, strict=True))


def keyed(run: Run, query: str) -> dict[str, dict[str, float | None]]:
    """The rows of a query by their first column, with numbers as floats."""
    relation = run.sql(query)
    names = relation.columns[1:]
    return {
        str(key): {
            name: float(value) if value is not None and isfinite(value) else None
            for name, value in zip(names, values, strict=True)
        }
        for key, *values in relation.fetchall()
    }
