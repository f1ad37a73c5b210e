"""The pipelines on a problem whose answer is known: they keep to the budget and come nearer to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.simtune.surrogate import tree
from cosim.extensions.simtune.surrogate.methods import METHODS, Pipeline, Simulator, tune
from cosim.extensions.simtune.surrogate.network import TrainingOptions
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.space import Parameter, Space

SPACE = Space(
    [
        Parameter("mean", 0.0, 10.0, start=9.0),
        Parameter("spread", 0.1, 10.0, scale="log", start=5.0),
        Parameter("law", kind="category", choices=("normal", "uniform", "exponential"), start=1.0),
    ]
)
TRUTH = np.array([[3.0, 1.0, 2.0]])


def simulate(values, seed):
    """200 draws of a law; common random numbers for all rows."""
    random = np.random.default_rng(seed)
    laws = np.stack([random.standard_normal(200), random.random(200) * 3.4 - 1.7, random.exponential(1.0, 200) - 1.0])
    return {"delay": values[:, :1] + values[:, 1:2] * laws[values[:, 2].astype(int)]}


PROBLEM = CalibrationProblem("laws", SPACE, Case({"delay": MeasuredSignal(simulate(TRUTH, 99)["delay"][0])}, simulate))
SMALL = Pipeline(
    runs=160,
    rounds=2,
    finalists=4,
    training=TrainingOptions(rate=5e-3, epochs=20, patience=10),
    tree=tree.Tree(rollouts=12),
)
WITHOUT_TORCH = ["human set", "SimTune w/o LoFi", "HGP+ES"]


@cache
def tuned(method):
    return tune(PROBLEM, method, pipeline=SMALL, seed=2)


def judged(found):
    """The reality gap under numbers that no method has seen."""
    simulator = Simulator(PROBLEM, 8, seed=1234)
    return float(np.mean([simulator.gaps(found.unit, k)[0] for k in range(8)]))


BEFORE = judged(tune(PROBLEM, "human set", pipeline=SMALL))


def test_the_human_set_values_are_the_start():
    found = tune(PROBLEM, "human set", pipeline=SMALL)
    np.testing.assert_allclose(found.values, SPACE.start)
    assert found.runs == 1


@pytest.mark.parametrize("method", [m for m in METHODS if m != "human set"])
def test_every_method_keeps_to_its_runs_and_comes_nearer(method):
    if method not in WITHOUT_TORCH:
        pytest.importorskip("torch")
    found = tuned(method)
    assert found.runs <= SMALL.runs
    assert judged(found) < 0.6 * BEFORE
    assert np.isnan(found.r2) == (method == "SimTune w/o LoFi")


@pytest.mark.parametrize("method", ["HGP+ES", "SimTune w/o LoFi"])
def test_equal_seeds_give_equal_answers(method):
    one, two, other = (tune(PROBLEM, method, pipeline=SMALL, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.unit, two.unit)
    assert one.gap == two.gap
    assert not np.array_equal(one.unit, other.unit)


def test_the_networks_answer_is_equal_on_repetition():
    pytest.importorskip("torch")
    short = replace(SMALL, runs=80, training=TrainingOptions(epochs=2), tree=tree.Tree(rollouts=3))
    one, two = (tune(PROBLEM, "SimTune", pipeline=short, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.unit, two.unit)
    assert one.r2 == two.r2


def test_without_simulations_of_its_proposals_fewer_runs_are_spent():
    pytest.importorskip("torch")
    assert tuned("SimTune w/o HiFi").runs == int(SMALL.first * SMALL.runs)


def test_more_runs_than_the_budget_are_refused():
    simulator = Simulator(PROBLEM, 3)
    simulator.qos(np.full((2, 3), 0.5))
    with pytest.raises(ValueError, match="2 runs wanted, 1 of 3 left"):
        simulator.qos(np.full((2, 3), 0.5))


def test_slopes_are_differences_of_the_real_parameters():
    simulator = Simulator(PROBLEM, 100)
    unit = SPACE.units([[5.0, 2.0, 0.0]])[0]
    slope = simulator.slope(unit)
    assert slope.shape == (5,)
    assert slope[0] > 0.0  # the mean is too high
    assert np.all(slope[2:] == 0.0)


def test_an_unknown_method_is_refused():
    with pytest.raises(ScenarioError, match="no method 'guess'"):
        tune(PROBLEM, "guess")
