"""The words and numbers of a comparison page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.report import effect, measure
from cosim.report.charts import bars, blank, distribution, intervals
from cosim.report.folder import Folder
from cosim.report.groups import Group, differences
from cosim.report.measure import Responses
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, amount, figures, rank, word
from cosim.report.text import NOTHING, digits, duration, interval, is_share, label, quantity

WORKLOADS = 6


def entries(runs: Sequence[Folder]) -> dict[str, dict[str, Any]]:
    """Every figure that any run declares, those that readers look for first in front."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        for key, entry in figures(run).items():
            found.setdefault(key, entry)
    order = sorted(found, key=rank)
    return {k: found[k] for k in order}


_CHARTED = (
    "response_mean", "response_p95", "tasks_in_flight", "completion_ratio", "late_share", "energy_total", "cost_total",
    "utilisation_mean", "coverage", "handovers", "response_median",
)  # fmt: skip


def charted(item: tuple[str, object]) -> int:
    """Sort key of a figure: figures with the most informative charts come first."""
    return _CHARTED.index(item[0]) if item[0] in _CHARTED else len(_CHARTED)


def unit_for(key: str, entry: dict[str, Any], values: Sequence[float]) -> str:
    """The figure's unit; "%" when it is a share in every run."""
    unit = str(entry.get("unit") or "")
    return "%" if values and all(is_share(key, v, unit) for v in values) else unit


def mean_cell(values: Sequence[float], unit: str) -> TableCell:
    """Mean ± half width of the 95 % interval, or the one value there is."""
    m = effect.mean(values)
    if m.n == 0:
        return TableCell(NOTHING, number=True)
    if m.n == 1:
        return amount("", m.value, unit)
    return TableCell(interval(m.value, m.half, unit), repr(m.value), f"{m.value!r} ± {m.half!r}, n = {m.n}", True)


def figure_comparison(groups: Sequence[Group]) -> ReportTable:
    """One row per figure: every group's mean, and how each differs from the first."""
    first, *others = groups
    heads = ["Figure", *(g.key for g in groups)]
    for g in others:
        heads += [f"{g.key} − {first.key}", "relative", "Hedges' g"]
    rows, tests = [], {"paired": 0, "Welch": 0}
    for key, entry in entries([r for g in groups for r in g.runs]).items():
        values = [g.values(key) for g in groups]
        unit = unit_for(key, entry, [v for group in values for v in group])
        row = [TableCell(label(key), key, str(entry.get("meaning") or ""))]
        row += [mean_cell(v, unit) for v in values]
        for other, found in zip(others, values[1:], strict=True):
            pairs = first.pairs(other, key)
            d = effect.difference(values[0], found, pairs)
            tests["paired" if len(pairs) > 1 else "Welch"] += math.isfinite(d.half)
            mark = "warn" if d.clear else ""
            points = "pp" if unit == "%" else unit
            shown = interval(d.value, d.half, points) if math.isfinite(d.half) else quantity(d.value, points)
            size = "" if not math.isfinite(d.half) else f"{d.value!r} ± {d.half!r}"
            row.append(TableCell(shown, "" if math.isnan(d.value) else repr(d.value), size, True, mark))
            row.append(_signed(d.ratio, "%"))
            row.append(_signed(d.size, ""))
        rows.append(tuple(row))
    made = [
        f"{tests['paired']} differences are tested in pairs of runs with equal seeds (Student's t). "
        * (tests["paired"] > 0),
        f"{tests['Welch']} differences are tested by Welch's t, as no two runs have equal seeds. "
        * (tests["Welch"] > 0),
    ]
    note = (
        "± is half of the 95 % confidence interval over replications (Student's t). "
        + "".join(made)
        + "A shaded difference has an interval that leaves out zero, as one in twenty does by chance. "
        "Without replications there is no interval. pp: percentage points."
    )
    return ReportTable("figures", tuple(heads), tuple(rows), note, "no run has figures")


def _signed(value: float, unit: str) -> TableCell:
    if not math.isfinite(value):
        return TableCell(NOTHING, number=True)
    text = digits(value * 100 if unit else value).replace("-", "−")
    sign = "+" if value > 0 else ""
    return TableCell(f"{sign}{text}{unit and chr(0xA0) + unit}", repr(value), repr(value), True)


def group_table(groups: Sequence[Group]) -> ReportTable:
    """Which runs stand behind each letter."""
    heads = ("", "Configuration", "Runs", "Seeds", "Status", "Simulated", "Took", "Origin of the numbers")
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
                word(duration(effect.mean([float(r.manifest.get("wall_seconds") or math.nan) for r in g.runs]).value)),
                word(", ".join(origin), 60),
            )
        )
    return ReportTable("configurations", heads, tuple(rows))


def pooled(groups: Sequence[Group]) -> dict[str, list[Responses]]:
    """Response times by workload, per group, over all its replications."""
    out: dict[str, list[Responses]] = {}
    for g in groups:
        mine: dict[str, list[Any]] = {}
        for run in g.runs:
            for r in measure.responses(run, most=50)[0]:
                mine.setdefault(r.name, []).append(r.values)
        for name, samples in mine.items():
            out.setdefault(name, []).append(Responses(g.key, np.sort(np.concatenate(samples))))
    return out


def response_charts(samples: dict[str, list[Responses]]) -> list[Chart]:
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


def response_table(groups: Sequence[Group], samples: dict[str, list[Responses]]) -> ReportTable:
    """Quantiles per workload and group, with Cliff's delta against the first group."""
    heads = ("Workload", "", "Tasks", "Median", "95 %", "99 %", "Δ median", "Cliff's δ", "Size")
    rows = []
    for name, found in samples.items():
        base = next((r for r in found if r.name == groups[0].key), None)
        for r in found:
            other = base is not None and r is not base
            delta = effect.cliffs_delta(base.values, r.values) if base and other else math.nan
            shift = r.quantile(0.5) - base.quantile(0.5) if base and other else math.nan
            rows.append(
                (
                    word(name),
                    word(r.name),
                    amount("", len(r.values), "1"),
                    *(amount("", r.quantile(q), "s") for q in (0.5, 0.95, 0.99)),
                    amount("", shift, "s") if other else TableCell("", number=True),
                    _signed(delta, "") if other else TableCell("", number=True),
                    TableCell(effect.size_in_words(delta)),
                )
            )
    note = (
        f"Completed tasks of all replications pooled. Cliff's δ against {groups[0].key}: the chance that a task takes "
        "longer minus the chance that it takes less. It describes only: tasks of one run depend on each other, "
        "so it has no interval."
    )
    return ReportTable("response times", heads, tuple(rows), note, "no tasks completed in these runs")


def split_chart(groups: Sequence[Group]) -> Chart:
    """Where the response time went, per group, over all workloads weighted by tasks."""
    rows = []
    for g in groups:
        parts: dict[str, list[float]] = {p: [] for p in measure.PHASES}
        for run in g.runs:
            for p, v in measure.overall_split(run).items():
                parts[p].append(v)
        rows.append((g.name, {p: effect.mean(v).value for p, v in parts.items() if v}))
    return bars(
        "Where the time went",
        [r for r in rows if r[1]],
        measure.PHASES,
        unit="s",
        note="Mean over completed tasks of all workloads.",
        empty="no tasks completed in these runs",
    )


def failure_chart(groups: Sequence[Group]) -> Chart:
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
        rows.append((g.name, {c: n / created for c, n in total.items()} if created else {}))
    return bars(
        "Failed tasks by cause",
        rows,
        list(causes),
        unit="%",
        first_color=1,
        note="Share of the created tasks.",
        empty="no task failed in these runs",
    )


def figure_charts(groups: Sequence[Group], most: int = 6) -> list[Chart]:
    """The first figures as means with intervals, side by side."""
    charts = []
    for key, entry in sorted(entries([r for g in groups for r in g.runs]).items(), key=charted):
        values = [g.values(key) for g in groups]
        if any(values) and len({v for group in values for v in group}) > 1:
            means = [effect.mean(v) for v in values]
            unit = unit_for(key, entry, [v for group in values for v in group])
            spots = [(m.value, m.value - m.half, m.value + m.half) for m in means]
            charts.append(
                intervals(
                    label(key).capitalize(),
                    [g.key for g in groups],
                    {"": spots},
                    x_title="configuration",
                    y=label(key),
                    unit=unit,
                )
            )
    return charts[:most]


def scenario_table(groups: Sequence[Group]) -> ReportTable:
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


def environment_table(groups: Sequence[Group]) -> ReportTable:
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
