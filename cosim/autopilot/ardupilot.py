"""A vehicle of a fleet on our physics under a real ArduPilot, which the caller or the user starts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cosim.autopilot.geodesy import Ground, Place, Vector
from cosim.autopilot.json_fdm import Airframe, JsonBody, JsonPhysics
from cosim.autopilot.personas import fleet_mode
from cosim.autopilot.table import PHYSICS_PORT, Address
from cosim.physics.vehicles import VehicleFleet
from cosim.physics.vehicles.layout import COPTER, MANUAL

if TYPE_CHECKING:
    from cosim.autopilot.mavlink_pilot import MavlinkPilot
    from cosim.autopilot.side import SideChannel

_SERVE = 0.02  # s of wall time to wait for a packet
_SERIAL1 = 5762  # TCP of ArduPilot's instance 0
_ARDUPILOT = 3  # MAV_AUTOPILOT
_PEERS = 2  # the one that flies, and one that was left over
# What physics and fleet have in common, besides the place.
_SAME = (
    "vx", "vy", "vz", "roll", "pitch", "heading", "turn", "ax", "ay", "az",
    "charge", "voltage", "current", "power", "energy",
    "qw", "qx", "qy", "qz", "p", "q", "r", "t0", "t1", "t2", "t3", "impact", "landed", "failsafe",
    "crashed", "hits", "hit_speed", "hit_what", "hit_other",
)  # fmt: skip


def words(program: str, host: str, instance: int, home: Place | None, heading: float) -> list[str]:
    """What starts an ArduPilot on physics at `host`; `instance` < 0: at none of its ports; `heading`: rad."""
    found = [program, "--model", f"JSON:{host}", *(["-I", str(instance)] if instance >= 0 else [])]
    if home is None:
        return found
    degrees = math.degrees(heading) % 360.0
    return [*found, "--home", f"{home.latitude:.7f},{home.longitude:.7f},{home.altitude:.2f},{degrees:.0f}"]


class ArduPilot:
    """A vehicle of the fleet that is moved by `JsonPhysics`, as far as its ArduPilot keeps up."""

    part = "autopilot"

    def __init__(
        self,
        name: str,
        row: int,
        fleet: VehicleFleet,
        vehicle: Airframe,
        home: Vector,
        at: Address,
        *,
        heading: float,
        level: float,
        patience: float,
        mavlink: bool,
        warn: Callable[[str], None],
    ) -> None:
        """`home`: m; `at`: where it finds the physics; `heading`: rad, and `level`: 0..1 of the charge, in the
        beginning; `patience`: s of wall time without a packet after which it counts as gone; `mavlink`: whether
        settings and battery are sent to its serial1, on the same machine as the one that calls.
        """  # fmt: skip
        self.name, self.row = name, row
        self._fleet, self._home, self._patience, self._warn = fleet, home, patience, warn
        land = None if fleet.terrain is None else fleet.terrain.seen_from(home)
        self._physics = JsonPhysics(vehicle, at, heading, _PEERS, level, land)
        self._physics.grant(fleet.now)
        self._side: SideChannel | None = None
        self._pilot: MavlinkPilot | None = None
        if mavlink and at.port >= PHYSICS_PORT:
            from cosim.autopilot.side import SideChannel

            self._side = SideChannel(Address("127.0.0.1", _SERIAL1 + at.port - PHYSICS_PORT))
        self._body: JsonBody | None = None
        self._restarts = 0

    def obey(self, ground: Ground, limit: float) -> None:
        """Fly what the vehicle's row orders; `limit`: s to be armed, and to take off."""
        from cosim.autopilot.mavlink_pilot import MavlinkPilot

        assert self._side is not None, "check has seen to it"
        self._pilot = MavlinkPilot(self._fleet, self.row, self._side, ground, limit)

    @property
    def confirmed(self) -> int:
        """How many parameters it has confirmed by PARAM_VALUE; 0 while any is waited for."""
        return self._side.confirmed if self._side is not None and self._side.settled else 0

    def orders(self) -> MavlinkPilot | None:
        """What carries out its orders."""
        return self._pilot

    def place(self) -> None:
        """Put its physics where the fleet has the vehicle, which the run may have stopped."""
        if self._body is not None:
            self._place(self._body)

    def seek(self, now: float | None = None) -> bool:
        """Whether its first packet has come, and if so, its clock begins at `now` s, or with the run."""
        if now is not None:
            self._physics.grant(now)
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
            self._side.announce(body.driven, body.now, time.monotonic())
            for name in self._side.refused:
                self._warn(f"the ArduPilot of '{self.name}' has not taken {name}: its own value holds")
            self._side.refused.clear()
        before = self._fleet.places()
        self._show(body)
        if self._fleet.contacts is not None and there and not anew:
            moved, shown = np.arange(len(before)) == self.row, self._fleet.state[self.row].tobytes()
            self._fleet.contacts.settle(self._fleet.state, self._fleet.frames, before, until, moved)
            if self._fleet.state[self.row].tobytes() != shown:
                self._place(body)
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

    def _continue(self, body: JsonBody, now: float) -> None:
        """An ArduPilot that was away goes on from `now` s, and from where its vehicle is."""
        body.offset = now - body.now
        self._place(body)

    def _place(self, body: JsonBody) -> None:
        row, state = self._fleet.state[self.row], body.driven.state
        for name in _SAME:
            state[name] = row[name]
        for axis, home in zip("xyz", self._home, strict=True):
            state[axis] = row[axis] - home

    def _show(self, body: JsonBody) -> None:
        row, state = self._fleet.state[self.row], body.driven.state
        if state["hits"] > row["hits"]:  # its time began when its ArduPilot came
            row["hit_at"] = body.offset + state["hit_at"]
        for name in _SAME:
            row[name] = state[name]
        for axis, home in zip("xyz", self._home, strict=True):
            row[axis] = state[axis] + home

    def _say(self, body: JsonBody, until: float, begins: bool | None) -> None:
        """Its mode, and whether it is armed; `begins`: it is there anew, True: at home, False: where it was."""
        reported = None if self._side is None else self._side.mode
        copter = self._fleet.frames["kind"][self.row] == COPTER
        mode = int(MANUAL) if reported is None else fleet_mode(_ARDUPILOT, reported, bool(copter))
        if self._pilot is None:
            row = self._fleet.state[self.row]
            row["mode"], row["armed"] = mode, body.armed
            return
        if begins is not None:
            self._pilot.restart(until, home=begins)
        self._pilot.show(until, mode, body.armed)
