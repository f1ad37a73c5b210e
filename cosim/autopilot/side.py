"""The MAVLink channel to a real ArduPilot on our physics: battery, limits, and the orders for its vehicle.

The JSON interface of many versions has no field for the battery. In software in the loop the voltage is a parameter,
and the current is what the analog monitor makes of a pin at 0 V: (0 - BATT_AMP_OFFSET) BATT_AMP_PERVLT. So PARAM_SET
shows the vehicle's pack, and its fail-safes act on it as on a real one. A version that also reads the current of our
lines shows twice as much: then the offset is removed, and its count is corrected. We read its mode, whether it is
armed, and its answers; it hears us as its ground station (SYSID_MYGCS), once a simulated second.
"""

from __future__ import annotations

import math
import socket

from cosim.autopilot.dialect import FrameWriter, Message, mavlink
from cosim.autopilot.geodesy import Place, Vector
from cosim.autopilot.table import Address
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.layout import COPTER, LAND, RETURN

_EVERY = 0.5  # s of simulated time between two looks at the battery
_AGAIN = 0.2  # s of wall time between two tries to connect
_PER_VOLT = 17.0  # A/V, BATT_AMP_PERVLT
_TWICE, _SURE, _LEAST = 1.6, 3, 2.0  # of our current that is shown, how often in a row, and from how many A on
_BEAT = 1.0  # s of simulated time between two of our heartbeats; FS_GCS_TIMEOUT is 5 s
# Time in us between two messages of a kind.
_WANTED = {
    mavlink.MAVLINK_MSG_ID_SYS_STATUS: 500_000,
    mavlink.MAVLINK_MSG_ID_HEARTBEAT: 200_000,
    mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: 500_000,
}
_RESET = mavlink.MAV_CMD_BATTERY_RESET
_FRAME = mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT
# type_mask of SET_POSITION_TARGET_GLOBAL_INT: position; position and velocity; velocity.
_POSITION, _MOVING, _VELOCITY = 0x0DF8, 0x0DC0, 0x0DC7
_CONFIRM, _TRIES = 1.0, 4  # s of simulated time to answer to a parameter, and how often it is set
# Names since ArduCopter 4.7, whose units are m, m/s, m/s^2 and deg instead of a hundredth (ArduPilot's pull
# request 32147). A name that is not known is not answered.
_RENAMED = {
    "WPNAV_SPEED": "WP_SPD", "WPNAV_SPEED_UP": "WP_SPD_UP", "WPNAV_SPEED_DN": "WP_SPD_DN", "WPNAV_ACCEL": "WP_ACC",
    "WPNAV_ACCEL_Z": "WP_ACC_Z", "LAND_SPEED": "LAND_SPD_MS", "RTL_ALT": "RTL_ALT_M", "ANGLE_MAX": "ATC_ANGLE_MAX",
}  # fmt: skip
_FORMER = {new: old for old, new in _RENAMED.items()}
_WARNING = 4  # MAV_SEVERITY, and what is worse
_ACCEPTED = mavlink.MAV_RESULT_ACCEPTED


def settings(driven: Driven) -> dict[str, float]:
    """Parameters that are sent until they are confirmed: the pack, its thresholds, the vehicle's limits."""
    a = driven.frame
    capacity = float(a["capacity"]) / 3.6
    common = {
        "BATT_AMP_PERVLT": _PER_VOLT,
        "BATT_CAPACITY": capacity,
        "BATT_LOW_MAH": float(a["low"]) * capacity,
        "BATT_CRT_MAH": float(a["critical"]) * capacity,
        "BATT_FS_LOW_ACT": {int(LAND): 1.0, int(RETURN): 2.0}.get(int(a["low_action"]), 0.0),
        "BATT_FS_CRT_ACT": 1.0 if a["critical"] > 0.0 else 0.0,
    }
    if a["kind"] != COPTER:
        # so that it stands within our radius of the place to which it is sent
        return {**common, "CRUISE_SPEED": float(a["speed"]), "WP_RADIUS": 0.5 * float(a["radius"])}
    return {
        **common,
        "WPNAV_SPEED": 100.0 * float(a["speed"]),
        "WPNAV_SPEED_UP": 100.0 * float(a["climb"]),
        "WPNAV_SPEED_DN": 100.0 * float(a["descent"]),
        "WPNAV_ACCEL": 100.0 * float(a["accel"]),
        "WPNAV_ACCEL_Z": 100.0 * float(a["climb_accel"]),
        "LAND_SPEED": 100.0 * float(a["land_speed"]),
        "RTL_ALT": 100.0 * float(a["return_height"]),
        "ANGLE_MAX": 100.0 * math.degrees(float(a["tilt"])),
    }


def readings(driven: Driven, hears: bool = False) -> dict[str, float]:
    """Parameters that make ArduPilot's battery show the voltage and current of ours; `hears`: it reads them itself."""
    s = driven.state
    offset = 0.0 if hears else -float(s["current"]) / _PER_VOLT
    return {"SIM_BATT_VOLTAGE": float(s["voltage"]), "BATT_AMP_OFFSET": offset}


class SideChannel:
    """A connection to one ArduPilot; it comes and goes without disturbing the flight."""

    def __init__(self, at: Address, system: int = 255) -> None:
        self._at = at
        self._encoder = FrameWriter(system, mavlink.MAV_COMP_ID_ONBOARD_COMPUTER)
        self._socket: socket.socket | None = None
        self._tried = self._reported = self._beat = -math.inf
        self.sent = 0  # parameters
        self.system = 0  # its MAVLink system id
        self.mode: int | None = None  # custom_mode of its last heartbeat
        self.armed: bool | None = None  # by that, too
        self.place: Place | None = None  # where it thinks that it is
        self.accepted: dict[int, bool] = {}  # what it answered to commands that were sent last
        self._ordered: dict[int, tuple[float, ...]] = {}  # parameters of commands that are not answered
        self.said = ""  # why it was last not armed, or not put into a mode
        self.recharged = False  # set it: the battery was changed, so that its count is wrong
        self.hears = False  # whether it reads the battery of our lines itself
        self._decoder = mavlink.MAVLink(None)
        self._decoder.robust_parsing = True
        self._waiting: dict[str, float] = {}  # settings that it has not confirmed
        self._round, self._asked = 0, -math.inf  # how often they were sent, and when (s)
        self.refused: list[str] = []  # settings that it does not take
        self.confirmed = 0  # settings that it has
        self._currents = (0.0, 0.0)  # A, sent last and before
        self._doubled = 0  # times in a row that it showed twice as much

    @property
    def connected(self) -> bool:
        """Whether ArduPilot listens."""
        return self._socket is not None

    @property
    def settled(self) -> bool:
        """Whether each setting is confirmed, or given up."""
        return self._socket is not None and not self._waiting

    def announce(self, driven: Driven, now: float, wall: float) -> None:
        """Show the battery as it is at `now` s of simulated time, `wall` s of any steady clock."""
        if self._socket is None and not self._connect(driven, now, wall):
            return
        if self.recharged:
            self.recharged = False
            self._count_anew(driven)
        if self._waiting and not 0.0 <= now - self._asked < _CONFIRM:
            self._settle(now)
        if now - self._reported >= _EVERY or now < self._reported:
            self._reported = now
            self._currents = (float(driven.state["current"]), self._currents[0])
            self._set(readings(driven, self.hears))
        if now - self._beat >= _BEAT or now < self._beat:
            self._beat = now
            station, none = mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID
            self._send(mavlink.MAVLink_heartbeat_message(station, none, 0, 0, mavlink.MAV_STATE_ACTIVE, 3))
            if self.place is None:  # it may have started only now
                self._subscribe()
        self._listen(driven)

    def command(self, number: int, *params: float) -> None:
        """Send a command; `accepted` has the answer when it has come."""
        self.accepted.pop(number, None)
        self._ordered[number] = params
        p = [*params, *[0.0] * (7 - len(params))]
        self._send(mavlink.MAVLink_command_long_message(self.system, 1, number, 0, *p))

    def target(self, now: float, place: Place, velocity: Vector | None = None) -> None:
        """Where to go in GUIDED: `place`, its altitude above home; it moves on at `velocity` (m/s east, north, up)."""
        self._aim(now, _POSITION if velocity is None else _MOVING, place, velocity or (0.0, 0.0, 0.0))

    def steer(self, now: float, velocity: Vector) -> None:
        """Which velocity (m/s east, north, up) to keep in GUIDED, for GUID_TIMEOUT."""
        self._aim(now, _VELOCITY, Place(0.0, 0.0, 0.0), velocity)

    def _aim(self, now: float, mask: int, place: Place, velocity: Vector) -> None:
        where = (round(1e7 * place.latitude), round(1e7 * place.longitude), place.altitude)
        speeds = (velocity[1], velocity[0], -velocity[2])
        self._send(
            mavlink.MAVLink_set_position_target_global_int_message(
                round(1e3 * now) & 0xFFFFFFFF, self.system, 1, _FRAME, mask, *where, *speeds, *[0.0] * 5
            )
        )

    def _connect(self, driven: Driven, now: float, wall: float) -> bool:
        if wall - self._tried < _AGAIN:
            return False
        self._tried = wall
        try:
            self._socket = socket.create_connection(self._at, timeout=0.05)
        except OSError:
            return False
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # simulated time does not wait
        self._reported = self._beat = -math.inf
        self.hears, self._doubled = False, 0  # it may be another version
        self._waiting, self._round, self.confirmed = settings(driven), 0, 0
        self._settle(now)  # before the charge, which is a part of the capacity
        self._count_anew(driven)
        self._subscribe()
        return self._socket is not None

    def _subscribe(self) -> None:
        order = mavlink.MAV_CMD_SET_MESSAGE_INTERVAL
        for wanted in _WANTED.items():
            self._send(mavlink.MAVLink_command_long_message(0, 0, order, 0, *wanted, 0, 0, 0, 0, 0))

    def _count_anew(self, driven: Driven) -> None:
        """Set the charge that it counts to ours."""
        left = 100.0 * float(driven.state["charge"]) / float(driven.frame["capacity"])
        self._send(mavlink.MAVLink_command_long_message(0, 0, _RESET, 0, 1, left, 0, 0, 0, 0, 0))

    def _set(self, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._send(mavlink.MAVLink_param_set_message(0, 0, name.encode(), value, mavlink.MAV_PARAM_TYPE_REAL32))
            self.sent += 1

    def _settle(self, now: float) -> None:
        """Set what is not confirmed again, by its old name and its new one in turn; give it up in the end."""
        self._asked = now
        if self._round == _TRIES:
            self.refused += [f"{name} ({_RENAMED[name]})" if name in _RENAMED else name for name in self._waiting]
            self._waiting = {}
        elif self._round % 2:
            self._set({new: self._waiting[old] / 100.0 for old, new in _RENAMED.items() if old in self._waiting})
        else:
            self._set(self._waiting)
        self._round += 1

    def _confirm(self, message: Message) -> None:
        """A PARAM_VALUE: whether it has the value that was set, but for what integers cut off."""
        name, whole = str(message.param_id), message.param_type != mavlink.MAV_PARAM_TYPE_REAL32
        old = _FORMER.get(name, name)
        wanted = self._waiting.get(old, math.nan) / (1.0 if old == name else 100.0)
        if abs(message.param_value - wanted) < (1.0 if whole else 1e-3 * abs(wanted) + 1e-6):
            del self._waiting[old]
            self.confirmed += 1
            self.recharged |= old == "BATT_CAPACITY" and self._round > 1  # the charge is a part of it

    def _send(self, message: object) -> None:
        data = self._encoder.frame(message)
        if self._socket is None or not data:
            return
        try:
            self._socket.sendall(data)
        except OSError:
            self.close()

    def _listen(self, driven: Driven) -> None:
        """Read what ArduPilot sends: its mode, and the current that it shows."""
        try:
            while self._socket is not None and (data := self._socket.recv(65536)) is not None:
                if not data:
                    self.close()
                for message in self._decoder.parse_buffer(data) or ():
                    self._take(message, driven)
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _take(self, message: Message, driven: Driven) -> None:
        kind = message.get_type()
        if kind == "HEARTBEAT" and message.autopilot == mavlink.MAV_AUTOPILOT_ARDUPILOTMEGA:
            self.system, self.mode = message.get_srcSystem(), int(message.custom_mode)
            self.armed = bool(message.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)
        elif kind == "SYS_STATUS" and not self.hears:
            self._compare(driven, message.current_battery / 100.0)
        elif kind == "PARAM_VALUE":
            self._confirm(message)
        elif kind == "COMMAND_ACK":
            self._answered(int(message.command), message.result == _ACCEPTED)
        elif kind == "GLOBAL_POSITION_INT" and (message.lat or message.lon):
            self.place = Place(message.lat / 1e7, message.lon / 1e7, message.alt / 1e3)
        elif kind == "STATUSTEXT" and message.severity <= _WARNING:
            text = str(message.text).rstrip("\0")
            self.said = text if "Arm: " in text or "Mode change" in text else self.said

    def _answered(self, number: int, accepted: bool) -> None:
        """An answer; what it changes need not wait for a heartbeat."""
        self.accepted[number] = accepted
        params = self._ordered.pop(number, ())
        if accepted and params and number == mavlink.MAV_CMD_DO_SET_MODE:
            self.mode = int(params[1])
        elif accepted and params and number == mavlink.MAV_CMD_COMPONENT_ARM_DISARM:
            self.armed = bool(params[0])

    def _compare(self, driven: Driven, shown: float) -> None:
        """Whether the current (A) that it shows is that of our lines and of the parameter together."""
        most = max(self._currents)
        self._doubled = self._doubled + 1 if most > _LEAST and shown > _TWICE * most else 0
        if self._doubled >= _SURE:
            self.hears = True
            self._set(readings(driven, hears=True))
            self._count_anew(driven)

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = self.mode = self.armed = self.place = None
