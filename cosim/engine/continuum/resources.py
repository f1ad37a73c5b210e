"""What machines and batteries have done, read from the state without changing it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.layout import KernelState


@dataclass(frozen=True, slots=True, eq=False)
class Resources:
    """Readings since the start of the run: one entry per accelerator, machine or battery.

    The spells of a machine add up to the time that has passed. A battery was `charged` with what it
    has since consumed, what it holds, and what nodes that vanished have taken away.
    """

    accelerator_node: Ints  # (accelerators,) slot
    accelerator_kind: Ints  # (accelerators,)
    accelerator_units: Ints  # (accelerators,)
    accelerator_running: Ints  # (accelerators,) tasks in service
    accelerator_waiting: Ints  # (accelerators,) tasks in line for a unit
    accelerator_busy: Floats  # (accelerators,) s, integral of the units in use
    accelerator_waited: Floats  # (accelerators,) s in line, of the tasks that got a unit
    accelerator_energy: Floats  # (accelerators,) J
    accelerator_power: Floats  # (accelerators,) W now
    accelerator_completed: Ints  # (accelerators,) tasks
    machine_node: Ints  # (machines,) slot
    state: Ints  # (machines,) ON, ASLEEP, WAKING, BOOTING, OFF, ABSENT
    spells: Floats  # (machines, STATES) s spent in each state
    wakes: Ints  # (machines,) times that it was woken
    waiting: Ints  # (machines,) tasks in their queue
    free_memory: Floats  # (machines,) B, inf: unlimited
    free_storage: Floats  # (machines,) B
    battery_node: Ints  # (batteries,) slot
    capacity: Floats  # (batteries,) J
    level: Floats  # (batteries,) J now
    drain: Floats  # (batteries,) W now
    charged: Floats  # (batteries,) J brought along
    consumed: Floats  # (batteries,) J
    taken: Floats  # (batteries,) J left in batteries of nodes that vanished
    empty: NDArray[np.bool_]  # (batteries,)


def clocks(s: KernelState, slots: Ints) -> Floats:
    """Hz of a core of each of these nodes, also of one whose quota is used up."""
    found: Floats = s.kinds["clock"][s.nodes["kind"][slots]]
    machine = s.nodes["machine"][slots]
    for k in np.flatnonzero(machine >= 0).tolist():
        row = s.machines[machine[k]]
        if row["points"]:
            found[k] = s.points["clock"][row["first_point"] + row["point"]]
    return found


def accelerator_readings(s: KernelState) -> tuple[Floats, Floats]:
    """(busy unit-seconds, J) of every accelerator at the present time."""
    now = float(s.meta["now"][0])
    stations = s.stations[int(s.meta["first_accelerator"][0]) :]
    span = now - stations["since"]
    used = np.minimum(stations["active"], stations["servers"])
    return stations["busy"] + used * span, stations["energy"] + stations["power"] * span


def accelerator_use(s: KernelState) -> tuple[Floats, Floats]:
    """(J so far, W now) of the accelerators of every node."""
    slots, stations = s.accelerators["node"], s.stations[int(s.meta["first_accelerator"][0]) :]
    count = len(s.nodes)
    energy, power = np.zeros(count), np.zeros(count)
    np.add.at(energy, slots, accelerator_readings(s)[1])
    np.add.at(power, slots, stations["power"])
    return energy, power


def read_resources(s: KernelState) -> Resources:
    """All of it at the present time."""
    now = float(s.meta["now"][0])
    stations = s.stations[int(s.meta["first_accelerator"][0]) :]
    busy, energy = accelerator_readings(s)
    spells = s.spells.copy()
    spells[np.arange(len(s.machines)), s.machines["state"]] += now - s.machines["since"]
    batteries = s.batteries
    used = batteries["drain"] * (now - batteries["since"])
    return Resources(
        accelerator_node=s.accelerators["node"].copy(), accelerator_kind=s.accelerators["kind"].copy(),
        accelerator_units=stations["servers"].copy(), accelerator_running=stations["active"].copy(),
        accelerator_waiting=stations["queued"].copy(), accelerator_busy=busy,
        accelerator_waited=stations["waited"].copy(), accelerator_energy=energy,
        accelerator_power=stations["power"].copy(), accelerator_completed=s.accelerators["completed"].copy(),
        machine_node=s.machines["node"].copy(), state=s.machines["state"].copy(), spells=spells,
        wakes=s.machines["wakes"].copy(), waiting=s.machines["waiting"].copy(),
        free_memory=s.machines["free_memory"].copy(), free_storage=s.machines["free_storage"].copy(),
        battery_node=batteries["node"].copy(), capacity=batteries["capacity"].copy(),
        level=batteries["level"] - used, drain=batteries["drain"].copy(), charged=batteries["charged"].copy(),
        consumed=batteries["consumed"] + used, taken=batteries["taken"].copy(), empty=batteries["empty"] != 0,
    )  # fmt: skip
