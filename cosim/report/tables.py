"""The tables and tiles of the report: cells that show a number and carry its every digit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cosim.report.folder import Folder
from cosim.report.text import NOTHING, exact, figure, label, shorten
from cosim.report.text import entry as shown

ROWS = 1_500  # most rows of one table on the page


@dataclass(frozen=True)
class TableCell:
    """One table cell: what is shown, what it sorts by, and every digit for the tooltip."""

    text: str
    sort: str = ""
    title: str = ""
    number: bool = False
    mark: str = ""  # "good", "bad", "warn" or ""
    href: str = ""  # relative address of what the cell is about


@dataclass(frozen=True)
class ReportTable:
    """A table that the page can sort and filter."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""
    empty: str = "nothing to list"
    foot: tuple[TableCell, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A key figure."""

    name: str
    value: str
    exact: str
    meaning: str
    detail: str = ""


def word(value: object, limit: int = 40) -> TableCell:
    """A text cell; long names are shortened and stay whole in the tooltip."""
    text = NOTHING if value in (None, "") else str(value)
    return TableCell(shorten(text, limit), text, text if len(text) > limit else "")


def amount(key: str, value: object, unit: str, mark: str = "") -> TableCell:
    """A number cell that carries the exact value."""
    return TableCell(figure(key, value, unit), exact(value), exact(value), True, mark)


# Units implied by a part of a figure's key, used where a table gives none.
_SUFFIX_UNITS = (
    ("energy", "J"),
    ("power", "W"),
    ("bytes", "B"),
    ("rate", "bit/s"),
    ("snr", "dB"),
    ("rsrp", "dBm"),
    ("response", "s"),
    ("delay", "s"),
    ("latency", "s"),
    ("wait", "s"),
    ("time", "s"),
    ("upload", "s"),
    ("queue", "s"),
    ("compute", "s"),
    ("download", "s"),
    ("seconds", "s"),
    ("lateness", "s"),
    ("jitter", "s"),
)


def unit_of(key: str, figures: Mapping[str, Any]) -> str:
    """The unit of a figure: as declared by the key figures, else derived from its name."""
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


_FIRST = (
    "tasks_created", "tasks_completed", "tasks_in_flight", "completion_ratio", "response_median", "response_mean",
    "response_p95", "response_p99", "late_share", "coverage", "handovers", "utilisation_mean", "energy_total",
    "cost_total", "vehicles_max",
)  # fmt: skip


def rank(key: str) -> int:
    """Where a figure stands on the page: those that readers look for first have low ranks."""
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


def tile(key: str, entry: Mapping[str, Any], detail: str = "") -> Tile:
    return Tile(label(key), shown(key, entry), exact(entry.get("value")), str(entry.get("meaning") or ""), detail)


def figure_table(run: Folder) -> ReportTable:
    """Every declared figure with unit and meaning; the glossary of the page."""
    rows = tuple(
        (
            word(label(k)),
            TableCell(shown(k, e), exact(e.get("value")), exact(e.get("value")), True),
            word(e.get("unit")),
            word(e.get("meaning"), 160),
        )
        for k, e in figures(run).items()
    )
    return ReportTable("figures", ("Figure", "Value", "SI unit", "Meaning"), rows, empty="this run has no metrics.json")


def named_table(name: str, first: str, data: object, known: Mapping[str, Any], empty: str) -> ReportTable:
    """A table from {name: {figure: value}}, one column per figure that any row has."""
    if not isinstance(data, dict) or not data:
        return ReportTable(name, (first,), (), empty=empty)
    rows = {k: flatten(v) for k, v in data.items() if isinstance(v, dict)}
    keys = list(dict.fromkeys(key for row in rows.values() for key in row))
    body = tuple(
        (word(k), *(_any(key, row.get(key), unit_of(key, known)) for key in keys))
        for k, row in list(rows.items())[:ROWS]
    )
    return ReportTable(name, (first, *(label(k) for k in keys)), body, cut(len(rows)), empty)


def _any(key: str, value: object, unit: str) -> TableCell:
    return word(value) if isinstance(value, str) else amount(key, value, unit)


def cut(count: int) -> str:
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


def node_table(run: Folder) -> ReportTable:
    """All nodes with where they were and for how long."""
    heads = ("Node", "Kind", "Tier", "Fleet", "East", "North", "First seen", "Last seen")
    if not run.has("nodes"):
        return ReportTable("nodes", heads, (), empty="the run recorded no nodes")
    (count,) = run.one("SELECT count(*) FROM nodes")
    rows = run.rows(
        "SELECT node::VARCHAR, kind::VARCHAR, tier::VARCHAR, fleet::VARCHAR, x, y, first_seen, last_seen "
        f"FROM nodes ORDER BY slot, generation LIMIT {ROWS}"
    )
    units = ("m", "m", "s", "s")
    body = tuple((*map(word, r[:4]), *(amount("", v, u) for v, u in zip(r[4:], units, strict=True))) for r in rows)
    return ReportTable("nodes", heads, body, cut(count))


def event_table(run: Folder) -> ReportTable:
    """What happened during the run: failures, recoveries, degraded links."""
    heads = ("Time", "Event", "Node", "Detail")
    if not run.has("events"):
        return ReportTable("events", heads, (), empty="no events were recorded")
    (count,) = run.one("SELECT count(*) FROM events")
    rows = run.rows(
        f"SELECT time, kind::VARCHAR, node::VARCHAR, detail::VARCHAR FROM events ORDER BY time LIMIT {ROWS}"
    )
    return ReportTable(
        "events", heads, tuple((amount("", r[0], "s"), *(word(v, 80) for v in r[1:])) for r in rows), cut(count)
    )
