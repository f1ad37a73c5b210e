"""However a run ends, its folder can be read, it says why, and nothing is left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import cosim

ROOT = Path(__file__).resolve().parents[2]
HELLO = ROOT / "scenarios" / "hello"

pytestmark = pytest.mark.chaos


def start(tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    """hello in real time, so that there is something to interrupt."""
    command = [sys.executable, "-m", "cosim", "run", str(HELLO), "--out", str(tmp_path), "--no-report"]
    return subprocess.Popen(
        [*command, "--set", "run.pacing=real-time", *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_ticks(tmp_path: Path, limit: float = 120.0) -> Path:
    """The run's folder, once something has been recorded into it."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for stream in tmp_path.glob("hello/*/frames/link/*"):
            if stream.stat().st_size > 0:
                return stream.parents[2]
        time.sleep(0.1)
    raise AssertionError("the run did not begin to record")


def manifest(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_an_interrupted_run_keeps_its_results_marked_partial(tmp_path, number, said):
    process = start(tmp_path)
    folder = wait_for_ticks(tmp_path)
    time.sleep(2.0)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "results are kept" in errors
    written = manifest(folder)
    assert written["status"] == "partial"
    assert said in written["error"]["message"]
    assert 0 < written["reached"] < written["duration"]
    run = cosim.load(folder)
    assert len(run.table("link").df()) > 0
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]


def test_a_killed_run_can_still_be_read(tmp_path):
    process = start(tmp_path)
    folder = wait_for_ticks(tmp_path)
    time.sleep(4.0)
    process.kill()
    process.communicate(timeout=60)
    run = cosim.load(folder)
    assert run.manifest["status"] in ("running", "partial")
    rows = run.table("link").df()
    assert len(rows) > 0
    assert rows["time"].max() >= 1.0


@pytest.mark.sumo
def test_a_killed_worker_ends_the_run_with_its_name_and_signal(tmp_path):
    scenario = tmp_path / "grid"
    scenario.mkdir()
    netgenerate(scenario)
    process = subprocess.Popen(
        [sys.executable, "-m", "cosim", "run", str(scenario), "--out", str(tmp_path / "runs"), "--no-report"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = None
    deadline = time.monotonic() + 90
    while worker is None and time.monotonic() < deadline:
        found = [
            p for p in psutil.Process(process.pid).children(recursive=True) if "cosim.bus.worker" in str(p.cmdline())
        ]
        ready = list((tmp_path / "runs").glob("grid/*/frames/mobility/*"))
        worker = found[0] if found and ready and ready[0].stat().st_size > 0 else None
        time.sleep(0.1)
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "adapter 'sumo'" in errors
    assert "SIGKILL" in errors
    folder = next((tmp_path / "runs" / "grid").iterdir())
    assert manifest(folder)["status"] == "partial"
    assert manifest(folder)["error"]["adapter"] == "sumo"
    assert len(cosim.load(folder).table("mobility").df()) > 0
    assert not psutil.pid_exists(worker.pid)


def netgenerate(folder: Path) -> None:
    """A small grid with cars for the length of the run, paced so that the test has time to act."""
    import sumolib

    binary = sumolib.checkBinary("netgenerate")
    command = [binary, "--grid", "--grid.number", "5", "--output-file", str(folder / "grid.net.xml")]
    subprocess.run(command, check=True, capture_output=True)
    routes = ["<routes>"]
    routes += [
        f'<trip id="car-{i}" depart="{i}" from="A0A1" to="D4E4"/>' for i in range(60)
    ]  # trips are routed by SUMO itself
    (folder / "cars.rou.xml").write_text("\n".join([*routes, "</routes>"]))
    (folder / "scenario.cosim.yaml").write_text(
        """
apiVersion: cosim/v1
kind: Scenario
name: grid
run: {duration: 100 s, step: 1 s, seed: 1, pacing: 5 x}
adapters:
  sumo: {network: grid.net.xml, routes: cars.rou.xml}
nodes:
  cars: {kind: vehicle, fleet: sumo, capacity: 200}
"""
    )
