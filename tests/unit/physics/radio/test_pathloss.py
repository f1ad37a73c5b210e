"""Path loss against known numbers and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.radio import pathloss

distances = st.floats(1.0, 1e5)
frequencies = st.floats(0.5e9, 30e9)


def test_close_in_at_the_stated_point():
    # 32.4 + 20 log10(3.5) + 31 log10(226) of the document that states the law; 32.4 is 32.448 exactly
    assert pathloss.close_in(226.0, 3.5e9, 3.1) == pytest.approx(116.3, abs=0.05)


def test_free_space_at_one_kilometre_and_one_gigahertz():
    assert pathloss.free_space(1000.0, 1e9) == pytest.approx(92.45, abs=0.01)


def test_close_in_with_exponent_two_is_free_space():
    d = np.geomspace(1, 1e5, 50)
    np.testing.assert_allclose(pathloss.close_in(d, 2e9, 2.0), pathloss.free_space(d, 2e9), rtol=1e-12)


def test_umi_line_of_sight_by_hand():
    # d3D = sqrt(100^2 + 8.5^2) = 100.36: 32.4 + 21 log10(100.36) + 20 log10(3.5)
    assert pathloss.umi_los(100.0, 10.0, 1.5, 3.5e9) == pytest.approx(85.314, abs=0.01)


@given(st.floats(10.0, 1000.0), st.floats(0.0, 120.0), st.floats(0.0, 120.0))
def test_umi_line_of_sight_is_the_same_both_ways_at_any_height(ground, one, other):
    """A jammer at 1 m beside a phone at 1 m is no cell: both ends may be low."""
    there, back = (pathloss.umi_los(ground, *ends, 3.5e9) for ends in ((one, other), (other, one)))
    assert np.isfinite(there)
    assert there == pytest.approx(back)


def test_umi_without_line_of_sight_by_hand():
    # 35.3 log10(100.36) + 22.4 + 21.3 log10(3.5)
    assert pathloss.umi_nlos(100.0, 10.0, 1.5, 3.5e9) == pytest.approx(104.644, abs=0.01)


def test_umi_slopes_meet_at_the_breakpoint():
    breakpoint_ = 4 * 9.0 * 0.5 * 3.5e9 / pathloss.LIGHT
    near, far = (pathloss.umi_los(breakpoint_ * f, 10.0, 1.5, 3.5e9) for f in (1 - 1e-9, 1 + 1e-9))
    assert near == pytest.approx(far, abs=1e-6)
    ten_times = pathloss.umi_los(breakpoint_ * 10, 10.0, 1.5, 3.5e9) - far
    assert ten_times == pytest.approx(40.0, abs=0.05)


def test_umi_chance_of_line_of_sight():
    assert pathloss.umi_los_probability(np.array([0.0, 18.0])).tolist() == [1.0, 1.0]
    assert pathloss.umi_los_probability(100.0) == pytest.approx(0.18 + np.exp(-100 / 36) * 0.82)


@given(distances, distances, frequencies, st.floats(1.5, 6.0))
def test_farther_is_never_louder(a, b, frequency, exponent):
    near, far = min(a, b), max(a, b)
    assert pathloss.close_in(near, frequency, exponent) <= pathloss.close_in(far, frequency, exponent)
    for law in (pathloss.umi_los, pathloss.umi_nlos):
        assert law(near, 10.0, 1.5, frequency) <= law(far, 10.0, 1.5, frequency)
    assert pathloss.umi_los_probability(near) >= pathloss.umi_los_probability(far)


@given(distances, frequencies)
def test_an_obstacle_never_helps(distance, frequency):
    assert pathloss.umi_nlos(distance, 10.0, 1.5, frequency) >= pathloss.umi_los(distance, 10.0, 1.5, frequency)
