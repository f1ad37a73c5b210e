"""What nodes have beyond a processor: from the scene's records to the engine's, and rows about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Node
from cosim.contract.equipment import AcceleratorQuantities, Power, ScalingQuantities
from cosim.contract.equipment import Scaling as Points
from cosim.contract.frame import Frame
from cosim.contract.quantity import carried
from cosim.contract.signals import ACCELERATORS
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.hardware import MachineAccelerator, MachinePoint, MachineScaling, NodeBattery
from cosim.engine.continuum.layout import ABSENT, ONDEMAND, PERFORMANCE, POWERSAVE, USERSPACE
from cosim.engine.continuum.power import Platform, cubic, platform
from cosim.engine.continuum.resources import Resources, clocks

_GOVERNORS = {"userspace": USERSPACE, "performance": PERFORMANCE, "powersave": POWERSAVE, "ondemand": ONDEMAND}
_MOST_STEPS = 1000  # of a power table that stands for a curve


def technologies(nodes: Sequence[Node]) -> dict[str, int]:
    """The numbers of the radio technologies that cells name; 0 is for cells that name none."""
    names = sorted({node.cell.technology for node in nodes if node.cell is not None and node.cell.technology})
    return {"": 0, **{name: number for number, name in enumerate(names, 1)}}


def power_table(power: Power | None, cores: int) -> tuple[float, ...]:
    """The power at equal steps of use; exact wherever a whole number of cores is in use."""
    if power is None or power.law == "linear":
        return power.table if power else ()
    steps = min(max(cores, 1), _MOST_STEPS)
    use = np.linspace(0.0, 1.0, steps + 1)
    return tuple(float(watts) for watts in cubic(use, power.table[0], power.table[-1]))


def accelerators(node: Node) -> tuple[MachineAccelerator, ...]:
    """The node's accelerators; kinds are numbered as in `ACCELERATORS`."""
    return tuple(
        MachineAccelerator(
            ACCELERATORS.index(part.kind), part.units, part.speed, part.shared, **carried(part, AcceleratorQuantities)
        )
        for part in node.accelerators
    )


def scaling(found: Points | None) -> MachineScaling | None:
    """The operating points as the engine takes them; those of a platform have its nominal voltages."""
    if found is None:
        return None
    if found.platform:
        points = _points(platform(found.platform))
    else:
        points = tuple(MachinePoint(point.clock, (point.idle, point.max)) for point in found.points)
    return MachineScaling(points, int(_GOVERNORS[found.governor]), **carried(found, ScalingQuantities))


def _points(one: Platform) -> tuple[MachinePoint, ...]:
    return tuple(
        MachinePoint(1e9 * clock, (float(one.watts(0.0, k)), float(one.watts(1.0, k))))
        for k, clock in enumerate(one.frequency)
    )


def battery(node: Node) -> NodeBattery | None:
    """The node's battery as the engine takes it."""
    one = node.battery
    return None if one is None else NodeBattery(one.capacity.joules, *one.levels)


def radio_by_technology(node: Node, numbers: dict[str, int]) -> tuple[tuple[float, float], ...]:
    """J/bit sent and received under technology 1, 2..; those that the node does not name cost as without."""
    named = {name: (energy.sent, energy.received) for name, energy in node.radio_energy}
    plain = (node.radio_energy_sent, node.radio_energy_received)
    return tuple(named.get(name, plain) for name in numbers if name)


class Gauges:
    """Rows about batteries, machines and accelerators; means are over the time since the last row."""

    def __init__(self, engine: Engine, signals: Sequence[str]) -> None:
        self._engine, self._signals = engine, tuple(signals)
        self._time = 0.0
        count = len(engine.state.accelerators)
        self._last = np.zeros((2, count))  # busy s and J at the last rows

    def frames(self, time: float) -> list[Frame]:
        """One frame for each of the signals."""
        if not self._signals:
            return []
        now = self._engine.resources()
        make = {"battery": self._batteries, "machine": self._machines, "accelerator": self._accelerators}
        frames = [make[name](time, now) for name in self._signals]
        self._time = time
        self._last = np.stack([now.accelerator_busy, now.accelerator_energy])
        return frames

    def _there(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = self._engine.state.nodes["present"][slots] != 0
        return there

    def _batteries(self, time: float, now: Resources) -> Frame:
        here = self._there(now.battery_node)
        columns = {
            "level": now.level[here],
            "fraction": now.level[here] / now.capacity[here],
            "power": now.drain[here],
            "empty": now.empty[here],
        }
        return Frame("battery", time, now.battery_node[here].astype(np.int32), columns)

    def _machines(self, time: float, now: Resources) -> Frame:
        here = now.state != ABSENT
        slots = now.machine_node[here]
        columns = {
            "state": now.state[here].astype(np.int8),
            "waiting": now.waiting[here].astype(np.int32),
            "memory": now.free_memory[here],
            "storage": now.free_storage[here],
            "frequency": clocks(self._engine.state, slots),
        }
        return Frame("machine", time, slots.astype(np.int32), columns)

    def _accelerators(self, time: float, now: Resources) -> Frame:
        here = self._there(now.accelerator_node)
        span = time - self._time
        busy, joules = now.accelerator_busy - self._last[0], now.accelerator_energy - self._last[1]
        used = busy / (span * now.accelerator_units) if span > 0.0 else np.zeros(len(busy))
        columns = {
            "kind": now.accelerator_kind[here].astype(np.int8),
            "running": now.accelerator_running[here].astype(np.int32),
            "waiting": now.accelerator_waiting[here].astype(np.int32),
            "utilisation": used[here],
            "power": (joules / span if span > 0.0 else now.accelerator_power)[here],
            "energy": now.accelerator_energy[here],
            "completed": now.accelerator_completed[here].astype(np.int64),
        }
        return Frame("accelerator", time, now.accelerator_node[here].astype(np.int32), columns)
