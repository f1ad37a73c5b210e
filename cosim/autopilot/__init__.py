"""An autopilot that MAVLink tools can fly, on top of `cosim.physics.vehicles`: an emulator, with no real one inside.

    from cosim.autopilot import Autopilot
    from cosim.physics.vehicles import Copter, VehicleFleet

    fleet = VehicleFleet([Copter()], homes=[(0, 0, 0)])
    autopilot = Autopilot(fleet, 0, sysid=1, persona="ardupilot", origin=(38.2, 21.7, 60.0))
    autopilot.receive(data, link)
    fleet.advance(fleet.now + 0.01)
    for link, data in autopilot.emit(fleet.now, wall): ...

`Autopilot` is pure: its owner moves the bytes. `cosim.autopilot.links` does so with UDP and TCP
sockets; `python -m cosim.autopilot` is a program of its own. Needs pymavlink (extra `vehicles`); modules
without MAVLink, such as `cosim.autopilot.json_fdm` and `cosim.autopilot.remote`, do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

__all__ = ["Autopilot"]

__getattr__ = on_demand(__name__, core="Autopilot")  # the modules beside it are of use without pymavlink
