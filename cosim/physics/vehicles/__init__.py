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

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.physics.vehicles.airframe import BatteryPack, Copter, Rover
    from cosim.physics.vehicles.fleet import VehicleFleet, Waypoint, compiled

__all__ = ["BatteryPack", "Copter", "Rover", "VehicleFleet", "Waypoint", "compiled"]

# Scenarios are checked with the words of this package; only who flies needs a compiler.
__getattr__ = on_demand(__name__, airframe="BatteryPack Copter Rover", fleet="VehicleFleet Waypoint compiled")
