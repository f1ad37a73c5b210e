"""The event kernel: arrivals, ends, faults and repairs, and what follows from each."""

from __future__ import annotations

import math

import numpy as np

from cosim.cluster.engine import heap as queue
from cosim.cluster.engine import layout as l
from cosim.cluster.engine import place, wire
from cosim.cluster.engine import rows as r
from cosim.cluster.engine.layout import Bytes, Floats, Ints, Records
from cosim.cluster.engine.rows import Record, real, whole
from cosim.compiling import entry, part

REACHED, ASK, FULL = 0, 1, 2  # why `advance` returned


@part
def _account(s: Record, time: float) -> None:
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
def _weight(s: Record, j: int) -> float:
    milli: float = r.job(s.job, j).n * r.job(s.job, j).milli
    return milli


@part
def settle(s: Record, j: int) -> None:
    """Book what job j did since it was last looked at."""
    job = r.job(s.job, j)
    held = min(max(job.hold, job.since), s.now)
    span, idle, weight = s.now - held, held - job.since, _weight(s, j)
    done = min(job.left, span * job.rate)
    job.left -= done
    job.stalled += idle
    s.stalled += weight * idle
    s.useful += weight * done
    s.slowed += weight * (span - done)
    job.since = s.now


@part
def _pace(s: Record, j: int, factor: float) -> None:
    """Let job j communicate `factor` times longer from now on, and end accordingly."""
    job = r.job(s.job, j)
    t = job.network * max(1.0, factor)
    step = max(job.compute, job.overlap * t) + (1.0 - job.overlap) * t
    best = max(job.compute, job.overlap * job.network) + (1.0 - job.overlap) * job.network
    job.factor = factor
    job.rate = best / step if step > 0.0 else 1.0
    queue.put(s, j, max(s.now, job.hold) + job.left / job.rate)


@part
def _insert(s: Record, j: int) -> None:
    """Put job j in line by its key, behind equals."""
    r.job(s.job, j).state = l.WAITING
    at = s.last
    while at >= 0 and (
        r.job(s.job, at).key > r.job(s.job, j).key or (r.job(s.job, at).key == r.job(s.job, j).key and at > j)
    ):
        at = r.job(s.job, at).before
    after = s.first if at < 0 else r.job(s.job, at).next
    r.job(s.job, j).before, r.job(s.job, j).next = at, after
    if at < 0:
        s.first = j
    else:
        r.job(s.job, at).next = j
    if after < 0:
        s.last = j
    else:
        r.job(s.job, after).before = j
    s.waiting += 1


@part
def _leave_line(s: Record, j: int) -> None:
    job = r.job(s.job, j)
    if job.before < 0:
        s.first = job.next
    else:
        r.job(s.job, job.before).next = job.next
    if job.next < 0:
        s.last = job.before
    else:
        r.job(s.job, job.next).before = job.before
    s.waiting -= 1


@part
def _start(s: Record, j: int) -> bool:
    """Place, wire and start job j if it fits."""
    job = r.job(s.job, j)
    if s.busy + job.n * job.milli > s.max_busy:
        s.blocked_power += 1
        return False
    if job.milli < l.WHOLE:
        if not place.share(s, j):
            return False
        return _begin(s, j, 1, 0, 0.0, 1.0)
    if s.free < job.n:
        return False
    m = place.exhaustive(s, j) if s.placement == l.EXHAUSTIVE else place.candidate(s, job.n, s.placement)
    taken = wire.demand_ok(s, j, m) if m > 0 else -1
    if taken < 0:
        job.blocked += 1
        s.blocked += 1
        return False
    stretched, delay, circuits = s.pieces, 0.0, 0
    if m > 1 and job.pattern != l.LOCAL:
        if s.network == l.CIRCUITS:
            delay = wire.connect(s, j, taken)
            circuits = taken
        elif s.network == l.PACKET:
            for i in range(m):
                r.leaf(s.leaf, r.cell(s, l.AT, i).v).up -= wire.uplinks_of(s, j, m, i)
    place.occupy(s, j, m)
    return _begin(s, j, m, circuits, delay, stretched)


@part
def _begin(s: Record, j: int, m: int, circuits: int, delay: float, stretched: float) -> bool:
    job = r.job(s.job, j)
    job.state, job.leaves, job.circuits, job.slot = l.RUNNING, m, circuits, l.NONE
    if job.start < 0.0:
        job.start = s.now
    job.latest = job.since = s.now
    job.hold = s.now + delay
    s.running += 1
    s.starts += 1
    _pace(s, j, stretched)
    if s.network == l.ROUTED and m > 1 and job.pattern != l.LOCAL:
        _join(s, j, m)
    return True


@part
def _add(s: Record, slot: int, sign: int) -> None:
    for x in range(s.links):
        r.whole(s.load, x).v += sign * r.whole(s.carried, slot * s.links + x).v


@part
def _join(s: Record, j: int, m: int) -> None:
    """Put the load of job j on the links."""
    r.whole(s.slot, 0).v -= 1
    slot = r.whole(s.slot, 1 + r.whole(s.slot, 0).v).v
    r.job(s.job, j).slot = slot
    wire.weigh(s, j, wire.edges(s, j, m), slot)
    _add(s, slot, 1)
    if not s.strict:
        share(s, s.topology)


@part
def _part(s: Record, j: int) -> None:
    """Take its load off again."""
    slot = r.job(s.job, j).slot
    if slot >= 0:
        _add(s, slot, -1)
        r.whole(s.slot, 1 + r.whole(s.slot, 0).v).v = slot
        r.whole(s.slot, 0).v += 1
        r.job(s.job, j).slot = l.NONE


@part
def share(s: Record, topology: int) -> None:
    """Pace all running jobs by the fullest link that each uses."""
    jobs = np.empty(s.queue, np.int64)
    for i in range(s.queue):
        jobs[i] = whole(s.what, i).v
    for j in jobs:
        slot = r.job(s.job, j).slot
        if slot < 0:
            continue
        factor = 1.0
        for e in range(s.links):
            if r.whole(s.carried, slot * s.links + e).v > 0:
                factor = max(
                    factor, r.whole(s.load, e).v / (l.UNIT * float(max(1, r.whole(s.cap, topology * s.links + e).v)))
                )
        if factor != r.job(s.job, j).factor:
            settle(s, j)
            _pace(s, j, factor)


@part
def _stop(s: Record, j: int) -> None:
    """Take job j from the cluster, whatever becomes of it."""
    job = r.job(s.job, j)
    settle(s, j)
    queue.drop(s, j)
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
def _finish(s: Record, j: int) -> None:
    job = r.job(s.job, j)
    _stop(s, j)
    s.useful += _weight(s, j) * job.left  # what rounding left over
    s.slowed -= _weight(s, j) * job.left
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
    s.useful -= _weight(s, j) * lost
    s.lost += _weight(s, j) * lost
    job.restarts += 1
    s.restarts += 1
    _insert(s, j)


@part
def _users(s: Record, gpu: int) -> None:
    """Restart every job that uses a GPU."""
    if r.gpu(s.gpu, gpu).owner >= 0:
        restart(s, r.gpu(s.gpu, gpu).owner)
    elif r.gpu(s.gpu, gpu).milli < l.WHOLE:
        for j in range(s.jobs):
            if r.job(s.job, j).state == l.RUNNING and r.job(s.job, j).milli < l.WHOLE and r.job(s.job, j).head == gpu:
                restart(s, j)


@part
def gpu_down(s: Record, gpu: int) -> None:
    """Take a GPU out of order, for one more cause."""
    r.gpu(s.gpu, gpu).down += 1
    if r.gpu(s.gpu, gpu).down > 1:
        return
    x = gpu // s.per_server
    bit = 1 << (gpu - x * s.per_server)
    if r.server(s.server, x).mask & bit:
        r.server(s.server, x).mask ^= bit
        r.server(s.server, x).free -= 1
        r.leaf(s.leaf, r.server(s.server, x).leaf).free -= 1
        s.free -= 1
    else:
        _users(s, gpu)
    s.down += 1
    r.server(s.server, x).failed += 1


@part
def gpu_up(s: Record, gpu: int) -> None:
    """Take one cause away; without any the GPU is free again."""
    if r.gpu(s.gpu, gpu).down == 0:
        return
    r.gpu(s.gpu, gpu).down -= 1
    if r.gpu(s.gpu, gpu).down == 0:
        x = gpu // s.per_server
        r.server(s.server, x).mask |= 1 << (gpu - x * s.per_server)
        r.server(s.server, x).free += 1
        r.leaf(s.leaf, r.server(s.server, x).leaf).free += 1
        s.free += 1
        s.down -= 1
        r.server(s.server, x).failed -= 1
        s.stuck = l.NONE


@part
def _happen(s: Record, kind: int, target: int) -> None:
    if kind == l.FAIL_GPU:
        gpu_down(s, target)
    elif kind == l.REPAIR_GPU:
        gpu_up(s, target)
    elif kind in (l.FAIL_LEAF, l.REPAIR_LEAF):
        first = r.leaf(s.leaf, target).first * s.per_server
        for gpu in range(first, first + r.leaf(s.leaf, target).servers * s.per_server):
            if kind == l.FAIL_LEAF:
                gpu_down(s, gpu)
            else:
                gpu_up(s, gpu)
    else:
        _port_happens(s, kind, target)
    s.stuck = l.NONE


@part
def _port_happens(s: Record, kind: int, target: int) -> None:
    port = r.port(s.port, target)
    if kind == l.FAIL_PORT:
        port.down += 1
        if port.down > 1:
            return
        s.ports_down += 1
        holder = port.holder
        r.leaf(s.leaf, port.leaf).up -= holder < 0
        if holder >= 0:
            restart(s, holder)
        if port.mate >= 0:
            r.port(s.port, port.mate).mate = l.NONE
            port.mate = l.NONE
    elif port.down > 0:
        port.down -= 1
        r.leaf(s.leaf, port.leaf).up += port.down == 0
        s.ports_down -= port.down == 0


@part
def _refuse(s: Record, j: int) -> None:
    """Job j never runs, or never again: what it did is lost."""
    job = r.job(s.job, j)
    done = job.work - job.left
    s.useful -= _weight(s, j) * done
    s.lost += _weight(s, j) * done
    job.lost += done
    job.left = job.work
    job.state = l.REFUSED
    s.refused += 1


@part
def schedule(s: Record) -> bool:
    """Start what fits, in line; False: a policy is to say first which job is next."""
    while s.first >= 0:
        j = s.first
        if s.ask and not r.job(s.job, j).decided:
            return False
        if j == s.stuck:
            break
        if not _start_first(s, j):
            if s.running == 0 and s.down == 0 and s.max_busy >= s.gpus * l.WHOLE and s.ports_down == 0:
                _leave_line(s, j)  # not even the empty cluster holds it
                _refuse(s, j)
                continue
            s.stuck = j
            break
    if s.first >= 0 and s.backfill > 0:
        j, tries = r.job(s.job, s.first).next, 0
        while j >= 0 and tries < s.backfill and s.free > 0:
            after = r.job(s.job, j).next
            if _start(s, j):
                _leave_line(s, j)
            j = after
            tries += 1
    return True


@part
def _start_first(s: Record, j: int) -> bool:
    if not _start(s, j):
        return False
    _leave_line(s, j)
    return True


@part
def _write(s: Record) -> None:
    """A row about the present, over the last one when it is about the same time."""
    last = (s.rows - 1) % s.row_count
    at = last if s.rows > 0 and r.row(s.row, last).time == s.now else s.rows % s.row_count
    if at != last or s.rows == 0:
        s.rows += 1
    row = r.row(s.row, at)
    row.time, row.useful = s.now, s.useful / l.WHOLE
    row.busy, row.free, row.down = s.busy, s.free, s.down
    row.waiting, row.running, row.circuits = s.waiting, s.running, s.held_ports // 2
    row.active, row.reconfigured, row.topology = s.active, s.reconfigured, s.topology


@entry()
def advance(meta: Records, until: float, log: bool) -> int:
    """Let all happen that is due up to `until`; why it stopped. ASK: nothing after `now` has happened."""
    return _run(meta[0], until, log, 1 << 62)


@part
def _run(s: Record, until: float, log: bool, starts: int) -> int:
    """As `advance`; stops as well as soon as there have been so many starts."""
    while True:
        ends = real(s.due, 0).v if s.queue > 0 else np.inf
        arrives = r.job(s.job, s.arrived).arrival if s.arrived < s.jobs else np.inf
        fails = r.fault(s.fault, s.faults).at if s.faults < s.fault_count else np.inf
        time = min(ends, arrives, fails)
        if not schedule(s) or s.starts >= starts:
            return ASK
        ends = real(s.due, 0).v if s.queue > 0 else np.inf
        time = min(ends, arrives, fails)
        if log:
            _write(s)
        if time > until or time == np.inf:
            break
        _account(s, max(time, s.now))
        while s.queue > 0 and real(s.due, 0).v <= time:
            _finish(s, whole(s.what, 0).v)
        while s.faults < s.fault_count and r.fault(s.fault, s.faults).at <= time:
            _happen(s, r.fault(s.fault, s.faults).kind, r.fault(s.fault, s.faults).target)
            s.faults += 1
        while s.arrived < s.jobs and r.job(s.job, s.arrived).arrival <= time:
            if r.job(s.job, s.arrived).n > s.gpus:
                _refuse(s, s.arrived)
            else:
                _insert(s, s.arrived)
            s.arrived += 1
    if until < np.inf:
        _account(s, until)
    return REACHED


@part
def front(s: Record, j: int) -> None:
    """Put waiting job j first in line, as decided."""
    job = r.job(s.job, j)
    job.decided = 1
    if s.first != j:
        key = min(job.key, r.job(s.job, s.first).key)
        _leave_line(s, j)
        job.key = key
        job.before, job.next = l.NONE, s.first
        if s.first >= 0:
            r.job(s.job, s.first).before = j
        else:
            s.last = j
        s.first = j
        s.waiting += 1
    s.stuck = l.NONE


@entry()
def decide(meta: Records, j: int) -> None:
    """Say that waiting job j is the next one."""
    front(meta[0], j)


@entry()
def drop(meta: Records, j: int) -> None:
    """Refuse waiting job j."""
    _leave_line(meta[0], j)
    _refuse(meta[0], j)
    meta[0].stuck = l.NONE


@entry()
def adopt(meta: Records, j: int, m: int, circuits: int) -> None:
    """Let job j, the next to arrive, run on the allocation in AT and COUNT; its circuits are there already."""
    s = meta[0]
    place.occupy(s, j, m)
    s.arrived += 1
    if s.network == l.PACKET and m > 1 and r.job(s.job, j).pattern != l.LOCAL:
        for i in range(m):
            r.leaf(s.leaf, r.cell(s, l.AT, i).v).up -= wire.uplinks_of(s, j, m, i)
    _begin(s, j, m, circuits, 0.0, 1.0)


@entry()
def try_orders(meta: Records, memory: Bytes, present: Bytes, orders: Ints, found: Floats) -> None:
    """What becomes of the waiting jobs of each row of `orders` when they come first in line, in that order.

    `memory` is what `meta` lies in, `present` the state to start from and to return to. Into `found`
    (orders, 3) go s: the end of all that runs then, the last start, the sum of the jobs' ends.
    """
    s = meta[0]
    for p in range(len(orders)):
        memory[:] = present
        for i in range(orders.shape[1] - 1, -1, -1):
            front(s, orders[p, i])
        s.jobs, s.ask = s.arrived, 0
        _run(s, np.inf, False, s.starts + orders.shape[1])
        last, total, begun = s.now, 0.0, 0.0
        for i in range(s.queue):
            last = max(last, real(s.due, i).v)
        for i in range(orders.shape[1]):
            job = r.job(s.job, orders[p, i])
            at = whole(s.place, orders[p, i]).v
            total += real(s.due, at).v if at >= 0 else max(job.end, 0.0)
            begun = max(begun, job.start)
        found[p, 0], found[p, 1], found[p, 2] = last, begun, total
    memory[:] = present


@entry()
def happen(meta: Records, kind: int, target: int) -> None:
    """A fault or a repair now."""
    s = meta[0]
    _happen(s, kind, target)


@entry()
def switch(meta: Records, topology: int, delay: float) -> int:
    """Form another topology now; how many running jobs had to wait for it. Others are not touched."""
    s = meta[0]
    old = s.topology
    s.topology = topology
    jobs = np.empty(s.queue, np.int64)
    for i in range(s.queue):
        jobs[i] = whole(s.what, i).v
    touched = 0
    for j in jobs:
        slot = r.job(s.job, j).slot
        if slot < 0:
            continue
        before = np.empty(s.links, np.int64)
        for x in range(s.links):
            before[x] = r.whole(s.carried, slot * s.links + x).v
        m = allocation(s, j)
        _add(s, slot, -1)
        wire.weigh(s, j, wire.edges(s, j, m), slot)
        _add(s, slot, 1)
        for e in range(len(before)):
            used = before[e] > 0 or r.whole(s.carried, slot * s.links + e).v > 0
            if used and (
                before[e] != r.whole(s.carried, slot * s.links + e).v
                or r.whole(s.cap, old * s.links + e).v != r.whole(s.cap, topology * s.links + e).v
            ):
                settle(s, j)
                r.job(s.job, j).hold = max(r.job(s.job, j).hold, s.now + delay)
                _pace(s, j, r.job(s.job, j).factor)
                touched += 1
                break
    changed = 0
    for x in range(s.links):
        changed += abs(r.whole(s.cap, topology * s.links + x).v - r.whole(s.cap, old * s.links + x).v)
    s.reconfigured += changed // 4  # each circuit that goes and each that comes, in both directions
    s.switching += delay
    s.stuck = l.NONE
    share(s, topology)
    return touched


@entry()
def settle_all(meta: Records) -> None:
    """Book what all running jobs did so far."""
    s = meta[0]
    for i in range(s.queue):
        settle(s, whole(s.what, i).v)


@entry()
def fitting(meta: Records, j: int) -> int:
    """Leaves of the allocation that job j would get now, in AT and COUNT, with its circuits in UNIT_A, UNIT_B and ON.

    0: it does not fit.
    """
    s = meta[0]
    if s.free < r.job(s.job, j).n:
        return 0
    m = place.exhaustive(s, j) if s.placement == l.EXHAUSTIVE else place.candidate(s, r.job(s.job, j).n, s.placement)
    if m == 0:
        return 0
    s.misplaced = wire.demand_ok(s, j, m)  # circuits, for the caller
    return m if s.misplaced >= 0 else 0
