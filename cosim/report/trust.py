"""What a reader should know before trusting a number: ledgers, lag, origins, versions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cosim.report.calibrated_range import beyond
from cosim.report.folder import Folder
from cosim.report.tables import ROWS, ReportTable, TableCell, amount, cut, figures, word
from cosim.report.text import NOTHING, duration, figure, finite, label, quantity
from cosim.results.figures import warnings

_CLOSE = 1e-6  # relative gap at which a ledger of real numbers still counts as closed


@dataclass(frozen=True)
class Check:
    """One ledger: its parts, their sum, the total they must give, and whether they do."""

    name: str
    parts: tuple[tuple[str, TableCell], ...]
    whole: str
    total: TableCell
    closes: bool
    gap: str


def _check(name: str, ways: Sequence[Mapping[str, object]], total: object, unit: str, total_name: str) -> Check | None:
    """The first of the `ways` to split `total` that closes, else the first; None without figures."""
    whole = finite(total)
    known = [{k: v for k, raw in parts.items() if (v := finite(raw)) is not None} for parts in ways]
    if whole is None or not known[0]:
        return None
    gaps = [math.fsum(values.values()) - whole for values in known]
    fits = [gap == 0 if unit == "1" else abs(gap) <= _CLOSE * max(abs(whole), 1e-12) for gap in gaps]
    best = fits.index(True) if True in fits else 0
    cells = tuple((label(k), amount("", v, unit)) for k, v in known[best].items())
    return Check(name, cells, total_name, amount(total_name, total, unit), fits[best], quantity(gaps[best], unit))


def checks(ledgers: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Every ledger of every adapter, summed again here; the adapter is named when there are several.

    Of several adapters those are left out that have nothing in any ledger.
    """
    found = {name: _checks(ledger) for name, ledger in ledgers.items()}
    busy = {name: group for name, group in found.items() if any(float(c.total.sort) or not c.closes for c in group)}
    found = busy or found
    if len(found) == 1:
        return next(iter(found.values()))
    return [replace(check, name=f"{name}: {check.name}") for name, checks in found.items() for check in checks]


def _checks(ledger: Mapping[str, Any]) -> list[Check]:
    out: list[Check | None] = []
    tasks = ledger.get("tasks") or {}
    groups = [("tasks", tasks), *((f"tasks of {w}", t) for w, t in (ledger.get("workloads") or {}).items())]
    for name, t in groups:
        if isinstance(t, dict):
            failed = {f"failed: {c}": n for c, n in (t.get("failed") or {}).items()}
            parts = {"completed": t.get("completed"), **failed, "in flight": t.get("in_flight")}
            out.append(_check(name, [parts], t.get("created"), "1", "created"))
    for way, b in (ledger.get("bytes") or {}).items():
        if isinstance(b, dict):
            parts = {k: b.get(k) for k in ("delivered", "dropped", "in_transit")}
            out.append(_check(f"{way} bytes", [parts], b.get("offered"), "B", "offered"))
    energy = ledger.get("energy") or {}
    radio, links = {"radio": energy.get("radio")}, {"links": energy.get("links")}
    # what base stations use for what they send and receive, and the cooling of datacentres
    radio |= {name: energy[name] for name in ("cells", "cooling") if energy.get(name)}
    for name, split in (("tier", energy.get("by_tier")), ("node", _summed(energy.get("by_node")))):
        if isinstance(split, dict) and split:
            # What radios and links use may stand beside the nodes' figures or already be in them.
            ways = [{**split, **radio, **links}, split, {**split, **radio}, {**split, **links}]
            out.append(_check(f"energy by {name}", ways, energy.get("total"), "J", "total"))
    cost = ledger.get("cost") or {}
    penalty = cost.get("penalty")  # agreements that were not kept: {total, ...} where a model reckons them
    owed = penalty.get("total") if isinstance(penalty, dict) else penalty
    causes = {**cost, "penalty": owed}
    nodes = _summed(cost.get("by_node"))
    for name, parts in (
        ("cause", {k: causes.get(k) for k in ("cpu", "transfer", "energy", "penalty")}),
        ("node", {**nodes, "penalty": owed} if nodes else {}),
    ):
        out.append(_check(f"cost by {name}", [parts], cost.get("total"), "", "total"))
    return [c for c in out if c is not None]


def _summed(by_node: object) -> dict[str, object]:
    """All nodes as one part: the table of nodes lists them singly."""
    if not isinstance(by_node, dict) or not by_node:
        return {}
    return {"all nodes": math.fsum(v for raw in by_node.values() if (v := finite(raw)) is not None)}


def ledger_nodes(ledgers: Mapping[str, Mapping[str, Any]]) -> ReportTable:
    """Energy and, where any is known, cost and CO2 by node, largest energy first, with the sums at the foot."""
    energy, cost, carbon = (_by_node(ledgers, what) for what in ("energy", "cost", "carbon"))
    names = sorted({*energy, *cost}, key=lambda n: (-(finite(energy.get(n)) or 0.0), n))
    total = math.fsum(finite(v) or 0.0 for v in energy.values())
    rows = tuple(
        (
            word(n),
            amount("", energy.get(n), "J"),
            amount("share", (finite(energy.get(n)) or 0.0) / total if total else None, "1"),
            *([amount("", cost.get(n), "")] if cost else []),
            *([amount("", carbon.get(n), "g")] if carbon else []),
        )
        for n in names[:ROWS]
    )
    foot = (
        word("sum"),
        amount("", total, "J"),
        amount("share", 1.0 if total else None, "1"),
        *([amount("", math.fsum(finite(v) or 0.0 for v in cost.values()), "")] if cost else []),
        *([amount("", math.fsum(carbon.values()), "g")] if carbon else []),
    )
    return ReportTable(
        "energy and cost" if cost else "energy",
        ("Node", "Energy", "Share of the energy", *(["Cost"] if cost else []), *(["CO2"] if carbon else [])),
        rows,
        cut(len(names)),
        "this run has no energy or cost ledger",
        foot if rows else (),
    )


def _by_node(ledgers: Mapping[str, Mapping[str, Any]], what: str) -> dict[str, float]:
    """Sums over adapters of what each node used."""
    out: dict[str, float] = {}
    for ledger in ledgers.values():
        for node, value in ((ledger.get(what) or {}).get("by_node") or {}).items():
            out[node] = out.get(node, 0.0) + (finite(value) or 0.0)
    return out


def facts(run: Folder) -> list[tuple[str, str]]:
    """The line below the title: when, how long, how fast."""
    m = run.manifest
    wall, reached = finite(m.get("wall_seconds")), run.end
    running = (wall or 0.0) - (finite(m.get("starting_seconds")) or 0.0)  # the pace is that of the ticks
    pacing = finite(m.get("pacing")) or 0.0
    out = [
        ("started", str(m.get("started") or NOTHING).replace("T", " ")[:19] + " UTC"),
        ("simulated", duration(reached)),
        ("took", duration(wall)),
        ("step", quantity(m.get("step"), "s")),
        ("seed", str(m.get("seed"))),
        ("driver", str(m.get("driver"))),
        ("pacing", "as fast as possible" if not pacing else "real time" if pacing == 1 else f"{pacing:g} × real time"),
    ]
    if running > 0 and reached:
        out.insert(3, ("speed", f"{figure('', reached / running, '1')} × real time"))
    return out


def _unfinished(run: Folder) -> list[tuple[str, str, str]]:
    """How many tasks had not ended: ratios and times speak of the others only."""
    known = figures(run)
    created, flight = (known.get(key, {}).get("value") for key in ("tasks_created", "tasks_in_flight"))
    if not created or flight is None:
        return []
    found = [("Unfinished", text, "warn") for text in warnings(known)]
    return found or [("Unfinished", f"{flight:,.0f} of {created:,.0f} tasks were in flight at the end", "good")]


def _contract(adapters: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """What the bus found in the frames that adapters published; nothing of runs that did not look."""
    looked = {str(a.get("name")): c for a in adapters if isinstance(c := a.get("contract"), Mapping)}
    if not looked:
        return []
    faults = [
        f"{name}: {count:,} value{'s' if count != 1 else ''} of {column} out of bounds"
        for name, record in looked.items()
        for column, count in (record.get("faults") or {}).items()
    ]
    frames, rows = (sum(record.get(key) or 0 for record in looked.values()) for key in ("frames", "rows"))
    sound = f"{frames:,} frames with {rows:,} rows were looked at, each within the bounds of its signal"
    return [("Data contract", "; ".join(faults) or sound, "bad" if faults else "good")]


def _why(manifest: Mapping[str, Any]) -> str:
    fault = manifest.get("error")
    return f"; {fault['message']}" if isinstance(fault, Mapping) and fault.get("message") else ""


def validity(run: Folder, found: Sequence[Check]) -> list[tuple[str, str, str]]:
    """(question, answer, mark) for everything a reader should know before trusting a number."""
    m = run.manifest
    lag = m.get("lag") or {}
    late = finite(lag.get("late_ticks")) or 0
    paced = bool(finite(m.get("pacing")))
    open_ones = [c for c in found if not c.closes]
    out = [
        (
            "Status",
            "complete"
            if m.get("status") == "complete"
            else f"{m.get('status')}: reached {duration(run.end)} of {duration(m.get('duration'))}{_why(m)}",
            "good" if m.get("status") == "complete" else "bad",
        ),
        (
            "Ledgers",
            "no ledgers in this run"
            if not found
            else f"all {len(found)} close"
            if not open_ones
            else "; ".join(f"{c.name} is off by {c.gap}" for c in open_ones),
            "warn" if not found else "bad" if open_ones else "good",
        ),
        (
            "Lag",
            f"{late:,.0f} late {'tick' if late == 1 else 'ticks'}, at most {quantity(lag.get('max'), 's')}, "
            f"mean {quantity(lag.get('mean'), 's')} (policy {lag.get('policy')})"
            if paced
            else "not paced: the wall clock has no influence",
            "warn" if paced and late else "good",
        ),
    ]
    out += [*_contract(m.get("adapters") or []), *_unfinished(run)]
    warnings = [*(m.get("warnings") or []), *beyond(run.resolved, run.has, run.rows)]
    out += [("Warning", str(warning), "warn") for warning in warnings]
    out += [("Fault", str(fault), "bad") for fault in run.metrics.get("faults") or m.get("faults") or []]
    out += [("Unreadable", entry, "bad") for entry in run.unreadable]
    compiling = finite(m.get("compiling_seconds")) or 0.0
    first_use = f"compiled for {duration(compiling)} before the run began (first use)"
    code = first_use if compiling else "compiled code was cached"
    out.append(("Code", code, ""))
    out.append(("Plan", str(m.get("plan_hash") or NOTHING)[:16], ""))
    git = m.get("git")
    if isinstance(git, dict):
        out.append(
            (
                "Source",
                f"commit {str(git.get('commit'))[:12]}" + (", with uncommitted changes" if git.get("dirty") else ""),
                "warn" if git.get("dirty") else "",
            )
        )
    versions = m.get("versions") or {}
    out.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions.items()) or NOTHING, ""))
    host = m.get("host") or {}
    parts = [
        host.get("cpu"),
        f"{host['cores']} cores" if host.get("cores") else None,
        quantity(host.get("memory"), "B") if finite(host.get("memory")) else None,
        host.get("platform"),
        f"Python {host['python']}" if host.get("python") else None,
    ]
    out.append(("Machine", ", ".join(str(p) for p in parts if p) or NOTHING, ""))
    return out


def origins(run: Folder) -> ReportTable:
    """Where each signal comes from, and how much of it was recorded."""
    rows = tuple(
        (
            word(name),
            TableCell(str(s.get("origin") or NOTHING), mark=f"origin-{s.get('origin')}"),
            word(", ".join(map(str, s.get("adapters") or []))),
            amount("", s.get("rows"), "1"),
            word(", ".join(f"{c} ({u})" if u else str(c) for c, u in (s.get("columns") or {}).items()), 600),
        )
        for name, s in (run.manifest.get("signals") or {}).items()
        if isinstance(s, dict)
    )
    return ReportTable(
        "signals", ("Signal", "Origin", "Adapter", "Rows", "Columns (unit)"), rows, empty="no signal was recorded"
    )
