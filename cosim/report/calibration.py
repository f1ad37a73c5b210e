"""The page of a calibration: how near the simulation came, with which values, and what stays unexplained.

write_calibration(calibration, gather(problem, calibration), Path("pi.calibration.html"))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from cosim.report.calibration_charts import courses, distributions, gap_chart, parameter_chart
from cosim.report.page import render, save
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, Tile, amount, word
from cosim.report.text import NOTHING, digits, duration, exact, finite, quantity
from cosim.twin.calibration import Calibration, Gap, Judgement, ParameterEstimate
from cosim.twin.fitting.judging import Evidence
from cosim.twin.fitting.misfit import ALL

_FAR = 2.0  # times the noise floor: what is farther is not explained
_MARKS = {"fitted": "good", "correlated": "warn", "no effect": "bad", "fixed": ""}


def write_calibration(calibration: Calibration, evidence: Sequence[Evidence], out: Path) -> Path:
    """One offline HTML page about `calibration` at `out`; without `evidence` it has no curves."""
    left = unexplained(calibration)
    text = render(
        "calibration.html.j2",
        title=calibration.problem,
        badge=_badge(calibration),
        lead=lead(calibration),
        facts=_facts(calibration),
        tiles=_tiles(calibration),
        gaps=[gap_chart(f"Gap, data {name}", part) for name, part in _parts(calibration)],
        gap_tables=[(name, part.part, gap_table(name, part)) for name, part in _parts(calibration)],
        distributions=_by_signal([distributions(part) for part in evidence]),
        courses=_by_signal([courses(part) for part in evidence]),
        values=parameter_chart(calibration.estimates),
        parameters=parameter_table(calibration.estimates),
        unexplained=left,
        assumptions=calibration.assumptions,
        sources=calibration.sources,
        figures=ReportTable(
            "further figures", ("Figure", "Value"),
            tuple((word(name), amount("", value, "")) for name, value in calibration.figures.items()),
        ),
    )  # fmt: skip
    return save(text, out)


def _by_signal(parts: Sequence[Sequence[Chart]]) -> list[Chart]:
    """The charts of all parts, those of one signal side by side."""
    most = max((len(charts) for charts in parts), default=0)
    return [charts[k] for k in range(most) for charts in parts if k < len(charts)]


def unexplained(calibration: Calibration) -> list[tuple[str, str, str]]:
    """(what, why, mark) of everything that the calibrated simulation does not explain, and of what was wrong."""
    reported: list[tuple[str, str, str]] = []
    for name, part in _parts(calibration):
        before = {gap.signal: gap for gap in part.before}
        for gap in part.after:
            if gap.signal == ALL:
                continue
            if not math.isfinite(gap.w1):
                reported.append((gap.signal, f"could not be simulated on the data {name}", "bad"))
            elif math.isfinite(gap.floor) and gap.w1 > _FAR * gap.floor:
                times = f"{gap.w1 / gap.floor:.3g} times" if gap.floor > 0.0 else "above"
                why = f"its gap on the data {name} is {quantity(gap.w1)}, {times} the noise floor {quantity(gap.floor)}"
                reported.append((gap.signal, why, "warn"))
            if gap.signal in before and _worse(gap, before[gap.signal]):
                why = f"on the data {name} it is farther away than before: {quantity(gap.w1)}"
                reported.append((gap.signal, f"{why} instead of {quantity(before[gap.signal].w1)}", "bad"))
    if calibration.held_back is None:
        reported.append(("Judgement", "no data were held back: the gaps are those of the data that were fitted", "bad"))
    reported += [
        (estimate.name, f"{estimate.verdict}: {estimate.reason or 'the data do not determine it'}", "warn")
        for estimate in calibration.estimates
        if estimate.verdict in ("no effect", "correlated")
    ]
    if calibration.stopped not in ("converged", ""):
        reported.append(("Search", f"ended early: {calibration.stopped}", "warn"))
    return reported + [("Warning", warning, "warn") for warning in calibration.warnings]


def gap_table(name: str, judgement: Judgement) -> ReportTable:
    """Every figure of every signal, before and after."""
    before = {gap.signal: gap for gap in judgement.before}
    rows = tuple(_gap_row(before.get(gap.signal), gap) for gap in judgement.after)
    heads = (
        "Signal", "Values", "Floor", "W1 before", "W1 after", "After / floor", "G1 before", "G1 after",
        "NRMSE before", "NRMSE after", "R² before", "R² after", "RMSE before", "RMSE after", "Energy distance before",
        "Energy distance after",
    )  # fmt: skip
    return ReportTable(f"gaps {name}", heads, rows, empty="no signal was compared")


def _gap_row(before: Gap | None, after: Gap) -> tuple[TableCell, ...]:
    times = after.w1 / after.floor if after.floor > 0.0 and math.isfinite(after.w1) else float("nan")
    mark = "" if not math.isfinite(times) else "good" if times <= _FAR else "warn"
    cells = [word(after.signal), amount("", after.count, "1"), amount("", after.floor, "")]
    for figure in ("w1", "g1", "nrmse", "r2", "rmse", "energy_distance"):
        unit = after.unit if figure == "rmse" else ""
        cells += [amount("", getattr(gap, figure) if gap is not None else None, unit) for gap in (before, after)]
        if figure == "w1":
            cells.append(amount("", times, "", mark))
    return tuple(cells)


def parameter_table(estimates: Sequence[ParameterEstimate]) -> ReportTable:
    """Values with intervals, bounds, sensitivity and verdict."""
    heads = (
        "Parameter",
        "Before",
        "After",
        "90 % from",
        "90 % to",
        "Bounds",
        "Sensitivity",
        "Verdict",
        "Why",
        "Fields",
    )
    rows = tuple(
        (
            word(e.name, 48), _value(e.start, e.unit), _value(e.value, e.unit), amount("", e.low, e.unit),
            amount("", e.high, e.unit),
            word(" to ".join(quantity(end, e.unit) for end in e.bounds) if e.bounds is not None else ""),
            amount("share", e.sensitivity, "1"), TableCell(e.verdict, e.verdict, mark=_MARKS[e.verdict]),
            word(e.reason, 200), word(", ".join(e.members), 120),
        )
        for e in estimates
    )  # fmt: skip
    note = "Sensitivity is the share of the effects on the misfit. Intervals are of the posterior, where there is one."
    return ReportTable("parameters", heads, rows, note, "nothing was free")


def _value(value: object, unit: str) -> TableCell:
    return word(value) if isinstance(value, str) else amount("", value, unit)


def _parts(calibration: Calibration) -> list[tuple[str, Judgement]]:
    parts = [("fitted", calibration.fit)]
    return [*parts, ("held back", calibration.held_back)] if calibration.held_back is not None else parts


def _all(gaps: Sequence[Gap]) -> Gap | None:
    return next((gap for gap in gaps if gap.signal == ALL), gaps[0] if len(gaps) == 1 else None)


def _tiles(calibration: Calibration) -> list[Tile]:
    tiles = []
    for name, part in _parts(calibration):
        before, after = _all(part.before), _all(part.after)
        if after is None:
            continue
        for title, figure, meaning in (
            ("Gap", "w1", "W1 over the measured range, mean over signals by weight"),
            ("Error by row", "nrmse", "NRMSE, mean over signals by weight"),
        ):
            value = getattr(after, figure)
            detail = f"before {quantity(getattr(before, figure))}" if before is not None else ""
            tiles.append(Tile(f"{title}, {name}", quantity(value), exact(value), meaning, detail))
        if math.isfinite(after.floor):
            tiles.append(
                Tile(
                    f"Noise floor, {name}",
                    quantity(after.floor),
                    exact(after.floor),
                    "the gap (W1) of one measured half to the other",
                )
            )
    return [
        *tiles,
        Tile("Simulations", quantity(calibration.runs, "1"), exact(calibration.runs), "of one parameter vector"),
        Tile("Processor time", duration(calibration.cpu_seconds), exact(calibration.cpu_seconds), "of the search"),
    ]


def _badge(calibration: Calibration) -> tuple[str, str]:
    """How near it came on data that the search has not seen, in a few words, and a mark."""
    if calibration.held_back is None:
        return "nothing held back", "warn"
    before, after = _all(calibration.held_back.before), _all(calibration.held_back.after)
    if before is None or after is None or finite(after.w1) is None:
        return "not simulated", "bad"
    if _worse(after, before):
        return "farther than before", "bad"
    if after.w1 <= _FAR * after.floor:
        if before.w1 <= _FAR * after.floor:
            return "within twice the noise floor, as before", ""
        return "within twice the noise floor", "good"
    return (f"{before.w1 / after.w1:.3g} times as near", "good") if after.w1 < before.w1 else ("near", "")


def lead(calibration: Calibration) -> str:
    """What came out, in words without names of figures."""
    _, part = _parts(calibration)[-1]
    before, after = _all(part.before), _all(part.after)
    if after is None or finite(after.w1) is None:
        return "The calibrated simulation could not be compared with the measurements."
    data = "data that the search has not seen" if calibration.held_back is not None else "the data it was fitted to"
    text = f"On {data}, simulated and measured values are distributed {_percent(after.w1)} of the measured range apart"
    if before is not None and finite(before.w1) is not None:
        text += f"; before the calibration it was {_percent(before.w1)}"
    if finite(after.floor) is not None:
        text += f". One half of the measurements lies {_percent(after.floor)} from the other half"
        if after.w1 <= after.floor:
            text += ", so these data cannot show a better model"
    return text + "."


def _percent(part: float) -> str:
    return f"{digits(100.0 * part, 2)} %" if part >= 1e-4 else "less than 0.01 %"


def _worse(after: Gap, before: Gap) -> bool:
    """Whether a gap has grown: in distribution, and not made up for by nearer pairs or ranks."""
    return after.w1 > before.w1 and not after.nrmse < before.nrmse


def _facts(calibration: Calibration) -> list[tuple[str, str]]:
    return [
        ("method", calibration.method or NOTHING),
        ("ended", calibration.stopped or NOTHING),
        ("took", duration(calibration.wall_seconds)),
        ("seed", str(calibration.seed)),
        ("free parameters", str(len(calibration.estimates))),
    ]
