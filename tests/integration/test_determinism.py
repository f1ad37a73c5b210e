"""The same seed gives the same bits: whoever drives, wherever adapters run, however Python hashes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.forked import cosim


def run(scenario: str, out: Path, *settings: str, driver: str = "loop", hashing: str = "") -> Path:
    """A complete run of a shipped scenario in a process of its own; its folder."""
    words = [word for setting in settings for word in ("--set", setting)]
    environment = {**os.environ, "PYTHONHASHSEED": hashing} if hashing else os.environ
    done = cosim("run", scenario, "--out", out, "--json", "--no-report", "--driver", driver, *words, env=environment)
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)["folder"])


def compare(first: Path, second: Path, *, equal: bool = True) -> None:
    done = cosim("compare", "--exact", first, second)
    assert done.returncode == (0 if equal else 1), done.stdout + done.stderr


@pytest.fixture(scope="module")
def hello(tmp_path_factory) -> Path:
    return run("hello", tmp_path_factory.mktemp("hello"), "run.duration=90 s")


@pytest.mark.parametrize(
    ("driver", "hashing", "isolated"),
    [
        ("loop", "", ()),
        ("mosaik", "", ()),
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
