"""Drones and rovers as columns: dynamics, battery and autopilot behaviour, compiled, without any I/O.

    from cosim.physics.vehicles import Copter, Rover, VehicleFleet, Waypoint

    fleet = VehicleFleet([Copter(), Rover()], homes=[(0, 0, 0), (20, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 15.0)
    fleet.advance(10.0)
    fleet.state["z"]

One row per vehicle, one compiled call per `advance`, whatever the number of vehicles. Positions are
m east, north and up of the scenario's origin, headings radians clockwise from north.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cosim.physics.vehicles.airframe import BatteryPack, Copter, Rover
    from cosim.physics.vehicles.fleet import VehicleFleet, Waypoint, compiled

__all__ = ["BatteryPack", "Copter", "Rover", "VehicleFleet", "Waypoint", "compiled"]

# Scenarios are checked with the words of this package; only who flies needs a compiler.
_MODULE = {
    "BatteryPack": "airframe", "Copter": "airframe", "Rover": "airframe",
    "VehicleFleet": "fleet", "Waypoint": "fleet", "compiled": "fleet",
}  # fmt: skip


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _MODULE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
