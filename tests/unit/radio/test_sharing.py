"""Airtime, queueing, propagation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.radio import sharing

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
