"""`cosim calibrate`: what it finds, writes and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.extensions import needs

pytest.importorskip("scipy")

LINE = """\
apiVersion: cosim/v1
kind: Scenario
name: line
run: {duration: 20 s, step: 1 s, seed: 5}
adapters:
  continuum: {}
nodes:
  camera-[1..2]: {kind: device}
  gate: {kind: edge, cpu: 2 x 1 GHz, power: {idle: 2 W, max: 6 W}, cost: {cpu: 0.05 /h}}
links:
  - {between: [camera-*, gate], rate: 100 Mbit/s, delay: 1 ms}
workloads:
  look: {from: camera-*, arrivals: poisson 2 Hz, input: exponential 50 kB, work: 300 Mcycles}
"""
BLOCK = """\
calibrate:
  free:
    workloads.look.work: {bounds: [100 Mcycles, 900 Mcycles]}
    nodes.gate.power.idle: {bounds: [1 W, 4 W]}
    nodes.gate.cost.cpu: {bounds: [0.01 /h, 0.1 /h]}
  observed:
    service: {run: runs, signal: task.service}
    power: {run: runs, signal: host.power}
  replay: {run: runs}
  fit: {until: 12 s}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario and a recorded run of it with 450 Mcycles and 3 W."""
    folder = tmp_path_factory.mktemp("line")
    file = folder / "scenario.cosim.yaml"
    file.write_text(LINE + BLOCK, encoding="utf-8")
    overrides = ["workloads.look.work=450 Mcycles", "nodes.gate.power.idle=3 W"]
    run_plan(compile_plan(load(file, overrides)), folder / "runs")
    return folder


@pytest.fixture
def call(folder: Path) -> Callable[..., Any]:
    return lambda *arguments: CliRunner().invoke(app, ["calibrate", str(folder), *map(str, arguments)])


def test_it_finds_the_values_and_writes_them(call: Any, folder: Path, tmp_path: Path) -> None:
    done = call("--runs", 400, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["calibrations"]
    values = {one["name"]: one for one in found["estimates"]}
    assert values["workloads.look.work"]["value"] == pytest.approx(450.0, rel=1e-3)
    assert values["nodes.gate.power.idle"]["value"] == pytest.approx(3.0, rel=1e-3)
    assert values["nodes.gate.cost.cpu"]["verdict"] == "no effect"
    assert values["nodes.gate.cost.cpu"]["value"] == 0.05
    after = {gap["signal"]: gap for gap in found["held_back"]["after"]}
    before = {gap["signal"]: gap for gap in found["held_back"]["before"]}
    assert after["all"]["w1"] < 0.1 * before["all"]["w1"]
    assert json.loads(Path(found["calibration"]).read_text())["estimates"] == found["estimates"]
    assert Path(found["report"]).read_text().startswith("<!doctype html>")
    both = tmp_path / "calibrated.cosim.yaml"
    both.write_text(f"include: [{folder / 'scenario.cosim.yaml'}, {found['overlay']}]\n")
    work = load(both).scenario.workloads["look"].work
    assert work is not None
    assert work.a == pytest.approx(450e6, rel=1e-3)


def test_text_and_progress_and_resumption(call: Any, tmp_path: Path) -> None:
    first = call("--runs", 300, "--out", tmp_path, "--no-report")
    assert first.exit_code == 0, first.output
    for word in ("free: workloads.look.work  100 to 900 Mcycles", "in batches", "left", "gap on the data held back",
                 "floor", "90 % interval", "no effect on any measured signal", "line.calibration.yaml"):  # fmt: skip
        assert word in first.output
    again = call("--runs", 300, "--out", tmp_path, "--no-report", "--resume", "-q", "--json")
    (found,) = json.loads(again.stdout)["calibrations"]
    reported = {e["name"]: e["value"] for e in found["estimates"]}
    assert f"{reported['workloads.look.work']:.5g}" in first.stdout


def test_the_screen_alone(call: Any, tmp_path: Path) -> None:
    done = call("--screen-only", "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.output
    rows = {row["name"]: row for row in json.loads(done.stdout)["line"]}
    assert rows["workloads.look.work"]["effect"]
    assert (
        rows["nodes.gate.power.idle"]["signals"]["service"] == 0.0 < rows["nodes.gate.power.idle"]["signals"]["power"]
    )
    assert not rows["nodes.gate.cost.cpu"]["effect"]
    assert not list(tmp_path.glob("*/*.calibration.yaml"))
    assert "change of the misfit" in call("--screen-only", "--out", tmp_path).stdout


def test_following_a_finished_run(call: Any, folder: Path, tmp_path: Path) -> None:
    (run,) = [path.parent for path in (folder / "runs").glob("**/manifest.json")]
    settings = [
        "--set", "calibrate.follow={window: 4 s, last: 2, runs: 150}",
        "--set", "calibrate.free={workloads.look.work: {bounds: [100 Mcycles, 900 Mcycles]}}",
        "--set", "calibrate.observed={service: {run: runs, signal: task.service}}",
    ]  # fmt: skip
    assert "is not a run folder" in call("--follow", "nowhere", "--out", tmp_path).output
    done = call("--follow", run, "--out", tmp_path, *settings)
    assert done.exit_code == 0, done.output
    assert "8 to 12 s" in done.output
    assert "adopted" in done.output
    assert "5 windows, 1 taken into use, 0 with drift" in done.stdout
    assert (tmp_path / "line" / "line.calibration.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "2"], "has no unit"),
        (["--budget", "0 s"], "leaves no time"),
        (["--method", "guessing"], "there is no method 'guessing'"),
        (["--data", "."], "for scenarios with a 'job'"),
        (["--set", "calibrate=null"], "has no block 'calibrate'"),
        (["--set", "calibrate={job: pwer}", "--data", "."], "there is no job 'pwer'"),
        pytest.param(["--set", "calibrate={job: power}"], "give it with --data", marks=needs("published_data")),
        (["--set", "calibrate.free={workloads.look.wrk: {bounds: [1 cycles, 2 cycles]}}"], "did you mean 'work'?"),
        (["--follow", "nowhere"], "'--runs' has no effect with '--follow'"),
        (["--screen-only", "--coverage", "2"], "'--screen-only' and '--coverage' exclude one another"),
    ],
)
def test_what_must_be_changed_first(call: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = call("--out", tmp_path, "--runs", 50, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output


def test_the_check_knows_the_jobs(folder: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(folder), "--set", "calibrate={job: pwer}"])
    assert done.exit_code == 2
    assert "did you mean 'power'?" in done.output


@needs("published_data")
def test_the_check_passes_a_known_job(folder: Path) -> None:
    assert CliRunner().invoke(app, ["check", str(folder), "--set", "calibrate={job: power}"]).exit_code == 0
