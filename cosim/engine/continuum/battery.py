"""Batteries: drained by a node's electrical power and by its radio's energy per bit.

The drain is constant between two changes of the node's stations, so the time at which a battery is
empty is known exactly; it is an event like any other.
"""

from __future__ import annotations

from cosim.engine.continuum import memory
from cosim.engine.continuum.draw import CHARGE, stream, uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.numbering import downlink, first_link_station, node_of, processor, uplink
from cosim.engine.continuum.paths import technology_of
from cosim.engine.continuum.queue import drop, put

_OWN_STREAM = 2**32  # in the place of a workload's number: the stream of the device itself


@jit
def battery_number(s: Record, b: int) -> int:
    """Event number of a battery's end."""
    return int(s.first_event - s.battery_count + b)


@jit
def _draw(s: Record, n: int) -> float:
    """W that node n takes from its battery now."""
    node = memory.node(s.nodes, n)
    if node.present == 0 or memory.battery(s.batteries, node.battery).empty != 0:
        return 0.0
    power = memory.station(s.stations, processor(n)).power
    if node.machine >= 0:
        machine = memory.machine(s.machines, node.machine)
        for a in range(machine.first_accelerator, machine.first_accelerator + machine.accelerators):
            power += memory.station(s.stations, s.first_accelerator + a).power
    row = memory.kind(s.kinds, node.kind).first_radio + technology_of(s, n)
    if memory.station(s.stations, uplink(n)).active > 0:
        power += 8.0 * memory.station(s.stations, uplink(n)).rate * memory.real(s.radio, 2 * row).v
    if memory.station(s.stations, downlink(n)).active > 0:
        power += 8.0 * memory.station(s.stations, downlink(n)).rate * memory.real(s.radio, 2 * row + 1).v
    return float(power)


@jit
def settle(s: Record, n: int, now: float) -> None:
    """Book what node n has drained since the last change, and note what it drains from now on."""
    b = memory.node(s.nodes, n).battery
    if b < 0:
        return
    battery = memory.battery(s.batteries, b)
    used = battery.drain * (now - battery.since)
    battery.level -= used
    battery.consumed += used
    battery.since = now
    battery.drain = _draw(s, n)
    if battery.drain > 0.0:
        put(s, battery_number(s, b), now + max(0.0, battery.level) / battery.drain)
    else:
        drop(s, battery_number(s, b))


@jit
def settle_station(s: Record, j: int, now: float) -> None:
    """Station j serves otherwise from now on: that may be felt by the battery of its node."""
    if j < first_link_station(s.node_count):
        settle(s, node_of(j), now)
    elif j >= s.first_accelerator:
        settle(s, memory.accelerator(s.accelerators, j - s.first_accelerator).node, now)


@jit
def charge(s: Record, n: int, now: float) -> None:
    """Node n appears with its battery charged."""
    battery = memory.battery(s.batteries, memory.node(s.nodes, n).battery)
    key = stream(s.seed, n, memory.node(s.nodes, n).generation, _OWN_STREAM)
    level = battery.low + (battery.high - battery.low) * uniform(key, 0, CHARGE)
    battery.level, battery.drain, battery.since, battery.empty = level, 0.0, now, 0
    battery.charged += level
    settle(s, n, now)


@jit
def take_away(s: Record, n: int, now: float) -> None:
    """Node n, which drains nothing any more, vanishes with its battery."""
    settle(s, n, now)
    battery = memory.battery(s.batteries, memory.node(s.nodes, n).battery)
    battery.taken += battery.level
    battery.level = 0.0


@jit
def deplete(s: Record, b: int, now: float) -> None:
    """Battery b is empty: what rounding left of it is used as well."""
    battery = memory.battery(s.batteries, b)
    used = battery.drain * (now - battery.since)
    battery.consumed += used + (battery.level - used)
    battery.level, battery.drain, battery.since, battery.empty = 0.0, 0.0, now, 1
    drop(s, battery_number(s, b))
