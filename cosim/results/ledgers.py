"""Do the sums close? Checks of what adapters report about tasks, bytes, energy and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

_CLOSE = 1e-9  # relative; sums of many floats in another order differ by less


def ledger_faults(summary: Mapping[str, Any]) -> list[str]:
    """Every sum in an adapter's summary that does not close, in words; [] when all do.

    Tasks are whole numbers and must close exactly. Parts that the summary does not have are not
    checked.
    """
    faults: list[str] = []
    tasks, workloads = summary.get("tasks"), summary.get("workloads") or {}
    if tasks:
        faults += _tasks(tasks, "tasks")
        for name, entry in workloads.items():
            faults += _tasks(entry, f"tasks of workload '{name}'")
        if workloads:
            for key in ("created", "completed", "late", "in_flight"):
                total = sum(entry[key] for entry in workloads.values())
                if total != tasks[key]:
                    faults.append(f"tasks: {key} is {tasks[key]} in all, but {total} over the workloads")
    for way, entry in (summary.get("bytes") or {}).items():
        parts = [entry["delivered"], entry["dropped"], entry["in_transit"]]
        faults += _sum(f"bytes of {way}", "offered", entry["offered"], [parts], "delivered + dropped + in transit")
    energy = summary.get("energy") or {}
    if energy:
        # what base stations use for what they send and receive is theirs, and not their nodes', nor is cooling
        beside = [sum(energy.get(part, 0.0) for part in ("radio", "cells", "cooling")), energy.get("links", 0.0)]
        for key in ("by_node", "by_tier"):
            if key in energy:
                nodes = list(energy[key].values())
                # the radio's share is either inside the devices' figures or beside them
                ways = [nodes, [*nodes, *beside], [*nodes, beside[0]], [*nodes, beside[1]]]
                faults += _sum("energy", "total", energy["total"], ways, key.replace("_", " "))
    cost = summary.get("cost") or {}
    # agreements are about workloads, so what is owed for them belongs to no node
    owed = [cost["penalty"]["total"]] if "penalty" in cost else []
    if "by_node" in cost:
        faults += _sum("cost", "total", cost["total"], [[*cost["by_node"].values(), *owed]], "by node")
    causes = [name for name in ("cpu", "transfer", "energy", "own") if name in cost]
    if {"transfer", "energy"} <= set(causes):
        names = " + ".join([*causes, *(["penalty"] if owed else [])])
        faults += _sum("cost", "total", cost["total"], [[*(cost[name] for name in causes), *owed]], names)
    return faults


def _tasks(entry: Mapping[str, Any], name: str) -> list[str]:
    failed = sum(entry["failed"].values())
    total = entry["completed"] + failed + entry["in_flight"]
    faults = []
    if entry["created"] != total:
        faults.append(
            f"{name}: {entry['created']} created, but {total} accounted for "
            f"({entry['completed']} completed, {failed} failed, {entry['in_flight']} in flight)"
        )
    if entry["late"] > entry["completed"]:
        faults.append(f"{name}: {entry['late']} late, but only {entry['completed']} completed")
    return faults


def _sum(name: str, whole: str, total: float, ways: Iterable[list[float]], parts: str) -> list[str]:
    """A fault unless one of the `ways` to add up gives `total`."""
    sums = [math.fsum(way) for way in ways]
    if any(math.isclose(found, total, rel_tol=_CLOSE, abs_tol=1e-9) for found in sums):
        return []
    return [f"{name}: {whole} is {total:.12g}, but {parts} give {sums[0]:.12g}"]
