"""Following another vehicle: ArduPilot by its GLOBAL_POSITION_INT, PX4 by FOLLOW_TARGET."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message
from cosim.autopilot.geodesy import Place, Vector

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

LOST = 3.0  # s without news after which the target counts as lost (AP_Follow)


class FollowTarget:
    """Whom a vehicle follows, and from where."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self._heard = -math.inf  # s
        self._whom = 0  # system id that was heard first

    def position(self, message: Message) -> None:
        """GLOBAL_POSITION_INT of another system. Offsets: parameters FOLL_* (AP_Follow)."""
        pilot, p, system = self._pilot, self._pilot.parameters, message.get_srcSystem()
        if pilot.behaviour != "follow" or pilot.persona.px4:
            return
        chosen = int(p["FOLL_SYSID"]) or self._whom
        if chosen not in (0, system):
            return
        self._whom = system
        relative = p["FOLL_ALT_TYPE"] == 1
        height = message.relative_alt / 1e3 + pilot.home_place().altitude if relative else message.alt / 1e3
        x, y, z = pilot.ground.local(Place(message.lat / 1e7, message.lon / 1e7, height))
        velocity = (message.vy / 100.0, message.vx / 100.0, -message.vz / 100.0)
        heading = math.radians(message.hdg / 100.0) if message.hdg != 65535 else math.atan2(velocity[0], velocity[1])
        v = pilot.look()
        far = p["FOLL_DIST_MAX"]
        if far > 0.0 and math.hypot(x - v.x, y - v.y) > far:
            return
        ahead, right = p["FOLL_OFS_X"], p["FOLL_OFS_Y"]
        turn = heading if p["FOLL_OFS_TYPE"] == 1 else 0.0
        x += ahead * math.sin(turn) + right * math.cos(turn)
        y += ahead * math.cos(turn) - right * math.sin(turn)
        face = {1: math.atan2(x - v.x, y - v.y), 2: heading}.get(int(p.get("FOLL_YAW_BEHAVE")), math.nan)
        self._go((x, y, z - p["FOLL_OFS_Z"]), velocity, face)

    def target(self, message: Message) -> None:
        """FOLLOW_TARGET. Distance, angle and height: parameters FLW_TGT_*."""
        pilot, p = self._pilot, self._pilot.parameters
        if pilot.behaviour != "follow" or not pilot.persona.px4:
            return
        x, y, _ = pilot.ground.local(Place(message.lat / 1e7, message.lon / 1e7, message.alt))
        velocity = (float(message.vel[1]), float(message.vel[0]), 0.0)
        v = pilot.look()
        moving = math.hypot(velocity[0], velocity[1]) > 0.3
        course = math.atan2(velocity[0], velocity[1]) if moving else math.atan2(x - v.x, y - v.y)
        angle = course + math.radians(p["FLW_TGT_FA"])
        x += p["FLW_TGT_DST"] * math.sin(angle)
        y += p["FLW_TGT_DST"] * math.cos(angle)
        self._go((x, y, pilot.home[2] + p["FLW_TGT_HT"]), velocity, math.nan)

    def _go(self, point: Vector, velocity: Vector, face: float) -> None:
        rows = [self._pilot.row]
        if self._pilot.fleet.go(rows, [point], [velocity], LOST)[0]:
            self._heard = self._pilot.fleet.now
            self._pilot.fleet.face(rows, face)

    def update(self) -> None:
        """Stop where it is when the target is lost."""
        if self._pilot.fleet.now - self._heard <= LOST:
            return
        if math.isfinite(self._heard) and self._pilot.behaviour == "follow":
            self._pilot.fleet.hold([self._pilot.row])
            self._pilot.say(4, "Follow: target lost")
        self._heard = -math.inf
