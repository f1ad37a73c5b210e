"""Links between containers that their kernel shapes: rates, what is down, two projects at once, who is started again.

Where the kernel has no netem only rates are asked for (COSIM_KERNEL=rates); delay and loss are measured in
`test_netem_guest`, and that linkd takes over in `test_docker_links`.
"""

from __future__ import annotations

import contextlib
import os

import pytest

import cosim
from cosim.testbed.emulation.overlay import missing
from cosim.testbed.emulation.tc import probe_netem
from tests.real import follow
from tests.real.compose import LONG, Project, docker
from tests.real.follow import until

pytestmark = [
    *LONG,
    pytest.mark.skipif(os.geteuid() != 0 or missing() != "", reason="needs root and a kernel with vxlan"),
]

WIRES = """\
apiVersion: cosim/v1
kind: Scenario
name: wires
run: {duration: DURATION, step: 500 ms}
adapters:
  network: {backend: tc, silence: 30 s, probe: {pairs: 4}}
nodes:
  a: {kind: edge, at: [0 m, 0 m], cpu: 2 x 2 GHz, runs: vedgenode}
  b: {kind: edge, at: [9 m, 0 m], cpu: 2 x 2 GHz, runs: vedgenode}
  c: {kind: cloud, cpu: 2 x 2 GHz, runs: vedgenode}
links:
  - {between: [a, b], rate: 8 Mbit/s}
  - {between: [b, c], rate: 20 Mbit/s, delay: DELAY}
"""
ASKS = "import urllib.request as u; print(u.urlopen('http://{to}:8500/health', timeout=2).status)"


@contextlib.contextmanager
def wires(folder, delay="0 ms", duration="300 s"):
    folder.mkdir()
    (folder / "scenario.cosim.yaml").write_text(WIRES.replace("DELAY", delay).replace("DURATION", duration))
    kernel = "rates" if probe_netem() else "netem"
    with Project(folder, COSIM_KERNEL=kernel) as project:
        project.up()
        yield project
    assert project.left == ""


def reaches(project, node, to):
    with contextlib.suppress(AssertionError):
        return project.inside(node, ASKS.format(to=to)) == "200"
    return False


def tunnel(project, node):
    """What the node's interface is, "" while there is none."""
    with contextlib.suppress(AssertionError):
        return project("exec", "-T", f"{node}-net", "ip", "-d", "-o", "link", "show", "eth1")
    return ""


def test_the_kernel_shapes_what_leaves_each_container_in_two_projects_at_once(tmp_path):
    with wires(tmp_path / "one", duration="60 s") as one, wires(tmp_path / "two") as two:
        for project in (one, two):
            until(lambda project=project: reaches(project, "a", "b") and reaches(project, "c", "b"))
            until(lambda project=project: reaches(project, "a", "c"))  # by b, which forwards as in the model
            assert " vxlan id " in tunnel(project, "a")
            assert "traffic control (links do not share the air" in project("logs", "network")
            assert project.state("network")["Host"]["CapAdd"] is None
            assert [c.removeprefix("CAP_") for c in project.state("a-net")["Host"]["CapAdd"]] == ["NET_ADMIN"]
        two("stop", "b-net", "-t", "1")
        until(lambda: not reaches(two, "a", "b"))
        assert reaches(one, "a", "b")
        assert one.ended() == 0
        reported = follow.summary(one.folder, "network")
        with contextlib.closing(cosim.load(one.folder)) as run:
            rates = run.sql("select rate, rate_asked from link_probe").fetchall()
    assert reported["asked"] == "tc"
    assert reported["backend"].startswith("traffic control (links do not share the air")
    assert reported["probe"]["failed"] == []
    assert {asked for _, asked in rates} == {8e6, 20e6}
    for found, asked in rates:
        assert found == pytest.approx(asked, rel=0.2)


def test_whoever_is_started_again_is_told_everything(tmp_path):
    with wires(tmp_path / "s") as project:
        until(lambda: reaches(project, "a", "b"))
        project.crash("network")
        until(lambda: project("logs", "network").count("attached eth1 of a") == 2)
        until(lambda: reaches(project, "b", "a"))
        before = tunnel(project, "b")
        project.kill("b-net", "cosim.testbed.emulation.sidecar")
        until(lambda: tunnel(project, "b").partition(":")[0] not in ("", before.partition(":")[0]))
        until(lambda: reaches(project, "c", "b") and reaches(project, "b", "a"))
        # Another address of the sidecar: a container that stands in between takes the old one.
        old = " local " + tunnel(project, "b").partition(" local ")[2].split()[0]
        project("stop", "b-net", "b", "-t", "1")
        network = f"{project.name}_management"
        image = docker("inspect", "-f", "{{.Image}}", project.container("a-net"))
        guest = docker("run", "-d", "--rm", "--network", network, "--entrypoint", "sleep", image, "600")
        try:
            project("start", "b-net")
            project("start", "b")
            until(lambda: " local " in tunnel(project, "b"))
            assert old + " " not in tunnel(project, "b")
            until(lambda: reaches(project, "c", "b") and reaches(project, "b", "a"))
        finally:
            docker("rm", "-f", guest)


@pytest.mark.skipif(probe_netem() == "", reason="this kernel has netem")
def test_what_a_kernel_cannot_impose_ends_the_run(tmp_path):
    with wires(tmp_path / "s", delay="20 ms") as project:
        assert project.ended() == 1
        assert "cannot delay or lose packets" in project("logs", "orchestrator")
