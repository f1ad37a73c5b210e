"""Where all vehicles of the bus are, published as AeroLoop's network simulator takes it."""

from __future__ import annotations

import logging

from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.aeroloop import Positions
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.table import address
from cosim.contract.adapter import Context
from cosim.physics.vehicles import Copter, VehicleFleet

log = logging.getLogger(__name__)


class AeroLoop:
    """A ZeroMQ publisher: UAV1, UAV2, .. are the copters and ROV1, .. the rovers in the order of the scenario."""

    def __init__(self, context: Context, fleet: VehicleFleet, roster: VehicleRoster, at: str) -> None:
        """`at`: tcp://HOST:PORT. Raises `SetupError` when the port is taken."""
        geo, path = context.scene.geo, f"adapters.{context.name}.aeroloop"
        assert geo is not None, "check has seen to it"
        self._fleet, self._ground = fleet, Ground((geo.latitude, geo.longitude, geo.height))
        frames = ["copter" if isinstance(vehicle, Copter) else "rover" for vehicle in roster.airframes]
        self._positions = Positions(address(at.removeprefix("tcp://"), path), frames)
        pairs = zip(self._positions.topics, roster.ids, strict=True)
        log.info("positions at %s: %s", at, ", ".join(f"{topic} is {name}" for topic, name in pairs))

    def publish(self) -> None:
        """Publish all positions, when it is time: four times a simulated second."""
        now = self._fleet.now
        if self._positions.due(now):
            s = self._fleet.state
            places = zip(s["x"].tolist(), s["y"].tolist(), s["z"].tolist(), strict=True)
            self._positions.publish(now, [self._ground.place(x, y, z) for x, y, z in places])

    def close(self) -> None:
        """Stop publishing; may be called twice."""
        self._positions.close()
