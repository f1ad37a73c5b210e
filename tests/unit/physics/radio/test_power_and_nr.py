"""Powers, tables, block errors and rates of 5G."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.radio import nr, power

levels = st.floats(-150.0, 50.0)


def test_thermal_noise_of_twenty_megahertz():
    assert power.noise(20e6, 9.0) == pytest.approx(-91.99, abs=0.01)


def test_rsrp_spreads_the_power():
    assert power.rsrp(-70.0, 106) == pytest.approx(-101.04, abs=0.01)


def test_no_power_is_a_finite_level():
    assert power.decibels(0.0) == -200.0


@given(levels)
def test_milliwatts_and_back(level):
    assert power.decibels(power.milliwatts(level)) == pytest.approx(level, abs=1e-9)


@given(levels, levels, levels)
def test_interference_never_helps(signal, interference, noise):
    mw = power.milliwatts
    clean, disturbed = power.sinr(mw(signal), 0.0, mw(noise)), power.sinr(mw(signal), mw(interference), mw(noise))
    assert disturbed <= clean
    assert clean == pytest.approx(max(signal - noise, -200.0), abs=1e-9)


@pytest.mark.parametrize(
    ("bandwidth", "spacing", "blocks"),
    [
        (20e6, 15e3, 106),
        (20e6, 30e3, 51),
        (40e6, 30e3, 106),
        (100e6, 30e3, 273),
        (2e6, 15e3, 10),
        (35e6, 15e3, 188),
        (45e6, 15e3, 242),
        (35e6, 30e3, 92),
        (45e6, 30e3, 119),
    ],  # TS 38.101-1 table 5.3.2-1
)
def test_resource_blocks(bandwidth, spacing, blocks):
    assert nr.resource_blocks(bandwidth, spacing) == blocks


@pytest.mark.parametrize(("bandwidth", "message"), [(1e5, "no resource block"), (2e8, "wider than the 100 MHz")])
def test_impossible_bandwidths(bandwidth, message):
    with pytest.raises(ValueError, match=message):
        nr.resource_blocks(bandwidth)


def test_tables_ascend():
    assert len(nr.CQI_EFFICIENCY) == 15
    assert len(nr.MCS_EFFICIENCY) == 29
    assert (np.diff(nr.CQI_EFFICIENCY) > 0).all()
    assert nr.MCS_EFFICIENCY[-1] == pytest.approx(5.5547, abs=1e-4)
    assert nr.MCS_EFFICIENCY[0] == pytest.approx(0.2344, abs=1e-4)


def test_mcs_is_never_faster_than_the_report_but_for_the_slowest():
    chosen = nr.mcs(np.arange(16))
    assert chosen[0] == chosen[1] == 0
    assert (nr.MCS_EFFICIENCY[chosen[2:]] <= nr.CQI_EFFICIENCY[1:] + 5e-4).all()
    assert chosen[15] == 28
    assert (np.diff(chosen[2:]) > 0).all()


def test_cqi_at_its_thresholds():
    edges = nr.thresholds(nr.CQI_EFFICIENCY)
    assert nr.cqi(edges).tolist() == list(range(1, 16))
    assert nr.cqi(edges - 1e-9).tolist() == list(range(15))


def test_block_errors_are_ten_percent_where_a_report_promises_it():
    mcs = np.arange(29)
    assert nr.bler(nr.thresholds(nr.MCS_EFFICIENCY), mcs) == pytest.approx(np.full(29, 0.1))


def test_harq_repairs_what_is_repairable():
    assert nr.residual_loss(np.array([0.0, 0.1, 1.0])).tolist() == pytest.approx([0.0, 1e-4, 1.0])


def test_peak_rate_of_a_hundred_megahertz():
    # TS 38.306 with v=4, Qm=6, R=948/1024, N=273, mu=1, OH=0.14: 1.75 Gbit/s (8 bits per symbol would give 2.34)
    assert nr.rate(np.array([28]), 273, 1.0, 0.14, 4)[0] == pytest.approx(1.7504e9, rel=2e-3)


@given(st.floats(-30, 50), st.floats(0, 20))
def test_a_better_channel_is_never_slower(sinr, more):
    def net(x):
        mcs = nr.mcs(nr.cqi(np.array([x])))
        return nr.rate(mcs, 51, 1.0, 0.14)[0] * (1 - nr.bler(np.array([x]), mcs)[0])

    assert net(sinr + more) >= 0.9 * net(sinr)
    assert 0 <= nr.bler(np.array([sinr]), np.array([5]))[0] <= 1
