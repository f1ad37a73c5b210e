"""Targets from outside: positions and velocities in all the frames that clients use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message
from cosim.autopilot.geodesy import Place

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

Vector = tuple[float, float, float]
_NO_POSITION, _NO_VELOCITY, _NO_YAW = 0x7, 0x38, 0x400  # bits of type_mask
_ABSOLUTE = {0, 5}  # MAV_FRAME: heights above the sea; 3, 6 above home, 10, 11 above ground, which is flat here
_BODY = {8, 9, 12}  # BODY_NED, BODY_OFFSET_NED, BODY_FRD: x is forward
_OFFSET = {7, 8, 9, 12}  # positions count from the vehicle


def _accepts(pilot: Pilot) -> bool:
    """PX4 takes targets in OFFBOARD only; what comes before allows to change into it."""
    return not pilot.persona.px4 or pilot.mode == "OFFBOARD"


def _order(pilot: Pilot, mask: int, point: Vector, velocity: Vector, yaw: float | None) -> str | None:
    pilot.setpoint()
    if not _accepts(pilot):
        return "not in OFFBOARD"
    if not mask & _NO_POSITION:
        moving = velocity if not mask & _NO_VELOCITY else None
        return pilot.go(point, moving, yaw)
    if not mask & _NO_VELOCITY:
        return pilot.steer(velocity, yaw)
    return "neither a position nor a velocity"


def target_global(pilot: Pilot, message: Message) -> str | None:
    """SET_POSITION_TARGET_GLOBAL_INT. None, or why it was not obeyed."""
    mask = message.type_mask
    above = 0.0 if message.coordinate_frame in _ABSOLUTE else pilot.home_place().altitude
    point = pilot.ground.local(Place(message.lat_int / 1e7, message.lon_int / 1e7, message.alt + above))
    yaw = None if mask & _NO_YAW or not math.isfinite(message.yaw) else message.yaw
    return _order(pilot, mask, point, (message.vy, message.vx, -message.vz), yaw)


def target_local(pilot: Pilot, message: Message, start: Vector) -> str | None:
    """SET_POSITION_TARGET_LOCAL_NED; `start` is the local origin, where the autopilot was switched on."""
    mask, frame, v = message.type_mask, message.coordinate_frame, pilot.look()
    north, east, up = message.x, message.y, -message.z
    fast_north, fast_east = message.vx, message.vy
    yaw = None if mask & _NO_YAW or not math.isfinite(message.yaw) else message.yaw
    if frame in _BODY:
        cosine, sine = math.cos(v.heading), math.sin(v.heading)
        north, east = north * cosine - east * sine, north * sine + east * cosine
        fast_north, fast_east = (
            fast_north * cosine - fast_east * sine,
            fast_north * sine + fast_east * cosine,
        )
        yaw = None if yaw is None else v.heading + yaw
    base = (v.x, v.y, v.z) if frame in _OFFSET else start
    point = (base[0] + east, base[1] + north, base[2] + up)
    return _order(pilot, mask, point, (fast_east, fast_north, -message.vz), yaw)
