"""SURF LISA: jobs of a national computing cluster, with their CPU use in steps of 30 s, as OpenDC packs them.

Tasks: id, submission_time (Unix ms), duration (ms), cpu_count, cpu_capacity (MHz over all cores),
mem_capacity (unit not stated). Fragments: id, duration (ms), cpu_usage (MHz), in order within a task.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cosim.contract.delimited import StrPath, fault, line_of
from cosim.contract.records import Floats, Ints
from cosim.extensions.traces.grid import Grid
from cosim.extensions.traces.model import TaskTrace, UtilisationTraces
from cosim.extensions.traces.table import TraceColumn, blocks, whole

PERIOD = 300.0  # s

_TASK = (
    TraceColumn("id", "text"), TraceColumn("submission_time", "whole"), TraceColumn("duration", at_least=0.0),
    TraceColumn("cpu_count", at_least=1.0), TraceColumn("cpu_capacity", at_least=1e-9),
)  # fmt: skip


def _tasks(path: StrPath) -> tuple[list[str], dict[str, Floats]]:
    columns = whole(path, _TASK)
    ids: list[str] = columns.pop("id")
    if len(set(ids)) != len(ids):
        raise fault(path, "names a task twice")
    return ids, columns


def read(tasks: StrPath, fragments: StrPath | None = None) -> TaskTrace:
    """The tasks by arrival; with the fragments also their work in cycles. Memory is left out: its unit is unknown."""
    ids, columns = _tasks(tasks)
    work = np.full(len(ids), np.nan)
    if fragments is not None:
        work = np.zeros(len(ids))
        index = {name: row for row, name in enumerate(ids)}
        for row, span, used in _fragments(fragments, index):
            work += np.bincount(row, span * used * 1e6, len(ids))
    arrival = columns["submission_time"] * 1e-3
    order = np.argsort(arrival, kind="stable")
    start = float(arrival[order[0]])
    return TaskTrace(
        arrival=arrival[order] - start,
        duration=columns["duration"][order] * 1e-3,
        cores=columns["cpu_count"][order],
        memory=np.full(len(ids), np.nan),
        work=work[order],
        ids=tuple(ids[i] for i in order),
        start=start,
    )


def read_usage(
    tasks: StrPath, fragments: StrPath, *, period: float = PERIOD, vms: int | None = None
) -> UtilisationTraces:
    """Each task as a VM of its own, from period 0 on: its utilisation while it runs, NaN after its end."""
    ids, columns = _tasks(tasks)
    index = {name: row for row, name in enumerate(ids[:vms])}
    unknown = dict.fromkeys(ids[len(index) :], -1)
    grid = Grid(period)
    grid.index.update(index)
    clock = np.zeros(len(ids))  # s that each task's fragments have covered
    for row, span, used in _fragments(fragments, index | unknown):
        # Fragments of a task follow one another; begin = its covered time so far + those before in this block.
        order = np.argsort(row, kind="stable")
        total = np.cumsum(span[order])
        first = np.searchsorted(row[order], row[order])
        before = total - span[order] - (total[first] - span[order][first])
        begin = np.empty(len(row))
        begin[order] = before
        known = row >= 0
        begin[known] += clock[row[known]]
        clock += np.bincount(row[known], span[known], len(ids))
        share = np.minimum(used / columns["cpu_capacity"][np.maximum(row, 0)], 1.0)
        grid.add(row, begin + 0.5 * span, share, weight=span)
    cores, capacity = columns["cpu_count"][: len(index)], columns["cpu_capacity"][: len(index)]
    peak = grid.peak()
    return UtilisationTraces(grid.ids, grid.mean(), period, peak=peak, cores=cores, clock=capacity * 1e6 / cores)


def _fragments(path: StrPath, index: dict[str, int]) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Row, span (s) and use (MHz) of each fragment, block after block."""
    wanted = (TraceColumn("id", "text"), TraceColumn("duration", at_least=0.0), TraceColumn("cpu_usage", at_least=0.0))
    for block in blocks(path, wanted):
        known = np.array([index.get(word, -2) for word in block.words["id"]], np.int64)
        row = known[block.columns["id"]]
        if (row == -2).any():
            at = int(np.argmax(row == -2))
            name = block.words["id"][block.columns["id"][at]]
            raise fault(path, f"task '{name}' is not in the table of tasks", line=line_of(path, block.first + at, 1))
        yield row, block.columns["duration"] * 1e-3, block.columns["cpu_usage"]
