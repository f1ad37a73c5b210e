"""Scenarios from jobs with dependent tasks: Alibaba's `batch_task` of 2018, whose task names encode the graph.

`M1`, `R2_1`, `J3_1_2`: the first number is the task's own, the others are those of the tasks before it. The letters
carry no meaning, and tasks with names of another form wait for none (cluster-trace-v2018, trace_2018.md, section 2.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cosim.contract.delimited import header
from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.traces import alibaba
from cosim.extensions.traces.google import parts
from cosim.extensions.traces.importing.machines import CLOCK
from cosim.extensions.traces.importing.tasks import beginning, enough_hosts
from cosim.scenario.demand import StageBlock, ordered
from cosim.sources.importing.document import plain_name, text_of
from cosim.sources.importing.imported import Imported, Notice

MOST_STAGES = 200  # of a job
MOST_JOBS = 2000
_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?:_\D.*)?")


@dataclass(slots=True)
class _Task:
    number: int  # its own in the name, or below 0
    before: tuple[int, ...]  # numbers of the tasks that end before it begins
    begin: float  # s
    duration: float  # s, NaN where it has none
    cores: float  # NaN where none are given


@dataclass(slots=True)
class _Counts:
    """What is left out, for the notices."""

    endless: int = 0
    wide: int = 0
    circular: int = 0
    missing: int = 0
    unsized: int = 0
    used: list[_Task] = field(default_factory=list)


def read_jobs(path: Path, *, hosts: int | None = None, tasks: int | None = None) -> Imported:
    """A scenario for the adapter `continuum` with a workload of one job for each job of the trace.

    A job is made when its first task begins in the trace, and its tasks are the stages of its `graph`, a task of
    several cores as many stages. The work of a task is its cores x duration x the clock of a server. At most
    `tasks` rows are read. Raises `ScenarioError` for a file that is not `batch_task` of 2018, or holds no whole job.
    """
    if not path.exists():
        raise ScenarioError(Problem("there is no such file or folder", file=path))
    if len(header(parts(path)[0])) != len(alibaba.TASKS):
        hint = "give batch_task of 2018; that of 2017 does not say which task waits for which"
        raise ScenarioError(Problem("has no graphs of tasks", file=path, hint=hint))
    trace = alibaba.read_tasks(path, tasks=tasks)
    jobs: dict[str, dict[str, _Task]] = {}
    for name, begin, duration, cores in zip(
        trace.ids or (), trace.arrival.tolist(), trace.duration.tolist(), trace.cores.tolist(), strict=True
    ):
        job, _, task = name.partition("-")
        held = jobs.setdefault(job, {})
        held.setdefault(task, _task(task, -1 - len(held), begin, duration, cores))
    counts = _Counts()
    loads: dict[str, object] = {}
    taken: set[str] = set()
    for job, held in jobs.items():
        stages = _stages(held, counts)
        if stages is not None:
            first = min(task.begin for task in held.values())
            loads[plain_name(job, taken, "job")] = {
                "from": "users", "arrivals": "bag 1 every 1e6 d", "start": f"{first:.12g} s", "graph": stages,
            }  # fmt: skip
    if not loads:
        raise ScenarioError(Problem("holds no job whose tasks all have ended", file=path))
    if len(loads) > MOST_JOBS:
        hint = "take fewer with --tasks"
        raise ScenarioError(Problem(f"{len(loads):,} jobs are more than {MOST_JOBS:,}", file=path, hint=hint))
    begin, span, cores = (
        np.array([getattr(task, name) for task in counts.used]) for name in ("begin", "duration", "cores")
    )
    count = enough_hosts(path, hosts, begin, span, cores)
    text = beginning("alibaba", f"{len(loads)} jobs", count, float(np.max(begin + span)))
    text += text_of({"workloads": loads}).removeprefix("workloads:\n")
    facts = {"jobs": len(loads), "tasks": len(counts.used), "hosts": count, "work": float((cores * span).sum() * CLOCK)}
    notices = [*(Notice("note", path, None, "tasks", reason) for reason in trace.left_out), *_notices(path, counts)]
    return Imported(text, tuple(notices), facts=facts)


def _task(name: str, other: int, begin: float, duration: float, cores: float) -> _Task:
    found = _NAME.fullmatch(name)
    if found is None:
        return _Task(other, (), begin, duration, cores)
    before = tuple(int(number) for number in found[2].split("_") if number)
    return _Task(int(found[1]), before, begin, duration, cores)


def _stages(job: Mapping[str, _Task], counts: _Counts) -> dict[str, dict[str, object]] | None:
    """The stages of a job; None where it has to be left out."""
    if any(np.isnan(task.duration) for task in job.values()):
        counts.endless += 1
        return None
    cores = {name: 1.0 if np.isnan(task.cores) else task.cores for name, task in job.items()}
    wide = {task.number: max(1, int(np.ceil(cores[name] - 1e-9))) for name, task in job.items()}
    if len(wide) < len(job) or sum(wide.values()) > MOST_STAGES:
        counts.wide += 1
        return None
    stages: dict[str, dict[str, object]] = {}
    for name, task in job.items():
        known = [number for number in dict.fromkeys(task.before) if number in wide]
        counts.missing += len(set(task.before)) - len(known)
        after = [part for number in known for part in _parts(number, wide[number])]
        work = cores[name] * task.duration * CLOCK / wide[task.number]
        for part in _parts(task.number, wide[task.number]):
            stages[part] = {"work": f"{work:.12g} cycles", **({"after": after} if after else {})}
    try:
        ordered({name: StageBlock.model_validate(stage) for name, stage in stages.items()})
    except ValueError:
        counts.circular += 1
        return None
    counts.unsized += sum(bool(np.isnan(task.cores)) for task in job.values())
    counts.used += [
        _Task(task.number, (), task.begin, max(task.duration, 1e-9), cores[name]) for name, task in job.items()
    ]
    return stages


def _parts(number: int, wide: int) -> list[str]:
    name = f"task-{number}" if number >= 0 else f"other-{-number}"
    return [name] if wide == 1 else [f"{name}-{part + 1}" for part in range(wide)]


def _notices(path: Path, counts: _Counts) -> list[Notice]:
    wide = f"jobs of more than {MOST_STAGES} stages of one core, or with two tasks of one number, are left out"
    reported = (
        ("note", "work", 1, f"cores x duration x {CLOCK / 1e9:g} GHz, as if all were busy: the trace does not have it"),
        ("note", "output", 1, "the trace does not have what tasks hand on; no data is taken"),
        ("ignored", "end", counts.endless, f"{counts.endless:,} jobs with a task that has no end are left out"),
        ("ignored", "instances", counts.wide, f"{counts.wide:,} {wide}"),
        ("ignored", "task", counts.circular, f"{counts.circular:,} jobs whose tasks wait for themselves are left out"),
        ("ignored", "task", counts.missing, f"{counts.missing:,} times a task waits for one that is not in the file"),
        ("note", "plan_cpu", counts.unsized, f"{counts.unsized:,} tasks do not have it; 1 core is taken"),
    )  # fmt: skip
    return [Notice(level, path, None, key, text) for level, key, count, text in reported if count]  # type: ignore[arg-type]
