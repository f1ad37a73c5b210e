"""What of traffic control can be known without a kernel that shapes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.link import DOWN, TOLERANCE, LinkState, differs
from cosim.testbed.emulation import rtnetlink
from cosim.testbed.emulation.tc import HANDLE, QUEUE, TcBackend, _Port, packets, probe_netem

ADDRESSES = {("a", "wlan0"): "10.9.0.1", ("b", "wlan0"): "10.9.0.2"}
positive = st.floats(1e-6, 1e9)


def test_probing_gives_a_reason_or_none():
    reason = probe_netem()
    assert reason == "" or "netem" in reason


@given(positive, st.floats(-0.9 * TOLERANCE, 0.9 * TOLERANCE))
def test_small_changes_are_not_sent(rate, change):
    assert not differs(LinkState(rate * (1 + change), 0.02, 0.0, 0.1), LinkState(rate, 0.02, 0.0, 0.1))


@given(positive, st.floats(1.1 * TOLERANCE, 10), st.sampled_from([0, 1, 2, 3]))
def test_larger_changes_are_sent(value, change, place):
    old = [value] * 4
    new = list(old)
    new[place] *= 1 + change
    assert differs(LinkState(*new), LinkState(*old))


@pytest.mark.parametrize("place", range(4))
def test_reaching_and_leaving_zero_is_always_sent(place):
    some, none = [1e-9] * 4, [1e-9] * 4
    none[place] = 0.0
    assert differs(LinkState(*some), LinkState(*none))
    assert differs(LinkState(*none), LinkState(*some))


def test_no_limit_differs_from_any():
    assert differs(LinkState(math.inf, 0, 0, 0), LinkState(1e9, 0, 0, 0))
    assert differs(LinkState(1e9, 0, 0, 0), LinkState(math.inf, 0, 0, 0))
    assert not differs(LinkState(math.inf, 0, 0, 0), LinkState(math.inf, 0, 0, 0))


def test_the_queue_holds_what_is_under_way():
    assert packets(LinkState(5e6, 0.0, 0.0, 0.0)) == QUEUE
    assert packets(LinkState(12e6, 0.1, 0.0, 0.0)) == QUEUE + 150  # 100 packets of 1500 B and half as many
    assert packets(LinkState(12e6, 0.1, 0.02, 0.0)) == QUEUE + 180  # jitter holds packets back as delay does
    assert packets(LinkState(math.inf, 0.02, 0.0, 0.0)) < 2**31
    assert packets(DOWN) == QUEUE


def test_addresses_must_be_ipv4():
    with pytest.raises(ScenarioError, match=r"nodes\.b.*'fe80::1'.*IPv4"):
        TcBackend({("a", "wlan0"): "10.9.0.1", ("b", "wlan0"): "fe80::1"})


def test_all_addresses_are_macs_or_none_is():
    TcBackend({("a", "wlan0"): "02:00:0a:09:00:01", ("b", "wlan0"): "02:00:0a:09:00:02"})
    with pytest.raises(ScenarioError, match=r"nodes\.b.*'10\.9\.0\.2'.*MAC"):
        TcBackend({("a", "wlan0"): "02:00:0a:09:00:01", ("b", "wlan0"): "10.9.0.2"})


def test_without_netem_delays_are_refused_and_not_forgotten_silently():
    backend = TcBackend(ADDRESSES, netem=False)
    backend.links({("a", "b", "wlan0"): LinkState(1e6, 0.0, 0.0, 0.0), ("b", "a", "wlan0"): DOWN})
    with pytest.raises(SetupError, match="netem"):
        backend.links({("a", "b", "wlan0"): LinkState(1e6, 0.01, 0.0, 0.0)})


@pytest.mark.parametrize(
    "change", [{"burst": 9.0}, {"reorder": 0.5}, {"duplicate": 0.1}, {"jitter": 0.009}, {"delay": 0.05}]
)
def test_the_queue_of_a_link_follows_all_that_it_imposes(change):
    old = LinkState(1e6, 0.02, 0.001, 0.1, burst=4.0, reorder=0.01)
    sent = []
    port = _Port(SimpleNamespace(send=lambda messages: sent.extend(messages) or []), 1, {"b": old})
    backend = TcBackend(ADDRESSES)
    backend._ports["a", "wlan0"] = port
    backend.links({("a", "b", "wlan0"): old._replace(**change)})
    assert sent == [rtnetlink.netem(1, 0x1002 << 16, HANDLE + 2, old._replace(**change), packets(port.imposed["b"]))]


def test_an_idle_backend():
    backend = TcBackend(ADDRESSES)
    backend.detach("nobody", "wlan0")
    backend.move({"a": (0.0, 0.0, 0.0)})
    assert backend.health().alive
    backend.close()
    backend.close()
    assert not backend.health().alive
