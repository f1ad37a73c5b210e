"""Programs of nodes are started, started again and ended; no namespace is made, so that no right is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from cosim.contract.errors import ScenarioError, SetupError
from cosim.testbed.launch import cleanup as remains
from cosim.testbed.launch import netns as launch
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan

psutil = pytest.importorskip("psutil")

LIMIT = 60.0  # s
pytestmark = pytest.mark.needs("cc")


class Spaces:
    """Stands for the namespaces: its programs only sleep."""

    made: list[Spaces] = []

    def __init__(self):
        self.nodes, self.started, self.closed = [], [], 0
        Spaces.made.append(self)

    def create(self, node):
        self.nodes.append(node)

    def start(self, node, command, *, stdout, stderr, env):
        process = subprocess.Popen(["sleep", "100"], stdout=stdout, stderr=stderr, env=env, start_new_session=True)
        self.started.append((node, list(command), env, process))
        return process

    def close(self):
        self.closed += 1


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A plan with two nodes, in a temporary folder of its own."""
    monkeypatch.setattr(launch, "Namespaces", Spaces)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(remains.netns, "FOLDER", tmp_path / "no namespaces")
    with tempfile.TemporaryDirectory(prefix="t-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        yield plan(tmp_path, nodes_are="netns", uav_1=DRONE, host=EDGE).scene, tmp_path / "logs", Path(short)
        assert list(Path(short).iterdir()) == []
    Spaces.made.clear()


def until(true):
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def test_programs_are_started_again_and_ended(world, monkeypatch):
    scene, logs, folder = world
    monkeypatch.setenv("COSIM_NETWORK", "mine")
    said = []
    with launch.netns_nodes(scene, logs, said.append) as nodes:
        (spaces,) = Spaces.made
        assert spaces.nodes == ["uav-1", "host"]
        modules = [(node, command[2]) for node, command, _, _ in spaces.started]
        assert modules == [
            ("uav-1", "cosim.testbed.emulation.sidecar"),
            ("uav-1", "cosim.autopilot.node"),
            ("host", "cosim.testbed.emulation.sidecar"),
            ("host", "cosim.testbed.inference.node"),
        ]
        assert os.environ["COSIM_NETWORK"].startswith(f"ipc://{folder}/cosim-")
        sidecar, agent = spaces.started[0][2], spaces.started[1][2]
        assert (sidecar["COSIM_NODE"], sidecar["COSIM_INTERFACES"].split(",")[0]) == ("uav-1", "wlan0")
        assert "COSIM_INTERFACES" not in agent
        assert len(remains.members(remains.netns.run_of(os.getpid()))) >= 5
        spaces.started[1][3].kill()
        until(lambda: len(spaces.started) == 5)
        assert "uav-1 has ended with exit code -9; it is started again" in said
        assert spaces.started[4][:2] == spaces.started[1][:2]
        nodes.restart("host-net")
        until(lambda: len(spaces.started) == 6)
        assert "host-net has ended with exit code -15; it is started again" in said
        with pytest.raises(SetupError, match="there is no program 'cloud'; there are network, uav-1-net, uav-1"):
            nodes.restart("cloud")
    assert spaces.closed == 1
    assert all(process.poll() is not None for *_, process in spaces.started)
    assert os.environ["COSIM_NETWORK"] == "mine"
    assert "COSIM_GATEWAY" not in os.environ
    assert remains.members(remains.netns.run_of(os.getpid())) == []


def test_what_a_dead_program_leaves_running_ends_before_its_successor_starts(world, monkeypatch):
    scene, logs, _ = world

    def start(self, node, command, *, stdout, stderr, env):
        words = ["sh", "-c", "sleep 100 & wait"]
        process = subprocess.Popen(words, stdout=stdout, stderr=stderr, env=env, start_new_session=True)
        self.started.append((node, list(command), env, process))
        return process

    monkeypatch.setattr(Spaces, "start", start)
    with launch.netns_nodes(scene, logs, lambda _text: None):
        (spaces,) = Spaces.made
        first = spaces.started[1][3]
        until(lambda: psutil.Process(first.pid).children())
        (left,) = psutil.Process(first.pid).children()
        first.kill()
        until(lambda: len(spaces.started) == 5)
        until(lambda: left.pid not in remains.members(remains.netns.run_of(os.getpid())))
        second = spaces.started[4][3]
        until(lambda: psutil.Process(second.pid).children())


def test_a_program_that_cannot_be_started_is_tried_again(world, monkeypatch):
    scene, logs, _ = world
    monkeypatch.setattr(launch, "LONGEST_PAUSE", 0.3)
    said, good = [], Spaces.start
    with launch.netns_nodes(scene, logs, said.append):
        (spaces,) = Spaces.made

        def bad(*_given, **_named):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Spaces, "start", bad)
        spaces.started[0][3].kill()
        until(lambda: "uav-1-net cannot be started: [Errno 28] No space left on device" in said)
        monkeypatch.setattr(Spaces, "start", good)
        until(lambda: len(spaces.started) == 5)


def test_images_of_others_need_a_command(world, tmp_path):
    foreign = EDGE.replace("vedgenode", "'example.org/it:1'")
    scene = plan(tmp_path / "s", nodes_are="netns", uav_1=foreign).scene
    with pytest.raises(ScenarioError, match=r"image 'example.org/it:1' needs a container engine"):
        launch.NetnsNodes(scene, tmp_path, print)


def test_without_root_or_real_nodes_nothing_is_started(world, tmp_path, monkeypatch):
    scene, logs, _ = world
    with pytest.raises(ScenarioError, match="no node has 'runs'"):
        launch.NetnsNodes(plan(tmp_path / "s", host=EDGE.replace(", runs: vedgenode", "")).scene, logs, print).open()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    nodes = launch.NetnsNodes(scene, logs, print)
    with pytest.raises(SetupError, match="network namespaces need root"):
        nodes.open()
    nodes.close()
    assert Spaces.made == []


def test_a_service_that_does_not_come_up_says_why(world, monkeypatch):
    scene, logs, _ = world
    monkeypatch.setattr(launch, "READY", 0.0)
    with (
        pytest.raises(launch.RunError, match="the network service does not come up"),
        launch.netns_nodes(scene, logs, print),
    ):
        pass


def test_a_keeper_clears_when_its_run_is_killed(world):
    _, _, folder = world
    program = (
        "import os, subprocess, time; from cosim.testbed.launch import cleanup as remains\n"
        "run = remains.netns.run_of(os.getpid()); remains.folder_for(run); remains.keeper(run)\n"
        "subprocess.Popen(['sleep', '100'], env={remains.VARIABLE: run}, start_new_session=True)\n"
        "print(run, flush=True); time.sleep(100)"
    )
    variables = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
    with subprocess.Popen([sys.executable, "-c", program], env=variables, stdout=subprocess.PIPE, text=True) as running:
        run = running.stdout.readline().strip()
        until(lambda: len(remains.members(run)) == 1)
        assert remains.dead() == []
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        until(lambda: not remains.members(run) and not list(folder.iterdir()))


def test_what_dead_runs_leave_is_found_and_cleared(world):
    _, _, folder = world
    ended = subprocess.Popen(["sleep", "100"])
    run = remains.netns.run_of(ended.pid)
    made, own = remains.folder_for(run), remains.folder_for(remains.netns.run_of(os.getpid()))
    (folder / "cosim-other").mkdir()
    assert remains.dead() == []
    ended.kill()
    ended.wait()
    left = subprocess.Popen(["sleep", "100"], env={remains.VARIABLE: run})
    while left.pid not in remains.members(run):  # its environment is there a moment after it has started
        time.sleep(0.01)
    assert remains.dead() == [run]
    remains.clear(run)
    assert left.wait() == -signal.SIGKILL
    assert not made.exists()
    assert remains.dead() == []
    for path in (own, folder / "cosim-other"):
        path.rmdir()


def test_without_linkd_a_run_is_refused_before_anything_is_made(world, monkeypatch):
    scene, logs, folder = world
    monkeypatch.setenv("CC", "/no/such/compiler")
    monkeypatch.setattr(launch.compiled, "INSTALLED", folder / "linkd")
    with (
        pytest.raises(SetupError, match=r"linkd: no C compiler .* apt install gcc"),
        launch.netns_nodes(scene, logs, print),
    ):
        pass
    assert not Spaces.made
