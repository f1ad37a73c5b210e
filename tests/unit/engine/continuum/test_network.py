"""Access networks as functions of arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.engine.continuum import network
from cosim.engine.continuum.throughput import WAN_KBPS, WLAN_KBPS


def whole(*values):
    return np.array(values, np.int64)


def test_the_nearest_point_serves_within_reach():
    devices, points = np.array([[0.0, 0, 0], [90.0, 0, 0], [500.0, 0, 0]]), np.array([[0.0, 0, 30.0], [100.0, 0, 30.0]])
    apart = network.distances(devices, points)
    assert apart[0, 0] == 30.0
    assert network.nearest(apart, 200.0).tolist() == [0, 1, -1]
    assert network.nearest(apart, np.inf).tolist() == [0, 1, 1]
    assert network.nearest(np.empty((3, 0)), 1.0).tolist() == [-1] * 3
    assert network.strongest(-apart, -200.0).tolist() == [0, 1, -1]


def test_a_table_is_read_by_the_number_of_the_others():
    found = network.measured(WLAN_KBPS, np.array([0.0, 1.0, 2.0, 101.0, 202.0]))
    expected = [WLAN_KBPS[0], WLAN_KBPS[0], WLAN_KBPS[1], WLAN_KBPS[100], WLAN_KBPS[100] / 2]
    np.testing.assert_allclose(found, np.array(expected) * 1e3)
    np.testing.assert_allclose(network.wan(np.array([1.0, 25.0, 50.0])), WAN_KBPS[[0, 24, 24]] * [1e3, 1e3, 500.0])


def test_wlan_counts_transfers_both_ways_at_the_point():
    cell, up, down = whole(0, 0, 1, -1, 0), whole(2, 0, 0, 1, 0), whole(1, 1, 0, 1, 0)
    uplink, downlink = network.wlan(cell, up, down, 2, gain=1.0)
    four, five, one = WLAN_KBPS[3] * 1e3, WLAN_KBPS[4] * 1e3, WLAN_KBPS[0] * 1e3
    np.testing.assert_allclose(uplink, [2 * four, four, one, 0.0, five])
    np.testing.assert_allclose(downlink, [four, four, one, 0.0, five])
    np.testing.assert_allclose(network.wlan(cell, up, down, 2)[0], 3.0 * uplink)


def test_the_wait_makes_the_mean_of_mm1():
    rate, size = 10e6, 80e3
    mu = rate / size
    for rho in (0.0, 0.3, 0.9):
        wait = network.queueing(np.array([rho * rate]), rate, size, 100.0)[0]
        assert wait + 1 / mu == pytest.approx(1 / (mu - rho * mu))
    assert network.queueing(np.array([2 * rate]), rate, size, 5.0).tolist() == [5.0]


def test_a_load_is_averaged_over_its_window():
    load = np.zeros(1)
    for _ in range(1000):
        load = network.smoothed(load, np.array([100.0]), 0.5, 20.0)
    assert load[0] == pytest.approx(200.0)
    assert network.smoothed(np.array([200.0]), np.zeros(1), 20.0, 20.0)[0] == pytest.approx(200.0 / np.e)


cells = st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30)


@given(cells)
def test_no_cell_gives_away_more_than_it_has(rows):
    cell, up, down = np.array(rows, np.int64).T
    rate = network.shared(cell, up, 4, 1e6)
    assert np.all(rate[cell < 0] == 0.0)
    for point in range(4):
        mine = cell == point
        active = mine & (up > 0)
        if active.any():
            assert rate[active].sum() == pytest.approx(1e6)
        if (mine & (up == 0)).any():
            assert np.allclose(rate[mine & (up == 0)], 1e6 / (active.sum() + 1))
    uplink, downlink = network.wlan(cell, up, down, 4)
    total = 3e3 * WLAN_KBPS * np.arange(1, 102)
    for point in range(4):
        mine = cell == point
        used = uplink[mine & (up > 0)].sum() + downlink[mine & (down > 0)].sum()
        assert used <= total.max() * (1 + 1e-12)


def test_shannon_over_the_close_in_law():
    # free space at 1 m and 3.5 GHz is 43.33 dB; 10 x 3.1 x log10(100) = 62 dB more
    level = network.snr(np.array([[100.0]]), np.array([3.5e9]), 3.1, np.array([120.0]))
    assert level[0, 0] == pytest.approx(120.0 - 43.33 - 62.0, abs=0.01)
    assert network.shannon(np.array([10.0]), np.array([20e6]), 0.6)[0] == pytest.approx(0.6 * 20e6 * np.log2(11.0))
