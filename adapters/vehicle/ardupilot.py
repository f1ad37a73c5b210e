"""Vehicles on our physics under a real ArduPilot, each at a UDP port of its own."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.modes import fleet_mode
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.autopilot.geodesy import Ground
from cosim.autopilot.json_fdm import Body, JsonPhysics
from cosim.autopilot.table import PHYSICS_PORT, TCP_STEP, Address, address
from cosim.contract.adapter import Context, Requirement
from cosim.contract.entities import Geo
from cosim.physics.vehicles import Rover, VehicleFleet
from cosim.physics.vehicles.layout import COPTER, MANUAL

if TYPE_CHECKING:
    from cosim.autopilot.mavlink_pilot import MavlinkPilot
    from cosim.autopilot.side import SideChannel

log = logging.getLogger(__name__)  # below "adapters": its warnings are printed as well
_SERVE = 0.02  # s of wall time to wait for a packet
_SERIAL1 = 5762  # TCP of ArduPilot's instance 0
_ARDUPILOT = 3  # MAV_AUTOPILOT
_PEERS = 2  # the one that flies, and one that was left over
# What physics and fleet have in common, besides the place.
_SAME = (
    "vx", "vy", "vz", "roll", "pitch", "heading", "turn", "ax", "ay", "az",
    "charge", "voltage", "current", "power", "energy",
    "qw", "qx", "qy", "qz", "p", "q", "r", "t0", "t1", "t2", "t3", "impact", "landed", "failsafe",
)  # fmt: skip


def ardupilots(
    context: Context, fleet: VehicleFleet, roster: VehicleRoster, config: VehicleConfig, names: list[str]
) -> list[ArduPilot]:
    """One for each node of `names`, with `autopilot: ardupilot-json`; logs a table of commands that start them."""
    path = f"adapters.{context.name}.ardupilot.bind"
    first, made, lines = address(config.ardupilot.bind, path), list[ArduPilot](), list[str]()
    try:
        for number, name in enumerate(names):
            at, row = Address(first.host, first.port + TCP_STEP * number), roster.row[name]
            # where ArduPilot of this instance listens, on the same machine as the one that calls
            side = Address("127.0.0.1", _SERIAL1 + at.port - PHYSICS_PORT) if at.port >= PHYSICS_PORT else None
            made.append(ArduPilot(name, row, fleet, roster, at, config.real.patience, side))
            if name in roster.told:
                assert context.scene.geo is not None, "check has seen to it"
                made[-1].obey(context.scene.geo, config.ardupilot.arming)
            lines.append(f"{name}  UDP {at}  {_command(roster, row, at, context.scene.geo)}")
    except BaseException:
        for one in made:
            one.close()
        raise
    log.warning("physics for ArduPilots of %s:\n%s", context.name, "\n".join(lines))
    return made


def _command(roster: VehicleRoster, row: int, at: Address, geo: Geo | None) -> str:
    """How the ArduPilot of a vehicle is started, when its instance has this port."""
    program = "ardurover" if isinstance(roster.airframes[row], Rover) else "arducopter"
    instance, rest = divmod(at.port - PHYSICS_PORT, TCP_STEP)
    words = [program, f"--model JSON:{at.host}", f"-I {instance}" if instance >= 0 and not rest else ""]
    if geo is not None:
        home = Ground((geo.latitude, geo.longitude, geo.height)).place(*roster.homes[row])
        heading = math.degrees(float(roster.headings[row])) % 360.0
        words.append(f"--home {home.latitude:.7f},{home.longitude:.7f},{home.altitude:.2f},{heading:.0f}")
    return " ".join(word for word in words if word)


class ArduPilot:
    """A vehicle of the fleet that is moved by `JsonPhysics`, as far as its ArduPilot keeps up."""

    part = "autopilot"

    def __init__(
        self,
        name: str,
        row: int,
        fleet: VehicleFleet,
        roster: VehicleRoster,
        at: Address,
        patience: float,
        side: Address | None,
    ) -> None:
        """`patience`: s of wall time without a packet after which it counts as gone. `side`: its MAVLink."""
        self.name, self.row = name, row
        self._fleet, self._home, self._patience = fleet, roster.homes[row], patience
        heading, level = float(roster.headings[row]), float(roster.levels[row])
        land = None if fleet.terrain is None else fleet.terrain.seen_from(roster.homes[row])
        self._physics = JsonPhysics(roster.airframes[row], at, heading, _PEERS, level, land)
        self._side: SideChannel | None = None
        self._pilot: MavlinkPilot | None = None
        if side is not None and not Requirement("pymavlink", "vehicles").missing():
            from cosim.autopilot.side import SideChannel

            self._side = SideChannel(side)
        self._body: Body | None = None
        self._restarts = 0

    def obey(self, geo: Geo, limit: float) -> None:
        """Fly what the vehicle's row orders; `limit`: s to be armed, and to take off."""
        from cosim.autopilot.mavlink_pilot import MavlinkPilot

        assert self._side is not None, "check has seen to it"
        ground = Ground((geo.latitude, geo.longitude, geo.height))
        self._pilot = MavlinkPilot(self._fleet, self.row, self._side, ground, limit)

    def orders(self) -> MavlinkPilot | None:
        """What carries out its orders."""
        return self._pilot

    def seek(self) -> bool:
        """Whether its first packet has come."""
        self._physics.serve(0.0)
        self._notice()
        return self._body is not None

    def fly(self, until: float, there: bool) -> bool:
        """Grant it the time until `until` s and answer until it has used it."""
        begin = self._physics.granted
        if there and self._pilot is not None and self._body is not None:
            self._pilot.order(begin, self._body.driven.state)
        self._physics.grant(until)
        anew = False  # whether it stands where it began
        if not there:
            if not self._physics.serve(0.0):
                return False
            anew = self._notice()
            if self._body is None:
                return False  # noise
            if not anew:
                self._continue(self._body, begin)
        last = time.monotonic()
        while (body := self._body) is None or body.offset + body.now < until - 1e-9:
            if self._physics.serve(_SERVE):
                last = time.monotonic()
                anew = self._notice() or anew
            elif time.monotonic() - last > self._patience:
                return False
        if self._side is not None:
            self._side.tell(body.driven, body.now, time.monotonic())
        self._show(body)
        self._say(body, until, None if there and not anew else anew)
        return True

    def unknown(self) -> tuple[str, ...]:
        """Nothing: it is our physics."""
        return ()

    def close(self) -> None:
        """Answer it no more."""
        self._physics.close()
        if self._side is not None:
            self._side.close()

    def _notice(self) -> bool:
        """Turn to the ArduPilot that came last; whether it starts from home."""
        body = self._physics.newest
        new = body is not self._body or (body is not None and body.restarts > self._restarts)
        self._body = body
        if body is not None:
            self._restarts = body.restarts
            body.driven.wind[:] = self._fleet.wind[self.row]
        return new

    def _continue(self, body: Body, now: float) -> None:
        """An ArduPilot that was away goes on from `now` s, and from where its vehicle is."""
        body.offset = now - body.now
        row, state = self._fleet.state[self.row], body.driven.state
        for name in _SAME:
            state[name] = row[name]
        for axis, home in zip("xyz", self._home, strict=True):
            state[axis] = row[axis] - home

    def _show(self, body: Body) -> None:
        row, state = self._fleet.state[self.row], body.driven.state
        for name in _SAME:
            row[name] = state[name]
        for axis, home in zip("xyz", self._home, strict=True):
            row[axis] = state[axis] + home

    def _say(self, body: Body, until: float, begins: bool | None) -> None:
        """Its mode, and whether it is armed; `begins`: it is there anew, True: at home, False: where it was."""
        told = None if self._side is None else self._side.mode
        copter = self._fleet.frames["kind"][self.row] == COPTER
        mode = int(MANUAL) if told is None else fleet_mode(_ARDUPILOT, told, bool(copter))
        if self._pilot is None:
            row = self._fleet.state[self.row]
            row["mode"], row["armed"] = mode, body.armed
            return
        if begins is not None:
            self._pilot.restart(until, home=begins)
        self._pilot.show(until, mode, body.armed)
