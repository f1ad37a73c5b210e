"""A medium whose whole code lies in a scenario's folder, between containers."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from cosim.scenario.plan.compile import plan_of
from cosim.testbed.launch.programs import programs
from tests.integration.test_lora_medium import FOLDER, SEVERE
from tests.real import follow
from tests.real.compose import LONG, TAG, Project, docker

pytestmark = LONG


@pytest.fixture
def probe(tmp_path):
    """An image of no one but the author of the scenario: Python and his two programs."""
    name = f"lora-probe:{TAG}"
    file = tmp_path / "Dockerfile"
    file.write_text(f'FROM continuum-cosim/cosim:{TAG}\nCOPY *.py /\nENTRYPOINT ["python3"]\n')
    docker("build", "-q", "-t", name, "-f", str(file), str(FOLDER))
    yield name
    docker("rmi", name)


def test_packets_of_containers_take_their_airtime_and_keep_the_duty_cycle(tmp_path, probe):
    folder = shutil.copytree(FOLDER, tmp_path / "field")
    plan = plan_of(folder, ["run.nodes=containers"])
    airtime = sys.modules["lora.airtime"]
    gateway = next(node.interfaces[-1].address for node in programs(plan.scene) if node.node == "gateway")
    file = folder / "scenario.cosim.yaml"
    text = file.read_text()
    for before, words in (
        ("lora: {spreading: 9}", ["/asking.py", "/tmp", gateway]), ("lora: {role: gateway}", ["/answering.py"]),
    ):  # fmt: skip
        assert f"{before}, runs: vedgenode" in text
        runs = json.dumps({"image": probe, "command": words})
        text = text.replace(f"{before}, runs: vedgenode", f"{before}, runs: {runs}")
    file.write_text(text)
    with Project(folder) as project:
        project.override(*SEVERE, "run.duration=15 s", "workloads.moisture.from=camera")
        project.up()
        assert project.ended() == 0, project("logs", "orchestrator", "network")
        noted = "import pathlib; print(pathlib.Path('/tmp/probe-1.json').read_text())"
        asked, came = json.loads(project.inside("probe-1", noted))
        assert 1 <= len(came) < asked / 2  # after what was sent until the run knew of it, the device is silent
        assert min(came.values()) >= 2 * airtime.airtime(airtime.HEAD, 9, 125e3)
        assert follow.summary(project.folder, "lora")["airtime"] > 0
    assert project.left == ""
