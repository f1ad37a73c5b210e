"""Sources of tasks: one per device and workload, each with a random stream of its own.

Only the next arrival of a source is known. Draw n of a source is the n-th gap that it draws, used
or not; the task that follows takes its sizes from the same number.
"""

from __future__ import annotations

import math

from cosim.engine.continuum import memory
from cosim.engine.continuum.draw import ACTIVE, GAP, IDLE, OFFSET, PART, SHARE, exponential, normal, stream, uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import BAG, EVERY, NOBODY, POISSON, TRACE, Record
from cosim.engine.continuum.making import make
from cosim.engine.continuum.queue import drop, put


@jit
def _next_phase(source: Record, work: Record, start: float) -> None:
    """Begin an active phase at `start` and draw its length."""
    source.phases += 1
    source.phase_end = start + work.active * exponential(source.key, source.phases, ACTIVE)
    source.base = start
    source.step = 0
    if work.arrivals == EVERY:
        source.base = start + uniform(source.key, source.phases, OFFSET) / work.rate


@jit
def _next_in_bag(source: Record, work: Record) -> float:
    """When the next task of a source of bags is made; bag k comes `k / rate` after the first one."""
    while source.left == 0:
        time = source.phase_end + source.step / work.rate
        if time >= work.stop:
            return math.inf
        source.base = time
        source.step += 1
        source.left = max(0, round(work.bag_mean + work.bag_spread * normal(source.key, source.step)))
    source.left -= 1
    source.drawn += 1
    return float(source.base)


@jit
def _next_time(source: Record, work: Record) -> float:
    """When the next task is made."""
    while True:
        if work.arrivals == EVERY:
            time = source.base + source.step / work.rate
            source.step += 1
            source.drawn += 1
        else:
            source.drawn += 1
            time = source.base + exponential(source.key, source.drawn, GAP) / work.rate
        if time <= source.phase_end:
            break
        start = source.phase_end + work.idle * exponential(source.key, source.phases, IDLE)
        if start > work.stop:
            return math.inf
        _next_phase(source, work, start)
    if work.arrivals == POISSON:
        source.base = time
    return float(time)


@jit
def _plan(s: Record, k: int) -> None:
    """Put the source's next arrival into the event heap, if there is one before its end."""
    source = memory.source(s.sources, k)
    work = memory.workload(s.workloads, source.workload)
    if work.arrivals == TRACE:
        time = math.inf
        if source.drawn < source.rows:
            time = source.base + memory.traced(s.trace, source.first_row + source.drawn).time
            source.drawn += 1
    elif work.arrivals == BAG:
        time = _next_in_bag(source, work)
    else:
        time = _next_time(source, work)
    if time < work.stop:
        put(s, k, time)
    else:
        drop(s, k)


@jit
def begin(s: Record, k: int, now: float) -> None:
    """The source's device is there from `now` on: start a fresh stream for it.

    On/off sources start in their stationary state: active with probability active/(active + idle),
    with an exponential rest of the phase, as the exponential law has no memory.
    """
    source = memory.source(s.sources, k)
    work = memory.workload(s.workloads, source.workload)
    generation = memory.node(s.nodes, source.node).generation
    source.key = stream(s.seed, source.node, generation, source.workload)
    source.drawn = source.phases = 0
    if uniform(source.key, source.phases, SHARE) >= work.share:
        return
    start = now if now > work.start else work.start
    if work.arrivals == TRACE:
        source.base = work.start
        first = source.first_row
        while source.drawn < source.rows and work.start + memory.traced(s.trace, first + source.drawn).time < now:
            source.drawn += 1
    elif work.arrivals == BAG:
        source.step = source.left = 0
        source.phase_end = start
    elif work.active > 0.0:
        if uniform(source.key, source.phases, ACTIVE) * (work.active + work.idle) >= work.active:
            start += work.idle * exponential(source.key, source.phases, IDLE)
        _next_phase(source, work, start)
    else:
        source.phase_end = math.inf
        source.step = 0
        source.base = start
        if work.arrivals == EVERY:
            source.base = start + uniform(source.key, source.phases, OFFSET) / work.rate
    _plan(s, k)


@jit
def halt(s: Record, k: int) -> None:
    """The source's device is gone."""
    drop(s, k)


@jit
def arrive(s: Record, k: int, now: float) -> int:
    """Make a task of source k that is due; return the task if it needs a host, else NOBODY."""
    source = memory.source(s.sources, k)
    n = source.drawn
    _plan(s, k)
    if memory.node(s.nodes, source.node).up == 0:
        return int(NOBODY)
    taken = memory.workload(s.workloads, source.workload).taken
    if taken > 0.0 and uniform(source.key, n, PART) < taken:
        return int(NOBODY)
    return make(s, k, n, now)
