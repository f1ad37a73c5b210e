"""Stations: processors and links, served in virtual time.

A station has `servers` servers of `rate` units/s. Its k tasks in service get
`min(rate, servers * rate / k)` each, less what busy servers take from one another (`contention`: caches
and memory that they share slow every one of b busy servers down to rate / (1 + contention (b - 1))), so
that one number, the virtual time (units that every task in
service has got), tells when each of them is done: a task that enters at virtual time v with w units
leaves at v + w. A change of the rate or of k changes the speed of virtual time and nothing else.

`fcfs` stations serve at most `servers` tasks at once and let the others wait in order of arrival;
then each task in service has a server of its own, and the same virtual time serves.

Values are brought up to date only where something changes, never by looking: that keeps results
independent of how often the engine is looked at.
"""

from __future__ import annotations

from cosim.continuum import memory
from cosim.continuum.jit import jit
from cosim.continuum.layout import DRAW_POWER, SETTLE, Record
from cosim.continuum.pairing import insert, remove
from cosim.continuum.queue import drop, put

QUEUED, AT_DOOR = -2, -3  # in `child` of a task that waits for a server, or for its machine to let it in


@jit
def speed(station: Record) -> float:
    """Units/s that one task in service gets."""
    rate = station.rate / (1.0 + station.contention * max(min(station.active, station.servers) - 1, 0))
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
            station.busy += min(station.active, station.servers) * span
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
    n = j // 3
    if j != 3 * n or n >= s.node_count:
        if j >= s.first_accelerator:
            memory.beyond(s, DRAW_POWER, j, 0, 0.0)
        return
    if memory.node(s.nodes, n).machine >= 0:
        memory.beyond(s, DRAW_POWER, j, 0, 0.0)
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
    if station.servers > 0:
        used = min(station.active, station.servers) / station.servers
    position = used * (powers - 1)
    k = min(int(position), powers - 2)
    low, high = memory.real(s.power, first + k).v, memory.real(s.power, first + k + 1).v
    return float(low + (high - low) * (position - k))


@jit
def schedule(s: Record, j: int, now: float) -> None:
    """Set the time of the station's next completion; its values must be up to date."""
    station = memory.station(s.stations, j)
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
    draw_power(s, j)
    schedule(s, j, now)
    if s.battery_count > 0:
        memory.beyond(s, SETTLE, j, 0, now)


@jit
def _serve(s: Record, j: int, i: int, units: float, now: float) -> None:
    """Begin to serve task i; values must be up to date."""
    memory.task(s.tasks, i).tag = memory.station(s.stations, j).virtual + units
    memory.station(s.stations, j).root = insert(s, memory.station(s.stations, j).root, i)
    memory.station(s.stations, j).active += 1
    if memory.task(s.tasks, i).started != memory.task(s.tasks, i).started and (
        j == 3 * memory.task(s.tasks, i).host or j >= s.first_accelerator
    ):
        memory.task(s.tasks, i).started = now


@jit
def enter(s: Record, j: int, i: int, units: float, now: float) -> None:
    """Task i comes to station j for `units`."""
    touch(memory.station(s.stations, j), now)
    memory.task(s.tasks, i).station = j
    memory.task(s.tasks, i).entered = now
    if memory.station(s.stations, j).active == 0:
        memory.station(s.stations, j).virtual = 0.0  # keeps the virtual time small, hence exact
    if (
        memory.station(s.stations, j).fcfs != 0
        and memory.station(s.stations, j).active >= memory.station(s.stations, j).servers
    ):
        last = memory.station(s.stations, j).tail
        memory.task(s.tasks, i).tag = units
        memory.task(s.tasks, i).child = QUEUED
        memory.task(s.tasks, i).prev = last
        memory.task(s.tasks, i).next = -1
        if last >= 0:
            memory.task(s.tasks, last).next = i
        else:
            memory.station(s.stations, j).head = i
        memory.station(s.stations, j).tail = i
        memory.station(s.stations, j).queued += 1
        return
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
def leave(s: Record, i: int, now: float) -> None:
    """Take task i out of its station, served or not; the next in the queue takes its server."""
    j = memory.task(s.tasks, i).station
    memory.task(s.tasks, i).station = -1
    if memory.task(s.tasks, i).child == QUEUED:
        _dequeue(s, j, i)
        return
    touch(memory.station(s.stations, j), now)
    memory.station(s.stations, j).root = remove(s, memory.station(s.stations, j).root, i)
    memory.station(s.stations, j).active -= 1
    if memory.station(s.stations, j).queued > 0:
        following = memory.station(s.stations, j).head
        _dequeue(s, j, following)
        memory.station(s.stations, j).waited += now - memory.task(s.tasks, following).entered
        _serve(s, j, following, memory.task(s.tasks, following).tag, now)
    changed(s, j, now)


@jit
def left_over(s: Record, i: int, now: float) -> float:
    """Units that task i still needs from its station."""
    j = memory.task(s.tasks, i).station
    if memory.task(s.tasks, i).child == QUEUED:
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
