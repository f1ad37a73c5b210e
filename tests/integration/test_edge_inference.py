"""Tasks that cross an emulated Wi-Fi, are computed by an edge node's service, and come back as measured rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cosim
from cosim.results.pairing import pair

pytest.importorskip("pandas")
parser = pytest.importorskip("prometheus_client.parser")

pytestmark = [pytest.mark.netns, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/edge-inference"
LIMIT = 180.0  # s


def run(out: Path, *overrides: str, watch=None):
    """A run's folder. `watch` is called while it goes on, with the process."""
    command = [sys.executable, "-m", "cosim", "run", str(SCENARIO), "--out", str(out), "--json"]
    for override in overrides:
        command += ["--set", override]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=out,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        if watch is not None:
            watch(process)
        text, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    outcome = json.loads(text[text.index("{") :])
    logs = "\n".join(file.read_text()[-500:] for file in out.rglob("logs/nodes/*.log"))
    assert outcome["status"] == "complete", f"{outcome['error']}\n{logs}"
    return Path(outcome["folder"])


def tasks(folder: Path):
    table = cosim.load(folder).table("task").df()
    manifest = json.loads((folder / "manifest.json").read_text())
    return table, manifest


def scraped(out: Path) -> dict[str, float]:
    """Metrics of the edge node, asked for inside its namespace."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
    ours = [name for name in names if name.startswith("cosim-") and name.endswith("-edge")]
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8500/metrics', timeout=5).read().decode())"
    for name in ours:
        done = subprocess.run(
            ["ip", "netns", "exec", name, sys.executable, "-c", ask],
            capture_output=True,
            text=True,
            check=False,
            cwd=out,
        )
        if done.returncode == 0:
            samples = [s for family in parser.text_string_to_metric_families(done.stdout) for s in family.samples]
            assert {sample.labels["node_name"] for sample in samples} == {"edge"}
            return {sample.name: sample.value for sample in samples if sample.labels.get("kernel", "blur") == "blur"}
    return {}


def test_the_same_file_is_simulated_and_measured(tmp_path):
    first = run(tmp_path, "run.duration=10 s")
    simulated, manifest = tasks(first)
    assert manifest["signals"]["task"]["origin"] == "simulated"
    seen: dict[str, float] = {}

    def watch(process):
        while process.poll() is None and seen.get("inference_requests_total", 0.0) < 5:
            seen.update(scraped(tmp_path))

    folder = run(tmp_path, "run.duration=10 s", "run.nodes=netns", watch=watch)
    measured, manifest = tasks(folder)
    assert manifest["signals"]["task"]["origin"] == "measured"
    summary = next(row["summary"] for row in manifest["adapters"] if row["name"] == "live")
    assert summary["tasks"]["failed"] == {}
    paired = pair(first, folder)
    assert paired is not None
    assert paired.paired >= 0.95 * max(paired.tasks)  # those that end with the run may be in flight in one of them
    assert paired.same_size == paired.paired == paired.same_host
    assert set(measured["workload"]) == set(simulated["workload"]) == {"vegetation", "sharpness", "statistics"}
    assert set(measured["host"]) == {"edge"}
    stages = measured[["created", "uploaded", "started", "computed", "ended"]].to_numpy()
    assert (stages[:, 1:] >= stages[:, :-1] - 1e-9).all()
    assert seen["inference_requests_total"] >= 5
    assert seen["inference_concurrency"] == 1
    text = (folder / "report.html").read_text()
    assert "origin-measured" in text


def test_inputs_cross_the_emulated_link_and_wait_for_the_only_worker(tmp_path):
    table, _ = tasks(run(tmp_path, "run.duration=12 s", "run.nodes=netns", "workloads.vegetation.input=400 kB"))
    called = table[table["workload"] != "statistics"].sort_values("started")
    upload = called["uploaded"] - called["created"]
    big = called["workload"] == "vegetation"
    assert upload[big].median() > 400e3 * 8 / 60e6  # no faster than the fastest goodput of the model, 59.4 Mbit/s
    assert upload[big].median() > upload[~big].median()
    assert (called["started"] - called["uploaded"] > 0.005).any()  # some have waited


TWIN = """\
apiVersion: cosim/v1
kind: Scenario
name: edge-twin
run: {duration: 40 s, step: 200 ms}
adapters: {continuum: {scheduler: nearest, discipline: fcfs}}
nodes:
  uav-[1..2]: {kind: device}
  edge: {kind: edge, cpu: 1 x 2 GHz}
links:
  - {between: [uav-*, edge], rate: 20 Mbit/s, delay: 2 ms}
workloads:
  vegetation: {from: uav-*, arrivals: poisson 3 Hz, work: 3000 Mcycles}
  sharpness: {from: uav-*, arrivals: poisson 2 Hz, work: 3000 Mcycles}
calibrate:
  free:
    workloads.vegetation.work: {bounds: [0.1 Mcycles, 10000 Mcycles], scale: log}
    workloads.sharpness.work: {bounds: [0.1 Mcycles, 10000 Mcycles], scale: log}
  observed:
    vegetation: {run: runs, signal: task.service, workloads: [vegetation]}
    sharpness: {run: runs, signal: task.service, workloads: [sharpness]}
  replay: {run: runs, sizes: [input, output]}
  follow: {window: 8 s, last: 2, warm: 0 s, settle: 3 s, runs: 200}
"""


def test_a_twin_follows_the_run_while_it_goes_on(tmp_path):
    """Work is guessed at 1.5 s a picture; what the real node takes is learnt from its first windows."""
    pytest.importorskip("scipy")
    (tmp_path / "twin.yaml").write_text(TWIN)

    def watch(process):
        begun = tmp_path / "edge-inference"
        while process.poll() is None and not list(begun.glob("*/manifest.json")):
            time.sleep(0.2)
        (folder,) = begun.glob("*/")
        command = [
            sys.executable,
            "-m",
            "cosim",
            "calibrate",
            "twin.yaml",
            "--follow",
            str(folder),
            "--out",
            "cal",
            "-q",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=LIMIT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    folder = run(tmp_path, "run.duration=40 s", "run.nodes=netns", watch=watch)
    history = json.loads((tmp_path / "cal/edge-twin/history.json").read_text())
    windows = history["windows"]
    assert len(windows) == 5
    assert "adopted" in {window["act"] for window in windows}
    assert windows[-1]["misfit"] < 0.2 * windows[0]["misfit"]
    table, _ = tasks(folder)
    taken = (table["computed"] - table["started"])[table["workload"] == "vegetation"].median()
    reported = windows[-1]["values"]["workloads.vegetation.work"] * 1e6 / 2e9  # s
    assert taken / 3.0 < reported < 3.0 * taken  # the guess was 160 times as much; a busy machine is slower at times
