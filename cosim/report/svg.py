"""Axes and marks of the report's charts, written as SVG text.

Colours and fonts are classes (`f0`..`f7` fills, `l0`..`l7` lines), so that one style sheet
decides for light, dark and paper. Coordinates are user units of the chart's view box.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from cosim.report.text import digits, scale

PALETTE = 8  # colours in the style sheet
_HUGE = 1e150  # what is larger is no measurement and would overflow the arithmetic of an axis
_ALIKE, _SMALL = 1e-12, 1e-250


def coordinate(value: float) -> str:
    """A coordinate with at most one decimal, as short as SVG allows."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def element(name: str, content: object = None, /, **attributes: object) -> Markup:
    """One element; everything is escaped except content that already is `Markup`.

    Underscores in attribute names become hyphens and a trailing one falls away (`class_`).
    """
    parts = []
    for key, value in attributes.items():
        if value is None:
            continue
        text = coordinate(value) if isinstance(value, float) else value
        parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    head = f"<{name}{''.join(parts)}"
    return Markup(f"{head}/>") if content is None else Markup(f"{head}>{escape(content)}</{name}>")


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) inside [low, high], about `count` of them."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        return [low]
    raw = span / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def clock_ticks(high: float, factor: float, count: int = 6) -> list[float]:
    """Ticks from 0 s for a time axis that is labelled in units of `factor` s."""
    if factor in (60.0, 3600.0):
        steps = (1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 360, 720)
        step = next((s for s in steps if high / factor / s <= count), None)
        if step is not None:
            return [step * factor * k for k in range(int(high / factor / step + 1e-9) + 1)]
    return [value * factor for value in ticks(0.0, high / factor, count)]


@dataclass(frozen=True)
class Axis:
    """Maps values of [low, high] to the user units between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    title: str = ""
    unit: str = ""
    log: bool = False
    clock: bool = False
    whole: bool = False  # what is counted: no marks between whole numbers

    @staticmethod
    def around(values: Iterable[float], start: float, end: float, title: str, unit: str, *, zero: bool = True) -> Axis:
        """An axis that holds `values` (finite ones) and, with `zero`, the origin; a little air on top."""
        known = [v for v in values if abs(v) < _HUGE] or [0.0]
        low, high = min(known), max(known)
        if zero:
            low, high = min(0.0, low), max(0.0, high)
        if high - low <= _ALIKE * max(abs(low), abs(high), _SMALL):  # too close to distinguish, or to divide by
            low, high = (low, low + 1.0) if zero else (low - 0.5, low + 0.5)
        air = (high - low) * 0.05
        return Axis(low if zero and low == 0 else low - air, high + air, start, end, title, unit)

    def at(self, value: float) -> float:
        if self.log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def marks(self) -> tuple[list[tuple[float, str]], str]:
        """The ticks with their labels, and the axis title with the unit they are written in."""
        if self.unit == "%":
            factor, name = 0.01, "%"
        else:
            factor, name = scale(max(abs(self.low), abs(self.high)) * 0.95, self.unit)
        count = max(2, round(abs(self.end - self.start) / 48))
        if self.log:
            values = [factor * value for value in _decades(self.low / factor, self.high / factor, count)]
        elif self.clock:
            values = clock_ticks(self.high, factor)
        else:
            values = [factor * value for value in ticks(self.low / factor, self.high / factor, count)]
            if self.whole:
                values = [value for value in values if value.is_integer()]
        title = f"{self.title} ({name})" if name and self.title else self.title or name
        if self.log or len(values) < 2:
            return [(v, digits(round(v / factor, 12), 1 if self.log else 2).replace("-", "−")) for v in values], title
        step = abs(values[1] - values[0]) / factor
        places = max(0, math.ceil(-math.log10(step) - 1e-9))
        if places > 8:
            return [(v, digits(v / factor)) for v in values], title
        return [(v, f"{v / factor + 0.0:,.{places}f}".replace("-", "−")) for v in values], title


def _decades(low: float, high: float, count: int) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        values = [m * 10.0**p for p in powers for m in steps if low <= m * 10.0**p <= high]
        if len(values) <= count + 1:
            return values
    return values[:: math.ceil(len(values) / (count + 1))]


@dataclass(frozen=True)
class Chart:
    """A drawn chart with its texts; `svg` is empty when there is nothing to draw (`empty` then gives the reason)."""

    title: str
    svg: Markup = field(default_factory=Markup)
    note: str = ""
    legend: tuple[tuple[str, str], ...] = ()  # (class of the swatch, label)
    empty: str = ""
    wide: bool = False
    csv: str = ""  # what is drawn, as a table that readers of the page can save


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV (RFC 4180, but with plain newlines); numbers to seven digits, blank where not known."""
    lines = []
    for row in (heads, *rows):
        cells = []
        for value in row:
            if isinstance(value, float):
                cells.append(f"{value:.7g}" if math.isfinite(value) else "")
            else:
                text = str(value)
                cells.append('"' + text.replace('"', '""') + '"' if re.search(r'[",\n]', text) else text)
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


@dataclass
class Canvas:
    """Collects marks; `finish` wraps them into an SVG that names what it shows."""

    width: float
    height: float
    parts: list[Markup] = field(default_factory=list)

    def add(self, name: str, content: object = None, /, **attributes: object) -> None:
        self.parts.append(element(name, content, **attributes))

    def text(self, x: float, y: float, words: object, anchor: str = "start", class_: str = "t", **more: object) -> None:
        self.add("text", words, x=float(x), y=float(y), text_anchor=anchor, class_=class_, **more)

    def line(self, points: Sequence[tuple[float, float]], class_: str, **more: object) -> None:
        self.add("path", d=path(points), class_=class_, **more)

    def x_axis(self, axis: Axis, top: float, bottom: float, *, grid: bool = False) -> None:
        marks, title = axis.marks()
        self.add("path", d=f"M{coordinate(axis.start)} {coordinate(bottom)}H{coordinate(axis.end)}", class_="ax")
        for value, words in marks:
            x = axis.at(value)
            to = top if grid else bottom + 4
            self.add("path", d=f"M{coordinate(x)} {coordinate(bottom)}V{coordinate(to)}", class_="gr" if grid else "ax")
            self.text(x, bottom + 16, words, "middle")
        self.text((axis.start + axis.end) / 2, bottom + 33, title, "middle", "tt")

    def y_axis(self, axis: Axis, left: float, right: float) -> None:
        marks, title = axis.marks()
        for value, words in marks:
            y = axis.at(value)
            self.add("path", d=f"M{coordinate(left)} {coordinate(y)}H{coordinate(right)}", class_="gr")
            self.text(left - 6, y + 4, words, "end")
        self.text(2, axis.end - 13, title, "start", "tt")

    def finish(self, label: str) -> Markup:
        size = f"0 0 {coordinate(self.width)} {coordinate(self.height)}"
        return element("svg", Markup("").join(self.parts), viewBox=size, role="img", aria_label=label)


def path(points: Sequence[tuple[float, float]]) -> str:
    """SVG path through `points`."""
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)
