"""Google cluster data: task events and usage of 2011, and aggregates of 2019.

The tables of 2011 have no header; times are in us, CPU and memory shares of the largest machine.
A folder stands for its `part-*.csv.gz` (or `*.csv`) files, read in the order of their names.
Reiss, Wilkes and Hellerstein, "Google cluster-usage traces: format + schema", 2011.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cosim.contract.delimited import StrPath, fault
from cosim.extensions.traces.grid import Grid
from cosim.extensions.traces.model import TaskTrace, UtilisationTraces
from cosim.extensions.traces.table import RowBlock, TraceColumn, blocks, whole

PERIOD = 300.0  # s
_US = 1e-6
SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(7)
NEVER = float(2**63 - 1)  # time of what happens after the trace

EVENTS = (
    "time", "missing_info", "job", "task", "machine", "event", "user", "scheduling_class", "priority",
    "cpu_request", "memory_request", "disk_request", "different_machines",
)  # fmt: skip
USAGE = (
    "start", "end", "job", "task", "machine", "cpu_rate", "memory", "assigned_memory", "unmapped_cache",
    "page_cache", "max_memory", "disk_io", "disk_space", "max_cpu_rate", "max_disk_io", "cycles_per_instruction",
    "memory_accesses", "sample_portion", "aggregation_type", "sampled_cpu",
)  # fmt: skip


@dataclass
class _Runs:
    """Tasks between their first submission and their last end."""

    index: dict[tuple[int, int], int] = field(default_factory=dict)
    submitted: list[float] = field(default_factory=list)  # s
    begun: list[float] = field(default_factory=list)  # s, last schedule, NaN while waiting
    worked: list[float] = field(default_factory=list)  # s on a machine
    done: list[bool] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def read_tasks(source: StrPath, *, tasks: int | None = None) -> TaskTrace:
    """`task_events`: arrival is the first submission, duration the time on machines until the task's end.

    Tasks that do not end in the trace have no duration. Rows about tasks that were submitted before the
    trace began (time 0) count as submitted then. At most `tasks` tasks are kept, the first submitted.
    """
    wanted = (
        TraceColumn("time", at_least=0.0), TraceColumn("job", "whole"), TraceColumn("task", "whole"),
        TraceColumn("event", "whole", at_least=0, at_most=8), TraceColumn("cpu_request", optional=True, at_least=0.0),
        TraceColumn("memory_request", optional=True, at_least=0.0),
    )  # fmt: skip
    runs = _Runs()
    for path in parts(source):
        for block in blocks(path, wanted, names=EVENTS):
            _events(runs, block, tasks)
    if not runs.submitted:
        raise fault(source, "holds no submission of a task")
    arrival = np.array(runs.submitted)
    order = np.argsort(arrival, kind="stable")
    names = list(runs.index)
    start = float(arrival[order[0]])
    duration = np.where(runs.done, np.array(runs.worked), np.nan)
    return TaskTrace(
        arrival=arrival[order] - start,
        duration=duration[order],
        cores=np.array(runs.cpu)[order],
        memory=np.array(runs.memory)[order],
        work=np.full(len(order), np.nan),
        ids=tuple(f"{names[i][0]}-{names[i][1]}" for i in order),
        start=start,
        unit="machine",
    )


def _events(runs: _Runs, block: RowBlock, most: int | None) -> None:
    columns = block.columns
    rows = zip(
        columns["time"].tolist(), columns["job"].tolist(), columns["task"].tolist(), columns["event"].tolist(),
        columns["cpu_request"].tolist(), columns["memory_request"].tolist(), strict=True,
    )  # fmt: skip
    for time, job, task, event, cpu, memory in rows:
        at = runs.index.get((job, task))
        if at is None:
            if event != SUBMIT or time >= NEVER or (most is not None and len(runs.index) >= most):
                continue
            runs.index[job, task] = len(runs.submitted)
            runs.submitted.append(time * _US)
            runs.begun.append(np.nan)
            runs.worked.append(0.0)
            runs.done.append(False)
            runs.cpu.append(cpu)
            runs.memory.append(memory)
        elif time >= NEVER:
            continue
        elif event == SCHEDULE:
            runs.begun[at], runs.done[at] = time * _US, False
        elif EVICT <= event <= LOST:
            if runs.begun[at] == runs.begun[at]:
                runs.worked[at] += time * _US - runs.begun[at]
                runs.begun[at] = np.nan
            runs.done[at] = True


def read_usage(
    source: StrPath, *, period: float = PERIOD, vms: int | None = None, periods: int | None = None
) -> UtilisationTraces:
    """`task_usage`: each task as a VM whose cores are the whole machine; peaks are the maximum CPU rate."""
    wanted = (
        TraceColumn("start", at_least=0.0), TraceColumn("end", at_least=0.0), TraceColumn("job", "text"),
        TraceColumn("task", "text"),
        TraceColumn("cpu_rate", optional=True, at_least=0.0), TraceColumn("max_cpu_rate", optional=True, at_least=0.0),
        TraceColumn("memory", optional=True, at_least=0.0),
    )  # fmt: skip
    grid = Grid(period, vms=vms, periods=periods)
    memory = Grid(period, vms=vms, periods=periods)
    for path in parts(source):
        for block in blocks(path, wanted, names=USAGE):
            columns = block.columns
            pairs = columns["job"] * len(block.words["task"]) + columns["task"]
            used, member = np.unique(pairs, return_inverse=True)
            jobs, tasks = np.divmod(used, len(block.words["task"]))
            words = [
                f"{block.words['job'][job]}-{block.words['task'][task]}" for job, task in zip(jobs, tasks, strict=True)
            ]
            middle = 0.5 * (columns["start"] + columns["end"]) * _US
            length = np.maximum(columns["end"] - columns["start"], 0.0) * _US
            rate, peak = np.minimum(columns["cpu_rate"], 1.0), np.minimum(columns["max_cpu_rate"], 1.0)
            peak = np.where(np.isnan(peak), rate, np.maximum(peak, rate))
            grid.add(grid.rows(words, member), middle, rate, peak=peak, weight=length)
            share = np.minimum(columns["memory"], 1.0)
            memory.add(memory.rows(words, member), middle, share, weight=length)
    if grid.empty:
        raise fault(source, "holds no usage")
    use = grid.mean()
    held = memory.mean()
    same = held.shape == use.shape
    return UtilisationTraces(grid.ids, use, period, peak=grid.peak(), memory_use=held if same else None)


def read_aggregate(path: StrPath, *, period: float = PERIOD) -> UtilisationTraces:
    """`avg_cpu, avg_mem, ...` of a whole cell, one row per period: a single trace."""
    wanted = (TraceColumn("avg_cpu", at_least=0.0, at_most=1.0), TraceColumn("avg_mem", at_least=0.0, at_most=1.0))
    cpu, memory = (values[None, :].astype(np.float32) for values in whole(path, wanted).values())
    return UtilisationTraces((Path(path).name.split(".")[0],), cpu, period, memory_use=memory)


def parts(source: StrPath) -> list[Path]:
    """The file, or the files of the folder in the order of their names."""
    source = Path(source)
    if not source.is_dir():
        return [source]
    found = sorted(path for path in source.iterdir() if path.name.endswith((".csv", ".csv.gz")))
    if not found:
        raise fault(source, "holds no .csv or .csv.gz files")
    return found
