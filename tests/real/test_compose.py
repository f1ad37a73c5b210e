"""The compose file of the checkout: its scenarios come up, do what simulated nodes do, and are gone afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cosim.results.ledgers import ledger_faults
from tests.real import follow
from tests.real.compose import Project, Traces
from tests.real.follow import ROOT, until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(1500),  # with nothing in the cache the images take minutes
    pytest.mark.xdist_group("docker"),
    pytest.mark.usefixtures("images", "entered"),
]

ASK = "import urllib.request as u; print(u.urlopen('http://{}:8500/health', timeout=20).status)"
TRY = "import socket; socket.create_connection(('{}', {}), timeout=5).close(); print('there')"
# Subscribes as an observer does, by the route and past it, and counts what comes.
TAKE = """import socket
found = 0
for device in (b'', b'eth0'):
    with socket.socket() as to:
        to.settimeout(4)
        try:
            to.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
            to.connect(('{}', 5600))
            to.sendall(b'\\xff' + bytes(8) + b'\\x7f')
            found += len(to.recv(64))
        except OSError:
            pass
print(found, 'B')"""
PATIENT = ("adapters.vehicle.real.patience=10 s", "adapters.network.silence=30 s")  # the machine may be busy
HELLO = ("run.duration=20 s", *PATIENT)
FARM = ("run.duration=54 s", "adapters.network.probe={}", *PATIENT)  # the drone has joined the tractor at 45 s
# The first engagement of the scenario, called off after one minute instead of four: it has landed at 133 s.
ENGAGED = """adapters.vehicle.engage=[{drone: uav-1, target: tractor, controller: farm-house, behind: 6 m, height: 15 m,
    fence: 400 m, swap: 90 s, commands: [{at: 30 s, for: 1 min}]}]"""
FLIGHT = ("run.duration=145 s", ENGAGED, "adapters.network.probe={}", *PATIENT)
LATE = 0.02  # s that packets may be late for the emulation to be believed
# How far links may be off; the defaults of `adapters.network.probe.threshold`.
RATE, DELAY, LOSS = 0.2, 10e-3, 0.02


def assert_gone(project: Project, traces: Traces | None) -> None:
    assert project.left == ""
    if traces is not None:
        end = time.monotonic() + 10.0
        while (left := traces.left()) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == []


def assert_alike(expected: Path, folder: Path) -> None:
    """Places, phases and links are as simulated, and links as measured are as asked for."""
    follow.assert_alike(expected, folder)
    rate, delay, loss = follow.links_apart(expected, folder)
    assert (rate < RATE, delay < DELAY, loss < LOSS) == (True, True, True)
    reported = follow.summary(folder, "network")
    assert (reported["probe"]["measured"], reported["probe"]["failed"]) == (6, [])
    assert reported["probe"]["deviating"] == 0 or reported["lag_max"] > LATE
    assert follow.delivered(folder)["tractor", "uav-1"] > 100  # 5 Hz


def assert_photographs(folder: Path, created: int) -> None:
    """The drone sent photographs while it flew, at least as many as `created`, and the house has looked at them."""
    reported = follow.summary(folder, "live")
    assert ledger_faults(reported) == []
    assert reported["tasks"]["created"] >= created
    assert reported["tasks"]["completed"] >= 0.9 * created
    assert "measured" in follow.manifest(folder)["signals"]["task"]["origin"]


@pytest.mark.slow
def test_two_scenarios_do_what_simulated_nodes_do_and_leave_nothing(tmp_path):
    traces = None, None
    with (
        Project.shipped("hello", tmp_path / "hello", *HELLO) as hello,
        Project.shipped("smart-farm", tmp_path / "farm", *FARM) as farm,
    ):
        for project in (farm, hello):
            project.up()
        for project in (farm, hello):
            project.flying()
        if os.geteuid() == 0:
            traces = Traces(hello), Traces(farm)
            assert traces[0].taps == 8  # three drones, two base stations with two each, the cloud
            assert traces[1].taps == 5  # the drone and the tractor have a card for cells as well
            assert len(traces[0].left()) > 0
        # Programs of a drone reach its base station, and across it and 20 ms of wire and back the cloud.
        assert hello.inside("uav-1", ASK.format("north")) == "200"
        reported = hello("exec", "-T", "uav-1", "ping", "-c", "2", "-W", "9", "cloud")
        assert "(10.173.0.6)" in reported
        assert float(reported.rsplit("= ", 1)[1].split("/")[0]) > 40.0
        # Past the emulated network they reach the run's ports with keys, and nothing that others published.
        assert hello.inside("uav-1", TRY.format("orchestrator", 5604)) == "there"
        for network in ("management", "observers"):
            assert hello.inside("uav-1", TAKE.format(hello.address("orchestrator", network))) == "0 B"
        cloud = hello.address("cloud-net", "management")
        assert cloud
        for host, port in ((cloud, 8500), (hello.address("network", "control"), 5601), ("network", 5601)):
            with pytest.raises(AssertionError, match=r"unreachable|Name or service|Temporary failure|No address"):
                hello.inside("uav-1", TRY.format(host, port))
        for project, name, values in ((hello, "hello", HELLO), (farm, "smart-farm", FARM)):
            scenario = ROOT / "scenarios" / name
            assert project.ended() == 0, project("logs", "orchestrator")
            expected = follow.simulated(scenario, tmp_path / "simulated", *values)
            assert max(follow.apart(expected, project.folder).values()) < follow.NEAR
            assert not any(follow.summary(project.folder, "vehicle")["absences"].values())
            owner = scenario.stat().st_uid
            assert {path.stat().st_uid for path in (project.runs, *project.runs.rglob("*"))} == {owner}
            if name == "smart-farm":
                assert_alike(expected, project.folder)
                assert_photographs(project.folder, created=5)
    for project, trace in ((hello, traces[0]), (farm, traces[1])):
        assert_gone(project, trace)


@pytest.mark.slow
def test_a_whole_flight_in_containers_is_as_simulated(tmp_path):
    """Called, joined, followed, called off, home and landed."""
    with Project.shipped("smart-farm", tmp_path / "runs", *FLIGHT) as project:
        project.up()
        expected = follow.simulated(ROOT / "scenarios/smart-farm", tmp_path / "simulated", *FLIGHT)
        assert project.ended(600.0) == 0, project("logs", "orchestrator")
        assert_alike(expected, project.folder)
        ours, theirs = (follow.summary(folder, "vehicle")["engagements"][0] for folder in (expected, project.folder))
        assert ours["outcome"] == theirs["outcome"] == "completed"
        for phase in ("t_follow", "t_return", "t_land"):
            assert abs(ours[phase] - theirs[phase]) < follow.SOON, phase
        assert_photographs(project.folder, created=150)
        assert "Real nodes" in (project.folder / "report.html").read_text()
    assert project.left == ""


@pytest.mark.slow
def test_a_value_that_cannot_be_overridden_is_named(tmp_path):
    with Project.shipped("hello", tmp_path / "runs", "run.duratoin=20 s") as project:
        project("up", "-d", "--no-build", "orchestrator")
        until(lambda: not project.state("orchestrator")["Running"])
        assert project.ended() == 2
        assert "duratoin" in project("logs", "orchestrator")
