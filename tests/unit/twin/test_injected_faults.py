"""Faults put into good telemetry, one at a time, through `cosim calibrate` itself: none of them is silent."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.twin_faults import FEW, GATEWAYS, RUNS, Fault, Telemetry, calibrated, column, gateways, times
from cosim.twin.scenario.study import study


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Telemetry:
    return gateways(tmp_path_factory.mktemp("faults"))


# What only shows under the fitted model.
JUDGED = (
    "exchanged nodes", "lost tasks", "a node scaled", "a node with an offset", "missing written as 0", "rounded",
    "interpolated", "averaged power", "averaged responses", "tasks written again", "a load of a hundredth",
    "whole seconds", "tried again", "a block is missing",
)  # fmt: skip
# Quicker tests look for these (scenario_faults, faulty_data, tables_of_tasks), or another of the table does as well.
SLOW = (
    "negative node", "constant node", "empty node", "stuck sensor", "outlier", "gap", "negative times",
    *(name for name in JUDGED if name != "exchanged nodes"),
)  # fmt: skip


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in GATEWAYS]
)
def test_no_fault_is_silent(telemetry, tmp_path, fault):
    one = GATEWAYS[fault]
    exit_code, said = calibrated(tmp_path, one.put_into(telemetry), RUNS if fault in JUDGED else FEW)
    assert re.search(one.words, said), said
    assert exit_code == one.code, said


def test_good_telemetry_has_no_complaint(telemetry, tmp_path):
    assert calibrated(tmp_path, telemetry, RUNS) == (0, "")


def test_a_load_in_percent_is_taken_for_one(telemetry, tmp_path):
    fault = Fault({"power.csv": column("util", times(100.0))}, "")
    _, said = calibrated(tmp_path, fault.put_into(telemetry))
    assert "its load" not in said
    (found,) = study(tmp_path, folder=tmp_path / "work", workers=1).problem.assumptions[2:]
    assert found == "power: its load goes up to 100 and is a percentage"


def test_a_node_that_is_left_out_leaves_the_simulation_too(telemetry, tmp_path):
    calibrated(tmp_path, GATEWAYS["negative node"].put_into(telemetry))
    problem = study(tmp_path, folder=tmp_path / "work", workers=1).problem
    assert set(problem.fit.observed["power"].groups or ()) == {"gate-1"}
    truth = np.array([[700.0, 3.5]])
    simulated = problem.fit.simulate(truth, 1)["power"]
    assert simulated.max() < 7.0  # of gate-1 alone; gate-2 takes 9 W when idle
