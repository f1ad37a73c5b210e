"""Checks of table rows without simulation: copies, two meters under one name, odd times and sizes of tasks.

Rows that were lost, rounded, written twice or stamped by another clock leave signs in the times of tasks alone. A queue
that warms up leaves signs in the time that its server took for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cosim.scenario.calibrate import SPACING
from cosim.twin.problem import Floats
from cosim.twin.scenario.recording import RecordingReader, Series
from cosim.twin.telemetry.order import ranks
from cosim.twin.telemetry.quantities import Rows
from cosim.twin.telemetry.timing import regular

LEAST = 30  # values of a node
_NODES = 24  # of a signal, that are looked at one by one
_FEW, _TIES = 3, 0.02  # number and share of tasks created together
_WARM = 3.5  # deviations
_MATTERS = 1.02  # times as long as later, from which a warm-up is reported
_SURE = 1e-4  # expected gaps of such a length by chance
_OTHER_LOAD = 2.5  # deviations by which the times between tasks change with time: no warm-up can be recognised
_SIZES = 5.0  # times the mean in the scenario, of replayed sizes


def of_each_node(one: Series) -> Iterator[tuple[int, Rows]]:
    """(node, its rows); -1 for rows that name none."""
    numbers = np.unique(one.rows.nodes).tolist()
    for k in numbers if len(numbers) <= _NODES else ():
        yield k, one.rows.only(one.rows.nodes == k)


def rows_told(recording: RecordingReader) -> list[str]:
    """Findings from table rows without simulation: two meters of a node, copies of a node, times of tasks."""
    told: list[str] = []
    for name, one in recording.series.items():
        if not one.from_file or not one.timed or one.quantity.column == SPACING:
            continue
        label = recording.label(name)
        nodes = list(of_each_node(one))
        for k, rows in nodes:
            subject = label + (f" of {recording.nodes.name(k)}" if k >= 0 else "")
            times = rows.times[np.isfinite(rows.times)]
            if len(times) < LEAST:
                continue
            if one.quantity.of_tasks:
                told += [f"{subject}: {what}" for what in _arrivals(times, recording)]
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


def _warming(devices: list[Rows]) -> Iterator[str]:
    """Whether tasks took longer at first, and gradually less.

    The time that a server took for a task runs from the task's arrival, or from the end of the one before, to its end.
    Its ranks are compared with exponential courses; the chance of a match is widened by the autocorrelation of the
    ranks.
    """
    found: list[Floats] = []
    early, late = [], []
    for rows in devices:
        kept = np.isfinite(rows.values) & np.isfinite(rows.times)
        created, ended = rows.times[kept], rows.times[kept] + rows.values[kept]
        order = np.argsort(ended, kind="stable")
        created, ended = created[order], ended[order]
        if len(ended) < LEAST or np.ptp(created) == 0.0:
            continue
        took = ended - np.maximum(created, np.concatenate([[-np.inf], ended[:-1]]))
        digits = 1e-6 * float(np.median(took))
        took = np.round(took / digits) * digits if digits > 0.0 else took
        place = (created - created.min()) / np.ptp(created)
        came = np.sort(created)
        apart = _fading(np.diff(came), (came[1:] - came[0]) / np.ptp(came))
        if np.abs(apart).max() > _OTHER_LOAD or np.ptp(took) == 0.0:
            continue  # another load at first: several servers are then as unlike as slow ones
        found.append(_fading(took, place))
        early.append(float(took[place < 0.1].mean()) if (place < 0.1).any() else np.nan)
        late.append(float(took[place >= 0.5].mean()))
    if not found or np.nanmean(early) < _MATTERS * np.mean(late):
        return
    if max(float(np.max(one)) for one in (*found, np.sum(found, axis=0) / np.sqrt(len(found)))) > _WARM:
        yield (
            f"a task took the server {np.nanmean(early):.3g} s at first and {np.mean(late):.3g} s in the second half, "
            "fading: a warm-up; leave it out with 'fit: {from: ...}'"
        )


def _fading(values: Floats, place: Floats) -> Floats:
    """(4,) deviations by which ranks of values follow courses that fade, at the places (0 to 1) where they are."""
    places = ranks(values)
    if np.ptp(places) == 0.0:
        return np.zeros(4)
    places = (places - places.mean()) / places.std()
    together = 1.0 + 2.0 * sum(float(np.mean(places[:-k] * places[k:])) for k in range(1, 11))
    courses = np.exp(-place / np.array([[0.02], [0.05], [0.1], [0.2]]))
    courses = (courses - courses.mean(axis=1, keepdims=True)) / courses.std(axis=1, keepdims=True)
    return np.asarray(courses @ places / np.sqrt(len(values) * max(together, 0.5)))


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
    if recording.block.replay is not None or len(times) < LEAST:
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
    """Findings about the sizes of replayed tasks, compared with the workload's own law."""
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


def grid(values: Floats) -> float:
    """The step that all values are multiples of; 0 if there is no clear one."""
    found = np.unique(values)
    steps = np.diff(found)
    steps = steps[steps > 1e-4 * np.ptp(values)]
    if len(steps) < 2 or len(found) > 2000:
        return 0.0
    step = float(steps.min())
    places = (found - found[0]) / step
    return step if np.abs(places - np.round(places)).max() < 0.02 else 0.0
