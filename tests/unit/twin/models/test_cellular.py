from __future__ import annotations

import numpy as np
import pytest

from cosim.twin.models import cellular
from cosim.twin.models.cellular import LTE, NR, SLOW, Receptions, Samples


def samples(mode, snr, rsrp=-80.0, speed=0.0):
    return Samples(*(np.array([x]) for x in (mode, snr, rsrp, speed)))


VALUES = np.array([(2.0, 10.0, 1.0, 4.0, 40.0, 2.0, 5.0, 100.0, -125.0)])


def test_rates_of_each_kind_of_network():
    assert cellular.throughput(VALUES, samples(SLOW, np.nan)) == 2.0
    lte = 10.0 * np.log2(1.0 + 10.0**0.4)
    assert cellular.throughput(VALUES, samples(LTE, 5.0))[0, 0] == pytest.approx(lte, rel=1e-3)
    nr = lte + 40.0 * np.log2(1.0 + 10.0**0.3)
    assert cellular.throughput(VALUES, samples(NR, 5.0))[0, 0] == pytest.approx(nr, rel=1e-3)


def test_efficiency_ends_at_its_largest_and_the_level_limits_what_the_snr_promises():
    assert cellular.throughput(VALUES, samples(LTE, 60.0, rsrp=-50.0))[0, 0] == pytest.approx(40.0)
    weak = cellular.throughput(VALUES, samples(LTE, 60.0, rsrp=-125.0))[0, 0]
    assert weak == pytest.approx(10.0 * np.log2(1.0 + 10.0**-0.1), rel=1e-3)


def test_half_is_left_at_the_half_speed():
    there, moving = (cellular.throughput(VALUES, samples(NR, 5.0, speed=v))[0, 0] for v in (0.0, 100.0))
    assert moving == pytest.approx(there / 2.0)


def test_levels_fall_by_the_exponent_and_the_pattern_takes_no_more_than_its_sidelobe():
    seen = Receptions(np.array([0, 0, 1]), np.array([100.0, 1000.0, 100.0]), np.array([25.0, 25.0, 25.0]))
    flat = cellular.level(np.array([(2.0, 0.0, 0.0, 65.0, 0.0, -10.0, -13.0)]), seen)[0]
    np.testing.assert_allclose(flat, [-50.0, -70.0, -53.0])
    high = Receptions(np.array([0]), np.array([10.0]), np.array([125.0]))
    values = np.array([(0.0, 0.0, 0.0, 10.0, most, 0.0, 0.0) for most in (5.0, 20.0)])
    np.testing.assert_allclose(cellular.level(values, high)[:, 0], [-5.0, -20.0])


def test_there_are_twelve_parameters_or_fewer():
    assert len(cellular.throughput_space()) <= 12
    assert len(cellular.level_space(3)) <= 12
