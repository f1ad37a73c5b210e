"""Sticks of a pilot that come by messages: RC_CHANNELS_OVERRIDE and MANUAL_CONTROL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message
from cosim.autopilot.personas import NO_STICKS, Behaviour
from cosim.physics.vehicles.airframe import GRAVITY

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

_CENTRE, _REACH, _DEAD = 1500, 500, 20  # us
_LEAN = {"STABILIZE", "ALT_HOLD", "ALTCTL", "STABILIZED"}  # modes in which sticks give an attitude
_MOVE = {"LOITER", "POSHOLD", "POSCTL"}  # in which they give a velocity
_DRIVE = {"MANUAL", "STEERING", "ACRO"}  # in which they drive a rover
_PUSH = 2.15  # m/s^2 of a full stick in LOITER: a real ArduCopter 4.6 went 9.7 m in 5 s at 1300 us


class Sticks:
    """The sticks of one vehicle, in us by channel; NaN: this one is not moved."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self.pulses = [math.nan] * 18
        self._heard = -math.inf  # s
        self._moving = False
        self._reported = ""  # mode in which sticks were reported to have no effect
        self._low = False
        self._last = pilot.fleet.now

    @property
    def held(self) -> bool:
        """Whether sticks were heard of lately (RC_OVERRIDE_TIME)."""
        return self._pilot.fleet.now - self._heard <= self._pilot.parameters.get("RC_OVERRIDE_TIME", 3.0)

    def override(self, message: Message) -> None:
        """Take the channels of a message; 0 releases one, 65535 leaves it as it is."""
        if message.get_type() == "MANUAL_CONTROL":
            for k, (value, low) in enumerate(
                ((message.y, -1000), (-message.x, -1000), (message.z, 0), (message.r, -1000))
            ):
                if value not in (32767, -32767):
                    self.pulses[k] = 1000.0 + 1000.0 * (max(min(value, 1000), low) - low) / (1000 - low)
        else:
            for k in range(18):
                pulse = getattr(message, f"chan{k + 1}_raw", 65535)
                if k >= 8 and pulse in (0, 65534):  # of the extension: 0 is nothing, 65534 releases
                    pulse = 0 if pulse else 65535
                if pulse != 65535:
                    self.pulses[k] = math.nan if pulse == 0 else float(pulse)
        self._heard = self._pilot.fleet.now

    def _stick(self, channel: int) -> float:
        """-1..1, 0 within the dead zone."""
        off = self.pulses[channel] - _CENTRE
        if math.isnan(off) or abs(off) <= _DEAD:
            return 0.0
        return max(min((off - math.copysign(_DEAD, off)) / (_REACH - _DEAD), 1.0), -1.0)

    def update(self) -> None:
        """Let the sticks act, as the mode has it."""
        pilot, now = self._pilot, self._pilot.fleet.now
        span, self._last = now - self._last, now
        if not self.held:
            self.pulses = [math.nan] * 18
            if self._moving:
                self._stop()
            return
        self._watch_throttle()
        roll, pitch, throttle, yaw = (self._stick(k) for k in range(4))
        if not (roll or pitch or throttle or yaw):
            if self._moving:
                self._stop()
            return
        v, mode = pilot.view, pilot.mode
        copter = pilot.persona.frame == "copter"
        if not v.armed or (copter and v.landed):
            return
        if not copter:
            if mode in _DRIVE:
                self._drive(roll, throttle)
            else:
                self._useless(mode)
            return
        if mode not in _LEAN | _MOVE:
            self._useless(mode)
            return
        p = pilot.parameters
        up = p.get("PILOT_SPEED_UP", 250.0) / 100.0
        down = p.get("PILOT_SPEED_DN") / 100.0 or up
        climb = throttle * (up if throttle > 0.0 else down)
        if mode in _LEAN:
            most = math.radians(p.get("ANGLE_MAX", 3000.0) / 100.0)
            pilot.fleet.lean([pilot.row], roll * most, pitch * most, climb, 1.0)
        else:
            self._move(roll, pitch, climb, span)
        pilot.fleet.turn([pilot.row], yaw * math.radians(p.get("PILOT_Y_RATE", 90.0)))
        self._moving = True

    def _move(self, roll: float, pitch: float, climb: float, span: float) -> None:
        """A velocity over ground that grows while the stick is held."""
        pilot, v = self._pilot, self._pilot.view
        sine, cosine = math.sin(v.heading), math.cos(v.heading)
        most, speeds = pilot.parameters.get("LOIT_SPEED", 1250.0) / 100.0, []
        for stick, speed in ((-pitch, v.vx * sine + v.vy * cosine), (roll, v.vx * cosine - v.vy * sine)):
            brake = 0.5 * GRAVITY * span * 0.5
            new = speed + stick * _PUSH * span * 4.0 if stick else math.copysign(max(abs(speed) - brake, 0.0), speed)
            speeds.append(max(min(new, most), -most))
        ahead, right = speeds
        wanted = (ahead * sine + right * cosine, ahead * cosine - right * sine, climb)
        pilot.fleet.steer([pilot.row], [pilot.fence.slow(pilot, wanted)], 1.0)

    def _drive(self, steer: float, throttle: float) -> None:
        pilot, v = self._pilot, self._pilot.view
        course = v.heading + steer * math.radians(60.0)
        speed = max(throttle, 0.0) * float(pilot.fleet.frames["speed"][pilot.row])
        pilot.fleet.steer([pilot.row], [(speed * math.sin(course), speed * math.cos(course), 0.0)], 1.0)
        if throttle < 0.0:
            self._useless("reverse")
        self._moving = True

    def _stop(self) -> None:
        self._moving = False
        pilot = self._pilot
        if pilot.view.armed and pilot.mode in _LEAN | _MOVE | _DRIVE:
            pilot.fleet.hold([pilot.row])

    def _useless(self, mode: str) -> None:
        if self._reported != mode:
            self._reported = mode
            self._pilot.say(4, f"Sticks have no effect in {mode}"[:50])

    def _watch_throttle(self) -> None:
        """Radio fail-safe: a throttle below FS_THR_VALUE."""
        pilot, p = self._pilot, self._pilot.parameters
        low = self.pulses[2] < p.get("FS_THR_VALUE", 0.0) and p.get("FS_THR_ENABLE") > 0.0
        if low and not self._low and pilot.view.armed:
            pilot.say(4, "Radio Failsafe")
            if pilot.behaviour not in ("return", "land"):
                what: Behaviour = "land" if p.get("FS_THR_ENABLE") == 3 else "return"
                pilot.set_mode(pilot.persona.doing(what), NO_STICKS)
        elif self._low and not low:
            pilot.say(4, "Radio Failsafe Cleared")
        self._low = low
