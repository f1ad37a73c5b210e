"""Wi-Fi links: the calibration, closed forms, and the compiled search against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.physics.radio import wifi
from cosim.physics.radio.pathloss import LIGHT
from cosim.physics.radio.wifi_pairs import Antennas, Finder

F = 5.18e9
# m -> Mbit/s of UDP that ns-3.44 received of 60 offered: see the text of cosim.physics.radio.wifi
NS3 = {5: 59.4, 50: 58.7, 75: 34.5, 100: 21.7, 150: 16.6, 180: 11.5, 210: 11.5, 220: 5.8, 240: 5.8}


@pytest.mark.parametrize("distance", NS3)
def test_goodput_is_that_of_ns3(distance):
    got = wifi.curve().at(wifi.snr(distance, F)).goodput
    assert got / 1e6 == pytest.approx(NS3[distance], rel=0.15)


def test_links_end_where_they_do_in_ns3():
    curve = wifi.curve()
    assert curve.at(wifi.snr(255.0, F)).goodput > 0.0
    assert curve.at(wifi.snr(264.0, F)).goodput == 0.0
    assert curve.at(wifi.snr(264.0, F)).loss == 1.0
    assert wifi.reach(curve, F, 2.7, 20.0 + 94.0) == pytest.approx(261.4, abs=0.5)


def test_signal_to_noise_by_hand():
    free = 20 * math.log10(4 * math.pi * F / LIGHT)
    assert wifi.snr(100.0, F, 2.7, 20.0, -94.0) == pytest.approx(20.0 - free - 54.0 + 94.0)


def test_goodput_of_a_clean_link_is_payload_over_airtime():
    count = 30  # packets of 1472 B in 5.484 ms at 65 Mbit/s
    spent = 34e-6 + 67.5e-6 + 36e-6 + count * 1472 * 8 / 65e6 + 16e-6 + 68e-6
    assert wifi.curve().at(60.0).goodput == pytest.approx(count * 1400 * 8 / spent, rel=1e-6)


def test_a_rate_begins_with_one_percent_of_errors():
    point = wifi.curve().at(wifi.THRESHOLD)
    full = wifi.curve().at([3.0, 6.0, 9.0, 12.0, 16.0, 19.2, 20.7, 40.0]).goodput
    assert point.goodput / full == pytest.approx(0.99, abs=0.012)
    assert point.loss == pytest.approx(wifi.ERROR ** (wifi.RETRIES + 1), abs=1e-15)


def test_rayleigh_fading_has_the_closed_form():
    """Power is exponential: an attempt succeeds with exp(-threshold / mean), and the lowest rate is used far out."""
    snr = -3.0
    success = 0.99 * math.exp(-(10.0 ** ((wifi.THRESHOLD[0] - snr) / 10.0)))
    point = wifi.curve(fading=1.0).at(snr)
    assert point.loss == pytest.approx((1.0 - success) ** 8, rel=1e-3)
    clean = wifi.curve().at(3.0).goodput
    assert point.goodput == pytest.approx(success * clean, rel=2e-3)


def test_much_fading_shape_is_no_fading():
    mild, none = wifi.curve(fading=100.0), wifi.curve()
    assert mild.at(60.0).goodput == pytest.approx(0.99 * none.at(60.0).goodput, rel=1e-3)


def test_survival_of_the_gamma_law_for_whole_shapes():
    x = np.array([0.0, 0.5, 2.0, 9.0, 30.0])
    erlang = np.exp(-x) * (1 + x + x * x / 2)
    assert wifi._survival(3.0, x) == pytest.approx(erlang, abs=1e-12)


def test_forty_megahertz_is_wider():
    wide, narrow = wifi.curve(40e6).at(50.0).goodput, wifi.curve().at(50.0).goodput
    assert 1.8 * narrow < wide < 2.1 * narrow
    with pytest.raises(ValueError, match="20 MHz, 40 MHz"):
        wifi.curve(80e6)


@given(st.floats(-30.0, 90.0), st.sampled_from([0.0, 1.0, 1.5, 3.0]))
def test_links_are_sound(snr, fading):
    got = wifi.curve(fading=fading).at(snr)
    assert 0.0 <= got.loss <= 1.0
    assert got.goodput >= 0.0
    assert (got.goodput == 0.0) == (got.delay == 0.0)
    assert got.goodput <= 65e6
    better = wifi.curve(fading=fading).at(snr + 1.5)  # no rate is so much worse than the next slower one
    assert better.goodput >= 0.99 * got.goodput


def antennas(n, networks=1, **changes):
    curve = wifi.curve()
    made = {
        "network": np.arange(n) % networks, "emitted": np.full(n, 20.0), "gain": np.zeros(n),
        "floor": np.full(n, -94.0), "reference": np.full(n, 20 * math.log10(4 * math.pi * F / LIGHT)),
        "exponent": 2.7, "reach": np.full(n, 300.0), "curve": np.zeros(n, np.int64),
        "curves": curve.table()[None], "least": np.array([curve.least]),
    }  # fmt: skip
    return Antennas(**{**made, **changes})


def plain(place, there, a):
    """The same in plain Python."""
    found = {}
    for i in range(len(place)):
        for j in range(len(place)):
            if i == j or a.network[i] != a.network[j] or not (there[i] and there[j]):
                continue
            d = math.dist(place[i], place[j])
            rssi = a.emitted[i] + a.gain[j] - a.reference[i] - 10 * a.exponent * math.log10(max(d, 1.0))
            point = wifi.curve().at(rssi - a.floor[j])
            if d <= a.reach[i] and point.goodput > 0.0:
                found[i, j] = (point.goodput, point.delay + d / LIGHT, point.jitter, point.loss, rssi)
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12), st.integers(1, 3))
def test_search_is_that_of_plain_python(seed, n, networks):
    rng = np.random.default_rng(seed)
    place, there = rng.uniform(0.0, 400.0, (n, 3)), rng.random(n) < 0.8
    a = antennas(n, networks, emitted=rng.uniform(10.0, 23.0, n), floor=rng.uniform(-96.0, -90.0, n))
    pairs = Finder().find(place, there, a)
    wanted = plain(place, there, a)
    got = list(zip(pairs.sender.tolist(), pairs.receiver.tolist(), strict=True))
    assert got == sorted(wanted)
    for k, pair in enumerate(got):
        # the logarithm is good to 2e-14, so a level on the border of two steps of the table may take either
        assert pairs.rssi[k] == pytest.approx(wanted[pair][4])
        assert pairs.rate[k] == pytest.approx(wanted[pair][0], rel=0.02)


def test_what_was_found_last_time_stays_as_it_was():
    finder, a, there = Finder(), antennas(3), np.ones(3, bool)
    first = finder.find(np.array([[0.0, 0, 0], [10, 0, 0], [20, 0, 0]]), there, a)
    kept = first.rssi.copy()
    second = finder.find(np.array([[0.0, 0, 0], [90, 0, 0], [20, 0, 0]]), there, a)
    assert np.array_equal(first.rssi, kept)
    assert not np.array_equal(second.rssi, kept)
