"""Checks before a fit: whether the scenario, anywhere within its bounds, can make the measured data.

Measurements are compared with simulations all over the bounds (a prior predictive check: G. Box, J. R. Stat. Soc. A
143, 1980). Values of another size have another unit, or belong to another quantity. Tasks without a counterpart belong
to other devices. A node that never moves, where the simulation always does, reports wrong values. Only what must be
known before a fit is looked at here; all else is judged under the fitted model (`cosim.twin.judgement`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.results.outliers import OUTLIER, PART, far
from cosim.twin.judgement.course import LEAST, decimal_step, rounded
from cosim.twin.problem import Floats, MeasuredSignal
from cosim.twin.scenario.recording import Pairs, RecordingReader
from cosim.twin.scenario.rows import of_each_node
from cosim.twin.telemetry.hygiene import ALONE, UNITS, examine, share_of
from cosim.twin.telemetry.quantities import Quantity, Rows, ValuePairing

_FAR = 20.0  # times beyond all that the bounds make: refused, as units differ by 60 times or more but for bits
_STEPS = {  # between units that tables have: SI prefixes, minutes, hours, percent, bits
    1e3: "a thousand times",
    1e6: "a million times",
    1e9: "a billion times",
    60.0: "60 times",
    3600.0: "3600 times",
    100.0: "100 times",
    8.0: "8 times",
}
_BUSY = re.compile("util|cpu|load|usage|busy")  # in the names of columns with the share of time that a node works


def check(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> tuple[str, ...]:
    """Warnings about signals of one part, given simulations (n, m) of each all over the bounds.

    Raises `ScenarioError` with everything that cannot be, at once.
    """
    refused: list[Problem] = []
    warnings: list[str] = []
    for name, (quantity, pairing) in pairs.items():
        measured = pairing.measured.values[np.isfinite(pairing.measured.values)]
        rows = simulated[name]
        rows = rows[np.isfinite(rows).any(axis=1)]
        if not len(measured) or not len(rows):
            continue
        met, count = pairing.met, len(pairing.measured.values)
        if pairing.paired and met < 0.5 * count:
            whose = "times and nodes" if not quantity.of_tasks else "devices, workloads and tasks"
            hint = "look at the names of nodes, at the times, and at 'replay'"
            message = f"'{name}': only {met} of {count} measured values have a simulated counterpart by {whose}"
            refused.append(Problem(message, "calibrate.observed", recording.loaded.path, hint=hint))
            continue
        wrong, warned = _size(name, measured, rows)
        refused += wrong
        warnings += warned
        if pairing.paired and met < 0.98 * count:
            warnings.append(f"{name}: {count - met} of {count} measured values have no simulated counterpart")
    if refused:
        raise ScenarioError(refused)
    return tuple(warnings)


def _size(name: str, measured: Floats, rows: Floats) -> tuple[list[Problem], list[str]]:
    """Whether the measured median lies where the bounds put simulated values."""
    middle = float(np.median(measured))
    low = float(np.nanmin(np.nanquantile(rows, 0.05, axis=1)))
    high = float(np.nanmax(np.nanquantile(rows, 0.95, axis=1)))
    if not (middle > 0.0 and high > 0.0):
        return [], []
    ratio = middle / high if middle > high else low / middle if middle < low else 1.0
    if ratio < ALONE:
        return [], []
    usual = float(np.exp(np.nanmean(np.log(np.maximum(np.nanmedian(rows, axis=1), 1e-300)))))
    larger = middle > high
    times = [
        word
        for step, word in _STEPS.items()
        if low * 0.8 <= (middle / step if larger else middle * step) <= high * 1.25
    ]
    made = f"the scenario makes {low:.4g} to {high:.4g} within all bounds"
    text = f"'{name}': the measured median is {middle:.4g}, and {made}"
    if ratio >= _FAR or (times and ratio >= UNITS):
        what = f"{times[0]} too {'large' if larger else 'small'}: is 'unit' right?" if times else ""
        what = what or f"{max(middle / usual, usual / middle):.3g} times off: another unit, or another quantity"
        return [Problem(f"{text}: {what}", "calibrate.observed", hint="say the unit of the column with 'unit:'")], []
    return [], [f"{text}: no free value reaches it; look at the unit, the bounds and what else the scenario says"]


def courses(recording: RecordingReader) -> Pairs:
    """The values of every measured node in order of time, by signal and node."""
    found = {}
    for name, one in recording.series.items():
        for k, rows in of_each_node(one):
            quantity = one.quantity if k < 0 else replace(one.quantity, nodes=(k,))
            found[f"{name}\0{k}"] = quantity, ValuePairing(quantity, rows, paired=False, ordered=True)
    return found


def usual(pairs: Pairs, simulated: Mapping[str, Floats]) -> dict[str, frozenset[str]]:
    """Signal -> what looks like a fault of a sensor in its values and is there in simulations (n, m) of `pairs` too.

    Responses of a server of constant speed that is seldom busy are all alike, but for few that are far from them.
    Outliers beyond all that is simulated stay outliers.
    """
    kinds: dict[str, set[str]] = {}
    for label, (_, pairing) in pairs.items():
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
            if sum(kind in one for one in found) >= (1.0 if kind in ("outliers", "limit") else PART * len(rows))
        }
        near = (values.max() * np.median(row) <= ALONE * row.max() * np.median(values) for row in rows)
        if values.min() > 0.0 and far(values, OUTLIER).sum() == 1 and any(near):
            often.add("outliers")  # a single one is the end of a long tail where simulations reach nearly as far
        if values.max() > ALONE * max(float(row.max()) for row in rows):
            often.discard("outliers")
        own = kinds.setdefault(label.partition("\0")[0], often)
        own &= often
    return {name: frozenset(found) for name, found in kinds.items() if found}


def still(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> tuple[str, ...]:
    """Leave nodes out that never move while the simulation's always do; what was left out."""
    warned = []
    for label, (_, pairing) in pairs.items():
        name, _, number = label.partition("\0")
        values = pairing.measured.values[np.isfinite(pairing.measured.values)]
        rows = simulated[label][np.isfinite(simulated[label]).all(axis=1)]
        if len(values) < 12 or np.ptp(values) > 0.0 or not len(rows):
            continue
        if (np.ptp(rows, axis=1) > 0.0).all():  # none of the simulations all over the bounds stands still
            moving = rows.std(axis=1) / np.maximum(np.abs(rows.mean(axis=1)), 1e-12)
            one, node = recording.series[name], int(number)
            if len(one.nodes) > 1:
                recording.series[name] = recording.without(one, [node])
                warned.append(
                    f"{name} of {recording.nodes.name(node)}: always {values[0]:g}, and in the simulation it moves by "
                    f"{np.median(moving):.0%}; the node is left out on both sides"
                )
    return tuple(warned)


def loads(recording: RecordingReader, pairs: Pairs) -> list[tuple[str, Quantity, Rows]]:
    """The measured load of the nodes of signals of hosts, as a share, opposite the simulated utilisation.

    Includes only columns whose names and values are those of a share.
    """
    found = []
    for name, one in recording.series.items():
        column = recording.block.observed[name].load or ""
        label = recording.label(name)
        if one.loads is None or one.quantity.table != "host" or label not in pairs or not _BUSY.search(column.lower()):
            continue
        whole = share_of(one.loads)
        if whole is not None:
            of = replace(pairs[label][0], column="utilisation")
            found.append((label, of, replace(one.rows, values=one.loads / whole)))
    return found


def random_signals(first: Mapping[str, Floats], other: Mapping[str, Floats], pairs: Pairs) -> Sequence[str]:
    """Paired signals that two seeds move by as much as the tasks differ: pairs of such values mean nothing."""
    found = []
    for name, (_, pairing) in pairs.items():
        if not pairing.paired:
            continue
        a, b = first[name][0], other[name][0]
        kept = np.isfinite(a) & np.isfinite(b)
        spread = float(np.std(a[kept])) if kept.any() else 0.0
        if spread > 0.0 and float(np.sqrt(np.mean((a[kept] - b[kept]) ** 2))) > 0.3 * spread:
            found.append(name)
    return found
