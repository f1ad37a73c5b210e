"""Charts of signals that are in no section of the page: those that adapters bring with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosim.contract.signals import CATALOGUE
from cosim.report import measure
from cosim.report.charts import lines
from cosim.report.folder import Folder
from cosim.report.svg import Chart
from cosim.results.summary import BINS, ROWS

_SHOWN = frozenset(  # in sections of their own, or a row per happening
    {
        *CATALOGUE,
        "cluster",
        "job",
        "circuit",
        "migration",
        "behaviour",
        "engagement",
        "autopilot",
        "picture",
        "picture_truth",
        "jamming",
        "jammer",
    }
)
_NUMBERS = ("DOUBLE", "FLOAT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "BOOLEAN")
_KEYS = frozenset({"time", "node", "slot"})
MOST = 12  # charts
NODES = 4  # with a line of their own; of more the highest, the mean and the lowest


def own_charts(run: Folder) -> list[Chart]:
    """One chart per number of each signal that no other section shows, the first `MOST`."""
    found: list[Chart] = []
    signals: Mapping[str, Any] = run.manifest.get("signals") or {}
    for name, about in signals.items():
        if name in _SHOWN or name.endswith((ROWS, BINS)) or not run.has(name) or not isinstance(about, dict):
            continue
        units: Mapping[str, Any] = about.get("columns") or {}
        kinds = {row[0]: str(row[1]) for row in run.rows(f"DESCRIBE SELECT * FROM {_quoted(name)}")}
        for column, unit in units.items():
            if column not in _KEYS and kinds.get(column, "").startswith(_NUMBERS):
                found.append(_chart(run, name, column, str(unit or "1")))
    return found[:MOST]


def _chart(run: Folder, signal: str, column: str, unit: str) -> Chart:
    value, bucket = f"{_quoted(column)}::DOUBLE", measure.bucket("time")
    source = f"FROM {_quoted(signal)} WHERE isfinite({value})"
    nodes = [str(row[0]) for row in run.rows(f"SELECT DISTINCT node::VARCHAR n {source} ORDER BY n")]
    ways: Sequence[tuple[str, str, str]]
    if len(nodes) <= NODES:
        ways = [(node, "avg", "AND node::VARCHAR = '{}'".format(node.replace("'", "''"))) for node in nodes]
    else:
        ways = [("highest", "max", ""), ("mean", "avg", ""), ("lowest", "min", "")]
    series = [
        measure.over_time(run, name, f"SELECT {bucket} b, {how}({value}) {source} {where} GROUP BY b")
        for name, how, where in ways
    ]
    words = column.replace("_", " ")
    return lines(
        f"{signal.replace('_', ' ')}: {words}", series, y=words, y_unit=unit,
        end=run.end, zero=False, marks=measure.marked_events(run),
        note=f"Over {len(nodes):,} nodes." if len(nodes) > NODES else "", empty="no number was recorded"
    )  # fmt: skip


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
