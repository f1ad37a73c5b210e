"""The same seed gives the same bits: whoever drives, wherever adapters run, however Python hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"


def run(scenario: str, out: Path, *settings: str, driver: str = "loop", hashing: str = "0") -> Path:
    """A complete run of a shipped scenario in a process of its own; its folder."""
    command = [sys.executable, "-m", "cosim", "run", str(SCENARIOS / scenario), "--out", str(out), "--json"]
    command += ["--no-report", "--driver", driver]
    command += [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONHASHSEED": hashing}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def compare(first: Path, second: Path, *, equal: bool = True) -> None:
    command = [sys.executable, "-m", "cosim", "compare", "--exact", str(first), str(second)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if equal else 1), done.stdout + done.stderr


@pytest.fixture(scope="module")
def hello(tmp_path_factory) -> Path:
    return run("hello", tmp_path_factory.mktemp("hello"), "run.duration=90 s")


@pytest.mark.xdist_group("determinism")
@pytest.mark.parametrize(
    ("driver", "hashing", "isolated"),
    [
        ("loop", "0", ()),
        ("mosaik", "0", ()),
        ("loop", "4711", ()),
        ("loop", "1", ("radio",)),
        ("mosaik", "2", ("vehicle", "radio", "continuum")),
    ],
    ids=["again", "mosaik", "other-hashes", "radio-isolated", "all-isolated-under-mosaik"],
)
def test_hello_is_bit_equal(hello, tmp_path, driver, hashing, isolated):
    settings = [f"adapters.{name}.isolated=true" for name in isolated]
    again = run("hello", tmp_path, "run.duration=90 s", *settings, driver=driver, hashing=hashing)
    compare(hello, again)


@pytest.mark.xdist_group("determinism")
def test_another_seed_is_not(hello, tmp_path):
    compare(hello, run("hello", tmp_path, "run.duration=90 s", "run.seed=8"), equal=False)


@pytest.mark.slow
@pytest.mark.sumo
def test_city_edge_is_bit_equal(tmp_path):
    short = "run.duration=2 min"
    first = run("city-edge", tmp_path / "loop", short)
    compare(first, run("city-edge", tmp_path / "mosaik", short, driver="mosaik", hashing="1"))
    placement = ("adapters.radio.isolated=true", "adapters.continuum.isolated=true", "adapters.sumo.isolated=true")
    compare(first, run("city-edge", tmp_path / "isolated", short, *placement, hashing="2"))
