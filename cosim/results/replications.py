"""Replications: runs that differ in their seed only, and the statistics of their figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.results.compare import values_of
from cosim.results.student import interval

if TYPE_CHECKING:
    from cosim.results.executor import JobResult

SEED = "run.seed"
MAIN = (
    "completion_ratio", "tasks_in_flight", "late_share", "response_mean", "response_p95", "energy_total", "cost_total",
    "utilisation_mean", "coverage", "handovers", "distance",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """Mean of a figure over replications; `half` is half its confidence interval, None for one run."""

    mean: float
    half: float | None
    low: float
    high: float
    runs: int
    unit: str


@dataclass(frozen=True, slots=True)
class Group:
    """Replications of one assignment: what the runs have in common, and their metrics."""

    assignment: Mapping[str, Any]  # scenario path -> value, without the seed
    runs: tuple[Mapping[str, Any], ...]  # metrics of each run

    def estimates(self, level: float = 0.95) -> dict[str, Estimate]:
        """Every figure that a run of the group has, in the order of appearance."""
        units = {key: entry["unit"] for run in self.runs for key, entry in run["figures"].items()}
        found = {}
        for key, unit in units.items():
            values = values_of(self.runs, key)
            if values:
                mean, half = interval(values, level)
                known = half if isfinite(half) else None
                found[key] = Estimate(mean, known, mean - (known or 0.0), mean + (known or 0.0), len(values), unit)
        return found


def group(runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Group]:
    """Groups of runs with equal assignments apart from `run.seed`, in the order of first appearance.

    Each run is (assignment, metrics): what the sweep set for it, and its `metrics.json`.
    """
    found: dict[str, tuple[dict[str, Any], list[Mapping[str, Any]]]] = {}
    for assignment, metrics in runs:
        common = {path: value for path, value in assignment.items() if path != SEED}
        key = json.dumps(common, sort_keys=True, default=str)
        found.setdefault(key, (common, []))[1].append(metrics)
    return [Group(common, tuple(metrics)) for common, metrics in found.values()]


def table(groups: Sequence[Group], figures: Sequence[str], level: float = 0.95) -> list[dict[str, Any]]:
    """One row per group: its assignment, then mean and half interval of each of `figures`."""
    rows = []
    for some in groups:
        estimates = some.estimates(level)
        row: dict[str, Any] = {**some.assignment, "runs": len(some.runs)}
        for figure in figures:
            estimate = estimates.get(figure)
            row[figure] = estimate.mean if estimate else None
            row[f"{figure}_ci"] = estimate.half if estimate else None
        rows.append(row)
    return rows


def groups_of_sweep(folder: Path, results: Iterable[JobResult]) -> list[Group]:
    """Groups of the complete runs among a sweep's `results`; units are those of the first run."""
    units: dict[str, str] = {}
    runs = []
    for result in results:
        if result.status != "complete":
            continue
        if not units:
            with suppress(OSError, ValueError, KeyError):  # a run without figures has none to give units to
                written = json.loads((folder / result.run / "metrics.json").read_text(encoding="utf-8"))
                units = {key: entry["unit"] for key, entry in written["figures"].items()}
        figures = {key: {"value": value, "unit": units.get(key, "")} for key, value in result.figures.items()}
        runs.append((result.parameters, {"figures": figures}))
    return group(runs)


def main_figures(groups: Sequence[Group], most: int = 6) -> list[str]:
    """The most informative figures of those that the runs have."""
    known = {key for some in groups for run in some.runs for key, f in run["figures"].items() if f["value"] is not None}
    rest = sorted(known - set(MAIN))
    return [*(key for key in MAIN if key in known), *rest][:most]
