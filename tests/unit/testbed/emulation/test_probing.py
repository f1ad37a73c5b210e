"""Orders of probes, and what sidecars do with them, over the loopback interface."""

from __future__ import annotations

import json
import math
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.testbed.emulation import probing
from cosim.testbed.emulation.probing import Inside, Orders, Probe
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

    def tell(self, node, word):
        self.said.append((node, word))
        return node not in self._absent


def test_pairs_are_probed_one_after_the_other():
    sidecars = Sidecars()
    orders = Orders(sidecars.tell)
    orders.ask(AB, 5e6, SESSION, 1)
    orders.ask(BA, math.inf, SESSION, 1)
    orders.serve()
    orders.serve()
    orders.heard("b", {"probe": 1, "address": "10.0.0.2", "port": 99})
    orders.heard("a", {"probe": 1, "found": [0.1, 0.01, 50, 40, 4e6]})
    orders.serve()
    orders.heard("a", {"probe": 2, "address": "10.0.0.1", "port": 98})
    assert sidecars.said == [
        ("b", {"probe": 1, "do": "answer", "interface": "wlan0"}),
        ("a", {"probe": 1, "do": "ask", "to": "10.0.0.2", "port": 99, "rate": 5e6}),
        ("b", {"probe": 1, "do": "end"}),
        ("a", {"probe": 2, "do": "answer", "interface": "wlan0"}),
        ("b", {"probe": 2, "do": "ask", "to": "10.0.0.1", "port": 98, "rate": 0.0}),
    ]
    assert dict(orders.found) == {AB: Probe(SESSION, 1, 0.1, 0.01, 50, 40, 4e6)}


@pytest.mark.parametrize(
    ("node", "word", "said"),
    [
        ("b", {"probe": 1, "error": "no such interface"}, "b: no such interface"),
        ("a", {"probe": 1, "found": [1]}, "does not say"),
        ("a", {"probe": 1, "found": "much"}, "does not say"),
    ],
)
def test_what_goes_wrong_is_kept(node, word, said):
    orders = Orders(Sidecars().tell)
    orders.ask(AB, 5e6, SESSION, 1)
    orders.serve()
    orders.heard(node, word)
    assert said in orders.found[AB].error


@given(st.sampled_from(["a", "b", "c"]), st.dictionaries(st.sampled_from(["probe", "found", "port"]), st.integers()))
def test_words_that_belong_to_nothing_are_passed_over(node, word):
    orders = Orders(Sidecars().tell)
    orders.heard(node, word)
    orders.ask(AB, 5e6, SESSION, 1)
    orders.serve()
    orders.heard(node, {**word, "probe": 2})
    orders.heard("c", {**word, "probe": 1})
    assert not orders.found


def test_without_sidecar_or_answer_it_is_given_up(monkeypatch):
    orders = Orders(Sidecars("c").tell)
    orders.ask(("a", "c", "wlan0"), 5e6, SESSION, 1)
    orders.ask(("c", "b", "wlan0"), 5e6, SESSION, 1)
    orders.serve()
    assert orders.found["a", "c", "wlan0"].error == "c has no sidecar"
    orders.heard("b", {"probe": 2, "port": 1})
    assert orders.found["c", "b", "wlan0"].error == "c has no sidecar"
    monkeypatch.setattr(probing, "LIMIT", -1.0)
    orders.ask(AB, 5e6, SESSION, 2)
    orders.serve()
    orders.serve()
    assert "nothing comes through" in orders.found[AB].error


def test_not_too_many_wait():
    orders = Orders(Sidecars().tell)
    for number in range(probing.WAITING + 1):
        orders.ask(("a", str(number), "wlan0"), 5e6, SESSION, 1)
    assert "probes wait" in orders.found["a", str(probing.WAITING), "wlan0"].error


class Node:
    """A sidecar's part at one end of a connection."""

    def __init__(self):
        self.service, self.link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.inside = Inside(self.link, {"lo": "127.0.0.1"})
        self.service.settimeout(20)

    def asks(self, word):
        self.inside.take(json.dumps(word).encode())
        return self.heard()

    def heard(self):
        return json.loads(self.service.recv(4096))

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
    there = far.asks({"probe": 7, "do": "answer", "interface": "lo"})
    assert there["address"] == "127.0.0.1"
    word = {"probe": 7, "do": "ask", "to": "127.0.0.1", "port": there["port"], "rate": 4e6}
    delay, deviation, sent, received, rate = near.asks(word)["found"]
    assert 0 < delay < 0.1
    assert deviation >= 0
    assert (sent, received) == (50, 50)
    assert rate == pytest.approx(5e6, rel=0.5)  # nothing limits what is offered
    far.inside.take(json.dumps({"probe": 7, "do": "end"}).encode())
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "probe"])
    monkeypatch.setattr(probing.probe, "PATIENCE", 0.01)
    assert "no answer" in near.asks({**word, "probe": 8})["error"]


def test_what_a_sidecar_cannot_do_it_says(nodes):
    assert "eth9" in nodes[0].asks({"probe": 1, "do": "answer", "interface": "eth9"})["error"]
    assert "error" in nodes[0].asks({"probe": 1, "do": "ask", "to": "127.0.0.1", "port": "x", "rate": 1})
    for nonsense in (b"", b"[", b"[]", b'{"probe": "x", "do": 1}'):
        nodes[0].inside.take(nonsense)
    nodes[0].service.setblocking(False)
    with pytest.raises(BlockingIOError):
        nodes[0].service.recv(10)
