"""Targets, conditions, evolutionary searches and the heteroscedastic process: all without torch."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.extensions.simtune.surrogate import hgp
from cosim.extensions.simtune.surrogate.encoding import Encoding
from cosim.extensions.simtune.surrogate.evolution import descent, evolution_strategy, mutation_crossover
from cosim.extensions.simtune.surrogate.target import BLOCKS, STEPS, Conditions, QosTarget
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.space import Parameter, Space

RANDOM = np.random.default_rng(4)


def test_the_measured_signal_is_half_everywhere():
    values = RANDOM.normal(5.0, 2.0, 100)
    observed = {"a": MeasuredSignal(values), "b": MeasuredSignal(values, paired=True)}
    target = QosTarget(observed)
    qos = target.qos({"a": values[None, ::-1], "b": values[None]})
    assert qos.shape == (1, target.width) == (1, 2 * BLOCKS)
    np.testing.assert_allclose(qos, 0.5)
    assert target.gaps(qos)[0] == pytest.approx(0.0, abs=1e-12)


def test_the_gap_of_a_shift_is_its_share_of_the_span():
    values = np.linspace(0.0, 10.0, 101)
    target = QosTarget({"a": MeasuredSignal(values)})
    gap = target.gaps(target.qos({"a": values[None] + 2.0}))[0]
    assert gap == pytest.approx(0.5 * 0.2 / 1.2)  # d = 0.2 spans
    far = target.qos({"a": np.array([values + 1e6, np.full(101, np.nan)])})
    assert np.all(far < 1.0 + 1e-12)
    assert np.all(far[0] > 0.99)
    np.testing.assert_array_equal(far[1], 1.0)


def test_weights_are_per_signal_not_per_figure():
    values = RANDOM.random(50)
    target = QosTarget({"a": MeasuredSignal(values, weight=3.0), "b": MeasuredSignal(values[:2], paired=True)})
    assert target.width == BLOCKS + 2
    assert target.weights[:BLOCKS].sum() == pytest.approx(0.75)
    assert target.weights[BLOCKS:].sum() == pytest.approx(0.25)


def test_missing_measured_values_are_left_out():
    values = RANDOM.random(60)
    values[7] = np.nan
    target = QosTarget({"a": MeasuredSignal(values, paired=True), "b": MeasuredSignal(values)})
    simulated = np.where(np.isnan(values), 99.0, values)
    np.testing.assert_allclose(target.qos({"a": simulated[None], "b": values[None, np.isfinite(values)]}), 0.5)


def test_conditions_of_a_problem():
    values = RANDOM.random(40)
    groups = tuple("xy"[k % 2] for k in range(40))
    observed = {"a": MeasuredSignal(values, groups=groups), "b": MeasuredSignal(values[:5])}
    problem = CalibrationProblem("p", Space([Parameter("x")]), Case(observed, lambda v, s: {}))
    found = Conditions.of(problem)
    assert found.workload.shape == (STEPS, 2)
    assert found.hosts.shape == (2, 6)
    unit = (values - values.min()) / np.ptp(values)
    assert found.hosts[1, 0] == pytest.approx(unit[1::2].mean())
    testbed = Conditions.measured(RANDOM.random((100, 16)))
    assert testbed.workload.shape == (STEPS, 16)
    assert testbed.hosts.shape == (16, 3)


def bowl(units):
    return np.sqrt(((units - [0.2, 0.8, 0.5]) ** 2).sum(axis=1))


@pytest.mark.parametrize("search", [evolution_strategy, mutation_crossover])
def test_evolution_finds_a_bowl(search):
    found = search(bowl, [0.9, 0.1, 0.1], seed=2)
    assert found.losses[0] < 0.05
    np.testing.assert_array_equal(bowl(found.units), found.losses)
    np.testing.assert_array_equal(search(bowl, [0.9, 0.1, 0.1], seed=2).units, found.units)


def test_descent_finds_a_bowl_and_rounds_what_is_discrete():
    space = Space([Parameter("x"), Parameter("n", 0, 4, kind="integer"), Parameter("y")])

    def gradients(units):
        return (units - [0.2, 0.8, 0.5]) / np.maximum(bowl(units), 1e-9)[:, None]

    found = descent(bowl, gradients, Encoding(space), [[0.9, 0.1, 0.1]])
    assert space.values(found.units[:1])[0, 1] in (3.0, 4.0)
    assert abs(found.units[0, 0] - 0.2) < 0.02
    assert abs(found.units[0, 2] - 0.5) < 0.02


def test_a_loss_that_is_not_finite_comes_last():
    found = evolution_strategy(lambda u: np.where(u[:, 0] < 0.5, np.nan, u[:, 0]), [0.9], seed=1)
    assert 0.5 <= found.units[0, 0] < 0.52


def test_linear_systems_equal_those_of_numpy():
    a = RANDOM.standard_normal((30, 30))
    matrix, right = a @ a.T + np.eye(30), RANDOM.standard_normal((30, 4))
    lower = hgp.cholesky(matrix)
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix))
    np.testing.assert_allclose(hgp.solve(lower, right), np.linalg.solve(lower, right))
    np.testing.assert_allclose(hgp.solve(lower, right, transposed=True), np.linalg.solve(lower.T, right))
    np.testing.assert_allclose(hgp.product(a, right), a @ right)
    with pytest.raises(ValueError, match="not positive definite"):
        hgp.cholesky(-matrix)


def test_the_process_knows_mean_and_where_it_is_noisy():
    x = RANDOM.random((300, 2))
    noise = np.where(x[:, 0] > 0.5, 0.3, 0.01)
    y = np.stack([np.sin(6.0 * x[:, 1]) + noise * RANDOM.standard_normal(300), x[:, 0] + 0.0 * noise], axis=1)
    process = hgp.HeteroscedasticProcess(x, y)
    at = np.array([[0.2, 0.3], [0.8, 0.3], [0.2, 0.7], [0.8, 0.7]])
    said = process.predict(at)
    assert np.abs(said[[0, 2], 0] - np.sin(6.0 * at[[0, 2], 1])).max() < 0.06
    assert np.abs(said[:, 0] - np.sin(6.0 * at[:, 1])).max() < 0.25
    noise = process._noise(at)
    assert noise[1] > 9.0 * noise[0]
    assert noise[3] > 9.0 * noise[2]
    np.testing.assert_array_equal(process.predict(at), hgp.HeteroscedasticProcess(x, y).predict(at))
