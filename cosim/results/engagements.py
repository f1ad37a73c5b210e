"""Key figures of engagements: how soon drones were with their targets, and how they fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# column of an engagement -> figure, unit, meaning; means over the engagements that have it
_MEANS = {
    "t_engage": ("engage_time_mean", "s", "mean time from an engage command to contact"),
    "error_mean": (
        "follow_error_mean",
        "m",
        "mean of the engagements' mean distance from the stand-off point in follow",
    ),
    "coverage": ("engagement_coverage_mean", "m2", "mean area that a camera saw in an engagement"),
}


_WEEDED = {
    "area": ("area_weeded", "m2", "covered in the rows of a field while a drone followed"),
    "per_Wh": ("area_weeded_per_wh", "m2/Wh", "the same by the energy of the drones that were engaged"),
    "per_minute": ("area_weeded_per_minute", "m2/min", "the same by the time of the run"),
}


def listed(summaries: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The engagements of all adapters' summaries, in the order of their commands."""
    rows = [row for summary in summaries.values() for row in summary.get("engagements") or ()]
    return sorted(rows, key=lambda row: float(row["t_command"]))


def engagement_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures by name, none when there were no engagements."""
    if not rows:
        return {}
    figures: dict[str, dict[str, Any]] = {
        "engagements": {"value": float(len(rows)), "unit": "1", "meaning": "engage commands given"},
    }
    for outcome in ("completed", "aborted", "failed"):
        count = sum(row["outcome"] == outcome for row in rows)
        figures[f"engagements_{outcome}"] = {"value": float(count), "unit": "1", "meaning": f"engagements {outcome}"}
    for column, (name, unit, meaning) in _MEANS.items():
        known = [float(row[column]) for row in rows if row[column] is not None]
        figures[name] = {"value": sum(known) / len(known) if known else None, "unit": unit, "meaning": meaning}
    energy = sum(float(row[key] or 0.0) for row in rows for key in row if key.startswith("energy_"))
    figures["engagement_energy"] = {
        "value": energy,
        "unit": "J",
        "meaning": "taken from the batteries of engaged drones",
    }
    return figures


def weeding_figures(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures by name of what was weeded under drones, none where nothing was."""
    found = [summary["weeded"] for summary in summaries.values() if summary.get("weeded")]
    return {
        name: {"value": reported[key], "unit": unit, "meaning": meaning}
        for reported in found
        for key, (name, unit, meaning) in _WEEDED.items()
    }
