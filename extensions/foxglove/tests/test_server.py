"""A run that publishes, as a client of the Foxglove WebSocket protocol sees it."""

import base64
import json
import socket
import struct
import threading
import time
from queue import Queue

import numpy as np
import pytest

pytest.importorskip("foxglove")
pytest.importorskip("google.protobuf")
pytest.importorskip("mcap_protobuf")
pytest.importorskip("websockets")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from typer.testing import CliRunner
from websockets.sync.client import connect

from cosim.cli.main import app
from cosim.contract.frame import Frame, SlotTable
from cosim.extensions.foxglove.server import serve
from cosim.talk.publish import Publisher

LIMIT = 60.0


def column(role="value", codes=(), unit=""):
    return {"unit": unit, "meaning": "what it is", "role": role, "codes": list(codes)}


SCENE = {
    "name": "toy", "geo": [39.36, 22.95, 60.0], "workloads": ["detect"],
    "nodes": [{"id": "mast", "kind": "edge", "at": [30.0, 10.0, 0.0]}],
    "fleets": [{"name": "drones", "first": 1, "count": 10, "kind": "uav"}],
    "signals": {
        "mobility": {"meaning": "", "rows": "node", "columns": {
            name: column(unit="m") for name in ("x", "y", "z", "speed", "heading")}},
        "link": {"meaning": "", "rows": "node", "columns": {"cell": column("slot"), "loss": column()}},
        "demand": {"meaning": "", "rows": "node", "columns": {
            "workload": {**column("code"), "codes": "workloads"}, "state": column("code", ("on", "off"))}},
    },
}  # fmt: skip


def frames(now):
    slot = np.arange(1, 3, dtype=np.int32)
    table = SlotTable(1, ("d-0", "d-1"), np.ones(2, np.int32), 1)
    places = {name: np.full(2, now) for name in ("x", "y", "z", "speed", "heading")}
    link = {"cell": np.array([0, -1], np.int32), "loss": np.array([0.25, np.nan])}
    demand = {"workload": np.zeros(2, np.int32), "state": np.array([1, 0], np.int8)}
    return [Frame("mobility", now, slot, places, table), Frame("link", now, slot, link),
            Frame("demand", now, slot, demand)]  # fmt: skip


class Client:
    """What a viewer does: it subscribes to every channel, and decodes messages by their schemas.

    It leaves out the first channel of the topic `refused`, as if the server had not entered it yet.
    """

    def __init__(self, connection, refused):
        self.socket, self._refused = connection, refused
        self.channels, self._types = {}, {}

    def read(self):
        """(topic, ns, message) of the next message, or None: something else has come."""
        data = self.socket.recv(LIMIT)
        if isinstance(data, str):
            said = json.loads(data)
            if said["op"] == "advertise":
                channels = [one for one in said["channels"] if one["topic"] != self._refused]
                if len(channels) < len(said["channels"]):
                    self._refused = ""
                self.channels.update({one["id"]: one for one in channels})
                asked = [{"id": one["id"], "channelId": one["id"]} for one in channels]
                self.socket.send(json.dumps({"op": "subscribe", "subscriptions": asked}))
            return None
        if data[0] != 1:
            return None
        number, moment = struct.unpack_from("<IQ", data, 1)
        channel = self.channels[number]
        assert (channel["encoding"], channel["schemaEncoding"]) == ("protobuf", "protobuf")
        return channel["topic"], moment, self._type(channel).FromString(data[13:])

    def _type(self, channel):
        if channel["schemaName"] not in self._types:
            pool = descriptor_pool.DescriptorPool()
            for file in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(channel["schema"])).file:
                pool.Add(file)
            found = message_factory.GetMessageClass(pool.FindMessageTypeByName(channel["schemaName"]))
            self._types[channel["schemaName"]] = found
        return self._types[channel["schemaName"]]


TOPICS = {
    "/tf", "/events", "/pose/mast", "/pose/drones", "/location/mast", "/location/drones", "/mobility/drones",
    "/link/drones", "/demand/drones",
}  # fmt: skip


NODES = {"mast", "d-0", "d-1"}


def placed(found):
    """The nodes whose places have come."""
    return {one.child_frame_id for _, message in found for one in message.transforms}


def test_a_viewer_sees_every_topic_until_the_run_ends():
    said = Queue()
    state = {"events": {"count": 0, "recent": []}}
    with Publisher(scene=SCENE) as publisher:
        ended = threading.Thread(
            target=serve, args=(publisher.address, said.put), kwargs={"host": "127.0.0.1", "port": 0}
        )
        ended.start()
        address = said.get(timeout=LIMIT).split()[0]
        going = threading.Event()

        def publish():
            tick = 0
            while not going.wait(0.02):
                tick += 1
                state["events"] = {"count": tick, "recent": [[0.5 * tick, "fail", "mast", ""]]}
                publisher.publish(tick, 0.5 * tick, frames(0.5 * tick), lambda: state)

        publishing = threading.Thread(target=publish)
        publishing.start()
        try:
            with connect(address, subprotocols=["foxglove.sdk.v1"]) as connection:
                client, seen, until = Client(connection, "/pose/mast"), {}, time.monotonic() + LIMIT
                while not seen.keys() >= TOPICS or placed(seen["/tf"]) < NODES:
                    assert time.monotonic() < until, TOPICS - seen.keys()
                    if found := client.read():
                        topic, moment, message = found
                        seen.setdefault(topic, []).append((moment, message))
        finally:
            going.set()
            publishing.join()
            publisher.publish(10**6, 5.0, [], lambda: {**state, "ended": True}, last=True)
    ended.join(LIMIT)
    assert not ended.is_alive()
    with pytest.raises(OSError, match=r"."), socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1]))):
        pass  # nobody listens any more

    assert seen.keys() == TOPICS
    moment, drone = seen["/link/drones"][0]
    assert (drone.time * 1e9, drone.node, drone.cell, drone.loss) == (moment, "d-0", "mast", 0.25)
    assert (seen["/demand/drones"][0][1].workload, seen["/demand/drones"][0][1].state) == ("detect", "off")
    (still,) = {(message.latitude, message.longitude) for _, message in seen["/location/mast"]}
    assert np.allclose(still, (39.36009, 22.95035), atol=1e-5)
    assert seen["/events"][0][1].message == "fail mast"
    assert placed(seen["/tf"]) == NODES


def test_what_cannot_be_served_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = CliRunner().invoke(app, ["foxglove", "tcp://127.0.0.1:9", "--port", str(taken.getsockname()[1])])
    assert found.exit_code == 2
    assert "choose another --port" in found.output
    assert CliRunner().invoke(app, ["foxglove", "nowhere"]).exit_code == 2
