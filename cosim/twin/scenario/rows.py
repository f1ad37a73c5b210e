"""Checks of table rows without simulation: copies, two meters under one name, sizes of replayed tasks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cosim.scenario.calibrate import SPACING
from cosim.twin.judgement.course import LEAST
from cosim.twin.judgement.pairing import NODES
from cosim.twin.scenario.recording import RecordingReader
from cosim.twin.telemetry.hygiene import UNITS
from cosim.twin.telemetry.measured import RecordedSeries
from cosim.twin.telemetry.quantities import Rows


def of_each_node(one: RecordedSeries) -> Iterator[tuple[int, Rows]]:
    """(node, its rows); -1 for rows that name none."""
    numbers = np.unique(one.rows.nodes).tolist()
    for k in numbers if len(numbers) <= NODES else ():
        yield k, one.rows.only(one.rows.nodes == k)


def row_warnings(recording: RecordingReader) -> list[str]:
    """Findings from table rows without simulation: two meters of a node, copies of a node."""
    warned: list[str] = []
    for name, one in recording.series.items():
        if not one.from_file or not one.timed or one.quantity.column == SPACING:
            continue
        label = recording.label(name)
        nodes = list(of_each_node(one))
        for k, rows in nodes if not one.quantity.of_tasks else ():
            subject = label + (f" of {recording.nodes.name(k)}" if k >= 0 else "")
            times = rows.times[np.isfinite(rows.times)]
            double = len(times) - len(np.unique(times))
            if len(times) >= LEAST and double > 0.1 * len(times):
                warned.append(
                    f"{subject}: {double} rows have the time of another row and another value: two meters of one node?"
                )
        warned += _copied(label, recording, nodes)
    return warned


def size_warnings(recording: RecordingReader) -> list[str]:
    """Findings about the sizes of replayed tasks, compared with the workload's own law."""
    warned: list[str] = []
    replay = recording.block.replay
    if replay is None or recording.tasks is None:
        return warned
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
                warned.append(
                    f"{subject}: {lost} of {len(values)} tasks have none; they are drawn by the workload's law"
                )
            if zero:
                warned.append(f"{subject}: {zero} of {len(values)} are 0: a word for a missing value?")
            if not (values > 0.0).any():
                continue
            middle = float(np.median(values[values > 0.0]))
            ratio = max(middle / law.mean, law.mean / middle)
            binary = law.law == "fixed" and any(abs(ratio / 1.024**n - 1.0) < 1e-3 for n in (1, 2, 3))
            if ratio > UNITS or binary:
                what = "a unit by 1024 and one by 1000" if binary else f"say the unit with 'units: {{{size}: UNIT}}'"
                warned.append(f"{subject}: in the middle {middle:.4g}, and the scenario says {law.mean:.4g}: {what}")
    return warned


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
