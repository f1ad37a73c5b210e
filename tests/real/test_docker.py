"""Real nodes as containers: as simulated ones, side by side, through every death, and gone afterwards."""

from __future__ import annotations

import os
import time
import urllib.request
from pathlib import Path

import pytest

from tests.real import follow
from tests.real.compose import LONG, Project, docker
from tests.real.follow import NODES, until

pytestmark = LONG

OWNER = 12345  # a user that neither the host nor an image has
SERVICES = ("orchestrator", "network", "dashboard", *(f"{node}{part}" for node in NODES for part in ("-net", "")))


def get(project: Project, path: str) -> bytes:
    """What the dashboard answers, as soon as it does: its port is open before it is."""
    address = project("port", "dashboard", "8080")
    assert address.startswith("127.0.0.1:")
    end = time.monotonic() + follow.LIMIT
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return answer.read()
        except OSError:
            assert time.monotonic() < end, f"no answer from {address}"
            time.sleep(0.2)


def test_two_projects_side_by_side_do_what_simulated_nodes_do(tmp_path, expected):
    folders = [follow.write(tmp_path / name) for name in ("one", "two")]
    if os.geteuid() == 0:
        for path in (folders[0], *folders[0].iterdir()):
            os.chown(path, OWNER, OWNER)
    with Project(folders[0]) as one, Project(folders[1]) as two:
        one.up()
        two.up()
        assert b"<html" in get(one, "/").lower()
        assert get(one, "/") == get(two, "/")
        until(lambda: b"uav-1" in get(one, "/api/find?name=uav-1"))  # it has the frames of the run
        assert one("port", "dashboard", "8080") != two("port", "dashboard", "8080")
        for project in (one, two):
            assert project.ended() == 0, project("logs", "orchestrator")
            follow.assert_alike(expected(18.0), project.folder)
            assert follow.summary(project.folder, "vehicle")["absences"] == {"uav-1": 0, "tractor": 0}
            counts = follow.delivered(project.folder)
            assert counts["uav-1", "tractor"] > 50
            assert counts["tractor", "uav-1"] > 50
            owner = project.scenario.stat().st_uid
            assert {path.stat().st_uid for path in (project.runs, *project.runs.rglob("*"))} == {owner}
        for service in SERVICES:
            host = one.state(service)["Host"]
            assert isinstance(host, dict)
            assert host["CapDrop"] == ["ALL"]
            assert not host["Privileged"]
            assert (host["CapAdd"] in (["NET_ADMIN"], ["CAP_NET_ADMIN"])) == service.endswith("-net")
            assert not [bind for bind in host["Binds"] or () if "docker.sock" in bind]
    assert one.left == two.left == ""


def test_an_ardupilot_of_this_machine_flies_inside_its_container(tmp_path):
    pytest.importorskip("pymavlink")
    with Project(follow.with_ardupilot(tmp_path, "/usr/bin/python3")) as project:
        project.up()
        assert project.ended() == 0, project("logs", "orchestrator")
        follow.assert_ardupilot(project.folder)
    assert project.left == ""


@pytest.mark.chaos
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can kill the processes of containers")
def test_a_run_goes_on_when_each_of_its_services_dies(tmp_path, expected):
    with Project(follow.write(tmp_path / "s", duration=900.0)) as project:  # enough however busy the machine is
        project.up()
        project.flying()
        for service in SERVICES[1:]:
            project.crash(service)
            until(lambda service=service: project.state(service)["Restarts"] == 1)
            until(lambda service=service: project.state(service)["Running"])
        for name in ("uav-1", "tractor"):
            until(lambda name=name: project.log.rfind(f"{name} is flown") > project.log.rfind(f"of {name} does not"))
        assert b"<html" in get(project, "/").lower()
        since = follow.reached(project.folder) + follow.AGAIN
        until(lambda: follow.reached(project.folder) > since + 3.0)
        assert project.state("orchestrator")["Running"], project("logs", "orchestrator")
        project("stop", "--timeout", "60", "orchestrator")
        absences = follow.summary(project.folder, "vehicle")["absences"]
        assert set(absences) == {"uav-1", "tractor"}
        assert all(count >= 1 for count in absences.values())
        counts = follow.delivered(project.folder, after=since)
        assert counts["uav-1", "tractor"] > 5
        assert counts["tractor", "uav-1"] > 5
        # Without a network the drone waited for word of the tractor; it has caught up.
        end = follow.reached(project.folder)
        assert max(follow.apart(expected(900.0), project.folder, since, end).values()) < follow.NEAR
    assert project.left == ""


@pytest.mark.chaos
def test_a_vehicle_whose_container_is_paused_is_flown_here_meanwhile(tmp_path, expected):
    with Project(follow.write(tmp_path / "s", duration=60.0)) as project:
        project.up()
        project.flying()
        docker("pause", project.container("uav-1"))
        until(lambda: "the program of uav-1 does not answer; it is flown here" in project.log)
        since = follow.reached(project.folder)
        until(lambda: follow.reached(project.folder) > since + 5.0)
        docker("unpause", project.container("uav-1"))
        until(lambda: "uav-1 is flown by its own program" in project.log)
        assert project.ended() == 0, project("logs", "orchestrator")
        assert follow.summary(project.folder, "vehicle")["absences"] == {"uav-1": 1, "tractor": 0}
        assert max(follow.apart(expected(60.0), project.folder).values()) < follow.NEAR
    assert project.left == ""


@pytest.mark.chaos
def test_a_run_that_is_stopped_keeps_its_results(tmp_path):
    with Project(follow.write(tmp_path / "s", duration=300.0)) as project:
        project.up()
        project.flying()
        project("stop", "--timeout", "30", "orchestrator")
        assert follow.manifest(project.folder)["status"] == "partial"
        assert Path(project.folder, "report.html").is_file()
    assert project.left == ""
