"""The two ends that probes talk to: a persona in this process, or whatever listens at a MAVLink address."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cosim.autopilot.dialect import mavlink

Message = Any


class Peer:
    """A ground station's end of a link. `pass_time` lets the other side work for a while."""

    def __init__(self) -> None:
        self.encoder = mavlink.MAVLink(None, srcSystem=255, srcComponent=190)
        self.heard: list[Message] = []

    def send(self, name: str, *values: Any, **named: Any) -> None:
        """Send the message `name`."""
        self.write(getattr(mavlink, f"MAVLink_{name}_message")(*values, **named).pack(self.encoder))
        self.encoder.seq = (self.encoder.seq + 1) % 256

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    def wait(self, kind: str, seconds: float, fits: Callable[[Message], bool] = lambda _: True) -> Message | None:
        """The next message of a kind that fits, None when none came in time."""
        waited = 0.0
        while True:
            for k, message in enumerate(self.heard):
                if message.get_type() == kind and fits(message):
                    del self.heard[k]
                    return message
            if waited >= seconds:
                return None
            self.pass_time(0.05)
            waited += 0.05


class Persona(Peer):
    """Our emulator, in simulated time."""

    def __init__(self, persona: str = "ardupilot", frame: str = "copter") -> None:
        from cosim.autopilot import Autopilot
        from cosim.physics.vehicles import Copter, Rover, VehicleFleet

        super().__init__()
        self.fleet = VehicleFleet([Copter() if frame == "copter" else Rover()], [(0.0, 0.0, 0.0)])
        self.autopilot = Autopilot(self.fleet, 0, persona=persona, origin=(38.2466, 21.7346, 60.09), ready_after=5.0)
        self._decoder = mavlink.MAVLink(None)
        self._wall = 0.0
        self.autopilot.connect("probe")

    def write(self, data: bytes) -> None:
        self.autopilot.receive(data, "probe")

    def pass_time(self, seconds: float) -> None:
        for _ in range(max(round(seconds / 0.005), 1)):
            self.fleet.advance(self.fleet.now + 0.005)
            self._wall += 0.005
            for _, data in self.autopilot.emit(self.fleet.now, self._wall):
                self.heard += self._decoder.parse_buffer(data) or []


class Link(Peer):
    """A MAVLink end elsewhere, such as a simulator of ArduPilot's or PX4's."""

    def __init__(self, address: str) -> None:
        from pymavlink import mavutil

        super().__init__()
        self._link = mavutil.mavlink_connection(address, source_system=255, source_component=190)
        self._link.wait_heartbeat(timeout=60)

    def write(self, data: bytes) -> None:
        self._link.write(data)

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0.0:
            message = self._link.recv_match(blocking=True, timeout=left)
            if message is not None:
                self.heard.append(message)
