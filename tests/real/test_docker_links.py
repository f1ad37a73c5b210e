"""Links between containers: across base stations, by ns-3, and set against what was asked."""

from __future__ import annotations

import platform

import pytest

from cosim.testbed.emulation.overlay import missing
from cosim.testbed.emulation.tc import probe_netem
from tests.real import follow
from tests.real.compose import LONG, Project
from tests.real.follow import until

pytestmark = LONG

CELL = """\
apiVersion: cosim/v1
kind: Scenario
name: cell
run: {duration: 300 s, step: 500 ms}
geo: {origin: [39.36, 22.95, 60 m]}
adapters:
  vehicle: {}
  radio: {model: ci}
  network: {silence: 30 s}
nodes:
  uav-1: {kind: uav, at: [40 m, 0 m], vehicle: {frame: copter}, runs: vuav}
  mast: {kind: base-station, at: [0 m, 0 m], cpu: 2 x 2 GHz, runs: vedgenode}
  cloud: {kind: cloud, cpu: 2 x 2 GHz, runs: vedgenode}
links:
  - {between: [mast, cloud], rate: 100 Mbit/s, delay: 20 ms}
"""


def network(folder, block):
    """The scenario of the follower with another `network` block."""
    path = follow.write(folder, duration=40.0) / "scenario.cosim.yaml"
    text = path.read_text()
    assert "network: {silence: 30 s}" in text
    path.write_text(text.replace("network: {silence: 30 s}", f"network: {{silence: 30 s, {block}}}"))
    return folder


def reaches(project, node, to):
    try:
        project("exec", "-T", node, "ping", "-q", "-c", "2", "-W", "1", to)
    except AssertionError:
        return False
    return True


def test_a_drone_reaches_the_cloud_by_name_across_a_base_station(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "scenario.cosim.yaml").write_text(CELL)
    with Project(tmp_path / "s") as project:
        project.up()
        project.flying()
        until(lambda: reaches(project, "uav-1", "cloud"))
        said = project("exec", "-T", "uav-1", "ping", "-q", "-c", "3", "cloud")
        least = float(said.split("rtt min/avg/max/mdev = ")[1].split("/")[0])  # ms
        assert least >= 40.0  # there and back by wire, besides the air
        assert reaches(project, "uav-1", "mast")
    assert project.left == ""


STUMBLE = """\
import os, signal, time
while True:
    others = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid not in (1, os.getpid())]
    for number, pause in ((signal.SIGSTOP, 0.3), (signal.SIGCONT, 0.1)):
        for pid in others:
            try: os.kill(pid, number)
            except OSError: pass
        time.sleep(pause)
"""


def test_a_link_that_is_not_as_asked_ends_the_run_if_it_shall(tmp_path):
    """The network service stands still for three quarters of the time, so packets are 0.1 s late on average."""
    reason = probe_netem() or missing()  # else the kernel moves the packets
    backend = "tc" if reason else "linkd"
    with Project(network(tmp_path / "s", f"backend: {backend}, probe: {{fail: true}}")) as project:
        project.up()
        project("exec", "-d", "network", "python3", "-c", STUMBLE)
        assert project.ended() == 1
        assert "times the threshold (adapters.network.probe)" in project("logs", "orchestrator")
        assert follow.manifest(project.folder)["status"] != "complete"
        if reason:  # another takes the place of traffic control, and all say why
            said = f"linkd (tc was asked for, but {reason.partition(';')[0]})"
            assert said in project("logs", "network")
            assert said in project("logs", "orchestrator")
    assert project.left == ""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="ns-3 comes for x86-64")
def test_containers_talk_over_the_wifi_of_ns3(tmp_path):
    with Project(network(tmp_path / "s", "backend: ns3, probe: {pairs: 2}")) as project:
        project.build()
        project.up()
        assert project.ended() == 0, project("logs", "orchestrator", "network")
        reported = follow.summary(project.folder, "network")
        assert reported["backend"].startswith("ns3-engine for wlan0, linkd")
        assert reported["restarts"] == 0
        assert reported["probe"]["measured"] == 2
        assert reported["probe"]["failed"] == []
        counts = follow.delivered(project.folder)
        assert counts["uav-1", "tractor"] > 50
        assert counts["tractor", "uav-1"] > 50
    assert project.left == ""
