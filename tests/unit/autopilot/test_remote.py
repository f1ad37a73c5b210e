"""Vehicles flown elsewhere: the hub's and the members' side over real sockets, dying and coming back."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import zmq

from cosim.autopilot.member import fleet_of
from cosim.autopilot.remote import (
    FROM_HUB,
    FROM_MEMBER,
    LAYOUT,
    Hub,
    HubVehicle,
    Lock,
    MemberStep,
    VehicleSession,
    flown,
    ground,
    take,
)  # fmt: skip
from cosim.contract.errors import ProtocolError, SetupError
from cosim.physics.vehicles import Copter, VehicleFleet, Waypoint
from cosim.physics.vehicles import fleet as dynamics
from cosim.physics.vehicles.layout import ITEM, STATE
from cosim.physics.vehicles.terrain import Terrain
from cosim.talk import keys
from cosim.talk.codec import Message


class Remote:
    """A member with a fleet of its own, in a thread of its own."""

    def __init__(self, address, node):
        self.node, self.address = node, address
        self.fleet, self.grants, self.over, self.answers = None, 0, False, True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        member = VehicleSession(self.address, self.node)
        while not self._stop.is_set():
            message = member.turn()
            if message is None:
                member.socket.poll(10)
                continue
            if message.kind == "welcome":
                self.fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
                state, items = np.frombuffer(message.body["row"], STATE), np.frombuffer(message.body["items"], ITEM)
                self.fleet.restore(state, items, message.body["now"])
            elif message.kind == "bye":
                self.over = True
            elif message.kind == "grant" and self.answers:
                self.grants += 1
                if message.body["row"]:
                    take(self.fleet, 0, message.body["row"], message.body["items"])
                self.fleet.wind[0] = message.body["wind"]
                self.fleet.advance(message.body["until"])
                member.done(message.number, MemberStep(flown(self.fleet, 0)[0], b"", {}, ("well",)))
        member.close()

    def end(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture
def scene():
    fleet = VehicleFleet([Copter(), Copter()], [(0.0, 0.0, 0.0), (50.0, 0.0, 0.0)])
    fleet.set_mission(0, [Waypoint(30, 0, 10), Waypoint(30, 40, 10)])
    fleet.set_mission(1, [Waypoint(50, 30, 20)])
    rows = {"a": flown(fleet, 0), "b": flown(fleet, 1)}
    entries = {name: HubVehicle(fleet.frames[k : k + 1].tobytes(), {}) for k, name in enumerate("ab")}
    hub, remotes = Hub(entries, rows), []
    address = hub.open()

    def come(name):
        remotes.append(Remote(address, name))
        assert hub.wait([name], 20.0) == set()
        return remotes[-1]

    yield hub, fleet, come, address
    for remote in remotes:
        remote.end()
    hub.close()


def test_a_program_flies_over_the_ground_that_the_run_tells_of(scene):
    """A copter that lands 40 m to the east of home, where the ground is 8 m higher, stops there."""
    hub, fleet, _, address = scene
    hub.terrain = Terrain(np.array([-100.0, -100.0, 10.0]), np.tile(0.2 * np.arange(-100.0, 101.0, 10.0), (21, 1)))
    member = VehicleSession(address, "a")
    while (message := member.turn()) is None:
        hub.wait(["nobody"], 0.02)
    member.close()
    reported = ground(message.body)
    assert np.array_equal(reported.heights, hub.terrain.heights)
    assert np.array_equal(reported.box, hub.terrain.box)
    record, items = flown(fleet, 0)
    one = fleet_of(fleet.frames[:1].tobytes(), record, items, 0.0, reported)
    one.arm([0])
    one.set_mission(0, [Waypoint(z=20, what="take-off"), Waypoint(40, 0, 20), Waypoint(40, what="land")])
    one.start_mission([0])
    one.advance(120.0)
    assert len(dynamics._advance.signatures) == 1  # the one that is compiled already
    assert one.state[0]["landed"]
    assert one.state[0]["x"] == pytest.approx(40.0, abs=2.5)
    assert one.state[0]["z"] == pytest.approx(0.2 * one.state[0]["x"], abs=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"columns": 0}, {"columns": 2}, {"heights": np.full(3, np.nan).tobytes()}, {"box": [0.0] * 3}]
)
def test_ground_that_is_no_grid_is_refused(wrong):
    with pytest.raises(ProtocolError, match="no grid"):
        ground({"box": [0.0, 0.0, 1.0], "columns": 3, "heights": np.zeros(3).tobytes(), **wrong})
    assert ground({"box": [0.0] * 3, "columns": 0, "heights": b""}) is None


def named(node):
    return f"node-{node}"


@pytest.fixture
def locked(scene, tmp_path):
    """A hub with a lock, and a function that gives the keys of whom it knows."""
    _, fleet, _, _ = scene
    server = keys.server_key(tmp_path)
    made = {name: keys.make(name, server.public) for name in ("node-a", "node-b", "stranger")}
    for name in ("node-a", "node-b"):
        keys.write(made[name], tmp_path)
    rows = {"a": flown(fleet, 0), "b": flown(fleet, 1)}
    entries = {name: HubVehicle(fleet.frames[k : k + 1].tobytes(), {}) for k, name in enumerate("ab")}
    lock = Lock(tmp_path, named)
    hub = Hub(entries, rows, lock=lock)
    address = hub.open()
    members = []

    def member(name, node, **more):
        members.append(VehicleSession(address, node, key=replace(made[name], **more)))
        return members[-1]

    yield hub, member, address
    for one in members:
        one.close()
    hub.close()
    hub.close()


def heard(hub, member, seconds=10.0):
    """The first message for the member, while the hub looks at what comes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hub.wait(["nobody"], 0.02)
        message = member.turn()
        if message is not None:
            return message.kind
    return ""


def test_with_a_lock_a_member_proves_who_it_is(locked):
    hub, member, _ = locked
    own = member("node-a", "a")
    assert heard(hub, own) == "welcome"
    assert hub.present == {"a"}
    hub.advance({"a": hub.rows["a"], "b": hub.rows["b"]}, 1.0, {"a": (0, 0, 0), "b": (0, 0, 0)}, 0.0)
    assert hub.losses == {"a": 1}  # it was granted time and said nothing


def test_nobody_gets_in_by_another_key_than_the_vehicles_own(locked, caplog):
    hub, member, address = locked
    own = member("node-a", "a")
    assert heard(hub, own) == "welcome"
    for other in (member("node-b", "a"), member("stranger", "a"), VehicleSession(address, "a"),
                  member("node-a", "a", server=keys.make("x").public)):  # fmt: skip
        assert heard(hub, other, 0.7) == ""
        assert hub.present == {"a"}
        other.close()
    assert hub.losses == {}
    assert "unknown key was refused" in caplog.text
    assert heard(hub, member("node-b", "b")) == "welcome"


def test_an_identity_that_was_taken_over_speaks_for_nobody(locked):
    hub, member, _ = locked
    own, thief = member("node-a", "a"), member("node-b", "b")
    assert heard(hub, own) == "welcome"
    (identity,) = [peer.identity for peer in hub._peers.values()]
    with pytest.raises(ProtocolError, match="not that of 'a'"):
        hub._handle(identity, "node-b", Message("bye", {}))
    assert hub.present == {"a"}
    assert heard(hub, thief) == "welcome"


def test_a_lock_that_cannot_be_opened_leaves_nothing(tmp_path):
    lock = Lock(tmp_path, named)
    with pytest.raises(SetupError, match="cannot listen at"):
        Hub({}, {}, "tcp://127.0.0.1:not-a-port", lock=lock).open()


def step(hub, fleet, until, timeout=30.0):
    """One step of the run: members first, the others fly on here."""
    before = {name: flown(fleet, k) for k, name in enumerate("ab")}
    fleet.advance(until)
    done = hub.advance(before, until, {"a": (0, 0, 0), "b": (0, 0, 0)}, timeout)
    for name, what in done.items():
        take(fleet, "ab".index(name), what.row, what.items)
    return done


def test_a_member_flies_as_the_run_would_have(scene):
    hub, fleet, come, _ = scene
    alone = VehicleFleet([Copter(), Copter()], [(0.0, 0.0, 0.0), (50.0, 0.0, 0.0)])
    alone.set_mission(0, [Waypoint(30, 0, 10), Waypoint(30, 40, 10)])
    alone.set_mission(1, [Waypoint(50, 30, 20)])
    come("a")
    come("b")
    for k in range(1, 60):
        for each in (fleet, alone):
            if k == 2:
                each.arm([0, 1])
                each.take_off([0, 1], 10.0)
            if k == 12:
                each.start_mission([0, 1])
        done = step(hub, fleet, k * 0.5)
        assert set(done) == {"a", "b"}
        alone.advance(k * 0.5)
    assert fleet.state.tobytes() == alone.state.tobytes()
    assert np.hypot(fleet.state["x"][0] - 30, fleet.state["y"][0]) < 45


def test_who_does_not_answer_is_gone_until_it_comes_again(scene):
    hub, fleet, come, _ = scene
    remote = come("a")
    fleet.arm([0, 1])
    fleet.take_off([0, 1], 10.0)
    assert set(step(hub, fleet, 1.0)) == {"a"}
    remote.answers = False
    assert step(hub, fleet, 2.0, timeout=0.2) == {}
    assert hub.present == frozenset()
    assert fleet.state["z"][0] > 0.5, "it is flown on where it was"
    remote.answers = True
    assert hub.wait(["a"], 20.0) == set()
    assert set(step(hub, fleet, 3.0)) == {"a"}
    assert remote.fleet.now == 3.0
    assert fleet.state["z"][0] == fleet.state["z"][1]


def test_nobody_comes_to_a_run_that_is_over(scene):
    hub, _, come, address = scene
    remote = come("a")
    late = threading.Thread(target=hub.close)
    late.start()
    other = VehicleSession(address, "b")
    end = time.monotonic() + 3.0
    while late.is_alive() and time.monotonic() < end:
        assert other.turn() is None
        time.sleep(0.01)
    late.join()
    while not remote.over:
        time.sleep(0.01)
    other.close()


def test_a_late_answer_is_not_taken_for_a_new_one(scene):
    hub, fleet, _, address = scene
    member = VehicleSession(address, "a")
    while "a" not in hub.present:
        member.turn()
        hub.wait(["a"], 0.05)
    assert step(hub, fleet, 1.0, timeout=0.1) == {}
    member.done(1, MemberStep(b"\0" * STATE.itemsize, b"", {}, ()))
    time.sleep(0.1)
    hub.rest()
    assert hub.present == frozenset()
    member.close()


def test_the_second_of_a_name_takes_the_place_of_the_first(scene):
    hub, fleet, come, _ = scene
    first = come("a")
    first.answers = False
    second = come("a")
    while second.fleet is None:
        hub.rest()
    assert set(step(hub, fleet, 1.0)) == {"a"}
    assert (first.grants, second.grants) == (0, 1)


def test_strangers_and_other_versions_are_turned_away(scene):
    hub, _, _, address = scene
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(address)
    for hello, why in (
        (FROM_MEMBER.pack("hello", {"node": "c", "layout": LAYOUT}), "no vehicle 'c'"),
        (FROM_MEMBER.pack("hello", {"node": "a", "layout": "old"}), "another version"),
        (FROM_MEMBER.pack("alive"), "not known"),
        (b"noise", "no message"),
    ):
        socket.send(hello)
        while not socket.poll(5):
            hub.rest()
        assert why in FROM_HUB.unpack(socket.recv()).body["why"]
    assert hub.present == frozenset()
    socket.close()


def test_the_end_of_the_run_is_told(scene):
    hub, _, come, _ = scene
    remote = come("b")
    hub.close()
    end = time.monotonic() + 60.0
    while not remote.over and time.monotonic() < end:
        time.sleep(0.01)
    assert remote.over


def test_a_member_that_is_replaced_was_lost_and_one_that_asks_again_was_not(scene):
    hub, _, _, address = scene
    context = zmq.Context.instance()
    hello = FROM_MEMBER.pack("hello", {"node": "a", "layout": LAYOUT})
    first, second = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
    try:
        for socket in (first, second):
            socket.connect(address)
        for socket, losses in ((first, 0), (first, 0), (second, 1), (second, 1)):
            socket.send(hello)
            while not socket.poll(0):
                hub._receive(1.0)
            assert FROM_HUB.unpack(socket.recv()).kind == "welcome"
            assert (hub.losses["a"], hub.present) == (losses, {"a"})
        second.send(FROM_MEMBER.pack("bye"))
        while hub.present:
            hub._receive(1.0)
        assert hub.losses["a"] == 2
    finally:
        first.close(0)
        second.close(0)
