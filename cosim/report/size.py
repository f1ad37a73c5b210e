"""The page of an answer: the smallest value that meets the goals, and what it was found by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cosim.report.charts import intervals
from cosim.report.page import render, save
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, Tile
from cosim.report.text import digits, duration, estimated, interval, is_share, label
from cosim.results.replications import MeanEstimate
from cosim.results.size import Sizing

_MARKS = {"meets": "good", "misses": "bad", "undecided": "warn"}


def write_sizing(sizing: Sizing) -> Path:
    """Write one offline HTML page to `report.html` in the folder of the runs."""
    text = render(
        "size.html.j2",
        title=sizing.scenario,
        sentence=sizing.sentence(),
        found=sizing.answer is not None,
        goals=sizing.goals,
        values=f"{sizing.values[0]} to {sizing.values[-1]}",
        path=sizing.path,
        tiles=tiles(sizing),
        charts=charts(sizing),
        tried=table(sizing),
        cost=cost_words(sizing),
        contrary=contrary(sizing),
        warnings=warnings(sizing),
        monotone=sizing.monotone,
        confidence=f"{sizing.confidence * 100:.4g} %",
    )
    return save(text, sizing.folder / "report.html")


def tiles(sizing: Sizing) -> list[Tile]:
    """The answer, its interval, and what the search took."""
    answer = "none" if sizing.answer is None else str(sizing.answer)
    sure = f"with {sizing.confidence * 100:.4g} % confidence"
    found = [Tile(sizing.name, answer, answer, "the smallest value that is shown to meet the goals", sure)]
    if sizing.answer is not None:
        span = str(sizing.low) if sizing.low == sizing.high else f"{sizing.low} to {sizing.high}"
        found.append(Tile("interval", span, span, "the right answer lies in it, with the same confidence"))
    if sizing.owning is not None:
        found.append(Tile("price per hour", digits(sizing.owning), repr(sizing.owning), "of the answer, by --price"))
    found.append(Tile("runs", str(sizing.runs), str(sizing.runs), "of the search", duration(sizing.wall_seconds)))
    return found


def table(sizing: Sizing) -> ReportTable:
    """Every value that was tried."""
    names = list(sizing.limits)
    heads = [
        sizing.name,
        "Verdict",
        "Runs",
        *(label(name) for name in names),
        *([label(sizing.cost)] if sizing.cost else []),
    ]
    rows = []
    for row in sizing.tried:
        cells = [
            TableCell(str(row["value"]), str(row["value"]), number=True),
            TableCell(row["verdict"], row["verdict"], mark=_MARKS[row["verdict"]]),
            TableCell(str(row["runs"]), str(row["runs"]), number=True),
            *(_estimate(sizing, name, row["figures"][name]) for name in names),
        ]
        if sizing.cost:
            cells.append(_estimate(sizing, sizing.cost, row["cost"]) if row["cost"] else TableCell("–", number=True))
        rows.append(tuple(cells))
    return ReportTable("values", tuple(heads), tuple(rows))


def charts(sizing: Sizing) -> list[Chart]:
    """Each goal's figure and the cost over the values that were tried, with the limits as lines."""
    values = [row["value"] for row in sizing.tried]
    numeric = all(isinstance(value, (int, float)) for value in values)
    places: list[float | str] = list(values) if numeric else [str(value) for value in values]
    found = []
    for name, limit in sizing.limits.items():
        spots = [_spot(row["figures"][name]) for row in sizing.tried]
        unit = _unit(sizing, name, [spot[0] for spot in spots])
        shown = {label(name): spots}
        title = label(name).capitalize()
        found.append(intervals(title, places, shown, x_title=sizing.name, y=label(name), unit=unit, limit=limit))
    if sizing.cost:
        none = (math.nan, math.nan, math.nan)
        spots = [_spot(row["cost"]) if row["cost"] else none for row in sizing.tried]
        unit = _unit(sizing, sizing.cost, [spot[0] for spot in spots])
        title = label(sizing.cost).capitalize()
        found.append(intervals(title, places, {"": spots}, x_title=sizing.name, y=label(sizing.cost), unit=unit))
    return found


def cost_words(sizing: Sizing) -> list[str]:
    """What the answer costs, and what the last step to it has added."""
    found = []
    row = next((one for one in sizing.tried if one["value"] == sizing.answer), None)
    if row is not None and row["cost"]:
        found.append(f"{label(sizing.cost)} of a run: {_estimate(sizing, sizing.cost, row['cost']).text}")
        step = sizing.next_cost
        if step:
            unit = sizing.units[sizing.cost]
            moved = interval(abs(step["mean"]), step["high"] - step["mean"], unit)
            way = "less" if step["mean"] < 0 else "more"
            found.append(f"against {sizing.name} = {step['from']}: {moved} {way}, in pairs of equal seeds")
    if sizing.owning is not None:
        found.append(f"price of {sizing.answer}: {digits(sizing.owning)} per hour")
    return found


def contrary(sizing: Sizing) -> list[str]:
    """Where a larger value does worse."""
    words = []
    for one in sizing.contrary:
        unit = sizing.units[one["figure"]]
        share = "pp" if is_share(one["figure"], abs(one["difference"]), unit) else unit
        moved = interval(one["difference"], one["high"] - one["difference"], share)
        words.append(f"from {one['lower']} to {one['upper']} {label(one['figure'])} gets worse by {moved}")
    return words


def _spot(entry: dict[str, float | None]) -> tuple[float, float, float]:
    mean, low, high = (math.nan if entry[key] is None else float(entry[key] or 0.0) for key in ("mean", "low", "high"))
    return mean, low, high


def _unit(sizing: Sizing, name: str, values: list[float]) -> str:
    unit = sizing.units[name]
    return "%" if all(is_share(name, value, unit) for value in values) else unit


def _estimate(sizing: Sizing, name: str, entry: dict[str, Any]) -> TableCell:
    mean, high = entry["mean"], entry["high"]
    found = MeanEstimate(
        mean, None if high is None else high - mean, entry["low"], mean if high is None else high, 2,
        sizing.units[name], at_least=high is None,
    )  # fmt: skip
    return TableCell(estimated(name, found), repr(mean), f"{mean!r}, {entry['low']!r} to {high!r}", True)


def warnings(sizing: Sizing) -> list[str]:
    """What has to be known of the values that were tried."""
    return [f"{sizing.name} = {row['value']}: {text}" for row in sizing.tried for text in row["warnings"]]
