"""The freeway's floating car data: made the same each time, plausible, replayed as it is."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cosim.adapters.replay.tests.test_replay_adapter import started, step

FREEWAY = Path(__file__).parents[3] / "scenarios" / "freeway"


@pytest.fixture(scope="module")
def make_fcd():
    spec = importlib.util.spec_from_file_location("make_fcd", FREEWAY / "make_fcd.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_file_is_what_the_generator_writes(make_fcd):
    shipped = gzip.decompress((FREEWAY / "data" / "freeway.csv.gz").read_bytes()).decode()
    assert shipped == "".join(make_fcd.lines(make_fcd.trajectories(), "csv"))


@pytest.mark.parametrize("name", ["f.xml", "f.xml.gz", "f.csv"])
def test_every_format_of_the_generator_replays_alike(make_fcd, tmp_path, name):
    make_fcd.write(tmp_path / "f.csv.gz", duration=40.0)
    make_fcd.write(tmp_path / name, duration=40.0)
    ours, theirs = started(tmp_path, "f.csv.gz"), started(tmp_path, name)
    for time in np.arange(0.0, 41.0, 0.5):
        assert step(ours, float(time)).same_as(step(theirs, float(time)))


def test_other_endings_are_refused(make_fcd, tmp_path):
    with pytest.raises(ValueError, match=r"neither \.xml nor \.csv"):
        make_fcd.write(tmp_path / "f.json")


def test_cars_keep_their_distance_and_slow_down_where_they_must(make_fcd):
    lanes, slow, fast = {}, [], []
    for time, _, x, y, speed, _ in make_fcd.trajectories():
        lanes.setdefault((time, y), []).append(x)
        (slow if 1600 < x < 1750 else fast if x < 900 else []).append(speed)
    assert min(np.min(-np.diff(xs)) for xs in lanes.values() if len(xs) > 1) > make_fcd.CAR
    assert np.mean(slow) < 19.0 < np.mean(fast)
