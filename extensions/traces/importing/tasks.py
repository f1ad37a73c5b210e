"""Scenarios for the task engine from traces of tasks: they arrive at a device, and servers compute them."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cosim.contract.delimited import header
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Floats
from cosim.extensions.traces import TaskTrace, alibaba, azure, google
from cosim.extensions.traces.importing.machines import CLOCK, CORES, FILLED, MEMORY, MOST_HOSTS, head, servers
from cosim.sources.importing.imported import Imported, Notice

FILE = "tasks.csv.gz"


def _refusal(path: Path, found: str, wanted: str) -> ScenarioError:
    hint = "take '--model datacentre', which replays utilisation" + (f", or give {wanted}" if wanted else "")
    return ScenarioError(Problem(f"{found} holds utilisation, no tasks", file=path, hint=hint))


def read_tasks(source: str, path: Path, *, tasks: int | None = None, per_token: Sequence[float] = ()) -> TaskTrace:
    """The tasks of a trace of `source` (google, azure, alibaba), at most `tasks`.

    `per_token` are cycles per context token and per generated token, for requests to language models.
    Raises `ScenarioError` for a file that holds none, which those of planetlab and bitbrains never do.
    """
    if source in ("planetlab", "bitbrains"):
        raise _refusal(path, f"a {source} trace", "")
    if not path.exists():
        raise ScenarioError(Problem("there is no such file or folder", file=path))
    first = header(google.parts(path)[0])
    if source == "google":
        if len(first) == len(google.USAGE):
            raise _refusal(path, "task_usage", "task_events")
        return google.read_tasks(path, tasks=tasks)
    if source == "alibaba":
        # tables of usage (machine_usage 2018, server_usage 2017) have as many columns, and no word for the status
        tables = {len(names): names.index("status") for names in (alibaba.TASKS, alibaba.TASKS_2017)}
        status = tables.get(len(first))
        if status is None or not first[status].isalpha():
            raise _refusal(path, "a table of usage", "batch_task")
        return alibaba.read_tasks(path, tasks=tasks)
    if len(first) == len(azure.READINGS) and "TIMESTAMP" not in first:
        raise _refusal(path, "vm_cpu_readings", "vmtable, the invocations of functions or requests")
    if "end_timestamp" in first:
        return azure.read_invocations(path, tasks=tasks)
    if "TIMESTAMP" not in first:
        return azure.read_tasks(path, tasks=tasks)
    if len(per_token) != 2:
        hint = "say it with --context-token and --generated-token, such as '2 Mcycles'"
        raise ScenarioError(Problem("the work of a token is not in the trace", file=path, hint=hint))
    found = azure.read_requests(path, work_per_context_token=per_token[0], work_per_generated_token=per_token[1])
    return _first(found, tasks)


def _first(trace: TaskTrace, tasks: int | None) -> TaskTrace:
    return TaskTrace(
        trace.arrival[:tasks], trace.duration[:tasks], trace.cores[:tasks], trace.memory[:tasks], trace.work[:tasks],
        start=trace.start, unit=trace.unit, left_out=trace.left_out,
    )  # fmt: skip


def read(
    source: str,
    path: Path,
    *,
    hosts: int | None = None,
    tasks: int | None = None,
    per_token: Sequence[float] = (),
) -> Imported:
    """A scenario for the adapter `continuum`, whose workload follows the trace.

    If the trace does not give the work of a task, it is cores x duration x clock of a server; for VMs times their mean
    use. A task of several cores becomes as many tasks of one core. There are as many hosts as the peak number of cores
    in use requires, or `hosts`. Raises `ScenarioError` for a trace that holds no tasks.
    """
    trace = read_tasks(source, path, tasks=tasks, per_token=per_token)
    notices: list[Notice] = []

    def say(key: str, text: str) -> None:
        notices.append(Notice("note", path, None, key, text))

    for reason in trace.left_out:
        say("tasks", reason)
    cores = trace.cores * CORES if trace.unit == "machine" else trace.cores
    if trace.unit == "machine":
        say("cores", f"the trace gives shares of its largest machine, which is taken to have {CORES} cores")
    unknown = np.isnan(cores)
    if unknown.any():
        cores = np.where(unknown, 1.0, cores)
        say("cores", f"{unknown.sum():,} tasks do not have it; 1 is taken")
    work = trace.work
    if np.isnan(work).all():
        work = cores * trace.duration * CLOCK * trace.extra.get("average_cpu", 1.0)
        use = "its mean use of them" if "average_cpu" in trace.extra else "as if all were busy"
        say("work", f"cores x duration x {CLOCK / 1e9:g} GHz, {use}: the trace does not have it")
    if not np.isnan(trace.memory).all():
        say("memory", "is left out: tasks of one workload take equally much")
    known = ~np.isnan(work)
    if not known.any():
        raise ScenarioError(Problem("no task has a known end", file=path))
    if not known.all():
        say("duration", f"{(~known).sum():,} of {len(trace):,} tasks have no end in the trace and are left out")
    arrival, work, cores = trace.arrival[known], work[known], cores[known]
    parts = np.maximum(np.ceil(cores - 1e-9), 1.0).astype(np.int64)
    if parts.max() > 1:
        say("cores", f"tasks of several cores are as many tasks of one core: {parts.sum():,} in all")
    rows = np.repeat(arrival, parts), np.repeat(work / parts, parts)
    reported = trace.duration[known]
    span = np.where(np.isnan(reported), work / CLOCK, reported)
    used = np.minimum(cores, work / CLOCK / np.maximum(span, 1e-9))
    count = enough_hosts(path, hosts, arrival, span, used)
    text = (
        f"{beginning(source, f'{len(rows[0])} tasks', count, float(np.max(arrival + span)))}"
        f"  tasks: {{from: users, arrivals: trace {FILE}, work: 0 cycles}}\n"
    )
    facts = {"tasks": int(known.sum()), "rows": len(rows[0]), "hosts": count, "work": float(work.sum())}
    return Imported(text, tuple(notices), {FILE: partial(_write, *rows)}, facts)


def enough_hosts(path: Path, hosts: int | None, arrival: Floats, span: Floats, cores: Floats) -> int:
    """`hosts`, or as many as the cores in use at the busiest time need. Raises `ScenarioError` for too many."""
    count = hosts or max(1, math.ceil(_busiest(arrival, span, cores) / (FILLED * CORES)))
    if count > MOST_HOSTS:
        problem = Problem(f"the tasks would need {count:,} hosts", file=path, hint="take fewer with --tasks")
        raise ScenarioError(problem)
    return count


def beginning(source: str, what: str, hosts: int, end: float) -> str:
    """A scenario up to its workloads, which `users` make; `end` (s) is when the last of them ends in the trace."""
    step = float(min(max(round(end / 1000.0), 1), 300))
    duration = math.ceil(end / step + 1) * step
    width = len(str(hosts))
    return (
        f"{head(source, what, hosts, duration, step)}"
        "adapters:\n  continuum: {scheduler: least-loaded}\n\n"
        f"{servers(CORES, MEMORY)}"
        "nodes:\n  users: {kind: device, at: [0 m, 10 m, 0 m]}\n"
        + "".join(f"  server-{i + 1:0{width}}: {{kind: server, at: [{i} m, 0 m, 0 m]}}\n" for i in range(hosts))
        + "\nlinks:\n  - {between: [users, kind:server], rate: 10 Gbit/s, delay: 1 ms}\n\n"
        "workloads:\n"
    )


def _busiest(arrival: Floats, span: Floats, cores: Floats) -> float:
    """The largest sum of cores in use at a time."""
    time = np.concatenate([arrival + span, arrival])
    change = np.concatenate([-cores, cores])
    order = np.lexsort((change, time))  # at equal times those that end go first
    return float(np.cumsum(change[order]).max())


def _write(time: Floats, work: Floats, path: Path) -> None:
    text = io.StringIO("time,work\n")
    text.seek(0, io.SEEK_END)
    np.savetxt(text, np.stack([time, work], axis=1), fmt="%.17g", delimiter=",")
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
