"""Our physics under a real ArduPilot: the other side of its `--model JSON:<host>` interface.

ArduPilot, a program of its own, sends the outputs of its motors as a packet and waits for one line of
text with the vehicle's state. Its clock advances by our time stamps only, so it stops while the answer
is withheld: `grant` sets the time up to which it may go on. The packets (libraries/SITL/SIM_JSON): little endian,
uint16 magic, uint16 rate in Hz, uint32 frame count, then 16 (magic 18458) or 32 (magic 29569) pulses
in us as uint16. The line begins and ends with a line feed and has no blank before a bracket.

Battery: versions that have a field for it here read it; to all others `cosim.autopilot.side` sends it.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError
from cosim.contract.records import Records
from cosim.physics.vehicles import Copter, Rover
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.layout import COPTER
from cosim.physics.vehicles.terrain import Terrain

Airframe = Copter | Rover | Records
_MAGIC = {18458: 16, 29569: 32}
_HEAD = struct.Struct("<HHI")
_LOW, _HIGH = 1100.0, 1900.0  # us; MOT_PWM_MIN and MOT_PWM_MAX of the parameters that go with it
_SLOWEST = 50  # Hz, what a wrong rate is taken as
_STEP = 0.0025  # s, longest step of the rigid body
_AT_ONCE = 64  # packets taken in one call


class Servos(NamedTuple):
    """One packet of ArduPilot's."""

    rate: int  # Hz
    frame: int  # number; it counts the packets sent
    pulses: tuple[int, ...]  # us, 0: no output


def parse(packet: bytes) -> Servos | None:
    """A packet, or None if it is none."""
    if len(packet) < _HEAD.size:
        return None
    magic, rate, count = _HEAD.unpack_from(packet)
    channels = _MAGIC.get(magic, 0)
    if not channels or len(packet) != _HEAD.size + 2 * channels:
        return None
    return Servos(rate, count, struct.unpack_from(f"<{channels}H", packet, _HEAD.size))


def _numbers(digits: int, *values: float) -> str:
    return ",".join([f"{value:.{digits}f}" for value in values])


class JsonBody:
    """The vehicle under one ArduPilot."""

    def __init__(
        self, vehicle: Airframe, heading: float = 0.0, charge: float = 1.0, terrain: Terrain | None = None
    ) -> None:
        """`heading`: rad at start, as in ArduPilot's --home; `charge`: 0..1 of the battery's capacity, then."""
        self.driven = Driven(vehicle, heading=heading, terrain=terrain)
        self._copter = bool(self.driven.frame["kind"] == COPTER)
        self._charge = charge
        self._outputs: NDArray[np.float64] = np.zeros(4)
        self._last = -1
        self.steps = 0
        self.restarts = 0
        self.offset = 0.0  # s, the owner's time at which this body's clock began
        self.armed = False  # whether its motors are given power
        self._fill()

    def _fill(self) -> None:
        self.driven.state["charge"] *= self._charge

    @property
    def now(self) -> float:
        """s of physics time."""
        return self.driven.now

    def take(self, servos: Servos) -> None:
        """Go on by one frame.

        The same count again means that our answer was lost: nothing passes. A lower count means that
        ArduPilot was restarted: so is the vehicle.
        """
        if servos.frame == self._last:
            return
        if servos.frame < self._last:
            self.driven.reset()
            self._fill()
            self.restarts += 1
        self._last = servos.frame
        self.steps += 1
        dt = 1.0 / max(servos.rate, _SLOWEST)
        parts = max(math.ceil(dt / _STEP - 1e-9), 1)
        self._set(servos.pulses)
        self.driven.step(self._outputs, dt / parts, parts)

    def _set(self, pulses: tuple[int, ...]) -> None:
        out = self._outputs
        if self._copter:
            for k in range(4):
                out[k] = min(max((pulses[k] - _LOW) / (_HIGH - _LOW), 0.0), 1.0) if pulses[k] else 0.0
            self.armed = bool(np.any(out > 0.0))
        else:  # servo 1 steers, servo 3 drives
            for k, channel in enumerate((0, 2)):
                out[k] = min(max((pulses[channel] - 1500.0) / 400.0, -1.0), 1.0) if pulses[channel] else 0.0
            self.armed = bool(out[1] != 0.0)

    def line(self) -> bytes:
        """The state as ArduPilot reads it: north, east, down; forward, right, down; m, m/s, rad."""
        s = self.driven.state
        if self._copter:
            w, x, y, z = s["qw"], s["qx"], s["qy"], s["qz"]
        else:
            half = 0.25 * math.pi - 0.5 * s["heading"]
            w, x, y, z = math.cos(half), 0.0, 0.0, math.sin(half)
        # specific force in the axes of the body: forward, left, up
        east, north, up = self.driven.force
        up += GRAVITY
        forward = (1 - 2 * (y * y + z * z)) * east + 2 * (x * y + w * z) * north + 2 * (x * z - w * y) * up
        left = 2 * (x * y - w * z) * east + (1 - 2 * (x * x + z * z)) * north + 2 * (y * z + w * x) * up
        above = 2 * (x * z + w * y) * east + 2 * (y * z - w * x) * north + (1 - 2 * (x * x + y * y)) * up
        a = math.sqrt(0.5)  # turns axes east-north-up, forward-left-up into north-east-down, forward-right-down
        attitude = (a * (w + z), a * (x + y), a * (x - y), a * (w - z))
        gyro = _numbers(6, s["p"], -s["q"], -s["r"])
        accel, position = _numbers(5, forward, -left, -above), _numbers(4, s["y"], s["x"], -s["z"])
        quaternion, velocity = _numbers(7, *attitude), _numbers(4, s["vy"], s["vx"], -s["vz"])
        battery = f'"voltage":{s["voltage"]:.3f},"current":{s["current"]:.3f}'
        return (
            f'\n{{"timestamp":{self.now:.6f},"imu":{{"gyro":[{gyro}],"accel_body":[{accel}]}},"position":[{position}],'
            f'"quaternion":[{quaternion}],"velocity":[{velocity}],"battery":{{{battery}}},"no_time_sync":1}}\n'
        ).encode()


class JsonPhysics:
    """Answers ArduPilots at one UDP port, each with a vehicle of its own, up to the granted time.

    The caller grants time in windows: much longer than a frame (2.5 ms), so that the exchange runs
    freely inside them. A left-over ArduPilot does not disturb a new one: they differ in their address.
    The clock of one that comes, or is started again, within a window begins with that window.
    """

    def __init__(
        self,
        vehicle: Airframe,
        at: Address,
        heading: float = 0.0,
        peers: int = 8,
        charge: float = 1.0,
        terrain: Terrain | None = None,
    ) -> None:
        """`vehicle`: a `Copter(dynamics="rigid")`, a `Rover`, or the AIRFRAME of one; at most `peers` ArduPilots.

        `charge`: 0..1; `terrain`: seen from home.
        """
        self._vehicle, self._heading, self._peers, self._charge = vehicle, heading, peers, charge
        self._terrain = terrain
        self.bodies: dict[tuple[str, int], JsonBody] = {}
        self._held: dict[tuple[str, int], bytes] = {}  # answers that wait for time to be granted
        self._granted = self._window = 0.0  # s, end and begin of the window
        JsonBody(vehicle, heading)  # a wrong vehicle is found here
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind(at)
        except OSError as error:
            self._socket.close()
            raise SetupError(
                f"cannot listen for ArduPilot at UDP {at}: {error.strerror}; end the program that has the port, "
                "or choose another instance (ports go up by 10)"
            ) from None

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def grant(self, until: float) -> None:
        """Let the physics go on up to `until` s."""
        self._window, self._granted = self._granted, until
        for peer in [peer for peer in self._held if self._may(self.bodies[peer])]:
            self._send(self._held.pop(peer), peer)

    def waits(self) -> bool:
        """Whether every ArduPilot that was heard has used its time up."""
        return bool(self.bodies) and len(self._held) == len(self.bodies)

    @property
    def granted(self) -> float:
        """s up to which the physics may go on."""
        return self._granted

    @property
    def newest(self) -> JsonBody | None:
        """The vehicle of the ArduPilot that came last."""
        return next(reversed(self.bodies.values()), None)

    def _may(self, body: JsonBody) -> bool:
        """Whether its present time is granted."""
        return body.offset + body.now <= self._granted + 1e-9

    def serve(self, wait: float) -> int:
        """Answer what comes, waiting at most `wait` s for the first packet; how many were taken."""
        self._socket.settimeout(max(wait, 0.0))
        taken = 0
        while taken < _AT_ONCE:
            try:
                packet, peer = self._socket.recvfrom(512)
            except OSError:  # nothing came in time, or the peer of an answer is gone
                break
            self._answer(packet, peer)
            self._socket.setblocking(False)
            taken += 1
        return taken

    def _answer(self, packet: bytes, peer: tuple[str, int]) -> None:
        servos = parse(packet)
        if servos is None:
            return
        body = self.bodies.get(peer)
        if body is None:
            if len(self.bodies) >= self._peers:
                oldest = next(iter(self.bodies))
                del self.bodies[oldest]
                self._held.pop(oldest, None)
            body = self.bodies[peer] = JsonBody(self._vehicle, self._heading, self._charge, self._terrain)
            body.offset = self._window
        restarts = body.restarts
        body.take(servos)
        if body.restarts > restarts:
            body.offset = self._window
        if self._may(body):
            self._send(body.line(), peer)
        else:
            self._held[peer] = body.line()

    def _send(self, line: bytes, peer: tuple[str, int]) -> None:
        with contextlib.suppress(OSError):  # as if it was lost: ArduPilot asks again
            self._socket.sendto(line, peer)

    def close(self) -> None:
        """Stop answering."""
        self._socket.close()
