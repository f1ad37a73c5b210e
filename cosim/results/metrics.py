"""Key figures of a run, from its tables and its adapters' ledgers: `metrics.json`.

Response time of a completed task = ended - created, and splits into upload (uploaded - created),
queue (started - uploaded; 0 where hosts share their cores among all tasks), compute
(computed - started) and download (ended - computed). A part covers the tasks that have both its times: a
job of a graph has no single upload, and hence no queue either.

For tasks recorded as statistics, the quantiles are those of `cosim.results.summary`, within its error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.results.engagements import engagement_figures, listed, proximity_figures, weeding_figures
from cosim.results.folder import FORMAT, RunFolder, digests, write_json
from cosim.results.ledgers import ledger_faults

if TYPE_CHECKING:
    from cosim.results.load import Run

Figure = dict[str, Any]  # {"value": float | None, "unit": str, "meaning": str}

_SPLIT = {
    "response": ("ended - created", "from creation to the output's return"),
    "upload": ("uploaded - created", "from creation to the input at the host"),
    "queue": ("started - uploaded", "from the input at the host to the first core"),
    "compute": ("computed - started", "from the first core to the end of the computation"),
    "download": ("ended - computed", "from the end of the computation to the output's return"),
}
_TIMED = {"status", "created", "uploaded", "started", "computed", "ended"}
_STATISTICS = {
    "mean": ("avg({})", "mean"),
    "median": ("median({})", "median"),
    "p95": ("quantile_cont({}, 0.95)", "95th percentile"),
    "p99": ("quantile_cont({}, 0.99)", "99th percentile"),
}

# what figures are made from; to get ready to read another table takes a millisecond or two
_MEASURED = frozenset({"task", "task_bins", "task_summary", "host", "host_summary", "link", "cell", "mobility"})
_LEDGERS = ("tasks", "workloads", "bytes", "energy", "cost", "carbon")  # of the summaries


def write_metrics(folder: RunFolder | Path) -> dict[str, Any]:
    """Measure a closed run, write `metrics.json`, note ledgers that do not close in the manifest."""
    from cosim.results.load import Run

    folder = folder if isinstance(folder, RunFolder) else RunFolder.open(folder)
    run = Run(folder, _MEASURED)
    try:
        metrics = measure(run)
    finally:
        run.close()
    write_json(folder.path / "metrics.json", metrics)
    files = {**folder.manifest.get("files", {}), **digests(folder.path, "metrics.json")}
    folder.update(faults=metrics["faults"], files=files)
    return metrics


def measure(run: Run) -> dict[str, Any]:
    """All key figures of `run`; a figure that the run cannot give is left out or null."""
    summaries = {adapter["name"]: adapter["summary"] or {} for adapter in run.manifest["adapters"]}
    ledgers = {
        name: {key: summary[key] for key in _LEDGERS if key in summary}
        for name, summary in summaries.items()
        if "tasks" in summary or "energy" in summary
    }
    figures: dict[str, Figure] = {}
    workloads, hosts, cells = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    columns = set(run.table("task").columns) if "task" in run.signals else set[str]()
    if {"status", "late"} <= columns or any("tasks" in ledger for ledger in ledgers.values()):
        figures |= _tasks(run, list(ledgers.values()), columns)
    if columns >= _TIMED | {"late"}:
        figures |= _times(run)
        workloads = _grouped_tasks(run, "workload") if "workload" in columns else {}
        hosts = _grouped_tasks(run, "host") if "host" in columns else {}
    if "task_bins" in run.signals:
        figures |= _times_of_bins(run)
        workloads = _workloads_of_bins(run)
    figures |= _ledger_figures(list(ledgers.values()))
    if "host" in run.signals or any(summary.get("utilisation") for summary in summaries.values()):
        figures |= _hosts(run, hosts, list(summaries.values()))
    if "link" in run.signals:
        figures |= _links(run)
    if "cell" in run.signals:
        cells = _keyed(run, "SELECT node, avg(attached) attached, avg(active) active, avg(utilisation) utilisation, "
                            "avg(rate) rate FROM cell GROUP BY node ORDER BY node")  # fmt: skip
    if "mobility" in run.signals:
        figures |= _movement(run)
    figures |= engagement_figures(listed(summaries))
    figures |= weeding_figures(summaries)
    figures |= proximity_figures(summaries)
    lag = run.manifest["lag"]
    figures["lag_max"] = _figure(lag["max"], "s", "largest delay behind the wall clock")
    figures["lag_mean"] = _figure(lag["mean"], "s", "mean delay behind the wall clock")
    figures["late_ticks"] = _figure(lag["late_ticks"], "1", "ticks that were later than the warning limit")
    faults = [f"{name}: {fault}" for name, ledger in ledgers.items() for fault in ledger_faults(ledger)]
    return {
        "format": FORMAT, "figures": figures, "workloads": workloads, "hosts": hosts, "cells": cells,
        "ledgers": ledgers, "faults": faults,
    }  # fmt: skip


def _tasks(run: Run, ledgers: Sequence[Mapping[str, Any]], columns: set[str]) -> dict[str, Figure]:
    """Counts from the ledgers, which know tasks in flight; without them from the table."""
    counts: dict[str, dict[str, Any]] = {}
    if {"status", "late"} <= columns:
        counts = _keyed(run, "SELECT status, count(*) n, count(*) FILTER (late) late FROM task GROUP BY status")
    reported = [ledger["tasks"] for ledger in ledgers if "tasks" in ledger]
    failed: dict[str, int] = {}
    if reported:
        created = sum(entry["created"] for entry in reported)
        completed, late = (sum(entry[key] for entry in reported) for key in ("completed", "late"))
        flight = sum(entry["in_flight"] for entry in reported)
        for entry in reported:
            for cause, count in entry["failed"].items():
                failed[cause] = failed.get(cause, 0) + count
    else:
        completed, late = (int(counts.get("completed", {}).get(key, 0)) for key in ("n", "late"))
        failed = {str(cause): int(entry["n"]) for cause, entry in counts.items() if cause != "completed"}
        created, flight = completed + sum(failed.values()), 0
    lost = sum(failed.values())
    reached = run.manifest["reached"]
    figures = {
        "tasks_created": _figure(created, "1", "tasks that devices made"),
        "tasks_completed": _figure(completed, "1", "tasks whose output came back"),
        "tasks_failed": _figure(lost, "1", "tasks that failed, for any cause"),
        "tasks_in_flight": _figure(flight, "1", "tasks under way when the run ended"),
        "completion_ratio": _figure(_ratio(completed, completed + lost), "1", "completed, of all that ended"),
        "late_share": _figure(_ratio(late, completed), "1", "completed after their deadline, of all completed"),
        "throughput": _figure(_ratio(completed, reached), "1/s", "completed tasks per simulated second"),
    }
    for cause in sorted(failed):
        figures[f"failed_{cause}"] = _figure(failed[cause], "1", f"tasks that failed with cause '{cause}'")
    return figures


def _times(run: Run) -> dict[str, Figure]:
    """Response time and its parts over all completed tasks."""
    sql = ", ".join(
        f"{formula.format(expression)} FILTER (isfinite({expression})) AS {part}_{statistic}"
        for part, (expression, _) in _SPLIT.items()
        for statistic, (formula, _) in _STATISTICS.items()
    )
    row = _row(run, f"SELECT {sql} FROM task WHERE status = 'completed'")
    figures = {}
    for part, (_, meaning) in _SPLIT.items():
        for statistic, (_, word) in _STATISTICS.items():
            key = f"{part}_{statistic}"
            figures[key] = _figure(row[key], "s", f"{word} of the time {meaning}, completed tasks")
    return figures


def _times_of_bins(run: Run) -> dict[str, Figure]:
    """The figures of `_times` from statistics."""
    figures = {}
    for part, (_, meaning) in _SPLIT.items():
        for statistic, value in _statistics(run, part).items():
            word = _STATISTICS[statistic][1]
            figures[f"{part}_{statistic}"] = _figure(value, "s", f"{word} of the time {meaning}, completed tasks")
    return figures


def _statistics(run: Run, part: str, workload: str = "") -> dict[str, float | None]:
    """Mean, median, p95 and p99 of a part of the response time, of all tasks or of one workload's."""
    from cosim.results.summary import quantile  # loads what few runs need

    of = f"quantity = '{part}'" + (" AND workload = ?" if workload else "")
    given = [workload] if workload else []
    counted = run.execute(f"SELECT bin, tally FROM task_bins WHERE {of}", given).fetchnumpy()
    ((mean,),) = run.execute(f"SELECT sum(sum) / nullif(sum(count), 0) FROM task_summary WHERE {of}", given).fetchall()
    numbers, tally = counted["bin"].astype("i8"), counted["tally"].astype("i8")
    found = {"mean": mean}
    for statistic, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        found[statistic] = quantile(numbers, tally, q)
    return found


def _workloads_of_bins(run: Run) -> dict[str, Any]:
    """Counts and times per workload, where the statistics are grouped by it."""
    if "workload" not in run.table("task_summary").columns:
        return {}
    counts = _keyed(run, "SELECT workload, sum(count) FILTER (quantity = 'late') ended, "
                         "coalesce(sum(count) FILTER (quantity = 'response'), 0) completed, "
                         "sum(sum) FILTER (quantity = 'late') late "
                         "FROM task_summary GROUP BY workload ORDER BY workload")  # fmt: skip
    for name, row in counts.items():
        ended, completed, late = row["ended"], row["completed"] or 0.0, row.pop("late")
        if ended is not None and late is not None:  # the column is among the kept ones
            row |= {"failed": ended - completed, "completion_ratio": _ratio(completed, ended)}
            row["late_share"] = _ratio(late, completed)
        for part in _SPLIT:
            for statistic, value in _statistics(run, part, name).items():
                if statistic == "mean" or part == "response":
                    row[f"{part}_{statistic}"] = value if value is not None and isfinite(value) else None
    return counts


def _grouped_tasks(run: Run, column: str) -> dict[str, Any]:
    """Counts and times of tasks per value of `column`; tasks that never got to a host have none."""
    done = "FILTER (status = 'completed')"
    times = ", ".join(
        f"{_STATISTICS[statistic][0].format(expression)} FILTER (status = 'completed' AND isfinite({expression})) "
        f"AS {part}_{statistic}"
        for part, (expression, _) in _SPLIT.items()
        for statistic in (_STATISTICS if part == "response" else ("mean",))
    )
    rows = _keyed(run, f"SELECT {column}, count(*) ended, count(*) {done} completed, "
                       f"count(*) FILTER (status <> 'completed') failed, "
                       f"(count(*) {done}) / count(*) completion_ratio, "
                       f"count(*) FILTER (late) / nullif(count(*) {done}, 0) late_share, {times} "
                       f"FROM task WHERE {column} IS NOT NULL GROUP BY {column} ORDER BY {column}")  # fmt: skip
    causes = run.sql(
        f"SELECT {column}, status, count(*) FROM task WHERE status <> 'completed' AND {column} IS NOT NULL "
        f"GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    for name, cause, count in causes:
        rows[name][f"failed_{cause}"] = float(count)
    return rows


def _ledger_figures(ledgers: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """Energy and cost as the adapters account for them."""
    figures: dict[str, Figure] = {}
    energies = [ledger["energy"] for ledger in ledgers if "energy" in ledger]
    if energies:
        total = sum(e["total"] for e in energies) or None  # nothing at all: no power was stated
        figures["energy_total"] = _figure(total, "J", "energy of all nodes and transfers, and of what moves vehicles")
        if any("vehicles" in e for e in energies):
            moved = sum(e.get("vehicles", 0.0) for e in energies)
            figures["energy_vehicles"] = _figure(moved, "J", "energy of vehicles, from the batteries that move them")
        for tier in sorted({tier for e in energies for tier in e.get("by_tier", {})}):
            used = sum(e.get("by_tier", {}).get(tier, 0.0) for e in energies)
            figures[f"energy_{tier}"] = _figure(used, "J", f"energy of the nodes of tier '{tier}'")
        for part, meaning in (("radio", "the radio transfers"), ("links", "the links")):
            figures[f"energy_{part}"] = _figure(sum(e.get(part, 0.0) for e in energies), "J", f"energy of {meaning}")
    costs = [ledger["cost"] for ledger in ledgers if "cost" in ledger]
    if costs:
        figures["cost_total"] = _figure(sum(c["total"] for c in costs) or None, "1", "cost in the scenario's currency")
    if owned := sum(cost.get("own", 0.0) for cost in costs):
        figures["cost_own"] = _figure(owned, "1", "part of the cost, of owning the nodes, used or not")
    owed = [cost["penalty"]["total"] for cost in costs if "penalty" in cost]
    if owed:
        figures["cost_penalty"] = _figure(sum(owed), "1", "part of the cost, owed for agreements that were not kept")
    carbons = [ledger["carbon"] for ledger in ledgers if "carbon" in ledger]
    emitted, green, brown = (sum(c[name] for c in carbons) for name in ("grams", "green_energy", "brown_energy"))
    if emitted or green:
        figures["carbon_total"] = _figure(emitted, "g", "CO2 emitted for the energy that has a tariff")
        figures["energy_green"] = _figure(green, "J", "green energy, as far as it has a tariff")
        figures["energy_brown"] = _figure(brown, "J", "the rest of the energy that has a tariff")
    return figures


# A row at time t holds for the time up to t, so that the first one mostly holds for none.
_HELD = "FILTER (time > 0 OR utilisation > 0)"


def _hosts(run: Run, hosts: dict[str, Any], ledgers: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """Load of hosts; adds to the entries of `hosts`."""
    rows = "host" in run.signals
    available = set(run.manifest["signals"].get("host", {}).get("columns", {}))
    if not rows:
        available = {"utilisation"}  # of the ledgers
    elif not available:
        available = set(run.table("host").columns)
    wanted = {
        "utilisation": f"avg(utilisation) {_HELD}", "running": "avg(running)", "energy": "max(energy)",
        "cost": "max(cost)", "up_share": "avg(up::INT)",
    }  # fmt: skip
    parts = [f"{sql} AS {name}" for name, sql in wanted.items() if name.removesuffix("_share") in available]
    if not parts:
        return {}
    query = f"SELECT node, {', '.join(parts)} FROM host GROUP BY node ORDER BY node"
    for name, row in _keyed(run, query).items() if rows else ():
        hosts[name] = {**row, **hosts.get(name, {})}
    if "utilisation" not in available:
        return {}
    booked: dict[str, float] = {}
    for ledger in ledgers:
        booked |= ledger.get("utilisation", {})
    for name, share in booked.items():
        hosts[name] = {**hosts.get(name, {}), "utilisation": share}
    mean = sum(booked.values()) / len(booked) if booked else None
    if mean is None:  # an adapter without the ledger, or hosts that come and go: means over what was recorded
        mean = _row(run, f"SELECT avg(utilisation) {_HELD} mean FROM host")["mean"]
    return {"utilisation_mean": _figure(mean, "1", "busy share of the cores, mean over hosts and time")}


def _links(run: Run) -> dict[str, Figure]:
    columns = set(run.table("link").columns)
    figures = {}
    if "cell" in columns:
        row = _row(run, "SELECT avg((cell IS NOT NULL)::INT) covered FROM link")
        figures["coverage"] = _figure(row["covered"], "1", "share of devices' time with a serving cell")
    if "handovers" in columns:
        row = _row(run, "SELECT sum(n) n FROM (SELECT max(handovers) n FROM link GROUP BY node)")
        figures["handovers"] = _figure(row["n"], "1", "changes of the serving cell, all devices")
    for name, unit, meaning in (
        ("uplink_rate", "bit/s", "mean rate that one transfer of a covered device gets, towards the network"),
        ("downlink_rate", "bit/s", "mean rate that one transfer of a covered device gets, towards the device"),
        ("snr", "dB", "mean signal to noise and interference of covered devices"),
    ):
        if {name, "cell"} <= columns:
            row = _row(run, f"SELECT avg({name}) FILTER (cell IS NOT NULL AND isfinite({name})) mean FROM link")
            figures[f"{name}_mean"] = _figure(row["mean"], unit, meaning)
    return figures


def _movement(run: Run) -> dict[str, Figure]:
    row = _row(run, "SELECT max(n) most, avg(n) mean, (max(time) - min(time)) / nullif(count(*) - 1, 0) step "
                    "FROM (SELECT time, count(*) n FROM mobility GROUP BY time)")  # fmt: skip
    seen = _row(run, "SELECT count(DISTINCT node) n FROM mobility")
    figures = {
        "vehicles_max": _figure(row["most"], "1", "most moving nodes at the same time"),
        "vehicles_mean": _figure(row["mean"], "1", "mean number of moving nodes"),
        "vehicles_seen": _figure(seen["n"], "1", "moving nodes that appeared during the run"),
    }
    if "speed" in run.table("mobility").columns and row["step"]:
        moved = _row(run, "SELECT sum(speed) FILTER (isfinite(speed)) total FROM mobility")["total"]
        value = None if moved is None else moved * row["step"]
        figures["distance"] = _figure(value, "m", "way of all moving nodes: speed summed over the recorded steps")
    return figures


def _figure(value: float | None, unit: str, meaning: str) -> Figure:
    usable = value is not None and isfinite(value)
    return {"value": float(value) if usable and value is not None else None, "unit": unit, "meaning": meaning}


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _row(run: Run, query: str) -> dict[str, Any]:
    """The only row of a query."""
    relation = run.sql(query)
    (values,) = relation.fetchall()
    return dict(zip(relation.columns, values, strict=True))


def _keyed(run: Run, query: str) -> dict[str, dict[str, float | None]]:
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


__all__ = ["ledger_faults", "measure", "write_metrics"]
