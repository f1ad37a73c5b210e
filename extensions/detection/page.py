"""The page of a judged detector: confusion by setting, what it needs, and what is logged with and without jamming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cosim.extensions.detection.detect import ColumnContrast, Detector, Verdict
from cosim.report.charts import bars
from cosim.report.page import render, save
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, Tile, amount, word

_MOST = 12  # bars of a chart


def write_judgement(
    detector: Detector, data: str, verdict: Verdict, groups: Mapping[str, Verdict], columns: Sequence[ColumnContrast],
    out: Path, *, only: str = "",
) -> Path:  # fmt: skip
    """One offline HTML page at `out` about `detector`, judged on a split of the data set `data`.

    `verdict` is that of all rows, `groups` those of the groups that the set's splits keep together.
    """
    text = render(
        Path(__file__).with_name("judgement.html.j2"),
        title=f"{detector.method} on {data}",
        only=only,
        tiles=_tiles(verdict),
        groups=_confusion(groups),
        causes=_causes(verdict),
        charts=[_needed(detector, "quantities", "quantity"), _needed(detector, "importance", "column")],
        columns=_contrast(columns),
    )
    return save(text, out)


def _tiles(verdict: Verdict) -> list[Tile]:
    shares = {
        "precision": "alarms that are right", "recall": "rows with the label that have an alarm",
        "f1": "harmonic mean of both", "false_alarms": "rows without the label that have an alarm",
        "missed": "attacks without any alarm",
    }  # fmt: skip
    found = [
        Tile("F1" if name == "f1" else name.replace("_", " "), amount("share", value, "1").text, repr(value), meaning)
        for name, meaning in shares.items()
        for value in (getattr(verdict, name),)
    ]
    for name, value in verdict.delay.items():
        found.append(
            Tile(f"delay, {name}", amount("delay", value, "s").text, repr(value), "from the attack to an alarm")
        )
    return found


def _confusion(groups: Mapping[str, Verdict]) -> ReportTable:
    rows = []
    for name, one in groups.items():
        seen = round(one.recall * one.positive) if one.positive else 0
        quiet = one.rows - one.positive
        false = round(one.false_alarms * quiet) if quiet else 0
        counts = (amount("count", n, "1") for n in (seen, one.positive - seen, false, quiet - false))
        shares = (amount("share", value, "1") for value in (one.precision, one.recall, one.f1, one.false_alarms))
        rows.append((word(name), *counts, *shares))
    heads = ("Setting", "Seen", "Missed", "False", "Quiet", "Precision", "Recall", "F1", "False alarms")
    return ReportTable("Alarms against the label", heads, tuple(rows))


def _causes(verdict: Verdict) -> ReportTable | None:
    if not verdict.causes:
        return None
    reported = list(dict.fromkeys(name for row in verdict.causes.values() for name in row))
    rows = []
    for true, row in verdict.causes.items():
        total = sum(row.values())
        cells: list[TableCell] = [word(true), amount("count", total, "1")]
        cells += [amount("share", row.get(name, 0) / total if total else None, "1") for name in reported]
        rows.append(tuple(cells))
    return ReportTable("Causes", ("Is", "Rows", *(f"Reported {name}" for name in reported)), tuple(rows))


def _needed(detector: Detector, fact: str, what: str) -> Chart:
    lost: Mapping[str, float] = detector.facts.get(fact, {})
    rows = [(name, {"lost": max(value, 0.0)}) for name, value in list(lost.items())[:_MOST]]
    note = "Area under the curve that is lost when its values are shuffled, on scenes that were not fitted to."
    empty = "the detector was trained without it"
    return bars(f"Lost without it, by {what}", rows, ["lost"], unit="1", note=note, empty=empty)


def _contrast(columns: Sequence[ColumnContrast]) -> ReportTable:
    rows = tuple(
        (word(one.name), *(_number(value) for value in (*one.without, *one.labelled, one.area))) for one in columns
    )
    heads = ("Column", "Mean without", "5 %", "95 %", "Mean with", "5 %", "95 %", "Area alone")
    return ReportTable("What is logged without and with the label", heads, rows)


def _number(value: float) -> TableCell:
    return amount("", value, "")
