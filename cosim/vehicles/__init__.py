"""Drones and rovers as columns: dynamics, battery and autopilot behaviour, compiled, without any I/O.

    from cosim.vehicles import Copter, Fleet, Rover, Waypoint

    fleet = Fleet([Copter(), Rover()], homes=[(0, 0, 0), (20, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 15.0)
    fleet.advance(10.0)
    fleet.state["z"]

One row per vehicle, one compiled call per `advance`, whatever the number of vehicles. Positions are
m east, north and up of the scenario's origin, headings radians clockwise from north.
"""

from cosim.vehicles.airframe import Battery, Copter, Rover
from cosim.vehicles.fleet import Fleet, Waypoint, compiled

__all__ = ["Battery", "Copter", "Fleet", "Rover", "Waypoint", "compiled"]
