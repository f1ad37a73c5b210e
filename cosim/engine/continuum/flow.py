"""The way of a task's data: to its host, from host to host, back to its device."""

from __future__ import annotations

import math

from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.ending import end
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.numbering import downlink, link_station, processor, uplink
from cosim.engine.continuum.paths import connected, could_hold, far_end, fixed_link, next_hop
from cosim.engine.continuum.patience import park
from cosim.engine.continuum.rows import free_row, load, stage_number
from cosim.engine.continuum.station import enter
from cosim.engine.continuum.sums import add


@jit
def _join(s: Record, i: int, link: int, units: float, now: float) -> None:
    """Send `units` of task i over a fixed link, from the node where it is."""
    back = 0 if memory.link(s.links, link).a == memory.task(s.tasks, i).at else 1
    enter(s, link_station(s.node_count, link, back), i, units, now)


@jit
def _hop(s: Record, i: int, target: int, units: float, now: float) -> None:
    """Send task i one link nearer to `target` through the fixed network."""
    link = next_hop(s, memory.task(s.tasks, i).at, target)
    if link < 0:
        end(s, i, l.LINK_FAILED if memory.node(s.nodes, target).up != 0 else l.NODE_FAILED, now)
    else:
        _join(s, i, link, units, now)


@jit
def _depart(s: Record, i: int, now: float) -> None:
    """Send the input from the device: over a link to the host, else the radio, else the best link."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    link = fixed_link(s, t.device, t.host)
    direct = link >= 0 and far_end(s, link, t.device) == t.host
    cell = node.cell if node.covered != 0 else -1
    if not direct and cell >= 0 and connected(s, cell, t.host):
        enter(s, uplink(t.device), i, load(s, t), now)
    elif link >= 0:
        _join(s, i, link, load(s, t), now)
    elif cell >= 0:
        end(s, i, l.LINK_FAILED if memory.node(s.nodes, t.host).up != 0 else l.NODE_FAILED, now)
    else:
        park(s, i, now)


@jit
def _deliver(s: Record, i: int, now: float) -> None:
    """Send the data one step to the device, to where it is attached now."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    link = fixed_link(s, t.device, t.at)
    direct = link >= 0 and far_end(s, link, t.device) == t.at
    cell = node.cell if node.covered != 0 else -1
    if direct:
        _join(s, i, link, load(s, t), now)
    elif cell >= 0 and cell == t.at:
        enter(s, downlink(t.device), i, load(s, t), now)
    elif cell >= 0 and connected(s, t.at, cell):
        _hop(s, i, cell, load(s, t), now)
    elif link >= 0:
        _hop(s, i, far_end(s, link, t.device), load(s, t), now)
    elif cell >= 0:
        end(s, i, l.LINK_FAILED, now)
    else:
        park(s, i, now)


@jit
def _joined(s: Record, i: int, now: float) -> int:
    """One input of a stage is there: the stage's task when it was the last one, else -1."""
    t = memory.task(s.tasks, i)
    k, whole = stage_number(s, t), t.join
    memory.whole(s.missing, k).v -= 1
    if whole >= 0:
        free_row(s, i)
        i = whole
    else:
        t.phase = l.JOIN
        t.uploaded = math.nan  # others are missing
    if memory.whole(s.missing, k).v > 0:
        return -1
    memory.task(s.tasks, i).uploaded = now
    return i


@jit
def _admit(s: Record, i: int, now: float) -> None:
    """The data is complete at the host: compute, if there is a place."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.host)
    if node.up == 0:
        end(s, i, l.NODE_FAILED, now)
        return
    j = processor(t.host)
    node.inputs += load(s, t)
    if t.phase == l.MOVE:
        add(s, l.STATE_DELIVERED, load(s, t))
    else:
        t.uploaded = now
        add(s, l.INPUT_DELIVERED, t.input)
        if t.job >= 0:
            i = _joined(s, i, now)
            if i < 0:
                return
            t = memory.task(s.tasks, i)
    t.phase = l.RUN
    kind = memory.kind(s.kinds, node.kind)
    inside = memory.station(s.stations, j).active + memory.station(s.stations, j).queued
    if node.machine >= 0:
        inside = memory.machine(s.machines, node.machine).resident + memory.machine(s.machines, node.machine).waiting
    if (kind.slots > 0 and inside >= kind.slots) or not could_hold(s, t.host, i, now):
        end(s, i, l.CAPACITY, now)
        return
    if node.host >= 0:
        memory.host(s.hosts, node.host).running += 1
    if node.machine >= 0:
        memory.equipment(s, l.ARRIVE, node.machine, i, now)
    else:
        enter(s, j, i, t.rest + kind.dispatch * kind.clock, now)


@jit
def proceed(s: Record, i: int, now: float) -> None:
    """Task i stands at node `at`: send it on."""
    t = memory.task(s.tasks, i)
    if t.phase == l.UP or t.phase == l.MOVE:
        if t.at == t.host:
            _admit(s, i, now)
        elif memory.node(s.nodes, t.at).up == 0:
            end(s, i, l.NODE_FAILED, now)
        elif memory.node(s.nodes, t.at).infra < 0:
            _depart(s, i, now)
        elif memory.node(s.nodes, t.host).infra < 0:
            _deliver(s, i, now)
        else:
            _hop(s, i, t.host, load(s, t), now)
    elif t.at == t.device:
        end(s, i, l.COMPLETED, now)
    elif memory.node(s.nodes, t.at).up == 0:
        end(s, i, l.NODE_FAILED, now)
    elif memory.node(s.nodes, t.device).infra >= 0:
        _hop(s, i, t.device, t.output, now)
    else:
        _deliver(s, i, now)
