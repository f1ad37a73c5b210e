"""Which host the built-in schedulers choose, without looking at every host.

What `cosim.engine.continuum.schedulers` finds by a scan is kept up to date here: the nearest host and the
nearest cloud of every node that forwards (anew with the routes), the hosts of every connected part of
the network in the order of their numbers, and a tree of the least loads. The answers are the same.

Of the hosts that share the least load the nearest is asked for. Few of them are compared one by one. Of
many, the nearest of all may be one; behind it there are often many hosts at the same distance, as beyond
a core network, and the first of those that have the least load is found in the tree. Else one is found
near the beginning of the hosts by distance.
"""

from __future__ import annotations

import math

from cosim.compiled.compiling import codes
from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import CLOUD, Record
from cosim.engine.continuum.paths import far_end
from cosim.engine.continuum.schedulers import LOCAL, NONE

NEAREST, LEAST_LOADED, FAR, OWN, RANDOM, ROUND_ROBIN, HYBRID = codes(7)  # positions in `schedulers.ORDER`
SCAN = -3  # answer: the hosts have to be looked at one by one
_FEW = 4  # hosts that are compared without further ado
_SEVERAL = -2  # a device with several attachments


@jit
def _pull(s: Record, k: int) -> bool:
    """Work out node k of the tree from those below it; False when that changes nothing."""
    here, a, b = memory.fewest(s.fewest, k), memory.fewest(s.fewest, 2 * k), memory.fewest(s.fewest, 2 * k + 1)
    load, ties = a.load, a.ties
    if b.load < load:
        load, ties = b.load, b.ties
    elif b.load == load:
        ties += b.ties
    if here.load == load and here.ties == ties:
        return False
    here.load, here.ties = load, ties
    return True


@jit
def _load(host: Record) -> float:
    """Tasks per cycle/s, inf for a host that computes nothing."""
    return float(host.assigned / host.speed) if host.speed > 0.0 else math.inf


@jit
def book(s: Record, h: int, load: int, tasks: int) -> None:
    """So many more tasks of workload `load` are assigned to host h."""
    host = memory.host(s.hosts, h)
    host.assigned += tasks
    if s.bound != 0:
        memory.number(s.beside, load * s.host_count + h).v += tasks
    if s.scheduler != LEAST_LOADED or host.member < 0:
        return
    k = s.leaves + host.member
    memory.fewest(s.fewest, k).load = _load(host)
    while k > 1:
        k >>= 1
        if not _pull(s, k):
            break


@jit
def rebuild(s: Record) -> None:
    """Work out everything from `distance`, `reach` and the loads."""
    count, hosts = s.infra_count, s.host_count
    for row in range(count):
        memory.number(s.part, row).v = -1
        memory.number(s.order, row * (1 + hosts)).v = 0
    parts = 0
    for row in range(count):
        if memory.number(s.part, row).v >= 0 or memory.node(s.nodes, memory.whole(s.infra, row).v).up == 0:
            continue
        for other in range(count):
            if memory.real(s.distance, row * count + other).v < math.inf:
                memory.number(s.part, other).v = parts
        parts += 1
    _group(s, parts)
    for row in range(count):
        _find_nearest(s, row)
    for k in range(s.leaves, 2 * s.leaves):
        leaf = memory.fewest(s.fewest, k)
        leaf.load, leaf.ties = math.inf, 1
        if k - s.leaves < memory.number(s.first_member, parts).v:
            leaf.load = _load(memory.host(s.hosts, memory.number(s.members, k - s.leaves).v))
    for k in range(s.leaves - 1, 0, -1):
        _pull(s, k)


@jit
def _part_of(s: Record, h: int) -> int:
    """The connected part that host h is in, -1: it takes no tasks."""
    if memory.host(s.hosts, h).up == 0:
        return -1
    return int(memory.number(s.part, memory.node(s.nodes, memory.host(s.hosts, h).slot).infra).v)


@jit
def _group(s: Record, parts: int) -> None:
    """Group the hosts by connected part."""
    for p in range(s.infra_count + 1):
        memory.number(s.first_member, p).v = 0
    for h in range(s.host_count):
        p = _part_of(s, h)
        if p >= 0:
            memory.number(s.first_member, p).v += 1
    end = 0
    for p in range(s.infra_count + 1):
        end += memory.number(s.first_member, p).v
        memory.number(s.first_member, p).v = end
    for h in range(s.host_count - 1, -1, -1):  # from behind: what is the end of a part becomes its beginning
        p = _part_of(s, h)
        memory.host(s.hosts, h).member = -1
        if p >= 0:
            place = memory.number(s.first_member, p).v - 1
            memory.number(s.first_member, p).v = place
            memory.number(s.members, place).v = h
            memory.host(s.hosts, h).member = place
    memory.number(s.first_member, parts).v = end


@jit
def _find_nearest(s: Record, row: int) -> None:
    near, cloud, least, least_cloud, second = -1, -1, math.inf, math.inf, math.inf
    p = memory.number(s.part, row).v
    if p >= 0:
        for m in range(memory.number(s.first_member, p).v, memory.number(s.first_member, p + 1).v):
            h = memory.number(s.members, m).v
            time = memory.real(s.reach, row * s.host_count + h).v
            if time < least:
                near, least, second = h, time, least
            elif time < second:
                second = time
            if time < least_cloud and memory.host(s.hosts, h).tier == CLOUD:
                cloud, least_cloud = h, time
    memory.number(s.near, 2 * row).v = near
    memory.real(s.second, row).v = second
    memory.number(s.near, 2 * row + 1).v = cloud


@jit
def _sort(s: Record, row: int, first: int, last: int) -> int:
    """Where `order` has the members of the row's part by reach, then number (Shell 1959, doi 10.1145/368370.368387)."""
    start = row * (1 + s.host_count)
    base, reach, count = start + 1, row * s.host_count, last - first
    if memory.number(s.order, start).v != 0:
        return int(base)
    memory.number(s.order, start).v = 1
    for m in range(count):
        memory.number(s.order, base + m).v = memory.number(s.members, first + m).v
    gap = count // 2
    while gap > 0:
        for m in range(gap, count):
            h = memory.number(s.order, base + m).v
            time = memory.real(s.reach, reach + h).v
            k = m
            while k >= gap:
                other = memory.number(s.order, base + k - gap).v
                theirs = memory.real(s.reach, reach + other).v
                if theirs < time or (theirs == time and other < h):
                    break
                memory.number(s.order, base + k).v = other
                k -= gap
            memory.number(s.order, base + k).v = h
        gap = 1 if gap == 2 else int(gap * 5 // 11)
    return int(base)


@jit
def _least(s: Record, first: int, last: int) -> tuple[float, int]:
    """The least load of the members from `first` to before `last`, and how many have it."""
    if first == 0 and last == s.host_count:
        return float(memory.fewest(s.fewest, 1).load), int(memory.fewest(s.fewest, 1).ties)
    load, ties = math.inf, 0
    a, b = s.leaves + first, s.leaves + last
    while a < b:
        for k in (a if a & 1 else 0, b - 1 if b & 1 else 0):
            if k > 0:
                node = memory.fewest(s.fewest, k)
                if node.load < load:
                    load, ties = node.load, node.ties
                elif node.load == load:
                    ties += node.ties
        a, b = (a + 1) >> 1, b >> 1
    return load, ties


@jit
def _next_with(s: Record, place: int, load: float) -> int:
    """The first member from `place` on whose load is at most `load`, -1 for none."""
    k = s.leaves + place
    if place >= s.leaves:
        return -1
    while memory.fewest(s.fewest, k).load > load:
        while k & 1:
            k >>= 1
        if k == 0:
            return -1
        k += 1
    while k < s.leaves:
        k *= 2
        if memory.fewest(s.fewest, k).load > load:
            k += 1
    return int(k - s.leaves)


@jit
def _reach(s: Record, row: int, h: int) -> float:
    """`reach` of host h from a node that forwards.

    Of a node with one link that is up it is what the search for routes has added up: the reach from the other end,
    and that link. There few rows are read, which stay in the cache; the whole table does not fit into it.
    """
    hub = memory.number(s.hub, row).v
    if hub < 0 or memory.host(s.hosts, h).slot == memory.whole(s.infra, row).v:
        return float(memory.real(s.reach, row * s.host_count + h).v)
    return float(memory.real(s.reach, hub * s.host_count + h).v + memory.real(s.toll, row).v)


@jit
def _least_loaded(s: Record, row: int, offset: float, first: int, last: int) -> int:
    load, ties = _least(s, first, last)
    if load == math.inf:
        return NONE
    if offset == 0.0 and ties > _FEW:
        near = memory.number(s.near, 2 * row).v
        if near >= 0 and memory.fewest(s.fewest, s.leaves + memory.host(s.hosts, near).member).load == load:
            return int(near)
        place = first
        for _ in range(_FEW):
            place = _next_with(s, place, load)
            if place < 0 or place >= last:
                break
            h = memory.number(s.members, place).v
            if _reach(s, row, h) == memory.real(s.second, row).v:
                return int(h)
            place += 1
    best, least = NONE, math.inf
    # by distance about (last - first) / ties hosts are looked at when equal distances end the search
    if ties * ties <= (last - first if offset == 0.0 else 4 * (last - first)) // 2:
        place = _next_with(s, first, load)
        while 0 <= place < last:
            h = memory.number(s.members, place).v
            time = offset + _reach(s, row, h)
            if time < least:
                best, least = h, time
            ties -= 1
            if ties == 0:
                break
            place = _next_with(s, place + 1, load)
        return int(best)
    base = _sort(s, row, first, last)
    for k in range(base, base + last - first):
        h = memory.number(s.order, k).v
        time = offset + _reach(s, row, h)
        if best >= 0 and (time > least or offset == 0.0):  # at equal distance the lowest number comes first
            break
        if memory.fewest(s.fewest, s.leaves + memory.host(s.hosts, h).member).load == load and (best < 0 or h < best):
            best, least = h, time
    return int(best)


@jit
def _attachment(s: Record, device: int, at: int, serving: int) -> tuple[int, float]:
    """The forwarding node (its number) at which a device's data at node `at` enters the network, and the s to there."""
    if at != device:
        return int(memory.node(s.nodes, at).infra), 0.0
    node = memory.node(s.nodes, device)
    row, offset = -1, 0.0
    if serving >= 0 and (node.covered != 0 or node.infra >= 0):
        row = memory.node(s.nodes, serving).infra
    for k in range(node.first_link, node.first_link + node.links):
        link = memory.whole(s.access, k).v
        far = memory.node(s.nodes, far_end(s, link, device)).infra
        if memory.link(s.links, link).up != 0 and far >= 0:
            if row >= 0:
                return _SEVERAL, 0.0
            row, offset = far, memory.link(s.links, link).cost
    return int(row), float(offset)


@jit
def _hybrid(s: Record, row: int) -> int:
    near, far = memory.number(s.near, 2 * row).v, memory.number(s.near, 2 * row + 1).v
    if near >= 0 and memory.host(s.hosts, near).assigned < s.threshold * memory.host(s.hosts, near).cores:
        return int(near)
    return int(far if far >= 0 else near)


@jit
def goes_beyond(s: Record, device: int, at: int, serving: int) -> bool:
    """Whether `hybrid` would now choose another host than the nearest for data of a device at node `at`.

    True also if this cannot be decided without a scan.
    """
    row, _ = _attachment(s, device, at, serving)
    if row == _SEVERAL:
        return True
    if row < 0 or memory.number(s.part, row).v < 0:
        return False
    return bool(_hybrid(s, row) != memory.number(s.near, 2 * row).v)


@jit
def pick(s: Record, i: int, serving: int) -> int:
    """The built-in scheduler's answer for task i, which any host could run; or SCAN."""
    t = memory.task(s.tasks, i)
    if s.scheduler == OWN:
        kind = memory.kind(s.kinds, memory.node(s.nodes, t.device).kind)
        return LOCAL if kind.clock * kind.cores > 0.0 else NONE
    row, offset = _attachment(s, t.device, t.at, serving)
    if row == _SEVERAL:
        return SCAN
    part = memory.number(s.part, row).v if row >= 0 else -1
    if part < 0:
        return NONE
    if s.scheduler == NEAREST:
        return int(memory.number(s.near, 2 * row).v)
    if s.scheduler == FAR:
        return int(memory.number(s.near, 2 * row + 1).v)
    if s.scheduler == HYBRID:
        return _hybrid(s, row)
    first, last = memory.number(s.first_member, part).v, memory.number(s.first_member, part + 1).v
    count = last - first
    if count == 0:
        return NONE
    if s.scheduler == RANDOM:
        return int(memory.number(s.members, first + min(int(t.chance * count), count - 1)).v)
    if s.scheduler == ROUND_ROBIN:
        return int(memory.number(s.members, first + s.turn % count).v)
    return _least_loaded(s, row, offset, first, last)
