"""Positions by ZeroMQ, in the form that AeroLoop's network simulator subscribes to.

Two parts: the vehicle's name (UAV1, ROV1) and {"x": .., "y": .., "z": ..}, earth-centred and
earth-fixed in m on the WGS84 ellipsoid; published on TCP port 5556 there. Unlike AeroLoop's own
script, the height in it is the vehicle's, not that above home.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import zmq

from cosim.autopilot.geodesy import Place, ecef
from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError
from cosim.talk.publish import OBSERVERS
from cosim.talk.sockets import Closing, Door

PERIOD = 0.25  # s of simulated time between two positions of a vehicle: 4 Hz, as GLOBAL_POSITION_INT


def message(topic: str, place: Place) -> list[bytes]:
    """The two parts of one message."""
    return [topic.encode(), json.dumps(dict(zip("xyz", ecef(place), strict=True))).encode()]


def topics(frames: Sequence[str]) -> list[str]:
    """UAV1, UAV2, .. for each `copter` and ROV1, .. for each `rover`, in their order."""
    counts = {"UAV": 0, "ROV": 0}
    names = []
    for frame in frames:
        kind = "UAV" if frame == "copter" else "ROV"
        counts[kind] += 1
        names.append(f"{kind}{counts[kind]}")
    return names


class Positions(Closing):
    """Publishes where vehicles are. Raises `SetupError` when the port is taken."""

    def __init__(self, at: Address, frames: Sequence[str]) -> None:
        """`frames`: `copter` or `rover`, one for each vehicle."""
        self.topics = topics(frames)
        self._next = float("-inf")
        try:
            self._door = Door(f"tcp://{at}", OBSERVERS.message, OBSERVERS, kind=zmq.PUB)
        except SetupError as error:
            raise SetupError(f"cannot publish positions: {error}; choose another port") from None

    def due(self, now: float) -> bool:
        """Whether the next positions are to be published at `now` s of simulated time."""
        return now >= self._next

    def publish(self, now: float, places: Sequence[Place]) -> None:
        """Publish where all vehicles are, in their order, at `now` s of simulated time."""
        self._next = now + PERIOD
        for topic, place in zip(self.topics, places, strict=True):
            self._door.socket.send_multipart(message(topic, place))

    def close(self) -> None:
        """Stop publishing; may be called twice."""
        self._door.close()
