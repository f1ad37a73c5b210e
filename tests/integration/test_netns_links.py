"""Real interfaces in network namespaces: what ping and sockets see of the links that were asked for."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosim.contract.errors import SetupError
from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import compiled, handover, netns, probe, taps
from cosim.testbed.emulation.client import Client
from cosim.testbed.emulation.engine import EngineBackend
from cosim.testbed.emulation.taps import Tap

pytestmark = [pytest.mark.netns, pytest.mark.needs("cc")]

ROOT = Path(__file__).resolve().parents[2]
FREE = LinkState(math.inf, 0.0, 0.0, 0.0)
ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2", "c": "10.9.0.3"}
MACS = {"a": "02:00:00:00:00:01", "b": "02:00:00:00:00:02", "c": "02:00:00:00:00:03"}


def tap(node, **more):
    near = [(ADDRESSES[other], MACS[other]) for other in ADDRESSES if other != node]
    return Tap("wlan0", MACS[node], f"{ADDRESSES[node]}/24", neighbours=near, **more)


def until(true, limit=15.0):
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


@pytest.fixture
def spaces():
    with netns.Namespaces() as made:
        for node in ADDRESSES:
            made.create(node)
        yield made
    assert not [name for name in netns.leftovers() if netns.run_of(os.getpid()) in name]


@pytest.fixture
def backend():
    made = EngineBackend([str(compiled.linkd())])
    yield made
    made.close()


def mesh(state):
    return {(a, b, "wlan0"): state for a in ADDRESSES for b in ADDRESSES if a != b}


def attach(backend, spaces, *nodes):
    for node in nodes or ADDRESSES:
        backend.attach(node, "wlan0", taps.make(tap(node), netns.FOLDER / spaces._names[node]), MACS[node])


class Pings:
    """What ping says of an echo from `node` to `to`."""

    def __init__(self, spaces, node, to, count=5, interval=0.02):
        command = ["ping", "-n", "-q", "-c", str(count), "-i", str(interval), "-W", "1", ADDRESSES[to]]
        done = spaces.run(node, command)
        self.received = 0
        if "Network is unreachable" in done.stderr:  # the node has no interface
            return
        text = done.stdout
        sent, self.received = map(int, re.search(r"(\d+) packets transmitted, (\d+) received", text).groups())
        assert sent == count
        times = re.search(r"= ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms", text)
        self.least, self.mean = (float(times[1]), float(times[2])) if times else (math.nan, math.nan)


def test_an_interface_is_as_it_was_asked_for(spaces):
    descriptor = taps.make(tap("a", mtu=1400), netns.FOLDER / spaces._names["a"])
    link = spaces.run("a", ["ip", "addr", "show", "wlan0"]).stdout
    assert "mtu 1400" in link
    assert MACS["a"] in link
    assert "10.9.0.1/24" in link
    assert ",UP" in link
    near = spaces.run("a", ["ip", "neigh", "show", "dev", "wlan0"]).stdout
    assert f"10.9.0.2 lladdr {MACS['b']} PERMANENT" in near
    os.close(descriptor)
    assert "does not exist" in spaces.run("a", ["ip", "link", "show", "wlan0"]).stderr


def test_an_interface_that_is_held_is_said_to_be(spaces):
    where = netns.FOLDER / spaces._names["a"]
    descriptor = taps.make(tap("a"), where)
    with pytest.raises(SetupError, match="cannot make interface wlan0: there is an interface of this name"):
        taps.make(tap("a"), where)
    os.close(descriptor)


def test_a_namespace_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(SetupError, match="cannot enter the network namespace"):
        taps.make(tap("a"), tmp_path / "none")


def test_links_are_imposed_on_what_the_nodes_send(backend, spaces):
    attach(backend, spaces)
    assert Pings(spaces, "a", "b").received == 0  # never set
    backend.links(mesh(FREE))
    until(lambda: Pings(spaces, "a", "b", 1).received)
    backend.links({("a", "b", "wlan0"): LinkState(math.inf, 0.030, 0.0, 0.0)})
    slow, other = Pings(spaces, "a", "b"), Pings(spaces, "a", "c")
    assert slow.received == other.received == 5
    assert slow.least >= 30.0
    assert other.least < 20.0
    backend.links({("b", "a", "wlan0"): DOWN})
    assert Pings(spaces, "a", "b").received == 0
    assert Pings(spaces, "b", "c").received == 5


def test_the_kernel_takes_interfaces_away_with_the_backend(backend, spaces):
    attach(backend, spaces)
    backend.close()
    for node in ADDRESSES:
        assert "does not exist" in spaces.run(node, ["ip", "link", "show", "wlan0"]).stderr


def test_a_killed_engine_comes_back_with_the_same_interfaces(backend, spaces):
    attach(backend, spaces)
    backend.links(mesh(FREE))
    until(lambda: Pings(spaces, "a", "b", 1).received)
    before = spaces.run("a", ["cat", "/sys/class/net/wlan0/ifindex"]).stdout
    os.kill(backend.pid, signal.SIGKILL)
    until(lambda: Pings(spaces, "a", "b", 1).received)
    assert backend.restarts == 1
    assert spaces.run("a", ["cat", "/sys/class/net/wlan0/ifindex"]).stdout == before


def test_an_engine_comes_before_other_programs(backend):
    tried = subprocess.run(["nice", "-n", "-10", "true"], capture_output=True, text=True, check=False)
    if tried.stderr:
        pytest.skip("needs CAP_SYS_NICE")
    assert os.getpriority(os.PRIO_PROCESS, backend.pid) == -10
    group = Path(f"/proc/{backend.pid}/autogroup")
    if group.exists():
        assert group.read_text().endswith("nice -10\n")


def test_a_dead_node_does_not_answer(backend, spaces):
    attach(backend, spaces)
    backend.links(mesh(FREE))
    until(lambda: Pings(spaces, "a", "b", 1).received)
    backend.detach("b", "wlan0")
    spaces.delete("b")
    assert Pings(spaces, "a", "b").received == 0
    spaces.create("b")
    attach(backend, spaces, "b")
    until(lambda: Pings(spaces, "a", "b", 1).received)


@contextlib.contextmanager
def sidecar(spaces, node, path):
    command = [sys.executable, "-m", "cosim.testbed.emulation.sidecar", "--node", node, "--socket", str(path)]
    command += ["--interface", f"wlan0,{MACS[node]},{ADDRESSES[node]}/24"]
    for other in ADDRESSES:
        command += ["--neighbour", f"{ADDRESSES[other]},{MACS[other]}"]
    process = spaces.start(node, command, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_sidecars_hand_over_again_and_leave_no_ghost(backend, spaces, tmp_path):
    path = tmp_path / "links.sock"
    reception = handover.Reception(path, backend)
    backend.links(mesh(FREE))
    try:
        with sidecar(spaces, "a", path):
            with sidecar(spaces, "b", path) as doomed:
                until(lambda: reception.serve(0.05) or len(reception.ports) == 2)
                until(lambda: Pings(spaces, "a", "b", 1).received)
                doomed.kill()  # the node's namespace goes on living, its interface does not
                until(lambda: reception.serve(0.05) or len(reception.ports) == 1)
                assert Pings(spaces, "a", "b").received == 0
            with sidecar(spaces, "b", path):
                until(lambda: reception.serve(0.05) or len(reception.ports) == 2)
                until(lambda: Pings(spaces, "a", "b", 1).received)
                reception.close()  # as a service that ends
                assert Pings(spaces, "a", "b").received == 0
                reception = handover.Reception(path, backend)
                until(lambda: reception.serve(0.05) or len(reception.ports) == 2)
                until(lambda: Pings(spaces, "a", "b", 1).received)
    finally:
        reception.close()


@pytest.mark.needs("setpriv")
def test_a_service_without_rights_heals_after_each_kill(spaces, tmp_path):
    path = tmp_path / "links.sock"
    addresses = ["tcp://127.0.0.1:*", "tcp://127.0.0.1:*"]

    def service():
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        command += [sys.executable, "-m", "cosim.testbed.emulation.service", "--backend", "linkd"]
        command += ["--sidecars", str(path), "--commands", addresses[0], "--reports", addresses[1]]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
        said = json.loads(process.stdout.readline())
        addresses[:] = said["commands"], said["reports"]
        return process

    def works():
        client.poll()
        return Pings(spaces, "a", "b", 1).received

    running = service()
    status = Path(f"/proc/{running.pid}/status").read_text()
    assert re.search(r"CapEff:\t0+\n", status)
    try:
        with Client(*addresses) as client, sidecar(spaces, "a", path):
            client.links(mesh(FREE))
            with sidecar(spaces, "b", path):
                until(works)
                children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
                threads = [path / "children" for path in Path(f"/proc/{running.pid}/task").iterdir()]
                engines = {int(child) for path in (children, *threads) for child in path.read_text().split()}
                (engine,) = engines
                os.kill(engine, signal.SIGKILL)
                until(works)
                running.kill()
                running.wait()
                running.stdout.close()
                assert not Pings(spaces, "a", "b").received
                running = service()
                until(works)
            until(lambda: client.poll() or client.report.ports == {("a", "wlan0")})
            with sidecar(spaces, "b", path):
                until(works)
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_the_probe_measures_what_was_asked_for(backend, spaces):
    attach(backend, spaces)
    backend.links(mesh(FREE))
    backend.links({("a", "b", "wlan0"): LinkState(5e6, 0.020, 0.0, 0.05)})
    spaces.start("b", [sys.executable, "-m", "cosim.testbed.emulation.probe", "answer"])
    with netns.inside(netns.FOLDER / spaces._names["a"], probe.opened) as asking:
        to = (ADDRESSES["b"], probe.PORT)
        until(lambda: probe.delay(asking, to, 1, 0.01).received)
        delay = probe.delay(asking, to, 50, 0.005)
        assert delay.least >= 0.020
        assert delay.there >= 0.020
        loss = probe.loss(asking, to, 1000, 0.001)
        assert loss.low < 0.05 < loss.high
        rate = probe.rate(asking, to, 7e6, 1.0)
        assert 0.85 * 4.75e6 < rate.received < 1.05 * 4.75e6  # what is lost has taken its time as well


def test_leftovers_of_dead_runs_are_listed_and_deleted():
    program = (
        "import os; from cosim.testbed.emulation import netns\n"
        "print(netns.Namespaces().create('x').name, flush=True); os._exit(0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    left = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
    with netns.Namespaces() as live:
        kept = live.create("x").name
        assert left in netns.leftovers()
        assert kept not in netns.leftovers()
        netns.delete(left)
        assert left not in netns.leftovers()
        assert (netns.FOLDER / kept).exists()
