"""The compose file of the checkout: its scenarios come up, do what simulated nodes do, and are gone afterwards."""

from __future__ import annotations

import os
import time

import pytest

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
HELLO = ("run.duration=20 s",)
FARM = ("run.duration=54 s", "adapters.network.probe={}")  # the drone has joined the tractor at 49.2 s
# How far links may be off; the defaults of `adapters.network.probe.threshold`.
RATE, DELAY, LOSS = 0.2, 10e-3, 0.02


def assert_gone(project: Project, traces: Traces | None) -> None:
    assert project.left == ""
    if traces is not None:
        end = time.monotonic() + 10.0
        while (left := traces.left()) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == []


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
        # A program in a drone reaches one at its base station, but not the cloud, which is on another network.
        assert hello("exec", "-T", "uav-1", "python3", "-c", ASK.format("north")) == "200"
        assert "No route" in hello("exec", "-T", "uav-1", "sh", "-c", "ping -c 1 cloud 2>&1 || true")
        for project, name, values in ((hello, "hello", HELLO), (farm, "smart-farm", FARM)):
            scenario = ROOT / "scenarios" / name
            assert project.ended() == 0, project("logs", "orchestrator")
            expected = follow.simulated(scenario, tmp_path / "simulated", *values)
            assert max(follow.apart(expected, project.folder).values()) < follow.NEAR
            assert not any(follow.summary(project.folder, "vehicle")["absences"].values())
            owner = scenario.stat().st_uid
            assert {path.stat().st_uid for path in (project.runs, *project.runs.rglob("*"))} == {owner}
            if name == "smart-farm":
                follow.assert_alike(expected, project.folder)
                rate, delay, loss = follow.links_apart(expected, project.folder)
                assert (rate < RATE, delay < DELAY, loss < LOSS) == (True, True, True)
                probe = follow.summary(project.folder, "network")["probe"]
                assert (probe["measured"], probe["failed"], probe["deviating"]) == (6, [], 0)
                counts = follow.delivered(project.folder)
                assert counts["tractor", "uav-1"] > 100  # 5 Hz
    for project, trace in ((hello, traces[0]), (farm, traces[1])):
        assert_gone(project, trace)


def test_a_value_that_cannot_be_overridden_is_named(tmp_path):
    with Project.shipped("hello", tmp_path / "runs", "run.duratoin=20 s") as project:
        project.up()
        until(lambda: not project.state("orchestrator")["Running"])
        assert project.ended() == 2
        assert "duratoin" in project("logs", "orchestrator")
