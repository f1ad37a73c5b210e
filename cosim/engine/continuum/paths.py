"""Routes of data between a device and the nodes that forward, as the network is now."""

from __future__ import annotations

import math

from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import BESIDE, COULD_HOLD, Record


@jit
def connected(s: Record, here: int, there: int) -> bool:
    """Whether there is a route between two nodes that forward."""
    row, column = memory.node(s.nodes, here).infra, memory.node(s.nodes, there).infra
    part = memory.number(s.part, row).v
    return bool(part >= 0 and part == memory.number(s.part, column).v)


@jit
def next_hop(s: Record, here: int, there: int) -> int:
    """The link of the first hop between two nodes that forward, -1: no route."""
    row, column = memory.node(s.nodes, here).infra, memory.node(s.nodes, there).infra
    if memory.number(s.exit, row).v >= 0 and row != column:  # without looking into the large table
        return int(memory.number(s.exit, row).v) if connected(s, here, there) else -1
    return int(memory.number(s.next_hop, row * s.infra_count + column).v)


@jit
def distance(s: Record, here: int, there: int) -> float:
    """Seconds of a reference transfer between two nodes that forward, inf: no route."""
    row, column = memory.node(s.nodes, here).infra, memory.node(s.nodes, there).infra
    return float(memory.real(s.distance, row * s.infra_count + column).v)


@jit
def far_end(s: Record, link: int, n: int) -> int:
    """The other end of a link."""
    return int(memory.link(s.links, link).b) if memory.link(s.links, link).a == n else int(memory.link(s.links, link).a)


@jit
def fixed_link(s: Record, device: int, target: int) -> int:
    """The device's best fixed link to node `target` (a node that forwards); -1 for none."""
    node = memory.node(s.nodes, device)
    best, least = -1, math.inf
    for k in range(node.first_link, node.first_link + node.links):
        link = memory.whole(s.access, k).v
        if memory.link(s.links, link).up != 0:
            far = far_end(s, link, device)
            if far == target:
                return int(link)
            if memory.node(s.nodes, far).infra >= 0:
                cost = memory.link(s.links, link).cost + distance(s, far, target)
                if cost < least:
                    best, least = link, cost
    return best


@jit
def serving_node(s: Record, device: int) -> int:
    """The node that serves a device: itself, its cell, or the far end of its fastest fixed link; -1."""
    node = memory.node(s.nodes, device)
    if node.infra >= 0:
        return device
    if node.covered != 0:
        return int(node.cell)
    best, least = -1, math.inf
    for k in range(node.first_link, node.first_link + node.links):
        link = memory.whole(s.access, k).v
        if memory.link(s.links, link).up != 0 and memory.link(s.links, link).cost < least:
            best, least = far_end(s, link, device), memory.link(s.links, link).cost
    return best


@jit
def fill_reach(s: Record, device: int, serving: int) -> None:
    """Write into `scratch` how long a reference transfer takes from the device's network to each host."""
    node = memory.node(s.nodes, device)
    radio = memory.node(s.nodes, serving).infra if serving >= 0 and (node.covered != 0 or node.infra >= 0) else -1
    for h in range(s.host_count):
        time = memory.real(s.reach, radio * s.host_count + h).v if radio >= 0 else math.inf
        memory.real(s.scratch, h).v = time
    for k in range(node.first_link, node.first_link + node.links):
        link = memory.whole(s.access, k).v
        far = memory.node(s.nodes, far_end(s, link, device)).infra
        if memory.link(s.links, link).up != 0 and far >= 0:
            for h in range(s.host_count):
                time = memory.link(s.links, link).cost + memory.real(s.reach, far * s.host_count + h).v
                memory.real(s.scratch, h).v = min(memory.real(s.scratch, h).v, time)


@jit
def technology_of(s: Record, n: int) -> int:
    """The radio technology by which device n is served; 0 for none in particular."""
    cell = memory.node(s.nodes, n).cell
    return int(memory.kind(s.kinds, memory.node(s.nodes, cell).kind).technology) if cell >= 0 else 0


@jit
def permitted(s: Record, load: int, n: int) -> bool:
    """Whether affinity lets a task of workload `load` be given to node n now, as Kubernetes requires in scheduling."""
    if s.bound == 0:
        return True
    if memory.number(s.allowed, load * s.node_count + n).v == 0:
        return False
    h = memory.node(s.nodes, n).host
    if h >= 0:
        for other in range(s.workload_count):
            bond = memory.number(s.bonds, load * s.workload_count + other).v
            there = memory.number(s.beside, other * s.host_count + h).v > 0
            if bond != 0 and there != (bond == BESIDE):
                return False
    return True


@jit
def could_hold(s: Record, n: int, i: int, now: float) -> bool:
    """Whether node n, if it were empty, could run task i."""
    if memory.node(s.nodes, n).machine >= 0:
        return memory.equipment(s, COULD_HOLD, n, i, now) != 0
    return bool(memory.task(s.tasks, i).operations <= 0.0)
