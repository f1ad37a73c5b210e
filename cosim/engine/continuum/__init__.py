"""The compute-continuum simulator: a compiled event engine on flat arrays, usable alone.

    from cosim.engine.continuum import Engine, Kind, WorkloadStream, System

    engine = Engine(system, seed=7)
    engine.advance(60.0)
    ended = engine.drain()

Devices make tasks, and a scheduler assigns each a host. The input travels over the device's radio or a
fixed link and on through the network of links between edge and cloud nodes; the host computes it;
the output travels back to wherever the device is attached by then. It knows nothing of scenarios,
buses and files. Processors and links are shared equally among the tasks in service (processor
sharing in virtual time); a processor may serve first come, first served instead.

A host may have limited memory and storage, accelerators, power states and operating points, and any
node a battery: `cosim.engine.continuum.hardware`.

`cosim.engine.continuum.layout` documents the state, `cosim.engine.continuum.system` the input at the start,
`cosim.engine.continuum.engine` later changes. Everything is a function of the seed; stepping more or less
finely does not change a bit.

The names below are imported when they are first used, as numba takes half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.engine.continuum.batches import BatchColumns, Batcher, batch
    from cosim.engine.continuum.engine import Deciding, Engine
    from cosim.engine.continuum.hardware import (
        MachineAccelerator,
        MachinePoint,
        MachineScaling,
        NodeBattery,
        PowerStates,
        Quota,
    )
    from cosim.engine.continuum.layout import INTERVAL
    from cosim.engine.continuum.snapshot import Snapshot
    from cosim.engine.continuum.stepping import Decisions, View
    from cosim.engine.continuum.system import JobStage, Kind, System, WorkloadStream
    from cosim.engine.continuum.warm import compiled

__all__ = [
    "INTERVAL", "BatchColumns", "Batcher", "Deciding", "Decisions", "Engine", "JobStage", "Kind", "MachineAccelerator",
    "MachinePoint", "MachineScaling", "NodeBattery", "PowerStates", "Quota", "Snapshot", "System", "View",
    "WorkloadStream", "batch", "compiled",
]  # fmt: skip


__getattr__ = on_demand(
    __name__, batches="BatchColumns Batcher batch", engine="Deciding Engine", layout="INTERVAL", snapshot="Snapshot",
    hardware="MachineAccelerator MachinePoint MachineScaling NodeBattery PowerStates Quota",
    stepping="Decisions View", system="JobStage Kind System WorkloadStream", warm="compiled",
)  # fmt: skip
