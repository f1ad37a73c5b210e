"""`cosim shell`: which nodes it enters, and by what."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.cli.shell import _entering
from cosim.results.folder import RunFolder
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.emulation.netns import run_of
from tests.real import follow


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Makes the folder of a run that this process holds, below the working directory."""
    monkeypatch.chdir(tmp_path)
    made = []

    def make(nodes, project=""):
        monkeypatch.setenv("COSIM_PROJECT", project)
        plan = compile_plan(load(follow.write(tmp_path / "s"), [f"run.nodes={nodes}"]))
        made.append(RunFolder.create(tmp_path / "runs", plan))
        return made[-1]

    yield make
    for one in made:
        one.let_go()


def refused(*words):
    found = CliRunner().invoke(app, ["shell", *words])
    assert found.exit_code == 2
    return found.output


def test_only_real_nodes_of_a_run_under_way_are_entered(folder):
    assert "no run is under way below 'runs'" in refused("uav-1")
    one = folder("process")
    assert "are simulated, so there is nothing to enter: start the run with --nodes netns" in refused("uav-1")
    one.let_go()
    assert "has ended, and its nodes with it" in refused("uav-1", "--run", str(one.path))
    folder("netns")
    assert "there is no node 'uav-2'; did you mean 'uav-1'?" in refused("uav-2")


def test_a_node_without_software_is_simulated(folder, monkeypatch):
    far = "  far: {{kind: cloud, cpu: 1 x 1 GHz}}\n"
    monkeypatch.setattr(follow, "_SCENARIO", follow._SCENARIO + far)
    folder("netns")
    assert "node 'far' is simulated: it has no 'runs'; real nodes: uav-1, tractor, edge" in refused("far")


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_namespace_is_entered_by_ip(folder):
    words = _entering("uav-1", folder("netns"), ["ip", "addr"])
    assert words == ["ip", "netns", "exec", f"cosim-{run_of(os.getpid())}-uav-1", "ip", "addr"]


@pytest.mark.parametrize(("project", "named"), [("", "follow"), ("cosim-follow-1234abcd", "cosim-follow-1234abcd")])
def test_a_container_is_entered_by_compose(folder, project, named):
    words = _entering("edge", folder("containers", project), ["ps"])
    assert words == ["docker", "compose", "--project-name", named, "exec", "-T", "edge", "ps"]
