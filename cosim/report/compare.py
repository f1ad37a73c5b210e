"""The words and numbers of a comparison page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.report import measure
from cosim.report.charts import bars, blank, distribution
from cosim.report.folder import Folder
from cosim.report.groups import ReportGroup, differences
from cosim.report.measure import ResponseTimes
from cosim.report.ranking import CLEAR, cell
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, amount, figures, rank, word
from cosim.report.text import NOTHING, digits, duration, interval, is_share, label, quantity
from cosim.results.compare import Effect, adjust, effects

WORKLOADS = 6


def cliffs_delta(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """P(second > first) - P(second < first) for sorted samples: -1 all lower, 0 alike, 1 all higher."""
    if not len(first) or not len(second):
        return math.nan
    below = np.searchsorted(first, second, "left").sum(dtype=np.float64)
    above = (len(first) - np.searchsorted(first, second, "right")).sum(dtype=np.float64)
    return float((below - above) / (len(first) * len(second)))


def size_in_words(delta: float) -> str:
    """Cliff's delta in words, by the bounds 0.147, 0.33 and 0.474 (Romano et al., 2006)."""
    if not math.isfinite(delta):
        return ""
    bounds = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
    return next((name for bound, name in bounds if abs(delta) < bound), "large")


def entries(runs: Sequence[Folder]) -> dict[str, dict[str, Any]]:
    """Every figure that any run declares, those that readers look for first in front."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for key, entry in figures(run).items():
            found.setdefault(key, entry)
    order = sorted(found, key=rank)
    return {k: found[k] for k in order}


def unit_for(key: str, entry: dict[str, Any], values: Sequence[float]) -> str:
    """The figure's unit; "%" when it is a share in every run."""
    unit = str(entry.get("unit") or "")
    return "%" if values and all(is_share(key, v, unit) for v in values) else unit


def figure_comparison(groups: Sequence[ReportGroup]) -> ReportTable:
    """One row per figure: every group's mean, and how each differs from the first."""
    first, *others = groups
    heads = ["Figure", *(g.key for g in groups), *(f"{g.key} − {first.key}" for g in others)]
    compared = [effects(first.metrics, g.metrics, seeds=(first.seeds, g.seeds)) for g in others]
    corrected, tests = adjust(compared)
    by_figure = [{one.figure: one for one in found} for found in corrected]
    rows = []
    for key, entry in entries([r for g in groups for r in g.runs]).items():
        row = [TableCell(label(key), key, str(entry.get("meaning") or ""))]
        row += [cell(key, g.estimate(key)) for g in groups]
        row += [_difference(found.get(key)) for found in by_figure]
        rows.append(tuple(row))
    made = sorted({found.test for some in corrected for found in some if math.isfinite(found.p)})
    kinds = {"paired t": "Student's t over pairs of runs with equal seeds", "Welch t": "Welch's t (no equal seeds)"}
    note = (
        "± is half of the 95 % confidence interval over replications (Student's t). "
        + (f"Intervals of differences by {' and '.join(kinds[kind] for kind in made)}. " if made else "")
        + f"A shaded difference is clear at 5 % after Holm's correction for {tests} comparisons; figures equal "
        "in every run are none. Hedges' g and p are in the tooltips. pp: percentage points."
    )
    return ReportTable("figures", tuple(heads), tuple(rows), note, "no run has figures")


def _difference(found: Effect | None) -> TableCell:
    if found is None or not math.isfinite(found.difference):
        return TableCell(NOTHING, number=True)
    share = all(is_share(found.figure, value, found.unit) for value in (found.base, found.mean))
    unit = "pp" if share else found.unit
    half = (found.high - found.low) / 2
    text = interval(found.difference, half, unit) if math.isfinite(half) else quantity(found.difference, unit)
    more = f"{found.difference!r} ± {half!r}, relative {found.relative:.3g}, Hedges' g {found.g:.3g}, p {found.p:.3g}, "
    more += f"after Holm {found.adjusted:.3g}"
    return TableCell(text, repr(found.difference), more, True, "warn" if found.adjusted < CLEAR else "")


def _signed(value: float, unit: str) -> TableCell:
    if not math.isfinite(value):
        return TableCell(NOTHING, number=True)
    text = digits(value * 100 if unit else value).replace("-", "−")
    sign = "+" if value > 0 else ""
    return TableCell(f"{sign}{text}{unit and chr(0xA0) + unit}", repr(value), repr(value), True)


def group_table(groups: Sequence[ReportGroup]) -> ReportTable:
    """Which runs stand behind each name."""
    heads = ("Name", "What differs", "Runs", "Seeds", "Status", "Simulated", "Took", "Origin of the numbers")
    rows = []
    for g in groups:
        partial = [r for r in g.runs if r.manifest.get("status") != "complete"]
        kept = [s for r in g.runs for s in (r.manifest.get("signals") or {}).values() if s.get("rows") != 0]
        origin = sorted({part for s in kept for part in str(s.get("origin") or NOTHING).split("/")})
        seeds = [str(r.manifest.get("seed")) for r in g.runs]
        rows.append(
            (
                word(g.key),
                word(g.label, 60),
                amount("", len(g.runs), "1"),
                word(", ".join(seeds), 30),
                TableCell(
                    "complete" if not partial else f"{len(partial)} not complete", mark="bad" if partial else "good"
                ),
                word(duration(g.runs[0].manifest.get("reached"))),
                word(duration(sum(float(r.manifest.get("wall_seconds") or 0.0) for r in g.runs) / len(g.runs))),
                word(", ".join(origin), 60),
            )
        )
    return ReportTable("configurations", heads, tuple(rows))


def pooled(groups: Sequence[ReportGroup]) -> dict[str, list[ResponseTimes]]:
    """Response times by workload, per group, over all its replications."""
    out: dict[str, list[ResponseTimes]] = {}
    for g in groups:
        mine: dict[str, list[Any]] = {}
        for run in g.runs:
            for r in measure.responses(run, most=50)[0]:
                mine.setdefault(r.name, []).append(r.values)
        for name, samples in mine.items():
            out.setdefault(name, []).append(ResponseTimes(g.key, np.sort(np.concatenate(samples))))
    return out


def response_charts(samples: dict[str, list[ResponseTimes]]) -> list[Chart]:
    """Overlayed cumulative distributions, one chart per workload."""
    if not samples:
        return [blank("Response time", "no tasks completed in these runs")]
    names = sorted(samples, key=lambda n: (-sum(len(r.values) for r in samples[n]), n))
    charts = []
    for name in names[:WORKLOADS]:
        _, log = measure.bins([r.values for r in samples[name]])
        curves = [measure.ecdf(r.name, r.values) for r in samples[name]]
        charts.append(distribution(f"Response time of {name}", curves, x="response time", unit="s", log=log))
    return charts


def response_table(groups: Sequence[ReportGroup], samples: dict[str, list[ResponseTimes]]) -> ReportTable:
    """Quantiles per workload and group, with Cliff's delta against the first group."""
    heads = ("Workload", "", "Tasks", "Median", "95 %", "99 %", "Δ median", "Cliff's δ", "Size")
    rows = []
    for name, found in samples.items():
        base = next((r for r in found if r.name == groups[0].key), None)
        for r in found:
            other = base is not None and r is not base
            delta = cliffs_delta(base.values, r.values) if base and other else math.nan
            shift = r.quantile(0.5) - base.quantile(0.5) if base and other else math.nan
            rows.append(
                (
                    word(name),
                    word(r.name),
                    amount("", len(r.values), "1"),
                    *(amount("", r.quantile(q), "s") for q in (0.5, 0.95, 0.99)),
                    amount("", shift, "s") if other else TableCell("", number=True),
                    _signed(delta, "") if other else TableCell("", number=True),
                    TableCell(size_in_words(delta)),
                )
            )
    note = (
        f"Completed tasks of all replications pooled. Cliff's δ against {groups[0].key}: the chance that a task takes "
        "longer minus the chance that it takes less. It describes only: tasks of one run depend on each other, "
        "so it has no interval."
    )
    return ReportTable("response times", heads, tuple(rows), note, "no tasks completed in these runs")


def split_chart(groups: Sequence[ReportGroup]) -> Chart:
    """Where the response time went, per group, over all workloads weighted by tasks."""
    rows = []
    for g in groups:
        parts: dict[str, list[float]] = {p: [] for p in measure.PHASES}
        for run in g.runs:
            for p, v in measure.overall_split(run).items():
                parts[p].append(v)
        rows.append((g.key, {p: sum(v) / len(v) for p, v in parts.items() if v}))
    return bars(
        "Where the time went",
        [r for r in rows if r[1]],
        measure.PHASES,
        unit="s",
        note="Mean over completed tasks of all workloads.",
        empty="no tasks completed in these runs",
    )


def failure_chart(groups: Sequence[ReportGroup]) -> Chart:
    """Share of the created tasks that failed, by cause."""
    causes: dict[str, None] = {}
    rows = []
    for g in groups:
        total: dict[str, float] = {}
        created = 0.0
        for run in g.runs:
            created += float(run.tasks.get("created") or 0)
            for cause, n in measure.failures(run):
                total[cause] = total.get(cause, 0.0) + n
                causes.setdefault(cause)
        rows.append((g.key, {c: n / created for c, n in total.items()} if created else {}))
    return bars(
        "Failed tasks by cause",
        rows,
        list(causes),
        unit="%",
        first_color=1,
        note="Share of the created tasks.",
        empty="no task failed in these runs",
    )


def scenario_table(groups: Sequence[ReportGroup]) -> ReportTable:
    """What is not the same in the resolved scenarios."""
    rows = tuple((word(path, 70), *(word(v, 60) for v in values)) for path, values in differences(groups))
    return ReportTable(
        "scenario",
        ("Key", *(g.key for g in groups)),
        rows,
        empty="the scenarios are the same but for the seed"
        if len(groups) == 1
        else "the resolved scenarios were not kept",
    )


def environment_table(groups: Sequence[ReportGroup]) -> ReportTable:
    """Versions, source and machine where they are not the same; they may explain a difference too."""
    found = []
    for g in groups:
        m = g.runs[0].manifest
        facts = {f"version of {k}": v for k, v in (m.get("versions") or {}).items()}
        facts |= {f"machine: {k}": v for k, v in (m.get("host") or {}).items()}
        git = m.get("git") or {}
        facts |= {
            "source": f"{str(git.get('commit'))[:12]}{' +' if git.get('dirty') else ''}" if git else NOTHING,
            "driver": m.get("driver"),
            "pacing": m.get("pacing"),
            "step": m.get("step"),
        }
        found.append({k: str(v) for k, v in facts.items()})
    keys = dict.fromkeys(k for f in found for k in f)
    rows = tuple(
        (word(k), *(word(f.get(k, NOTHING), 50) for f in found))
        for k in keys
        if len({f.get(k, NOTHING) for f in found}) > 1
    )
    return ReportTable(
        "environment", ("", *(g.key for g in groups)), rows, empty="versions, source, driver and machine are the same"
    )
