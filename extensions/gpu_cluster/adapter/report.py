"""The report's section on a GPU cluster: use, line, circuits and power over time, and the fabric with its circuits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cosim.report.charts import ChartSeries, lines
from cosim.report.folder import Folder
from cosim.report.groups import ReportGroup
from cosim.report.own import Section
from cosim.report.svg import Canvas, Chart
from cosim.report.tables import ReportTable, amount, word
from cosim.report.text import duration

POINTS = 240  # of a line
PICTURES = 4  # times at which the fabric is drawn
SIZE, RADIUS = 300.0, 120.0
_FIGURES = (
    ("makespan", "s", "Makespan"),
    ("utilisation", "1", "Useful part of all GPUs"),
    ("loaded_utilisation", "1", "GPUs in use while jobs waited"),
    ("starts_blocked_by_network", "1", "Starts that the network refused"),
    ("starts_blocked_by_power", "1", "Starts that the power limit refused"),
    ("circuits_set_up", "1", "Circuits set up"),
    ("circuits_found_standing", "1", "Circuits found standing"),
    ("uplinks_in_use", "1", "Uplinks in use, mean"),
    ("network_power", "W", "Power of spines and optical switches"),
)


def _means(run: Folder, column: str) -> ChartSeries:
    """The mean of a column that holds from event to event, in equal bins."""
    rows = run.rows(f'SELECT "at", "{column}" FROM cluster ORDER BY "at"')
    width = run.end / POINTS
    sums = [0.0] * POINTS
    for (start, value), (end, _) in zip(rows, [*rows[1:], (run.end, 0.0)], strict=True):
        first, last = int(start / width), min(POINTS - 1, int(end / width))
        for k in range(first, last + 1):
            sums[k] += float(value) * max(0.0, min(end, (k + 1) * width) - max(start, k * width))
    return ChartSeries(column, [(k + 0.5) * width for k in range(POINTS)], [total / width for total in sums])


def _renamed(series: ChartSeries, name: str) -> ChartSeries:
    return ChartSeries(name, series.x, series.y)


def cluster_charts(run: Folder) -> list[Chart]:
    """What the cluster did over time; none when the run had no cluster."""
    if not run.has("cluster"):
        return []
    note = "Means over equal parts of the run."
    return [
        lines("GPUs in use", [_means(run, "busy")], y="GPUs", y_unit="1", end=run.end, note=note),
        lines("Jobs", [_means(run, "running"), _means(run, "waiting")], y="jobs", y_unit="1", end=run.end, note=note),
        lines("Circuits that jobs hold", [_means(run, "circuits")], y="circuits", y_unit="1", end=run.end, note=note),
        lines(
            "Power of the cluster",
            [_renamed(_means(run, "power"), "power")],
            y="power",
            y_unit="W",
            end=run.end,
            note="Servers, leaves, spines and optical switches.",
        ),
        *fabric_pictures(run),
    ]


def fabric_pictures(run: Folder) -> list[Chart]:
    """The leaves on a circle and the circuits between them, at some times of the run."""
    if not run.has("circuit"):
        return []
    rows = run.rows('SELECT "at", leaf, other, up FROM circuit ORDER BY "at", up')
    leaves = 1 + max(max(int(a), int(b)) for _, a, b, _ in rows)
    last = max(at for at, *_ in rows)
    return [_picture(leaves, rows, last * (k + 0.5) / PICTURES) for k in range(PICTURES)]


def _picture(leaves: int, rows: Sequence[tuple[float, int, int, bool]], time: float) -> Chart:
    held: dict[tuple[int, int], int] = {}
    for at, a, b, up in rows:
        if at <= time:
            pair = (min(int(a), int(b)), max(int(a), int(b)))
            held[pair] = held.get(pair, 0) + (1 if up else -1)
    held = {pair: count for pair, count in held.items() if count > 0}
    canvas, centre = Canvas(SIZE, SIZE), SIZE / 2

    def at_leaf(k: int) -> tuple[float, float]:
        angle = 2.0 * math.pi * k / leaves
        return centre + RADIUS * math.cos(angle), centre + RADIUS * math.sin(angle)

    most = max(held.values(), default=1)
    for (a, b), count in sorted(held.items()):
        tip = f"leaf {a} and leaf {b}: {count} circuits"
        canvas.line([at_leaf(a), at_leaf(b)], "l0", style=f"stroke-width:{0.6 + 3.0 * count / most:.1f}", data_tip=tip)
    for k in range(leaves):
        x, y = at_leaf(k)
        canvas.add("circle", cx=x, cy=y, r=5.0, class_="f1", data_tip=f"leaf {k}")
    title = f"Fabric at {duration(time)}"
    note = f"{sum(held.values())} circuits between {len(held)} pairs of leaves; a wider line is more circuits."
    return Chart(title, canvas.finish(title), note)


def cluster_table(run: Folder) -> ReportTable | None:
    """The cluster's own figures, and where its GPU seconds went."""
    for adapter in run.manifest.get("adapters") or []:
        summary = adapter.get("summary") if isinstance(adapter, dict) else None
        found = summary.get("cluster") if isinstance(summary, dict) else None
        if isinstance(found, dict) and isinstance(summary, dict):
            rows = [(word(name), amount("", found.get(key), unit)) for key, unit, name in _FIGURES]
            seconds = summary.get("gpu_seconds") or {}
            for key in ("useful", "slowed", "stalled", "lost", "idle", "down"):
                share = (seconds.get(key) or 0.0) / (seconds.get("capacity") or 1.0)
                rows.append((word(f"GPU seconds: {key}"), amount("", share, "1")))
            jobs = summary.get("jobs") or {}
            rows.append((word("Jobs done"), amount("", jobs.get("done"), "1")))
            rows.append((word("Waiting of a job, mean"), amount("", jobs.get("mean_waiting"), "s")))
            return ReportTable("cluster", ("Figure", "Value"), tuple(rows), empty="")
    return None


def compared(groups: Sequence[ReportGroup]) -> list[Chart]:
    """GPUs in use over time by configuration: the first run of each."""
    found = [
        _renamed(_means(one.runs[0], "busy"), one.key) for one in groups if one.runs and one.runs[0].has("cluster")
    ]
    if not found:
        return []
    return [
        lines("GPUs in use by configuration", found, y="GPUs", y_unit="1", note="Of each configuration the first run.")
    ]


SECTION = Section("GPU cluster", frozenset({"cluster", "job", "circuit"}), cluster_charts, cluster_table, compared)
