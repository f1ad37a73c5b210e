"""How tasks and jobs end, and the rows that are left of them."""

from __future__ import annotations

import math

from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.indices import book
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.rows import free_row, load
from cosim.engine.continuum.station import leave
from cosim.engine.continuum.sums import add


@jit
def _row(s: Record, t: Record, status: int, late: bool, now: float) -> Record:
    """A row about t, a task or a job that is over, with what both of them have."""
    row = memory.ended(s.ended, s.done)
    s.done += 1
    row.serial, row.device, row.host, row.workload = t.serial, t.device, t.host, t.workload
    row.created, row.uploaded, row.started, row.computed = t.created, t.uploaded, t.started, t.computed
    row.assigned = math.nan
    row.input, row.output, row.work, row.deadline = t.input, t.output, t.work, t.deadline
    row.ended, row.status, row.late = now, status, late
    row.value = 0.0
    work = memory.workload(s.workloads, t.workload)
    if status == l.COMPLETED and work.value > 0.0:
        row.value = work.value * 0.5 ** ((now - t.created) / work.half_life)
    row.stage, row.job = -1, -1
    return row


@jit
def _note(s: Record, t: Record, status: int, late: bool, now: float) -> None:
    """Write the row of task t, which is over."""
    row = _row(s, t, status, late, now)
    row.assigned = t.assigned
    if t.job >= 0:
        row.stage = t.stage - memory.workload(s.workloads, t.workload).first_stage
        row.job = memory.job(s.jobs, t.job).serial


@jit
def _close(s: Record, i: int, status: int, now: float) -> None:
    """Task i, in no station any more, is over: book it, note it down and free its row."""
    t = memory.task(s.tasks, i)
    host = memory.node(s.nodes, t.host).host if t.host >= 0 else -1
    if t.counted != 0:
        book(s, host, t.workload, -1)
    late = t.job < 0 and status == l.COMPLETED and now - t.created > t.deadline
    if status == l.COMPLETED:
        memory.node(s.nodes, t.host).completed += 1
        if t.phase == l.DOWN:
            add(s, l.OUTPUT_DELIVERED, t.output)
            memory.node(s.nodes, t.host).outputs += t.output
    elif t.phase == l.DOWN:
        add(s, l.OUTPUT_DROPPED, t.output)
    elif t.phase == l.NEW or t.phase == l.UP:
        add(s, l.INPUT_DROPPED, t.input)
    elif t.phase == l.MOVE:
        add(s, l.STATE_DROPPED, load(s, t))
    if t.job < 0:
        memory.whole(s.tally, t.workload * (2 + l.STATUSES) + 2 + status).v += 1
        if late:
            memory.whole(s.tally, t.workload * (2 + l.STATUSES) + 1).v += 1
        _note(s, t, status, late, now)
    elif t.join < 0:
        memory.whole(s.stage_tally, t.stage * (1 + l.STATUSES) + 1 + status).v += 1
        job = memory.job(s.jobs, t.job)
        if t.started == t.started and not job.started <= t.started:
            job.uploaded, job.started = t.uploaded, t.started
        if t.computed == t.computed:
            job.computed = t.computed
            job.host = t.host
            job.work += t.work
            if t.phase == l.DOWN and status == l.COMPLETED:
                job.output += t.output
        _note(s, t, status, late, now)
    free_row(s, i)


@jit
def _close_job(s: Record, k: int, status: int, now: float) -> None:
    """All stages of job k are over: book it, note it down and free its row."""
    job = memory.job(s.jobs, k)
    late = status == l.COMPLETED and now - job.created > job.deadline
    memory.whole(s.tally, job.workload * (2 + l.STATUSES) + 2 + status).v += 1
    if late:
        memory.whole(s.tally, job.workload * (2 + l.STATUSES) + 1).v += 1
    _row(s, job, status, late, now)
    s.jobs_live -= 1
    job.next = s.jobs_free
    s.jobs_free = k


@jit
def release(s: Record, i: int, now: float) -> None:
    """Task i, in no station any more, makes room at its host."""
    node = memory.node(s.nodes, memory.task(s.tasks, i).host)
    if node.host >= 0:
        memory.host(s.hosts, node.host).running -= 1
    if node.machine >= 0:
        memory.equipment(s, l.DEPART, node.machine, i, now)


@jit
def _withdraw(s: Record, i: int, now: float) -> None:
    """Take task i out of its station and off its host, if it is in one and on one."""
    if memory.task(s.tasks, i).station >= 0:
        leave(s, i, now)
    if memory.task(s.tasks, i).phase == l.RUN:
        release(s, i, now)


@jit
def end(s: Record, i: int, status: int, now: float) -> None:
    """Task i, in no station any more, is over; with it its job, if it was the last stage or failed.

    The other stages of a job that failed end in `clean`, so that a walk over tasks may end one of them.
    """
    k = memory.task(s.tasks, i).job
    _close(s, i, status, now)
    if k < 0:
        return
    job = memory.job(s.jobs, k)
    if status == l.COMPLETED:
        job.left -= 1
        if job.left == 0:
            _close_job(s, k, l.COMPLETED, now)
    elif job.failed < 0:
        job.failed = status
        job.next = s.doomed
        s.doomed = k


@jit
def clean(s: Record, now: float) -> None:
    """End all that is left of the jobs that have failed."""
    while s.doomed >= 0:
        k = s.doomed
        job = memory.job(s.jobs, k)
        s.doomed = job.next
        i = memory.node(s.nodes, job.device).first_task
        while i >= 0:
            older = memory.task(s.tasks, i).older
            if memory.task(s.tasks, i).job == k:
                _withdraw(s, i, now)
                _close(s, i, job.failed, now)
            i = older
        _close_job(s, k, job.failed, now)


@jit
def abort(s: Record, i: int, status: int, now: float) -> None:
    """End task i wherever it is."""
    _withdraw(s, i, now)
    end(s, i, status, now)
