"""Nodes in namespaces with sidecars: links that the kernel shapes between bridges, and probes from inside the nodes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cosim.contract.link import DOWN, LinkState
from cosim.contract.medium import WIFI, WIRE
from cosim.testbed.emulation import netns, probe, tc
from cosim.testbed.emulation.client import Client
from cosim.testbed.launch.bridges import wire
from cosim.testbed.launch.programs import Program, interface
from tests.unit.testbed.emulation.conftest import until

pytestmark = pytest.mark.netns

ROOT = Path(__file__).resolve().parents[2]
NODES = tuple(
    Program(name, slot, "box", (), (), (), (interface(WIFI, slot), interface(WIRE, slot)), 0, 0, False, False)
    for slot, name in enumerate("abc")
)


@pytest.fixture
def spaces():
    with netns.Namespaces() as made:
        for node in NODES:
            made.create(node.node)
        yield made


@pytest.fixture
def client(spaces, tmp_path):
    """Of a service with traffic control, as far as this kernel has it: without netem rates only."""
    wire(spaces, NODES)
    with serving(spaces, tmp_path, ["--backend=tc"], "rates" if tc.probe_netem() else "netem") as made:
        yield made


@contextlib.contextmanager
def serving(spaces, tmp_path, options, kernel, **more):
    command = [*options, f"--sidecars={tmp_path / 's'}"]
    command += [f"--commands=ipc://{tmp_path}/c", f"--reports=ipc://{tmp_path}/r"]
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "cosim.testbed.emulation.service"]
    service = subprocess.Popen([*program, *command], stdout=subprocess.PIPE, env=own)
    try:
        said = json.loads(service.stdout.readline())
        for node in NODES:
            given = {"COSIM_NODE": node.node, "COSIM_SOCKET": str(tmp_path / "s"), "COSIM_KERNEL": kernel, **more}
            given["COSIM_INTERFACES"] = " ".join(i.text for i in node.interfaces)
            given["COSIM_NEIGHBOURS"] = " ".join(f"{i.address},{i.mac}" for other in NODES for i in other.interfaces)
            spaces.start(node.node, [sys.executable, "-m", "cosim.testbed.emulation.sidecar"], env={**own, **given})
        with Client(said["commands"], said["reports"]) as made:
            made.await_ports({(node.node, i.name) for node in NODES for i in node.interfaces})
            yield made
        service.terminate()
        assert service.wait(60) == 0
    finally:
        service.kill()
        service.communicate()


@pytest.fixture
def answering(spaces):
    ended = threading.Event()
    opened = netns.inside(netns.FOLDER / spaces._names["b"], probe.opened)
    thread = threading.Thread(target=probe.answer, args=(opened, ended.is_set))
    thread.start()
    yield opened.getsockname()[1]
    ended.set()
    thread.join()
    opened.close()


def answers(spaces, to, count=2):
    return spaces.run("a", ["ping", "-q", "-c", str(count), "-i", "0.05", "-W", "1", to]).returncode == 0


def test_rates_are_imposed_by_pair_and_interface(spaces, client, answering):
    b, c = NODES[1].interfaces, NODES[2].interfaces
    assert not answers(spaces, b[0].address)  # nothing was set: down
    free = LinkState(1e9, 0.0, 0.0, 0.0)
    client.links({("a", "b", "wlan0"): free._replace(rate=4e6), ("b", "a", "wlan0"): free})
    client.links({("a", "b", "eth1"): free._replace(rate=2e7), ("b", "a", "eth1"): free, ("a", "c", "eth1"): DOWN})
    client.wait()
    for name, rate in (("wlan0", "4Mbit"), ("eth1", "20Mbit")):  # sidecars impose them, each when it gets to it
        until(lambda name=name, rate=rate: rate in spaces.run("a", ["tc", "class", "show", "dev", name]).stdout)
    asking = netns.inside(netns.FOLDER / spaces._names["a"], probe.opened)
    with asking:
        slow = probe.rate(asking, (b[0].address, answering), 8e6, 0.8).received
        fast = probe.rate(asking, (b[1].address, answering), 4e7, 0.5).received
    assert slow == pytest.approx(4e6, rel=0.15)
    assert fast == pytest.approx(2e7, rel=0.2)
    assert not answers(spaces, c[1].address)
    end = time.monotonic() + 60
    while not (counted := client.counts().get(("a", "b", "wlan0"))) or not (counted.frames and counted.dropped):
        assert time.monotonic() < end, client.counts()
        client.poll()
        time.sleep(0.05)
    assert counted.bytes > 1000 * counted.frames > 100_000
    client.links({("a", "b", "wlan0"): DOWN})
    client.wait()
    until(lambda: not answers(spaces, b[0].address))
    assert answers(spaces, b[1].address)


def probed(client, rates):
    number, end = client.probe(rates), time.monotonic() + 60
    while len(client.probes(number)) < len(rates):
        client.poll()
        time.sleep(0.05)
        assert time.monotonic() < end
    return client.probes(number)


def test_probes_find_what_was_asked_for(spaces, tmp_path):
    states = {("a", "b", "wlan0"): LinkState(4e6, 0.03, 0.0, 0.1), ("b", "a", "wlan0"): LinkState(1e9, 0.0, 0.0, 0.0)}
    free = dict.fromkeys([("b", "c", "eth1"), ("c", "b", "eth1")], LinkState(math.inf, 0.005, 0.0, 0.0))
    with serving(spaces, tmp_path, [], "") as client:
        client.links(states | free)
        rates = {key: state.rate for key, state in (states | free).items()}
        found = probed(client, rates)
        for _ in range(4):  # a machine that stands still for a moment makes frames late; a wrong delay stays wrong
            if found["a", "b", "wlan0"].delay < 0.05 and found["b", "c", "eth1"].delay < 0.025:
                break
            found = probed(client, rates)
    assert not [one.error for one in found.values() if one.error]
    slow = found["a", "b", "wlan0"]
    assert 0.03 < slow.delay < 0.05
    low, high = probe.interval(slow.sent - slow.received, slow.sent)
    assert low < 0.1 < high
    assert slow.rate == pytest.approx(4e6 * 0.9, rel=0.2)
    assert found["b", "c", "eth1"].received == found["b", "c", "eth1"].sent
    assert 0.005 < found["b", "c", "eth1"].delay < 0.025
