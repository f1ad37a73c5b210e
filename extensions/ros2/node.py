"""A node of ROS 2 over zenoh: key expressions, liveliness tokens and attachments of rmw_zenoh.

They are described in https://github.com/ros2/rmw_zenoh/blob/rolling/docs/design.md. Messages are CDR, little-endian;
types and their hashes are those of ROS 2 Jazzy.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import zenoh
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, get_typestore

from cosim.contract.errors import SetupError

_STORE = get_typestore(Stores.ROS2_JAZZY)
_QOS = "::,10:,:,:,,"  # reliable, volatile, the last ten are kept; no deadlines
_NODE = 0  # its number in the session


def ros_name(name: str) -> str:
    """`name` of a node of the scenario as a part of a topic: other characters than letters and digits become _."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{found}" if found[:1].isdigit() else found


def make(kind: str, **values: Any) -> Any:  # noqa: ANN401 - classes that the type store makes
    """A message of `kind`, as std_msgs/msg/Header."""
    return _STORE.types[kind](**values)


def read(kind: str, data: bytes) -> Any:  # noqa: ANN401 - as `make`
    """The message of `kind` that stands in `data`. Raises `ValueError` where there is none."""
    try:
        return _STORE.deserialize_cdr(data, kind)
    except (SerdeError, ValueError, struct.error) as error:
        raise ValueError(f"{len(data)} B are no {kind}") from error


class RosNode:
    """The node `cosim` in the ROS domain `domain`, which connects to the zenoh endpoint `connect` and listens at
    `listen` ("": the system's choice, at loopback).

    Raises `SetupError` where it cannot.
    """

    def __init__(self, domain: int = 0, connect: str = "", listen: str = "") -> None:
        config = zenoh.Config()
        asked: Mapping[str, object] = {
            "mode": "peer",
            "scouting/multicast/enabled": False,
            "connect/endpoints": [connect] if connect else [],
            "connect/exit_on_failure": False,
            "listen/endpoints": [listen or "tcp/127.0.0.1:0"],
        }
        try:
            for key, value in asked.items():
                config.insert_json5(key, json.dumps(value))
            self._session = zenoh.open(config)
        except zenoh.ZError as error:
            raise SetupError(f"zenoh cannot connect to '{connect}': {error}; write tcp/HOST:PORT") from error
        self._domain, self._zid = domain, str(self._session.info.zid())
        self._tokens = [self._alive(f"{_NODE}/NN/%/%/cosim")]
        self._publishers: dict[str, tuple[zenoh.Publisher, bytes]] = {}
        self._subscribers: list[zenoh.Subscriber[None]] = []
        self._sent: dict[str, int] = {}

    def close(self) -> None:
        """Leave the graph."""
        self._session.close()  # type: ignore[no-untyped-call]

    def publish(self, topic: str, kind: str, message: Any, time: int) -> None:  # noqa: ANN401 - as `make` returns
        """Publish a `message` of `kind` on `topic`, `time` in ns."""
        if topic not in self._publishers:
            self._publishers[topic] = self._declare(topic, kind)
        publisher, gid = self._publishers[topic]
        number = self._sent[topic] = self._sent.get(topic, 0) + 1
        attachment = struct.pack("<qqB16s", number, time, len(gid), gid)
        publisher.put(bytes(_STORE.serialize_cdr(message, kind)), attachment=attachment)

    def subscribe(self, topic: str, kind: str, take: Callable[[bytes], None]) -> None:
        """Let `take` have each message of `kind` on `topic`, to `read`, in a thread of zenoh."""
        key, _ = self._endpoint("MS", topic, kind)
        self._subscribers.append(self._session.declare_subscriber(key, lambda sample: take(sample.payload.to_bytes())))

    def _declare(self, topic: str, kind: str) -> tuple[zenoh.Publisher, bytes]:
        key, number = self._endpoint("MP", topic, kind)
        gid = bytes.fromhex(self._zid.zfill(32))[:12] + number.to_bytes(4, "little")  # no other publisher has it
        return self._session.declare_publisher(key), gid

    def _endpoint(self, what: str, topic: str, kind: str) -> tuple[str, int]:
        """Key expression and number of a new publisher (MP) or subscriber (MS), which the graph now has."""
        package, folder, name = kind.split("/")
        described = f"{package}::{folder}::dds_::{name}_/{_STORE.hash_rihs01(kind)}"
        number = len(self._tokens)
        self._tokens.append(self._alive(f"{number}/{what}/%/%/cosim/{topic.replace('/', '%')}/{described}/{_QOS}"))
        return f"{self._domain}/{topic.lstrip('/')}/{described}", number

    def _alive(self, entity: str) -> zenoh.LivelinessToken:
        key = f"@ros2_lv/{self._domain}/{self._zid}/{_NODE}/{entity}"
        return self._session.liveliness().declare_token(key)
