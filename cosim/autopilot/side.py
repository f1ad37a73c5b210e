"""What a real ArduPilot on our physics is told besides, by MAVLink: battery, limits.

Its JSON interface has no field for the battery. In software in the loop the voltage is a parameter, and the current is
what the analog monitor makes of a pin at 0 V: (0 - BATT_AMP_OFFSET) BATT_AMP_PERVLT. So the pack of the vehicle is
shown by PARAM_SET, and its fail-safes act on it as on a real one.
"""

from __future__ import annotations

import math
import socket

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.table import Address
from cosim.vehicles.driven import Driven
from cosim.vehicles.layout import COPTER, LAND, RETURN

SERIAL1 = 5762  # TCP of instance 0, where ArduPilot listens without waiting for anybody; instance N has 10 N more
_EVERY = 0.5  # s of simulated time between two looks at the battery
_AGAIN = 1.0  # s of wall time between two tries to connect
_PER_VOLT = 17.0  # A/V, BATT_AMP_PERVLT
_RESET = mavlink.MAV_CMD_BATTERY_RESET


def settings(driven: Driven) -> dict[str, float]:
    """Parameters that are told once: the pack, its thresholds, the vehicle's limits."""
    a = driven.frame
    capacity = float(a["capacity"]) / 3.6
    told = {
        "BATT_AMP_PERVLT": _PER_VOLT,
        "BATT_CAPACITY": capacity,
        "BATT_LOW_MAH": float(a["low"]) * capacity,
        "BATT_CRT_MAH": float(a["critical"]) * capacity,
        "BATT_FS_LOW_ACT": {int(LAND): 1.0, int(RETURN): 2.0}.get(int(a["low_action"]), 0.0),
        "BATT_FS_CRT_ACT": 1.0 if a["critical"] > 0.0 else 0.0,
    }
    if a["kind"] != COPTER:
        return {**told, "CRUISE_SPEED": float(a["speed"])}
    return {
        **told,
        "WPNAV_SPEED": 100.0 * float(a["speed"]),
        "WPNAV_SPEED_UP": 100.0 * float(a["climb"]),
        "WPNAV_SPEED_DN": 100.0 * float(a["descent"]),
        "WPNAV_ACCEL": 100.0 * float(a["accel"]),
        "ANGLE_MAX": 100.0 * math.degrees(float(a["tilt"])),
    }


def readings(driven: Driven) -> dict[str, float]:
    """Parameters that make ArduPilot's battery show the voltage and current of ours."""
    s = driven.state
    return {"SIM_BATT_VOLTAGE": float(s["voltage"]), "BATT_AMP_OFFSET": -float(s["current"]) / _PER_VOLT}


class SideChannel:
    """A connection to one ArduPilot; it comes and goes without disturbing the flight."""

    def __init__(self, at: Address, system: int = 255) -> None:
        self._at = at
        self._encoder = mavlink.MAVLink(None, srcSystem=system, srcComponent=mavlink.MAV_COMP_ID_ONBOARD_COMPUTER)
        self._socket: socket.socket | None = None
        self._tried = self._told = -math.inf
        self.sent = 0  # parameters

    @property
    def connected(self) -> bool:
        """Whether ArduPilot listens."""
        return self._socket is not None

    def tell(self, driven: Driven, now: float, wall: float) -> None:
        """Show the battery as it is at `now` s of simulated time, `wall` s of any steady clock."""
        if self._socket is None and not self._connect(driven, wall):
            return
        if now - self._told >= _EVERY or now < self._told:
            self._told = now
            self._set(readings(driven))
        self._drain()

    def _connect(self, driven: Driven, wall: float) -> bool:
        if wall - self._tried < _AGAIN:
            return False
        self._tried = wall
        try:
            self._socket = socket.create_connection(self._at, timeout=0.05)
        except OSError:
            return False
        self._socket.setblocking(False)
        self._told = -math.inf
        left = 100.0 * float(driven.state["charge"]) / float(driven.frame["capacity"])
        self._set(settings(driven))
        self._send(mavlink.MAVLink_command_long_message(0, 0, _RESET, 0, 1, left, 0, 0, 0, 0, 0))
        return self._socket is not None

    def _set(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._send(mavlink.MAVLink_param_set_message(0, 0, name.encode(), value, mavlink.MAV_PARAM_TYPE_REAL32))
            self.sent += 1

    def _send(self, message: object) -> None:
        if self._socket is None:
            return
        data = message.pack(self._encoder)  # type: ignore[attr-defined]  # pymavlink's classes have no common type
        self._encoder.seq = (self._encoder.seq + 1) % 256
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()

    def _drain(self) -> None:
        """Read what ArduPilot says, so that its buffer does not fill up."""
        try:
            while self._socket is not None and (data := self._socket.recv(65536)) is not None:
                if not data:
                    self.close()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
