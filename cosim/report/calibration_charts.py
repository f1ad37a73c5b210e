"""Charts of a calibration's page: gaps against their floor, distributions, courses, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.report.charts import RIGHT, WIDTH, ChartSeries, distribution, lines
from cosim.report.svg import Axis, Canvas, Chart, csv_text
from cosim.report.text import quantity, shorten
from cosim.twin.calibration import Judgement, ParameterEstimate
from cosim.twin.fitting.judging import Evidence
from cosim.twin.problem import Floats, MeasuredSignal

MOST = 400  # points of a line
_NAMES = ("measured", "before", "after")
_ROW, _LABELS = 34.0, 150.0
_NEAREST = 1e-4


def gap_chart(title: str, judgement: Judgement) -> Chart:
    """W1 of each signal before and after, with the noise floor as a bar from zero."""
    after = {gap.signal: gap for gap in judgement.after}
    rows = [(gap, after[gap.signal]) for gap in judgement.before if gap.signal in after]
    known = [v for pair in rows for v in (pair[0].w1, pair[1].w1, pair[1].floor) if math.isfinite(v)]
    if not known:
        return Chart(title, empty="no signal was compared")
    canvas = Canvas(WIDTH, 44.0 + _ROW * len(rows))
    # What is nearer than this part of the farthest lies at the left end; its value is in the tooltip.
    least = max(min((v for v in known if v > 0.0), default=1.0), _NEAREST * max(known))
    log = max(known) > 30.0 * least
    low, high = (least / 1.5, max(known) * 1.2) if log else (0.0, (max(known) or 1.0) * 1.05)
    across = Axis(low, high, _LABELS, RIGHT, "W1 over the measured range", "1", log=log)
    bottom = 4.0 + _ROW * len(rows)
    canvas.x_axis(across, 0.0, bottom, grid=True)
    for k, (one, other) in enumerate(rows):
        y = 4.0 + k * _ROW + _ROW / 2
        canvas.text(_LABELS - 8, y + 4, shorten(one.signal, 20), "end", "tl")
        if math.isfinite(other.floor):
            end = across.at(other.floor)
            tip = f"{one.signal}\nnoise floor {quantity(other.floor)}"
            canvas.add(
                "rect", x=across.start, y=y - 9, width=max(end - across.start, 0.5), height=18.0, class_="h3",
                data_tip=tip,
            )  # fmt: skip
        spots = [(name, gap.w1) for name, gap in (("before", one), ("after", other)) if math.isfinite(gap.w1)]
        if len(spots) == 2:
            canvas.line([(across.at(v), y) for _, v in spots], "ax")
        for name, value in spots:
            shade = _NAMES.index(name)
            canvas.add(
                "circle", cx=across.at(value), cy=y, r=5.0, class_=f"f{shade}",
                data_tip=f"{one.signal}, {name}\nW1 {quantity(value)}",
            )  # fmt: skip
    legend = (("f1", "before"), ("f2", "after"), ("h3", "noise floor"))
    data = csv_text(
        ("signal", "W1 before", "W1 after", "noise floor"), ((a.signal, a.w1, b.w1, b.floor) for a, b in rows)
    )
    note = "the noise floor is the distance of one measured half to the other"
    return Chart(title, canvas.finish(title), note, legend, csv=data)


def distributions(evidence: Evidence) -> list[Chart]:
    """The distribution of every signal: measured, before and after, all replicates together."""
    charts = []
    for name, signal in evidence.observed.items():
        kept = np.isfinite(signal.values)
        simulated = [_of(rows, name, kept, signal) for rows in (evidence.before, evidence.after)]
        curves = [
            _curve(label, values)
            for label, values in zip(_NAMES, (signal.values[kept], *simulated), strict=True)
            if len(values)
        ]
        charts.append(
            distribution(
                f"{name}, {shorten(evidence.part, 34)}",
                curves,
                x=name,
                unit=signal.unit,
                zero=_near_zero(signal),
                of="values",
                reach=_reach(signal.values[kept], simulated),
                empty="nothing was measured",
            )
        )
    return charts


def courses(evidence: Evidence) -> list[Chart]:
    """The course of every signal over time, or over its rows; of the simulations, the first replicate.

    Simulated values that are several times as many as the measured ones are taken as several courses,
    one after another.
    """
    charts = []
    for name, signal in evidence.observed.items():
        in_time = signal.times is not None and bool(np.isfinite(signal.times).all())
        x = np.asarray(signal.times) if in_time else np.arange(1.0, len(signal.values) + 1.0)
        order = np.argsort(x, kind="stable")
        order = order[:: max(math.ceil(len(order) / MOST), 1)]
        series = [ChartSeries(_NAMES[0], x[order].tolist(), signal.values[order].tolist())]
        for label, rows in ((_NAMES[1], evidence.before), (_NAMES[2], evidence.after)):
            if name not in rows:
                continue
            values = np.atleast_2d(rows[name])[0]
            if not signal.paired:
                values = values[np.isfinite(values)]
            elif values.shape == signal.values.shape:  # what was not measured is not compared, perhaps given
                values = np.where(np.isfinite(signal.values), values, np.nan)
            if len(x) and len(values) and len(values) % len(x) == 0:
                series.append(ChartSeries(label, series[0].x, values[: len(x)][order].tolist()))
        alone = len(series) == 1
        charts.append(
            lines(
                f"{name}, {shorten(evidence.part, 34)}",
                series,
                x="time" if in_time else "row",
                x_unit="s" if in_time else "",
                y=name,
                y_unit=signal.unit,
                zero=_near_zero(signal),
                empty="nothing was measured",
                note="the simulation has another number of values"
                if alone
                else ""
                if signal.paired
                else "not paired: only the distribution is compared, not the course",
            )
        )
    return charts


def parameter_chart(estimates: Sequence[ParameterEstimate]) -> Chart:
    """Where in its bounds each value lies, with its 90 % interval and its start."""
    title = "Values within their bounds"
    rows = [e for e in estimates if e.bounds is not None and _number(e.value) is not None]
    if not rows:
        return Chart(title, empty="no parameter has bounds")
    canvas = Canvas(WIDTH, 28.0 + _ROW * len(rows))
    for k, estimate in enumerate(rows):
        assert estimate.bounds is not None
        low, high = estimate.bounds
        log = low > 0.0 and high > 30.0 * low
        across = Axis(low, high if high > low else low + 1.0, _LABELS, RIGHT, log=log)
        y = 14.0 + k * _ROW
        canvas.text(_LABELS - 8, y + 4, shorten(estimate.name, 20), "end", "tl", data_tip=estimate.name)
        canvas.line([(across.start, y), (across.end, y)], "ax")
        canvas.text(across.start, y + 16, quantity(low, estimate.unit))
        canvas.text(across.end, y + 16, quantity(high, estimate.unit), "end")
        start, value = _number(estimate.start), _number(estimate.value)
        if estimate.low is not None and estimate.high is not None:
            left, right = across.at(estimate.low), across.at(estimate.high)
            canvas.add(
                "rect", x=left, y=y - 5, width=max(right - left, 1.0), height=10.0, class_="h3",
                data_tip=f"{estimate.name}\n90 % interval {quantity(estimate.low, estimate.unit)} to "
                f"{quantity(estimate.high, estimate.unit)}",
            )  # fmt: skip
        for shade, label, number in ((1, "before", start), (2, "after", value)):
            if number is not None:
                tip = f"{estimate.name}\n{label}: {quantity(number, estimate.unit)}"
                canvas.add("circle", cx=across.at(number), cy=y, r=5.0, class_=f"f{shade}", data_tip=tip)
    legend = (("f1", "before"), ("f2", "after"), ("h3", "90 % interval"))
    heads = ("parameter", "unit", "lower bound", "upper bound", "before", "after", "5 %", "95 %")
    blank = float("nan")
    data = csv_text(heads, (
        (e.name, e.unit, *map(float, e.bounds or (blank, blank)), *(
            blank if value is None else value for value in (_number(e.start), _number(e.value), e.low, e.high)
        )) for e in rows
    ))  # fmt: skip
    return Chart(title, canvas.finish(title), "", legend, csv=data)


def _of(rows: Mapping[str, Floats], name: str, kept: NDArray[np.bool_], signal: MeasuredSignal) -> Floats:
    """All finite simulated values of a signal; of a paired one only where something was measured."""
    values = np.atleast_2d(np.asarray(rows.get(name, np.empty((0, len(kept)))), np.float64))
    values = (values[:, kept] if signal.paired else values).ravel()
    return np.asarray(values[np.isfinite(values)], np.float64)


def _curve(name: str, values: Floats) -> ChartSeries:
    """The empirical distribution in at most `MOST` steps."""
    ordered = np.sort(values)
    at = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST)).round().astype(np.int64))
    return ChartSeries(name, ordered[at].tolist(), ((at + 1) / len(ordered)).tolist())


def _reach(real: Floats, simulated: Sequence[Floats]) -> float | None:
    """Where the picture ends, so that a far tail does not squeeze what was measured; None: at the last value."""
    if len(real) == 0:
        return None
    span = float(np.ptp(real)) or abs(float(real.max())) or 1.0
    bulk = max((float(np.quantile(values, 0.98)) for values in simulated if len(values)), default=float(real.max()))
    return max(float(real.max()), min(bulk, float(real.max()) + 4.0 * span))


def _near_zero(signal: MeasuredSignal) -> bool:
    """Whether an axis from zero leaves room for the differences."""
    kept = signal.values[np.isfinite(signal.values)]
    return bool(len(kept) and kept.min() >= 0.0 and kept.min() < 2.0 * float(np.ptp(kept)))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
