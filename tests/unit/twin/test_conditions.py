"""Conditions of a calibration that name signals are checked against what a run recorded."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import cosim
from cosim.report import trust, write_report
from cosim.report.calibrated_range import beyond
from cosim.report.folder import Folder
from cosim.scenario.load import load
from cosim.twin.scenario.conditions import seen
from tests.unit.results import synthetic


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_run(tmp_path_factory.mktemp("run"), ticks=60)


def resolved(**conditions: tuple[object, object]) -> str:
    lines = [f"      {name.replace('__', '.')}: [{low}, {high}]" for name, (low, high) in conditions.items()]
    return "\n".join(["calibrated:", "  pi:", "    conditions:", *lines]) + "\n"


def test_the_share_beyond_is_that_of_the_rows(run):
    with closing(cosim.load(run)) as reported, Folder(run) as folder:
        power = np.array([row[0] for row in reported.table("host").project("power").fetchall()])
        high = float(np.median(power))
        (warning,) = beyond(resolved(host__power=("0 W", f"{high!r} W")), folder.has, folder.rows)
    share = np.mean(power > high)
    assert share > 0.1
    assert f"{share:.1%} of the rows are extrapolated" in warning
    assert warning.startswith(f"host.power went from {power.min():.4g} to {power.max():.4g}")


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({"host__power": ("0 W", "1 MW")}, 0),
        ({"host__power": ("5 MW", "6 MW")}, 1),
        ({"host__utilisation": (0.0, 1e9)}, 0),
        ({"task__response": ("1 us", "2 us")}, 1),
        ({"task__response": ("0 s", "1 h")}, 0),
        ({"host__power": ("5 MW", ".inf")}, 1),
        ({"host__nothing": (0, 1)}, 0),  # no such column
        ({"battery__charge": (0, 1)}, 0),  # was not recorded
        ({"workloads.a.input": ("1 B", "2 B")}, 0),  # of the text, which is checked before
        ({"host__power": ("low", "high")}, 0),
        ({}, 0),
    ],
)
def test_what_a_run_recorded_is_compared(run, conditions, count):
    with Folder(run) as folder:
        assert len(beyond(resolved(**conditions) if conditions else "name: x\n", folder.has, folder.rows)) == count


def test_the_report_tells_both_kinds_of_warning(tmp_path):
    path = synthetic.write_run(tmp_path, ticks=20)
    (path / "scenario.resolved.yaml").write_text(resolved(host__power=("5 MW", "6 MW")), encoding="utf-8")
    synthetic.sign(path)
    with Folder(path) as folder:
        folder.manifest["warnings"] = ["kinds.edge.power.idle is 9 W"]
        reported = [text for name, text, mark in trust.validity(folder, []) if name == "Warning" and mark == "warn"]
    assert len(reported) == 2
    assert "calibration 'pi' has seen 5 MW to 6 MW" in reported[1]
    assert "100.0% of the rows are extrapolated" in write_report(path).read_text(encoding="utf-8")


def test_conditions_are_those_of_the_scenario_and_of_its_runs(run, tmp_path):
    hello = Path(__file__).resolve().parents[3] / "scenarios" / "hello" / "scenario.cosim.yaml"
    file = tmp_path / "study.yaml"
    file.write_text(
        f"include: {hello}\n"
        "calibrate:\n"
        "  free: {workloads.weed-detection.work: {bounds: [exponential 100 Mcycles, exponential 900 Mcycles]}}\n"
        f"  observed: {{power: {{run: {run}, signal: host.power}}}}\n",
        encoding="utf-8",
    )
    found = seen(load(file))
    assert found["workloads.weed-detection.arrivals"] == ("poisson 2 Hz", "poisson 2 Hz")
    assert found["workloads.position-report.input"] == ("200 B", "200 B")
    assert "workloads.weed-detection.work" not in found  # which is free
    with closing(cosim.load(run)) as reported:
        low, high = reported.sql("SELECT min(utilisation), max(utilisation) FROM host").fetchall()[0]
    assert found["host.utilisation"] == (low, high)
    with Folder(run) as folder:
        lines = "".join(f"      {name}: [{low}, {high}]\n" for name, (low, high) in found.items() if "host" in name)
        assert beyond(f"calibrated:\n  pi:\n    conditions:\n{lines}", folder.has, folder.rows) == ()
    assert seen(load(hello)) == {}
