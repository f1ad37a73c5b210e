"""Containers started from a script: the same ones that compose makes of the file, and gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.launch.compose import render
from cosim.testbed.launch.deployment import Deployment
from cosim.testbed.launch.held import place
from tests.real import compose, follow
from tests.real.compose import docker
from tests.real.follow import until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(1500),  # with nothing in the cache the images take minutes
    pytest.mark.xdist_group("docker"),
    pytest.mark.usefixtures("images", "entered"),
]

PATIENT = ("adapters.vehicle.real.patience=10 s",)  # the machine may be busy


def deployment(folder, *values):
    """The scenario of a folder, with KEY=VALUE overridden; its compose file is written beside it."""
    loaded = load(folder, ["run.nodes=containers", *values])
    plan, tag = compile_plan(loaded), {"COSIM_TAG": compose.TAG}
    (folder / "compose.yaml").write_text(render(plan, loaded.path, folder, follow.ROOT, values))
    return Deployment(plan, loaded.path, runs=folder / "runs", values=values, variables=tag)


def left(name):
    label = ("-q", "--filter", f"label=com.docker.compose.project={name}")
    return "".join(docker(*kind, *label) for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"]))


@pytest.mark.slow
def test_a_script_runs_a_scenario_as_simulated_in_the_containers_of_compose(tmp_path, expected):
    scenario = follow.write(tmp_path / "s")
    with deployment(scenario, *PATIENT) as made:
        assert left(made.name)
        host, port = made.address("dashboard", 8080).split(":")
        until(lambda: reached(host, int(port)))
        until(lambda: made.run("uav-1", ["ping", "-q", "-c", "1", "-W", "1", "tractor"]).code == 0)
        failed = made.run("uav-1", ["ls", "/nowhere"])
        assert failed.code != 0
        assert "No such file" in failed.output
        made.kill("edge")
        until(lambda: docker("inspect", "-f", "{{.State.Running}}", f"{made.name}-edge-1") == "false")
        made.restart("edge")
        assert made.run("edge", ["true"]).code == 0
        assert made.wait(follow.LIMIT + 60.0) == 0, made.logs("orchestrator")
        follow.assert_alike(expected(18.0), made.folder)
        assert not any(follow.summary(made.folder, "vehicle")["absences"].values())
    assert left(made.name) == ""


def projects():
    """The compose projects that the engine knows of, running or not."""
    return set(docker("compose", "ls", "--all", "--quiet").split())


def reached(host, port):
    """Somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_what_is_interrupted_leaves_nothing(tmp_path, monkeypatch):
    made = deployment(follow.write(tmp_path / "s"), *PATIENT)
    begun = made._compose

    def compose(*words, **limit):
        said = begun(*words, **limit)
        if words[0] == "up":
            raise KeyboardInterrupt
        return said

    monkeypatch.setattr(made, "_compose", compose)
    with pytest.raises(KeyboardInterrupt):
        made.start()
    assert left(made.name) == ""


def command(scenario, out):
    """`cosim run --nodes containers` of a scenario."""
    words = [sys.executable, "-m", "cosim", "run", str(scenario), "--nodes", "containers", "--out", str(out)]
    return [*words, *(word for value in PATIENT for word in ("--set", value))]


@pytest.mark.slow
def test_one_command_runs_a_scenario_in_containers(tmp_path):
    scenario, before = follow.write(tmp_path / "s", 6.0), projects()
    done = subprocess.run(
        [*command(scenario, tmp_path / "runs"), "--json"],
        cwd=follow.ROOT, env=compose.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["status"] == "complete"
    assert Path(found["report"]).is_file()
    assert found["figures"]["energy_total"] > 0.0
    assert projects() <= before  # those of others at the machine stay as they are


@pytest.mark.slow
@pytest.mark.chaos
def test_a_killed_command_leaves_its_results_and_nothing_else(tmp_path):
    runs, said = tmp_path / "runs", tmp_path / "said"
    with said.open("w") as file:
        process = subprocess.Popen(
            command(follow.write(tmp_path / "s", 300.0), runs), cwd=follow.ROOT, env=compose.environment(),
            stdout=subprocess.DEVNULL, stderr=file, start_new_session=True,
        )  # fmt: skip
        try:
            until(lambda: list(runs.glob("*/*/frames/mobility/*")))
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with all that hears the terminal
            process.wait()
    name = said.read_text().split("of project ", 1)[1].split()[0]
    until(lambda: left(name) == "")
    (folder,) = runs.glob("*/*/")
    assert follow.manifest(folder)["status"] == "partial"
    assert (folder / "report.html").is_file()
    until(lambda: not place(name).exists())
