"""Traffic control in network namespaces: asked of the kernel, and measured with packets."""

from __future__ import annotations

import math
import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError, SetupError
from cosim.contract.link import DOWN, TOLERANCE, LinkState
from cosim.testbed.emulation import netns
from cosim.testbed.emulation.tc import TcBackend, probe_netem
from tests.examples import WITH_FIXTURES

pytestmark = pytest.mark.netns

ADDRESSES = {("a", "veth0"): "10.9.0.1", ("b", "veth0"): "10.9.0.2", ("c", "veth0"): "10.9.0.3"}


def run(command: str) -> str:
    return subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout


class Wire:
    """Two namespaces joined by a pair of devices: node a, and another that answers for b and c."""

    def __init__(self, spaces: netns.Namespaces) -> None:
        self._here, self._there = spaces.create("here"), spaces.create("there")
        self.here = self._here.name
        run(f"ip link add veth0 netns {self.here} type veth peer name veth0 netns {self._there.name}")
        run(f"ip -n {self.here} addr add 10.9.0.1/24 dev veth0")
        for address in ("10.9.0.2", "10.9.0.3"):
            run(f"ip -n {self._there.name} addr add {address}/24 dev veth0")
        for name in (self.here, self._there.name):
            run(f"ip -n {name} link set veth0 up")

    def descriptor(self) -> int:
        return os.open(self._here, os.O_RDONLY)

    def socket(self, namespace: Path) -> socket.socket:
        return netns.inside(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))

    def rate(self, address: str, offered: float, seconds: float = 1.0) -> float:
        """bit/s of frames that arrive when `offered` bit/s are sent."""
        frame, payload = 1442, b"x" * 1400
        with self.socket(self._here) as sender, self.socket(self._there) as receiver:
            receiver.bind((address, 5000))
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            start = now = time.monotonic()
            sent = counted = 0
            opened = start + 0.2  # after the first burst
            while now < start + 0.2 + seconds:
                while sent * frame * 8 < offered * (now - start):
                    try:
                        sender.sendto(payload, (address, 5000))
                    except BlockingIOError:
                        break
                    sent += 1
                try:
                    while True:
                        receiver.recv(2048)
                        counted += now >= opened
                except BlockingIOError:
                    time.sleep(0.0005)
                now = time.monotonic()
            return counted * frame * 8 / (now - opened)

    def classes(self) -> str:
        return run(f"tc -n {self.here} class show dev veth0")


@pytest.fixture
def wire():
    with netns.Namespaces() as spaces:
        yield Wire(spaces)


@pytest.fixture
def backend(wire):
    made = TcBackend(ADDRESSES, netem=False)
    made.attach("a", "veth0", wire.descriptor(), "")
    yield made
    made.close()


def state(rate: float) -> LinkState:
    return LinkState(rate, 0.0, 0.0, 0.0)


def near(rate: float, wanted: float) -> bool:
    """Never faster, but slower when the sender had no processor for a while."""
    return 0.85 * wanted <= rate <= 1.05 * wanted


def test_each_destination_has_its_own_rate_and_changes_while_it_lives(wire, backend):
    backend.links({("a", "b", "veth0"): state(5e6), ("a", "c", "veth0"): state(20e6)})
    assert near(wire.rate("10.9.0.2", 7e6), 5e6)
    assert near(wire.rate("10.9.0.3", 28e6), 20e6)
    backend.links({("a", "b", "veth0"): state(50e6), ("a", "c", "veth0"): state(2e6)})
    assert near(wire.rate("10.9.0.2", 60e6), 50e6)
    assert near(wire.rate("10.9.0.3", 3e6), 2e6)


def test_a_pair_is_down_until_it_is_set_and_after_it_is_set_down(wire, backend):
    assert wire.rate("10.9.0.2", 1e6, 0.3) == 0.0
    backend.links({("a", "b", "veth0"): state(5e6)})
    assert wire.rate("10.9.0.2", 1e6, 0.3) > 0.8e6
    backend.links({("a", "b", "veth0"): DOWN})
    assert wire.rate("10.9.0.2", 1e6, 0.3) == 0.0
    health = backend.health()
    assert health.delivered > 30
    assert health.dropped > 50
    assert health.received == health.delivered + health.dropped
    assert backend.health().received <= 5  # since the last question


def test_states_set_before_the_node_comes_hold_when_it_comes(wire):
    backend = TcBackend(ADDRESSES, netem=False)
    backend.links({("a", "b", "veth0"): state(3e6)})
    backend.attach("a", "veth0", wire.descriptor(), "")
    assert near(wire.rate("10.9.0.2", 5e6, 0.5), 3e6)
    backend.close()


def test_our_left_over_is_replaced_and_the_old_queue_restored(wire):
    before = run(f"tc -n {wire.here} qdisc show dev veth0")
    first = TcBackend(ADDRESSES, netem=False)
    first.attach("a", "veth0", wire.descriptor(), "")  # not closed, as after a crash
    assert "htb 5e1:" in run(f"tc -n {wire.here} qdisc show dev veth0")
    second = TcBackend(ADDRESSES, netem=False)
    second.attach("a", "veth0", wire.descriptor(), "")
    assert run(f"tc -n {wire.here} qdisc show dev veth0").count("htb 5e1:") == 1
    second.close()
    assert run(f"tc -n {wire.here} qdisc show dev veth0") == before
    first.close()  # nothing of its own is left; that is no error


def test_a_foreign_root_is_left_alone(wire):
    run(f"tc -n {wire.here} qdisc add dev veth0 root handle 7: htb")
    with pytest.raises(SetupError, match="another root qdisc"):
        TcBackend(ADDRESSES, netem=False).attach("a", "veth0", wire.descriptor(), "")
    assert "htb 7:" in run(f"tc -n {wire.here} qdisc show dev veth0")


def test_an_interface_that_is_not_there(wire):
    backend = TcBackend({("a", "wlan9"): "10.9.0.1"})
    with pytest.raises(SetupError, match="no interface wlan9"):
        backend.attach("a", "wlan9", wire.descriptor(), "")


def test_a_node_that_dies_takes_nothing_else_along(wire, backend):
    run(f"ip -n {wire.here} link del veth0")
    backend.links({("a", "b", "veth0"): state(1e6)})
    backend.links({("a", "b", "veth0"): state(2e6)})
    assert backend.health().alive


def test_the_kernel_has_what_was_said(wire, backend):
    backend.links({("a", "b", "veth0"): state(8e6)})
    assert "class htb 5e1:2 root leaf 1002: prio 0 rate 8Mbit ceil 8Mbit burst 5513b" in wire.classes()
    rules = run(f"tc -n {wire.here} filter show dev veth0")
    assert "ht divisor 256" in rules
    assert "0a090002/ffffffff at 16" in rules


def test_small_changes_send_nothing(wire, backend):
    backend.links({("a", "b", "veth0"): state(1e6)})
    backend.links({("a", "b", "veth0"): state(1.02e6)})
    backend.links({("a", "b", "veth0"): state(0.98e6)})
    assert "rate 1Mbit" in wire.classes()
    backend.links({("a", "b", "veth0"): state(1.05e6)})
    assert "rate 1050Kbit" in wire.classes()


rates = st.one_of(st.just(0.0), st.floats(1e5, 1e9))


@settings(WITH_FIXTURES, max_examples=30)
@given(st.lists(st.dictionaries(st.sampled_from("bc"), rates), min_size=1, max_size=8))
def test_whatever_is_set_the_kernel_has(wire, backend, steps):
    last = {}
    for step in steps:
        backend.links({("a", node, "veth0"): state(rate) if rate else DOWN for node, rate in step.items()})
        last |= step
    queues = run(f"tc -n {wire.here} qdisc show dev veth0")
    for number, node in enumerate("bc", 2):
        if node not in last:
            continue
        down = f"bfifo 100{number}: parent 5e1:{number} limit 1b" in queues
        assert down == (last[node] == 0.0)
        if not down:
            shown = re.search(rf"htb 5e1:{number} .*? rate (\d+)(\w*)bit", wire.classes())
            assert shown
            has = int(shown[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[shown[2]]
            assert has == pytest.approx(last[node], rel=TOLERANCE + 0.01)


def test_impossible_states_set_nothing(wire, backend):
    backend.links({("a", "b", "veth0"): state(8e6)})
    with pytest.raises(ProtocolError, match="no such link"):
        backend.links({("a", "b", "veth0"): state(1e6), ("a", "c", "veth0"): state(math.nan)})
    assert "rate 8Mbit" in wire.classes()


def test_netem_is_found_or_missed_for_the_reason_that_tc_gives(wire):
    tried = subprocess.run(
        f"tc -n {wire.here} qdisc add dev veth0 root netem delay 1ms".split(), capture_output=True, check=False
    )
    assert (probe_netem() == "") == (tried.returncode == 0)


def test_a_descriptor_of_something_else(wire):
    with pytest.raises(SetupError, match="node a: cannot enter the network namespace"):
        TcBackend(ADDRESSES, netem=False).attach("a", "veth0", os.open("/dev/null", os.O_RDONLY), "")
