"""Replications: runs that differ in their seed only, and the statistics of their figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import SetupError
from cosim.results.figures import Figure, measured, warnings
from cosim.results.student import floor, interval

if TYPE_CHECKING:
    from cosim.results.executor import JobResult

SEED = "run.seed"
# What is better, the most telling first: figure -> +1 more, -1 less, and what the best one does.
GOALS: Mapping[str, tuple[int, str]] = {
    "completion_ratio": (1, "completes most tasks"),
    "response_mean": (-1, "is fastest"),
    "job_completion_mean": (-1, "is fastest"),
    "late_share": (-1, "has the fewest late tasks"),
    "agreement_violations": (-1, "breaks agreements least often"),
    "makespan": (-1, "is done first"),
    "utilisation_makespan": (1, "uses the cluster most"),
    "blocked_starts": (-1, "has the fewest blocked starts"),
    "waiting_mean": (-1, "lets jobs wait least"),
    "alarm_f1": (1, "detects best"),
    "alarm_recall": (1, "misses the fewest"),
    "alarm_precision": (1, "has the fewest false alarms"),
    "engagements_completed": (1, "completes most engagements"),
    "engage_time_mean": (-1, "engages fastest"),
    "area_weeded": (1, "weeds the largest area"),
    "response_p95": (-1, "has the shortest response times at 95 %"),
    "energy_total": (-1, "takes least energy"),
    "cost_total": (-1, "is cheapest"),
    "carbon_total": (-1, "emits least"),
    "migrations": (-1, "migrates least"),
    "coverage": (1, "covers best"),
    "handovers": (-1, "has the fewest handovers"),
    "collisions": (-1, "collides least"),
    "crashes": (-1, "breaks the fewest vehicles"),
}
MAIN = (*GOALS, "unfinished_share", "utilisation_mean", "distance")


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """Mean of a figure over replications; `half` is half its confidence interval, None for one run.

    The interval from `low` to `high` stops at 0 where nothing can be below it.
    """

    mean: float
    half: float | None
    low: float
    high: float
    runs: int
    unit: str
    at_least: bool = False  # a run among them has a lower bound only


def estimate(entries: Iterable[Figure | None]) -> MeanEstimate | None:
    """The mean of a figure over those runs that have it, by Student's t; None when none has."""
    known = [entry for entry in entries if entry is not None and entry["value"] is not None]
    if not known:
        return None
    values, unit = [float(entry["value"]) for entry in known], str(known[0].get("unit") or "")
    mean, half = interval(values)
    width = half if isfinite(half) else 0.0
    bound = any(entry.get("at_least") for entry in known)
    low, known_half = max(floor(values, unit), mean - width), half if isfinite(half) else None
    return MeanEstimate(mean, known_half, low, mean + width, len(values), unit, bound)


@dataclass(frozen=True, slots=True)
class Group:
    """Replications of one assignment: what the runs have in common, and their metrics."""

    assignment: Mapping[str, Any]  # scenario path -> value, without the seed
    runs: tuple[Mapping[str, Any], ...]  # metrics of each run

    def estimates(self) -> dict[str, MeanEstimate]:
        """Every figure that a run of the group has, in the order of appearance."""
        keys = dict.fromkeys(key for run in self.runs for key in run["figures"])
        found = {key: estimate(run["figures"].get(key) for run in self.runs) for key in keys}
        return {key: one for key, one in found.items() if one is not None}

    @property
    def warnings(self) -> list[str]:
        """What has to be known of its figures."""
        return group_warnings([run["figures"] for run in self.runs])


def group_warnings(runs: Sequence[Mapping[str, Figure]]) -> list[str]:
    """The warning of the figures of replications; it is that of the worst run, with how many have one."""
    found = [
        (run["tasks_completed"]["value"] == 0, run.get("unfinished_share", {}).get("value") or 0.0, warned)
        for run in runs
        if (warned := warnings(run))
    ]
    if not found:
        return []
    worst = max(found, key=lambda one: one[:2])[-1]
    return worst if len(runs) == 1 else [f"{len(found)} of {len(runs)} runs; the worst: {one}" for one in worst]


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


def groups_of_sweep(folder: Path, results: Iterable[JobResult]) -> list[Group]:
    """Groups of the complete runs among a sweep's `results`."""
    runs = []
    for result in results:
        if result.status == "complete":
            listed = {key: {"value": value, "unit": ""} for key, value in result.figures.items()}
            runs.append((result.parameters, {"figures": measured(folder / result.run) or listed}))
    return group(runs)


def differing(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The figures that are not the same in all groups of runs (given as their metrics), the most telling first."""
    values: dict[str, dict[int, list[float]]] = {}
    for place, run in ((place, run) for place, runs in enumerate(groups) for run in runs):
        for key, entry in run["figures"].items():
            if isinstance(value := entry["value"], int | float) and isfinite(value):
                mine = values.setdefault(key, {})
                mine.setdefault(place if len(groups) > 1 else len(mine), []).append(float(value))
    rank = {key: place for place, key in enumerate(MAIN)}
    return [
        key for key in sorted(values, key=lambda key: rank.get(key, len(rank)))
        if len({tuple(sorted(mine)) for mine in values[key].values()}) > 1 and not key.startswith("lag_")
    ]  # fmt: skip


def main_figures(groups: Sequence[Group], chosen: Sequence[str] = (), most: int = 6) -> list[str]:
    """The figures of a table: those `chosen`, else those that differ between the runs, or all have.

    Raises `SetupError` for a figure that no run has.
    """
    runs = [run for some in groups for run in some.runs]
    known = dict.fromkeys(key for run in runs for key, entry in run["figures"].items() if entry["value"] is not None)
    if unknown := [key for key in chosen if key not in known]:
        raise SetupError(f"no run has the figure '{unknown[0]}'; there are {', '.join(known)}")
    found = [key for key in differing([some.runs for some in groups]) if key in known]
    return list(chosen) or found[:most] or [key for key in (*MAIN, *known) if key in known][:most]
