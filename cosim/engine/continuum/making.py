"""How tasks and jobs come into being."""

from __future__ import annotations

import math

from cosim.engine.continuum import memory
from cosim.engine.continuum.draw import CHOICE, INPUT, OPERATIONS, OUTPUT, SLOW, WORK, size, uniform
from cosim.engine.continuum.ending import end
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import COMPLETED, INPUT_OFFERED, NEW, NOBODY, STATUSES, TRACE, Record
from cosim.engine.continuum.queue import put
from cosim.engine.continuum.rows import new_row, stage_number, stage_output, task_number
from cosim.engine.continuum.sums import add


@jit
def _bound(s: Record, i: int, work: Record, created: float) -> None:
    """Have task i given up when its time is over."""
    ends = created + min(work.limit, work.deadline if s.drop_late != 0 else math.inf)
    if ends < math.inf:
        put(s, task_number(s, i) + 1, ends)


@jit
def _stage(s: Record, k: int, number: int, bytes_: float, at: int, brought: int, now: float) -> None:
    """Make the task of stage `number` of job k, whose data of `bytes_` B is at node `at`."""
    job, stage = memory.job(s.jobs, k), memory.stage(s.stages, number)
    work = memory.workload(s.workloads, job.workload)
    own = 16 * (1 + number - work.first_stage)
    i = new_row(s, job.device)
    t = memory.task(s.tasks, i)
    t.created = now
    t.uploaded = t.started = t.computed = math.nan
    t.input, t.output = bytes_, stage_output(s, k, number)
    t.work = size(stage.work_law, stage.work_a, stage.work_b, job.key, job.draw, own + WORK)
    if stage.slow_share > 0.0 and uniform(job.key, job.draw, own + SLOW) < stage.slow_share:
        t.work *= stage.slow_times
    t.rest = t.work
    t.accelerator, t.operations = stage.accelerator, 0.0
    if stage.accelerator >= 0:
        t.operations = size(
            stage.operations_law, stage.operations_a, stage.operations_b, job.key, job.draw, own + OPERATIONS
        )
    t.chance = uniform(job.key, job.draw, own + CHOICE)
    t.deadline = job.deadline
    t.workload, t.host, t.at = job.workload, -1, at
    t.phase, t.job, t.stage, t.join = NEW, k, number, -2 - brought
    memory.whole(s.missing, stage_number(s, t)).v = max(1, stage.befores)
    add(s, INPUT_OFFERED, t.input)
    memory.whole(s.stage_tally, number * (1 + STATUSES)).v += 1
    _bound(s, i, work, job.created)
    put(s, task_number(s, i), now)  # to be decided about in an event of its own


@jit
def _make_job(s: Record, source: Record, n: int, now: float) -> None:
    """A job with all of its stages to come; those that wait for nothing begin."""
    work = memory.workload(s.workloads, source.workload)
    k = s.jobs_free
    job = memory.job(s.jobs, k)
    s.jobs_free = job.next
    s.jobs_live += 1
    job.serial = s.serial
    s.serial += 1
    job.created = now
    job.uploaded = job.started = job.computed = math.nan
    job.input = size(work.input_law, work.input_a, work.input_b, source.key, n, INPUT)
    if work.arrivals == TRACE:
        traced = memory.traced(s.trace, source.first_row + n - 1).input
        job.input = traced if traced == traced else job.input
    job.output = job.work = 0.0
    job.deadline, job.key, job.draw = work.deadline, source.key, n
    job.workload, job.device, job.host = source.workload, source.node, -1
    job.left, job.failed = work.stages, -1
    memory.whole(s.tally, source.workload * (2 + STATUSES)).v += 1
    for number in range(work.first_stage, work.first_stage + work.stages):
        stage = memory.stage(s.stages, number)
        memory.whole(s.missing, k * s.widest + number - work.first_stage).v = stage.befores
        memory.whole(s.site, k * s.widest + number - work.first_stage).v = -1
        if stage.befores == 0:
            _stage(s, k, number, job.input, source.node, NOBODY, now)


@jit
def hand_on(s: Record, i: int, now: float) -> bool:
    """Task i is computed: begin the stages that have all of their inputs now. False when none follows it."""
    t = memory.task(s.tasks, i)
    stage = memory.stage(s.stages, t.stage)
    if stage.afters == 0:
        return False
    number = stage_number(s, t)
    memory.whole(s.site, number).v = t.at
    for e in range(stage.first_after, stage.first_after + stage.afters):
        after = memory.whole(s.afters, e).v
        k = number + after - t.stage
        memory.whole(s.missing, k).v -= 1
        if memory.whole(s.missing, k).v == 0:
            _stage(s, t.job, after, t.output, t.at, t.stage, now)
    end(s, i, COMPLETED, now)
    return True


@jit
def make(s: Record, k: int, n: int, now: float) -> int:
    """Let source k make a task with the numbers of its n-th draw; return the task if it needs a host, else NOBODY."""
    source = memory.source(s.sources, k)
    work = memory.workload(s.workloads, source.workload)
    if work.stages > 0:
        _make_job(s, source, n, now)
        return int(NOBODY)
    i = new_row(s, source.node)
    t = memory.task(s.tasks, i)
    t.created = now
    t.uploaded = t.started = t.computed = math.nan
    t.input = size(work.input_law, work.input_a, work.input_b, source.key, n, INPUT)
    t.output = size(work.output_law, work.output_a, work.output_b, source.key, n, OUTPUT)
    t.work = size(work.work_law, work.work_a, work.work_b, source.key, n, WORK)
    if work.slow_share > 0.0 and uniform(source.key, n, SLOW) < work.slow_share:
        t.work *= work.slow_times
    t.rest = t.work
    if work.arrivals == TRACE:
        traced = memory.traced(s.trace, source.first_row + n - 1)
        t.input = traced.input if traced.input == traced.input else t.input
        t.output = traced.output if traced.output == traced.output else t.output
        t.work = t.rest = traced.work if traced.work == traced.work else t.work
    t.work = t.rest = source.work if source.work == source.work else t.work
    t.accelerator, t.operations = work.accelerator, 0.0
    if work.accelerator >= 0:
        t.operations = size(work.operations_law, work.operations_a, work.operations_b, source.key, n, OPERATIONS)
    t.chance = uniform(source.key, n, CHOICE)
    t.deadline = work.deadline
    t.workload, t.host, t.at = source.workload, -1, source.node
    t.phase, t.job, t.stage, t.join = NEW, -1, -1, -1
    add(s, INPUT_OFFERED, t.input)
    memory.whole(s.tally, source.workload * (2 + STATUSES)).v += 1
    _bound(s, i, work, now)
    return i
