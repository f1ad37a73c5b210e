"""What hangs on the autopilot besides motors: relays, a camera, the point that it looks at; and what is not there.

What is asked of equipment that is not emulated is refused, as ArduPilot refuses it that was built without; only to
switch off what is not there is granted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Place, Vector

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

RELAYS = 6


class Equipment:
    """Relays, camera and region of interest of one vehicle."""

    def __init__(self, autopilot: Autopilot) -> None:
        self._autopilot = autopilot
        self.relays = [False] * RELAYS
        self.pictures = 0
        self.safe = False  # whether the safety switch keeps the motors off
        self.every = 0.0  # m between two pictures, 0: none
        self.roi: Vector | None = None  # m, local
        self.roi_system = 0  # system id that is looked at, 0: none
        self._series = (math.inf, 1.0, 0.0)  # s of the next picture, s between two, how many are left
        self._last: Vector | None = None  # m, where the last picture was taken
        self._flips: list[tuple[float, int]] = []  # s, relay

    def set_relay(self, number: int, on: bool) -> bool:
        """Switch a relay; False if there is none of this number."""
        if not 0 <= number < RELAYS:
            return False
        self.relays[number] = on
        self._autopilot.send_now(mavlink.MAVLINK_MSG_ID_RELAY_STATUS)
        return True

    def flip_relay(self, number: int, count: int, period: float) -> bool:
        """Switch a relay `count` times to and fro, every `period` s."""
        if not 0 <= number < RELAYS:
            return False
        now = self._autopilot.pilot.fleet.now
        half = 0.5 * max(period, 0.1) if math.isfinite(period) else 0.5
        self._flips += [(now + half * k, number) for k in range(2 * min(max(count, 0), 1000))]
        return True

    def shoot(self) -> None:
        """Take a picture and report its place: CAMERA_FEEDBACK, which ArduPilot sends for each."""
        a = self._autopilot
        v = a.pilot.look()
        place = a.pilot.ground.place(v.x, v.y, v.z)
        self.pictures += 1
        self._last = (v.x, v.y, v.z)
        taken = mavlink.MAVLink_camera_feedback_message(
            round((a.epoch + a.now) * 1e6), 0, 0, self.pictures & 0xFFFF, round(place.latitude * 1e7),
            round(place.longitude * 1e7), place.altitude, v.z - a.pilot.home[2], math.degrees(v.roll),
            math.degrees(v.pitch), math.degrees(v.heading) % 360.0, 0.0, 0, self.pictures & 0xFFFF,
        )  # fmt: skip
        a.broadcast(taken)

    def shoot_every(self, period: float, count: float) -> None:
        """Take `count` pictures, `period` s apart, the first one now; 0 ends a series."""
        self._series = (self._autopilot.pilot.fleet.now, max(period, 0.1), count)

    def look_at(self, place: Place | None, system: int = 0) -> None:
        """Turn the nose to a place, as a copter without a gimbal does; None: no more."""
        pilot = self._autopilot.pilot
        self.roi = None if place is None else pilot.ground.local(place)
        self.roi_system = system
        if place is None and not system:
            pilot.fleet.face([pilot.row], math.nan)

    def saw(self, system: int, place: Place) -> None:
        """Take in the position that another system has reported."""
        if self.roi_system and system == self.roi_system:
            self.roi = self._autopilot.pilot.ground.local(place)

    def update(self) -> None:
        """Do what is due: pictures by distance, relays, the nose to the point that is looked at."""
        pilot = self._autopilot.pilot
        now, v = pilot.fleet.now, pilot.view
        while self._flips and self._flips[0][0] <= now:
            _, number = self._flips.pop(0)
            self.set_relay(number, not self.relays[number])
        at, period, left = self._series
        if left > 0 and now >= at - 1e-9:
            self.shoot()
            self._series = (max(at + period, now), period, left - 1)
        if not v.armed or v.landed:
            return
        if self.every > 0.0 and (self._last is None or math.dist(self._last, (v.x, v.y, v.z)) >= self.every):
            self.shoot()
        if self.roi is not None and math.hypot(self.roi[0] - v.x, self.roi[1] - v.y) > 1.0:
            pilot.fleet.face([pilot.row], math.atan2(self.roi[0] - v.x, self.roi[1] - v.y))
