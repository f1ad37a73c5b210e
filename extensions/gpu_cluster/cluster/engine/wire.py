"""What an allocation needs of the network, whether it fits, and the circuits that realise it.

Circuits of one job are chosen so that each uses a free port of both leaves on one switch. That is a
colouring of the multigraph of its leaves by switches; it is searched exactly up to a bound on the
steps, standing circuits that no job holds first, then the switch with the most free ports.
"""

from __future__ import annotations

import math

from cosim.compiled.compiling import part
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record, whole

_STEPS = 20_000  # of the search for few circuits
_FEW = 12
_STEPS_MANY = 64


@part
def _ring_like(pattern: int) -> bool:
    return pattern in (l.RING, l.TREE, l.PIPELINE)


@part
def rails_of(s: Record, j: int, m: int) -> int:
    """Parallel rings of job j: as many as it asks for, and no more than ranks on any of its leaves."""
    least = r.job(s.job, j).rails
    for i in range(m):
        least = min(least, r.cell(s, l.COUNT, i).v)
    found: int = max(1, least)
    return found


@part
def _edge(s: Record, e: int, a: int, b: int, circuits: int, load: int) -> int:
    r.cell(s, l.END_A, e).v = a
    r.cell(s, l.END_B, e).v = b
    r.cell(s, l.CIRCUITS_OF, e).v = circuits
    r.cell(s, l.LOAD_OF, e).v = load
    return e + 1


@part
def edges(s: Record, j: int, m: int) -> int:
    """Pairs of leaves of the allocation in AT and COUNT that talk, with circuits and load; -1: more than can be.

    The load of a pair is in UNIT: 1 is one NIC's full rate in the step's communication.
    """
    job = r.job(s.job, j)
    count, width = 0, s.width
    if m < 2 or job.pattern == l.LOCAL:
        return 0
    rails = rails_of(s, j, m)
    if _ring_like(job.pattern):
        for i in range(1, m):
            before = (i - 1) // 2 if job.pattern == l.TREE else i - 1
            count = _edge(s, count, before, i, rails, rails * l.UNIT)
        if job.pattern == l.RING and m > 2:
            count = _edge(s, count, m - 1, 0, rails, rails * l.UNIT)
        return count
    if job.pattern == l.ALL_TO_ALL:
        if m * (m - 1) // 2 > width:
            return -1
        for i in range(m):
            for k in range(i + 1, m):
                q = r.cell(s, l.COUNT, i).v * r.cell(s, l.COUNT, k).v / (job.n - 1.0)
                circuits = max(1, math.ceil(s.beta * q - 1e-9))
                count = _edge(s, count, i, k, circuits, int(q * l.UNIT))
        return count
    return _experts(s, j, m)


@part
def _experts(s: Record, j: int, m: int) -> int:
    """All-to-all within groups of consecutive ranks, and a ring over all leaves for the gradients."""
    job = r.job(s.job, j)
    count, width = 0, s.width
    size = min(max(2, job.group), job.n)
    first = 0
    for i in range(m):
        last = first + r.cell(s, l.COUNT, i).v
        start = last
        for k in range(i + 1, m):
            end = start + r.cell(s, l.COUNT, k).v
            q = 0.0
            group = (first // size) * size
            while group < last:
                here = min(last, group + size) - max(first, group)
                there = min(end, group + size) - max(start, group)
                if here > 0 and there > 0:
                    q += here * there / (size - 1.0)
                group += size
            neighbours = k == i + 1 or (i == 0 and k == m - 1)
            if q > 0.0 or neighbours:
                if count >= width:
                    return -1
                circuits = max(1, math.ceil(s.beta * q - 1e-9))
                count = _edge(s, count, i, k, circuits, max(l.UNIT, int(q * l.UNIT)) if neighbours else int(q * l.UNIT))
            start = end
        first = last
    return count


@part
def uplinks_of(s: Record, j: int, m: int, i: int) -> int:
    """Uplinks into a spine that the i-th leaf needs: both directions of a port are used."""
    job = r.job(s.job, j)
    if _ring_like(job.pattern):
        return rails_of(s, j, m)
    a = r.cell(s, l.COUNT, i).v
    size = job.n if job.pattern == l.ALL_TO_ALL else min(max(2, job.group), job.n)
    outside = min(job.n - a, size - 1)
    found: int = max(1, min(a, math.ceil(s.beta * a * outside / (size - 1.0) - 1e-9)))
    return found


@part
def wish(s: Record, j: int, m: int) -> int:
    """Uplinks or circuits that job j would take with the allocation in AT and COUNT if it got all."""
    if m < 2 or r.job(s.job, j).pattern == l.LOCAL or s.network == l.ROUTED:
        return 0
    total = 0
    if s.network == l.PACKET:
        for i in range(m):
            total += uplinks_of(s, j, m, i)
        return total
    for e in range(edges(s, j, m)):
        total += r.cell(s, l.CIRCUITS_OF, e).v
    return total


@part
def demand_ok(s: Record, j: int, m: int) -> int:
    """Uplinks or circuits that job j takes with the allocation in AT and COUNT; -1: the network cannot give them.

    Under CIRCUITS the circuits stand in UNIT_A, UNIT_B (leaves) and ON (switches) afterwards.
    """
    s.pieces = 1.0
    if m < 2 or r.job(s.job, j).pattern == l.LOCAL:
        return 0
    if s.network == l.PACKET:
        total = 0
        for i in range(m):
            need = uplinks_of(s, j, m, i)
            if need > r.leaf(s.leaf, r.cell(s, l.AT, i).v).up:
                return -1
            total += need
        return total
    count = edges(s, j, m)
    if count < 0:
        return -1
    if s.network == l.ROUTED:
        last = s.slots
        total = weigh(s, j, count, last)
        if s.strict:
            for e in range(s.links):
                if (
                    whole(s.carried, last * s.links + e).v > 0
                    and whole(s.load, e).v + whole(s.carried, last * s.links + e).v
                    > whole(s.cap, s.topology * s.links + e).v * l.UNIT
                ):
                    return -1
        return total // l.UNIT
    scale = 1.0
    while True:
        units = realise(s, m, count, scale)
        if units >= 0:
            if not s.strict:
                s.pieces = stretch(s, count, scale)
            return units
        if s.strict or scale < 0.03:
            return -1
        scale *= 0.5


@part
def scaled(circuits: int, scale: float) -> int:
    """Circuits of a pair when a job gets that part of what it asks for."""
    return max(1, math.ceil(circuits * scale - 1e-9))


@part
def stretch(s: Record, count: int, scale: float) -> float:
    """How many times longer the step's communication takes with that part of the circuits."""
    worst = 1.0
    for e in range(count):
        worst = max(worst, r.cell(s, l.LOAD_OF, e).v / (l.UNIT * float(scaled(r.cell(s, l.CIRCUITS_OF, e).v, scale))))
    return worst


@part
def weigh(s: Record, j: int, count: int, row: int) -> int:
    """Put the load of the edges on the links of the topology in force into `carried[row]`; the sum."""
    leaves, total = s.leaves, 0
    for x in range(s.links):
        whole(s.carried, row * s.links + x).v = 0
    both = r.job(s.job, j).pattern != l.RING
    for e in range(count):
        a, b = r.cell(s, l.AT, r.cell(s, l.END_A, e).v).v, r.cell(s, l.AT, r.cell(s, l.END_B, e).v).v
        load = r.cell(s, l.LOAD_OF, e).v
        for way in range(2 if both else 1):
            pair = a * leaves + b if way == 0 else b * leaves + a
            for x in range(s.links):
                part_of = r.short(s.route, (s.topology * s.leaves * s.leaves + pair) * s.links + x).v
                if part_of > 0:
                    on = (load * part_of) // l.UNIT
                    whole(s.carried, row * s.links + x).v += on
                    total += on
    return total


@part
def realise(s: Record, m: int, count: int, scale: float) -> int:
    """Choose a switch for each circuit, in ON; how many circuits, -1: there is no choice, or none was found."""
    units, switches = 0, s.switches
    if m * switches > s.width:
        return -1
    at, degree, free = r.line(s, l.AT), r.line(s, l.DEGREE), r.line(s, l.FREE)
    unit_a, unit_b = r.line(s, l.UNIT_A), r.line(s, l.UNIT_B)
    for i in range(m):
        whole(degree, i).v = 0
    for e in range(count):
        circuits = scaled(r.cell(s, l.CIRCUITS_OF, e).v, scale)
        a, b = r.cell(s, l.END_A, e).v, r.cell(s, l.END_B, e).v
        whole(degree, a).v += circuits
        whole(degree, b).v += circuits
        if units + circuits > s.width:
            return -1
        for u in range(units, units + circuits):
            whole(unit_a, u).v = a
            whole(unit_b, u).v = b
        units += circuits
    for i in range(m):
        if whole(degree, i).v > r.leaf(s.leaf, whole(at, i).v).up:
            return -1
    for i in range(m):
        first = whole(at, i).v * switches
        for x in range(switches):
            whole(free, i * switches + x).v = whole(s.room, first + x).v
    return units if _search(s, units) else -1


@part
def _standing(s: Record, u: int) -> None:
    """Per switch in STANDING: standing circuits between the ends of circuit u that no job holds or is to get."""
    a, b = r.cell(s, l.UNIT_A, u).v, r.cell(s, l.UNIT_B, u).v
    standing, ports = r.line(s, l.STANDING), s.port
    for x in range(s.switches):
        whole(standing, x).v = 0
    k, far = r.leaf(s.leaf, r.cell(s, l.AT, a).v), r.cell(s, l.AT, b).v
    for p in range(k.port, k.port + k.ports):
        port = r.port(ports, p)
        if port.mate >= 0 and port.holder < 0 and not port.down:
            mate = r.port(ports, port.mate)
            if mate.leaf == far and mate.holder < 0 and not mate.down:
                whole(standing, port.ocs).v += 1
    v = u - 1
    while v >= 0 and r.cell(s, l.UNIT_A, v).v == a and r.cell(s, l.UNIT_B, v).v == b:
        whole(standing, r.cell(s, l.ON, v).v).v -= 1
        v -= 1


@part
def _search(s: Record, units: int) -> bool:
    """Depth-first search over the circuits' switches, on the ports in FREE, which are used up."""
    left = _STEPS if units <= _FEW else _STEPS_MANY
    u, stale, last_a, last_b, switches = 0, True, -1, -1, s.switches
    unit_a, unit_b, on = r.line(s, l.UNIT_A), r.line(s, l.UNIT_B), r.line(s, l.ON)
    tried, free, standing = r.line(s, l.TRIED), r.line(s, l.FREE), r.line(s, l.STANDING)
    if units:
        whole(tried, 0).v = 0
    while 0 <= u < units:
        a, b = whole(unit_a, u).v * switches, whole(unit_b, u).v * switches
        if stale or a != last_a or b != last_b:
            _standing(s, u)
            stale, last_a, last_b = False, a, b
        best, chosen, mask = 0, -1, whole(tried, u).v
        for x in range(switches):
            room = min(whole(free, a + x).v, whole(free, b + x).v)
            if room > 0 and not (mask >> x) & 1:
                worth = room + (100_000 if whole(standing, x).v > 0 else 0)
                if worth > best:
                    best, chosen = worth, x
        if chosen >= 0:
            whole(tried, u).v = mask | (1 << chosen)
            whole(on, u).v = chosen
            whole(free, a + chosen).v -= 1
            whole(free, b + chosen).v -= 1
            whole(standing, chosen).v -= 1
            u += 1
            if u < units:
                whole(tried, u).v = 0
            continue
        left -= 1
        u -= 1
        stale = True
        if left < 0 or u < 0:
            return False
        x = whole(on, u).v
        whole(free, whole(unit_a, u).v * switches + x).v += 1
        whole(free, whole(unit_b, u).v * switches + x).v += 1
    return True


@part
def free_port(s: Record, p: int, more: int) -> None:
    """Uplink p is free (1), or is not any more (-1)."""
    port = r.port(s.port, p)
    r.leaf(s.leaf, port.leaf).up += more
    if port.ocs >= 0:
        whole(s.room, port.leaf * s.switches + port.ocs).v += more


@part
def _port(s: Record, k: int, x: int) -> int:
    """A free port of leaf k on switch x, one without a standing circuit if there is one."""
    second, first = l.NONE, k * (s.switches + 1) + x
    for p in range(whole(s.offset, first).v, whole(s.offset, first + 1).v):
        port = r.port(s.port, p)
        if port.holder < 0 and not port.down:
            if port.mate < 0:
                return p
            if second < 0:
                second = p
    return second


@part
def _hold(s: Record, j: int, p: int, q: int) -> None:
    r.port(s.port, p).holder = j
    r.port(s.port, q).holder = j
    free_port(s, p, -1)
    free_port(s, q, -1)
    s.held_ports += 2


@part
def connect(s: Record, j: int, units: int) -> float:
    """Make the circuits that `demand_ok` found job j's own; the longest delay (s) of those that did not stand."""
    for u in range(units):
        a, b = r.cell(s, l.AT, r.cell(s, l.UNIT_A, u).v).v, r.cell(s, l.AT, r.cell(s, l.UNIT_B, u).v).v
        first = a * (s.switches + 1) + r.cell(s, l.ON, u).v
        for p in range(whole(s.offset, first).v, whole(s.offset, first + 1).v):
            port = r.port(s.port, p)
            if port.holder < 0 and port.mate >= 0 and not port.down:
                q = port.mate
                if r.port(s.port, q).leaf == b and r.port(s.port, q).holder < 0 and not r.port(s.port, q).down:
                    _hold(s, j, p, q)
                    r.cell(s, l.ON, u).v = -1
                    s.reused += 1
                    break
    delay = 0.0
    for u in range(units):
        x = r.cell(s, l.ON, u).v
        if x < 0:
            continue
        a, b = r.cell(s, l.AT, r.cell(s, l.UNIT_A, u).v).v, r.cell(s, l.AT, r.cell(s, l.UNIT_B, u).v).v
        p, q = _port(s, a, x), _port(s, b, x)
        for one in (p, q):
            old = r.port(s.port, one).mate
            if old >= 0:
                r.port(s.port, old).mate = l.NONE
        r.port(s.port, p).mate, r.port(s.port, q).mate = q, p
        _hold(s, j, p, q)
        s.reconfigured += 1
        delay = max(delay, r.switch(s.switch, x).delay)
    return delay


@part
def given(s: Record, j: int, m: int, units: int) -> int:
    """Circuits that a policy gives to job j, as ports in UNIT_A and UNIT_B; -1: two leaves that talk have none.

    `pieces` is the factor by which the step's communication takes longer with them.
    """
    count = edges(s, j, m)
    s.pieces = 1.0
    for e in range(count):
        a, b = r.cell(s, l.AT, r.cell(s, l.END_A, e).v).v, r.cell(s, l.AT, r.cell(s, l.END_B, e).v).v
        found = 0
        for u in range(units):
            p = r.port(s.port, r.cell(s, l.UNIT_A, u).v).leaf
            q = r.port(s.port, r.cell(s, l.UNIT_B, u).v).leaf
            found += (p == a and q == b) or (p == b and q == a)
        if found == 0:
            return -1
        s.pieces = max(s.pieces, r.cell(s, l.LOAD_OF, e).v / (l.UNIT * float(found)))
    return units if count >= 0 else -1


@part
def join(s: Record, j: int, units: int) -> float:
    """Give job j the circuits between the ports in UNIT_A and UNIT_B; the longest delay (s) of those that are new."""
    delay = 0.0
    for u in range(units):
        p, q = r.cell(s, l.UNIT_A, u).v, r.cell(s, l.UNIT_B, u).v
        if r.port(s.port, p).mate == q:
            s.reused += 1
        else:
            for one in (p, q):
                old = r.port(s.port, one).mate
                if old >= 0:
                    r.port(s.port, old).mate = l.NONE
            r.port(s.port, p).mate, r.port(s.port, q).mate = q, p
            s.reconfigured += 1
            delay = max(delay, r.switch(s.switch, r.port(s.port, p).ocs).delay)
        _hold(s, j, p, q)
    return delay


@part
def disconnect(s: Record, j: int) -> None:
    """Give the ports that job j holds back; its circuits stand until their ports are needed."""
    job = r.job(s.job, j)
    if job.circuits == 0:
        return
    gpu, last = job.head, l.NONE
    while gpu >= 0:
        k = r.server(s.server, gpu // s.per_server).leaf
        if k != last:
            for p in range(r.leaf(s.leaf, k).port, r.leaf(s.leaf, k).port + r.leaf(s.leaf, k).ports):
                if r.port(s.port, p).holder == j:
                    r.port(s.port, p).holder = l.NONE
                    s.held_ports -= 1
                    if not r.port(s.port, p).down:
                        free_port(s, p, 1)
            last = k
        gpu = r.gpu(s.gpu, gpu).next
