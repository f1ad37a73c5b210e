"""Airtime, queueing, propagation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.radio import sharing

fleets = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3), st.floats(0, 1e8)), min_size=1, max_size=40)


@given(fleets)
def test_airtime_handed_out_is_the_airtime_there_is(fleet):
    cell, transfers, phy = (np.array(column) for column in zip(*fleet, strict=True))
    share = sharing.shares(cell, transfers, 4)
    active = transfers > 0
    for c in range(4):
        users = active & (cell == c)
        assert share[users].sum() == pytest.approx(1.0 if users.any() else 0.0)
        assert (share * phy)[users].sum() <= phy[users].max(initial=0.0) * (1 + 1e-9)
    assert (share[cell < 0] == 0).all()
    assert (share[cell >= 0] > 0).all()


def test_an_idle_device_sees_what_it_would_get():
    assert sharing.shares(np.array([0, 0, 0]), np.array([1, 2, 0]), 1).tolist() == pytest.approx([1 / 2, 1 / 2, 1 / 3])


def test_utilisation_is_airtime():
    cell, rate = np.array([0, 0, 1, -1]), np.array([1e6, 2e6, 1e6, 0.0])
    used = sharing.utilisation(cell, np.array([1e5, 4e5, 9e6, 1e6]), rate, 1.0, 3)
    assert used.tolist() == pytest.approx([0.3, 1.0, 0.0])


def test_queueing_of_mm1():
    # rho = 0.5: the wait equals the service time
    assert sharing.queueing_delay(np.array([0.5]), np.array([2e-3]), 1.0)[0] == pytest.approx(2e-3)
    assert sharing.queueing_delay(np.array([0.0, 1.0]), np.array([2e-3, 2e-3]), 0.1).tolist() == [0.0, 0.1]


@given(st.floats(0, 2), st.floats(0, 2), st.floats(0, 1))
def test_queueing_grows_with_load_up_to_its_limit(a, b, service):
    low, high = (sharing.queueing_delay(np.array([load]), np.array([service]), 0.1)[0] for load in sorted((a, b)))
    assert 0 <= low <= high <= 0.1


def test_light_takes_a_microsecond_for_three_hundred_metres():
    assert sharing.propagation_delay(np.array([299.792458]))[0] == pytest.approx(1e-6)


def rayleigh(users, blocks, seed=1):
    return np.random.default_rng(seed).exponential(size=(users, blocks))


def gain_of_the_best(users, snr):
    """E log(1 + snr max of `users` exponentials) over that of one, by integrating the survival functions."""
    x = np.linspace(0.0, 60.0, 600_001)
    inner = snr / (1.0 + snr * x)
    best, one = (inner * (1.0 - (1.0 - np.exp(-x)) ** n) for n in (users, 1))
    return float(np.trapezoid(best, x) / np.trapezoid(one, x))


@pytest.mark.parametrize("users", [2, 4, 8])
def test_proportional_fairness_gains_what_the_best_of_many_rayleigh_users_has(users):
    """Rates in proportion to power: the harmonic number; else the rate at the greatest of as many exponentials."""
    power = rayleigh(users, 4000)
    cell = np.zeros(users, np.int64)
    parts, gain = sharing.proportional_fair(cell, power, 1)
    assert gain.mean() == pytest.approx(sum(1.0 / k for k in range(1, users + 1)), rel=0.02)
    assert parts.mean(axis=1) == pytest.approx(1.0 / users, rel=0.08)  # as round-robin's: all are alike
    assert parts.sum(axis=0) == pytest.approx(1.0)
    _, gain = sharing.proportional_fair(cell, np.log2(1.0 + 10.0 * power), 1)
    assert gain.mean() == pytest.approx(gain_of_the_best(users, 10.0), rel=0.02)


def test_a_user_ten_times_as_strong_has_no_more_of_the_channel():
    power = rayleigh(4, 4000, 2) * np.array([1.0, 1.0, 1.0, 10.0])[:, None]
    parts, _ = sharing.proportional_fair(np.zeros(4, np.int64), power, 1)
    assert parts.mean(axis=1) == pytest.approx(0.25, rel=0.08)


def test_proportional_fairness_is_equal_airtime_where_nothing_fades_by_block():
    cell = np.array([1, 0, 1, 1])
    for blocks in (1, 5):
        parts, gain = sharing.proportional_fair(cell, np.tile([[1.0], [2.0], [30.0], [4.0]], blocks), 3)
        assert parts == pytest.approx(np.tile([[1 / 3], [1.0], [1 / 3], [1 / 3]], blocks))
        assert gain == pytest.approx(1.0)
    parts, gain = sharing.proportional_fair(cell[:0], np.empty((0, 3)), 3)
    assert (len(parts), len(gain)) == (0, 0)


def test_proportional_fairness_is_the_optimum_of_log_rates():
    """Conditions of Karush, Kuhn and Tucker: nobody would give up a block for the price that it has."""
    rate, cell = rayleigh(12, 8), np.arange(12) % 3
    rate[cell == 2, 5:] = 0.0  # a narrower cell
    parts, _ = sharing.proportional_fair(cell, rate, 3, rounds=3000)
    worth = rate / (rate * parts).sum(axis=1)[:, None]
    for c in range(3):
        price = worth[cell == c].max(axis=0)
        assert price.sum() == pytest.approx(4.0, rel=5e-3)  # what the four users together have to spend
        held = parts[cell == c] > 0.02
        assert (worth[cell == c] / np.where(price > 0.0, price, 1.0))[held] == pytest.approx(1.0, abs=0.02)
