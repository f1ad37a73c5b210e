"""Containers started from a script: the same ones that compose makes of the file, and gone afterwards."""

from __future__ import annotations

import json
import socket

import pytest

from cosim.launch.compose import render
from cosim.launch.deployment import DEPLOYMENT, Deployment
from cosim.plan.compile import compile_plan
from cosim.scenario.load import load
from tests.real import compose, follow
from tests.real.compose import Project, docker
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
    label = ("-q", "--filter", f"label={DEPLOYMENT}={name}")
    return "".join(docker(*kind, *label) for kind in (["ps", "-a"], ["network", "ls"], ["volume", "ls"]))


def facts(container):
    """What the engine knows of a container, less the names and addresses that are its project's alone."""
    (found,) = json.loads(docker("inspect", container))
    config, host, networks = found["Config"], found["HostConfig"], found["NetworkSettings"]["Networks"]
    for key in ("Hostname", "Labels", "Volumes", "OnBuild"):  # Volumes: another way to say what Mounts hold
        config.pop(key, None)
    for key in ("NetworkMode", "Binds", "Mounts"):
        host.pop(key, None)
    config["Env"], host["ExtraHosts"] = sorted(config["Env"]), sorted(host["ExtraHosts"] or [])
    return {
        "config": {key: value for key, value in config.items() if value},
        "host": {key: value for key, value in host.items() if value},
        "networks": {name.partition("_")[2] for name in networks},
        "mounts": sorted(
            (m["Destination"], m["RW"], m["Type"], m.get("Name", "").partition("_")[2] or m["Source"])
            for m in found["Mounts"]
        ),
    }


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
        until(lambda: docker("inspect", "-f", "{{.State.Running}}", f"{made.name}-edge") == "false")
        made.restart("edge")
        assert made.run("edge", ["true"]).code == 0
        assert made.wait(follow.LIMIT + 60.0) == 0, made.logs("orchestrator")
        follow.assert_alike(expected(18.0), made.folder)
        assert not any(follow.summary(made.folder, "vehicle")["absences"].values())
        with Project(scenario, file=scenario / "compose.yaml") as project:
            project("create", "--no-build")
            for service in made.services:
                ours, theirs = facts(f"{made.name}-{service}"), facts(project.container(service))
                assert ours == theirs, service
    assert left(made.name) == ""


def reached(host, port):
    """Somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def test_what_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    made = deployment(follow.write(tmp_path / "s"), *PATIENT)
    begun = made._start

    def start(service):
        begun(service)
        if service.name == "tractor-net":
            raise KeyboardInterrupt

    monkeypatch.setattr(made, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        made.start()
    assert left(made.name) == ""
