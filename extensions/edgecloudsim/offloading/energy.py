"""Energy: what devices draw from their batteries, and what edge, cloud and network take.

A device draws idle + (max - idle) * (busy cores / cores) W, integrated over time (linear in
utilisation, as PureEdgeSim has it: Mechalikh, Taktak, Moussa 2021, doi 10.2298/CSIS200301042M),
and for each transfer its bits times the energy per bit. Edge hosts and cloud machines draw by the same
linear law. A device whose battery is empty dies: it makes no tasks, does not move, and loses those in
flight.
"""

from __future__ import annotations

import math

from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import drop, put
from cosim.extensions.edgecloudsim.offloading.layout import EDGE, Record
from cosim.extensions.edgecloudsim.offloading.rows import battery, centre, device, vm

_KB_PER_BIT = 1.0 / 8000.0


@jit
def consumed(s: Record, d: int, now: float) -> float:
    """J that the device has drawn from its battery."""
    b = battery(s.batteries, d)
    if s.idle_power_per_call != 0:
        return float(b.consumed + s.idle_calls * s.device_idle + b.power * (now - b.since))
    return float(b.consumed + b.power * (now - b.since))


@jit
def empty(s: Record, d: int, now: float) -> bool:
    """Whether the device's battery is empty."""
    return bool(consumed(s, d, now) >= battery(s.batteries, d).capacity)


@jit
def _power(s: Record, d: int) -> float:
    """W that the device draws now."""
    power = 0.0 if s.idle_power_per_call != 0 else s.device_idle
    if s.mobile_vms > 0 and s.dynamic_power_by_image_size == 0:
        own = vm(s.vms, s.edge_vms + s.cloud_vms + d)
        if own.cores > 0:
            power += (s.device_max - s.device_idle) * min(own.used, own.cores) / own.cores
    return float(power)


@jit
def draw(s: Record, d: int, joules: float, now: float) -> None:
    """The device spends `joules` at once; its power from now on is what its processor does now.

    The time of its death is predicted, unless the dead go on or idle power depends on others' calls.
    """
    b = battery(s.batteries, d)
    b.consumed += b.power * (now - b.since) + joules
    b.since = now
    if device(s.devices, d).alive == 0:
        b.power = 0.0
        return
    b.power = _power(s, d)
    if s.mortal == 0 or s.dead_devices_go_on != 0 or s.idle_power_per_call != 0:
        return
    rest = b.capacity - b.consumed
    if rest <= 0.0:
        put(s, s.first_death + d, now)
    elif b.power > 0.0:
        put(s, s.first_death + d, now + rest / b.power)
    else:
        drop(s, s.first_death + d)


@jit
def transfer(s: Record, d: int, kb: float, up: bool, now: float) -> None:
    """A WLAN transfer of the device begins: its radio and its access point take their energy."""
    sends = up
    if s.radio_energy_swapped != 0:
        sends = not up
    joules = kb * (s.send if sends else s.receive)
    if s.kilobytes_taken_as_bits != 0:
        joules *= _KB_PER_BIT
    draw(s, d, joules, now)
    if s.network_energy_missing == 0:
        s.network_energy += kb * (s.point_receive if up else s.point_send)


@jit
def local_transfer(s: Record, d: int, kb: float, up: bool, now: float) -> None:
    """The cellular transfer that quirk radio-energy-swapped makes local execution pay for."""
    if s.radio_energy_swapped == 0:
        return
    joules = kb * (s.cellular_receive if up else s.cellular_send)
    if s.kilobytes_taken_as_bits != 0:
        joules *= _KB_PER_BIT
    draw(s, d, joules, now)


@jit
def call(s: Record) -> None:
    """Count a submitted task or a sample: quirk idle-power-per-call."""
    if s.idle_power_per_call != 0:
        s.idle_calls += 1


@jit
def _by_image(s: Record, v: int, idle: float, full: float) -> float:
    """J that quirk dynamic-power-by-image-size adds for a machine at a sample."""
    machine = vm(s.vms, v)
    if machine.load <= 0.0 or machine.rate <= 0.0:
        return 0.0
    return float((full - idle) * machine.image / (machine.load * machine.rate))


@jit
def sample(s: Record, now: float) -> None:
    """What the energy quirks do at each sample of the load."""
    call(s)
    if s.dynamic_power_by_image_size != 0:
        for d in range(s.mobile_vms):
            joules = _by_image(s, s.edge_vms + s.cloud_vms + d, s.device_idle, s.device_max)
            if joules > 0.0:
                draw(s, d, joules, now)
    if s.edge_on_cloud_power != 0:
        for c in range(s.centre_count):
            group = centre(s.centres, c)
            if group.alive == 0 or group.vms == 0 or vm(s.vms, group.first_vm).tier != EDGE:
                continue
            for v in range(group.first_vm, group.first_vm + group.vms):
                joules = s.cloud_idle + _by_image(s, v, s.cloud_idle, s.cloud_max)
                vm(s.vms, v).energy += joules
                group.consumed += joules
            if group.consumed >= group.battery:
                group.alive = 0


@jit
def bury(s: Record, d: int, now: float) -> None:
    """The device is dead; its tasks are the caller's business."""
    device(s.devices, d).alive = 0
    device(s.devices, d).next_move = math.inf
    drop(s, s.first_arrival + d)
    drop(s, s.first_move + d)
    drop(s, s.first_death + d)
    draw(s, d, 0.0, now)
    battery(s.batteries, d).died = now
