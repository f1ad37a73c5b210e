"""The event kernel: arrivals, ends, faults and repairs, and what follows from each."""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import entry, part, ready
from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum import heap
from cosim.engine.continuum.heap import slot
from cosim.extensions.gpu_cluster.cluster.engine import faults, line, place, wire
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine.layout import Bytes
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record, real
from cosim.extensions.gpu_cluster.cluster.engine.work import (
    account,
    add,
    allocation,
    begin,
    finish,
    fit,
    pace,
    settle,
    share,
    start,
    weight,
)

ENTRY_SIZE = heap.ENTRY.itemsize  # B
Kept = tuple[Bytes, Ints, Bytes, Floats, Bytes]  # core; jobs, their rows and ends; heap
REACHED, ASK, FULL = 0, 1, 2  # why `advance` returned


@part
def _refuse(s: Record, j: int) -> None:
    """Job j never runs, or never again: what it did is lost."""
    job = r.job(s.job, j)
    done = job.work - job.left
    s.useful -= weight(s, j) * done
    s.lost += weight(s, j) * done
    job.lost += done
    job.left = job.work
    job.state = l.REFUSED
    s.refused += 1


@part
def _no_more(s: Record) -> bool:
    return bool(s.starts + s.refused >= s.goal)


@part
def schedule(s: Record) -> bool:
    """Start the jobs that fit, in line; False: a policy must first choose the next job, or the goal is reached."""
    while s.first >= 0 and not _no_more(s):
        j = s.first
        if s.ask and not r.job(s.job, j).decided:
            return False
        if j == s.stuck:
            break
        if s.manual:
            return False
        if not start(s, j):
            if s.running == 0 and s.down == 0 and s.max_busy >= s.gpus * l.WHOLE and s.ports_down == 0:
                line.leave(s, j)  # not even the empty cluster holds it
                _refuse(s, j)
                continue
            s.stuck = j
            break
    if s.first >= 0 and s.backfill > 0 and not s.manual:
        j, tries = r.job(s.job, s.first).next, 0
        while j >= 0 and tries < s.backfill and s.free > 0 and not _no_more(s):
            after = r.job(s.job, j).next
            start(s, j)
            j = after
            tries += 1
    return not _no_more(s)


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


@part
def _first_end(s: Record) -> float:
    return float(slot(s.heap, 0).time) if heap.first(s) >= 0 else np.inf


@entry()
def advance(meta: Records, until: float, log: bool) -> int:
    """Let all happen that is due up to `until`; why it stopped. ASK: nothing after `now` has happened."""
    return _run(meta[0], until, log)


@part
def _run(s: Record, until: float, log: bool) -> int:
    while True:
        if not schedule(s):
            return ASK
        ends = _first_end(s)
        arrives = r.job(s.job, s.arrived).arrival if s.arrived < s.jobs else np.inf
        fails = r.fault(s.fault, s.faults).at if s.faults < s.fault_count else np.inf
        time = min(ends, arrives, fails)
        if log:
            _write(s)
        if time > until or time == np.inf:
            break
        account(s, max(time, s.now))
        while _first_end(s) <= time:
            finish(s, slot(s.heap, 0).number)
        while s.faults < s.fault_count and r.fault(s.fault, s.faults).at <= time:
            faults.happen(s, r.fault(s.fault, s.faults).kind, r.fault(s.fault, s.faults).target)
            s.faults += 1
        while s.arrived < s.jobs and r.job(s.job, s.arrived).arrival <= time:
            if r.job(s.job, s.arrived).n > s.gpus:
                _refuse(s, s.arrived)
            else:
                line.insert(s, s.arrived)
            s.arrived += 1
    if until < np.inf:
        account(s, until)
    return REACHED


@entry()
def decide(meta: Records, j: int) -> None:
    """Make waiting job j the next one."""
    line.front(meta[0], j)


@entry()
def start_at(meta: Records, j: int, m: int, units: int) -> int:
    """Start waiting job j on the allocation in AT and COUNT, which fits; 0: the network does not allow it.

    `units` circuits join the ports in UNIT_A with those in UNIT_B; -1: they are to be chosen here.
    """
    s = meta[0]
    job, across = r.job(s.job, j), m > 1 and r.job(s.job, j).pattern != l.LOCAL
    if s.busy + job.n * job.milli > s.max_busy or (s.network == l.ROUTED and r.whole(s.slot, 0).v == 0):
        return 0
    taken = wire.given(s, j, m, units) if units >= 0 and across else wire.demand_ok(s, j, m)
    if taken < 0:
        return 0
    stretched, delay, circuits = s.pieces, 0.0, 0
    if across and s.network == l.CIRCUITS:
        delay = wire.join(s, j, units) if units >= 0 else wire.connect(s, j, taken)
        circuits = taken
    elif across and s.network == l.PACKET:
        for i in range(m):
            r.leaf(s.leaf, r.cell(s, l.AT, i).v).up -= wire.uplinks_of(s, j, m, i)
    place.occupy(s, j, m)
    line.leave(s, j)
    begin(s, j, m, circuits, delay, stretched)
    return 1


@entry()
def drop(meta: Records, j: int) -> None:
    """Refuse waiting job j."""
    line.leave(meta[0], j)
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
    begin(s, j, m, circuits, 0.0, 1.0)


@part
def _touched(s: Record, window: Ints, found: Ints) -> int:
    """Jobs whose rows a look ahead at the `window` can change, into `found`; how many, some of them twice."""
    count, j = 0, s.head
    while j >= 0:
        found[count] = j
        count += 1
        j = r.job(s.job, j).next
    for k in window:
        for other in (k, r.job(s.job, k).before, r.job(s.job, k).next):
            if other >= 0:
                found[count] = other
                count += 1
    j, deep = s.first, 2 * (len(window) + s.backfill) + 2  # as far as starts and tries can get
    while j >= 0 and deep > 0:
        found[count] = j
        count += 1
        deep -= 1
        j = r.job(s.job, j).next
    return count


@part
def _restore(s: Record, core: Bytes, rows: Bytes, events: Bytes, present: Kept, count: int) -> None:
    kept, numbers, old, due, entries = present
    core[:] = kept
    for i in range(count):
        rows[numbers[i]] = old[i]
        real(s.due, numbers[i]).v = due[i]
    events[: len(entries)] = entries


@entry()
def try_orders(
    meta: Records, core: Bytes, rows: Bytes, events: Bytes, window: Ints, orders: Ints, found: Floats
) -> None:
    """What becomes of the waiting jobs of each row of `orders` when they come first in line, in that order.

    `core`, `rows` (jobs, B) and `events` are the present as bytes: what lies before the jobs, the jobs,
    and the heap; they are as before afterwards. `window` has the jobs that stand in `orders`. Nothing
    arrives or breaks. Into `found` (orders, 3) go s: the end of all that runs then, the last start, the
    sum of the jobs' ends.
    """
    s = meta[0]
    numbers = np.empty(s.running + 3 * len(window) + 2 * (len(window) + s.backfill) + 2, np.int64)
    count = _touched(s, window, numbers)
    old, due = np.empty((count, rows.shape[1]), np.uint8), np.empty(count)
    for i in range(count):
        old[i] = rows[numbers[i]]
        due[i] = real(s.due, numbers[i]).v
    present = (core.copy(), numbers, old, due, events[: s.queued * ENTRY_SIZE].copy())
    for p in range(len(orders)):
        if p > 0:
            _restore(s, core, rows, events, present, count)
        for i in range(orders.shape[1] - 1, -1, -1):
            line.front(s, orders[p, i])
        s.jobs, s.fault_count, s.ask = s.arrived, s.faults, 0
        s.goal = s.starts + s.refused + orders.shape[1]
        _run(s, np.inf, False)
        last, total, begun, j = s.now, 0.0, 0.0, s.head
        while j >= 0:
            last = max(last, real(s.due, j).v)
            j = r.job(s.job, j).next
        for i in range(orders.shape[1]):
            job = r.job(s.job, orders[p, i])
            total += real(s.due, orders[p, i]).v if job.state == l.RUNNING else max(job.end, 0.0)
            begun = max(begun, job.start)
        found[p, 0], found[p, 1], found[p, 2] = last, begun, total
    _restore(s, core, rows, events, present, count)


@entry()
def happen(meta: Records, kind: int, target: int) -> None:
    """A fault or a repair now."""
    s = meta[0]
    faults.happen(s, kind, target)


@entry()
def switch(meta: Records, topology: int, delay: float) -> int:
    """Form another topology now; how many running jobs had to wait for it. Others are not touched."""
    s = meta[0]
    old = s.topology
    s.topology = topology
    touched, after = 0, s.head
    while after >= 0:
        j, after = after, r.job(s.job, after).next
        at = r.job(s.job, j).slot
        if at < 0:
            continue
        before = np.empty(s.links, np.int64)
        for x in range(s.links):
            before[x] = r.whole(s.carried, at * s.links + x).v
        m = allocation(s, j)
        add(s, at, -1)
        wire.weigh(s, j, wire.edges(s, j, m), at)
        add(s, at, 1)
        for e in range(len(before)):
            used = before[e] > 0 or r.whole(s.carried, at * s.links + e).v > 0
            if used and (
                before[e] != r.whole(s.carried, at * s.links + e).v
                or r.whole(s.cap, old * s.links + e).v != r.whole(s.cap, topology * s.links + e).v
            ):
                settle(s, j)
                r.job(s.job, j).hold = max(r.job(s.job, j).hold, s.now + delay)
                pace(s, j, r.job(s.job, j).factor)
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
    j = s.head
    while j >= 0:
        settle(s, j)
        j = r.job(s.job, j).next


@entry()
def fitting(meta: Records, j: int) -> int:
    """Leaves of the allocation that job j would get now, in AT and COUNT; `wired` circuits in UNIT_A, UNIT_B and ON.

    0: it does not fit.
    """
    s = meta[0]
    return fit(s, j) if s.free >= r.job(s.job, j).n else 0


def compiled() -> bool:
    """Whether the model starts without compiling (some 20 s once per version and machine).

    What only some policies call, such as trying orders, is compiled at its first use, so it is not asked for.
    """
    return ready(advance, happen, settle_all)
