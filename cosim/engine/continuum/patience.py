"""Tasks that wait for coverage, and how long."""

from __future__ import annotations

import math

from cosim.engine.continuum import memory
from cosim.engine.continuum.ending import abort
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import NO_COVERAGE, PARKED, RETRIES, Record
from cosim.engine.continuum.numbering import downlink, uplink
from cosim.engine.continuum.queue import drop, put
from cosim.engine.continuum.rows import task_number, timer_number


@jit
def _waits(t: Record, node: Record, device: int) -> bool:
    """Whether a task of the device waits for coverage, with its transfer begun or not."""
    on_air = t.station == uplink(device) or t.station == downlink(device)
    return bool(t.parked == PARKED or (on_air and node.covered == 0))


@jit
def _expiry(s: Record, t: Record, node: Record) -> float:
    """When a waiting task has waited long enough."""
    since = node.outage if node.outage > t.entered else t.entered
    return float(since + s.patience)


@jit
def arm(s: Record, device: int) -> None:
    """Set the patience timer to the first of the device's tasks that will have waited too long."""
    first = math.inf
    node = memory.node(s.nodes, device)
    i = node.first_task
    while i >= 0:
        t = memory.task(s.tasks, i)
        if _waits(t, node, device):
            first = min(first, _expiry(s, t, node))
        i = t.older
    if first < math.inf:
        put(s, timer_number(s, device), max(first, s.now))  # one held for a decision may have waited longer
    else:
        drop(s, timer_number(s, device))


@jit
def lose_patience(s: Record, device: int, now: float) -> None:
    """Fail the tasks of a device that have waited too long for coverage."""
    node = memory.node(s.nodes, device)
    i = node.first_task
    while i >= 0:
        t = memory.task(s.tasks, i)
        older = t.older
        if _waits(t, node, device) and _expiry(s, t, node) <= now:
            abort(s, i, NO_COVERAGE, now)
        i = older
    arm(s, device)


@jit
def park(s: Record, i: int, now: float) -> None:
    """Let task i wait for coverage; one that has tried in vain goes on waiting, its patience is not new."""
    t = memory.task(s.tasks, i)
    if t.parked != RETRIES:
        t.entered = now
    t.parked = PARKED
    arm(s, t.device)


@jit
def unpark(s: Record, device: int, now: float) -> None:
    """Coverage may be back: let the device's waiting tasks try again, through events of their own."""
    i = memory.node(s.nodes, device).first_task
    while i >= 0:
        if memory.task(s.tasks, i).parked == PARKED:
            memory.task(s.tasks, i).parked = RETRIES
            put(s, task_number(s, i), now)
        i = memory.task(s.tasks, i).older
