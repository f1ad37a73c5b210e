"""Positions by ZeroMQ, in the form that AeroLoop's network simulator subscribes to.

Two parts: the vehicle's name (UAV1, ROV1) and {"x": .., "y": .., "z": ..}, earth-centred and
earth-fixed in m on the WGS84 ellipsoid; published on TCP port 5556 there. Unlike AeroLoop's own
script, the height in it is the vehicle's, not that above home.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType

import zmq

from cosim.autopilot.core import Autopilot
from cosim.autopilot.geodesy import Place, ecef
from cosim.autopilot.table import Address
from cosim.errors import SetupError

PERIOD = 0.25  # s of simulated time between two positions of a vehicle: 4 Hz, as GLOBAL_POSITION_INT


def message(topic: str, place: Place) -> list[bytes]:
    """The two parts of one message."""
    return [topic.encode(), json.dumps(dict(zip("xyz", ecef(place), strict=True))).encode()]


def topics(autopilots: Sequence[Autopilot]) -> list[str]:
    """UAV1, UAV2, .. for copters and ROV1, .. for rovers, in their order."""
    counts = {"UAV": 0, "ROV": 0}
    names = []
    for autopilot in autopilots:
        kind = "UAV" if autopilot.persona.frame == "copter" else "ROV"
        counts[kind] += 1
        names.append(f"{kind}{counts[kind]}")
    return names


class Positions:
    """Publishes where vehicles are."""

    def __init__(self, at: Address, autopilots: Sequence[Autopilot]) -> None:
        self._autopilots = list(zip(topics(autopilots), autopilots, strict=True))
        self._next = float("-inf")
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        try:
            self._socket.bind(f"tcp://{at}")
        except zmq.ZMQError as error:
            self._socket.close()
            raise SetupError(f"cannot publish positions at {at}: {error.strerror}; choose another port") from None

    def publish(self) -> None:
        """Publish all positions, when it is time."""
        now = max((autopilot.pilot.fleet.now for _, autopilot in self._autopilots), default=0.0)
        if now < self._next:
            return
        self._next = now + PERIOD
        for topic, autopilot in self._autopilots:
            v = autopilot.pilot.look()
            self._socket.send_multipart(message(topic, autopilot.pilot.ground.place(v.x, v.y, v.z)))

    def __enter__(self) -> Positions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
