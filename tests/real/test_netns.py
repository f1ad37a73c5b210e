"""Real nodes in network namespaces: as simulated ones, through every death, and gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from cosim.testbed.emulation import netns
from cosim.testbed.launch import cleanup as remains
from tests.real import follow
from tests.real.follow import PROGRAMS, ROOT, real, until

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.timeout(300)]


def test_real_nodes_do_what_simulated_ones_do(tmp_path, expected):
    scenario = follow.write(tmp_path / "s")
    with real(scenario, tmp_path / "runs") as run:
        assert run.ended() == 0, run.said
        assert "3 nodes in network namespaces" in run.said
        follow.assert_nothing_left(run.run)
        follow.assert_alike(expected(18.0), run.folder)
        assert follow.summary(run.folder, "vehicle")["absences"] == {"uav-1": 0, "tractor": 0}
        counts = follow.delivered(run.folder)
        assert counts["uav-1", "tractor"] > 50  # 5 Hz, less what is under way
        assert counts["tractor", "uav-1"] > 50


def test_an_ardupilot_that_the_scenario_names_flies_inside_its_node(tmp_path):
    pytest.importorskip("pymavlink")
    scenario = follow.with_ardupilot(tmp_path)
    with real(scenario, tmp_path / "runs") as run:
        assert run.ended() == 0, run.said
        follow.assert_nothing_left(run.run)
        follow.assert_ardupilot(run.folder)
    (tmp_path / "arducopter").unlink()
    with real(scenario, tmp_path / "none") as run:
        assert run.ended() == 2
        assert f"there is no program '{tmp_path / 'arducopter'}'" in run.said


def test_a_shell_is_inside_its_node(tmp_path):
    with real(follow.write(tmp_path / "s", duration=600.0), tmp_path / "runs") as run:
        run.flying()

        def shell(node, *command, text=""):
            words = [sys.executable, "-m", "cosim", "shell", node, "--run", str(run.folder), *command]
            return subprocess.run(words, cwd=ROOT, input=text, capture_output=True, text=True, timeout=60)

        own = {
            node: shell(node, "--", "ip", "-o", "-4", "addr", "show", "dev", "wlan0").stdout for node in follow.NODES
        }
        addresses = {node: line.split()[3].partition("/")[0] for node, line in own.items()}
        assert len(set(addresses.values())) == len(follow.NODES)
        ping = shell("edge", "--", "ping", "-c", "5", "-i", "0.3", "-W", "5", addresses["uav-1"])
        assert ping.returncode == 0, ping.stdout  # over the emulated air; loss of all five is not to be expected
        typed = shell("tractor", text="ip -o -4 addr show dev wlan0; exit 7\n")  # the shell itself
        assert (typed.returncode, typed.stdout) == (7, own["tractor"])
        unknown = shell("uav-2")
        assert unknown.returncode == 2
        assert "did you mean 'uav-1'?" in unknown.stderr
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.ended() == 1
        ended = shell("edge")
        assert ended.returncode == 2
        assert "has ended" in ended.stderr


@pytest.mark.chaos
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path, number):
    with real(follow.write(tmp_path / "s"), tmp_path / "runs") as run:
        run.flying()
        assert not [name for name in netns.leftovers() if run.run in name]
        assert len(remains.members(run.run)) >= len(PROGRAMS)
        os.killpg(run.process.pid, number)
        assert run.ended() == 1
        assert follow.manifest(run.folder)["status"] == "partial"
        follow.assert_nothing_left(run.run)


@pytest.mark.chaos
def test_an_interrupt_while_nodes_are_started_leaves_nothing(tmp_path):
    with real(follow.write(tmp_path / "s"), tmp_path / "runs") as run:
        until(lambda: remains.members(run.run))
        os.killpg(run.process.pid, signal.SIGTERM)
        run.process.wait(60)
        follow.assert_nothing_left(run.run)


@pytest.mark.chaos
def test_a_keeper_clears_away_what_a_killed_run_leaves(tmp_path):
    with real(follow.write(tmp_path / "s"), tmp_path / "runs") as run:
        run.flying()
        run.process.kill()
        run.process.wait()
        follow.assert_nothing_left(run.run)


@pytest.mark.chaos
def test_what_is_left_without_a_keeper_is_listed_and_cleared_by_the_next_run(tmp_path):
    with real(follow.write(tmp_path / "s"), tmp_path / "runs") as run:
        run.flying()
        (keeper,) = follow.keepers(run)
        os.kill(keeper, signal.SIGKILL)
        run.process.kill()
        run.process.wait()
    assert run.run in remains.dead()
    reported = subprocess.run(
        [sys.executable, "-m", "cosim", "doctor"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    assert f"cosim-{run.run}-uav-1" in reported
    with real(follow.write(tmp_path / "t"), tmp_path / "next") as other:
        other.flying()
        assert f"cleared away what run {run.run} has left" in other.said
        follow.assert_nothing_left(run.run)
        assert len(remains.members(other.run)) >= len(PROGRAMS)
        other.process.terminate()
        other.ended()
        follow.assert_nothing_left(other.run)


@pytest.mark.chaos
def test_a_run_goes_on_when_each_of_its_programs_is_killed(tmp_path, expected):
    scenario = follow.write(tmp_path / "s", duration=600.0)  # long enough however busy the machine is
    with real(scenario, tmp_path / "runs") as run:
        run.flying()
        for name in PROGRAMS:
            killed = run.program(name)
            assert killed, f"there is no {name}"
            os.kill(killed, signal.SIGKILL)
            until(lambda name=name, killed=killed: run.program(name) not in (0, killed))
            assert f"{name} has ended with exit code -9; it is started again" in run.said
        until(lambda: run.log.count("is flown by its own program") == 2)
        since = follow.reached(run.folder) + follow.AGAIN
        until(lambda: follow.reached(run.folder) > since + 3.0)
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.ended() == 1, run.said
        follow.assert_nothing_left(run.run)
        reported = follow.summary(run.folder, "vehicle")
        assert reported["absences"] == {"uav-1": 1, "tractor": 1}
        counts = follow.delivered(run.folder, after=since)
        assert counts["uav-1", "tractor"] > 5
        assert counts["tractor", "uav-1"] > 5
        # Without a network the drone waited for word of the tractor; it has caught up.
        end = follow.reached(run.folder)
        assert max(follow.apart(expected(600.0), run.folder, since, end).values()) < follow.NEAR


@pytest.mark.chaos
def test_a_vehicle_that_may_not_be_missing_ends_the_run(tmp_path):
    with real(follow.write(tmp_path / "s", missing="fail"), tmp_path / "runs") as run:
        run.flying()
        os.kill(run.program("uav-1"), signal.SIGKILL)
        assert run.ended() == 1
        assert "the program of 'uav-1' does not answer, and 'missing: fail' ends the run then" in run.said
        assert follow.manifest(run.folder)["status"] == "partial"
        follow.assert_nothing_left(run.run)


@pytest.mark.chaos
def test_a_run_waits_for_a_vehicle_that_it_is_told_to_wait_for(tmp_path, expected):
    with real(follow.write(tmp_path / "s", missing="wait"), tmp_path / "runs") as run:
        run.flying()
        os.kill(run.program("uav-1"), signal.SIGKILL)
        assert run.ended() == 0, run.said
        assert follow.summary(run.folder, "vehicle")["absences"] == {"uav-1": 1, "tractor": 0}
        follow.assert_alike(expected(18.0), run.folder)


@pytest.mark.chaos
def test_a_vehicle_that_stands_still_is_flown_here_meanwhile(tmp_path, expected):
    with real(follow.write(tmp_path / "s", duration=40.0), tmp_path / "runs") as run:
        run.flying()
        stopped = run.program("uav-1")
        os.kill(stopped, signal.SIGSTOP)
        until(lambda: "the program of uav-1 does not answer; it is flown here" in run.log)
        since = follow.reached(run.folder)
        until(lambda: follow.reached(run.folder) > since + 5.0)
        os.kill(stopped, signal.SIGCONT)
        until(lambda: "uav-1 is flown by its own program" in run.log)
        assert run.program("uav-1") == stopped
        assert run.ended() == 0, run.said
        assert follow.summary(run.folder, "vehicle")["absences"] == {"uav-1": 1, "tractor": 0}
        assert max(follow.apart(expected(40.0), run.folder).values()) < follow.NEAR
        follow.assert_nothing_left(run.run)
