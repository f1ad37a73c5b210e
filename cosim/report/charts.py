"""The chart types of the report. Each returns a `Chart`; none breaks on empty or odd data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from cosim.report.svg import PALETTE, Axis, Canvas, Chart, coordinate, csv_text, path
from cosim.report.text import quantity, shorten
from cosim.results.replications import MeanEstimate

WIDTH, HEIGHT = 440.0, 268.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 430.0, 26.0, 226.0
WIDE = 1280.0
_HEAT = 10  # shades


def color(index: int) -> int:
    return index % PALETTE


@dataclass(frozen=True)
class ChartSeries:
    """A named line: y over x; where y is NaN nothing is known."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def _legend(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((f"f{color(i)}", shorten(name, 34)) for i, name in enumerate(names)) if len(names) > 1 else ()


def _head(name: str, unit: str) -> str:
    """The head of a column; shares are numbers from 0 to 1 there."""
    return f"{name} ({unit})" if unit not in ("", "1", "%") else name


def lines(
    title: str,
    series: Sequence[ChartSeries],
    *,
    x: str = "simulated time",
    x_unit: str = "s",
    y: str,
    y_unit: str,
    note: str = "",
    empty: str = "nothing was recorded",
    end: float | None = None,
    top: float | None = None,
    zero: bool = True,
    marks: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Lines over a common axis; with `x_unit` s the axis reads as a clock from 0 to `end`.

    `marks` are dashed uprights at an x, with words for the tooltip. Without `zero` the upright axis
    begins where the values do.
    """
    series = [s for s in series if any(math.isfinite(v) for v in s.y)]
    if not series:
        return Chart(title, empty=empty)
    canvas = Canvas(WIDTH, HEIGHT)
    highest = max((v for s in series for v in s.x), default=1.0)
    low = 0.0 if x_unit == "s" else min(v for s in series for v in s.x)
    across = Axis(low, max(end or highest, low + 1e-9), LEFT, RIGHT, x, x_unit, clock=x_unit == "s")
    up = Axis.around([v for s in series for v in s.y], BOTTOM, TOP, y, y_unit, zero=zero)
    if top is not None:
        up = Axis(0.0, top, BOTTOM, TOP, y, y_unit)
    canvas.y_axis(up, LEFT, RIGHT)
    canvas.x_axis(across, TOP, BOTTOM)
    for i, s in enumerate(series):
        points = [(across.at(a), up.at(b)) for a, b in zip(s.x, s.y, strict=True) if math.isfinite(b)]
        canvas.line(points, f"l{color(i)}")
        if len(points) == 1:
            canvas.add("circle", cx=points[0][0], cy=points[0][1], r=3, class_=f"f{color(i)}")
    _hover(canvas, series, across, up, x_unit, y_unit)
    for value, words in marks:
        x0 = across.at(value)
        canvas.line([(x0, BOTTOM), (x0, TOP)], "mk")
        canvas.add("path", d=f"M{coordinate(x0 - 4)} {coordinate(TOP - 6)}h8l-4 6z", class_="ev", data_tip=words)
    data = csv_text(
        ("series", _head(x, x_unit), _head(y, y_unit)),
        ((s.name, float(a), float(b)) for s in series for a, b in zip(s.x, s.y, strict=True)),
    )
    return Chart(title, canvas.finish(title), note, _legend([s.name for s in series]), csv=data)


def _hover(canvas: Canvas, series: Sequence[ChartSeries], across: Axis, up: Axis, x_unit: str, y_unit: str) -> None:
    """Invisible columns that carry the values of all lines at their x, on at most 60 places."""
    base = max(series, key=lambda s: len(s.x))
    every = max(1, math.ceil(len(base.x) / 60))
    width = (across.end - across.start) / max(1, len(base.x[::every]))
    for k in range(0, len(base.x), every):
        at = base.x[k]
        words = [quantity(at, x_unit)]
        for s in series:
            near = k if s.x is base.x or (k < len(s.x) and s.x[k] == at) else None
            if near is not None and math.isfinite(s.y[near]):
                words.append(f"{shorten(s.name)}: {quantity(s.y[near], y_unit)}")
        left = max(across.start, min(across.end - width, across.at(at) - width / 2))
        canvas.add(
            "rect", x=left, y=up.end, width=width, height=up.start - up.end, class_="hit", data_tip="\n".join(words)
        )


def histogram(
    title: str,
    edges: Sequence[float],
    counts: Mapping[str, Sequence[float]],
    *,
    x: str,
    unit: str,
    log: bool = False,
    note: str = "",
) -> Chart:
    """Step outlines of one share-per-bin histogram per name over common `edges`."""
    totals = {name: sum(c) for name, c in counts.items()}
    names = [name for name in counts if totals[name] > 0]
    if not names or len(edges) < 2:
        return Chart(title, empty="nothing was recorded")
    canvas = Canvas(WIDTH, HEIGHT)
    across = Axis(edges[0], edges[-1], LEFT, RIGHT, x, unit, log=log)
    shares = {name: [c / totals[name] for c in counts[name]] for name in names}
    up = Axis.around([v for s in shares.values() for v in s], BOTTOM, TOP, "share per bin", "%")
    canvas.y_axis(up, LEFT, RIGHT)
    for i, name in enumerate(names):
        points = [(across.at(edges[0]), BOTTOM)]
        for k, share in enumerate(shares[name]):
            points += [(across.at(edges[k]), up.at(share)), (across.at(edges[k + 1]), up.at(share))]
        points.append((across.at(edges[-1]), BOTTOM))
        canvas.line(points, f"l{color(i)} a{color(i)}" if len(names) == 1 else f"l{color(i)}")
    canvas.x_axis(across, TOP, BOTTOM)
    for k in range(len(edges) - 1):
        tip = [f"{quantity(edges[k], unit)} to {quantity(edges[k + 1], unit)}"]
        tip += [f"{shorten(n)}: {quantity(shares[n][k], '%')} ({counts[n][k]:,.0f})" for n in names if counts[n][k]]
        left, right = across.at(edges[k]), across.at(edges[k + 1])
        canvas.add(
            "rect", x=left, y=TOP, width=right - left, height=BOTTOM - TOP, class_="hit", data_tip="\n".join(tip)
        )
    data = csv_text(
        ("series", _head(f"{x} from", unit), _head(f"{x} to", unit), "share", "count"),
        (
            (n, float(edges[k]), float(edges[k + 1]), float(shares[n][k]), float(counts[n][k]))
            for n in names
            for k in range(len(edges) - 1)
        ),
    )
    return Chart(title, canvas.finish(title), note, _legend(names), csv=data)


def distribution(
    title: str,
    curves: Sequence[ChartSeries],
    *,
    x: str,
    unit: str,
    log: bool = False,
    reach: float | None = None,
    zero: bool = True,
    of: str = "tasks",
    note: str = "",
    empty: str = "nothing was recorded",
) -> Chart:
    """Empirical cumulative distributions of something (`of`): x holds the values, y the share not above them.

    Values above `reach` are left out of the picture, so that a few of them do not flatten the rest.
    Without `zero` the axis begins at the least value, which may be negative.
    """
    curves = [c for c in curves if len(c.x) > 0]
    if not curves:
        return Chart(title, empty=empty)
    canvas = Canvas(WIDTH, HEIGHT)
    low, high = min(c.x[0] for c in curves), max(c.x[-1] for c in curves)
    if reach is not None:
        high = min(high, reach)
    log = log and low > 0 and high > low
    first = low if log or not zero else 0.0
    across = Axis(first, high if high > first else first + 1.0, LEFT, RIGHT, x, unit, log=log)
    up = Axis(0.0, 1.0, BOTTOM, TOP, "share not above", "%")
    canvas.y_axis(up, LEFT, RIGHT)
    canvas.x_axis(across, TOP, BOTTOM)
    for i, c in enumerate(curves):
        points: list[tuple[float, float]] = [(across.at(c.x[0]), BOTTOM)]
        for value, share in zip(c.x, c.y, strict=True):
            if value > across.high:
                break
            points += [(across.at(value), points[-1][1]), (across.at(value), up.at(share))]
        canvas.line([*points, (RIGHT, points[-1][1])], f"l{color(i)}")
    for share in (0.5, 0.95, 0.99):
        words = [f"{share:.0%} of {of} within"]
        for c in curves:
            value = next((v for v, s in zip(c.x, c.y, strict=True) if s >= share), c.x[-1])
            words.append(f"{shorten(c.name)}: {quantity(value, unit)}")
        y = up.at(share)
        canvas.add(
            "rect",
            x=LEFT,
            y=y - (5 if share > 0.9 else 30),
            width=RIGHT - LEFT,
            height=7 if share > 0.9 else 60,
            class_="hit",
            data_tip="\n".join(words),
        )
    data = csv_text(
        ("series", _head(x, unit), "share not above"),
        ((c.name, float(a), float(b)) for c in curves for a, b in zip(c.x, c.y, strict=True)),
    )
    return Chart(title, canvas.finish(title), note, _legend([c.name for c in curves]), csv=data)


def bars(
    title: str,
    rows: Sequence[tuple[str, Mapping[str, float]]],
    parts: Sequence[str],
    *,
    unit: str,
    note: str = "",
    empty: str = "nothing was recorded",
    first_color: int = 0,
    share: bool = False,
) -> Chart:
    """Horizontal bars, one per row, stacked from `parts`, with the total written at the end.

    With `share`, the total is followed by its part of the sum over all rows.
    """
    rows = [(name, {p: v for p in parts if math.isfinite(v := values.get(p, 0.0))}) for name, values in rows]
    totals = [sum(values.values()) for _, values in rows]
    if not rows or max(totals) <= 0:
        return Chart(title, empty=empty)
    step, top, left = 30.0, 8.0, 140.0
    canvas = Canvas(WIDTH, top + step * len(rows) + 4)
    across = Axis(0.0, max(totals), left, RIGHT - (96 if share else 62))
    for k, (name, values) in enumerate(rows):
        y, start = top + k * step, 0.0
        canvas.text(left - 8, y + 15, shorten(name, 20), "end", "tl", data_tip=name if len(name) > 20 else None)
        for i, part in enumerate(parts):
            value = values.get(part, 0.0)
            if value > 0:
                tip = f"{name}\n" + (f"{part}: " if len(parts) > 1 else "") + quantity(value, unit)
                x0, x1 = across.at(start), across.at(start + value)
                canvas.add(
                    "rect",
                    x=x0,
                    y=y,
                    width=max(0.5, x1 - x0),
                    height=step - 9,
                    class_=f"f{color(i + first_color)} sep",
                    data_tip=tip,
                )
            start += value
        words = quantity(totals[k], unit)
        if share:
            words += f" · {quantity(totals[k] / sum(totals), '%')}"
        canvas.text(across.at(start) + 6, y + 15, words, "start", "tv")
    swatches = tuple((f"f{color(i + first_color)}", p) for i, p in enumerate(parts)) if len(parts) > 1 else ()
    data = csv_text(
        ("row", "part", _head("value", unit)),
        ((name, p, float(values.get(p, 0.0))) for name, values in rows for p in parts),
    )
    return Chart(title, canvas.finish(title), note, swatches, csv=data)


def heat(
    title: str,
    names: Sequence[str],
    values: Sequence[Sequence[float]],
    end: float,
    *,
    note: str = "",
    empty: str = "nothing was recorded",
) -> Chart:
    """Rows of shares of one over time from 0 to `end` s, in shades; NaN stays blank."""
    if not names or not values or not values[0]:
        return Chart(title, empty=empty, wide=True)
    step, top, left, right = 20.0, 6.0, 150.0, WIDE - 70.0
    bottom = top + step * len(names)
    canvas = Canvas(WIDE, bottom + 40)
    across = Axis(0.0, max(end, 1e-9), left, right, "simulated time", "s", clock=True)
    width = (right - left) / len(values[0])
    shades: dict[int, list[str]] = {}
    for k, row in enumerate(values):
        y, c = top + k * step, 0
        while c < len(row):
            shade, first = _shade(row[c]), c
            while c < len(row) and _shade(row[c]) == shade:
                c += 1
            if shade >= 0:
                x = coordinate(left + first * width)
                shades.setdefault(shade, []).append(
                    f"M{x} {coordinate(y)}h{coordinate((c - first) * width)}v18h-{coordinate((c - first) * width)}z"
                )
    for shade in sorted(shades):
        canvas.add("path", d="".join(shades[shade]), class_=f"h{shade}")
    for k, (name, row) in enumerate(zip(names, values, strict=True)):
        known = [v for v in row if math.isfinite(v)] or [0.0]
        mean = sum(known) / len(known)
        canvas.text(left - 8, top + k * step + 13, shorten(name, 20), "end", "tl")
        canvas.text(right + 8, top + k * step + 13, quantity(mean, "%"), "start", "tv")
        tip = f"{name}\nmean {quantity(mean, '%')}, peak {quantity(max(known), '%')}"
        canvas.add("rect", x=left, y=top + k * step, width=right - left, height=step, class_="hit", data_tip=tip)
    canvas.x_axis(across, top, bottom)
    legend = tuple((f"h{s}", f"{s * 100 // (_HEAT - 1)} %") for s in (0, 3, 6, 9))
    data = csv_text(
        ("row", "time from (s)", "share"),
        (
            (name, end * k / len(row), float(value))
            for name, row in zip(names, values, strict=True)
            for k, value in enumerate(row)
        ),
    )
    return Chart(title, canvas.finish(title), note, legend, wide=True, csv=data)


def _shade(value: float) -> int:
    return round(min(1.0, max(0.0, value)) * (_HEAT - 1)) if math.isfinite(value) else -1


@dataclass(frozen=True)
class Strip:
    """A row of `strips`: the runs of a configuration by seed, and their mean."""

    name: str
    values: Mapping[str, float]
    mean: MeanEstimate | None


_FAR = 4.0  # times the spread of the other rows, beyond which a row would press them together
_PAIRS = 20  # seeds up to which lines join equal ones


def strips(title: str, rows: Sequence[Strip], *, unit: str) -> Chart:
    """Runs as dots with their mean and its interval, a row per configuration; thin lines join runs of equal seeds.

    Rows far off the others are marked at the edge with their mean, so that the others stay apart.
    """
    shown = [row for row in rows if row.mean is not None and row.values]
    near = _near(shown)
    if len(near) < 2 and len(shown) < 2:
        return Chart(title, empty="nothing to compare")
    step, top, left = 34.0, 8.0, 140.0
    canvas = Canvas(WIDTH, top + step * len(shown) + 44)
    flat = [v for row in near for v in (*row.values.values(), _known(row).low, _known(row).high)]
    zero = max(flat) - min(flat) > 0.5 * max(map(abs, flat))
    across = Axis.around(flat, left, RIGHT - 8, "", unit, zero=zero)
    places = {row.name: top + step * (k + 0.5) for k, row in enumerate(shown)}
    seeds = {seed for row in near for seed in row.values}
    if len(seeds) <= _PAIRS:
        for above, below in pairwise(near):
            for seed in filter(below.values.__contains__, above.values):
                ends = [(across.at(row.values[seed]), places[row.name]) for row in (above, below)]
                canvas.line(ends, "pr")
    canvas.x_axis(across, top, top + step * len(shown))
    for row in shown:
        y, found = places[row.name], _known(row)
        canvas.text(left - 8, y + 4, shorten(row.name, 20), "end", "tl", data_tip=row.name)
        if row not in near:
            canvas.text(RIGHT - 8, y + 4, f"{quantity(found.mean, unit)} ▸", "end", "tv")
            continue
        for value in row.values.values():
            canvas.add("circle", cx=across.at(value), cy=y, r=2.5, class_="dot")
        canvas.line([(across.at(found.low), y), (across.at(found.high), y)], "l0")
        tip = f"{row.name}\n{quantity(found.mean, unit)} ({quantity(found.low, unit)} to {quantity(found.high, unit)})"
        canvas.add("circle", cx=across.at(found.mean), cy=y, r=4.5, class_="f0", data_tip=tip)
    data = csv_text(
        ("configuration", "seed", _head(title.lower(), unit)),
        ((row.name, seed, float(value)) for row in shown for seed, value in row.values.items()),
    )
    return Chart(title, canvas.finish(title), csv=data)


def _known(row: Strip) -> MeanEstimate:
    assert row.mean is not None
    return row.mean


def _near(rows: Sequence[Strip]) -> list[Strip]:
    """Without those whose mean is much farther from the median of the means than half of them are."""
    means = sorted(_known(row).mean for row in rows)
    middle = means[len(means) // 2] if means else 0.0
    apart = sorted(abs(mean - middle) for mean in means)
    usual = apart[(len(apart) - 1) * 2 // 3] if apart else 0.0
    return [row for row in rows if len(rows) < 3 or abs(_known(row).mean - middle) <= _FAR * usual or usual == 0.0]


def intervals(
    title: str,
    x: Sequence[float | str],
    groups: Mapping[str, Sequence[tuple[float, float, float]]],
    *,
    x_title: str,
    y: str,
    unit: str,
    limit: float | None = None,
    note: str = "",
    empty: str = "no run has this figure",
) -> Chart:
    """Mean with an error bar (mean, low, high) per place on the x axis, one colour per group.

    Numbers on the x axis are placed to scale and joined by lines; words are placed evenly. A `limit` is a line across.
    """
    flat = [v for g in groups.values() for t in g for v in t if math.isfinite(v)]
    if not flat:
        return Chart(title, empty=empty)
    if limit is not None:
        flat.append(limit)
    canvas = Canvas(WIDTH, HEIGHT)
    numeric = [float(v) for v in x if not isinstance(v, str)]
    to_scale = len(numeric) == len(x) and len(set(numeric)) > 1
    places = numeric if to_scale else [float(k) for k in range(len(x))]
    air = (max(places) - min(places)) * 0.06 or 0.5
    if not to_scale:
        air = 0.5
    whole = all(place.is_integer() for place in places)
    across = Axis(min(places) - air, max(places) + air, LEFT, RIGHT, x_title, "", whole=whole)
    # Points, unlike bars, need no zero: leave it out when it would squeeze the differences.
    up = Axis.around(flat, BOTTOM, TOP, y, unit, zero=max(flat) - min(flat) > 0.5 * max(map(abs, flat)))
    canvas.y_axis(up, LEFT, RIGHT)
    if to_scale:
        canvas.x_axis(across, TOP, BOTTOM)
    else:
        canvas.add("path", d=path([(LEFT, BOTTOM), (RIGHT, BOTTOM)]), class_="ax")
        room = int((RIGHT - LEFT) / len(x) / 6.2)
        for place, word in zip(places, x, strict=True):
            canvas.text(across.at(place), BOTTOM + 16, shorten(str(word), max(4, room)), "middle")
        canvas.text((LEFT + RIGHT) / 2, BOTTOM + 33, x_title, "middle", "tt")
    names = list(groups)
    if limit is not None:
        canvas.line([(LEFT, up.at(limit)), (RIGHT, up.at(limit))], f"l{color(len(names))}")
        names.append("limit")
    shift = 9.0 if not to_scale else 3.0
    for i, (name, triples) in enumerate(groups.items()):
        offset = (i - (len(groups) - 1) / 2) * shift
        spots = [(across.at(p) + offset, t) for p, t in zip(places, triples, strict=True) if math.isfinite(t[0])]
        if to_scale:
            canvas.line([(a, up.at(t[0])) for a, t in spots], f"l{color(i)}")
        for k, (a, (mean, low, high)) in enumerate(spots):
            shade = color(i if len(groups) > 1 or to_scale else k)
            if math.isfinite(low) and math.isfinite(high):
                canvas.line([(a, up.at(low)), (a, up.at(high))], f"l{shade}")
            tip = f"{name}\n" if name else ""
            tip += f"{quantity(mean, unit)}"
            if math.isfinite(low) and high > low:
                tip += f"\n95 %: {quantity(low, unit)} to {quantity(high, unit)}"
            canvas.add("circle", cx=a, cy=up.at(mean), r=4.5, class_=f"f{shade}", data_tip=tip)
    data = csv_text(
        ("series", x_title, _head(y, unit), "low", "high"),
        (
            (name, place, *map(float, triple))
            for name, triples in groups.items()
            for place, triple in zip(x, triples, strict=True)
        ),
    )
    return Chart(title, canvas.finish(title), note, _legend(names), csv=data)


def blank(title: str, why: str, *, wide: bool = False) -> Chart:
    """A chart's place with the reason why there is none."""
    return Chart(title, Markup(""), empty=why, wide=wide)
