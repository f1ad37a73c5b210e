"""Signs that values were changed between the sensor and the table, found by holding them against simulations.

A meter that repeats a value, a missing value written as 0, a series filled up by straight lines, two meters under one
name: none of this is impossible by itself, but no scenario makes it. So figures of how values lie and follow one
another are asked of the measurement of each node and of simulations all over the bounds (a prior predictive
check: G. Box, J. R. Stat. Soc. A 143, 1980). What no simulation comes near is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cosim.scenario.calibrate import SPACING
from cosim.twin.problem import Floats
from cosim.twin.scenario.recording import Pairs, RecordingReader, Series
from cosim.twin.telemetry.quantities import Pairing, Rows, spacings
from cosim.twin.telemetry.timing import regular

_LEAST = 30  # values of a node
_NODES = 24  # of a signal, that are looked at one by one
_BEYOND, _FEW = 0.02, 3  # share and number of values that no simulation reaches: told
_FEW_SHARE = 0.1  # of values, that a rare event may make
_SLACK, _SLACK_OF_FEW = 0.05, 0.5  # of the largest and the smallest simulated value; where less than a tenth is beyond
_AGAIN = 0.05  # share of one value, above the simulation's
_COARSE = 0.25  # of the middle half of the values: steps that are told
_STRAIGHT = 0.3  # share of values on straight lines, above the simulation's
_DEVIATIONS = 4.0
_SMOOTHER = 3.5  # deviations
_NEAREST = 12  # simulations whose mean is nearest; at the ends of the bounds queues move as slowly as averages
_WINDOW = 60  # values of a moving average, at most
_SURE = 1e-4  # expected gaps of such a length by chance
_LATE, _ALIKE = 5.0, 0.5  # times the time between answers, share of it by which responses differ
_SOME = 60  # tasks, that tell whether fast ones are missing
_OTHER_LOAD = 2.5  # deviations by which the times between tasks change with time: no warm-up can be told
_EDGE, _SHORT, _FASTER = 0.02, 0.2, 1.5  # share near the least; the least over the median, and over the fastest answers
_SIZES = 5.0  # times the mean that the scenario says, of replayed sizes
_TIES = 0.02  # share of tasks created together


def courses(recording: RecordingReader) -> Pairs:
    """The values of every measured node in order of time, by signal and node; of spacings none."""
    found = {}
    for name, one in recording.series.items():
        if one.quantity.column == SPACING:
            continue
        for k, rows in _by_node(one):
            quantity = one.quantity if k < 0 else replace(one.quantity, nodes=(k,))
            found[f"{name}\1{k}"] = quantity, Pairing(quantity, rows, paired=False, ordered=True)
    return found


def _by_node(one: Series) -> Iterator[tuple[int, Rows]]:
    """(node, its rows); -1 for rows that name none."""
    numbers = np.unique(one.rows.nodes).tolist()
    for k in numbers if len(numbers) <= _NODES else ():
        yield k, one.rows.only(one.rows.nodes == k)


def signs(recording: RecordingReader, pairs: Pairs, simulated: Mapping[str, Floats]) -> list[str]:
    """What no simulation (n, m) of `pairs` comes near, by signal and node."""
    told: list[str] = []
    smooth: dict[str, list[Floats]] = {}
    for label, (_, pairing) in pairs.items():
        name, _, number = label.partition("\1")
        subject = recording.label(name) + (f" of {recording.nodes.name(int(number))}" if int(number) >= 0 else "")
        values = pairing.measured.values[np.isfinite(pairing.measured.values)]
        rows = [row[np.isfinite(row)] for row in simulated[label]]
        rows = [row for row in rows if len(row) >= _LEAST]
        if len(values) >= _LEAST and rows and np.ptp(values) > 0.0:
            told += [f"{subject}: {what}" for what in _unlike(values, rows, smooth.setdefault(name, []))]
    for name, off in smooth.items():
        if off and float(np.max([*off, np.sum(off, axis=0) / np.sqrt(len(off))])) > _SMOOTHER:
            told.append(
                f"{recording.label(name)}: values follow one another more closely than in any simulation: averaged "
                "over a window or interpolated, or with a cause that the scenario lacks"
            )
    return told


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
    if len(values) < _LEAST or np.ptp(values) == 0.0:
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
    again = _again(values)
    usual = max(_again(row) for row in alike)
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


def grid(values: Floats) -> float:
    """The step that all values are multiples of; 0 if there is none that can be told from none."""
    found = np.unique(values)
    steps = np.diff(found)
    steps = steps[steps > 1e-4 * np.ptp(values)]
    if len(steps) < 2 or len(found) > 2000:
        return 0.0
    step = float(steps.min())
    places = (found - found[0]) / step
    return step if np.abs(places - np.round(places)).max() < 0.02 else 0.0


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


def rows_told(recording: RecordingReader) -> list[str]:
    """What the rows of tables say without any simulation: two meters of a node, copies of a node, times of tasks."""
    told: list[str] = []
    for name, one in recording.series.items():
        if not one.from_file or not one.timed or one.quantity.column == SPACING:
            continue
        label = recording.label(name)
        nodes = list(_by_node(one))
        for k, rows in nodes:
            subject = label + (f" of {recording.nodes.name(k)}" if k >= 0 else "")
            times = rows.times[np.isfinite(rows.times)]
            if len(times) < _LEAST:
                continue
            if one.quantity.of_tasks:
                told += [f"{subject}: {what}" for what in (*_arrivals(times, recording), *_late(one, rows))]
                continue
            double = len(times) - len(np.unique(times))
            if double > 0.1 * len(times):
                told.append(
                    f"{subject}: {double} rows have the time of another row and another value: two meters of one node?"
                )
        told += _copied(label, recording, nodes)
        if one.quantity.column == "response":
            told += [f"{label}: {what}" for what in _warming([rows for _, rows in nodes])]
        if one.quantity.of_tasks and len(nodes) > 1:
            every = np.sort(one.rows.times[np.isfinite(one.rows.times)])
            told += [f"{label}: {what}" for what in _silent(every, recording)]
    return told


def _late(one: Series, rows: Rows) -> Iterator[str]:
    """Responses that are all as long, where answers follow one another much faster: another clock stamps the ends."""
    if one.quantity.column != "response":
        return
    values = rows.values[np.isfinite(rows.values)]
    apart = spacings(rows.times, rows.values)
    apart = apart[np.isfinite(apart)]
    if len(apart) < _LEAST or not len(values):
        return
    least, usual = float(values.min()), float(np.median(apart))
    if least > _LATE * usual > 0.0 and float(np.ptp(values)) < _ALIKE * least:
        yield (
            f"every response takes {least:.4g} s or more, all are alike, and answers follow one another after "
            f"{usual:.3g} s: is the end stamped by another clock? Else the way is that long"
        )
    yield from _fast_ones_missing(rows, apart)


def _fast_ones_missing(rows: Rows, apart: Floats) -> Iterator[str]:
    """Responses that begin at one length though the server is faster, in bursts: only slow ones were written down.

    A least service time, and a way of constant length, begin as sharply; but then tasks come as they did before.
    """
    values, times = rows.values, rows.times
    kept = np.isfinite(values) & np.isfinite(times)
    values, times = values[kept], np.sort(times[kept])
    if len(values) < _SOME:
        return
    least, middle = float(values.min()), float(np.median(values))
    at_edge = float(np.mean(values <= least + 0.05 * (middle - least)))
    fast = float(np.quantile(apart, 0.1))
    counts = np.histogram(times, bins=len(times) // 5)[0]
    bursts = (float(counts.var(ddof=1) / counts.mean()) - 1.0) * np.sqrt((len(counts) - 1) / 2.0)
    if at_edge > _EDGE and least > max(_SHORT * middle, _FASTER * fast) and bursts > _DEVIATIONS:
        yield (
            f"no response is shorter than {least:.4g} s and many are hardly longer, answers follow one another after "
            f"{fast:.3g} s, and tasks come in bursts: were fast ones left out, by a logger with a threshold?"
        )


def _warming(devices: list[Rows]) -> Iterator[str]:
    """Whether tasks took longer at first, and ever less so.

    What a server took for a task is the time from its coming, or from the end of the one before, to its end. Its ranks
    are held against exponential courses; the chance of that is widened by how ranks hang together.
    """
    found: list[Floats] = []
    early, late = [], []
    for rows in devices:
        kept = np.isfinite(rows.values) & np.isfinite(rows.times)
        created, ended = rows.times[kept], rows.times[kept] + rows.values[kept]
        order = np.argsort(ended, kind="stable")
        created, ended = created[order], ended[order]
        if len(ended) < _LEAST or np.ptp(created) == 0.0:
            continue
        took = ended - np.maximum(created, np.concatenate([[-np.inf], ended[:-1]]))
        place = (created - created.min()) / np.ptp(created)
        came = np.sort(created)
        apart = _fading(np.diff(came), (came[1:] - came[0]) / np.ptp(came))
        if np.abs(apart).max() > _OTHER_LOAD or np.ptp(took) == 0.0:
            continue  # another load at first: several servers are then as unlike as slow ones
        found.append(_fading(took, place))
        early.append(float(took[place < 0.1].mean()) if (place < 0.1).any() else np.nan)
        late.append(float(took[place >= 0.5].mean()))
    if found and max(float(np.max(one)) for one in (*found, np.sum(found, axis=0) / np.sqrt(len(found)))) > _SMOOTHER:
        yield (
            f"a task took the server {np.nanmean(early):.3g} s at first and {np.mean(late):.3g} s in the second half, "
            "fading: a warm-up; leave it out with 'fit: {from: ...}'"
        )


def _fading(values: Floats, place: Floats) -> Floats:
    """(4,) deviations by which ranks of values follow courses that fade, at the places (0 to 1) where they are."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    ranks = (ranks - ranks.mean()) / ranks.std()
    together = 1.0 + 2.0 * sum(float(np.mean(ranks[:-k] * ranks[k:])) for k in range(1, 11))
    courses = np.exp(-place / np.array([[0.02], [0.05], [0.1], [0.2]]))
    courses = (courses - courses.mean(axis=1, keepdims=True)) / courses.std(axis=1, keepdims=True)
    return np.asarray(courses @ ranks / np.sqrt(len(values) * max(together, 0.5)))


def _arrivals(times: Floats, recording: RecordingReader) -> Iterator[str]:
    """What is odd about the times at which tasks of one device were created."""
    times = np.sort(times)
    spacing = float(np.ptp(times)) / max(len(times) - 1, 1)
    ties = int((np.diff(times) == 0.0).sum())
    step = grid(times)
    laws = {load.arrivals.law for load in recording.loaded.scenario.workloads.values()}
    by_chance = len(times) * (step if step > 1e-6 else 0.0) / spacing if spacing > 0.0 else 0.0
    if laws <= {"poisson"} and not regular(times) and ties > max(_FEW, _TIES * len(times), 3.0 * by_chance):
        yield f"{ties} tasks were created at the same time as another of their device: tried again, and counted twice?"
    elif laws <= {"poisson"} and step > 0.2 * spacing and ties > 0.1 * len(times):
        yield f"times of creation come in steps of {step:.3g} s, and tasks every {spacing:.3g} s: rounded"
    places = round(float(np.ptp(times)) / step) + 1 if step > 0.0 else 0
    if not ties and 1.05 * len(times) < places < 4 * len(times):
        missing = f"{places - len(times)} of {places} tasks are missing"
        yield f"{missing}: the others were created every {step:.4g} s or a multiple of it"
    yield from _silent(times, recording)


def _silent(times: Floats, recording: RecordingReader) -> Iterator[str]:
    """A time without tasks that a Poisson process has not."""
    scenario = recording.loaded.scenario
    if recording.block.replay is not None or len(times) < _LEAST:
        return
    if any(w.arrivals.law != "poisson" or w.active or w.idle for w in scenario.workloads.values()):
        return
    gaps = np.diff(times)
    longest = float(gaps.max())
    rate = (len(times) - 1) / (float(np.ptp(times)) - longest) if np.ptp(times) > longest else 0.0
    if len(times) * np.exp(-rate * longest) < _SURE:
        at = float(times[int(np.argmax(gaps))])
        yield f"no task was created for {longest:.3g} s after {at:.4g} s, of {rate:.3g} a second: rows are missing"


def sizes_told(recording: RecordingReader) -> list[str]:
    """What is odd about the sizes of replayed tasks, held against the workload's own law."""
    told: list[str] = []
    replay = recording.block.replay
    if replay is None or recording.tasks is None:
        return told
    for name, load in recording.loaded.scenario.workloads.items():
        rows = recording.tasks.get(name, ())
        for k, size in enumerate(replay.sizes, start=2):
            law = getattr(load, size)
            values = np.array([np.nan if row[k] is None else row[k] for row in rows], np.float64)
            if law is None or law.mean <= 0.0 or not len(values) or not np.isfinite(values).any():
                continue
            subject = f"replay: {size} of '{name}'"
            lost, zero = int(np.isnan(values).sum()), int((values == 0.0).sum())
            if lost:
                told.append(f"{subject}: {lost} of {len(values)} tasks have none; they are drawn by the workload's law")
            if zero:
                told.append(f"{subject}: {zero} of {len(values)} are 0: a word for a missing value?")
            if not (values > 0.0).any():
                continue
            middle = float(np.median(values[values > 0.0]))
            ratio = max(middle / law.mean, law.mean / middle)
            binary = law.law == "fixed" and any(abs(ratio / 1.024**n - 1.0) < 1e-3 for n in (1, 2, 3))
            if ratio > _SIZES or binary:
                what = "a unit by 1024 and one by 1000" if binary else f"say the unit with 'units: {{{size}: UNIT}}'"
                told.append(f"{subject}: in the middle {middle:.4g}, and the scenario says {law.mean:.4g}: {what}")
    return told


def _copied(label: str, recording: RecordingReader, nodes: list[tuple[int, Rows]]) -> Iterator[str]:
    """Nodes with the same values at the same times."""
    for i, (a, one) in enumerate(nodes):
        for b, other in nodes[i + 1 :]:
            _, here, there = np.intersect1d(one.times, other.times, return_indices=True)
            first, second = one.values[here], other.values[there]
            if len(here) < 12 or np.ptp(first) == 0.0 or len(np.unique(first)) < 0.3 * len(first):
                continue
            same = float(np.mean(first == second))
            if same > 0.5:
                names = f"{recording.nodes.name(a)} and {recording.nodes.name(b)}"
                yield f"{label}: {same:.0%} of the values of {names} are the same at the same times: one is a copy"
