"""A figure and a table for a paper: one quantity of many runs over a parameter, with intervals.

Each point is the mean over replications with its 95 % interval (Student's t). The table also has the
difference to the first line (or, with one line, to the first point), in pairs of runs with equal
seeds where there are two or more, else by Welch.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.contract.errors import SetupError, require
from cosim.report.text import in_order, label, number
from cosim.results.compare import effects
from cosim.results.figures import Figure
from cosim.results.replications import estimate

DRAWN = ("pdf", "svg", "png")
WRITTEN = ("csv", "tex", "parquet")
_OWN = ("run", "scenario", "status", "seed")
Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Point:
    """One mean of the figure, and how it differs from the point that it is compared with."""

    by: Value
    x: Value
    mean: float
    low: float  # 95 % interval of the mean; NaN for one run
    high: float
    runs: int
    difference: float  # to the same x on the first line, or to the first x; NaN there
    difference_low: float
    difference_high: float
    pairs: int
    test: str
    at_least: bool = False  # a run of it has a lower bound only, as tasks were unfinished


def points(
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    by: str = "",
    entries: Callable[[str], Mapping[str, Figure]] | None = None,
) -> list[Point]:
    """The points of figure `y` over parameter `x`, a line for each value of parameter `by`.

    `rows` are those of `cosim.load_all(...).table("figures")`, with the path of a parameter or its last
    part as a name; `entries` are the figures of a run with unit and bounds. Raises `SetupError` for a name that is
    not there.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    x, y = _named(x, columns), _named(y, columns)
    by = _named(by, columns) if by else ""
    samples: dict[tuple[Value, Value], dict[int, Figure]] = {}
    for row in rows:
        value = row.get(y)
        if isinstance(value, (int, float)) and math.isfinite(value) and row.get("status") == "complete":
            key = (row.get(by) if by else None, row.get(x))
            known = entries(row["run"]).get(y) if entries else None
            samples.setdefault(key, {})[int(row["seed"])] = known or {"value": float(value)}
    if not samples:
        raise SetupError(f"no complete run has the figure '{y}'")
    lines, places = (in_order(key[i] for key in samples) for i in (0, 1))
    found = []
    for line in lines:
        for place in places:
            if (line, place) in samples:
                base = samples.get((lines[0], place)) if len(lines) > 1 else samples.get((line, places[0]))
                first = line == lines[0] if len(lines) > 1 else place == places[0]
                found.append(_point(line, place, samples[line, place], None if first else base))
    return found


def _point(line: Value, place: Value, mine: Mapping[int, Figure], base: Mapping[int, Figure] | None) -> Point:
    found = estimate(mine.values())
    assert found is not None
    low, high = (found.low, found.high) if found.half is not None else (math.nan, math.nan)
    difference: tuple[float, float, float, int, str] = (math.nan, math.nan, math.nan, 0, "")
    bound = found.at_least
    if base is not None:
        a, b = ([{"figures": {"y": {"unit": "", **entry}}} for entry in side.values()] for side in (base, mine))
        (one,) = effects(a, b, seeds=(list(base), list(mine)))
        pairs = one.runs[0] if len(base.keys() & mine.keys()) > 1 else 0
        difference = (one.difference, one.low, one.high, pairs, one.test)
    return Point(line, place, found.mean, low, high, len(mine), *difference, bound)


def _named(name: str, columns: Sequence[str]) -> str:
    if name in columns:
        return name
    near = [column for column in columns if column.rsplit(".", 1)[-1] == name]
    if len(near) == 1:
        return near[0]
    raise SetupError(
        f"'{name}' is {'more than one column' if near else 'no parameter and no figure'} of these runs; "
        f"there are {', '.join(near or [column for column in columns if column not in _OWN])}"
    )


def write(
    found: Sequence[Point], out: Path, formats: Sequence[str], *, x: str, y: str, by: str, unit: str
) -> list[Path]:
    """Write `found` in each of `formats` (`DRAWN` and `WRITTEN`) beside each other; the files."""
    if not out.name:
        raise SetupError(f"'{out}' names no file; write for example --out figure")
    out.parent.mkdir(parents=True, exist_ok=True)
    files = [out.with_name(f"{out.name}.{suffix}") for suffix in formats]
    for file, suffix in zip(files, formats, strict=True):
        if suffix == "csv":
            _csv(found, file)
        elif suffix == "parquet":
            pq.write_table(pa.Table.from_pylist([plain(point) for point in found]), file)
        elif suffix == "tex":
            file.write_text(_latex(found, x, y, by, unit), encoding="utf-8")
    drawn = [file for file, suffix in zip(files, formats, strict=True) if suffix in DRAWN]
    if drawn:
        _draw(found, drawn, x, y, by, unit)
    return files


def plain(point: Point) -> dict[str, Any]:
    """`point` as a row of plain data, its parameters as words."""
    row = asdict(point)
    return {**row, "x": None if point.x is None else str(point.x), "by": None if point.by is None else str(point.by)}


def _csv(found: Sequence[Point], file: Path) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        names = [field.name for field in fields(Point)]
        writer.writerow(names)
        for point in found:
            values = (getattr(point, name) for name in names)
            writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in values])


def _latex(found: Sequence[Point], x: str, y: str, by: str, unit: str) -> str:
    first = [_tex(_short(by))] if by else []
    heads = [*first, _tex(_short(x)), _tex(f"{label(y)}{_unit(unit)}"), "runs", "difference", "test"]
    rows = []
    for point in found:
        mean = ("$\\geq$ " if point.at_least else "") + _plus(point.mean, point.high - point.mean)
        shift = _plus(point.difference, point.difference_high - point.difference)
        names = [_tex(point.by), _tex(point.x)] if by else [_tex(point.x)]
        rows.append([*names, mean, str(point.runs), shift, point.test or "--"])
    lines = [" & ".join(row) + r" \\" for row in (heads, *rows)]
    note = "% mean and half of its 95 % interval; differences to the first line of each block, with their own interval"
    if any(point.at_least for point in found):
        note += "\n% >=: lower bounds, as tasks of these runs were unfinished at the end"
    return "\n".join(
        [note, rf"\begin{{tabular}}{{{'l' * (1 + bool(by))}rrrl}}", r"\toprule", lines[0], r"\midrule", *lines[1:],
         r"\bottomrule", r"\end{tabular}", ""]
    )  # fmt: skip


def _plus(value: float, half: float) -> str:
    """A value and its uncertainty, to two digits of the latter."""
    if not math.isfinite(value):
        return "--"
    if not math.isfinite(half) or half <= 0.0:
        return f"${value:.4g}$"
    digits = max(0, 1 - math.floor(math.log10(half)))
    return rf"${value:.{digits}f} \pm {half:.{digits}f}$"


def _tex(value: Value) -> str:
    text = str(value)
    for character in "&%$#_{}":
        text = text.replace(character, "\\" + character)
    return text


def _short(path: str) -> str:
    return label(path.rsplit(".", 1)[-1])


def _unit(unit: str) -> str:
    return f" ({unit})" if unit not in ("", "1") else ""


def _draw(found: Sequence[Point], files: Sequence[Path], x: str, y: str, by: str, unit: str) -> None:
    require("plot", "matplotlib")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "cosim", "pdf.fonttype": 42, "font.size": 9})
    figure = Figure(figsize=(4.2, 2.8), layout="constrained")
    axes = figure.add_subplot()
    lines, places = in_order(point.by for point in found), in_order(point.x for point in found)
    numbers = [number(place) for place in places]
    metric = all(number is not None for number in numbers) and len(places) > 1
    at = {place: (number if metric else i) for i, (place, number) in enumerate(zip(places, numbers, strict=True))}
    for i, line in enumerate(lines):
        mine = [point for point in found if point.by == line]
        shift = 0.0 if metric else 0.16 * (i - (len(lines) - 1) / 2)
        halves = [0.0 if math.isnan(point.high) else point.high - point.mean for point in mine]
        axes.errorbar(
            [(at[point.x] or 0.0) + shift for point in mine], [point.mean for point in mine], halves,
            fmt="o-" if metric else "o", capsize=3, markersize=4, linewidth=1.2, label=str(line),
        )  # fmt: skip
        bounds = [point for point in mine if point.at_least]
        axes.plot(
            [(at[point.x] or 0.0) + shift for point in bounds], [point.mean for point in bounds], "^", color="black",
            markersize=8, markerfacecolor="none", label="_",
        )  # fmt: skip
    if not metric:
        axes.set_xticks(range(len(places)), [str(place) for place in places])
    axes.set_xlabel(_short(x))
    axes.set_ylabel(f"{label(y)}{_unit(unit)}")
    axes.grid(alpha=0.3)
    if any(point.at_least for point in found):
        axes.set_title("triangles: at least, as tasks were unfinished", fontsize=7)
    if by:
        axes.legend(title=_short(by), frameon=False)
    for file in files:
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}
        figure.savefig(file, dpi=200, metadata=undated[file.suffix[1:]])
