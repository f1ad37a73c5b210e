"""MAVLink endpoints of the vehicles on the bus: ground stations see and fly them."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path

from cosim.adapters.vehicle.config import MavlinkPart
from cosim.adapters.vehicle.keys import vehicles_of
from cosim.adapters.vehicle.roster import VehicleRoster, written_systems
from cosim.contract.adapter import Context, Requirement
from cosim.contract.errors import SetupError
from cosim.physics.vehicles import VehicleFleet

log = logging.getLogger(__name__)
STEP = 0.02  # s, at most, between two looks at the sockets while time passes


class Mavlink:
    """Autopilots and sockets of the vehicles that are flown here; those that another autopilot or the program of
    a real node flies have their own. System ids and ports are counted over all vehicles.

    Raises `SetupError` when they cannot be.
    """

    def __init__(self, context: Context, fleet: VehicleFleet, roster: VehicleRoster, part: MavlinkPart) -> None:
        missing = Requirement("pymavlink", "vehicles").missing()
        if missing:
            raise SetupError(f"adapters.{context.name}.mavlink: {missing}")
        geo = context.scene.geo
        assert geo is not None, "check has seen to it"
        from cosim.autopilot import Autopilot
        from cosim.autopilot.links import Endpoint, LinkEndpoints
        from cosim.autopilot.table import Address, VehicleSlot, address, plan, render

        at = f"adapters.{context.name}.mavlink"
        elsewhere = roster.outside | {n.id for n in context.scene.nodes if context.scene.real and n.runs is not None}
        vehicles = [vehicle for _, _, vehicle in vehicles_of(context.scene)]
        planned = plan(
            [(name, v.persona, v.frame) for name, v in zip(roster.ids, vehicles, strict=True)],
            [] if part.udp is None else [address(part.udp, f"{at}.udp")],
            None if part.tcp is None else Address("127.0.0.1", part.tcp),
            named=written_systems(vehicles, roster.ids),
        )
        self.slots: list[VehicleSlot] = [slot for slot in planned if slot.name not in elsewhere]
        self._fleet = fleet
        self._stack = ExitStack()
        try:
            self._pilots = [
                Autopilot(
                    fleet,
                    roster.row[slot.name],
                    sysid=slot.sysid,
                    persona=slot.persona,
                    origin=(geo.latitude, geo.longitude, geo.height),
                    timed=False,
                    logs=Path(context.scratch, slot.name) if context.scratch else None,
                )
                for slot in self.slots
            ]
            made = []
            for pilot, slot in zip(self._pilots, self.slots, strict=True):
                self._stack.callback(pilot.logs.close)
                made.append(Endpoint(pilot, slot.udp, slot.tcp))
                self._stack.callback(made[-1].close)
            self._endpoints = LinkEndpoints(made)
            self._stack.callback(self._endpoints.close)
        except BaseException:
            self._stack.close()
            raise
        if self.slots:
            log.warning("MAVLink endpoints of %s:\n%s", context.name, render(self.slots))

    def look(self) -> None:
        """Take what came, let the autopilots see where they are, send what is due."""
        self._endpoints.poll()
        for pilot in self._pilots:
            pilot.watch(self._fleet.now)
        self._endpoints.send(self._fleet.now, time.monotonic())

    def close(self) -> None:
        """Close all sockets; may be called twice."""
        self._stack.close()
