"""What the network service says to sidecars that shape, and who carries the links when they cannot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.contract.link import DOWN, LinkState
from cosim.talk.codec import Message
from cosim.testbed.emulation import orders, relay
from cosim.testbed.emulation.handover import Announcement, PortRefusedError
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.relay import Relay, RelayChoice
from cosim.testbed.emulation.state import Health
from tests.unit.testbed.emulation.conftest import mac

FAST, SLOW = LinkState(1e9, 0.0, 0.0, 0.0), LinkState(1e6, 0.01, 0.001, 0.1)


class Sidecars:
    """They keep what they are told, as those in the nodes do."""

    def __init__(self):
        self.links, self.places, self.deaf = {}, {}, set()

    def send_to(self, node, kind, body):
        if node in self.deaf:
            return False
        body = orders.TO_SIDECAR.unpack(orders.TO_SIDECAR.pack(kind, body)).body
        for (sender, address, interface), state in orders.states_of(body) if kind == "links" else ():
            assert sender == node
            self.links.setdefault(node, {})[interface, address] = state
        for interface, address, at in body.get("peers", ()):
            self.places.setdefault(node, {})[interface, address] = at
        return True


NUMBER = {"a": 1, "b": 2, "c": 3}


@pytest.fixture
def sidecars():
    return Sidecars()


@pytest.fixture
def backend(sidecars):
    made = Relay()
    made.send_to = sidecars.send_to
    return made


def come(backend, node, interface="eth1", at=""):
    backend.announced(Announcement(node, interface, mac(NUMBER[node]), at))
    backend.attach(node, interface, -1, mac(NUMBER[node]))


def test_each_sidecar_is_told_the_links_from_its_node_by_mac(backend, sidecars):
    backend.links({("a", "b", "eth1"): FAST, ("b", "a", "eth1"): SLOW})  # before anybody is there
    for node in "ab":
        come(backend, node)
        backend.wanted(node)
    assert sidecars.links == {"a": {("eth1", mac(2)): FAST}, "b": {("eth1", mac(1)): SLOW}}
    assert sidecars.places == {}  # on one wire
    backend.links({("a", "b", "eth1"): DOWN})
    assert sidecars.links["a"]["eth1", mac(2)] == DOWN


def test_nothing_is_said_to_a_sidecar_that_still_hands_over(backend, sidecars):
    come(backend, "a")
    backend.links({("a", "b", "eth1"): FAST})
    come(backend, "b")
    assert sidecars.links == {}


def test_everybody_learns_where_others_are_and_where_they_are_next(backend, sidecars):
    for number, node in enumerate("abc"):
        come(backend, node, at=f"172.20.0.{number + 2}")
        backend.wanted(node)
    assert sidecars.places["a"] == {("eth1", mac(2)): "172.20.0.3", ("eth1", mac(3)): "172.20.0.4"}
    assert sidecars.places["c"] == {("eth1", mac(1)): "172.20.0.2", ("eth1", mac(2)): "172.20.0.3"}
    backend.detach("b", "eth1")
    come(backend, "b", at="172.20.0.9")
    backend.wanted("b")
    assert sidecars.places["a"]["eth1", mac(2)] == "172.20.0.9"
    assert sidecars.places["b"]["eth1", mac(1)] == "172.20.0.2"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.sampled_from("abc"), st.sampled_from(["172.20.0.5", "172.20.0.6"])),
        st.tuples(st.just("go"), st.sampled_from("abc"), st.just("")),
        st.tuples(st.just("deaf"), st.sampled_from("abc"), st.just("")),
        st.tuples(st.just("link"), st.permutations("abc"), st.sampled_from([FAST, SLOW, DOWN])),
    ),
    max_size=30,
)


@given(steps)
def test_in_the_end_all_who_are_there_know_the_last_of_everything(steps):
    sidecars, backend = Sidecars(), Relay()
    backend.send_to = sidecars.send_to
    states, places, there = {}, {}, set()
    for what, who, more in steps:
        if what == "come":
            sidecars.links.pop(who, None)  # made anew, it knows nothing
            sidecars.places.pop(who, None)
            come(backend, who, at=more)
            backend.wanted(who)
            places[who] = more
            there.add(who)
        elif what == "go":
            backend.detach(who, "eth1")
            there.discard(who)
        elif what == "deaf":
            sidecars.deaf ^= {who}
        else:
            states[who[0], who[1]] = more
            backend.links({(who[0], who[1], "eth1"): more})
    sidecars.deaf.clear()
    backend.health()  # each second
    for node in there:
        expected = {("eth1", mac(NUMBER[b])): state for (a, b), state in states.items() if a == node and b in places}
        assert sidecars.links.get(node, {}) == expected
        others = {("eth1", mac(NUMBER[b])): at for b, at in places.items() if b != node}
        assert sidecars.places.get(node, {}) == others


def test_counts_and_health_come_from_sidecars(backend):
    come(backend, "a")
    come(backend, "b")
    backend.heard("a", Message("shaped", {"health": [10, 2, 0.5], "counts": [["eth1", mac(2), 10, 5000, 2]]}))
    backend.heard("b", Message("shaped", {"health": [1, 0, 0.5], "counts": [["eth1", mac(9), 1, 1, 1]]}))
    assert backend.counts() == {("a", "b", "eth1"): PairCount(10, 5000, 0, 2)}
    found = backend.health()
    assert (found.received, found.delivered, found.dropped) == (13, 11, 2)
    assert found.cpu > 1.0
    assert backend.health().received == 0


@pytest.mark.parametrize(
    "wrong", [{"health": [1]}, {"health": 3}, {"counts": [[1]]}, {"counts": 5}, {"counts": [[{}, [], 1, 2, 3]]}]
)
def test_reports_of_another_form_do_not_arrive(wrong):
    with pytest.raises(ProtocolError, match="of a 'shaped'"):
        orders.FROM_SIDECAR.pack("shaped", {"health": [0, 0, 0.0], "counts": []} | wrong)


def test_what_a_sidecar_refuses_is_said_by_name(backend):
    come(backend, "a")
    come(backend, "b")
    assert backend.heard("a", Message("unshaped", {"error": f"cannot delay to {mac(2)}"})) == "a: cannot delay to b"
    assert backend.heard("a", Message("shaped", {"health": [0, 0, 0.0], "counts": []})) == ""


def test_impossible_states_are_refused_at_once(backend):
    with pytest.raises(ProtocolError):
        backend.links({("a", "b", "eth1"): LinkState(math.nan, 0.0, 0.0, 0.0)})


class Other:
    """Another backend, which holds ports and states."""

    restarts = 0

    def __init__(self):
        self.ports, self.states = {}, {}

    def attach(self, node, interface, descriptor, mac):
        self.ports[node, interface] = descriptor

    def links(self, states):
        self.states.update(states)

    def health(self):
        return Health(True, 0.0, 0.0, 0, 0, 0, 0.0, 0.0)


def test_the_first_sidecar_decides_for_traffic_control(sidecars):
    choice = RelayChoice(lambda: pytest.fail("not needed"))
    choice.reached_by(sidecars.send_to)
    choice.links({("a", "b", "eth1"): SLOW})
    for node in "ab":
        come(choice, node)
        choice.wanted(node)
    assert choice.name == f"traffic control ({relay.APART})"
    assert sidecars.links == {"a": {("eth1", mac(2)): SLOW}}
    with pytest.raises(PortRefusedError, match="traffic control"):
        choice.announced(Announcement("c", "eth1", mac(3), remark="no netem"))


def test_a_kernel_that_cannot_has_linkd_and_it_is_said():
    other = Other()
    choice = RelayChoice(lambda: (other, "linkd"), "auto was asked for")
    choice.links({("a", "b", "eth1"): SLOW})
    choice.announced(Announcement("a", "eth1", mac(1), remark="this kernel has no netem"))
    choice.attach("a", "eth1", 7, mac(1))
    assert other.ports == {("a", "eth1"): 7}
    assert other.states == {("a", "b", "eth1"): SLOW}
    assert choice.name == "linkd (auto was asked for, but this kernel has no netem)"
    with pytest.raises(PortRefusedError, match="linkd"):
        choice.announced(Announcement("b", "eth1", mac(2), at=""))
    choice.links({("a", "b", "eth1"): FAST})
    assert other.states == {("a", "b", "eth1"): FAST}
    assert choice.health().alive
