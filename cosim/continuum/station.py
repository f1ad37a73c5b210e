"""Stations: processors and links, served in virtual time.

A station has `servers` servers of `rate` units/s. Its k tasks in service get
`min(rate, servers * rate / k)` each, so that one number, the virtual time (units that every task in
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
from cosim.continuum.layout import Record
from cosim.continuum.pairing import insert, remove
from cosim.continuum.queue import drop, put

QUEUED = -2  # in `child` of a task that waits for a server


@jit
def speed(station: Record) -> float:
    """Units/s that one task in service gets."""
    if station.active <= station.servers:
        return float(station.rate)
    return float(station.rate * station.servers / station.active)


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
def draw_power(s: Record, j: int) -> None:
    """Set the electrical power of a node's processor from its present use: table, linear in between."""
    n = j // 3
    if j != 3 * n or n >= s.node_count:
        return
    kind = memory.kind(s.kinds, memory.node(s.nodes, n).kind)
    if kind.powers == 0:
        return
    if memory.node(s.nodes, n).present == 0 or memory.node(s.nodes, n).up == 0:
        memory.station(s.stations, j).power = 0.0
        return
    used = 0.0
    if memory.station(s.stations, j).servers > 0:
        used = (
            min(memory.station(s.stations, j).active, memory.station(s.stations, j).servers)
            / memory.station(s.stations, j).servers
        )
    position = used * (kind.powers - 1)
    k = min(int(position), kind.powers - 2)
    low, high = memory.real(s.power, kind.first_power + k).v, memory.real(s.power, kind.first_power + k + 1).v
    memory.station(s.stations, j).power = low + (high - low) * (position - k)


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
def _serve(s: Record, j: int, i: int, units: float, now: float) -> None:
    """Begin to serve task i; values must be up to date."""
    memory.task(s.tasks, i).tag = memory.station(s.stations, j).virtual + units
    memory.station(s.stations, j).root = insert(s, memory.station(s.stations, j).root, i)
    memory.station(s.stations, j).active += 1
    if memory.task(s.tasks, i).started != memory.task(s.tasks, i).started and j == 3 * memory.task(s.tasks, i).host:
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
    draw_power(s, j)
    schedule(s, j, now)


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
        _serve(s, j, following, memory.task(s.tasks, following).tag, now)
    draw_power(s, j)
    schedule(s, j, now)


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
    schedule(s, j, now)
