"""Sweeps through the command line: equal on any number of workers, and whole however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosim.results.compare import exact

psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).resolve().parents[2]
HELLO = ROOT / "tests" / "scenarios" / "hello"

pytestmark = pytest.mark.slow


def command(verb: str, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "cosim", verb, str(HELLO), "--out", str(out), "--no-report", *more]


def run(verb: str, out: Path, *more: str) -> dict:
    done = subprocess.run(command(verb, out, *more, "--json"), cwd=ROOT, capture_output=True, text=True, timeout=200)
    return {"code": done.returncode, "errors": done.stderr, **json.loads(done.stdout)}


def lines(folder: str) -> list[dict]:
    return [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]


def test_the_number_of_workers_changes_no_bit(tmp_path):
    more = ("--seed", "1..4", "--set", "run.duration=10 s")
    one, two = (run("sweep", tmp_path / n, "--workers", n, *more) for n in ("1", "2"))
    assert (one["code"], two["code"]) == (0, 0)
    folders = [
        {line["key"]: Path(data["folder"]) / line["run"] for line in lines(data["folder"])} for data in (one, two)
    ]
    assert len(folders[0]) == 4
    assert folders[0].keys() == folders[1].keys()
    for key, folder in folders[0].items():
        assert exact(folder, folders[1][key]) == []
        assert (folder / "metrics.json").read_text().split('"lag_max"')[0] == (
            folders[1][key] / "metrics.json"
        ).read_text().split('"lag_max"')[0]
    assert one["groups"][0]["figures"]["response_mean"] == two["groups"][0]["figures"]["response_mean"]


def test_replications_are_bit_equal_to_single_runs_and_give_intervals(tmp_path):
    many = run("run", tmp_path / "many", "--seed", "1..3", "--driver", "loop", "--set", "run.duration=5 s")
    (group,) = many["groups"]
    estimate = group["figures"]["tasks_created"]
    assert (group["runs"], group["parameters"], estimate["runs"]) == (3, {}, 3)
    assert estimate["low"] < estimate["mean"] < estimate["high"]
    alone = run("run", tmp_path / "alone", "--seed", "2", "--set", "run.duration=5 s")
    (line,) = [line for line in lines(many["folder"]) if line["parameters"]["run.seed"] == 2]
    assert exact(Path(many["folder"]) / line["run"], alone["folder"]) == []


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.mark.chaos
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_sweep_leaves_nothing_running_and_goes_on_where_it_was(tmp_path, number):
    more = ("--seed", "1..3", "--set", "run.duration=4 s", "--set", "run.pacing=real-time", "--workers", "1")
    process = subprocess.Popen(
        command("sweep", tmp_path, *more), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not any(map(Path.read_text, tmp_path.glob("hello/*/results.jsonl"))):
        time.sleep(0.1)
    started = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert process.returncode == 1
        assert f"stopped by {number.name}: 1 of 3 runs are complete" in errors
        assert "the same command makes the rest" in errors
    gone, alive = psutil.wait_procs(started, timeout=30)
    assert gone
    assert not alive
    rest = run("sweep", tmp_path, *more)
    assert (rest["code"], rest["runs"], rest["failed"]) == (0, 3, [])
    written = lines(rest["folder"])
    assert sorted(line["parameters"]["run.seed"] for line in written) == [1, 2, 3]
    # a run that was killed may leave its folder, too early for a word about how it ended
    folders = [Path(rest["folder"]) / line["run"] for line in written]
    assert len({folder for folder in folders if manifest(folder)["status"] == "complete"}) == 3


def test_a_limit_is_a_time(tmp_path):
    for text in ("10", "0 s", "soon"):
        wrong = run("sweep", tmp_path, "--timeout", text)
        assert wrong["code"] == 2
        assert wrong["error"]["problems"][0]["path"] == "timeout"
    slow = ("--set", "run.pacing=real-time", "--seed", "1..1", "--timeout", "2 s")
    done = run("sweep", tmp_path, *slow)
    assert done["code"] == 1
    assert "limit of 2 s" in done["failed"][0]["error"]
