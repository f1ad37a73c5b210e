"""The compute-continuum simulator: a compiled event engine on flat arrays, usable alone.

    from cosim.engine.continuum import Engine, Kind, Stream, System

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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.engine.continuum.batches import Batch, Batcher, batch
    from cosim.engine.continuum.engine import Engine
    from cosim.engine.continuum.hardware import Accelerator, Battery, OperatingPoint, PowerStates, Quota, Scaling
    from cosim.engine.continuum.layout import INTERVAL
    from cosim.engine.continuum.snapshot import Snapshot
    from cosim.engine.continuum.stepping import Decisions, View
    from cosim.engine.continuum.system import Kind, Stage, Stream, System
    from cosim.engine.continuum.warm import compiled

_PLACES = {
    "Accelerator": "hardware",
    "Batch": "batches",
    "Batcher": "batches",
    "Battery": "hardware",
    "Decisions": "stepping",
    "Engine": "engine",
    "INTERVAL": "layout",
    "Kind": "system",
    "OperatingPoint": "hardware",
    "PowerStates": "hardware",
    "Quota": "hardware",
    "Scaling": "hardware",
    "Snapshot": "snapshot",
    "Stream": "system",
    "Stage": "system",
    "System": "system",
    "View": "stepping",
    "batch": "batches",
    "compiled": "warm",
}

__all__ = [
    "INTERVAL", "Accelerator", "Batch", "Batcher", "Battery", "Decisions", "Engine", "Kind", "OperatingPoint",
    "PowerStates", "Quota", "Scaling", "Snapshot", "Stage", "Stream", "System", "View", "batch", "compiled",
]  # fmt: skip


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _PLACES:
        return getattr(importlib.import_module(f"cosim.engine.continuum.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'cosim.engine.continuum' has no attribute '{name}'")
