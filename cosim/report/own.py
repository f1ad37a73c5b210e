"""What adapters bring to the pages: sections of their own, and charts of the signals that no section shows.

The section of an adapter is the module `report` in its package, with a `SECTION`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.contract.registry import beside
from cosim.contract.signals import CATALOGUE
from cosim.report import measure
from cosim.report.charts import lines
from cosim.report.folder import Folder
from cosim.report.groups import ReportGroup
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable
from cosim.results.summary import BINS, ROWS

_SHOWN = frozenset(  # in sections of their own, or a row per happening
    {*CATALOGUE, "migration", "behaviour", "engagement", "autopilot", "picture", "picture_truth", "jamming", "jammer"}
)
_NUMBERS = ("DOUBLE", "FLOAT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "BOOLEAN")
_KEYS = frozenset({"time", "node", "slot"})
MOST = 12  # charts
NODES = 4  # with a line of their own; of more the highest, the mean and the lowest


@dataclass(frozen=True, slots=True)
class Section:
    """What an adapter adds to the page of a run, and to the comparison of runs."""

    title: str
    signals: frozenset[str]  # that have no other charts
    charts: Callable[[Folder], Sequence[Chart]]  # no section if there are none
    table: Callable[[Folder], ReportTable | None] | None = None  # among the tables of the run
    compared: Callable[[Sequence[ReportGroup]], Sequence[Chart]] | None = None  # in front of those of the figures


def sections(*runs: Folder) -> dict[str, Section]:
    """The sections of the adapters of runs, by the kind of the adapter."""
    listed = [one for run in runs for one in run.manifest.get("adapters") or [] if isinstance(one, dict)]
    kinds = dict.fromkeys(str(one.get("use")) for one in listed)
    return {kind: module.SECTION for kind in kinds if (module := beside(kind, "report"))}


def compared(groups: Sequence[ReportGroup]) -> list[Chart]:
    """The charts of sections in the comparison of configurations."""
    brought = sections(*(run for group in groups for run in group.runs)).values()
    return [chart for section in brought if section.compared for chart in section.compared(groups)]


def own_charts(run: Folder) -> list[Chart]:
    """One chart per number of each signal that no section shows, the first `MOST`."""
    found: list[Chart] = []
    shown = _SHOWN.union(*(section.signals for section in sections(run).values()))
    signals: Mapping[str, Any] = run.manifest.get("signals") or {}
    for name, about in signals.items():
        if name in shown or name.endswith((ROWS, BINS)) or not run.has(name) or not isinstance(about, dict):
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
