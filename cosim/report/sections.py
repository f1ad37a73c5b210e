"""The charts of a run's page, section by section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosim.report import measure
from cosim.report.charts import ChartSeries, bars, blank, distribution, heat, histogram, lines
from cosim.report.folder import Folder
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, amount, word
from cosim.report.text import duration, finite


def adapters(run: Folder) -> tuple[Chart, ReportTable]:
    """Where the run's wall time went."""
    listed: Sequence[Mapping[str, Any]] = [a for a in run.manifest.get("adapters") or [] if isinstance(a, dict)]
    wall = finite(run.manifest.get("wall_seconds")) or 0.0
    spent = [(str(a.get("name")), finite(a.get("wall_seconds")) or 0.0) for a in listed]
    rest = wall - sum(v for _, v in spent)
    parts = [*spent, ("everything else", rest)] if rest > 0 else spent
    chart = bars(
        "Wall time by adapter",
        [(n, {"wall": v}) for n, v in parts if v > 0],
        ["wall"],
        unit="s",
        share=True,
        note="“Everything else” is start-up, the bus, the recorder and pacing.",
        empty="no times were recorded",
    )
    heads = ("Adapter", "Kind", "Origin", "Process", "Period", "Steps", "Wall", "CPU", "Wall per step")
    rows = tuple(
        (
            word(a.get("name")),
            word(a.get("use")),
            word(a.get("origin")),
            word("its own" if a.get("isolated") else "shared"),
            amount("", a.get("period"), "s"),
            amount("", a.get("steps"), "1"),
            amount("", a.get("wall_seconds"), "s"),
            amount("", a.get("cpu_seconds"), "s"),
            amount(
                "", (finite(a.get("wall_seconds")) or 0.0) / steps if (steps := finite(a.get("steps"))) else None, "s"
            ),
        )
        for a in listed
    )
    return chart, ReportTable("adapters", heads, rows, empty="no adapter is listed in the manifest")


def response_charts(run: Folder) -> list[Chart]:
    """Distribution and split of the response time."""
    found, left_out = measure.responses(run)
    none = "no tasks completed in this run" if run.has("tasks") else "no tasks ended in this run"
    if not found:
        return [blank("Response time", none), blank("Where the time went", none)]
    edges, log = measure.bins([r.values for r in found])
    note = f"{left_out} less busy workloads are not drawn." if left_out else ""
    tall = "The last bin holds everything above." if not log else "Logarithmic axis."
    return [
        histogram(
            "Response time",
            [float(e) for e in edges],
            {r.name: measure.counts(r.values, edges) for r in found},
            x="response time",
            unit="s",
            log=log,
            note=f"{tall} {note}".strip(),
        ),
        distribution(
            "Response time, cumulative",
            [measure.ecdf(r.name, r.values) for r in found],
            x="response time",
            unit="s",
            log=log,
            reach=None if log else float(edges[-1]),
            note=note,
        ),
        bars(
            "Where the time went",
            measure.split(run)[:10],
            measure.PHASES,
            unit="s",
            note="Mean over completed tasks. Queue: from input complete to the first core.",
            empty=none,
        ),
    ]


def course_charts(run: Folder, present: list[ChartSeries]) -> list[Chart]:
    """Response time, tasks and devices over simulated time, with the scenario's events."""
    marks = measure.marked_events(run)
    return [
        lines(
            "Response time over the run",
            measure.response_over_time(run),
            y="response time",
            y_unit="s",
            end=run.end,
            marks=marks,
            note="By time of completion.",
            empty="no tasks completed in this run",
        ),
        lines(
            "Tasks over the run",
            measure.throughput(run),
            y="tasks per second",
            y_unit="1",
            end=run.end,
            marks=marks,
            note="Only tasks that ended; the number made falls towards the end where many were still in flight.",
            empty="no tasks ended in this run",
        ),
        lines(
            "Devices over the run",
            present,
            y="devices",
            y_unit="1",
            end=run.end,
            marks=marks,
            note="Movable: nodes that can move and are there; all others are always there."
            if run.has("mobility")
            else "",
            empty="no moving device was recorded",
        ),
    ]


def trouble_charts(run: Folder) -> list[Chart]:
    """Why tasks failed, and how good the radio links were."""
    failed = measure.failures(run)
    created = finite(run.tasks.get("created"))
    if failed:
        note = f"{sum(n for _, n in failed):,} of {created:,.0f} tasks failed." if created else ""
        chart = bars(
            "Failures by cause",
            [(c, {"tasks": float(n)}) for c, n in failed[:12]],
            ["tasks"],
            unit="1",
            share=True,
            first_color=1,
            note=note,
        )
    else:
        chart = blank(
            "Failures by cause", "no task failed in this run" if created else "no tasks were made in this run"
        )
    found = measure.link_quality(run)
    if found is None:
        why = "no radio link was recorded"
        return [chart, blank("Link quality", why), blank("Coverage over the run", why)]
    edges, rows = found
    return [
        chart,
        histogram(
            "Link quality",
            edges,
            {"all devices": rows},
            x="downlink SNR",
            unit="dB",
            note="Over all recorded positions with coverage.",
        ),
        lines(
            "Coverage over the run", [measure.coverage(run)], y="devices in coverage", y_unit="%", end=run.end, top=1.0
        ),
    ]


def neighbour_charts(run: Folder) -> list[Chart]:
    """Signal and path loss over distance, for one device and its nearest base stations; none without the signal."""
    device, levels, losses = measure.neighbour_levels(run)
    note = f"Of {device}, the device that came about most, and the base stations that it came nearest to."
    return [
        lines(
            f"{title} over distance",
            series,
            x="distance",
            x_unit="m",
            y=title.lower(),
            y_unit=unit,
            zero=False,
            note=note,
        )
        for title, unit, series in (("Signal", "dBm", levels), ("Path loss", "dB", losses))
        if series
    ]


def battery_charts(run: Folder) -> list[Chart]:
    """How much is left in the batteries, if there are any."""
    left, count = measure.batteries(run)
    if not left:
        return []
    note = f"Over {count:,} nodes." if count > len(left) else f"Of {left[0].name}." if count == 1 else ""
    return [
        lines(
            "Batteries over the run", left, y="part of the capacity left", y_unit="%",
            end=run.end, top=1.0, marks=measure.marked_events(run), note=note
        )
    ]  # fmt: skip


def migration_charts(run: Folder) -> list[Chart]:
    """When virtual machines were sent to other hosts, if any were."""
    moves, width = measure.migrations(run)
    if not moves:
        return []
    return [
        lines(
            "Migrations over the run", moves, y=f"machines per {duration(width)}",
            y_unit="1", end=run.end, marks=measure.marked_events(run), note="By the time of the decision."
        )
    ]  # fmt: skip


def host_charts(run: Folder) -> list[Chart]:
    """Utilisation of the busiest hosts over time, and of accelerators and attached machines where there are any."""
    hosts = _use("hosts", "cores", run.end, *measure.utilisation(run))
    names, values, count = measure.utilisation(run, "resources", load="cpu")
    accelerators = measure.utilisation(run, "accelerator", "concat_ws(' ', node::VARCHAR, kind::VARCHAR)")
    machines = []
    if count:
        note = "Processor load that attached machines and real nodes measured; those on one machine share it. "
        note += "Tasks that they ran are not in the simulated utilisation of hosts."
        machines = [heat("Measured load of machines", names, values, run.end, note=note, empty="")]
    return [*machines, hosts, *([_use("accelerators", "units", run.end, *accelerators)] if accelerators[2] else [])]


def _use(what: str, parts: str, end: float, names: list[str], values: list[list[float]], count: int) -> Chart:
    note = f"Mean share of the {parts} in use; the figure at the end of a row is its mean."
    if count > len(names):
        note += f" The {len(names)} busiest of {count:,} {what}."
    return heat(f"Utilisation of {what}", names, values, end, note=note, empty=f"no {what[:-1]} was recorded")
