"""Machines that attach get the links of the models: two network namespaces, an agent in each, measured with sockets."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cosim.contract.errors import CosimError, SetupError
from cosim.talk import control, keys
from cosim.testbed.emulation import netns
from cosim.testbed.emulation.tc import probe_netem
from cosim.testbed.live import shaper
from cosim.testbed.live.shaper import KernelShaper
from cosim.testbed.live.shaping import Impairment, Keeper
from tests.integration.test_live import PATIENCE, eventually

pytestmark = pytest.mark.netns

ROOT = Path(__file__).resolve().parents[2]
FRAME, PAYLOAD = 1442, 1400  # B, of the datagrams here
SO_TIMESTAMPNS = 35  # of <asm/socket.h>; also the type of the message with the time
SEGMENT = 1448 / 1514  # of TCP in an Ethernet frame
HERE, THERE, RUN = "10.9.0.1", "10.9.0.3", "10.9.0.2"  # the last is the gateway's
RATE = 5e6  # bit/s

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: shaped
run: {{duration: {duration} s, step: 200 ms, pacing: real-time}}
adapters:
  live: {{listen: "tcp://10.9.0.2:*", keys: keys}}
nodes:
  pi:
    kind: edge
    cpu: 1 x 1 GHz
    live: {{key: lab, lease: 2 s, wait: 30 s, interval: 300 ms, shaping: true}}
    missing: {missing}
  server: {{kind: edge, cpu: 1 x 1 GHz, live: {{key: lab, address: 10.9.0.3}}, missing: model}}
links:
  - {{between: [pi, server], rate: 5 Mbit/s}}
events:
  - {{at: {slower} s, do: degrade, link: pi / server, rate: 40 %}}
"""


class World:
    """Two namespaces joined by a wire: `here` is the machine that is shaped, `there` runs the scenario."""

    def __init__(self, folder: Path, spaces: netns.Namespaces) -> None:
        self.folder, self.spaces = folder, spaces
        self.here, self.there = spaces.create("here"), spaces.create("there")
        for command in (
            f"ip link add veth0 netns {self.here.name} type veth peer name veth0 netns {self.there.name}",
            f"ip -n {self.here.name} addr add {HERE}/24 dev veth0",
            f"ip -n {self.there.name} addr add {RUN}/24 dev veth0",
            f"ip -n {self.there.name} addr add {THERE}/24 dev veth0",
            f"ip -n {self.here.name} link set veth0 up",
            f"ip -n {self.there.name} link set veth0 up",
        ):
            subprocess.run(command.split(), check=True)
        server = keys.server_key(folder / "keys")
        keys.write(keys.make("lab", server.public), folder)
        (folder / "lab.pub").rename(folder / "keys/lab.pub")
        self.before = self.queues()

    def start(self, node: str, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cosim", *words]
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            return self.spaces.start(node, command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def run(self, duration=60, slower=1000, missing="wait") -> subprocess.Popen[bytes]:
        text = SCENARIO.format(duration=duration, slower=slower, missing=missing)
        (self.folder / "scenario.cosim.yaml").write_text(text)
        out = str(self.folder / "runs")
        return self.start("there", "run", "scenario.cosim.yaml", "--driver", "loop", "--no-report", "--out", out)

    def agent(self, *options: str) -> subprocess.Popen[bytes]:
        words = ("--key", "lab.key", "--server", self.address(), "--node", "pi", "--no-tasks", *options)
        return self.start("here", "attach", *words)

    def ask(self, verb: str, name: str = "") -> dict:
        try:
            where = control.find("", "", control.LIVE, self.folder / "runs")
            return netns.inside(self.there, lambda: control.command(*where, verb, **({"node": name} if name else {})))
        except CosimError:
            return {}

    def address(self) -> str:
        return eventually(lambda: self.ask("nodes").get("address"), "the gateway's address")

    def row(self, name="pi") -> dict:
        return next((row for row in self.ask("nodes").get("nodes", []) if row["name"] == name), {})

    def shaped(self) -> None:
        eventually(lambda: self.row().get("shaped") == 1, "shaping")

    def queues(self) -> str:
        command = ["tc", "-n", self.here.name, "qdisc", "show", "dev", "veth0"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def limit(self) -> str:
        """The rate that the kernel has."""
        command = ["tc", "-n", self.here.name, "class", "show", "dev", "veth0"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(r"rate (\S+)", text)
        return found[1] if found else ""

    def free(self) -> None:
        eventually(lambda: self.queues() == self.before, "the end of shaping")

    # -- what sockets see ---------------------------------------------------------------------

    def datagrams(self, offered: float, seconds=2.0, address=THERE) -> float:
        """bit/s of frames that arrive when `offered` bit/s are sent, by the times at which the kernel got them."""

        def make() -> socket.socket:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

        times = []
        with netns.inside(self.here, make) as sender, netns.inside(self.there, make) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            receiver.bind((address, 5000))
            start = now = time.monotonic()
            sent = 0
            while now < start + 0.3 + seconds:
                with contextlib.suppress(BlockingIOError):
                    while sent * FRAME * 8 < offered * (now - start):
                        sender.sendto(b"x" * PAYLOAD, (address, 5000))
                        sent += 1
                try:
                    while True:
                        ((_, _, stamp),) = receiver.recvmsg(2048, 64)[1]
                        whole, nanoseconds = struct.unpack("qq", stamp)
                        times.append(whole + 1e-9 * nanoseconds)
                except BlockingIOError:
                    time.sleep(0.0005)
                now = time.monotonic()
        later = [one for one in times if one > times[0] + 0.3]  # after the first burst
        return (len(later) - 1) * FRAME * 8 / (later[-1] - later[0]) if len(later) > 1 else 0.0

    def stream(self, seconds=3.0, address=THERE) -> float:
        """bit/s that arrive over TCP as fast as it goes, as frames of Ethernet."""
        listener = netns.inside(self.there, lambda: socket.create_server((address, 5001)))
        with listener, netns.inside(self.here, lambda: socket.create_connection((address, 5001), 10)) as sender:
            receiver, _ = listener.accept()
            over = threading.Event()

            def send() -> None:
                with contextlib.suppress(OSError):
                    while not over.is_set():
                        sender.send(bytes(65536))

            sender.settimeout(1.0)
            sending = threading.Thread(target=send)
            sending.start()
            with receiver:
                receiver.settimeout(10)
                opened = time.monotonic() + 0.7  # after the first burst
                while time.monotonic() < opened:
                    receiver.recv(1 << 20)
                opened, size = time.monotonic(), 0
                while (now := time.monotonic()) < opened + seconds:
                    size += len(receiver.recv(1 << 20))
                over.set()
            sender.close()
            sending.join(5)
            return size * 8 / SEGMENT / (now - opened)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with netns.Namespaces() as spaces:
        yield World(tmp_path, spaces)
    assert not [name for name in netns.leftovers() if netns.run_of(os.getpid()) in name]


def near(rate: float, wanted: float) -> bool:
    return abs(rate - wanted) <= 0.05 * wanted


def ended(world: World, run: subprocess.Popen[bytes]) -> dict:
    assert run.wait(PATIENCE + 60) == 0, (world.folder / "run.log").read_text()
    (manifest,) = world.folder.glob("runs/*/*/manifest.json")
    found = json.loads(manifest.read_text())["adapters"]
    return next(row["summary"] for row in found if row["name"] == "live")["nodes"]["pi"]["shaping"]


@pytest.mark.slow
def test_a_machine_gets_the_rate_of_its_link_while_it_is_in_the_run(world):
    free = world.stream(0.5)
    assert free > 10 * RATE
    run = world.run(duration=22, slower=12)
    agent = world.agent("--allow-shaping", "veth0")
    world.shaped()
    assert near(world.datagrams(8e6), RATE)
    assert near(world.stream(), RATE)
    assert world.datagrams(20e6, 0.5, RUN) > 3 * RATE  # the way to the run is free
    eventually(lambda: world.limit() == "2Mbit", "the slower link")
    assert near(world.datagrams(4e6), 0.4 * RATE)
    reported = ended(world, run)
    assert reported["links"] == 1
    assert reported["held"] > 0.9
    world.free()
    assert world.stream(0.5) > 10 * RATE
    assert agent.poll() is None
    agent.terminate()
    assert agent.wait(PATIENCE) == 0


@pytest.mark.slow
@pytest.mark.parametrize("end", ["run killed", "evicted", "SIGTERM", "SIGINT", "SIGHUP"])
def test_nothing_stays_shaped(world, end):
    run = world.run(missing="model")
    agent = world.agent("--allow-shaping", "veth0", "--shape-within", "10.9.0.0/24")
    world.shaped()
    assert world.limit() == "5Mbit"
    if end == "run killed":
        os.killpg(run.pid, signal.SIGKILL)
    elif end == "evicted":
        world.ask("evict", "pi")
        assert agent.wait(PATIENCE) == 1
    else:
        os.killpg(agent.pid, signal.Signals[end])
        assert agent.wait(PATIENCE) == 0
    world.free()
    assert world.stream(0.5) > 10 * RATE
    if end == "run killed":
        assert agent.poll() is None


@pytest.mark.slow
def test_what_a_killed_agent_has_left_is_taken_away(world):
    world.run(missing="model")
    agent = world.agent("--allow-shaping", "veth0")
    world.shaped()
    os.killpg(agent.pid, signal.SIGKILL)
    agent.wait()
    assert "htb 5e1:" in world.queues()
    clear = [sys.executable, "-m", "cosim.testbed.live.shaper", "veth0"]
    done = world.spaces.start("here", clear, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.wait(PATIENCE) == 0
    assert world.queues() == world.before


@pytest.mark.slow
def test_what_the_owner_does_not_allow_is_refused_and_told(world):
    world.run(missing="model")
    world.agent("--allow-shaping", "veth0", "--shape-within", "10.9.0.128/25")
    eventually(lambda: "outside 10.9.0.128/25: 10.9.0.3" in world.row().get("unshaped", ""), "the refusal")
    assert world.queues() == world.before


# -- the shaper alone --------------------------------------------------------------------------


@pytest.fixture
def opened(world):
    """A shaper of the machine's interface, and what calls it inside the machine."""

    def call(act):
        return netns.inside(world.here, act)

    made = call(lambda: KernelShaper("veth0", (), f"tcp://{RUN}:5580"))
    call(made.open)
    yield made, call
    call(made.close)


def order(*links: Impairment) -> dict:
    return {"serial": 1, "all": True, "links": [list(link) for link in links]}


def test_each_address_has_its_own_rate_and_all_else_is_free(world, opened):
    made, call = opened
    assert call(lambda: made.impose({THERE: Impairment(THERE, 3e6)})) == (1, "")
    assert near(world.datagrams(5e6, 1.0), 3e6)
    assert world.datagrams(20e6, 0.5, RUN) > 15e6
    assert call(lambda: made.impose({THERE: Impairment(THERE, 8e6)})) == (1, "")
    assert near(world.datagrams(12e6, 1.0), 8e6)
    assert call(lambda: made.impose({THERE: Impairment(THERE, 0.0, None, None, 1.0)})) == (1, "")
    assert world.datagrams(5e6, 0.3) == 0.0
    assert call(lambda: made.impose({THERE: Impairment(THERE)})) == (1, "")
    assert world.datagrams(40e6, 0.5) > 30e6
    assert call(lambda: made.impose({})) == (0, "")
    assert world.queues() == world.before


def test_what_must_not_be_shaped_is_refused(world, opened, monkeypatch):
    made, call = opened
    monkeypatch.setattr(shaper, "routers", lambda: frozenset({"10.9.0.9"}))
    refused = {
        RUN: "the way to the run", "10.9.0.9": "a router of this machine", "10.9.1.1": "outside 10.9.0.0/24",
        HERE: "no other machine", "10.9.0.255": "no address of a machine", "10.9.0.0": "no address of a machine",
    }  # fmt: skip
    for address, why in refused.items():
        assert call(lambda a=address: made.impose({a: Impairment(a, 1.0)})) == (0, f"{why}: {address}")
        assert world.queues() == world.before
    count, said = call(lambda: made.impose({a: Impairment(a, 1e6) for a in (*refused, THERE)}))
    assert count == 1
    assert all(why in said for why in refused.values())


def test_without_a_known_way_to_the_run_nothing_is_shaped(world, opened):
    made, call = opened
    made._server = "tcp://no-such-host.invalid:5580"
    keeper = Keeper(made)
    keeper.take(order(Impairment(THERE, 1e6)))
    call(lambda: keeper.act(0.0))
    assert "cannot be spared" in keeper.report(0.0)["unshaped"]
    assert world.queues() == world.before


@pytest.mark.skipif(not probe_netem(), reason="this kernel has netem")
def test_without_netem_rates_hold_and_delays_are_told(world, opened):
    made, call = opened
    assert made.ability == "rate"
    count, said = call(lambda: made.impose({THERE: Impairment(THERE, 2e6, 0.02, 0.0, 0.1)}))
    assert (count, said) == (0, f"neither delay nor loss, as this kernel has no netem: {THERE}")
    assert world.limit() == "2Mbit"


def test_a_queue_that_somebody_takes_away_is_made_again(world, opened):
    made, call = opened
    keeper = Keeper(made)
    keeper.take(order(Impairment(THERE, 1e6)))
    call(lambda: keeper.act(0.0))
    subprocess.run(["tc", "-n", world.here.name, "qdisc", "del", "dev", "veth0", "root"], check=True)
    assert "taken our queue" in keeper.report(1.0)["unshaped"]
    call(lambda: keeper.act(1.1))
    assert keeper.report(2.0)["shaped"] == 1
    assert world.limit() == "1Mbit"


def test_two_agents_do_not_shape_one_interface_and_a_queue_of_others_stays(world, opened):
    _, call = opened
    second = call(lambda: KernelShaper("veth0"))
    with pytest.raises(SetupError, match="another agent shapes veth0"):
        call(second.open)
    second.close()
    with pytest.raises(SetupError, match="another agent"):
        call(lambda: shaper.clear("veth0"))


def test_a_queue_of_the_owners_stays(world):
    subprocess.run(f"tc -n {world.here.name} qdisc add dev veth0 root handle 7: htb".split(), check=True)
    made = netns.inside(world.here, lambda: KernelShaper("veth0"))
    with pytest.raises(SetupError, match="another root qdisc"):
        netns.inside(world.here, made.open)
    made.close()
    netns.inside(world.here, lambda: shaper.clear("veth0"))
    assert "htb 7:" in world.queues()
