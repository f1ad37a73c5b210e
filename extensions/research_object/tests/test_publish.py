"""A crate holds all that a run needs, is described in the terms of its profile, and is repeated bit by bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.extensions.research_object.crate import differences, lock, rerun
from cosim.results.executor import LocalExecutor

pytest.importorskip("rocrate")

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: cameras
title: Cameras with a policy of their own
run: {duration: 5 s, step: 1 s}
adapters:
  continuum: {scheduler: "mine:soonest"}
  replay: {file: ../data/tracks.csv}
parameters: {where: the masts}
kinds: {camera: {tier: device}}
nodes:
  camera-[1..3]: {kind: camera, at: "points ../data/${where}.csv"}
  car: {kind: vehicle, fleet: replay}
  edge: {kind: edge, cpu: 2 x 1 GHz}
links:
  - {between: [camera-*, edge], rate: 100 Mbit/s, delay: 5 ms}
workloads:
  pictures: {from: camera-*, arrivals: poisson 2 Hz, input: 100 kB, work: exponential 100 Mcycles, deadline: 400 ms}
  alarms: {from: camera-1, arrivals: trace ../data/alarms.csv, input: 10 kB, work: 50 Mcycles}
"""
POLICY = "import helper\n\n\ndef soonest(request, reach, hosts):\n    return helper.least(reach)\n"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("publish")
    (folder / "my study").mkdir()
    (folder / "data").mkdir()
    (folder / "data/tracks.csv").write_text("time,id,x,y\n0,a,0,0\n5,a,50,0\n")
    (folder / "data/the masts.csv").write_text("east,north\n0,0\n1,0\n2,0\n")
    (folder / "data/alarms.csv").write_text("time\n1\n2\n")
    (folder / "my study/mine.py").write_text(POLICY)
    (folder / "my study/helper.py").write_text(
        "import numpy as np\n\n\ndef least(values):\n    return np.argmin(values)\n"
    )
    (folder / "my study/scenario.cosim.yaml").write_text(SCENARIO)
    done = CliRunner().invoke(
        app,
        ["sweep", str(folder / "my study"), "--seed", "1..2", "--out", str(folder / "runs"), "--no-report", "--json"],
    )
    assert done.exit_code == 0, done.output
    return Path(json.loads(done.stdout)["folder"])


@pytest.fixture(scope="module")
def crate(sweep, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("crates") / "crate"
    done = CliRunner().invoke(app, ["publish", str(sweep), "--out", str(out), "--author", "A. Person", "--json"])
    assert done.exit_code == 0, done.output
    shutil.rmtree(sweep.parents[2] / "my study")  # nothing of the original is needed from here on
    shutil.rmtree(sweep.parents[2] / "data")
    return out


def before_digests(crate: Path, other: Path) -> Path:
    """A copy of the crate as versions without digests wrote it."""
    shutil.copytree(crate, other)
    (other / "digests.json").unlink()
    metadata = other / "ro-crate-metadata.json"
    metadata.write_text(metadata.read_text().replace("digests.json", "other.json"))
    return other


def test_it_is_repeated_bit_by_bit_without_the_original(crate, tmp_path):
    assert {str(p.relative_to(crate)) for p in crate.glob("workflow/**/*.*")} == {
        "workflow/my study/scenario.cosim.yaml", "workflow/my study/mine.py", "workflow/my study/helper.py",
        "workflow/data/tracks.csv", "workflow/data/the masts.csv", "workflow/data/alarms.csv",
    }  # fmt: skip
    found = list(rerun(crate, LocalExecutor(1), tmp_path))
    assert [one.differences for one in found] == [[], []]
    assert not list(crate.rglob(".origin"))  # says where a run was made on a machine


@pytest.mark.slow
def test_a_result_that_the_runs_do_not_give_is_told(crate, tmp_path):
    other = before_digests(crate, tmp_path / "other")
    (other / "workflow/my study/helper.py").write_text("import numpy as np\n\n\ndef least(values):\n    return -1\n")
    (one, _) = rerun(other, LocalExecutor(1), tmp_path / "again")
    assert one.differences
    next(other.glob("runs/**/tasks.parquet")).write_bytes(b"changed")
    done = CliRunner().invoke(app, ["rerun", str(other)])
    assert done.exit_code == 1
    assert "tasks.parquet" in done.output


def test_a_scenario_that_was_changed_in_the_crate_is_told(crate, tmp_path):
    other = before_digests(crate, tmp_path / "other")
    file = other / "workflow/my study/scenario.cosim.yaml"
    file.write_text(file.read_text().replace("2 x 1 GHz", "2 x 2 GHz"))
    done = CliRunner().invoke(app, ["rerun", str(other)])
    assert done.exit_code == 1
    assert "is not the scenario of any of its runs" in done.output


def test_a_run_whose_files_have_changed_is_not_published(tmp_path):
    (tmp_path / "scenario.cosim.yaml").write_text(
        SCENARIO.replace("../data/${where}", "${where}").replace(', scheduler: "mine:soonest"', "")
        .replace('scheduler: "mine:soonest"', "").replace("  replay: {file: ../data/tracks.csv}\n", "")
        .replace("  car: {kind: vehicle, fleet: replay}\n", "").replace("../data/alarms", "alarms")
    )  # fmt: skip
    points, alarms = tmp_path / "the masts.csv", tmp_path / "alarms.csv"
    points.write_text("east,north\n0,0\n1,0\n2,0\n")
    alarms.write_text("time\n1\n2\n")
    run = cosim.run(tmp_path, out=tmp_path / "runs").folder
    points.write_text("east,north\n9,0\n1,0\n2,0\n")
    words = ["publish", str(run), "--out", str(tmp_path / "crate")]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, "makes another plan now" in done.output) == (2, True), done.output
    points.unlink()
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, "cannot be made again from its files" in done.output) == (2, True), done.output
    assert not (tmp_path / "crate").exists()


def test_the_metadata_name_workflow_runs_parameters_and_digests(crate):
    graph = {one["@id"]: one for one in json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]}
    root = graph["./"]
    workflow = graph[root["mainEntity"]["@id"]]
    assert set(workflow["@type"]) == {"File", "SoftwareSourceCode", "ComputationalWorkflow"}
    profiles = {one["@id"] for one in root["conformsTo"]}
    assert "https://w3id.org/ro/wfrun/workflow/0.5" in profiles
    actions = [graph[one["@id"]] for one in root["mentions"]]
    assert len(actions) == 2
    seeds = set()
    for action in actions:
        assert action["@type"] == "CreateAction"
        assert action["instrument"] == root["mainEntity"]
        values = {graph[o["@id"]]["name"]: graph[o["@id"]]["value"] for o in action["object"] if "#" in o["@id"]}
        assert values.keys() == {"run.seed"}
        seeds |= set(values.values())
        assert {o["@id"] for o in action["object"]} >= {"workflow/data/tracks.csv"}
        assert any("sha256" in graph[o["@id"]] for o in action["result"])
    assert seeds == {"1", "2"}
    for entity in graph.values():  # every file that is named is there
        if "File" in entity["@type"]:
            assert (crate / unquote(entity["@id"])).is_file()
    assert json.loads((crate / "sweep.json").read_text())["scenario"] == "workflow/my study/scenario.cosim.yaml"
    assert len(cosim.load_all(crate).paths) == 2  # a crate is read as a sweep


def test_the_environment_is_locked_and_compared(crate, tmp_path):
    lines = lock()
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(names)
    assert {"continuum-cosim", "numpy", "mosaik", "llvmlite"} <= set(names)  # also what numba needs
    assert differences(crate) == []
    other = before_digests(crate, tmp_path / "other")
    text = (other / "environment.lock.txt").read_text()
    (other / "environment.lock.txt").write_text(text.replace("numpy==", "numpy==0.") + "nothing-such==1\n")
    assert [line.split(" ")[0] for line in differences(other)] == ["numpy", "nothing-such"]


@pytest.mark.parametrize("what", ["no folder", "no metadata", "path"])
def test_what_is_no_crate_is_refused(crate, tmp_path, what):
    other = tmp_path / "other"
    if what != "no folder":
        before_digests(crate, other)
    if what == "no metadata":
        (other / "ro-crate-metadata.json").unlink()
    if what == "path":
        text = (other / "ro-crate-metadata.json").read_text()
        (other / "ro-crate-metadata.json").write_text(
            text.replace(
                '"mainEntity": {\n                "@id": "workflow/', '"mainEntity": {\n                "@id": "../'
            )
        )
    done = CliRunner().invoke(app, ["rerun", str(other)])
    assert done.exit_code == 2, done.output
    assert "is no crate" in done.output or "not in its folder" in done.output
