"""Targets from outside: positions, velocities, accelerations, attitudes and turns, in all the frames that clients use.

There is no acknowledgement for them. What cannot be done is refused with a text, at most once a second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message, mavlink
from cosim.autopilot.flight import TERRAIN
from cosim.autopilot.geodesy import Place, Vector

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

_NO_POSITION, _NO_VELOCITY, _NO_ACCELERATION = 0x7, 0x38, 0x1C0  # bits of type_mask
_FORCE, _NO_YAW, _NO_TURN = 0x200, 0x400, 0x800
_UNIT = 1e-3  # by which the square of a quaternion's size may be off
_REASONS = 64  # that are remembered
_NO_RATES, _NO_THRUST, _NO_ATTITUDE = 0x7, 0x40, 0x80  # of SET_ATTITUDE_TARGET
_ABSOLUTE = {mavlink.MAV_FRAME_GLOBAL, mavlink.MAV_FRAME_GLOBAL_INT}  # heights above the sea
# Heights above home, or above ground, which is the same where it is flat.
_RELATIVE = {mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT, mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT, *TERRAIN}
_BODY = {mavlink.MAV_FRAME_BODY_NED, mavlink.MAV_FRAME_BODY_OFFSET_NED}  # x is forward
_OFFSET = {mavlink.MAV_FRAME_LOCAL_OFFSET_NED} | _BODY  # positions count from the vehicle
# Frames of local targets by whether it is PX4, which takes no position in frames of the body.
_LOCAL = {
    False: {mavlink.MAV_FRAME_LOCAL_NED, *_OFFSET},
    True: {mavlink.MAV_FRAME_LOCAL_NED, mavlink.MAV_FRAME_BODY_NED},
}


class Setpoints:
    """What clients want of one vehicle. `start` (m, local) is where the autopilot was switched on."""

    def __init__(self, pilot: Pilot, start: Vector) -> None:
        self._pilot, self._start = pilot, start
        self._refused: dict[str, float] = {}  # s, when each reason was reported
        self._lean = (0.0, 0.0)  # rad, roll and pitch that rates have led to
        self._leant = -math.inf  # s

    def take(self, message: Message) -> None:
        """Carry out a SET_POSITION_TARGET or SET_ATTITUDE_TARGET, or report why not."""
        kind = message.get_type()
        if kind == "SET_ATTITUDE_TARGET":
            reason = self._attitude(message)
        elif kind == "SET_POSITION_TARGET_GLOBAL_INT":
            reason = self._global(message)
        else:
            reason = self._local(message)
        if reason:
            self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """Report that something was not done, the same reason at most once a second."""
        now = self._pilot.fleet.now
        if now - self._refused.get(reason, -math.inf) < 1.0:
            return
        if len(self._refused) >= _REASONS:
            self._refused.clear()
        self._refused[reason] = now
        self._pilot.say(4, f"Refused: {reason}"[:50])

    def _invalid(self, reason: str) -> str:
        """Return `reason`, and stop an ArduCopter: it stops at an invalid target."""
        pilot = self._pilot
        if not pilot.persona.px4 and pilot.persona.frame == "copter" and pilot.behaviour == "guided":
            pilot.stop()
        return reason

    def _global(self, message: Message) -> str | None:
        pilot, frame = self._pilot, message.coordinate_frame
        if frame not in _ABSOLUTE | _RELATIVE:
            return self._invalid(f"frame {frame} of a global target")
        if frame in TERRAIN and pilot.fleet.terrain is not None:
            return f"frame {frame}: terrain is not followed"
        above = 0.0 if frame in _ABSOLUTE else pilot.home_place().altitude
        if not message.type_mask & _NO_POSITION and not math.isfinite(message.alt):
            return "not a position"
        place = Place(message.lat_int / 1e7, message.lon_int / 1e7, message.alt + above)
        if abs(place.latitude) > 90.0 or abs(place.longitude) > 180.0:
            return "not on Earth"
        point = pilot.ground.local(place) if not message.type_mask & _NO_POSITION else (0.0, 0.0, 0.0)
        return self._order(message, point, 0.0)

    def _local(self, message: Message) -> str | None:
        frame, v = message.coordinate_frame, self._pilot.look()
        if frame not in _LOCAL[self._pilot.persona.px4]:
            return self._invalid(f"frame {frame} of a local target")
        turn = v.heading if frame in _BODY else 0.0
        north, east = _turned(message.x, message.y, turn)
        base = (v.x, v.y, v.z) if frame in _OFFSET else self._start
        return self._order(message, (base[0] + east, base[1] + north, base[2] - message.z), turn)

    def _order(self, message: Message, point: Vector, turn: float) -> str | None:
        pilot, mask = self._pilot, message.type_mask
        if pilot.persona.px4 and message.coordinate_frame in _BODY:
            mask |= _NO_POSITION
        given = [part for part in (_NO_POSITION, _NO_VELOCITY, _NO_ACCELERATION) if not mask & part]
        said = _NO_POSITION | _NO_VELOCITY | _NO_ACCELERATION
        if pilot.persona.px4 and mask & said == said:
            return "neither position, velocity nor acceleration"
        pilot.setpoint()
        if pilot.persona.px4 and pilot.mode != "OFFBOARD":
            return "not in OFFBOARD"
        if mask & _FORCE and _NO_ACCELERATION in given:
            return self._invalid("forces are not emulated")
        if not pilot.persona.px4 and given == [_NO_POSITION, _NO_ACCELERATION]:
            return self._invalid("position and acceleration without velocity")
        if pilot.persona.frame == "rover" and not pilot.persona.px4 and _NO_ACCELERATION in given:
            return "an acceleration; set ACC_IGNORE"
        north, east = _turned(message.vx, message.vy, turn)
        velocity = (east, north, -message.vz)
        north, east = _turned(message.afx, message.afy, turn)
        acceleration = (east, north, -message.afz)
        yaw = None if mask & _NO_YAW or not math.isfinite(message.yaw) else message.yaw + turn
        rate = None if mask & _NO_TURN or not math.isfinite(message.yaw_rate) else message.yaw_rate
        if mask & _NO_POSITION not in (0, _NO_POSITION) or mask & _NO_VELOCITY not in (0, _NO_VELOCITY):
            return self._mixed(mask, point, velocity, yaw, rate)
        if not mask & _NO_POSITION:
            reason = pilot.go(point, velocity if not mask & _NO_VELOCITY else None, yaw)
        elif not mask & _NO_VELOCITY:
            reason = pilot.steer(velocity, yaw)
        elif not mask & _NO_ACCELERATION:
            reason = pilot.accelerate(acceleration, yaw)
        else:
            return self._invalid("neither position, velocity nor acceleration")
        if reason is None and rate is not None and yaw is None:
            pilot.turn(rate)
        return reason

    def _mixed(self, mask: int, point: Vector, velocity: Vector, yaw: float | None, rate: float | None) -> str | None:
        """A velocity on some axes and a position on the others: PX4 only, and flown to a height only."""
        if not self._pilot.persona.px4 or mask & 0x3F != 0x23:
            return self._invalid("axes are given differently")
        v = self._pilot.look()
        up = max(min(point[2] - v.z, 2.0), -1.5)
        return self._pilot.steer((velocity[0], velocity[1], up), yaw)

    def _attitude(self, message: Message) -> str | None:
        """Attitude, or rates of it that are added up; thrust 0.5 keeps the height, 0 and 1 sink and climb fastest."""
        pilot, mask = self._pilot, message.type_mask
        pilot.setpoint()
        if pilot.persona.px4 and pilot.mode != "OFFBOARD":
            return "not in OFFBOARD"
        if mask & _NO_THRUST or not 0.0 <= message.thrust <= 1.0:
            return self._invalid("an attitude without thrust")
        if not pilot.persona.px4 and pilot.persona.frame == "copter" and mask & _NO_RATES not in (0, _NO_RATES):
            return self._invalid("some rates of a body without the others")
        w, x, y, z = message.q
        now = pilot.fleet.now
        span = min(max(now - self._leant, 0.0), 0.5)
        self._leant = now
        yaw = None
        if not mask & _NO_ATTITUDE:
            size = w * w + x * x + y * y + z * z
            if not abs(size - 1.0) <= _UNIT:
                return self._invalid("not a quaternion")
            roll = math.atan2(2.0 * (w * x + y * z), size - 2.0 * (x * x + y * y))
            pitch = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x) / size)))
            yaw = math.atan2(2.0 * (w * z + x * y), size - 2.0 * (y * y + z * z))
        elif mask & _NO_RATES != _NO_RATES:
            rates = (message.body_roll_rate * (not mask & 1), message.body_pitch_rate * (not mask & 2))
            if not all(math.isfinite(rate) for rate in rates):
                return "not a rate"
            roll, pitch = (angle + (span or 0.05) * rate for angle, rate in zip(self._lean, rates, strict=True))
        else:
            return self._invalid("neither attitude nor rates")
        most = float(pilot.fleet.frames["tilt"][pilot.row])
        self._lean = max(-most, min(most, roll)), max(-most, min(most, pitch))
        lift = 2.0 * (message.thrust - 0.5)
        frame = pilot.fleet.frames[pilot.row]
        climb = lift * float(frame["climb"] if lift > 0.0 else frame["descent"])
        rate = message.body_yaw_rate if not mask & 4 and math.isfinite(message.body_yaw_rate) else None
        return pilot.lean(*self._lean, climb, yaw if rate is None or not rate else None, rate)


def _turned(ahead: float, right: float, heading: float) -> tuple[float, float]:
    """North and east of what is ahead and to the right."""
    cosine, sine = math.cos(heading), math.sin(heading)
    return ahead * cosine - right * sine, ahead * sine + right * cosine
