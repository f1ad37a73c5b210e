"""External vehicles on the bus, at the positions that a MAVLink end reports."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from cosim.adapters.vehicle.keys import Vehicle
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.external import External, VehicleReading
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.personas import fleet_mode
from cosim.autopilot.table import Address, address
from cosim.contract.adapter import Context
from cosim.contract.entities import Node
from cosim.contract.errors import SetupError
from cosim.physics.vehicles import VehicleFleet
from cosim.physics.vehicles.layout import COPTER, NONE

_AGAIN = 2.0  # s of wall time between two attempts to reach a TCP server
_PATIENCE = 0.2  # s that one takes at most
_GROUND = 0.5  # m above its home below which a copter stands


def externals(
    context: Context, fleet: VehicleFleet, roster: VehicleRoster, nodes: list[Node]
) -> Iterator[ExternalVehicle]:
    """One for each of `nodes`, which have `autopilot: external`."""
    geo, ends = context.scene.geo, dict[str, MavlinkEnd]()
    assert geo is not None, "check has seen to it"
    ground = Ground((geo.latitude, geo.longitude, geo.height))
    for node in nodes:
        vehicle = Vehicle.of(node)
        assert vehicle is not None
        text = str(vehicle.address)
        if text not in ends:
            ends[text] = MavlinkEnd(text, f"nodes.{node.id}.vehicle.address")
        yield ExternalVehicle(node.id, roster.row[node.id], vehicle.system or 0, fleet, ground, ends[text])


class MavlinkEnd:
    """One MAVLink end: a UDP port that is listened to, or a TCP server, dialled again when it has gone."""

    def __init__(self, text: str, path: str) -> None:
        """`text`: udp://HOST:PORT or tcp://HOST:PORT. Raises `SetupError` when the UDP port is taken."""
        scheme, _, rest = text.partition("://")
        self._tcp: Address | None = address(rest, path) if scheme == "tcp" else None
        self._end = None if self._tcp else External(udp=address(rest, path))
        self._next = -math.inf  # s of wall time

    def vehicles(self, wall: float) -> dict[int, VehicleReading]:
        """What is known by now, by system id."""
        if self._end is not None and self._end.ended:
            self._end.close()
            self._end = None
        if self._end is None and wall >= self._next:
            self._next = wall + _AGAIN
            try:
                self._end = External(tcp=self._tcp, patience=_PATIENCE)
            except SetupError:
                return {}
        if self._end is None:
            return {}
        self._end.poll(wall)
        return self._end.vehicles

    def close(self) -> None:
        """Stop listening; may be called twice."""
        if self._end is not None:
            self._end.close()


class ExternalVehicle:
    """A vehicle of the fleet at the position that its own autopilot reports."""

    part = "autopilot"

    def __init__(self, name: str, row: int, system: int, fleet: VehicleFleet, ground: Ground, end: MavlinkEnd) -> None:
        """`system`: its MAVLink system id, 0: that of the only one at the address."""
        self.name, self.row = name, row
        self._system, self._fleet, self._ground, self._end = system, fleet, ground, end
        self._reading: VehicleReading | None = None
        self._wall = math.nan

    def seek(self) -> bool:
        """Whether its position has been heard."""
        return self.fly(0.0, False)

    def fly(self, until: float, there: bool) -> bool:
        """Write what was heard last into the vehicle's row: its clock is the wall's."""
        wall = time.monotonic()
        found = self._end.vehicles(wall)
        reading = found.get(self._system or min(found, default=0))
        if reading is None or reading.place is None or reading.lost(wall):
            return False
        self._reading = reading
        self._show(reading, wall)
        return True

    def unknown(self) -> tuple[str, ...]:
        """What its autopilot does not measure."""
        r = self._reading
        assert r is not None
        fields = {"charge": r.charge, "voltage": r.voltage, "power": r.voltage * r.current, "roll": r.attitude[0]}
        fields["pitch"] = r.attitude[1]
        return tuple(name for name, value in fields.items() if math.isnan(value))

    def orders(self) -> None:
        """It takes none."""

    def close(self) -> None:
        """Stop listening."""
        self._end.close()

    def _show(self, reading: VehicleReading, wall: float) -> None:
        row, copter = self._fleet.state[self.row], self._fleet.frames["kind"][self.row] == COPTER
        assert reading.place is not None
        power = reading.voltage * reading.current
        charge = reading.charge * float(self._fleet.frames["capacity"][self.row])
        fields = dict(zip("xyz", self._ground.local(reading.place), strict=True))
        fields |= dict(zip(("vx", "vy", "vz"), reading.velocity, strict=True))
        fields |= dict(zip(("roll", "pitch", "heading"), reading.attitude, strict=True))
        fields |= {"voltage": reading.voltage, "current": reading.current, "power": power, "charge": charge}
        for name, value in fields.items():
            if math.isfinite(value):  # the dynamics, to which it may fall back, must not see NaN
                row[name] = value
        if math.isfinite(power) and math.isfinite(self._wall):
            row["energy"] += power * (wall - self._wall)
        self._wall = wall
        mode = fleet_mode(reading.autopilot, reading.custom_mode, copter)
        row["armed"], row["mode"], row["failsafe"] = reading.armed, mode, NONE
        if copter:
            row["landed"] = not reading.armed or reading.above < _GROUND
