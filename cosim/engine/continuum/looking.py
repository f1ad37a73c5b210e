"""What single tasks have before them, for those who decide by the clock: ways to hosts, and the rest of their work."""

from __future__ import annotations

import math

import numpy as np

from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import entry, jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.numbering import processor
from cosim.engine.continuum.paths import could_hold, fill_reach, permitted, serving_node


@jit
def own_speed(s: Record, t: Record) -> float:
    """Cycles/s of the processor of a task's device, 0 where it may not run there."""
    speed = memory.kind(s.kinds, memory.node(s.nodes, t.device).kind).clock
    speed *= memory.station(s.stations, processor(t.device)).servers
    if s.bound != 0:
        speed *= memory.number(s.allowed, t.workload * s.node_count + t.device).v
    return float(speed)


@jit
def left(s: Record, i: int) -> float:
    """Cycles that are still to be done of a task with a host, see `cosim.engine.continuum.station` and `machine`."""
    t = memory.task(s.tasks, i)
    if t.phase == l.DOWN or (t.phase == l.RUN and t.station >= s.first_accelerator):
        return 0.0
    if t.phase != l.RUN or t.station < 0:
        return float(t.rest)
    station, node = memory.station(s.stations, t.station), memory.node(s.nodes, t.host)
    active = max(station.active, 1)
    rate = station.rate / (1.0 + station.contention * (min(active, station.servers) - 1))
    virtual = station.virtual + min(rate, rate * station.servers / active) * (s.now - station.since)
    units = t.tag if t.child == -2 or t.waits != 0 else max(t.tag - virtual, 0.0)
    clock = fastest = memory.kind(s.kinds, node.kind).clock
    if node.machine >= 0 and memory.machine(s.machines, node.machine).points > 0:
        machine = memory.machine(s.machines, node.machine)
        clock = memory.point(s.points, machine.first_point + machine.point).clock
    c = memory.workload(s.workloads, t.workload).sensitivity  # a slower clock needs fewer cycles for such work
    return float(units / (c + (1.0 - c) * clock / fastest))


@jit
def ways(s: Record, i: int, reach: Floats) -> None:
    """Write the s (H,) of a reference transfer from the data of task i to each host that may take it, else inf."""
    t = memory.task(s.tasks, i)
    load = memory.workload(s.workloads, t.workload)
    where = memory.node(s.nodes, t.host).host if t.held == 0 else -1
    if t.held != 0 and t.at == t.device:
        fill_reach(s, t.device, serving_node(s, t.device))
    else:
        here = memory.node(s.nodes, t.at if t.held != 0 else t.host).infra
        for h in range(s.host_count):
            memory.real(s.scratch, h).v = memory.real(s.reach, here * s.host_count + h).v if here >= 0 else math.inf
    asks = t.held != 0 and (t.operations > 0.0 or load.memory > 0.0 or load.storage > 0.0)
    for h in range(s.host_count):
        slot = memory.host(s.hosts, h).slot
        can = (not asks or could_hold(s, slot, i, 0.0)) and (h == where or permitted(s, t.workload, slot))
        reach[h] = memory.real(s.scratch, h).v if can else math.inf


@entry
def look_at(meta: Records, rows: Ints) -> tuple[Floats, Floats, Floats]:
    """`ways` (n, H), `left` (n,) and `own_speed` (n,) of the tasks in these rows (n,)."""
    s = meta[0]
    reach, rest, own = np.empty((len(rows), s.host_count)), np.empty(len(rows)), np.empty(len(rows))
    for k in range(len(rows)):
        ways(s, rows[k], reach[k])
        rest[k], own[k] = left(s, rows[k]), own_speed(s, memory.task(s.tasks, rows[k]))
    return reach, rest, own


@entry
def reach_of(meta: Records, devices: Ints) -> tuple[Ints, Floats]:
    """(n,) slots of the nodes that serve these devices, -1: none, and (n, H) s from them to each host.

    The same as a scheduler's input about tasks that the devices would make now.
    """
    s = meta[0]
    serving, reach = np.empty(len(devices), np.int64), np.empty((len(devices), s.host_count))
    for k in range(len(devices)):
        serving[k] = serving_node(s, devices[k])
        fill_reach(s, devices[k], serving[k])
        for h in range(s.host_count):
            reach[k, h] = memory.real(s.scratch, h).v
    return serving, reach
