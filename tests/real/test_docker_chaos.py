"""Runs with containers whose machine, network and neighbours misbehave: they go on, or end with the cause named."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
import zmq

import cosim
from cosim.results.ledgers import ledger_faults
from cosim.talk import keys
from cosim.talk.codec import Message
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY, MAX_MESSAGE
from tests.real import follow
from tests.real.compose import LONG, ROOT, Project, docker, render
from tests.real.follow import until
from tests.unit.testbed.live.pair import FACTS

pytestmark = [
    *LONG,
    pytest.mark.chaos,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can kill processes of containers and mount a disk"),
]

HEALTH = "import urllib.request as u; print(u.urlopen('http://edge:8500/health', timeout=20).status)"


def places(folder: Path) -> list[tuple[str, float]]:
    """The rows of a run that can be read."""
    with contextlib.closing(cosim.load(folder)) as run:
        return run.sql("select node, time from mobility order by time, node").fetchall()


def error(folder: Path) -> str:
    """Why a run ended early, as its manifest has it."""
    found = follow.manifest(folder)
    assert found["status"] == "partial"
    return json.dumps(found["error"])


def test_a_killed_run_can_be_read_and_its_nodes_serve_the_next(tmp_path):
    with Project(follow.write(tmp_path / "s", duration=300.0)) as project:
        project.up()
        project.flying()
        before = places(project.folder)
        until(lambda: len(places(project.folder)) > len(before))
        project.crash("orchestrator")
        assert project.ended() == 137
        first = project.folder
        after = places(first)
        assert len(after) > len(before)
        assert after[: len(before)] == before
        with contextlib.closing(cosim.load(first)) as run:
            assert run.status == "partial"
        assert all(project.state(node)["Running"] for node in follow.NODES)
        project.override("run.duration=8 s")
        project("up", "-d", "--no-build", "orchestrator")
        until(lambda: project.folder != first)
        assert project.ended() == 0, project("logs", "orchestrator")
        assert follow.manifest(project.folder)["status"] == "complete"
        assert follow.summary(project.folder, "vehicle")["absences"] == {"uav-1": 0, "tractor": 0}
    assert project.left == ""


def test_a_namespace_outlives_its_sidecar_and_a_node_follows_a_new_one(tmp_path):
    """The edge node's image is like any: only the container of its sidecar can give it interfaces."""
    with Project(follow.write(tmp_path / "s", duration=300.0)) as project:
        project.up()
        project.flying()
        assert project.inside("uav-1", HEALTH) == "200"
        project.kill("edge-net", "cosim.testbed.emulation.sidecar")
        until(lambda: project("logs", "edge-net").count("handed over wlan0") == 2)
        until(lambda: project.inside("uav-1", HEALTH + " if 1 else 0") == "200")
        assert [project.state(name)["Restarts"] for name in ("edge-net", "edge")] == [0, 0]
        project.crash("edge-net")
        until(lambda: project.state("edge")["Restarts"] == 1)
        until(lambda: project.state("edge")["Running"])
        until(lambda: answers(project))
        assert project.state("orchestrator")["Running"]
    assert project.left == ""


def answers(project: Project) -> bool:
    """Whether the edge node answers the drone."""
    with contextlib.suppress(AssertionError):
        return project.inside("uav-1", HEALTH) == "200"
    return False


def test_a_network_service_that_stands_still_for_ten_seconds_is_waited_for(tmp_path, expected):
    with Project(follow.write(tmp_path / "s", duration=40.0)) as project:
        project.up()
        project.flying()
        begun = time.monotonic()
        docker("pause", project.container("network"))
        time.sleep(10.0)
        docker("unpause", project.container("network"))
        took = time.monotonic() - begun
        assert project.ended() == 0, project("logs", "orchestrator")
        reported = follow.summary(project.folder, "network")
        assert 9.0 < reported["longest_silence"] < took + 5.0
        assert reported["restarts"] == 0
        assert follow.delivered(project.folder, after=35.0)["tractor", "uav-1"] > 10
        ours, theirs = follow.phases(expected(40.0)), follow.phases(project.folder)
        assert ours["t_command"] == theirs["t_command"]
    assert project.left == ""


def test_a_network_service_that_is_silent_for_too_long_is_named(tmp_path):
    with Project(follow.write(tmp_path / "s", duration=300.0)) as project:
        project.override("adapters.network.silence=4 s")
        project.up()
        project.flying()
        docker("pause", project.container("network"))
        assert project.ended() == 1
        assert "the network service has said nothing for 4 s" in error(project.folder)
        assert places(project.folder)
        docker("unpause", project.container("network"))
    assert project.left == ""


@pytest.fixture
def small_disk(tmp_path):
    """A few megabytes for results."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_ends_the_run_with_what_there_is(tmp_path, small_disk):
    with Project(follow.write(tmp_path / "s", duration=300.0), runs=small_disk) as project:
        project.up()
        project.flying()
        before = places(project.folder)
        with contextlib.suppress(OSError), (small_disk / "full").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert project.ended() == 1
        assert "No space left on device" in project("logs", "orchestrator")
        assert "No space left on device" in error(project.folder)
        assert places(project.folder)[: len(before)] == before
        (small_disk / "full").unlink()
        assert all(project.state(node)["Running"] for node in follow.NODES)
    assert project.left == ""


FLOOD = (
    "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); e = time.monotonic() + 6; n = 0\n"
    "while time.monotonic() < e:\n"
    "    try: n += s.sendto(bytes(1400), ('tractor', 9)) > 0\n"
    "    except OSError: time.sleep(1e-3)\n"
    "print(n)"
)


def test_a_node_that_floods_gets_no_more_than_its_link(tmp_path):
    with Project(follow.write(tmp_path / "s", duration=20.0)) as project:
        project.up()
        project.flying()
        sent = int(project.inside("uav-1", FLOOD))
        assert project.ended() == 0, project("logs", "orchestrator")
        assert project.state("network")["Restarts"] == 0
        assert follow.summary(project.folder, "vehicle")["absences"] == {"uav-1": 0, "tractor": 0}
        with contextlib.closing(cosim.load(project.folder)) as run:
            ((data, dropped),) = run.sql(
                "select sum(bytes), sum(dropped) from link_traffic where node = 'uav-1' and peer = 'tractor'"
            ).fetchall()
            ((rate,),) = run.sql("select max(rate) from peer_link where node = 'uav-1' and peer = 'tractor'").fetchall()
        unread = follow.summary(project.folder, "network")["unread"]
        assert 8 * data < 1.1 * rate * 7.0
        assert dropped + unread > sent - 1.1 * rate * 7.0 / (8 * 1442)  # all that the link has no room for
    assert project.left == ""


class Client:
    """Somebody on the management network with a key."""

    def __init__(self, address: str, key: keys.Key, server: str) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.curve_publickey, self.socket.curve_secretkey = key.public.encode(), key.secret.encode()
        self.socket.curve_serverkey = server.encode()
        self.socket.connect(f"tcp://{address}:5604")

    def ask(self, data: bytes) -> Message | None:
        self.socket.send(data)
        return FROM_GATEWAY.unpack(self.socket.recv()) if self.socket.poll(3_000) else None

    def close(self) -> None:
        self.socket.close(0)
        self._context.term()


def test_nobody_without_a_key_gets_in_and_messages_of_no_worth_harm_nobody(tmp_path):
    with (
        Project.shipped("edge-inference", tmp_path / "runs", "run.duration=30 s") as project,
        contextlib.ExitStack() as stack,
    ):
        project.up()
        until(lambda: project("logs", "uav-1", "uav-2", "edge").count("attached as") == 3)
        own = tmp_path / "node.key"
        project("cp", "edge:/run/cosim-key/node.key", str(own))
        own.chmod(0o600)
        edge, address = keys.read(own), project.address("orchestrator", "management")
        hello = FROM_AGENT.pack("hello", {**FACTS, "node": "edge", "instance": b"i" * 16}, session=b"n" * 16)

        def client(key: keys.Key) -> Client:
            made = Client(address, key, edge.server)
            stack.callback(made.close)
            return made

        assert client(keys.make("stranger")).ask(hello) is None
        with socket.create_connection((address, 5604), timeout=5) as raw, contextlib.suppress(OSError):
            for _ in range(64):
                raw.sendall(secrets.token_bytes(64 << 10))
        thief = client(edge)  # the right key, but the node is there already
        answer = thief.ask(hello)
        assert answer is not None
        assert answer.kind != "welcome"
        for _ in range(200):
            thief.socket.send(hello)
        thief.socket.send(bytes(1000))
        thief.socket.send(bytes(MAX_MESSAGE + 1))
        assert project.ended() == 0, project("logs", "orchestrator")
        reported = follow.summary(project.folder, "live")
        assert reported["refused_keys"] >= 1
        assert reported["left_out"]["malformed"] >= 1
        assert {row["state"] for row in reported["nodes"].values()} == {"attached"}
        assert {row["present"] for row in reported["nodes"].values()} == {1.0}
        assert reported["tasks"]["completed"] > 50
        assert reported["tasks"]["failed"] == {}
        assert ledger_faults(reported) == []
    assert project.left == ""


JUMP = """\
import os, time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + 3600.0 * os.path.exists("/tmp/jump")
time.time_ns = lambda: _time_ns() + 3600 * 10**9 * os.path.exists("/tmp/jump")
"""


def test_clocks_that_are_set_by_an_hour_harm_nobody(tmp_path):
    (tmp_path / "jump.py").write_text(JUMP)
    (tmp_path / "jump.pth").write_text("import jump\n")  # when Python starts
    scenario = shutil.copytree(ROOT / "scenarios" / "edge-inference", tmp_path / "s")
    file = render(scenario)
    file.write_text(file.read_text().replace("read_only: true", "read_only: false"))
    with Project(scenario, file=file, COSIM_SET=shlex.join(["run.duration=25 s"])) as project:
        project("create", "--no-build")
        for node in ("edge", "uav-1"):
            for file in ("jump.py", "jump.pth"):
                project("cp", str(tmp_path / file), f"{node}:/usr/local/lib/python3.11/dist-packages/{file}")
        project.up()
        until(lambda: project("logs", "uav-1", "uav-2", "edge").count("attached as") == 3)
        time.sleep(5.0)
        for node in ("edge", "uav-1"):
            project.inside(node, "open('/tmp/jump', 'w')")
            assert float(project.inside(node, "import time; print(time.time())")) > time.time() + 3000.0
        time.sleep(5.0)
        project.inside("edge", "import os; os.unlink('/tmp/jump')")  # and back
        assert project.ended() == 0, project("logs", "orchestrator")
        reported = follow.summary(project.folder, "live")
        assert reported["tasks"]["failed"] == {}
        assert reported["tasks"]["completed"] > 50
        assert {row["present"] for row in reported["nodes"].values()} == {1.0}
        assert ledger_faults(reported) == []
        with contextlib.closing(cosim.load(project.folder)) as run:
            rows = run.sql("select created, uploaded, started, computed, ended from task").fetchall()
        assert all(0.0 <= early <= late <= 26.0 for row in rows for early, late in pairwise(row))
    assert project.left == ""
