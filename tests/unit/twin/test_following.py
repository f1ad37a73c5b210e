"""Following a recorded run whose tasks take twice as long from its middle on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cosim.results.folder import run_folders
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.online.following import Following
from cosim.twin.online.windows import WindowReport
from tests.overlays import read

ROOT = Path(__file__).resolve().parents[3]
FOLLOWED = """\
apiVersion: cosim/v1
kind: Scenario
name: line
run: {duration: 80 s, step: 1 s, seed: 5}
adapters:
  continuum: {scheduler: least-loaded}
nodes:
  camera: {kind: device}
  gate: {kind: edge, cpu: 2 x 1 GHz}
links:
  - {between: [camera, gate], rate: 100 Mbit/s, delay: 1 ms}
workloads:
  look: {from: camera, arrivals: trace tasks.csv, input: 20 kB, work: 300 Mcycles}
calibrate:
  free:
    workloads.look.work: {bounds: [50 Mcycles, 900 Mcycles]}
  observed:
    service: {run: runs, signal: task.service}
  replay: {run: runs, placement: true}
  follow: {window: 5 s, last: 3, warm: 2 s, runs: 80}
events:
  - {at: 30 s, do: degrade, link: camera/gate, delay: 5 ms, for: 4 s}
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[bool], Path]:
    """A scenario whose recorded tasks do 200 Mcycles of work, and 400 from the middle on if there is a step.

    There are none from 30 to 35 s.
    """

    def write(step: bool) -> Path:
        lines = ["time,work"]
        noise = np.random.default_rng(4).lognormal(0.0, 0.1, 320)
        lines += [
            f"{k / 4 + 0.01 * (k % 7)},{200e6 * x * (2 if step and k >= 160 else 1)}"
            for k, x in enumerate(noise)
            if not 120 <= k < 140
        ]
        (tmp_path / "tasks.csv").write_text("\n".join(lines), encoding="utf-8")
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(FOLLOWED, encoding="utf-8")
        return file

    return write


def check(reports: list[WindowReport], following: Following) -> None:
    """200 is learned from the first windows, 400 soon after the middle."""
    drifts = [report.since for report in reports if report.drift]
    assert 40.0 <= drifts[0] <= 50.0
    early = next(report for report in reports if report.act == "adopted")
    assert early.since == 15.0
    assert early.values["workloads.look.work"] == pytest.approx(200.0, rel=0.05)
    assert reports[-1].values["workloads.look.work"] == pytest.approx(400.0, rel=0.05)
    overlay = read(following.overlay)
    work = overlay.fields["workloads"]["look"]["work"]
    assert float(work.split()[0]) == pytest.approx(400.0, rel=0.05)
    history = json.loads(following.history.read_text(encoding="utf-8"))
    assert [row["act"] for row in history["windows"]] == [report.act for report in reports]


@pytest.mark.slow
def test_a_step_in_the_service_time_is_found(written: Callable[[bool], Path], tmp_path: Path) -> None:
    file = written(True)
    run = run_plan(compile_plan(load(file)), tmp_path / "runs").folder
    following = Following(file, (), run, tmp_path / "out", workers=1)
    reports = list(following.follow())
    assert [report.since for report in reports] == [5.0 * k for k in range(16)]
    check(reports, following)


def test_without_a_step_nothing_drifts(written: Callable[[bool], Path], tmp_path: Path) -> None:
    file = written(False)
    run = run_plan(compile_plan(load(file)), tmp_path / "runs").folder
    following = Following(file, (), run, tmp_path / "out", workers=1)
    reports = list(following.follow())
    assert not any(report.drift for report in reports)
    assert [report.number for report in reports if np.isnan(report.misfit)] == [6]
    assert [report.act for report in reports].count("adopted") == 1


@pytest.mark.slow
def test_a_run_is_followed_while_it_goes_on(written: Callable[[bool], Path], tmp_path: Path) -> None:
    file = written(True)
    command = [sys.executable, "-m", "cosim", "run", str(file), "--out", str(tmp_path / "runs"), "--no-report", "-q"]
    process = subprocess.Popen(
        [*command, "--set", "run.pacing=4 x"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        while not (found := run_folders(tmp_path / "runs")):
            assert process.poll() is None
            time.sleep(0.1)
        following = Following(file, (), found[-1], tmp_path / "out", workers=1)
        reports = []
        for report in following.follow():
            reports.append((report, process.poll() is None))
        assert sum(running for _, running in reports) >= 4
        check([report for report, _ in reports], following)
    finally:
        process.terminate()
        assert process.wait(60.0) is not None
