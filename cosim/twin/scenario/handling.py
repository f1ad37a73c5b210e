"""Detect altered telemetry by comparison with prior-predictive simulations.

A meter that repeats a value, a missing value written as 0, a series filled up by straight lines, two meters under one
name: each of these is possible by itself, but no scenario makes it. So figures of the distribution and the order of
values are computed for the measurement of each node and for simulations all over the bounds (a prior predictive check:
G. Box, J. R. Stat. Soc. A 143, 1980). Figures that no simulation comes near are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.scenario.calibrate import SPACING
from cosim.twin.problem import Floats, MeasuredSignal
from cosim.twin.scenario.recording import Pairs, RecordingReader
from cosim.twin.scenario.rows import LEAST, grid, of_each_node
from cosim.twin.telemetry.hygiene import examine
from cosim.twin.telemetry.quantities import Pairing, Rows, spacings
from cosim.twin.telemetry.tables import decimal_step, rounded

_BEYOND, _FEW = 0.02, 3  # share and number of values that no simulation reaches: reported
_FEW_SHARE = 0.1  # of values, that a rare event may make
_SLACK, _SLACK_OF_FEW = 0.05, 0.5  # of the largest and the smallest simulated value; where less than a tenth is beyond
_AGAIN = 0.05  # share of one value, above the simulation's
_COARSE = 0.1  # of the middle half of the values: steps that are reported
_STRAIGHT = 0.3  # share of values on straight lines, above the simulation's
_DEVIATIONS = 4.0
_SMOOTHER = 3.5  # deviations
_NEAREST = 12  # simulations whose mean is nearest; at the ends of the bounds queues move as slowly as averages
_WINDOW = 60  # values of a moving average, at most
_SOME = 60  # tasks needed to see whether fast ones are missing
_EDGE, _SHORT, _FASTER = 0.02, 0.2, 1.5  # share near the least; the least over the median, and over the fastest answers
_LATE, _ALIKE = 5.0, 0.5  # times the time between answers, share of it by which responses differ
_NEAR = 0.2  # of the least response
_OFTEN = 0.1  # share of simulations
_TIES = 0.02  # share of tasks created together


def courses(recording: RecordingReader) -> Pairs:
    """The values of every measured node in order of time, by signal and node."""
    found = {}
    for name, one in recording.series.items():
        for k, rows in of_each_node(one):
            quantity = one.quantity if k < 0 else replace(one.quantity, nodes=(k,))
            found[f"{name}\1{k}"] = quantity, Pairing(quantity, rows, paired=False, ordered=True)
    return found


def signs(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> list[str]:
    """What no simulation (n, m) of `pairs` comes near, by signal and node."""
    told: list[str] = []
    smooth: dict[str, list[Floats]] = {}
    for label, (quantity, pairing) in pairs.items():
        if quantity.column == SPACING:
            continue  # rows that only a busy server has do not follow one another
        name, _, number = label.partition("\1")
        subject = recording.label(name) + (f" of {recording.nodes.name(int(number))}" if int(number) >= 0 else "")
        values = pairing.measured.values[np.argsort(pairing.measured.times, kind="stable")]
        values = values[np.isfinite(values)]
        rows = [row[np.isfinite(row)] for row in simulated[label]]
        rows = [row for row in rows if len(row) >= LEAST]
        if quantity.column == "response" and len(values) >= LEAST:
            told += [f"{subject}: {what}" for what in _late(pairing.measured, rows)]
            told += [f"{subject}: {what}" for what in fast_ones_missing(pairing.measured, rows)]
        if len(values) >= LEAST and rows and np.ptp(values) > 0.0:
            told += [f"{subject}: {what}" for what in _unlike(values, rows, smooth.setdefault(name, []))]
    for name, off in smooth.items():
        if off and float(np.max([*off, np.sum(off, axis=0) / np.sqrt(len(off))])) > _SMOOTHER:
            told.append(
                f"{recording.label(name)}: values follow one another more closely than in any simulation: averaged "
                "over a window or interpolated, or with a cause that the scenario lacks"
            )
    return told


def usual(pairs: Pairs, simulated: Mapping[str, Floats]) -> dict[str, frozenset[str]]:
    """Signal -> what looks like a fault of a sensor in its values and is there in simulations (n, m) of `pairs` too.

    Responses of a server of constant speed that is seldom busy are all alike, but for few that are far from them.
    Outliers beyond all that is simulated stay outliers.
    """
    kinds: dict[str, set[str]] = {}
    for label, (_, pairing) in pairs.items():
        name = label.partition("\1")[0]
        values = pairing.measured.values[np.isfinite(pairing.measured.values)]
        step = decimal_step(values)
        rows = [rounded(row[np.isfinite(row)], step) for row in simulated[label]]
        rows = [row for row in rows if len(row) >= LEAST]
        if len(values) < LEAST or not rows:
            continue
        found = [{f.kind for f in examine({"": MeasuredSignal(row)})[1]} for row in rows]
        often = {
            kind
            for kind in ("outliers", "stuck", "steps", "limit")
            if sum(kind in one for one in found) >= _OFTEN * len(rows)
        }
        if _beyond(values, rows, _SLACK_OF_FEW)[0].any():
            often.discard("outliers")
        own = kinds.setdefault(name, often)
        own &= often
    return {name: frozenset(found) for name, found in kinds.items() if found}


def _late(measured: Rows, rows: list[Floats]) -> Iterator[str]:
    """Responses that are all as long, where answers follow one another much faster: another clock stamps the ends.

    A long way, and many servers of constant speed, do the same; but then there are simulations like that.
    """
    values = measured.values[np.isfinite(measured.values)]
    apart = spacings(measured.times, measured.values)
    apart = apart[np.isfinite(apart)]
    if len(apart) < LEAST:
        return
    least, often = float(values.min()), float(np.median(apart))
    alike = any(abs(row.min() / least - 1.0) < _NEAR and np.ptp(row) < _ALIKE * row.min() for row in rows)
    if least > _LATE * often > 0.0 and float(np.ptp(values)) < _ALIKE * least and not alike:
        yield (
            f"every response takes {least:.4g} s or more, all are alike, and answers follow one another after "
            f"{often:.3g} s: is the end stamped by another clock? Else the way is that long"
        )


def fast_ones_missing(measured: Rows, rows: list[Floats]) -> Iterator[str]:
    """Responses that begin at one length though the server is faster, in bursts: only slow ones were written down.

    A least service time, and a way of constant length, begin as sharply; but then there are simulations that do too.
    """
    values, times = measured.values, measured.times
    apart = spacings(times, values)
    apart = apart[np.isfinite(apart)]
    kept = np.isfinite(values) & np.isfinite(times)
    values, times = values[kept], np.sort(times[kept])
    if len(values) < _SOME or len(apart) < LEAST:
        return
    least, middle = float(values.min()), float(np.median(values))
    sharp = any(row.min() > _SHORT * np.median(row) and _at_edge(row) > _EDGE for row in rows)
    fast = float(np.quantile(apart, 0.1))
    counts = np.histogram(times, bins=len(times) // 5)[0]
    bursts = (float(counts.var(ddof=1) / counts.mean()) - 1.0) * np.sqrt((len(counts) - 1) / 2.0)
    if not sharp and _at_edge(values) > _EDGE and least > max(_SHORT * middle, _FASTER * fast) and bursts > _DEVIATIONS:
        yield (
            f"no response is shorter than {least:.4g} s and many are hardly longer, answers follow one another after "
            f"{fast:.3g} s, and tasks come in bursts: were fast ones left out, by a logger with a threshold?"
        )


def _at_edge(values: Floats) -> float:
    """Share of values that are hardly above the least one."""
    least = float(values.min())
    return float(np.mean(values <= least + 0.05 * (float(np.median(values)) - least)))


def _unlike(values: Floats, rows: list[Floats], smooth: list[Floats]) -> Iterator[str]:
    """What `rows` are never like; how much smoother values are goes to `smooth`, where nothing explains it."""
    outside, low, high = _beyond(values, rows, _SLACK)
    if outside.mean() < _FEW_SHARE:
        outside, low, high = _beyond(values, rows, _SLACK_OF_FEW)
    count = int(outside.sum())
    if count >= max(_FEW, _BEYOND * len(values)):
        middle = float(np.median(values[outside]))
        yield (
            f"{count} of {len(values)} values, such as {middle:.4g}, are beyond {low:.4g} to {high:.4g}, all that the "
            "scenario makes within the bounds: another unit or scale, a word for a missing value, or too narrow bounds"
        )
        values = values[~outside]
    if len(values) < LEAST or np.ptp(values) == 0.0:
        return
    step = grid(values)
    alike = [np.round(row / step) * step if step > 0.0 else row for row in rows]
    value, share = _commonest(values)
    usual = max(_commonest(row)[1] for row in alike)
    if share > usual + max(_AGAIN, _DEVIATIONS * np.sqrt(usual * (1.0 - usual) / len(values))):
        yield (
            f"{share:.0%} of the values are exactly {value:.4g}, and in no simulation more than {usual:.0%} are alike: "
            "a sensor that stood still, a limit, or a word for a missing value"
        )
    # Many tasks a second, written with few digits, have equal values by chance.
    digits = decimal_step(values)
    again = _again(rounded(values, digits))
    usual = max(_again(rounded(row, digits)) for row in alike)
    if again > usual + max(_TIES, _DEVIATIONS * np.sqrt(usual * (1.0 - usual) / len(values))):
        yield f"{again:.0%} of the values are there once more: rows that were written again, at another time?"
    wide = _middle(values)
    if step > _COARSE * wide > 0.0 and min(grid(row) / max(_middle(row), 1e-300) for row in rows) < _COARSE:
        yield f"values come in steps of {step:.4g}, and half of them lie within {wide:.4g}: rounded"
    straight = _straight(values, step)
    if straight > _STRAIGHT + max(_straight(row, 0.0) for row in rows):
        yield f"{straight:.0%} of the values lie on straight lines between their neighbours: interpolated"
    elif len(values) > 2 and np.all(np.diff(values) >= 0.0) and not any(np.all(np.diff(row) >= 0.0) for row in rows):
        yield "values never fall: a counter since some beginning, where the scenario has what happens meanwhile"
    else:
        nearest = sorted(rows, key=lambda row: abs(float(row.mean() - values.mean())))[:_NEAREST]
        usual_of = np.max([_smoothness(row) for row in nearest], axis=0)
        smooth.append((_smoothness(values) - usual_of) * np.sqrt(len(values)))


def _beyond(values: Floats, rows: list[Floats], slack: float) -> tuple[NDArray[np.bool_], float, float]:
    """Which values no simulation reaches, and the least and the largest that are reached."""
    low, high = min(float(row.min()) for row in rows), max(float(row.max()) for row in rows)
    more = slack * max(abs(low), abs(high)) if low < 0.0 else 0.0
    below = values < (low - more if low < 0.0 else low / (1.0 + slack))
    return below | (values > high * (1.0 + slack) + more), low, high


def _commonest(values: Floats) -> tuple[float, float]:
    """The value that there is most often, and its share."""
    unit = 1e-5 * (float(np.median(np.abs(values))) or float(np.abs(values).max()) or 1.0)
    found, counts = np.unique(np.round(values / unit), return_counts=True)
    k = int(np.argmax(counts))
    return float(found[k] * unit), float(counts[k]) / len(values)


def _again(values: Floats) -> float:
    """Share of values that another one equals."""
    unit = 1e-7 * (float(np.median(np.abs(values))) or float(np.abs(values).max()) or 1.0)
    return 1.0 - len(np.unique(np.round(values / unit))) / len(values)


def _middle(values: Floats) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)


def _straight(values: Floats, step: float) -> float:
    """Share of values that rise or fall and are the mean of their neighbours."""
    rises = np.diff(values)
    usual = float(np.median(np.abs(rises)))
    tolerance = max(1e-6 * float(np.ptp(values)), step)
    if tolerance > 0.05 * usual:
        return 0.0
    moving = np.abs(rises) > tolerance
    return float(np.mean((np.abs(np.diff(rises)) <= 2.0 * tolerance) & moving[1:] & moving[:-1]))


def _smoothness(values: Floats) -> Floats:
    """(2,) how alike steps from one value to the next are, and how much a step is undone later.

    A moving average over k values takes back after k values what it had added: steps are opposed k apart, and nearer
    ones are as alike as values were. Both have a standard deviation of about 1 over the root of the number of values.
    """
    steps = np.diff(values)
    usual = float(np.quantile(np.abs(steps), 0.9))
    steps = np.clip(steps, -usual, usual)
    if usual == 0.0:
        return np.zeros(2)
    apart = range(1, max(min(_WINDOW, len(values) // 5), 3))
    alike = [float(np.mean(steps[:-k] * steps[k:]) / np.mean(steps**2)) for k in apart]
    return np.array([alike[0], -min(alike[1:])])
