"""The words and numbers of a run's page, section by section, ready for the template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.report import measure
from cosim.report.charts import Series, bars, blank, distribution, heat, histogram, lines
from cosim.report.folder import Folder
from cosim.report.svg import Chart
from cosim.report.text import NOTHING, duration, exact, figure, finite, label, quantity, shorten

ROWS = 1_500  # most rows of one table on the page
_CLOSE = 1e-6  # relative gap at which a ledger of real numbers still counts as closed


@dataclass(frozen=True)
class Cell:
    """One table cell: what is shown, what it sorts by, and every digit for the tooltip."""

    text: str
    sort: str = ""
    title: str = ""
    number: bool = False
    mark: str = ""  # "good", "bad", "warn" or ""


@dataclass(frozen=True)
class Table:
    """A table that the page can sort and filter."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    empty: str = "nothing to list"
    foot: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A key figure."""

    name: str
    value: str
    exact: str
    meaning: str
    detail: str = ""


def word(value: object, limit: int = 40) -> Cell:
    """A text cell; long names are shortened and stay whole in the tooltip."""
    text = NOTHING if value in (None, "") else str(value)
    return Cell(shorten(text, limit), text, text if len(text) > limit else "")


def amount(key: str, value: object, unit: str, mark: str = "") -> Cell:
    """A number cell that carries the exact value."""
    return Cell(figure(key, value, unit), exact(value), exact(value), True, mark)


# What a figure's key says about its unit where a table gives none.
_SUFFIX_UNITS = (
    ("energy", "J"), ("power", "W"), ("bytes", "B"), ("rate", "bit/s"), ("snr", "dB"), ("rsrp", "dBm"),
    ("response", "s"), ("delay", "s"), ("latency", "s"), ("wait", "s"), ("time", "s"), ("upload", "s"), ("queue", "s"),
    ("compute", "s"), ("download", "s"), ("seconds", "s"), ("lateness", "s"), ("jitter", "s"),
)  # fmt: skip


def unit_of(key: str, figures: Mapping[str, Any]) -> str:
    """The unit of a figure: as the key figures declare it, else as its name tells."""
    known = figures.get(key)
    if isinstance(known, dict):
        return str(known.get("unit") or "1")
    if any(w in key for w in ("ratio", "share", "count", "created", "completed", "failed", "in_flight", "handovers")):
        return "1"
    return next((unit for part, unit in _SUFFIX_UNITS if part in key), "1")


def figures(run: Folder) -> dict[str, dict[str, Any]]:
    """The declared key figures: key -> value, unit, meaning."""
    found = run.metrics.get("figures")
    return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}


_FIRST = ("tasks_created", "created", "completed", "success", "response_p50", "response_median", "response_mean", "response_p95",
          "late", "failed", "coverage", "handover", "utilisation", "energy", "cost")  # fmt: skip


def rank(key: str) -> int:
    """Where a figure stands on the page: those that readers look for first have low ranks."""
    return next((i for i, part in enumerate(_FIRST) if part in key), len(_FIRST))


def tiles(run: Folder, most: int = 10) -> list[Tile]:
    """The figures that readers look for first, then the rest in the order of the file."""
    known = figures(run)
    order = sorted(known, key=rank)
    return [tile(k, known[k]) for k in order if finite(known[k].get("value")) is not None][:most]


def tile(key: str, entry: Mapping[str, Any], detail: str = "") -> Tile:
    value = entry.get("value")
    unit = str(entry.get("unit") or "")
    return Tile(label(key), figure(key, value, unit), exact(value), str(entry.get("meaning") or ""), detail)


def figure_table(run: Folder) -> Table:
    """Every declared figure with unit and meaning; the glossary of the page."""
    rows = tuple(
        (word(label(k)), amount(k, e.get("value"), str(e.get("unit") or "")), word(e.get("unit")), word(e.get("meaning"), 160))
        for k, e in figures(run).items()
    )
    return Table("figures", ("Figure", "Value", "SI unit", "Meaning"), rows, empty="this run has no metrics.json")


def named_table(name: str, first: str, data: object, known: Mapping[str, Any], empty: str) -> Table:
    """A table from {name: {figure: value}}, one column per figure that any row has."""
    if not isinstance(data, dict) or not data:
        return Table(name, (first,), (), empty=empty)
    rows = {k: flatten(v) for k, v in data.items() if isinstance(v, dict)}
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    body = tuple(
        (word(k), *(_any(key, row.get(key), unit_of(key, known)) for key in keys)) for k, row in list(rows.items())[:ROWS]
    )
    return Table(name, (first, *(label(k) for k in keys)), body, _cut(len(rows)), empty)


def _any(key: str, value: object, unit: str) -> Cell:
    return word(value) if isinstance(value, str) else amount(key, value, unit)


def _cut(count: int) -> str:
    return f"The first {ROWS:,} of {count:,} rows; the rest is in the run folder." if count > ROWS else ""


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level with dotted keys; lists become text."""
    out: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            out |= flatten(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
    return out


def node_table(run: Folder) -> Table:
    """All nodes with where they were and for how long."""
    heads = ("Node", "Kind", "Tier", "Fleet", "East", "North", "First seen", "Last seen")
    if not run.has("nodes"):
        return Table("nodes", heads, (), empty="the run recorded no nodes")
    (count,) = run.one("SELECT count(*) FROM nodes")
    rows = run.rows(
        "SELECT node::VARCHAR, kind::VARCHAR, tier::VARCHAR, fleet::VARCHAR, x, y, first_seen, last_seen "
        f"FROM nodes ORDER BY slot, generation LIMIT {ROWS}"
    )
    units = ("m", "m", "s", "s")
    body = tuple((*map(word, r[:4]), *(amount("", v, u) for v, u in zip(r[4:], units, strict=True))) for r in rows)
    return Table("nodes", heads, body, _cut(count))


def event_table(run: Folder) -> Table:
    """What happened during the run: failures, recoveries, degraded links."""
    heads = ("Time", "Event", "Node", "Detail")
    if not run.has("events"):
        return Table("events", heads, (), empty="no events in this run")
    (count,) = run.one("SELECT count(*) FROM events")
    rows = run.rows(
        f"SELECT time, kind::VARCHAR, node::VARCHAR, detail::VARCHAR FROM events ORDER BY time LIMIT {ROWS}"
    )
    return Table("events", heads, tuple((amount("", r[0], "s"), *(word(v, 80) for v in r[1:])) for r in rows), _cut(count))


@dataclass(frozen=True)
class Check:
    """One ledger: its parts, their sum, the total they must give, and whether they do."""

    name: str
    parts: tuple[tuple[str, Cell], ...]
    whole: str
    total: Cell
    closes: bool
    gap: str


def _check(name: str, parts: Mapping[str, object], total: object, unit: str, total_name: str) -> Check | None:
    values = {k: v for k, raw in parts.items() if (v := finite(raw)) is not None}
    whole = finite(total)
    if whole is None or not values:
        return None
    gap = math.fsum(values.values()) - whole
    closes = gap == 0 if unit == "1" else abs(gap) <= _CLOSE * max(abs(whole), 1e-12)
    cells = tuple((label(k), amount("", v, unit)) for k, v in values.items())
    return Check(name, cells, total_name, amount(total_name, total, unit), closes, quantity(gap, unit))


def checks(ledgers: Mapping[str, Any]) -> list[Check]:
    """Every ledger of the run, summed again here."""
    out: list[Check | None] = []
    tasks = ledgers.get("tasks") or {}
    groups = [("tasks", tasks), *((f"tasks of {w}", t) for w, t in (ledgers.get("workloads") or {}).items())]
    for name, t in groups:
        if isinstance(t, dict):
            failed = {f"failed: {c}": n for c, n in (t.get("failed") or {}).items()}
            parts = {"completed": t.get("completed"), **failed, "in flight": t.get("in_flight")}
            out.append(_check(name, parts, t.get("created"), "1", "created"))
    for way, b in (ledgers.get("bytes") or {}).items():
        if isinstance(b, dict):
            parts = {k: b.get(k) for k in ("delivered", "dropped", "in_transit")}
            out.append(_check(f"{way} bytes", parts, b.get("offered"), "B", "offered"))
    energy = ledgers.get("energy") or {}
    if energy:
        tiers = energy.get("by_tier") or {}
        extra = {"radio": energy.get("radio"), "links": energy.get("links")}
        out.append(_check("energy by tier", {**tiers, **extra}, energy.get("total"), "J", "total"))
        by_node = math.fsum(v for raw in (energy.get("by_node") or {}).values() if (v := finite(raw)) is not None)
        out.append(_check("energy by node", {"all nodes": by_node, **extra}, energy.get("total"), "J", "total"))
    cost = ledgers.get("cost") or {}
    if cost:
        out.append(_check("cost by cause", {k: cost.get(k) for k in ("cpu", "transfer", "energy")}, cost.get("total"), "", "total"))
        by_node = [v for raw in (cost.get("by_node") or {}).values() if (v := finite(raw)) is not None]
        out.append(_check("cost by node", {"all nodes": math.fsum(by_node)} if by_node else {}, cost.get("total"), "", "total"))
    return [c for c in out if c is not None]


def ledger_nodes(ledgers: Mapping[str, Any]) -> Table:
    """Energy and cost by node, largest first, with the sums at the foot."""
    energy = (ledgers.get("energy") or {}).get("by_node") or {}
    cost = (ledgers.get("cost") or {}).get("by_node") or {}
    names = sorted({*energy, *cost}, key=lambda n: (-(finite(energy.get(n)) or 0.0), n))
    total = math.fsum(finite(v) or 0.0 for v in energy.values())
    rows = tuple(
        (word(n), amount("", energy.get(n), "J"), amount("share", (finite(energy.get(n)) or 0.0) / total if total else None, "1"),
         amount("", cost.get(n), ""))
        for n in names[:ROWS]
    )  # fmt: skip
    foot = (word("sum"), amount("", total, "J"), amount("share", 1.0 if total else None, "1"),
            amount("", math.fsum(finite(v) or 0.0 for v in cost.values()), ""))  # fmt: skip
    return Table("energy and cost", ("Node", "Energy", "Share of the energy", "Cost"), rows, _cut(len(names)),
                 "this run has no energy or cost ledger", foot if rows else ())  # fmt: skip


def facts(run: Folder) -> list[tuple[str, str]]:
    """The line below the title: when, how long, how fast."""
    m = run.manifest
    wall, reached = finite(m.get("wall_seconds")), finite(m.get("reached"))
    pacing = finite(m.get("pacing")) or 0.0
    out = [("started", str(m.get("started") or NOTHING).replace("T", " ")[:19] + " UTC"), ("simulated", duration(reached)),
           ("took", duration(wall)), ("step", quantity(m.get("step"), "s")), ("seed", str(m.get("seed"))),
           ("driver", str(m.get("driver"))),
           ("pacing", "as fast as possible" if not pacing else "real time" if pacing == 1 else f"{pacing:g} × real time")]  # fmt: skip
    if wall and reached:
        out.insert(3, ("speed", f"{figure('', reached / wall, '1')} × real time"))
    return out


def validity(run: Folder, found: Sequence[Check]) -> list[tuple[str, str, str]]:
    """(question, answer, mark) for everything a reader should know before trusting a number."""
    m = run.manifest
    lag = m.get("lag") or {}
    late = finite(lag.get("late_ticks")) or 0
    paced = bool(finite(m.get("pacing")))
    open_ones = [c for c in found if not c.closes]
    out = [
        ("Status", "complete" if m.get("status") == "complete" else
         f"{m.get('status')}: reached {duration(m.get('reached'))} of {duration(m.get('duration'))}",
         "good" if m.get("status") == "complete" else "bad"),
        ("Ledgers", "no ledgers in this run" if not found else f"all {len(found)} close" if not open_ones else
         "; ".join(f"{c.name} is off by {c.gap}" for c in open_ones),
         "warn" if not found else "bad" if open_ones else "good"),
        ("Lag", f"{late:,.0f} late ticks, at most {quantity(lag.get('max'), 's')}, mean {quantity(lag.get('mean'), 's')} "
         f"(policy {lag.get('policy')})" if paced else "not paced: the wall clock has no influence",
         "warn" if paced and late else "good"),
    ]  # fmt: skip
    for entry in run.unreadable:
        out.append(("Unreadable", entry, "bad"))
    out.append(("Code", "compiled in this run (first use)" if m.get("compiled") else "compiled code was cached", ""))
    out.append(("Plan", str(m.get("plan_hash") or NOTHING)[:16], ""))
    git = m.get("git")
    if isinstance(git, dict):
        out.append(("Source", f"commit {str(git.get('commit'))[:12]}" + (", with uncommitted changes" if git.get("dirty") else ""),
                    "warn" if git.get("dirty") else ""))  # fmt: skip
    versions = m.get("versions") or {}
    out.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions.items()) or NOTHING, ""))
    host = m.get("host") or {}
    parts = [host.get("cpu"), f"{host['cores']} cores" if host.get("cores") else None,
             quantity(host.get("memory"), "B") if finite(host.get("memory")) else None, host.get("platform"),
             f"Python {host['python']}" if host.get("python") else None]  # fmt: skip
    out.append(("Machine", ", ".join(str(p) for p in parts if p) or NOTHING, ""))
    return out


def origins(run: Folder) -> Table:
    """Where each signal comes from, and how much of it was recorded."""
    rows = tuple(
        (word(name), Cell(str(s.get("origin") or NOTHING), mark=f"origin-{s.get('origin')}"),
         word(", ".join(map(str, s.get("adapters") or []))), amount("", s.get("rows"), "1"),
         word(", ".join(f"{c} ({u})" if u else str(c) for c, u in (s.get("columns") or {}).items()), 90))
        for name, s in (run.manifest.get("signals") or {}).items() if isinstance(s, dict)
    )  # fmt: skip
    return Table("signals", ("Signal", "Origin", "Adapter", "Rows", "Columns (unit)"), rows, empty="no signal was recorded")


def adapters(run: Folder) -> tuple[Chart, Table]:
    """Where the run's wall time went."""
    listed: Iterable[Mapping[str, Any]] = [a for a in run.manifest.get("adapters") or [] if isinstance(a, dict)]
    wall = finite(run.manifest.get("wall_seconds")) or 0.0
    spent = [(str(a.get("name")), finite(a.get("wall_seconds")) or 0.0) for a in listed]
    rest = wall - sum(v for _, v in spent)
    parts = [*spent, ("everything else", rest)] if rest > 0 else spent
    chart = bars("Wall time by adapter", [(n, {"wall": v}) for n, v in parts if v > 0], ["wall"], unit="s", share=True,
                 note="“Everything else” is start-up, the bus, the recorder and pacing.", empty="no times were recorded")  # fmt: skip
    heads = ("Adapter", "Kind", "Origin", "Process", "Period", "Steps", "Wall", "CPU", "Wall per step")
    rows = tuple(
        (word(a.get("name")), word(a.get("use")), word(a.get("origin")), word("its own" if a.get("isolated") else "shared"),
         amount("", a.get("period"), "s"), amount("", a.get("steps"), "1"), amount("", a.get("wall_seconds"), "s"),
         amount("", a.get("cpu_seconds"), "s"),
         amount("", (finite(a.get("wall_seconds")) or 0.0) / steps if (steps := finite(a.get("steps"))) else None, "s"))
        for a in listed
    )  # fmt: skip
    return chart, Table("adapters", heads, rows, empty="no adapter is listed in the manifest")


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
        histogram("Response time", [float(e) for e in edges], {r.name: measure.counts(r.values, edges) for r in found},
                  x="response time", unit="s", log=log, note=f"{tall} {note}".strip()),
        distribution("Response time, cumulative", [measure.ecdf(r.name, r.values) for r in found], x="response time",
                     unit="s", log=log, note=note),
        bars("Where the time went", measure.split(run)[:10], measure.PHASES, unit="s",
             note="Mean over completed tasks. Queue: from input complete to the first core.", empty=none),
    ]  # fmt: skip


def course_charts(run: Folder, present: list[Series]) -> list[Chart]:
    """Response time, tasks and devices over simulated time, with the scenario's events."""
    marks = measure.marked_events(run)
    return [
        lines("Response time over the run", measure.response_over_time(run), x="simulated time", x_unit="s",
              y="response time", y_unit="s", end=run.end, marks=marks, note="By time of completion.",
              empty="no tasks completed in this run"),
        lines("Tasks over the run", measure.throughput(run), x="simulated time", x_unit="s", y="tasks per second",
              y_unit="1", end=run.end, marks=marks, empty="no tasks ended in this run"),
        lines("Devices over the run", present, x="simulated time", x_unit="s", y="devices", y_unit="1", end=run.end, marks=marks,
              empty="no moving device was recorded"),
    ]  # fmt: skip


def trouble_charts(run: Folder) -> list[Chart]:
    """Why tasks failed, and how good the radio links were."""
    failed = measure.failures(run)
    created = finite((run.ledgers.get("tasks") or {}).get("created"))
    if failed:
        note = f"{sum(n for _, n in failed):,} of {created:,.0f} tasks failed." if created else ""
        chart = bars("Failures by cause", [(c, {"tasks": float(n)}) for c, n in failed[:12]], ["tasks"], unit="1",
                     share=True, first_color=1, note=note)  # fmt: skip
    else:
        chart = blank("Failures by cause", "no task failed in this run" if created else "no tasks were made in this run")
    found = measure.link_quality(run)
    if found is None:
        why = "no radio link was recorded"
        return [chart, blank("Link quality", why), blank("Coverage over the run", why)]
    edges, rows = found
    return [
        chart,
        histogram("Link quality", edges, {"all devices": rows}, x="downlink SNR", unit="dB",
                  note="Over all recorded positions with coverage."),
        lines("Coverage over the run", [measure.coverage(run)], x="simulated time", x_unit="s",
              y="devices in coverage", y_unit="%", end=run.end, top=1.0),
    ]  # fmt: skip


def host_chart(run: Folder) -> Chart:
    """Utilisation of the busiest hosts over time."""
    names, values, count = measure.utilisation(run)
    note = "Mean share of the cores in use; the figure at the end of a row is its mean."
    if count > len(names):
        note += f" The {len(names)} busiest of {count:,} hosts."
    return heat("Utilisation of hosts", names, values, run.end, note=note, empty="no host was recorded")
