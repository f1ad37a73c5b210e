"""Running jobs: what they hold and have done, how fast they go, and how they start and end."""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import part
from cosim.engine.continuum import heap
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import line, place, wire
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record, whole


@part
def account(s: Record, time: float) -> None:
    """Integrate what is held, idle and out of order up to `time`."""
    span = time - s.now
    if span > 0.0:
        s.held += span * s.busy
        s.out += span * s.down * l.WHOLE
        s.idle += span * ((s.gpus - s.down) * l.WHOLE - s.busy)
        s.server_time += span * s.active
        s.port_time += span * s.held_ports
        s.now = time


@part
def weight(s: Record, j: int) -> float:
    """Thousandths of GPUs that job j holds."""
    milli: float = r.job(s.job, j).n * r.job(s.job, j).milli
    return milli


@part
def settle(s: Record, j: int) -> None:
    """Book what job j did since it was last looked at."""
    job = r.job(s.job, j)
    held = min(max(job.hold, job.since), s.now)
    span, idle, milli = s.now - held, held - job.since, weight(s, j)
    done = min(job.left, span * job.rate)
    job.left -= done
    job.stalled += idle
    s.stalled += milli * idle
    s.useful += milli * done
    s.slowed += milli * (span - done)
    job.since = s.now


@part
def pace(s: Record, j: int, factor: float) -> None:
    """Let job j communicate `factor` times longer from now on, and end accordingly."""
    job = r.job(s.job, j)
    t = job.network * max(1.0, factor)
    step = max(job.compute, job.overlap * t) + (1.0 - job.overlap) * t
    best = max(job.compute, job.overlap * job.network) + (1.0 - job.overlap) * job.network
    job.factor = factor
    job.rate = best / step if step > 0.0 else 1.0
    heap.put(s, j, max(s.now, job.hold) + job.left / job.rate)


@part
def fit(s: Record, j: int) -> int:
    """Leaves of the allocation that job j would get now, 0: it does not fit; `wired` is the number of circuits."""
    s.wired, s.until = l.NONE, s.now + r.job(s.job, j).left
    m = place.exhaustive(s, j) if s.placement == l.EXHAUSTIVE else place.candidate(s, r.job(s.job, j).n, s.placement)
    if m > 0 and s.wired < 0:
        s.wired = wire.demand_ok(s, j, m)
    return m if s.wired >= 0 else 0


@part
def start(s: Record, j: int) -> bool:
    """Place, wire and start waiting job j if it fits."""
    job = r.job(s.job, j)
    if s.busy + job.n * job.milli > s.max_busy:
        s.blocked_power += 1
        return False
    if job.milli < l.WHOLE:
        if not place.share(s, j):
            return False
        line.leave(s, j)
        return begin(s, j, 1, 0, 0.0, 1.0)
    if s.free < job.n or (s.network == l.ROUTED and whole(s.slot, 0).v == 0):
        return False
    m = fit(s, j)
    if m == 0:
        job.blocked += 1
        s.blocked += 1
        return False
    taken, stretched, delay, circuits = s.wired, s.pieces, 0.0, 0
    if m > 1 and job.pattern != l.LOCAL:
        if s.network == l.CIRCUITS:
            delay = wire.connect(s, j, taken)
            circuits = taken
        elif s.network == l.PACKET:
            for i in range(m):
                r.leaf(s.leaf, r.cell(s, l.AT, i).v).up -= wire.uplinks_of(s, j, m, i)
    place.occupy(s, j, m)
    line.leave(s, j)
    return begin(s, j, m, circuits, delay, stretched)


@part
def begin(s: Record, j: int, m: int, circuits: int, delay: float, stretched: float) -> bool:
    """Let job j run on its GPUs on m leaves, after `delay` s, with `stretched` times longer communication."""
    job = r.job(s.job, j)
    job.state, job.leaves, job.circuits, job.slot = l.RUNNING, m, circuits, l.NONE
    if job.start < 0.0:
        job.start = s.now
    job.latest = job.since = s.now
    job.hold = s.now + delay
    job.before, job.next = l.NONE, s.head
    if s.head >= 0:
        r.job(s.job, s.head).before = j
    s.head = j
    s.running += 1
    s.starts += 1
    pace(s, j, stretched)
    if s.network == l.ROUTED and m > 1 and job.pattern != l.LOCAL:
        _join(s, j, m)
    return True


@part
def add(s: Record, slot: int, sign: int) -> None:
    """Put what a job carries on the links (1) or take it off (-1)."""
    load, carried = s.load, s.carried + 8 * slot * s.links
    for x in range(s.links):
        whole(load, x).v += sign * whole(carried, x).v


@part
def _join(s: Record, j: int, m: int) -> None:
    """Put the load of job j on the links."""
    whole(s.slot, 0).v -= 1
    slot = whole(s.slot, 1 + whole(s.slot, 0).v).v
    r.job(s.job, j).slot = slot
    wire.weigh(s, j, wire.edges(s, j, m), slot)
    add(s, slot, 1)
    if not s.strict:
        share(s, s.topology)


@part
def _part(s: Record, j: int) -> None:
    """Take its load off again."""
    slot = r.job(s.job, j).slot
    if slot >= 0:
        add(s, slot, -1)
        whole(s.slot, 1 + whole(s.slot, 0).v).v = slot
        whole(s.slot, 0).v += 1
        r.job(s.job, j).slot = l.NONE


@part
def share(s: Record, topology: int) -> None:
    """Pace all running jobs by the fullest link that each uses."""
    links, cap = s.links, s.cap + 8 * topology * s.links
    full = np.empty(links)  # how many times over each link is used
    for e in range(links):
        full[e] = whole(s.load, e).v / (l.UNIT * float(max(1, whole(cap, e).v)))
    j = s.head
    while j >= 0:
        slot = r.job(s.job, j).slot
        if slot >= 0:
            carried, factor = s.carried + 8 * slot * links, 1.0
            for e in range(links):
                if full[e] > factor and whole(carried, e).v > 0:
                    factor = full[e]
            if factor != r.job(s.job, j).factor:
                settle(s, j)
                pace(s, j, factor)
        j = r.job(s.job, j).next


@part
def _stop(s: Record, j: int) -> None:
    """Take job j from the cluster, whatever becomes of it."""
    job = r.job(s.job, j)
    settle(s, j)
    heap.drop(s, j)
    if job.before < 0:
        s.head = job.next
    else:
        r.job(s.job, job.before).next = job.next
    if job.next >= 0:
        r.job(s.job, job.next).before = job.before
    if s.network == l.PACKET and job.leaves > 1 and job.pattern != l.LOCAL:
        m = allocation(s, j)
        for i in range(m):
            r.leaf(s.leaf, r.cell(s, l.AT, i).v).up += wire.uplinks_of(s, j, m, i)
    wire.disconnect(s, j)
    _part(s, j)
    place.release(s, j)
    s.running -= 1
    s.stuck = l.NONE


@part
def allocation(s: Record, j: int) -> int:
    """The leaves of running job j and its ranks on each, in AT and COUNT; how many leaves."""
    m, gpu = 0, r.job(s.job, j).head
    while gpu >= 0:
        k = r.server(s.server, gpu // s.per_server).leaf
        if m == 0 or r.cell(s, l.AT, m - 1).v != k:
            r.cell(s, l.AT, m).v = k
            r.cell(s, l.COUNT, m).v = 0
            m += 1
        r.cell(s, l.COUNT, m - 1).v += 1
        gpu = r.gpu(s.gpu, gpu).next
    for i in range(m // 2):  # the list of GPUs is last in, first out
        for row in (l.AT, l.COUNT):
            first, last = r.cell(s, row, i).v, r.cell(s, row, m - 1 - i).v
            r.cell(s, row, i).v, r.cell(s, row, m - 1 - i).v = last, first
    return m


@part
def finish(s: Record, j: int) -> None:
    """Job j has done all of its work."""
    job = r.job(s.job, j)
    _stop(s, j)
    s.useful += weight(s, j) * job.left  # what rounding left over
    s.slowed -= weight(s, j) * job.left
    job.left = 0.0
    job.end, job.state = s.now, l.DONE
    s.done += 1
    if s.network == l.ROUTED and not s.strict:
        share(s, s.topology)


@part
def restart(s: Record, j: int) -> None:
    """Put running job j back in line with the work of its last checkpoint."""
    job = r.job(s.job, j)
    _stop(s, j)
    done = job.work - job.left
    kept = math.floor(done / job.checkpoint) * job.checkpoint if job.checkpoint > 0.0 else 0.0
    lost = max(0.0, done - kept)
    job.left += lost
    job.lost += lost
    s.useful -= weight(s, j) * lost
    s.lost += weight(s, j) * lost
    job.restarts += 1
    s.restarts += 1
    line.insert(s, j)
