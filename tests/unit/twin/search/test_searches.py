"""Searches on functions whose minimum is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.twin.search import Budget, Meter, bayesian, cma_es, least_squares
from cosim.twin.search.bayesian import Process
from cosim.twin.search.cma import reflect
from cosim.twin.search.least_squares import jacobian

units = st.floats(0.02, 0.98)


def bowl(at, weights):
    return lambda points: ((points - at) ** 2 * weights).sum(axis=1)


def rosenbrock(points):
    x = 4.0 * points - 2.0
    return (100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2).sum(axis=1)


@given(st.lists(units, min_size=2, max_size=6), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_cma_finds_the_bottom_of_a_bowl_whose_axes_differ(at, seed):
    weights = np.logspace(0, 4, len(at))
    meter = Meter(bowl(np.array(at), weights), Budget(40_000))
    found = cma_es(meter, np.full(len(at), 0.5), np.random.default_rng(seed), restarts=0)
    assert np.allclose(found.units, at, atol=1e-4)
    assert found.stopped == "converged"


def test_cma_follows_a_bent_valley():
    meter = Meter(rosenbrock, Budget(40_000))
    found = cma_es(meter, np.array([0.1, 0.9, 0.2, 0.3]), np.random.default_rng(2))
    assert np.allclose(4.0 * found.units - 2.0, 1.0, atol=1e-3)


def test_restarts_leave_a_local_minimum():
    def two(points):
        near = ((points - 0.2) ** 2).sum(axis=1)
        far = ((points - 0.85) ** 2).sum(axis=1)
        return np.minimum(near + 0.05, 5.0 * far)

    found = cma_es(Meter(two, Budget(20_000)), np.full(2, 0.2), np.random.default_rng(1), sigma=0.03)
    assert np.allclose(found.units, 0.85, atol=1e-3)


def test_cma_finds_whole_numbers_and_reals_together():
    def mixed(points):
        level = np.floor(points[:, 0] * 8)
        choice = np.floor(points[:, 1] * 3)
        return (level - 6) ** 2 + (choice != 0) + (points[:, 2] - 0.3 - 0.05 * level) ** 2

    levels = np.array([8.0, 3.0, 0.0])
    for seed in range(5):
        start = np.array([0.1, 0.9, 0.5])
        found = cma_es(Meter(mixed, Budget(20_000)), start, np.random.default_rng(seed), levels=levels)
        assert found.loss < 1e-6


def test_a_minimum_at_the_bound_is_reached():
    found = cma_es(Meter(lambda u: u[:, 0] + (1 - u[:, 1]), Budget(5_000)), np.full(2, 0.5), np.random.default_rng(1))
    assert found.units[0] < 1e-5
    assert found.units[1] > 1 - 1e-5


def test_points_that_cannot_be_simulated_are_left():
    def half(points):
        losses = ((points - 0.7) ** 2).sum(axis=1)
        losses[points[:, 0] < 0.5] = np.nan
        return losses

    found = cma_es(Meter(half, Budget(5_000)), np.full(2, 0.2), np.random.default_rng(3))
    assert np.allclose(found.units, 0.7, atol=1e-3)


@given(st.lists(st.floats(-3, 4), min_size=1, max_size=5))
def test_mirror_images_lie_in_the_cube_and_points_of_it_stay(values):
    points = np.array(values)
    mirrored = reflect(points)
    assert ((mirrored >= 0) & (mirrored < 1)).all()
    inside = (points >= 0) & (points < 1)
    assert np.allclose(mirrored[inside], points[inside], atol=1e-15)
    assert np.allclose(reflect(points + 2.0), mirrored, atol=1e-12)


@given(st.integers(1, 200), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_no_search_spends_more_than_its_budget(runs, per_point):
    spent = [0]

    def count(points):
        spent[0] += len(points) * per_point
        return (points**2).sum(axis=1)

    meter = Meter(count, Budget(runs), runs_per_point=per_point)
    found = cma_es(meter, np.full(3, 0.5), np.random.default_rng(1))
    assert spent[0] == meter.runs <= runs
    assert found.stopped in ("budget of runs", "converged")


def test_time_ends_a_search():
    now = [0.0]

    def slow(points):
        now[0] += 1.0
        return ((points - 0.3) ** 2).sum(axis=1)

    meter = Meter(slow, Budget(10_000, 5.0), clock=lambda: now[0])
    found = cma_es(meter, np.full(3, 0.5), np.random.default_rng(1))
    assert found.stopped == "budget of time"
    assert now[0] == 5.0


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_linear_model_is_solved_by_one_step(seed):
    random = np.random.default_rng(seed)
    design, truth = random.standard_normal((30, 4)), random.uniform(0.1, 0.9, 4)
    wanted = design @ truth

    def residuals(points):
        return points @ design.T - wanted

    found, meter = least_squares(residuals, lambda f: Meter(f, Budget(1_000)), np.full((1, 4), 0.5))
    assert np.allclose(found.units, truth, atol=1e-6)
    assert meter.runs <= 5 * (9 + 6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_least_squares_within_bounds_agrees_with_scipy(seed):
    scipy = pytest.importorskip("scipy.optimize")
    random = np.random.default_rng(seed)
    design, wanted = random.standard_normal((12, 3)), 3.0 * random.standard_normal(12)
    found, _ = least_squares(
        lambda points: points @ design.T - wanted, lambda f: Meter(f, Budget(2_000)), np.full((1, 3), 0.5)
    )
    best = scipy.lsq_linear(design, wanted, (0.0, 1.0), tol=1e-12)
    assert found.loss == pytest.approx(2.0 * best.cost, rel=1e-4)


def test_least_squares_fits_a_decay():
    times = np.linspace(0, 5, 40)

    def model(points):
        return points[:, :1] * np.exp(-times * 4.0 * points[:, 1:2]) + 0.5 * points[:, 2:]

    truth = np.array([[0.8, 0.3, 0.4]])
    found, _ = least_squares(
        lambda points: model(points) - model(truth), lambda f: Meter(f, Budget(3_000)), np.array([[0.5, 0.9, 0.1]])
    )
    assert np.allclose(found.units, truth[0], atol=1e-5)


def test_the_jacobian_is_the_models():
    def residuals(points):
        return np.stack([points[:, 0] ** 2, points[:, 0] * points[:, 1], np.sin(points[:, 1])], axis=1)

    for at in (np.array([0.3, 0.6]), np.array([0.0, 1.0])):
        value, slope = jacobian(residuals, at, 1e-5)
        exact = np.array([[2 * at[0], 0.0], [at[1], at[0]], [0.0, math.cos(at[1])]])
        assert np.allclose(value, residuals(at[None])[0])
        assert np.allclose(slope, exact, atol=3e-5)


def test_bayesian_search_needs_few_runs():
    pytest.importorskip("sklearn")

    def branin(points):
        x, y = 15 * points[:, 0] - 5, 15 * points[:, 1]
        return (
            (y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6) ** 2
            + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x)
            + 10
        )

    random = np.random.default_rng(4)
    meter = Meter(branin, Budget(60))
    found = bayesian(meter, random.random((12, 2)), random)
    assert found.loss < 0.397887 + 0.02
    assert meter.runs <= 60


def test_a_process_of_noise_is_not_believed():
    pytest.importorskip("sklearn")
    random = np.random.default_rng(2)
    points = random.random((40, 3))
    noise = random.standard_normal(40)
    assert Process(points, noise, random).left_out_r2 < 0.3
    smooth = np.sin(3 * points[:, 0]) + points[:, 1]
    assert Process(points, (smooth - smooth.mean()) / smooth.std(), random).left_out_r2 > 0.9


def test_left_out_r2_is_that_of_fits_without_the_point():
    pytest.importorskip("sklearn")
    random = np.random.default_rng(6)
    points = random.random((15, 2))
    losses = np.sin(4 * points[:, 0]) - points[:, 1]
    process = Process(points, losses, random)

    def kernel(a, b):
        far = np.sqrt(5 * (((a[:, None] - b[None]) / process.lengths) ** 2).sum(axis=2))
        return (1 + far + far**2 / 3) * np.exp(-far)

    errors = []
    for k in range(15):
        rest = np.arange(15) != k
        matrix = kernel(points[rest], points[rest]) + (process.noise + 1e-10) * np.eye(14)
        reported = kernel(points[k : k + 1], points[rest]) @ np.linalg.solve(matrix, losses[rest])
        errors.append(float(losses[k] - reported[0]))
    expected = 1 - np.square(errors).sum() / ((losses - losses.mean()) ** 2).sum()
    assert process.left_out_r2 == pytest.approx(expected, rel=1e-3, abs=1e-4)
