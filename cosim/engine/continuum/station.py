"""Stations: processors and links, served in virtual time.

A station has `servers` servers of `rate` units/s. Its k tasks in service get `min(rate, servers * rate / k)`
each, less what busy servers take from one another (`contention`: shared caches and memory slow each of b busy
servers down to rate / (1 + contention (b - 1))). So one number, the virtual time (units that every task in
service has got), determines when each of them is done: a task that enters at virtual time v with w units
leaves at v + w. A change of the rate or of k changes the speed of virtual time and nothing else.

`fcfs` stations serve at most `servers` tasks at once and let the others wait in order of arrival;
then each task in service has a server of its own, and the same virtual time serves. Stations that
serve by priority or by the earliest deadline (EDF) let them wait in the order of their ranks.

Values are updated only where something changes, never by reading them, so results do not depend on how
often the engine is read.
"""

from __future__ import annotations

from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import DRAW_POWER, EDF, FCFS, SETTLE, Record
from cosim.engine.continuum.numbering import node_of, processor
from cosim.engine.continuum.pairing import insert, insert_by_rank, next_in_walk, remove, remove_by_rank
from cosim.engine.continuum.queue import drop, put

QUEUED, AT_MACHINE = -2, -3  # in `child` of a task that waits for a server, or for its machine to let it in


@jit
def speed(station: Record) -> float:
    """Units/s that one task in service gets."""
    rate = station.rate
    if station.plain == 0:
        rate /= 1.0 + station.contention * max(min(station.active, station.servers) - 1, 0)
    if station.active <= station.servers:
        return float(rate)
    return float(rate * station.servers / station.active)


@jit
def touch(station: Record, now: float) -> None:
    """Bring the accumulated values up to `now`."""
    span = now - station.since
    if span > 0.0:
        if station.active > 0:
            given = speed(station) * span
            station.virtual += given
            station.served += given * station.active
            if station.rate > 0.0:
                station.busy += min(station.active, station.servers) * span
        if station.plain == 0:
            station.energy += station.power * span
        station.since = now


@jit
def served(station: Record, now: float) -> float:
    """Units served up to `now`. Looking changes nothing."""
    if station.active == 0:
        return float(station.served)
    return float(station.served + speed(station) * station.active * (now - station.since))


@jit
def draw_power(s: Record, j: int) -> None:
    """Set the electrical power of a node's processor from its present use: table, linear in between."""
    n = node_of(j)
    if j != processor(n) or n >= s.node_count:
        if j >= s.first_accelerator:
            memory.equipment(s, DRAW_POWER, j, 0, 0.0)
        return
    if memory.node(s.nodes, n).machine >= 0:
        memory.equipment(s, DRAW_POWER, j, 0, 0.0)
        return
    kind = memory.kind(s.kinds, memory.node(s.nodes, n).kind)
    if kind.powers == 0:
        return
    power = 0.0
    if memory.node(s.nodes, n).present != 0 and memory.node(s.nodes, n).up != 0:
        power = power_in_use(s, memory.station(s.stations, j), kind.first_power, kind.powers)
    memory.station(s.stations, j).power = power


@jit
def power_in_use(s: Record, station: Record, first: int, powers: int) -> float:
    """W of a processor by a power table and the share of its cores in use."""
    used = 0.0
    if station.servers > 0 and station.rate > 0.0:
        used = min(station.active, station.servers) / station.servers
    position = used * (powers - 1)
    k = min(int(position), powers - 2)
    low, high = memory.real(s.power, first + k).v, memory.real(s.power, first + k + 1).v
    return float(low + (high - low) * (position - k))


@jit
def schedule(s: Record, j: int, station: Record, now: float) -> None:
    """Set the time of the station's next completion; its values must be up to date."""
    number = s.source_count + j
    if station.active == 0 or station.rate <= 0.0:
        drop(s, number)
        return
    rest = memory.task(s.tasks, station.root).tag - station.virtual
    time = now
    if rest > 0.0:
        time = now + rest / speed(station)
    put(s, number, time)


@jit
def changed(s: Record, j: int, now: float) -> None:
    """What station j serves, or how, is another from now on; its values must be up to date."""
    station = memory.station(s.stations, j)
    if station.plain == 0:
        draw_power(s, j)
    schedule(s, j, station, now)
    if s.battery_count > 0:
        memory.equipment(s, SETTLE, j, 0, now)


@jit
def _serve(s: Record, j: int, i: int, units: float, now: float) -> None:
    """Begin to serve task i; values must be up to date."""
    t, station = memory.task(s.tasks, i), memory.station(s.stations, j)
    t.tag = station.virtual + units
    station.root = insert(s, station.root, i)
    station.active += 1
    if (j == processor(t.host) or j >= s.first_accelerator) and t.started != t.started:
        t.started = now


@jit
def waits(s: Record, i: int) -> bool:
    """Whether task i, in a station, waits for a server."""
    t = memory.task(s.tasks, i)
    if memory.station(s.stations, t.station).fcfs > FCFS:
        return bool(t.waits != 0)
    return bool(t.child == QUEUED)


@jit
def _wait_by_rank(s: Record, j: int, i: int, units: float, now: float) -> None:
    t = memory.task(s.tasks, i)
    t.tag, t.waits, t.entered = units, 1, now
    memory.station(s.stations, j).head = insert_by_rank(s, memory.station(s.stations, j).head, i)
    memory.station(s.stations, j).queued += 1


@jit
def _set_rank(s: Record, j: int, i: int) -> None:
    t = memory.task(s.tasks, i)
    t.waits = 0
    t.rank = memory.workload(s.workloads, t.workload).priority
    if memory.station(s.stations, j).fcfs == EDF:
        t.rank = t.deadline + (memory.job(s.jobs, t.job).created if t.job >= 0 else t.created)


@jit
def _queue_by_rank(s: Record, j: int, i: int, units: float, now: float) -> bool:
    """Let task i wait at station j, or take the server of a task of a higher rank: then False.

    What a task has got is not lost when its server is taken (preemptive resume).
    """
    _set_rank(s, j, i)
    t = memory.task(s.tasks, i)
    if memory.station(s.stations, j).preempts != 0:
        root = memory.station(s.stations, j).root
        last, k = root, root
        while k >= 0:
            a, b = memory.task(s.tasks, k), memory.task(s.tasks, last)
            if a.rank > b.rank or (a.rank == b.rank and a.serial > b.serial):
                last = k
            k = next_in_walk(s, root, k)
        if memory.task(s.tasks, last).rank > t.rank:
            left = max(0.0, memory.task(s.tasks, last).tag - memory.station(s.stations, j).virtual)
            memory.station(s.stations, j).root = remove(s, root, last)
            memory.station(s.stations, j).active -= 1
            _wait_by_rank(s, j, last, left, now)
            return False
    _wait_by_rank(s, j, i, units, now)
    return True


@jit
def enter(s: Record, j: int, i: int, units: float, now: float) -> None:
    """Task i comes to station j for `units`."""
    t, station = memory.task(s.tasks, i), memory.station(s.stations, j)
    touch(station, now)
    t.station = j
    t.entered = now
    if station.active == 0:
        station.virtual = 0.0  # keeps the virtual time small, hence exact
    if station.fcfs != 0 and station.active >= station.servers:
        if station.fcfs > FCFS:
            if not _queue_by_rank(s, j, i, units, now):
                _serve(s, j, i, units, now)
                changed(s, j, now)
            return
        last = station.tail
        t.tag = units
        t.child = QUEUED
        t.prev, t.next = last, -1
        if last >= 0:
            memory.task(s.tasks, last).next = i
        else:
            station.head = i
        station.tail = i
        station.queued += 1
        return
    if station.fcfs > FCFS:
        _set_rank(s, j, i)
    _serve(s, j, i, units, now)
    changed(s, j, now)


@jit
def _dequeue(s: Record, j: int, i: int) -> None:
    left, right = memory.task(s.tasks, i).prev, memory.task(s.tasks, i).next
    if left >= 0:
        memory.task(s.tasks, left).next = right
    else:
        memory.station(s.stations, j).head = right
    if right >= 0:
        memory.task(s.tasks, right).prev = left
    else:
        memory.station(s.stations, j).tail = left
    memory.station(s.stations, j).queued -= 1


@jit
def _dequeue_by_rank(s: Record, j: int, i: int) -> None:
    memory.task(s.tasks, i).waits = 0
    memory.station(s.stations, j).head = remove_by_rank(s, memory.station(s.stations, j).head, i)
    memory.station(s.stations, j).queued -= 1


@jit
def leave(s: Record, i: int, now: float) -> None:
    """Take task i out of its station, served or not; the next in the queue takes its server."""
    t = memory.task(s.tasks, i)
    j = t.station
    station = memory.station(s.stations, j)
    t.station = -1
    if station.fcfs > FCFS and t.waits != 0:
        _dequeue_by_rank(s, j, i)
        return
    if station.fcfs == FCFS and t.child == QUEUED:
        _dequeue(s, j, i)
        return
    touch(station, now)
    station.root = remove(s, station.root, i)
    station.active -= 1
    if station.queued > 0:
        first = station.head
        if station.fcfs > FCFS:
            _dequeue_by_rank(s, j, first)
        else:
            _dequeue(s, j, first)
        station.waited += now - memory.task(s.tasks, first).entered
        _serve(s, j, first, memory.task(s.tasks, first).tag, now)
    changed(s, j, now)


@jit
def left_over(s: Record, i: int, now: float) -> float:
    """Units that task i still needs from its station."""
    j = memory.task(s.tasks, i).station
    if waits(s, i):
        return float(memory.task(s.tasks, i).tag)
    touch(memory.station(s.stations, j), now)
    return max(0.0, float(memory.task(s.tasks, i).tag - memory.station(s.stations, j).virtual))


@jit
def set_rate(s: Record, j: int, rate: float, now: float) -> None:
    """From now on a server of station j gives `rate` units/s."""
    if memory.station(s.stations, j).rate == rate:
        return
    touch(memory.station(s.stations, j), now)
    memory.station(s.stations, j).rate = rate
    changed(s, j, now)
