"""The page of a claim made again: the source's numbers, ours with intervals, settings that differ, and the verdicts."""

from __future__ import annotations

import csv
import math
from importlib.util import find_spec
from pathlib import Path

from cosim.extensions.reproduce.judging import FAILS, HOLDS, OPEN, JudgedNumber, Reproduction
from cosim.report import figure
from cosim.report.charts import intervals
from cosim.report.page import render, save
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, word
from cosim.report.text import digits

MARKS = {HOLDS: "good", FAILS: "bad", OPEN: "warn", "": ""}


def write(made: Reproduction) -> dict[str, Path]:
    """Write `report.html` and `numbers.csv` in the claim's folder and, with matplotlib, `figure-N.pdf` per column."""
    files = {"csv": _csv(made)}
    if find_spec("matplotlib"):
        for k, column in enumerate(columns(made), 1):
            out = made.folder / f"figure-{k}"
            (files[f"pdf {k}"],) = figure.write(
                _points(made, column), out, ["pdf"], x="row", y=column, by="of", unit=""
            )
    text = render(
        "reproduce.html.j2", claim=made.claim, made=made, mark=MARKS[made.verdict], statements=statement_table(made),
        numbers=number_table(made), settings=setting_table(made), charts=[_chart(made, one) for one in columns(made)],
    )  # fmt: skip
    return {"report": save(text, made.folder / "report.html"), **files}


def columns(made: Reproduction) -> list[str]:
    """Those of which anything was made."""
    return list(dict.fromkeys(one.column for one in made.numbers if one.runs))


def statement_table(made: Reproduction) -> ReportTable:
    """Each statement, and the differences that decide it."""
    rows = []
    for one in made.statements:
        rows.append((word(one.text, 120), *_verdict(one.verdict, one.why), TableCell("")))
        rows += [
            (
                word(f"{pair.row} against {pair.other}, {pair.column}", 120), *_verdict(pair.verdict, ""),
                TableCell(f"{pair.share:+.1%} ({pair.low:+.1%} to {pair.high:+.1%})", repr(pair.share), number=True),
            )
            for pair in one.pairs
        ]  # fmt: skip
    heads = ("Statement of the source, and its pairs", "Verdict", "Why", "Difference (interval)")
    return ReportTable("statements", heads, tuple(rows), empty="none was declared")


def number_table(made: Reproduction) -> ReportTable:
    """Each cell of the source's table beside ours."""
    rows = tuple(
        (
            word(one.row), word(one.column), _plain(one.source), _ours(one),
            _plain(one.mean / one.source - 1.0 if one.source and one.runs else None, percent=True),
            *_verdict(one.verdict, one.why),
        )
        for one in made.numbers
    )  # fmt: skip
    heads = ("Row", "Column", "Source", "Ours (95 % interval)", "Apart", "Verdict", "Why")
    return ReportTable("numbers", heads, rows)


def setting_table(made: Reproduction) -> ReportTable:
    """Every setting of the source beside ours."""
    rows = []
    for one in made.claim.settings:
        ours = made.settings.get(one.name, one.ours) if one.passed else one.ours
        same = ours == one.source
        why = "" if same else one.why or ("--quick" if made.quick and ours == one.quick else "")
        differs = TableCell("" if same else "differs", mark="" if same else "warn")
        rows.append((word(one.name), word(one.source, 80), word(ours, 80), differs, word(why, 200)))
    seeds = f"{made.seeds[0]} to {made.seeds[-1]}"
    rows.append((word("seeds"), word(None), word(seeds), TableCell(""), word(None)))
    return ReportTable("settings", ("Setting", "Source", "Ours", "", "Why"), tuple(rows))


def _verdict(verdict: str, why: str) -> tuple[TableCell, TableCell]:
    return TableCell(verdict, verdict, mark=MARKS[verdict]), word(why, 100)


def _plain(value: float | None, percent: bool = False) -> TableCell:
    text = "–" if value is None else f"{value:+.1%}" if percent else digits(value)
    return TableCell(text, "" if value is None else repr(value), number=True)


def _ours(one: JudgedNumber) -> TableCell:
    if not one.runs:
        return TableCell("–", number=True)
    span = "" if math.isnan(one.low) else f" ({digits(one.low)} to {digits(one.high)})"
    return TableCell(f"{digits(one.mean)}{span}", repr(one.mean), f"{one.mean!r}, {one.low!r} to {one.high!r}", True)


def _chart(made: Reproduction, column: str) -> Chart:
    points = _points(made, column)
    groups = {name: [(one.mean, one.low, one.high) for one in points if one.by == name] for name in ("source", "ours")}
    places = [str(one.x) for one in points if one.by == "ours"]
    return intervals(column, places, groups, x_title="", y=column, unit="")


def _points(made: Reproduction, column: str) -> list[figure.Point]:
    nan = math.nan
    found = []
    for one in made.numbers:
        if one.column == column:
            source = nan if one.source is None else one.source
            spans = (("source", source, source, source), ("ours", one.mean, one.low, one.high))
            found += [
                figure.Point(by, one.row, mean, low, high, one.runs, nan, nan, nan, 0, "")
                for by, mean, low, high in spans
            ]
    return found


def _csv(made: Reproduction) -> Path:
    file = made.folder / "numbers.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        names = ("row", "column", "source", "mean", "low", "high", "runs", "verdict", "why")
        writer.writerow(names)
        for one in made.numbers:
            values = (getattr(one, name) for name in names)
            empty = (value is None or (isinstance(value, float) and math.isnan(value)) for value in values)
            writer.writerow(["" if none else getattr(one, name) for none, name in zip(empty, names, strict=True)])
    return file
