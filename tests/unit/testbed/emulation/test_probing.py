"""Orders of probes, and what sidecars do with them, over the loopback interface."""

from __future__ import annotations

import math
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.talk.codec import Message
from cosim.testbed.emulation import probing
from cosim.testbed.emulation.orders import FROM_SIDECAR, TO_SIDECAR
from cosim.testbed.emulation.probing import Inside, Probe, ProbeOrders
from tests.unit.testbed.emulation.conftest import until

AB, BA = ("a", "b", "wlan0"), ("b", "a", "wlan0")
SESSION = "0123456789abcdef"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(probing, "ECHOES", 10)
    monkeypatch.setattr(probing, "COUNTED", 50)
    monkeypatch.setattr(probing.probe, "PATIENCE", 0.2)


class Sidecars:
    """Notes what it is told to say; `absent` nodes have no sidecar."""

    def __init__(self, *absent):
        self.said, self._absent = [], absent

    def send_to(self, node, kind, body):
        TO_SIDECAR.pack(kind, body)
        self.said.append((node, kind, body))
        return node not in self._absent


def test_pairs_are_probed_one_after_the_other():
    sidecars = Sidecars()
    orders = ProbeOrders(sidecars.send_to)
    orders.ask(AB, 5e6, SESSION, 1)
    orders.ask(BA, math.inf, SESSION, 1)
    orders.serve()
    orders.serve()
    orders.heard("b", Message("answering", {"probe": 1, "address": "10.0.0.2", "port": 99}))
    orders.heard("a", Message("found", {"probe": 1, "figures": [0.1, 0.01, 50, 40, 4e6]}))
    orders.serve()
    orders.heard("a", Message("answering", {"probe": 2, "address": "10.0.0.1", "port": 98}))
    assert sidecars.said == [
        ("b", "answer", {"probe": 1, "interface": "wlan0"}),
        ("a", "ask", {"probe": 1, "to": "10.0.0.2", "port": 99, "rate": 5e6}),
        ("b", "end", {"probe": 1}),
        ("a", "answer", {"probe": 2, "interface": "wlan0"}),
        ("b", "ask", {"probe": 2, "to": "10.0.0.1", "port": 98, "rate": 0.0}),
    ]
    assert dict(orders.found) == {AB: Probe(SESSION, 1, 0.1, 0.01, 50, 40, 4e6)}


def test_what_goes_wrong_is_kept():
    orders = ProbeOrders(Sidecars().send_to)
    orders.ask(AB, 5e6, SESSION, 1)
    orders.serve()
    orders.heard("b", Message("failed", {"probe": 1, "error": "no such interface"}))
    assert orders.found[AB].error == "b: no such interface"


KINDS = {
    "answering": {"address": "10.0.0.2", "port": 9}, "found": {"figures": [0.1, 0.0, 1, 1, 1.0]},
    "failed": {"error": "why"},
}  # fmt: skip


@given(st.sampled_from(["a", "b", "c"]), st.sampled_from([*KINDS]))
def test_messages_that_belong_to_nothing_are_passed_over(node, kind):
    orders = ProbeOrders(Sidecars().send_to)
    orders.heard(node, Message(kind, {**KINDS[kind], "probe": 1}))
    orders.ask(AB, 5e6, SESSION, 1)
    orders.serve()
    orders.heard(node, Message(kind, {**KINDS[kind], "probe": 2}))
    if kind != "failed":
        orders.heard("c", Message(kind, {**KINDS[kind], "probe": 1}))
    assert not orders.found


def test_without_sidecar_or_answer_it_is_given_up(monkeypatch):
    orders = ProbeOrders(Sidecars("c").send_to)
    orders.ask(("a", "c", "wlan0"), 5e6, SESSION, 1)
    orders.ask(("c", "b", "wlan0"), 5e6, SESSION, 1)
    orders.serve()
    assert orders.found["a", "c", "wlan0"].error == "c has no sidecar"
    orders.heard("b", Message("answering", {"probe": 2, "address": "10.0.0.2", "port": 1}))
    assert orders.found["c", "b", "wlan0"].error == "c has no sidecar"
    monkeypatch.setattr(probing, "LIMIT", -1.0)
    orders.ask(AB, 5e6, SESSION, 2)
    orders.serve()
    orders.serve()
    assert "nothing comes through" in orders.found[AB].error


def test_not_too_many_wait():
    orders = ProbeOrders(Sidecars().send_to)
    for number in range(probing.WAITING + 1):
        orders.ask(("a", str(number), "wlan0"), 5e6, SESSION, 1)
    assert "probes wait" in orders.found["a", str(probing.WAITING), "wlan0"].error


class Node:
    """A sidecar's part at one end of a connection."""

    def __init__(self):
        self.service, self.link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inside = Inside(self.link, {"lo": "127.0.0.1"})
        self.service.settimeout(20)

    def asks(self, kind, **body):
        self.inside.take(Message(kind, body))
        return FROM_SIDECAR.unpack(self.service.recv(4096)).body

    def close(self):
        self.inside.close()
        self.service.close()
        self.link.close()


@pytest.fixture
def nodes():
    made = Node(), Node()
    yield made
    for node in made:
        node.close()


def test_one_asks_what_the_other_answers(nodes, monkeypatch):
    monkeypatch.setattr(probing, "carried", lambda _: 0)  # other tests use the same interface
    near, far = nodes
    there = far.asks("answer", probe=7, interface="lo")
    assert there["address"] == "127.0.0.1"
    asked = {"to": "127.0.0.1", "port": there["port"], "rate": 4e6}
    delay, deviation, sent, received, rate = near.asks("ask", probe=7, **asked)["figures"]
    assert 0 < delay < 0.1
    assert deviation >= 0
    assert (sent, received) == (50, 50)
    assert rate == pytest.approx(5e6, rel=0.5)  # nothing limits what is offered
    far.inside.take(Message("end", {"probe": 7}))
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "probe"])
    monkeypatch.setattr(probing.probe, "PATIENCE", 0.01)
    assert "no answer" in near.asks("ask", probe=8, **asked)["error"]


def test_what_a_sidecar_cannot_do_it_says(nodes):
    assert "eth9" in nodes[0].asks("answer", probe=1, interface="eth9")["error"]
    for kind, body in (("taken", {}), ("routes", {"routes": []})):
        nodes[0].inside.take(Message(kind, body))
    nodes[0].service.setblocking(False)
    with pytest.raises(BlockingIOError):
        nodes[0].service.recv(10)
