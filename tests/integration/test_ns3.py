"""ns-3 between network namespaces in real time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import ns3_range
from cosim.adapters.ns3.build import engine, wheel
from cosim.adapters.ns3.radio import RadioParameters, live
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import netns, protocol, taps
from cosim.testbed.emulation.client import Client
from cosim.testbed.emulation.engine import EngineBackend
from cosim.testbed.emulation.protocol import send_attach
from cosim.testbed.emulation.taps import Tap

ready = pytest.mark.ns3
privileged = pytest.mark.netns
MACS = {"a": "02:00:00:00:00:01", "b": "02:00:00:00:00:02", "c": "02:00:00:00:00:03"}
ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2", "c": "10.9.0.3"}


class Nodes:
    """Nodes as namespaces; a TAP in each on demand."""

    def __init__(self, spaces: netns.Namespaces) -> None:
        self.spaces = spaces
        self.files = {node: spaces.create(node) for node in MACS}

    def tap(self, node: str) -> int:
        neighbours = [(ADDRESSES[other], MACS[other]) for other in MACS if other != node]
        made = Tap("wlan0", MACS[node], f"{ADDRESSES[node]}/24", neighbours=neighbours)
        return taps.make(made, self.files[node])

    def answers(self, count: int = 10, node: str = "a", to: str = "b") -> int:
        done = self.spaces.run(node, f"ping -q -c {count} -i 0.02 -W 1 {ADDRESSES[to]}".split())
        found = re.search(r"(\d+) received", done.stdout)
        return int(found[1]) if found else 0

    def await_answer(self, wanted: bool, to: str = "b") -> None:
        """Wait until one ping from a to another node is answered, or is not."""
        end = time.monotonic() + 60
        while bool(self.answers(1, to=to)) != wanted:
            assert time.monotonic() < end


@pytest.fixture
def nodes():
    with netns.Namespaces() as spaces:
        yield Nodes(spaces)


@pytest.fixture
def backend(nodes):
    made = live(RadioParameters())
    for node in ("a", "b"):
        made.attach(node, "wlan0", nodes.tap(node), MACS[node])
    made.move({"a": (0.0, 0.0, 0.0), "b": (5.0, 0.0, 0.0)})
    time.sleep(0.2)
    yield made
    made.close()


@ready
@privileged
def test_who_goes_out_of_range_is_not_heard_and_comes_back(nodes, backend):
    assert nodes.answers() >= 9
    backend.move({"b": (400.0, 0.0, 0.0)})
    nodes.await_answer(False)
    assert nodes.answers() == 0
    backend.move({"b": (200.0, 0.0, 0.0)})
    nodes.await_answer(True)
    assert nodes.answers() >= 9
    time.sleep(1.1)
    health = backend.health()
    assert health.alive
    assert health.delivered >= 36
    assert health.dropped >= 9
    counts = backend.counts()
    assert counts["a", "b", "wlan0"].frames >= 18
    assert counts["a", "b", "wlan0"].lost >= 9


@ready
@privileged
def test_a_detached_node_does_not_answer_and_a_new_one_does(nodes, backend):
    nodes.spaces.delete("b")
    backend.detach("b", "wlan0")
    nodes.await_answer(False)
    assert nodes.answers(5) == 0  # no ghost
    nodes.spaces.create("b")
    backend.attach("b", "wlan0", nodes.tap("b"), MACS["b"])
    nodes.await_answer(True)
    assert nodes.answers() >= 9


@ready
@privileged
def test_nodes_may_come_while_it_runs(nodes, backend):
    backend.move({"c": (10.0, 0.0, 0.0)})
    backend.attach("c", "wlan0", nodes.tap("c"), MACS["c"])
    nodes.await_answer(True, to="c")
    assert nodes.answers(to="c") >= 9
    assert nodes.answers(node="c", to="b") >= 9


@ready
@privileged
def test_media_do_not_hear_each_other(nodes):
    backend = EngineBackend(RadioParameters().command(engine()), shared=["wlan0"])  # all on medium 0
    try:
        for node in MACS:
            backend.attach(node, "wlan0", nodes.tap(node), MACS[node])
        nodes.await_answer(True)
        assert nodes.answers() >= 9
    finally:
        backend.close()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [*RadioParameters().command(engine()), f"--control={theirs.fileno()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        assert process.stdin
        for number, node in enumerate(MACS):
            descriptor = nodes.tap(node)
            send_attach(ours, number, descriptor, MACS[node])
            os.close(descriptor)
        nodes.await_answer(True)
        assert nodes.answers() >= 9
        process.stdin.write(protocol.channel_command(1, 7))  # after it has been attached
        process.stdin.flush()
        nodes.await_answer(False)
        assert nodes.answers(3) == 0
        assert nodes.answers(3, "a", "c") == 3
        process.stdin.write(protocol.channel_command(0, 7))
        process.stdin.flush()
        nodes.await_answer(True)
        assert nodes.answers() >= 9
        process.stdin.close()
        assert process.wait(60) == 0


@ready
@privileged
def test_an_engine_that_is_killed_is_replaced_and_the_nodes_keep_their_interfaces(nodes, backend):
    os.kill(backend.pid, 9)
    end = time.monotonic() + 60
    while backend.restarts < 1 or not backend.pid:
        assert time.monotonic() < end
        time.sleep(0.05)
    nodes.await_answer(True)
    assert nodes.answers() >= 9
    backend.close()
    assert "wlan0" not in nodes.spaces.run("a", ["ip", "-br", "link"]).stdout  # nothing is left


@ready
@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/self/autogroup").exists(), reason="needs root and grouping by session"
)
def test_the_engine_has_its_priority_among_all_sessions():
    backend = live(RadioParameters(nice=-7))
    try:
        assert Path(f"/proc/{backend.pid}/autogroup").read_text().split()[-1] == "-7"
        assert os.getpriority(os.PRIO_PROCESS, backend.pid) == -7
    finally:
        backend.close()


@ready
@privileged
def test_stations_talk_through_an_access_point(nodes):
    backend = live(RadioParameters(access=(MACS["a"],)))
    try:
        for node in MACS:
            backend.attach(node, "wlan0", nodes.tap(node), MACS[node])
        # b and c are out of each other's range, but not of the access point's.
        backend.move({"a": (0.0, 0.0, 0.0), "b": (-200.0, 0.0, 0.0), "c": (200.0, 0.0, 0.0)})
        end = time.monotonic() + 60
        while nodes.answers(2, "b", "a") < 2 or nodes.answers(2, "c", "a") < 2:
            assert time.monotonic() < end
        assert nodes.answers(node="b", to="c") >= 9
    finally:
        backend.close()


@ready
def test_wrong_words_are_counted_not_fatal(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [*RadioParameters().command(engine()), f"--control={theirs.fileno()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
        assert process.stdin
        assert process.stdout
        process.stdout.read(protocol.REPORT.size)
        process.stdin.write(protocol.position_command(0, (math.nan, 0.0, 0.0)))
        process.stdin.write(protocol.position_command(5000, (0.0, 0.0, 0.0)) + b"nonsense" * 10)
        process.stdin.write(protocol.position_command(0, (1.0, 2.0, 3.0)) + protocol.channel_command(0, 1))  # right
        process.stdin.write(protocol.link_command(0, 1, LinkState(1e6), 0.1))
        process.stdin.flush()
        ours.send(b"abc")
        ours.send(struct.pack("<I6s", 0, b"123456"))  # no descriptor
        with open("/dev/null", "rb") as null:  # noqa: PTH123
            socket.send_fds(ours, [struct.pack("<I", 0)], [null.fileno()])  # a detach with one
        (found,) = protocol.reports(bytearray(process.stdout.read(protocol.REPORT.size)))
        process.stdin.write(protocol.END)
        process.stdin.close()
        assert process.wait(60) == 0
        process.stdout.close()
    assert found.bad == 6


@ready
def test_the_engine_ends_with_its_input_and_with_its_parent():
    process = subprocess.Popen(RadioParameters().command(engine()), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    process.stdout.read(1)
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()
    script = (
        f"import subprocess, time; subprocess.Popen({RadioParameters().command(engine())}, stdin=subprocess.PIPE); "
        "time.sleep(60)"
    )

    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout
    parent.stdout.read(1)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    end = time.monotonic() + 60
    while any(_lives(int(child)) for child in children):
        assert time.monotonic() < end
        time.sleep(0.02)
    parent.stdout.close()


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@ready
def test_parameters_that_do_not_fit_end_the_start():
    with pytest.raises(SetupError, match="signal 6"):
        live(RadioParameters(rate="NoSuchMode"))


def test_wrong_parameters_are_all_named():
    with pytest.raises(ScenarioError) as caught:
        RadioParameters(standard="g", band=3.0, fading=0.1, access=("x",))
    assert [problem.path for problem in caught.value.problems] == [
        "ns3.standard",
        "ns3.band",
        "ns3.fading",
        "ns3.access",
    ]


def test_an_absent_wheel_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("COSIM_NS3", str(tmp_path))
    with pytest.raises(SetupError, match=r"no ns-3 3\.44.*pip install ns3==3\.44\.post0"):
        wheel()


@ready
@privileged
@pytest.mark.slow
def test_throughput_against_distance_is_as_measured_before():
    found = ns3_range.sweep(seconds=1.0, rounds=3)
    for distance, reference in ns3_range.REFERENCE.items():
        assert found["rates"][str(distance)] == pytest.approx(reference, rel=ns3_range.ERROR)
    assert found["beyond"] == 0
    assert found["back"] >= 0.9


@ready
@privileged
def test_through_the_network_service_and_its_sidecars(nodes, tmp_path):
    anywhere = "tcp://127.0.0.1:*"
    command = [
        sys.executable,
        "-m",
        "cosim.testbed.emulation.service",
        "--engine",
        str(engine()),
        "--commands",
        anywhere,
    ]
    command += ["--reports", anywhere, "--sidecars", str(tmp_path / "links.sock")]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert service.stdout
    try:
        reported = json.loads(service.stdout.readline())
        for node in ("a", "b"):
            interface = f"wlan0,{MACS[node]},{ADDRESSES[node]}/24"
            sidecar = [
                sys.executable,
                "-m",
                "cosim.testbed.emulation.sidecar",
                "--node",
                node,
                "--interface",
                interface,
            ]
            sidecar += ["--socket", str(tmp_path / "links.sock")]
            nodes.spaces.start(node, sidecar, stderr=subprocess.DEVNULL, env=dict(os.environ))
        with Client(reported["commands"], reported["reports"]) as client:
            client.await_ports({("a", "wlan0"), ("b", "wlan0")})
            client.move({"a": (0.0, 0.0, 0.0), "b": (50.0, 0.0, 0.0)})
            client.wait()
            nodes.await_answer(True)
            assert nodes.answers() >= 8
            client.move({"b": (900.0, 0.0, 0.0)})
            client.wait()
            nodes.await_answer(False)
            assert nodes.answers(3) == 0
    finally:
        service.terminate()
        assert service.wait(60) == 0
        service.stdout.close()
