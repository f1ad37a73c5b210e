"""The search that regresses over all of its runs: near the optimum of a noisy loss, with all of its budget."""

import numpy as np
import pytest

from cosim.twin.search import Meter, regression
from cosim.twin.search.meter import Budget
from cosim.twin.search.regression import features, lowest

AT = np.array([0.3, 0.62, 0.48])


def noisy(seed):
    """A bowl, under a seed per call that moves it and blurs every point."""
    calls = iter(range(10**6))

    def loss(units):
        random = np.random.default_rng([seed, next(calls)])
        return ((units - AT) ** 2).sum(axis=1) + 0.005 * random.standard_normal() + 0.1 * random.random(len(units))

    return loss


def found(seed, runs=1500):
    meter, random = Meter(noisy(seed), Budget(runs)), np.random.default_rng(seed)
    answer, rivals = regression(meter, random.random((8 * features(3), 3)), random)
    assert meter.runs == runs
    assert rivals.shape[1] == 3
    return answer.units, meter.points[0]


def test_the_answer_is_nearer_than_the_best_point_seen():
    away = np.array([[np.linalg.norm(point - AT) for point in found(seed)] for seed in range(8)])
    answer, best = away.mean(axis=0)
    assert answer < 0.03
    assert answer < 0.6 * best


def test_the_same_seed_gives_the_same_answer():
    np.testing.assert_array_equal(found(3)[0], found(3)[0])


def test_a_quadratic_is_met_where_it_is_lowest():
    random = np.random.default_rng(1)
    points = random.random((400, 3))
    at, height = lowest(points, ((points - AT) ** 2).sum(axis=1), random)
    assert at == pytest.approx(AT, abs=0.06)
    assert height < 0.01


def test_points_that_cannot_be_simulated_are_left_out():
    def loss(units):
        return np.where(units[:, 0] > 0.5, np.nan, ((units - AT) ** 2).sum(axis=1))

    random = np.random.default_rng(2)
    answer, _ = regression(Meter(loss, Budget(900)), random.random((80, 3)), random)
    assert answer.units == pytest.approx(AT, abs=0.05)
    nothing = Meter(lambda units: np.full(len(units), np.nan), Budget(100))
    answer, rivals = regression(nothing, random.random((20, 3)), random)
    assert not np.isfinite(answer.loss)
    assert not len(rivals)
