"""The tasks of a recorded run, made again: as traces of arrivals, and as a scheduler that repeats decisions."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.contract.units import parse, show
from cosim.engine.continuum.prepared import Prepared
from cosim.scenario.calibrate import ReplayBlock
from cosim.sources.tables.cells import numbers, stamps
from cosim.sources.tables.findings import Finding
from cosim.sources.tables.table import Table, time_column
from cosim.twin.telemetry.measured import factor_of, node_numbers
from cosim.twin.telemetry.quantities import Codes

if TYPE_CHECKING:
    from cosim.results.load import Run
    from cosim.scenario.load import Loaded

_SLACK = 1e-9  # s; a decision falls at the creation of its task, and the end of a span at a step
Span = tuple[float, float]  # s of the recorded run; the simulation of a span begins at time 0
WHOLE: Span = (0.0, math.inf)  # all of it


Tasks = Mapping[str, Sequence[tuple[Any, ...]]]  # workload -> (created in s, device, sizes ...) of each task, in order


def tasks_of_run(run: Run, names: Iterable[str], sizes: Sequence[str], span: Span = WHOLE) -> Tasks:
    """The tasks that a run recorded of the workloads `names`."""
    picked = ", ".join(f'"{name}"' for name in sizes)
    query = (
        f"SELECT created, node::VARCHAR{', ' if picked else ''}{picked} FROM task "
        "WHERE workload = ? AND created >= ? AND created < ? ORDER BY task"
    )
    return {name: run.execute(query, [name, *span]).fetchall() for name in names}


def tasks_of_table(
    table: Table, block: ReplayBlock, devices: Mapping[str, Sequence[str]], nodes: Codes, findings: list[Finding]
) -> tuple[Tasks, bool]:
    """The tasks in a table, one a row, and whether their times count from 1970.

    `devices` are the nodes that make the tasks of each workload. Raises `ScenarioError` for what cannot be replayed.
    """
    at = "calibrate.replay"

    def wrong(message: str, hint: str = "") -> ScenarioError:
        return ScenarioError(Problem(message, at, table.path, hint=hint))

    time = time_column(table, block.time)
    if time is None:
        raise wrong("the table has no times, so its tasks cannot be made again", "name the column with 'time:'")
    chosen = tuple(filter(None, [block.workload])) or (tuple(devices) if len(devices) == 1 else ())
    if not chosen and "workload" not in table.columns:
        raise wrong("the table does not say of which workload its tasks are", "write 'workload: NAME'")
    times, absolute, *_ = stamps(table.column(time), time, block.time_unit, findings)
    whose, kept = node_numbers(table, block.node, block.names, nodes, at, findings)
    loads = [str(one) for one in table.column("workload")] if not chosen else [chosen[0]] * len(table)
    sizes = {}
    for size in block.sizes:
        column = block.columns.get(size, size)
        if column in table.columns:
            factor = factor_of(block.units.get(size), f"{at}.units.{size}")
            sizes[size] = numbers(table.column(column), column, findings) * factor
            wrong_ones = int((sizes[size] < 0.0).sum()) + int(np.isinf(sizes[size]).sum())
            if wrong_ones:
                raise wrong(f"{wrong_ones} values of column '{column}' are negative or infinite", "leave them empty")
        elif size in block.columns or "sizes" in block.model_fields_set:
            raise wrong(f"there is no column '{column}'", did_you_mean(column, table.columns, otherwise="columns"))
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in devices}
    for k in np.argsort(times, kind="stable").tolist():
        if not kept[k] or not np.isfinite(times[k]) or loads[k] not in found:
            continue
        if whose is not None and whose[k] >= 0:
            device = nodes.name(int(whose[k]))
        elif len(devices[loads[k]]) == 1:
            device = devices[loads[k]][0]
        else:
            raise wrong(f"workload '{loads[k]}' has several devices", "name the column of the device with 'node:'")
        if device not in devices[loads[k]]:
            hint = f"these do: {', '.join(devices[loads[k]][:6])}; or write 'names: {{{device}: NODE}}'"
            raise wrong(f"'{device}' makes no tasks of workload '{loads[k]}'", hint)
        row = [sizes[size][k] if size in sizes else None for size in block.sizes]
        found[loads[k]].append(
            (float(times[k]), device, *(None if v is None or np.isnan(v) else float(v) for v in row))
        )
    return found, absolute


def traces(loaded: Loaded, tasks: Tasks, sizes: Sequence[str], folder: Path, span: Span = WHOLE) -> list[str]:
    """Overrides that make every workload follow recorded tasks; the files go to `folder`.

    `sizes` are those of input, output and work that are taken over; the others are drawn by the
    workload's own laws. Tasks in flight at the end of a run are not recorded, so its last seconds have
    fewer tasks in a replay. In a span a workload without tasks makes none. Raises `ScenarioError` when
    nothing can be replayed.
    """
    overrides: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, load in loaded.scenario.workloads.items():
        rows = tasks.get(name, ())
        if not rows and span == WHOLE:
            continue
        written = load.quantities
        begin = written.start if span == WHOLE else span[0]
        overrides.append(f"workloads.{name}.arrivals={json.dumps(trace(name, rows, sizes, folder, begin))}")
        gone = ("active", "idle") if span == WHOLE else ("active", "idle", "stop")
        overrides += [f"workloads.{name}.{key}=null" for key in gone if getattr(load, key) is not None]
        if span != WHOLE and written.start > 0.0:
            overrides.append(f'workloads.{name}.start="0 s"')
        if written.share != 1.0:
            overrides.append(f'workloads.{name}.share="100 %"')
    if not overrides:
        raise ScenarioError(Problem("no task of this scenario's workloads was recorded", "calibrate.replay"))
    return overrides


def trace(name: str, rows: Sequence[tuple[Any, ...]], sizes: Sequence[str], folder: Path, begin: float) -> str:
    """`arrivals` of the tasks `rows` of a workload, with times (s) from `begin` on; they go to a file in `folder`."""
    lines = [["time", "device", *sizes]]
    lines += [
        [repr(max(row[0] - begin, 0.0)), row[1], *("" if v is None else repr(v) for v in row[2:])] for row in rows
    ]
    text = json.dumps(lines)
    file = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(lines)
    return f"trace {file.resolve()}"


class ReplayPlacement:
    """A scheduler that puts every task on the host on which it ran; see `cosim.schedulers`."""

    def __init__(self, run: Run, prepared: Prepared, since: float = 0.0) -> None:
        staged = [name for name, load in zip(prepared.workloads, prepared.system.workloads, strict=True) if load.graph]
        if staged:
            message = f"the placement of stages is not recorded, and workload '{staged[0]}' has some"
            raise ScenarioError(Problem(message, "calibrate.replay", hint="write 'placement: false'"))
        slots = {name: slot for slot, name in enumerate(prepared.names)}
        loads = {name: number for number, name in enumerate(prepared.workloads)}
        rows = run.execute(
            "SELECT created, node::VARCHAR, workload::VARCHAR, host::VARCHAR FROM task "
            "WHERE host IS NOT NULL ORDER BY created"
        ).fetchall()
        self._when: dict[tuple[int, int], list[float]] = {}
        self._where: dict[tuple[int, int], list[int]] = {}
        unknown: dict[str, None] = {}
        for created, node, load, host in rows:
            if load not in loads:
                continue
            if node not in slots or host not in slots:
                unknown[host if node in slots else node] = None
                continue
            key = slots[node], loads[load]
            self._when.setdefault(key, []).append(created - since)
            self._where.setdefault(key, []).append(slots[host])
        if unknown:
            hint = "take 'placement: false', or add the nodes"
            raise ScenarioError(
                Problem(f"this scenario has no node '{next(iter(unknown))}'", "calibrate.replay", hint=hint)
            )
        self._positions: Mapping[int, int] = {}

    def __call__(self, request: Any, reach: Any, hosts: Any) -> int:  # noqa: ANN401 - a scheduler's arguments
        key = request.device, request.workload
        times = self._when.get(key)
        if times is None:
            return -1
        index = max(bisect_right(times, request.time + _SLACK) - 1, 0)
        slot = self._where[key][index]
        if slot == request.device:
            return -2
        if not self._positions:
            self._positions = {int(s): k for k, s in enumerate(np.asarray(hosts["slot"]).tolist())}
        return self._positions.get(slot, -1)


def shifted(events: Sequence[Mapping[str, Any]], span: Span) -> list[dict[str, Any]]:
    """The scenario's `events` as they are in the simulation of a span, with times from its beginning on.

    What began before and still lasts happens at its beginning, for what is left.
    """
    found = []
    for event in events:
        at = parse(event["at"], "time")
        length = parse(event["for"], "time") if "for" in event else math.inf
        if at >= span[1] or at + length <= span[0]:
            continue
        begin = max(at - span[0], 0.0)
        moved = {**event, "at": show(begin, "time")}
        if "for" in event:
            moved["for"] = show(at + length - span[0] - begin, "time")
        found.append(moved)
    return found


def moved(loaded: Loaded, span: Span) -> list[str]:
    """Overrides that let a run be of a span of time only. Raises `ScenarioError` for what has no part."""
    step = loaded.scenario.run.step
    length = math.ceil((span[1] - span[0]) / step - _SLACK) * step
    events = loaded.data.get("events") or []
    return [f"run.duration={json.dumps(show(length, 'time'))}", f"events={json.dumps(shifted(events, span))}"]
