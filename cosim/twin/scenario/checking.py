"""Checks before a fit: whether the scenario, anywhere within its bounds, can make the measured data.

Measurements are compared with simulations all over the bounds (a prior predictive check: G. Box, J. R. Stat. Soc. A
143, 1980). Values of another size have another unit, or belong to another quantity. Tasks without a counterpart belong
to other devices. A node that never moves, where the simulation always does, reports wrong values. Two nodes that agree
better crosswise have swapped names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario.calibrate import SPACING
from cosim.twin.fitting.distances import wasserstein
from cosim.twin.problem import Floats
from cosim.twin.scenario.recording import Pairs, RecordingReader
from cosim.twin.telemetry.hygiene import share_of
from cosim.twin.telemetry.quantities import Pairing

Simulator = Callable[[Floats, int, Pairs], dict[str, Floats]]

_FAR = 20.0  # times beyond all that the bounds make: refused
_BEYOND = 1.5  # times beyond all that the bounds make: a warning
_STEPS = {
    1e3: "a thousand times",
    1e6: "a million times",
    1e9: "a billion times",
    60.0: "60 times",
    3600.0: "3600 times",
    100.0: "100 times",
    8.0: "8 times",
}
_STILL = 0.02  # of the mean: a simulated node that moves by more than this at every point of the bounds
_CROSSED = 0.6  # of the distance as named: two nodes agree better crosswise
_OTHER_WORK = 0.05  # of a node's time, that the scenario may lack
_BUSY = re.compile("util|cpu|load|usage|busy")  # in the names of columns with the share of time that a node works


def check(
    recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats], arrivals_free: bool
) -> tuple[str, ...]:
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
        wrong, told = _size(name, measured, rows)
        refused += wrong
        warnings += told
        if pairing.paired and met < 0.98 * count:
            warnings.append(f"{name}: {count - met} of {count} measured values have no simulated counterpart")
        elif quantity.of_tasks and not pairing.paired and not arrivals_free and quantity.column != SPACING:
            warnings += _counts(name, len(measured), met, recording)
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
    if ratio < _BEYOND:
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
    if ratio >= _FAR or (times and ratio >= 5.0):
        what = f"{times[0]} too {'large' if larger else 'small'}: is 'unit' right?" if times else ""
        what = what or f"{max(middle / usual, usual / middle):.3g} times off: another unit, or another quantity"
        return [Problem(f"{text}: {what}", "calibrate.observed", hint="say the unit of the column with 'unit:'")], []
    return [], [f"{text}: no free value reaches it; look at the unit, the bounds and what else the scenario says"]


def _counts(name: str, measured: int, simulated: int, recording: RecordingReader) -> list[str]:
    """Whether about as many tasks were measured as the simulation makes."""
    laws = {load.arrivals.law for load in recording.loaded.scenario.workloads.values()}
    slack = 5.0 * np.sqrt(measured + simulated) if laws - {"trace", "every"} else 0.0
    if abs(measured - simulated) <= max(slack, 0.1 * max(measured, simulated)):
        return []
    text = f"{name}: {measured} tasks were measured, and the simulation makes {simulated}: rows are missing, "
    return [text + "or the arrivals are others than the scenario's"]


def by_node(recording: RecordingReader) -> Pairs:
    """Distributions of every measured node of every signal of hosts and the like with two nodes or more."""
    found = {}
    for name, one in recording.series.items():
        if one.quantity.of_tasks or len(one.nodes) < 2 or len(one.nodes) > 24:
            continue
        for k in one.nodes:
            quantity = replace(one.quantity, nodes=(k,))
            found[f"{name}\0{k}"] = quantity, Pairing(quantity, one.rows.only(one.rows.nodes == k), paired=False)
    return found


def still(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> tuple[str, ...]:
    """Leave nodes out that never move while the simulation's always do; what was left out."""
    told = []
    for label, (_, pairing) in pairs.items():
        name, _, number = label.partition("\0")
        values = pairing.measured.values[np.isfinite(pairing.measured.values)]
        rows = simulated[label][np.isfinite(simulated[label]).all(axis=1)]
        if len(values) < 12 or np.ptp(values) > 0.0 or not len(rows):
            continue
        moving = rows.std(axis=1) / np.maximum(np.abs(rows.mean(axis=1)), 1e-12)
        if float(np.median(moving)) > _STILL:
            one, node = recording.series[name], int(number)
            if len(one.nodes) > 1:
                recording.series[name] = recording.without(one, [node])
                told.append(
                    f"{name} of {recording.nodes.name(node)}: always {values[0]:g}, and in the simulation it moves by "
                    f"{np.median(moving):.0%}; the node is left out on both sides"
                )
    return tuple(told)


def loads(recording: RecordingReader) -> Pairs:
    """The measured load of every node of signals of hosts, as a share, opposite the simulated utilisation.

    Includes only columns whose names and values are those of a share.
    """
    found = {}
    for name, one in recording.series.items():
        column = recording.block.observed[name].load or ""
        if one.loads is None or one.quantity.table != "host" or len(one.nodes) > 24 or not _BUSY.search(column.lower()):
            continue
        whole = share_of(one.loads)
        for k in one.nodes if whole is not None else ():
            mine, quantity = one.rows.nodes == k, replace(one.quantity, column="utilisation", nodes=(k,))
            rows = replace(one.rows.only(mine), values=one.loads[mine] / whole)
            if np.isfinite(rows.values).any():
                found[f"{name}\2{k}"] = quantity, Pairing(quantity, rows, paired=False)
    return found


def other_loads(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> tuple[str, ...]:
    """Nodes whose measured load (see `loads`) is far from all that the scenario makes within the bounds."""
    told = []
    for label, (_, pairing) in pairs.items():
        name, _, number = label.partition("\2")
        rows = simulated[label][np.isfinite(simulated[label]).all(axis=1)]
        measured = pairing.measured.values[np.isfinite(pairing.measured.values)]
        if not rows.size or not measured.size:  # rows without times are in no part of the run
            continue
        load, made = float(measured.mean()), rows.mean(axis=1)
        low, high = float(made.min()), float(made.max())
        if load > _BEYOND * high + _OTHER_WORK or _BEYOND * load + _OTHER_WORK < low:
            told.append(
                f"{name} of {recording.nodes.name(int(number))}: its load is {load:.2%} on the average, and the "
                f"scenario makes {low:.0%} to {high:.0%} within the bounds: percent or a fraction, the load of one "
                "core or of another node, or work that the scenario lacks"
            )
    return tuple(told)


def crossed(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> tuple[str, ...]:
    """Pairs of nodes whose values agree far better with each other's simulation, at the best point for either way."""
    told = []
    names = dict.fromkeys(label.partition("\0")[0] for label in pairs)
    for name in names:
        own = [label for label in pairs if label.partition("\0")[0] == name]
        values = [pairs[label][1].measured.values for label in own]
        values = [v[np.isfinite(v)] for v in values]
        usable = [k for k, v in enumerate(values) if len(v) >= 12 and np.isfinite(simulated[own[k]]).all(axis=1).any()]
        distance = {
            (a, b): wasserstein(values[a], np.nan_to_num(simulated[own[b]], nan=np.inf, posinf=1e300))
            for a in usable
            for b in usable
        }
        for i, a in enumerate(usable):
            for b in usable[i + 1 :]:
                as_named = distance[a, a] + distance[b, b]
                crosswise = distance[a, b] + distance[b, a]
                noise = _floor(values[a]) + _floor(values[b])
                if crosswise.min() < _CROSSED * as_named.min() and as_named.min() - crosswise.min() > noise:
                    one, other = (recording.nodes.name(int(own[k].partition("\0")[2])) for k in (a, b))
                    told.append(
                        f"{name} of {one} looks like that of {other} in the simulation, and the reverse: "
                        "are their names exchanged?"
                    )
    return tuple(told)


def _floor(values: Floats) -> float:
    """The distance of one half of the values to the other."""
    half = len(values) // 2
    return float(wasserstein(values[:half], values[half:][None])[0]) if half else 0.0


def points(sample: Callable[[int], Floats], start: Floats, count: int) -> Floats:
    """(count, d) units all over the bounds; the first is the start."""
    return np.concatenate([start[None], sample(count - 1)]) if count > 1 else start[None]


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
