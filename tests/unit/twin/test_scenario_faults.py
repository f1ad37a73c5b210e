"""Telemetry with faults, declared in a scenario: told or refused; sound telemetry leads to an overlay that is used."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.report.calibration import write_calibration
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.judging import gather
from cosim.twin.scenario.conditions import seen
from cosim.twin.scenario.overlay import write
from cosim.twin.scenario.study import study
from cosim.twin.search.meter import Budget
from cosim.twin.telemetry.hygiene import vetted
from tests.overlays import read
from tests.unit.twin.test_scenario import BENCH

TRUTH = ["kinds.gateway.power.idle=3.5 W", "kinds.gateway.power.max=8 W"]
FREE = """\
calibrate:
  observed:
    power: {file: power.csv, signal: host.power, nodes: gate-*}
  fit: {until: 12 s}
  free:
    kinds.gateway.power.idle: {bounds: [1 W, 6 W]}
    kinds.gateway.power.max: {bounds: [6.1 W, 12 W]}
"""
Rows = list[list[str]]
HEADER = ["time", "node", "power"]


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Power of two gateways as their meters would have it: header, then rows of text."""
    folder = tmp_path_factory.mktemp("faults")
    file = folder / "scenario.cosim.yaml"
    file.write_text(BENCH, encoding="utf-8")
    run = cosim.load(run_plan(compile_plan(load(file, TRUTH)), folder / "runs").folder)
    query = "SELECT time, node::VARCHAR, power FROM host WHERE node LIKE 'gate-%' ORDER BY time, node"
    rows = [[repr(time), node, repr(power)] for time, node, power in run.sql(query).fetchall()]
    run.close()
    assert len(rows) > 30
    return [HEADER, *rows]


def scenario(folder: Path, rows: Rows, text: str = FREE) -> Path:
    file = folder / "scenario.cosim.yaml"
    file.write_text(BENCH + text, encoding="utf-8")
    with (folder / "power.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return file


def power(of: str, value: str) -> Callable[[Rows], Rows]:
    return lambda rows: [[*row[:2], value] if row[1] == of else row for row in rows]


def some(value: str) -> Callable[[Rows], Rows]:
    return lambda rows: [[*row[:2], value] if k == 9 else row for k, row in enumerate(rows)]


def other_clock(rows: Rows) -> Rows:
    return [[repr(float(row[0]) + 7.0), *row[1:]] if row[1] == "gate-2" else row for row in rows]


def no_rows_between(rows: Rows) -> Rows:
    return [row for row in rows if row[0] == "time" or not 3.0 < float(row[0]) < 9.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [row[:2] for row in rows], "there is no column 'power'"),
        (lambda rows: rows[:1], "nothing was measured"),
        (lambda rows: rows[:2], "cannot determine 2 parameters"),
        (lambda rows: rows[:9], "only 8 values"),
        (power("gate-1", "-4"), "power of gate-1: "),
        (power("gate-1", ""), "power of gate-1: all values are missing"),
        (power("gate-1", "3.3"), "power of gate-1: always 3.3 W"),
        (some("nan"), "values (4"),
        (some("broken"), "values (4"),
        (some("1e6"), "the farthest 1e+06"),
        (some("-1"), "are impossible"),
        (other_clock, "power of gate-2: begins +3.5 s"),
        (no_rows_between, "gap in time"),
    ],
)
def test_a_fault_in_a_table_is_told_or_refused(telemetry, tmp_path, change, words):
    file = scenario(tmp_path, change(telemetry))
    try:
        reported = vetted(study(file, folder=tmp_path / "work", workers=1).problem).warnings
    except ScenarioError as refused:
        reported = (str(refused),)
    assert any(words in line for line in reported), "\n".join(reported)


@pytest.mark.slow
def test_from_telemetry_to_a_scenario_that_includes_what_was_found(telemetry, tmp_path):
    file = scenario(tmp_path, telemetry)
    declared = study(file, folder=tmp_path / "work", workers=1)
    found = calibrate(declared.problem, budget=Budget(runs=1000), posterior=False)
    loaded = load(file)
    path = tmp_path / "bench.calibration.yaml"
    write(path, found, loaded=loaded, free=declared.free, conditions=seen(loaded))
    write_calibration(found, gather(declared.problem, found), tmp_path / "bench.html")
    assert read(path).calibrated["bench"].held_back is not None
    (tmp_path / "plain.yaml").write_text(BENCH, encoding="utf-8")
    twin = tmp_path / "twin.yaml"
    twin.write_text("include: [plain.yaml, bench.calibration.yaml]\n", encoding="utf-8")
    block = load(twin).scenario.kinds["gateway"].power
    assert block is not None
    assert block.idle == pytest.approx(3.5, rel=0.1)
    assert block.max == pytest.approx(8.0, rel=0.15)
    assert compile_plan(load(twin)).warnings == ()
    (warning,) = compile_plan(load(twin, ["workloads.look.arrivals=poisson 20 Hz"])).warnings
    assert "workloads.look.arrivals is poisson 20 Hz, and calibration 'bench' has seen poisson 2 Hz" in warning
    outcome = run_plan(
        compile_plan(load(twin, ["nodes.cloud.cpu=16 x 3 GHz", "kinds.gateway.power.idle=1 W"])), tmp_path
    )
    with (outcome.folder / "logs" / "run.log").open(encoding="utf-8") as log:
        assert "calibration 'bench' found" in log.read()
    run = cosim.load(outcome.folder)
    assert any("kinds.gateway.power.idle" in warning for warning in run.manifest["warnings"])
    run.close()
