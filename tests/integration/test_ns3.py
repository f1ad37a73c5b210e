"""ns-3 between network namespaces in real time, and by steps."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adapters.ns3.build import built, engine, wheel
from adapters.ns3.radio import Radio, live
from adapters.ns3.stepped import Stepped
from benchmarks import ns3_range
from cosim.emulation import netns, taps
from cosim.emulation.engine import EngineBackend
from cosim.emulation.protocol import send_attach
from cosim.emulation.taps import Tap
from cosim.errors import RunError, ScenarioError, SetupError

pytestmark = pytest.mark.ns3
ready = pytest.mark.skipif(not built(), reason="the ns-3 engine is not built: python -m adapters.ns3.build")
privileged = pytest.mark.skipif(os.geteuid() != 0 or not taps.DEVICE.exists(), reason="needs root and /dev/net/tun")
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


@pytest.fixture
def nodes():
    with netns.Namespaces() as spaces:
        yield Nodes(spaces)


@pytest.fixture
def backend(nodes):
    made = live(Radio())
    for node in ("a", "b"):
        made.attach(node, "wlan0", nodes.tap(node), MACS[node])
    made.move({"a": (0.0, 0.0, 0.0), "b": (5.0, 0.0, 0.0)})
    time.sleep(0.2)
    yield made
    made.close()


@ready
@privileged
@pytest.mark.netns
def test_who_goes_out_of_range_is_not_heard_and_comes_back(nodes, backend):
    assert nodes.answers() >= 9
    backend.move({"b": (400.0, 0.0, 0.0)})
    time.sleep(0.1)
    assert nodes.answers() == 0
    backend.move({"b": (200.0, 0.0, 0.0)})
    time.sleep(0.1)
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
@pytest.mark.netns
def test_a_detached_node_does_not_answer_and_a_new_one_does(nodes, backend):
    nodes.spaces.delete("b")
    backend.detach("b", "wlan0")
    time.sleep(0.2)
    assert nodes.answers(5) == 0  # no ghost
    nodes.spaces.create("b")
    backend.attach("b", "wlan0", nodes.tap("b"), MACS["b"])
    time.sleep(0.2)
    assert nodes.answers() >= 9


@ready
@privileged
@pytest.mark.netns
def test_nodes_may_come_while_it_runs(nodes, backend):
    backend.move({"c": (10.0, 0.0, 0.0)})
    backend.attach("c", "wlan0", nodes.tap("c"), MACS["c"])
    time.sleep(0.2)
    assert nodes.answers(to="c") >= 9
    assert nodes.answers(node="c", to="b") >= 9


@ready
@privileged
@pytest.mark.netns
def test_media_do_not_hear_each_other(nodes):
    backend = EngineBackend(Radio().command(engine()), shared=["wlan0"])  # all on medium 0
    try:
        for node in MACS:
            backend.attach(node, "wlan0", nodes.tap(node), MACS[node])
        time.sleep(0.3)
        assert nodes.answers() >= 9
    finally:
        backend.close()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen(
            [*Radio().command(engine()), f"--control={theirs.fileno()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        assert process.stdin
        for number, node in enumerate(MACS):
            descriptor = nodes.tap(node)
            send_attach(ours, number, descriptor, MACS[node])
            os.close(descriptor)
        time.sleep(0.3)
        assert nodes.answers() >= 9
        process.stdin.write(b"C 1 7\n")  # after it has been attached
        process.stdin.flush()
        time.sleep(0.2)
        assert nodes.answers(3) == 0
        assert nodes.answers(3, "a", "c") == 3
        process.stdin.write(b"C 0 7\n")
        process.stdin.flush()
        time.sleep(0.2)
        assert nodes.answers() >= 9
        process.stdin.close()
        assert process.wait(5) == 0


@ready
@privileged
@pytest.mark.netns
def test_an_engine_that_is_killed_is_replaced_and_the_nodes_keep_their_interfaces(nodes, backend):
    os.kill(backend.pid, 9)
    end = time.monotonic() + 20
    while backend.restarts < 1 or not backend.pid:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.7)
    assert nodes.answers() >= 9
    backend.close()
    assert "wlan0" not in nodes.spaces.run("a", ["ip", "-br", "link"]).stdout  # nothing is left


@ready
@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/proc/self/autogroup").exists(), reason="needs root and grouping by session"
)
def test_the_engine_has_its_priority_among_all_sessions():
    backend = live(Radio(nice=-7))
    try:
        assert Path(f"/proc/{backend.pid}/autogroup").read_text().split()[-1] == "-7"
        assert os.getpriority(os.PRIO_PROCESS, backend.pid) == -7
    finally:
        backend.close()


@ready
@privileged
@pytest.mark.netns
def test_stations_talk_through_an_access_point(nodes):
    backend = live(Radio(access=(MACS["a"],)))
    try:
        for node in MACS:
            backend.attach(node, "wlan0", nodes.tap(node), MACS[node])
        # b and c are out of each other's range, but not of the access point's.
        backend.move({"a": (0.0, 0.0, 0.0), "b": (-200.0, 0.0, 0.0), "c": (200.0, 0.0, 0.0)})
        end = time.monotonic() + 20
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
            [*Radio().command(engine()), f"--control={theirs.fileno()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        process.stdin.write(b"P 0 nan 0 0\nP 5000 0 0 0\nP 0 1\nnonsense\nC 1\n\nP 0 1 2 3 4\n" + b"x" * 5000 + b"\n")
        process.stdin.write(b"P 0 1 2 3\nC 0 1\nL 0 1 0 0 0 0 1000\n")  # these are right
        process.stdin.flush()
        ours.send(b"abc")
        ours.send(struct.pack("<I6s", 0, b"123456"))  # no descriptor
        with open("/dev/null", "rb") as null:  # noqa: PTH123
            socket.send_fds(ours, [struct.pack("<I", 0)], [null.fileno()])  # a detach with one
        line = process.stdout.readline()
        process.stdin.write(b"Q\n")
        process.stdin.close()
        assert process.wait(5) == 0
        process.stdout.close()
    assert b'"bad":11,' in line


@ready
def test_the_engine_ends_with_its_input_and_with_its_parent():
    process = subprocess.Popen(Radio().command(engine()), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    process.stdout.readline()
    process.stdin.close()
    assert process.wait(5) == 0
    process.stdout.close()
    script = (
        f"import subprocess, time; subprocess.Popen({Radio().command(engine())}, stdin=subprocess.PIPE); time.sleep(60)"
    )

    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout
    parent.stdout.readline()
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    end = time.monotonic() + 5
    while any(_lives(int(child)) for child in children):
        assert time.monotonic() < end
        time.sleep(0.02)
    parent.stdout.close()


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


# Mbit/s of UDP or TCP that two containers measured, 802.11n of 20 MHz at 5 GHz, exponent 2.7
TABLE = {100: 21.7, 150: 16.6, 200: 11.5, 240: 5.8}


@ready
def test_the_rate_falls_with_distance_as_measured():
    stepped = Stepped(Radio(), ["a", "b"], [("a", "b"), ("b", "a")])
    stepped.step({"a": (0.0, 0.0, 0.0), "b": (5.0, 0.0, 0.0)}, 1.0)
    previous = stepped.step({}, 1.0)["a", "b"]
    assert previous.rate == pytest.approx(59.4e6, rel=0.15)
    assert previous.loss == 0.0
    for distance, rate in TABLE.items():
        stepped.step({"b": (float(distance), 0.0, 0.0)}, 0.5)
        state = stepped.step({}, 1.0)["a", "b"]
        assert state.rate == pytest.approx(rate * 1e6, rel=0.2)
        assert state.loss == 0.0
        assert previous.delay < state.delay < 0.01
        assert state.rssi == pytest.approx(Radio().received(distance))
        previous = state
    stepped.step({"b": (300.0, 0.0, 0.0)}, 0.5)
    gone = stepped.step({}, 1.0)["b", "a"]
    assert gone.rate == 0.0
    assert gone.loss == 1.0
    stepped.step({"b": (50.0, 0.0, 0.0)}, 0.5)
    assert stepped.step({}, 1.0)["b", "a"].rate > 30e6
    stepped.close()
    stepped.close()


@ready
def test_steps_repeat_and_do_not_depend_on_how_time_is_cut():
    def states(cuts: int, seed: int = 1):
        stepped = Stepped(Radio(fading=1.5, seed=seed), ["a", "b", "c"], [("a", "b"), ("b", "c")])
        places = {"a": (0.0, 0.0, 0.0), "b": (220.0, 0.0, 0.0), "c": (0.0, 250.0, 0.0)}
        found = [stepped.step(places, 1.0 / cuts) for _ in range(cuts)]
        found = [stepped.step(places, 1.0)]
        stepped.close()
        return found

    assert states(1) == states(1) == states(4)
    assert states(1) != states(1, seed=2)


@ready
@pytest.mark.parametrize(
    ("radio", "least", "most"),
    [
        (Radio(standard="a"), 20e6, 35e6),  # 54 Mbit/s, no aggregation
        (Radio(standard="n", band=2.4, width=40), 80e6, 150e6),
        (Radio(standard="ac", width=80, rate="VhtMcs4"), 80e6, 200e6),
        (Radio(standard="ax", band=2.4), 60e6, 140e6),
        (Radio(rate="minstrel"), 20e6, 65e6),
        (Radio(rate="HtMcs0"), 4e6, 6.5e6),
    ],
    ids=lambda value: f"{value.standard} {value.band} {value.width} {value.rate}" if isinstance(value, Radio) else "",
)
def test_other_standards(radio, least, most):
    stepped = Stepped(radio, ["a", "b"], [("a", "b")])
    stepped.step({"b": (2.0, 0.0, 0.0)}, 2.0)
    state = stepped.step({}, 1.0)["a", "b"]
    stepped.close()
    assert least < state.rate < most
    assert state.loss < 0.01


@ready
def test_fading_makes_the_edge_gradual():
    def loss(fading, distance):
        stepped = Stepped(Radio(fading=fading), ["a", "b"], [("a", "b")])
        state = stepped.step({"b": (distance, 0.0, 0.0)}, 10.0)["a", "b"]
        stepped.close()
        return state.loss

    assert [loss(0.0, distance) for distance in (255.0, 275.0)] == [0.0, 1.0]
    gradual = [loss(1.5, distance) for distance in (150.0, 200.0, 230.0, 320.0)]
    assert gradual == sorted(gradual)
    assert gradual[0] < 0.02
    assert 0.1 < gradual[2] < 0.9
    assert gradual[3] == 1.0


@ready
def test_parameters_that_do_not_fit_end_the_start():
    with pytest.raises(SetupError, match="signal 6"):
        live(Radio(rate="NoSuchMode"))
    stepped = Stepped(Radio(rate="NoSuchMode"), ["a", "b"], [("a", "b")])
    with pytest.raises(RunError, match="has ended"):
        stepped.step({}, 1.0)
    stepped.close()


@ready
def test_contention_is_felt():
    def rate(pairs):
        nodes = [f"n{i}" for i in range(8)]
        stepped = Stepped(Radio(), nodes, pairs, interval=0.02)
        stepped.step({node: (5.0 * i, 0.0, 0.0) for i, node in enumerate(nodes)}, 1.0)
        state = stepped.step({}, 1.0)["n0", "n1"]
        stepped.close()
        return state

    alone = rate([("n0", "n1")])
    crowded = rate([(f"n{i}", f"n{j}") for i in range(8) for j in range(8) if i != j])
    assert crowded.rate < 0.5 * alone.rate


@ready
def test_what_cannot_be_is_said():
    with pytest.raises(ScenarioError, match="no link from a to x"):
        Stepped(Radio(), ["a", "b"], [("a", "x")])
    with pytest.raises(ScenarioError, match="interval"):
        Stepped(Radio(), ["a", "b"], [("a", "b")], interval=0.0)
    stepped = Stepped(Radio(), ["a", "b"], [("a", "b")])
    with pytest.raises(RunError, match="P: port x y z"):
        stepped.step({"a": (float("nan"), 0.0, 0.0)}, 1.0)
    stepped.close()
    with pytest.raises(RunError, match="has ended"):
        stepped.step({}, 1.0)


def test_wrong_parameters_are_all_named():
    with pytest.raises(ScenarioError) as caught:
        Radio(standard="g", band=3.0, fading=0.1, access=("x",))
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
@pytest.mark.netns
@pytest.mark.slow
def test_throughput_against_distance_is_as_measured_before():
    found = ns3_range.sweep(seconds=1.0, rounds=3)
    for distance, reference in ns3_range.REFERENCE.items():
        assert found["rates"][str(distance)] == pytest.approx(reference, rel=ns3_range.ERROR)
    assert found["beyond"] == 0
    assert found["back"] >= 0.9
