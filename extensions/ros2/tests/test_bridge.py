"""What a run does as topics of ROS 2, read with types, names and attachments of other projects."""

import json
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from queue import Queue

import numpy as np
import pytest

pytest.importorskip("zenoh")
pytest.importorskip("rosbags")

import zenoh

from cosim.contract.frame import Frame, SlotTable
from cosim.extensions.ros2.bridge import Bridge, Goals
from cosim.extensions.ros2.node import RosNode, ros_name
from cosim.talk.control import ControlError
from cosim.talk.publish import TickSnapshot

LIMIT = 60.0


def column(role="value"):
    return {"role": role, "codes": []}


SCENE = {
    "nodes": [{"id": "mast-1"}],
    "signals": {"link": {"columns": {"cell": column("slot"), "snr": column()}}},
}


def snapshot(now, count=1):
    slot = np.arange(1, 1 + count, dtype=np.int32)
    table = SlotTable(1, tuple(f"uav-{i}" for i in range(count)), np.ones(count, np.int32), 1)
    full = lambda value: np.full(count, value)  # noqa: E731
    places = {"x": full(1.5), "y": full(-2.5), "z": full(30.0), "speed": full(4.0), "heading": full(0.0)}
    vehicle = {"charge": full(0.75), "voltage": full(20.0), "power": full(300.0)}
    link = {"cell": np.zeros(count, np.int32), "snr": full(12.5)}
    frames = (Frame("mobility", now, slot, places, table), Frame("vehicle", now, slot, vehicle),
              Frame("link", now, slot, link))  # fmt: skip
    return TickSnapshot(1, now, frames, b"run", SCENE, {}, {1: table})


@pytest.fixture
def peer():
    """A session that others may connect to, and its endpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    config = zenoh.Config()
    for key, value in {"scouting/multicast/enabled": False, "listen/endpoints": [endpoint]}.items():
        config.insert_json5(key, json.dumps(value))
    with zenoh.open(config) as session:
        yield session, endpoint


@pytest.fixture
def heard(peer):
    """Samples by topic, of one moment with a drone, and the tokens of the graph."""
    session, endpoint = peer
    samples, tokens = Queue(), Queue()
    session.declare_subscriber("7/**", samples.put)
    session.liveliness().declare_subscriber("@ros2_lv/7/**", tokens.put, history=True)
    found, until = {}, time.monotonic() + LIMIT
    with closing(RosNode(7, endpoint)) as node:
        bridge = Bridge(node)
        while len(found) < 4:
            assert time.monotonic() < until, found
            bridge.take(snapshot(2.25))
            time.sleep(0.05)
            while not samples.empty():
                sample = samples.get()
                found.setdefault(str(sample.key_expr).split("/", 1)[1].rsplit("/", 2)[0], sample)
        alive = [str(tokens.get(timeout=LIMIT).key_expr) for _ in range(5)]
    return found, alive


def test_names_attachments_and_tokens_are_those_of_rmw_zenoh(heard):
    pytest.importorskip("zenoh_ros2_sdk")
    from zenoh_ros2_sdk.attachment import Attachment
    from zenoh_ros2_sdk.entity import EndpointEntity, EntityKind, NodeEntity
    from zenoh_ros2_sdk.keyexpr import endpoint_liveliness_keyexpr, node_liveliness_keyexpr, topic_keyexpr
    from zenoh_ros2_sdk.qos import DEFAULT_QOS_PROFILE
    from zenoh_ros2_sdk.utils import ros2_to_dds_type

    found, alive = heard
    kinds = {
        "clock": "rosgraph_msgs/msg/Clock", "uav_0/odometry": "nav_msgs/msg/Odometry",
        "uav_0/battery": "sensor_msgs/msg/BatteryState", "uav_0/link": "diagnostic_msgs/msg/DiagnosticStatus",
    }  # fmt: skip
    assert found.keys() == kinds.keys()
    zid = alive[0].split("/")[2]
    node = NodeEntity(domain_id=7, session_id=zid, node_id=0, node_name="cosim", namespace="/")
    expected = {node_liveliness_keyexpr(node)}
    for number, (topic, kind) in enumerate(kinds.items(), 1):
        key = str(found[topic].key_expr)
        digest = key.rsplit("/", 1)[1]
        assert key == topic_keyexpr(7, f"/{topic}", ros2_to_dds_type(kind), digest)
        end = EndpointEntity(
            node=node, entity_id=number, kind=EntityKind.PUBLISHER, name=f"/{topic}",
            dds_type_name=ros2_to_dds_type(kind), type_hash=digest, qos=DEFAULT_QOS_PROFILE.encode(),
        )  # fmt: skip
        expected.add(endpoint_liveliness_keyexpr(end))
        attached = Attachment.from_bytes(found[topic].attachment.to_bytes())
        assert (attached.timestamp_ns, len(attached.gid)) == (2_250_000_000, 16)
        assert attached.sequence_id >= 1
    assert set(alive) == expected
    gids = {Attachment.from_bytes(sample.attachment.to_bytes()).gid for sample in found.values()}
    assert len(gids) == len(found)


def test_messages_are_decoded_by_another_cdr(heard):
    pycdr2 = pytest.importorskip("pycdr2")
    from pycdr2.types import array, float32, float64, int32, sequence, uint8, uint32

    @dataclass
    class Time(pycdr2.IdlStruct):
        sec: int32
        nanosec: uint32

    @dataclass
    class Header(pycdr2.IdlStruct):
        stamp: Time
        frame_id: str

    @dataclass
    class Three(pycdr2.IdlStruct):
        x: float64
        y: float64
        z: float64

    @dataclass
    class Four(pycdr2.IdlStruct):
        x: float64
        y: float64
        z: float64
        w: float64

    @dataclass
    class Odometry(pycdr2.IdlStruct):
        header: Header
        child_frame_id: str
        position: Three
        orientation: Four
        covariance: array[float64, 36]
        linear: Three
        angular: Three
        twist_covariance: array[float64, 36]

    @dataclass
    class Battery(pycdr2.IdlStruct):
        header: Header
        voltage: float32
        temperature: float32
        current: float32
        charge: float32
        capacity: float32
        design_capacity: float32
        percentage: float32
        status: uint8
        health: uint8
        technology: uint8
        present: bool

    @dataclass
    class KeyValue(pycdr2.IdlStruct):
        key: str
        value: str

    @dataclass
    class Status(pycdr2.IdlStruct):
        level: uint8
        name: str
        message: str
        hardware_id: str
        values: sequence[KeyValue]

    found = {topic: sample.payload.to_bytes() for topic, sample in heard[0].items()}
    assert all(data[:4] == b"\0\1\0\0" for data in found.values())  # CDR, little-endian
    clock = Time.deserialize(found["clock"])
    assert (clock.sec, clock.nanosec) == (2, 250_000_000)
    here = Odometry.deserialize(found["uav_0/odometry"])
    assert (here.header.frame_id, here.child_frame_id, here.header.stamp.sec) == ("map", "uav-0", 2)
    assert (here.position.x, here.position.y, here.position.z, here.linear.x) == (1.5, -2.5, 30.0, 4.0)
    assert (here.orientation.z, here.orientation.w) == pytest.approx((0.5**0.5, 0.5**0.5))  # x points north
    battery = Battery.deserialize(found["uav_0/battery"])
    assert (battery.voltage, battery.current, battery.percentage, battery.present) == (20.0, -15.0, 0.75, True)
    link = Status.deserialize(found["uav_0/link"])
    assert (link.level, link.message, link.hardware_id) == (0, "mast-1", "uav-0")
    assert {one.key: one.value for one in link.values} == {"cell": "mast-1", "snr": "12.5"}


def test_the_token_of_a_subscriber_is_that_of_rmw_zenoh(peer):
    pytest.importorskip("zenoh_ros2_sdk")
    from zenoh_ros2_sdk.entity import EndpointEntity, EntityKind, NodeEntity
    from zenoh_ros2_sdk.keyexpr import endpoint_liveliness_keyexpr, topic_keyexpr
    from zenoh_ros2_sdk.qos import DEFAULT_QOS_PROFILE
    from zenoh_ros2_sdk.utils import ros2_to_dds_type

    session, endpoint = peer
    tokens, taken, kind = Queue(), Queue(), "geometry_msgs/msg/PoseStamped"
    session.liveliness().declare_subscriber("@ros2_lv/7/**", tokens.put, history=True)
    with closing(RosNode(7, endpoint)) as node:
        node.subscribe("/uav_1/goal_pose", kind, taken.put)
        found = [str(tokens.get(timeout=LIMIT).key_expr) for _ in range(2)]
        token = next(one for one in found if "/MS/" in one)
        digest = token.split("/")[11]
        here = NodeEntity(domain_id=7, session_id=token.split("/")[2], node_id=0, node_name="cosim", namespace="/")
        end = EndpointEntity(
            node=here, entity_id=1, kind=EntityKind.SUBSCRIPTION, name="/uav_1/goal_pose",
            dds_type_name=ros2_to_dds_type(kind), type_hash=digest, qos=DEFAULT_QOS_PROFILE.encode(),
        )  # fmt: skip
        assert token == endpoint_liveliness_keyexpr(end)
        until = time.monotonic() + LIMIT
        while taken.empty():
            assert time.monotonic() < until
            session.put(topic_keyexpr(7, "/uav_1/goal_pose", ros2_to_dds_type(kind), digest), b"goal")
            time.sleep(0.05)
        assert taken.get() == b"goal"


def test_goals_are_given_to_the_run(peer):
    """They are written by another CDR, at the key of the subscriber's token as rmw_zenoh's design document has it."""
    pycdr2 = pytest.importorskip("pycdr2")
    from pycdr2.types import float64, int32, uint32

    @dataclass
    class Pose(pycdr2.IdlStruct):
        sec: int32
        nanosec: uint32
        frame_id: str
        x: float64
        y: float64
        z: float64
        i: float64 = 0.0
        j: float64 = 0.0
        k: float64 = 0.0
        w: float64 = 1.0

    session, endpoint = peer
    tokens, given, said = Queue(), Queue(), []

    def order(node, to):
        if node == "uav-1":
            raise ControlError("it does not fly")
        given.put((node, to))

    session.liveliness().declare_subscriber("@ros2_lv/7/**", tokens.put, history=True)
    with closing(RosNode(7, endpoint)) as node:
        goals = Goals(node, order, said.append)
        goals.take(snapshot(0.0, 2))
        goals.take(snapshot(1.0, 2))
        ends = {}
        for _ in range(3):
            parts = str(tokens.get(timeout=LIMIT).key_expr).split("/")
            if parts[5] != "NN":
                ends[parts[9]] = parts
        assert ends.keys() == {"%uav_0%goal_pose", "%uav_1%goal_pose"}
        name, kind = ends["%uav_0%goal_pose"], "geometry_msgs::msg::dds_::PoseStamped_"
        assert name[3:4] + name[5:9] == ["0", "MS", "%", "%", "cosim"]
        assert (name[10], name[12]) == (kind, "::,10:,:,:,,")
        assert {end[4] for end in ends.values()} == {"1", "2"}

        def until(topic, data, done):
            end = time.monotonic() + LIMIT
            while not done():
                assert time.monotonic() < end, said
                session.put(f"7/{topic}/goal_pose/{kind}/{name[11]}", data)
                time.sleep(0.05)
                goals.take(snapshot(2.0, 2))

        def message(frame="map", up=15.25):
            return Pose(1, 2, frame, 20.5, -40.0, up).serialize()

        until("uav_0", message(), lambda: not given.empty())
        assert given.get() == ("uav-0", ["20.500000 m", "-40.000000 m", "15.250000 m"])
        until("uav_0", message(up=0.0), lambda: ("uav-0", ["20.500000 m", "-40.000000 m"]) in given.queue)
        assert not said
        for topic, data, why in (
            ("uav_0", message("odom"), "a goal of 'uav-0' is not taken: it is in the frame 'odom', not in 'map'"),
            ("uav_0", message()[:40], "40 B are no geometry_msgs/msg/PoseStamped"),
            ("uav_0", b"", "0 B are no geometry_msgs/msg/PoseStamped"),
            ("uav_1", message(), "a goal of 'uav-1' is not taken: it does not fly"),
        ):
            until(topic, data, lambda why=why: any(why in one for one in said))


def test_hashes_of_types_are_those_that_ros_publishes():
    from rosbags.typesys import Stores, get_typestore

    digest = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"  # of rmw_zenoh's design document
    assert get_typestore(Stores.ROS2_JAZZY).hash_rihs01("std_msgs/msg/String") == digest


def test_names_fit_topics():
    assert (ros_name("uav-1"), ros_name("1st"), ros_name("mast.a")) == ("uav_1", "_1st", "mast_a")
