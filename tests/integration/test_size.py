"""How many hosts: the command's answer is that of running every number many times."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app

CAMERAS = """\
apiVersion: cosim/v1
kind: Scenario
name: cameras
parameters: {N: 2}
run: {duration: 20 s, step: 1 s}
adapters:
  continuum: {scheduler: least-loaded}
kinds: {camera: {tier: device}}
nodes:
  camera-[1..10]: {kind: camera}
  edge-[1..N]: {kind: edge, cpu: 2 x 1 GHz, cost: {cpu: 0.05 /h}}
links:
  - {between: [camera-*, edge-*], rate: 100 Mbit/s, delay: 5 ms}
workloads:
  pictures: {from: camera-*, arrivals: poisson 2 Hz, input: 100 kB, work: exponential 100 Mcycles, deadline: 400 ms}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("size")
    (folder / "scenario.cosim.yaml").write_text(CAMERAS)
    return folder


@pytest.mark.slow
def test_the_answer_is_that_of_exhaustive_replication(scenario):
    pytest.importorskip("pandas")
    goal = "late_share < 5 %"
    command = ["size", str(scenario), "--vary", "N=1..3", "--until", goal, "--price", "0.1 /h", "--least", "3"]
    done = CliRunner().invoke(app, [*command, "--workers", "1", "--json", "--out", str(scenario / "runs")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    runs = cosim.sweep(
        scenario, seeds="1..6", overrides=["sweep={parameters.N: 1..3}"], out=scenario / "all", workers=1
    )
    means = runs.figures.groupby("parameters.N")["late_share"].mean()
    runs.close()
    assert found["answer"] == min(n for n, mean in means.items() if mean < 0.05)
    assert found["low"] <= found["answer"] == found["high"]
    assert found["owning"] == pytest.approx(0.1 * found["answer"])
    assert {row["value"] for row in found["tried"]} >= set(range(1, found["answer"] + 1))
    for row in found["tried"]:
        bounds = row["figures"]["late_share"]
        low, high = (bounds[side] for side in ("low", "high"))  # None: nothing limits it
        assert low is None or low <= means[row["value"]]
        assert high is None or means[row["value"]] <= high
    page = Path(found["report"]).read_text()
    assert escape(found["sentence"]) in page
    assert "every value below the answer was tried" in page
    again = CliRunner().invoke(app, [*command, "--workers", "1", "--json", "--out", str(scenario / "runs")])
    assert json.loads(again.stdout)["tried"] == found["tried"]
    lines = (Path(found["folder"]) / "results.jsonl").read_text().splitlines()
    assert len(lines) == found["runs"]  # asking again made no run
    with_figures = cosim.load_all(found["folder"])
    assert len(with_figures.figures) == found["runs"]
    with_figures.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vary", "K=1..4"], "there is no parameter 'K'"),
        (["--vary", "N=0..4"], "with parameters.N=0: the range [1..0] runs backwards"),
        (["--vary", "N=3"], "two values or more"),
        (["--vary", "N=[3]"], "two values or more"),
        (["--vary", "N=[1, 0]"], "with parameters.N=0: the range [1..0] runs backwards"),
        (["--vary", "run.seed"], "varies nothing"),
        (["--vary", "run.seed=1..3"], "is run with the seeds 1, 2, 3, ..."),
        (["--vary", "N=1..4", "--until", "late_share"], "is no goal"),
        (["--vary", "N=1..4", "--confidence", "often"], "is no share"),
        (["--vary", "N=1..4", "--price", "3"], "has no unit"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_any_run(scenario, tmp_path, options, said):
    if "--until" not in options:
        options = [*options, "--until", "late_share < 5 %"]
    done = CliRunner().invoke(app, ["size", str(scenario), *options, "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert said in done.output
    assert not list(tmp_path.rglob("manifest.json"))
