"""Faults in the telemetry come through to the calibration: as a warning in the answer, or as a refusal."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.scenario.checking import usual
from cosim.twin.search.meter import Budget
from cosim.twin.space import Parameter, Space
from cosim.twin.telemetry.hygiene import examine

LOAD = np.random.default_rng(1).uniform(0, 1, 120)
TRUTH = np.array([2.7, 3.6])


def simulate(values: Floats, seed: int) -> dict[str, Floats]:
    return {"power": values[:, :1] + values[:, 1:] * LOAD}


def problem(values: Floats, held_back: Floats | None = None) -> CalibrationProblem:
    space = Space([Parameter("idle", 0.5, 8.0, unit="W", start=6.0), Parameter("span", 0.5, 9.0, unit="W", start=1.0)])
    groups = tuple(np.repeat(("north", "south"), 60).tolist())

    def case(measured: Floats) -> Case:
        return Case({"power": MeasuredSignal(measured, "W", paired=True, groups=groups)}, simulate)

    later = sound(2) if held_back is None else held_back
    return CalibrationProblem("nodes", space, case(values), case(later), deterministic=True, cost=1e-6)


def sound(seed: int = 1) -> Floats:
    return TRUTH[0] + TRUTH[1] * LOAD + np.random.default_rng(seed).normal(0, 0.05, 120)


def faulty(fault: str) -> Floats:
    values = sound()
    if fault == "negative":
        values[60:] = -1.0
    elif fault == "some negative":
        values[[3, 70]] = -1.0
    elif fault == "missing":
        values[60:] = np.nan
    elif fault == "constant":
        values[60:] = 3.0
    elif fault == "outlier":
        values[[10]] = 1e4
    elif fault == "stuck":
        values[70:100] = values[70]
    elif fault == "infinite":
        values[5] = np.inf
    return values


@pytest.mark.parametrize(
    ("fault", "words", "right"),
    [
        ("negative", "power of south: 60 of 60 values are impossible", True),
        ("some negative", "power of north: 1 of 60 values are impossible", True),
        ("missing", "power of south: all values are missing", True),
        ("constant", "power of south: always 3 W", False),
        ("outlier", "power of north: 1 outlier", False),
        ("stuck", "power of south: stands still", False),
        ("infinite", "power of north: 1 of 60 values are impossible", True),
    ],
)
def test_a_fault_is_a_warning_of_the_answer(fault, words, right):
    found = calibrate(problem(faulty(fault)), budget=Budget(runs=3000), posterior=False)
    assert any(words in warning for warning in found.warnings), found.warnings
    if right:  # what was wrong was blanked, and what is left tells the truth
        assert [found.value("idle"), found.value("span")] == pytest.approx(TRUTH, rel=0.02)
        assert found.fit.after[0].nrmse < 0.02
    late = calibrate(problem(sound(), faulty(fault)), budget=Budget(runs=3000), posterior=False)
    assert any(warning.startswith("data held back: power") for warning in late.warnings), late.warnings


def test_sound_data_have_no_warning():
    found = calibrate(problem(sound()), budget=Budget(runs=3000), posterior=False)
    assert not [warning for warning in found.warnings if "power" in warning]
    assert [found.value("idle"), found.value("span")] == pytest.approx(TRUTH, rel=0.02)


@pytest.mark.parametrize("values", [np.full(120, -1.0), np.full(120, np.nan), np.full(120, np.inf)])
def test_data_that_nothing_can_be_fitted_to_are_refused(values):
    with pytest.raises(ScenarioError, match="signal 'power' has no value that can be used"):
        calibrate(problem(values), budget=Budget(runs=3000))


def test_one_value_is_refused():
    values = np.full(120, np.nan)
    values[3] = 4.0
    with pytest.raises(ScenarioError, match="1 measured values cannot determine 2 parameters"):
        calibrate(problem(values), budget=Budget(runs=3000))


@pytest.mark.parametrize(("longest", "excused"), [(11.5, True), (40.0, False), (1e4, False)])
def test_the_end_of_a_long_tail_is_no_outlier_where_simulations_reach_nearly_as_far(longest, excused):
    random = np.random.default_rng(15)
    rows = np.exp(0.555 * np.clip(random.standard_normal((25, 386)), -3.8, 3.8))  # to 8 times the median
    values = np.append(np.minimum(rows[0], 5.0), longest)
    assert [one.kind for one in examine({"up": MeasuredSignal(values, "s")})[1]] == ["outliers"]
    measured = SimpleNamespace(measured=SimpleNamespace(values=values))
    found = usual({"up": (None, measured)}, {"up": 2.0 * rows[1:]})  # by other values, all take longer
    assert ("outliers" in found.get("up", ())) is excused
