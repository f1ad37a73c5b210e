"""Routes through the fixed network: shortest by the time of a reference transfer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum import memory
from cosim.engine.continuum.indices import rebuild
from cosim.engine.continuum.jit import entry


@entry
def find(
    meta: Records,
    first: NDArray[np.int64],
    ends: NDArray[np.int64],
    over: NDArray[np.int64],
    line: NDArray[np.int64],
) -> None:
    """Fill `next_hop`, `distance`, `reach` and what schedulers look up for the links and nodes that are up.

    `ends[first[u]:first[u + 1]]` are the neighbours of forwarding node u, `over` the links to them.
    `line` (2 * infra,), zeros, is room for the queue of the nodes whose distance has become shorter,
    and for whether a node is in it (Moore 1959).
    """
    s = meta[0]
    count = s.infra_count
    for k in range(count * count):
        memory.number(s.next_hop, k).v = -1
        memory.real(s.distance, k).v = np.inf
    for target in range(count):
        if memory.node(s.nodes, memory.whole(s.infra, target).v).up == 0:
            continue
        memory.real(s.distance, target * count + target).v = 0.0
        line[0] = target
        head, length = 0, 1
        while length > 0:
            v = line[head]
            head = (head + 1) % count
            length -= 1
            line[count + v] = 0
            for k in range(first[v], first[v + 1]):
                u, link = ends[k], over[k]
                if memory.link(s.links, link).up == 0 or memory.node(s.nodes, memory.whole(s.infra, u).v).up == 0:
                    continue
                through = memory.real(s.distance, v * count + target).v + memory.link(s.links, link).cost
                if through < memory.real(s.distance, u * count + target).v:
                    memory.real(s.distance, u * count + target).v = through
                    memory.number(s.next_hop, u * count + target).v = link
                    if line[count + u] == 0:
                        line[(head + length) % count] = u
                        length += 1
                        line[count + u] = 1
    for h in range(s.host_count):
        target = memory.node(s.nodes, memory.host(s.hosts, h).slot).infra
        for k in range(count):
            memory.real(s.reach, k * s.host_count + h).v = memory.real(s.distance, k * count + target).v
    for u in range(count):
        exits = 0
        memory.number(s.exit, u).v = -1
        for k in range(first[u], first[u + 1]):
            far = memory.node(s.nodes, memory.whole(s.infra, ends[k]).v)
            if memory.link(s.links, over[k]).up != 0 and far.up != 0 and ends[k] != u:
                exits += 1
                memory.number(s.exit, u).v = over[k]
                memory.number(s.hub, u).v = ends[k]
                memory.real(s.toll, u).v = memory.link(s.links, over[k]).cost
        if exits != 1:
            memory.number(s.exit, u).v = -1
        if exits != 1 or memory.node(s.nodes, memory.whole(s.infra, u).v).up == 0:
            memory.number(s.hub, u).v = -1
    rebuild(s)
