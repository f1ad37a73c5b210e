"""Rows of tasks: taken, given back, and the numbers of their events."""

from __future__ import annotations

import math

from cosim.engine.continuum import memory
from cosim.engine.continuum.draw import OUTPUT, size
from cosim.engine.continuum.heap import NUMBER_BITS, RANK
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import DOWN, FREE, MOVE, Record
from cosim.engine.continuum.queue import drop


@jit
def timer_number(s: Record, device: int) -> int:
    """Event number of a device's patience timer."""
    return int(s.source_count + s.station_count + device)


@jit
def task_number(s: Record, i: int) -> int:
    """Event number of a task's arrival after a delay, below its rank; the next one is its deadline's.

    Tasks with events at the same time take turns in the order of their creation, whatever rows they have.
    """
    return int(s.first_event + 2 * i + ((memory.task(s.tasks, i).serial & RANK) << NUMBER_BITS))


@jit
def load(s: Record, t: Record) -> float:
    """B that task t has to carry in its present phase."""
    if t.phase == DOWN:
        return float(t.output)
    if t.phase == MOVE:
        state = memory.workload(s.workloads, t.workload).state
        return float(state) if state >= 0.0 else float(t.input)
    return float(t.input)


@jit
def new_row(s: Record, device: int) -> int:
    """Take a free row for a task of the device, with the next serial number."""
    i = s.free
    t = memory.task(s.tasks, i)
    s.free = t.newer
    s.live += 1
    s.peak = max(s.peak, i + 1)
    t.serial = s.serial
    s.serial += 1
    t.device = device
    t.assigned = math.nan
    t.station, t.parked, t.counted, t.held = -1, 0, 0, 0
    t.waits = 0
    first = memory.node(s.nodes, device).first_task
    t.older, t.newer = first, -1
    if first >= 0:
        memory.task(s.tasks, first).newer = i
    memory.node(s.nodes, device).first_task = i
    return int(i)


@jit
def free_row(s: Record, i: int) -> None:
    """Take task i, in no station any more, out of its device's list and free its row."""
    t = memory.task(s.tasks, i)
    drop(s, task_number(s, i))
    drop(s, task_number(s, i) + 1)
    s.live -= 1
    older, newer = t.older, t.newer
    if newer >= 0:
        memory.task(s.tasks, newer).older = older
    else:
        memory.node(s.nodes, t.device).first_task = older
    if older >= 0:
        memory.task(s.tasks, older).newer = newer
    t.phase = FREE
    t.newer = s.free
    s.free = i


@jit
def stage_number(s: Record, t: Record) -> int:
    """Where `missing` and `site` hold the stage of task t."""
    return int(t.job * s.widest + t.stage - memory.workload(s.workloads, t.workload).first_stage)


@jit
def stage_output(s: Record, k: int, number: int) -> float:
    """B that stage `number` (of all graphs) of job k makes; each stage of a job has draws of its own."""
    job, stage = memory.job(s.jobs, k), memory.stage(s.stages, number)
    own = 16 * (1 + number - memory.workload(s.workloads, job.workload).first_stage) + OUTPUT
    return size(stage.output_law, stage.output_a, stage.output_b, job.key, job.draw, own)
