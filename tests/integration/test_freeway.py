"""The freeway scenario shows the cars where its file has them."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import pytest

import cosim
from cosim.results.session import run

FREEWAY = Path(__file__).resolve().parents[2] / "scenarios" / "freeway"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    outcome = run(FREEWAY, overrides=["run.duration=2 min"], out=tmp_path_factory.mktemp("freeway"))
    assert outcome.error is None
    return outcome.folder


@pytest.fixture(scope="module")
def samples() -> dict[tuple[float, str], tuple[float, ...]]:
    """(time, car) -> x, y (m), speed (m/s), heading (deg) as the file says."""
    with gzip.open(FREEWAY / "data" / "freeway.csv.gz", "rt", newline="") as file:
        rows = csv.DictReader(file, delimiter=";")
        return {
            (float(row["timestep_time"]), row["vehicle_id"]): tuple(
                float(row[f"vehicle_{key}"]) for key in ("x", "y", "speed", "angle")
            )
            for row in rows
        }


def test_frames_equal_the_file_at_its_sample_times(folder, samples):
    recorded = cosim.load(folder).sql("SELECT time, node, x, y, speed, heading FROM mobility").fetchall()
    expected = {key for key in samples if key[0] <= 120.0}
    assert len(expected) > 4_000
    assert {(row[0], row[1]) for row in recorded} == expected
    for time, node, *values in recorded:
        sample = samples[time, node]
        assert all(math.isclose(a, b, abs_tol=1e-9) for a, b in zip(values, sample, strict=True)), (time, node)


def test_the_cars_are_served_and_the_ledgers_close(folder):
    result = cosim.load(folder)
    assert result.metrics["faults"] == []
    figures = {name: figure["value"] for name, figure in result.metrics["figures"].items()}
    assert figures["coverage"] > 0.95
    assert figures["handovers"] > 50
    assert figures["tasks_completed"] > 0.9 * figures["tasks_created"]
    cells = {row[0] for row in result.sql("SELECT DISTINCT cell FROM link WHERE cell IS NOT NULL").fetchall()}
    assert cells == {f"station-{i}" for i in range(1, 5)}
