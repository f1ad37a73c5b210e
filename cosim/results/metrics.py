"""Key figures of a run, from its tables and its adapters' ledgers: `metrics.json`.

Those of tasks are in `cosim.results.tasks`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import CosimError
from cosim.results.engagements import engagement_figures, listed, weeding_figures
from cosim.results.figures import Figure, figure, keyed, ratio, row_of, warnings
from cosim.results.folder import FORMAT, RunFolder, digests, write_json
from cosim.results.ledgers import ledger_faults
from cosim.results.tasks import task_figures

if TYPE_CHECKING:
    from cosim.results.load import Run


# what figures are made from; to get ready to read another table takes a millisecond or two
_MEASURED = frozenset(
    {"task", "task_bins", "task_summary", "host", "host_summary", "link", "cell", "mobility", "nodes",
     "alarm", "jamming"}
)  # fmt: skip
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
    cells = dict[str, Any]()
    figures, workloads, hosts = task_figures(run, list(ledgers.values()))
    figures |= _ledger_figures(list(ledgers.values()))
    if "host" in run.signals or any(summary.get("utilisation") for summary in summaries.values()):
        figures |= _hosts(run, hosts, list(summaries.values()))
    if "link" in run.signals:
        figures |= _links(run)
    if "cell" in run.signals:
        cells = keyed(run, "SELECT node, avg(attached) attached, avg(active) active, avg(utilisation) utilisation, "
                            "avg(rate) rate FROM cell GROUP BY node ORDER BY node")  # fmt: skip
    if "mobility" in run.signals:
        figures |= _movement(run)
    figures |= engagement_figures(listed(summaries))
    figures |= weeding_figures(summaries)
    figures |= _reported(run, summaries.values())
    lag = run.manifest["lag"]
    figures["lag_max"] = figure(lag["max"], "s", "largest delay behind the wall clock")
    figures["lag_mean"] = figure(lag["mean"], "s", "mean delay behind the wall clock")
    figures["late_ticks"] = figure(lag["late_ticks"], "1", "ticks that were later than the warning limit")
    faults = [f"{name}: {fault}" for name, ledger in ledgers.items() for fault in ledger_faults(ledger)]
    return {
        "format": FORMAT, "figures": figures, "workloads": workloads, "hosts": hosts, "cells": cells,
        "ledgers": ledgers, "faults": faults, "warnings": warnings(figures),
    }  # fmt: skip


HURT = 3.0  # dB of SINR lost against the same moment without jammers, from which an alarm is right
JUDGED = "FROM alarm JOIN jamming USING (node, time)"  # rows of which alarm and truth are known
# block and key of an adapter's summary -> figure, unit, meaning; sums over adapters, of times and shares the last one
_REPORTED = {
    ("jobs", "mean_waiting"): ("waiting_mean", "s", "mean time that jobs waited before they began"),
    ("jobs", "mean_completion"): ("job_completion_mean", "s", "mean time from the arrival of a job to its end"),
    ("jobs", "restarts"): ("restarts", "1", "jobs that were started again"),
    ("cluster", "makespan"): ("makespan", "s", "time of the end of the last job"),
    ("cluster", "utilisation"): ("utilisation_makespan", "1", "useful GPU time by all of it until the last job ended"),
    ("cluster", "starts_blocked_by_network"): ("blocked_starts", "1", "starts of jobs that the network refused"),
    ("deciding", "delay"): ("deciding_delay", "s", "mean time by which decisions delay tasks, waiting included"),
    ("proximity", "near_misses"): ("near_misses", "1", "approaches to an obstacle that did not hit it"),
    ("proximity", "collisions"): ("collisions", "1", "approaches to an obstacle that hit it"),
    ("impacts", "crashes"): ("crashes", "1", "vehicles that an impact has broken"),
    ("machines", "migrations"): ("migrations", "1", "virtual machines that were sent to another host"),
    ("machines", "violating_periods"): ("agreement_violations", "1", "periods that broke a machine's agreement"),
    ("work", "done"): ("work_done", "1", "cycles that virtual machines computed"),
    ("energy", "gpus"): ("energy_gpus", "J", "energy of GPUs of virtual machines, part of that of their hosts"),
    ("energy", "cooling"): ("energy_cooling", "J", "energy of cooling and power supply of datacentres"),
}


def _reported(run: Run, summaries: Collection[Mapping[str, Any]]) -> dict[str, Figure]:
    """Figures that adapters count themselves: jobs, migrations, broken agreements, alarms."""
    found: dict[str, Figure] = {}

    def add(name: str, value: float | None, unit: str, meaning: str) -> None:
        before = found.get(name, {}).get("value") if unit == "1" and "utilisation" not in name else None
        found[name] = figure(value if value is None or before is None else before + value, unit, meaning)

    for summary in summaries:
        for (block, key), (name, unit, meaning) in _REPORTED.items():
            if isinstance(part := summary.get(block), Mapping) and key in part:
                add(name, part[key], unit, meaning)
        if services := summary.get("agreements"):
            broken = sum(one["violations"] for one in services.values())
            add("agreement_violations", broken, "1", "tasks that broke the agreement of their workload")
        for kind in (summary.get("autoscale") or {}).values():
            add("host_starts", kind["starts"], "1", "starts of hosts by load")
            add("host_stops", kind["stops"], "1", "stops of hosts by load")
        if isinstance(alarms := summary.get("alarms"), int):
            add("alarms", alarms, "1", "alarms that detectors raised")
    cameras = [one for summary in summaries for one in (summary.get("cameras") or {}).values() if "hits" in one]
    if cameras:
        hits, wrong, there = (sum(one[key] for one in cameras) for key in ("hits", "false_alarms", "weeds"))
        found |= _judged(hits, hits + wrong, there, "what cameras reported")
    elif {"alarm", "jamming"} <= set(run.signals):
        hurt = f"loss >= {HURT}"
        row = row_of(run, f'SELECT count(*) FILTER ("on" AND {hurt}) hits, count(*) FILTER ("on") alarms, '
                          f"count(*) FILTER ({hurt}) there {JUDGED} WHERE isfinite(loss)")  # fmt: skip
        found |= _judged(row["hits"], row["alarms"], row["there"], f"alarms of phones that lose {HURT:g} dB or more")
    return found


def _judged(hits: int, alarms: int, there: int, what: str) -> dict[str, Figure]:
    """Precision, recall and their harmonic mean of alarms: `hits` are right, and there were `there` causes."""
    return {
        "alarm_precision": figure(ratio(hits, alarms), "1", f"right ones of all: {what}"),
        "alarm_recall": figure(ratio(hits, there), "1", f"found ones of all that there were: {what}"),
        "alarm_f1": figure(ratio(2 * hits, alarms + there), "1", f"harmonic mean of precision and recall: {what}"),
    }


def _ledger_figures(ledgers: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """Energy and cost as the adapters account for them."""
    figures: dict[str, Figure] = {}
    energies = [ledger["energy"] for ledger in ledgers if "energy" in ledger]
    if energies:
        parts = {"total": (sum(e["total"] for e in energies), "all nodes and transfers, and of what moves vehicles")}
        if any("vehicles" in e for e in energies):
            moved = sum(e.get("vehicles", 0.0) for e in energies)
            parts["vehicles"] = (moved, "vehicles, from the batteries that move them")
        for tier in sorted({tier for e in energies for tier in e.get("by_tier", {})}):
            used = sum(e.get("by_tier", {}).get(tier, 0.0) for e in energies)
            parts[tier] = (used, f"the nodes of tier '{tier}'")
        for part, meaning in (("radio", "the radio transfers"), ("links", "the links")):
            parts[part] = (sum(e.get(part, 0.0) for e in energies), meaning)
        for part, (joules, meaning) in parts.items():  # what has a power has used some
            given = "" if joules else "; not given: the scenario has no power or energy for it"
            figures[f"energy_{part}"] = figure(joules or None, "J", f"energy of {meaning}{given}")
    costs = [ledger["cost"] for ledger in ledgers if "cost" in ledger]
    if costs:
        figures["cost_total"] = figure(sum(c["total"] for c in costs) or None, "1", "cost in the scenario's currency")
    if owned := sum(cost.get("own", 0.0) for cost in costs):
        figures["cost_own"] = figure(owned, "1", "part of the cost, of owning the nodes, used or not")
    owed = [cost["penalty"]["total"] for cost in costs if "penalty" in cost]
    if owed:
        figures["cost_penalty"] = figure(sum(owed), "1", "part of the cost, owed for agreements that were not kept")
    carbons = [ledger["carbon"] for ledger in ledgers if "carbon" in ledger]
    emitted, green, brown = (sum(c[name] for c in carbons) for name in ("grams", "green_energy", "brown_energy"))
    if emitted or green:
        figures["carbon_total"] = figure(emitted, "g", "CO2 emitted for the energy that has a tariff")
        figures["energy_green"] = figure(green, "J", "green energy, as far as it has a tariff")
        figures["energy_brown"] = figure(brown, "J", "the rest of the energy that has a tariff")
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
    for name, row in keyed(run, query).items() if rows else ():
        hosts[name] = {**row, **hosts.get(name, {})}
    if "utilisation" not in available:
        return {}
    booked: dict[str, float] = {}
    cores: dict[str, float] = {}
    for ledger in ledgers:
        booked |= ledger.get("utilisation", {})
        cores |= ledger.get("cores", {})
    for name, share in booked.items():
        hosts[name] = {**hosts.get(name, {}), "utilisation": share}
    held = {name: cores.get(name, 0.0) for name in booked}
    if not booked:  # an adapter without the ledger, or hosts that come and go: means over what was recorded
        rows_of = keyed(run, f"SELECT node, avg(utilisation) {_HELD} mean, count(*) {_HELD} n FROM host GROUP BY node")
        cores = _cores(run)
        booked = {name: row["mean"] for name, row in rows_of.items() if row["mean"] is not None}
        held = {name: cores.get(name, 0.0) * (rows_of[name]["n"] or 0.0) for name in booked}
    if any(held.values()):
        meaning = "busy share of the cores of all hosts, mean over time"
        mean = ratio(sum(booked[name] * held[name] for name in booked), sum(held.values()))
    else:
        mean, meaning = (
            ratio(sum(booked.values()), len(booked)),
            "busy share, mean over hosts (their cores are not known)",
        )
    return {"utilisation_mean": figure(mean, "1", meaning)}


def _cores(run: Run) -> dict[str, float]:
    """The cores of each node, those of members of fleets too; {} of a run without its plan."""
    with suppress(CosimError, KeyError, TypeError):
        scene = run.plan["scene"]
        fleets = {one["name"]: float(one["template"]["cores"]) for one in scene["fleets"]}
        members = run.sql("SELECT node::VARCHAR, fleet::VARCHAR FROM nodes WHERE fleet IS NOT NULL").fetchall()
        found = {one["id"]: float(one["cores"]) for one in scene["nodes"]}
        return found | {node: fleets[fleet] for node, fleet in members if fleet in fleets}
    return {}


def _links(run: Run) -> dict[str, Figure]:
    columns = set(run.table("link").columns)
    figures = {}
    if "cell" in columns:
        row = row_of(run, "SELECT avg((cell IS NOT NULL)::INT) covered FROM link")
        figures["coverage"] = figure(row["covered"], "1", "share of devices' time with a serving cell")
    if "handovers" in columns:
        row = row_of(run, "SELECT sum(n) n FROM (SELECT max(handovers) n FROM link GROUP BY node)")
        figures["handovers"] = figure(row["n"], "1", "changes of the serving cell, all devices")
    for name, unit, meaning in (
        ("uplink_rate", "bit/s", "mean rate that one transfer of a covered device gets, towards the network"),
        ("downlink_rate", "bit/s", "mean rate that one transfer of a covered device gets, towards the device"),
        ("snr", "dB", "mean signal to noise and interference of covered devices"),
    ):
        if {name, "cell"} <= columns:
            row = row_of(run, f"SELECT avg({name}) FILTER (cell IS NOT NULL AND isfinite({name})) mean FROM link")
            figures[f"{name}_mean"] = figure(row["mean"], unit, meaning)
    return figures


def _movement(run: Run) -> dict[str, Figure]:
    row = row_of(run, "SELECT max(n) most, avg(n) mean, (max(time) - min(time)) / nullif(count(*) - 1, 0) step "
                    "FROM (SELECT time, count(*) n FROM mobility GROUP BY time)")  # fmt: skip
    seen = row_of(run, "SELECT count(DISTINCT node) n FROM mobility")
    figures = {
        "vehicles_max": figure(row["most"], "1", "most moving nodes at the same time"),
        "vehicles_mean": figure(row["mean"], "1", "mean number of moving nodes"),
        "vehicles_seen": figure(seen["n"], "1", "moving nodes that appeared during the run"),
    }
    if "speed" in run.table("mobility").columns and row["step"]:
        moved = row_of(run, "SELECT sum(speed) FILTER (isfinite(speed)) total FROM mobility")["total"]
        value = None if moved is None else moved * row["step"]
        figures["distance"] = figure(value, "m", "way of all moving nodes: speed summed over the recorded steps")
    return figures


__all__ = ["ledger_faults", "measure", "write_metrics"]
