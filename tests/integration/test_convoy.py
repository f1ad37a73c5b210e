"""Trucks of SUMO with real computers on board: handed over from station to station, with tasks and connections."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest

import cosim
from cosim.contract.medium import CELL, WIRE
from cosim.testbed.emulation import netns
from cosim.testbed.launch.programs import interface
from tests.real import convoy, follow
from tests.real.convoy import NODES, cells, rows
from tests.real.follow import ROOT

pytestmark = [pytest.mark.netns, pytest.mark.sumo, pytest.mark.slow, pytest.mark.timeout(300)]

SCENARIO = ROOT / "scenarios/convoy"
LONG = "run.duration=46 s"  # the first three handovers of the convoy are at 35 s, 40.5 s and 41 s
STATIONS = {interface(CELL, slot).address: f"station-{slot + 1}" for slot in range(4)}
FAR = interface(WIRE, 3).address  # of station-4, which no truck reaches by air

ECHO = f"""\
import socket
with socket.create_server(("{FAR}", 7000)) as listening:
    connection, _ = listening.accept()
    with connection:
        while word := connection.recv(4096):
            connection.sendall(word)
"""

# One connection for the whole test; it says over which base station it leads when an answer has come.
TALK = f"""\
import socket, struct, time
def via():
    for line in open("/proc/self/net/route").readlines()[1:]:
        name, to, hop = line.split()[:3]
        if name == "lte0" and socket.inet_ntoa(struct.pack("<L", int(to, 16))) == "10.173.0.0":
            return socket.inet_ntoa(struct.pack("<L", int(hop, 16)))
    return ""
while True:
    try:
        talking = socket.create_connection(("{FAR}", 7000), timeout=1.0)
        break
    except OSError:
        time.sleep(0.1)
talking.settimeout(30.0)
number, seen = 0, []
while len(set(seen)) < 2 or seen[-5:] != 5 * seen[-1:]:
    number += 1
    word = b"%08d" % number
    talking.sendall(word)
    answer = b""
    while len(answer) < 8:
        answer += talking.recv(8 - len(answer))
    assert answer == word, (answer, word)
    if way := via():
        seen.append(way)
        print(way, number, flush=True)
    time.sleep(0.1)
"""


@contextlib.contextmanager
def inside(run: str, node: str, code: str):
    """A Python program in the namespace of a node."""
    command = ["ip", "netns", "exec", f"cosim-{run}-{node}", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return cosim.run(SCENARIO, out=tmp_path_factory.mktemp("simulated"), overrides=[LONG]).folder


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The folder of a run with real nodes, what the connection has said, and the run's name."""
    out = tmp_path_factory.mktemp("real") / "runs"
    with follow.real(SCENARIO, out, "--set", LONG) as run:
        follow.until(lambda: list(out.glob("*/*/frames/mobility/*")) or run.process.poll() is not None, 150.0)
        assert run.process.poll() is None, run.said
        made = {path.name for path in netns.FOLDER.glob(f"cosim-{run.run}-*")}
        assert made == {f"cosim-{run.run}-{node}" for node in NODES}
        with inside(run.run, "station-4", ECHO), inside(run.run, "trucks-1", TALK) as talking:
            said, wrong = talking.communicate(timeout=100.0)
        assert talking.returncode == 0, wrong
        assert run.ended() == 0, run.said
        yield run.folder, [line.split() for line in said.splitlines()], run.run


def test_the_trucks_drive_and_are_handed_over_as_simulated_ones(simulated, real):
    folder, _, _ = real
    same = "select node, time, x, y, z, speed from mobility order by time, node"
    assert rows(folder, same) == rows(simulated, same)
    assert cells(folder) == cells(simulated)
    assert sum(len(stations) > 1 for _, stations in cells(folder).values()) >= 2


def test_every_handover_moves_the_next_task_to_the_new_host(real):
    folder, _, _ = real
    convoy.assert_moved(folder)


def test_no_task_is_lost_and_none_is_made_for_a_slot_without_a_truck(real):
    folder, _, _ = real
    convoy.assert_none_lost(folder)
    tasks = follow.summary(folder, "live")["tasks"]
    assert tasks["failed"] == {}
    assert tasks["in_flight"] < 20


def test_a_connection_outlives_the_handover(real):
    _, said, _ = real
    stations = [STATIONS[way] for way, _ in said]
    assert stations[0] == "station-1"
    assert stations[-1] == "station-2"
    assert len([one for one in stations if one == "station-1"]) >= 5
    numbers = [int(number) for _, number in said]
    assert numbers == sorted(set(numbers))


def test_what_a_truck_sends_goes_to_the_station_that_serves_it(real):
    folder, _, _ = real
    serving = cells(folder)
    query = "select node, peer, time, sum(bytes) from link_traffic where delivered > 0 and bytes > 10000 group by all"
    sent = [(truck, peer, at) for truck, peer, at, _ in rows(folder, query) if truck in serving]
    assert len(sent) > 100
    for truck, peer, at in sent:
        times, stations = serving[truck]
        assert peer in {
            stations[k] for k, since in enumerate(times) if since <= at and at - 2.0 <= (*times, 1e9)[k + 1]
        }


def test_nothing_is_left(real):
    _, _, run = real
    follow.assert_nothing_left(run)  # interfaces are no more than the namespaces that they are in
