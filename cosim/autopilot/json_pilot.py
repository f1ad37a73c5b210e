"""Our autopilot on the physics of another program: the autopilot's side of ArduPilot's JSON interface.

Programs that fly under ArduPilot's `--model JSON` (Gazebo Sim with ArduPilot's plugin, and others) listen at a UDP
port, move the vehicle by the motor outputs that come, and answer with its state. Here our pilot and attitude
controller make these outputs. A packet is little endian: uint16 magic 18458, uint16 rate in Hz, uint32 number, 16
pulses in us as uint16. The answer is a line of JSON: `timestamp` (s), `imu.gyro` (rad/s), `imu.accel_body` (m/s^2),
`position` (m), `velocity` (m/s), and `quaternion` or `attitude` (roll, pitch, yaw in rad); north, east, down, and
forward, right, down. The clock is the other program's: time advances by its time stamps.

The other program does not report the strength of its motors or its wind. Both follow from the accelerometer: the
strength from the ratio of thrust to the ordered thrust, the wind from the acceleration across the thrust.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from typing import Any, NamedTuple

from cosim.autopilot.geodesy import Vector
from cosim.autopilot.table import Address
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import ELSEWHERE, EMPTY, RIGID

_PACKET = struct.Struct("<HHI16H")
_MAGIC = 18458
_OFF, _LOW, _HIGH = 1000, 1100, 1900  # us: not armed, slowest, fastest
_AGAIN = 0.05  # s of wall time after which a packet that was not answered is sent again
_LEARN = 1.0  # s, time constant of the motors' strength
_FEEL = 0.5  # s, of the wind
_STILL, _NEAR, _REST = 0.15, 0.5, 0.5  # m/s, m above its place, s: it has landed
_SIDE = math.sqrt(0.5)


class JsonAnswer(NamedTuple):
    """One answer, in axes east, north, up and forward, left, up."""

    time: float  # s
    place: Vector  # m
    velocity: Vector  # m/s
    quaternion: tuple[float, float, float, float]
    rates: Vector  # rad/s
    force: Vector  # m/s^2, of the accelerometer


def parse(line: bytes) -> JsonAnswer | None:
    """A line of state, or None if it is none."""
    try:
        found: dict[str, Any] = json.loads(line)
        north, east, down = _three(found["position"])
        v_north, v_east, v_down = _three(found["velocity"])
        p, q, r = _three(found["imu"]["gyro"])
        forward, right, below = _three(found["imu"]["accel_body"])
        if "quaternion" in found:
            a, b, c, d = (float(value) for value in found["quaternion"])
        else:
            a, b, c, d = _of_angles(*_three(found["attitude"]))
        time = float(found["timestamp"])
    except (ValueError, KeyError, TypeError):
        return None
    # turns axes north-east-down, forward-right-down into east-north-up, forward-left-up
    turned = (_SIDE * (a + d), _SIDE * (b + c), _SIDE * (b - c), _SIDE * (a - d))
    size = math.sqrt(sum(value * value for value in turned))
    numbers = (time, north, east, down, v_north, v_east, v_down, p, q, r, forward, right, below, size)
    if not all(map(math.isfinite, numbers)) or size < 1e-3:
        return None
    w, x, y, z = (value / size for value in turned)
    return JsonAnswer(
        time, (east, north, -down), (v_east, v_north, -v_down), (w, x, y, z), (p, -q, -r), (forward, -right, -below)
    )


def _three(values: Any) -> Vector:  # noqa: ANN401 - JSON
    x, y, z = (float(value) for value in values)
    return x, y, z


def _of_angles(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """The quaternion of angles about down, right and forward, in this order."""
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (
        cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy, cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )  # fmt: skip


def pulse(part: float, expo: float) -> int:
    """us for a `part` 0..1 of a motor's greatest thrust, which is (1 - expo) h + expo h^2 of its throttle h."""
    part = min(max(part, 0.0), 1.0)
    if expo > 1e-9:
        part = (math.sqrt((1.0 - expo) ** 2 + 4.0 * expo * part) - (1.0 - expo)) / (2.0 * expo)
    return round(_LOW + (_HIGH - _LOW) * min(part, 1.0))


class JsonPilot:
    """Flies the copter `row` of `fleet` on the physics at UDP `at`.

    Where it stands when it is heard first is its home. `rate`: Hz that are asked for, `expo`: of the motors' thrust, 0
    in proportion to the pulse, 1 to its square. Orders go to the fleet as ever.
    """

    def __init__(self, fleet: VehicleFleet, row: int, at: Address, *, rate: int = 400, expo: float = 0.65) -> None:
        self._fleet, self._row, self._at, self._rate, self._expo = fleet, row, at, rate, expo
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._home = tuple(float(fleet.state[f"home_{axis}"][row]) for axis in "xyz")
        self._number = 0
        self._last: JsonAnswer | None = None
        self._first: JsonAnswer | None = None
        self._offset = 0.0  # s, our time at which its clock began
        self._still = 0.0  # s
        self.wind = [0.0, 0.0]  # m/s east and north, as it seems
        self.strength = 1.0  # of its motors, by what was expected
        self.now = 0.0  # s, of ours

    def seek(self) -> bool:
        """Whether the other program answers; it is asked once."""
        if self._number == 0:
            self._number = 1
        self._send([_OFF] * 4)
        reply = self._receive(_AGAIN)
        if reply is not None:
            self._show(reply)
        return reply is not None

    def begin(self, now: float) -> None:
        """Its time goes on at `now` s, after it was away or before it has flown."""
        self.now = now
        if self._last is not None:
            self._offset = now - self._last.time

    def fly(self, until: float, patience: float) -> bool:
        """Fly up to `until` s; False when no answer comes for `patience` s of wall time."""
        while self.now < until - 1e-9:
            reply = self._exchange(patience)
            if reply is None:
                self._fleet.frames["rigid"][self._row] = RIGID
                return False
            before = self._last
            if before is not None and reply.time < before.time - 1e-9:  # started again
                self._first, self._offset = None, self.now - reply.time
            self._show(reply)
            self.now = self._offset + reply.time
        return True

    def close(self) -> None:
        """Send no more; may be called twice."""
        self._socket.close()

    def _exchange(self, patience: float) -> JsonAnswer | None:
        """Decide, order, and wait for what comes of it; the same packet again where none comes."""
        pulses = self._decide()
        self._number += 1
        waited = 0.0
        while waited < patience:
            self._send(pulses)
            reply = self._receive(_AGAIN)
            if reply is not None and (self._last is None or reply.time != self._last.time):
                return reply
            waited += _AGAIN
        return None

    def _decide(self) -> list[int]:
        """Pulses of the four motors."""
        fleet, row = self._fleet, self._row
        frame, s = fleet.frames[row], fleet.state[row]
        frame["rigid"] = ELSEWHERE
        s["t0"] = s["t1"] = s["t2"] = s["t3"] = 0.0
        fleet.wind[row] = *self.wind, 0.0
        fleet.decide(row, self.now, 1.0 / self._rate)
        if s["armed"] == 0 or s["stopped"] != 0 or s["failsafe"] == EMPTY:
            return [_OFF] * 4
        if s["landed"] != 0:
            return [_LOW] * 4
        most = self.strength * frame["thrust_ratio"] * frame["mass"] * GRAVITY / 4.0
        return [pulse(float(s[name]) / most, self._expo) for name in ("t0", "t1", "t2", "t3")]

    def _show(self, reply: JsonAnswer) -> None:
        """Write the vehicle's row, and learn from the accelerometer."""
        fleet, row = self._fleet, self._row
        s = fleet.state[row]
        if self._first is None:
            self._first = reply
        dt = 0.0 if self._last is None else min(max(reply.time - self._last.time, 0.0), 0.1)
        for axis, value, first, home in zip("xyz", reply.place, self._first.place, self._home, strict=True):
            s[axis] = home + value - first
        for name, value in zip(("vx", "vy", "vz"), reply.velocity, strict=True):
            s[name] = value
        for name, value in zip(("qw", "qx", "qy", "qz"), reply.quaternion, strict=True):
            s[name] = value
        for name, value in zip("pqr", reply.rates, strict=True):
            s[name] = value
        fleet.show(row)
        if s["armed"] != 0 and s["landed"] == 0 and dt > 0.0:
            self._learn(reply, dt)
            self._land(dt)
        else:
            self._still = 0.0
        self._last = reply

    def _learn(self, reply: JsonAnswer, dt: float) -> None:
        """How strong the motors are, and what the air does."""
        fleet, row = self._fleet, self._row
        frame, s = fleet.frames[row], fleet.state[row]
        ordered = float(s["t0"] + s["t1"] + s["t2"] + s["t3"]) / float(frame["mass"])
        forward, left, up = reply.force
        if ordered > 0.3 * GRAVITY and up > 0.3 * GRAVITY:
            part = 1.0 - math.exp(-dt / _LEARN)
            self.strength = min(max(self.strength * (1.0 + part * (up / ordered - 1.0)), 0.2), 5.0)
        w, x, y, z = reply.quaternion
        across = (
            (1 - 2 * (y * y + z * z)) * forward + 2 * (x * y - w * z) * left,
            2 * (x * y + w * z) * forward + (1 - 2 * (x * x + z * z)) * left,
        )
        size = math.hypot(*across)
        drag, drag2 = float(frame["drag"]), float(frame["drag2"])
        if drag <= 0.0 and drag2 <= 0.0:
            return
        # against the air at the speed at which our law of drag gives this much
        speed = size / drag if drag2 <= 0.0 else (math.sqrt(drag * drag + 4.0 * drag2 * size) - drag) / (2.0 * drag2)
        part = 1.0 - math.exp(-dt / _FEEL)
        for k, (force, v) in enumerate(zip(across, (float(s["vx"]), float(s["vy"])), strict=True)):
            against = -force / size * speed if size > 1e-9 else 0.0
            self.wind[k] += part * (v - against - self.wind[k])

    def _land(self, dt: float) -> None:
        """Mark the vehicle as landed when it is ordered to sink and does not move."""
        fleet, row = self._fleet, self._row
        s = fleet.state[row]
        sinks = s["target_vz"] < -0.05 and abs(float(s["vz"])) < _STILL
        self._still = self._still + dt if sinks and s["z"] < fleet.frames["ground"][row] + _NEAR else 0.0
        if self._still >= _REST:
            fleet.touch_down(row, self.now)
            self._still = 0.0

    def _send(self, pulses: list[int]) -> None:
        packet = _PACKET.pack(_MAGIC, self._rate, self._number, *pulses, *[0] * (16 - len(pulses)))
        try:
            self._socket.sendto(packet, self._at)
        except OSError:  # nothing listens there: as if the packet was lost
            return

    def _receive(self, wait: float) -> JsonAnswer | None:
        """The newest answer that comes within `wait` s of wall time."""
        self._socket.settimeout(wait)
        found = None
        try:
            while True:
                found = parse(self._socket.recv(4096)) or found
                if found is not None:
                    self._socket.setblocking(False)
        except (TimeoutError, BlockingIOError, ConnectionError):
            return found
