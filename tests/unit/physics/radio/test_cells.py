"""The compiled part: equal to the formulas, independent of order, calm at the border."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.physics.radio import cells, pathloss, shadowing

STATIONS = np.array([[0.0, 0.0, 10.0], [500.0, 0.0, 10.0], [0.0, 700.0, 20.0]])
M = len(STATIONS)


def keys(n):
    return shadowing.device_keys(np.uint64(3), np.arange(n, dtype=np.int32), np.zeros(n, np.int32))


def receive(position, state, *, rows=None, moved=np.inf, draw=1, law=cells.CLOSE_IN, sigma=8.0, reach=1e6, key=None):
    n = len(position)
    rows = np.arange(n, dtype=np.int32) if rows is None else rows
    at = cells.Receivers(
        rows, position, np.zeros(n), np.full(n, moved), keys(n) if key is None else key, np.full(n, draw, np.uint64)
    )
    of = cells.Transmitters(STATIONS, np.full(M, 40.0), np.full(M, 3.5e9))
    cells.receive(at, of, law, cells.CloseIn(3.0, sigma, 20.0), reach, cells.PairRows(*state))


def blank(n):
    return np.full((n, M), np.nan), np.full((n, M), np.nan), np.zeros((n, M))


def positions(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(-800, 800, (n, 2)), np.full(n, 1.5)])


def test_close_in_equals_the_formula():
    place, state = positions(50), blank(50)
    receive(place, state, sigma=0.0)
    distance = np.linalg.norm(place[:, None] - STATIONS[None], axis=2)
    expected = 40.0 - pathloss.close_in(distance, 3.5e9, 3.0)
    np.testing.assert_allclose(10 * np.log10(state[2]), expected, atol=1e-9)


def test_umi_equals_the_formulas_with_the_state_and_the_shadowing_that_were_drawn():
    norm = pytest.importorskip("scipy.stats").norm
    place, state = positions(400), blank(400)
    receive(place, state, law=cells.UMI)
    shadow, sight, power = state
    ground = np.linalg.norm(place[:, None, :2] - STATIONS[None, :, :2], axis=2)
    height = STATIONS[None, :, 2]
    los = norm.cdf(sight) < pathloss.umi_los_probability(ground)
    assert 0.02 < los.mean() < 0.5
    loss = np.where(
        los,
        pathloss.umi_los(ground, height, 1.5, 3.5e9) + 4.0 * shadow,
        pathloss.umi_nlos(ground, height, 1.5, 3.5e9) + 7.82 * shadow,
    )
    np.testing.assert_allclose(10 * np.log10(power), 40.0 - loss, atol=1e-9)


def test_shadowing_has_the_configured_spread():
    place, state = np.tile([300.0, 200.0, 1.5], (5000, 1)), blank(5000)
    receive(place, state, sigma=8.0)
    level = 10 * np.log10(state[2])
    assert level.std(axis=0) == pytest.approx(np.full(M, 8.0), rel=0.05)
    assert np.abs(np.corrcoef(level.T) - np.eye(M)).max() < 0.06


def test_rows_may_come_in_any_order_and_company():
    place, whole, parts = positions(40), blank(40), blank(40)
    receive(place, whole)
    receive(place, whole, moved=3.0, draw=2)
    order = np.random.default_rng(1).permutation(40).astype(np.int32)
    for chunk in (order[:13], order[13:]):
        receive(place[chunk], parts, rows=chunk, key=keys(40)[chunk])
        receive(place[chunk], parts, rows=chunk, key=keys(40)[chunk], moved=3.0, draw=2)
    assert whole[2].tobytes() == parts[2].tobytes()


def test_who_stands_keeps_its_power_and_who_only_sees_cells_move_keeps_its_shadowing():
    place, state = positions(5), blank(5)
    receive(place, state)
    shadow, power = state[0].copy(), state[2].copy()
    receive(place, state, moved=0.0, draw=2)
    assert (state[2] == power).all()
    receive(place, state, moved=-1.0, draw=3)
    assert (state[0] == shadow).all()


def test_beyond_reach_there_is_no_power():
    state = blank(1)
    receive(np.array([[0.0, 0.0, 1.5]]), state, reach=600.0)
    assert (state[2][0] > 0).tolist() == [True, True, False]


class Roamer:
    """One device whose received powers in dBm are given directly."""

    def __init__(self):
        self.state = [np.full(1, -1, np.int32) for _ in range(3)]
        self.since, self.handovers = np.zeros(1), np.zeros(1, np.int32)
        self.strongest = np.full(1, -1, np.int32)

    def see(self, time, *levels, margin=3.0, patience=0.0, least=-120.0):
        power = 10 ** (np.array([levels]) / 10)
        usable = np.broadcast_to(10 ** (np.asarray(least) / 10), len(levels)).copy()
        cells.associate(
            np.zeros(1, np.int32), power, usable, time, 10 ** (margin / 10), patience,
            cells.Serving(*self.state, self.since, self.handovers, self.strongest),
        )  # fmt: skip
        return int(self.state[0][0])


def test_the_strongest_cell_is_taken_first():
    assert Roamer().see(0.0, -90, -80, -100) == 1


def test_hysteresis_prevents_ping_pong():
    calm, nervous = Roamer(), Roamer()
    for k in range(20):
        levels = (-80.0, -81.0) if k % 2 else (-81.0, -80.0)
        calm.see(float(k), *levels)
        nervous.see(float(k), *levels, margin=0.0)
    assert calm.handovers[0] == 0
    assert nervous.handovers[0] == 19


def test_a_handover_waits_for_its_trigger():
    device = Roamer()
    assert device.see(0.0, -80, -90, patience=0.2) == 0
    assert device.see(0.1, -90, -80, patience=0.2) == 0
    assert device.see(0.2, -90, -80, patience=0.2) == 0
    assert device.see(0.3, -90, -80, patience=0.2) == 1
    assert device.handovers[0] == 1


def test_a_trigger_starts_again_when_it_was_interrupted():
    device = Roamer()
    device.see(0.0, -80, -90, patience=0.2)
    device.see(0.1, -90, -80, patience=0.2)
    device.see(0.2, -80, -90, patience=0.2)
    assert device.see(0.3, -90, -80, patience=0.2) == 0
    assert device.see(0.5, -90, -80, patience=0.2) == 1


def test_a_lost_cell_is_left_at_once():
    device = Roamer()
    device.see(0.0, -80, -85, patience=9.0)
    assert device.see(0.1, -80, -85, patience=9.0, least=[np.inf, -120]) == 1
    assert device.handovers[0] == 1


def test_an_outage_is_no_handover_but_what_follows_it_may_be_one():
    device = Roamer()
    device.see(0.0, -80, -100)
    assert device.see(1.0, -130, -135) == -1
    assert device.strongest[0] == 0
    assert device.see(2.0, -80, -100) == 0
    assert device.handovers[0] == 0
    device.see(3.0, -130, -130)
    assert device.see(4.0, -100, -80) == 1
    assert device.handovers[0] == 1


def test_interference_counts_other_cells_on_the_carrier_by_their_load():
    power = np.array([[1.0, 2.0, 4.0, 8.0]])
    carrier, load = np.array([0, 0, 1, 0], np.int32), np.array([1.0, 0.5, 1.0, 0.25])
    row = np.zeros(1, np.int32)
    assert cells.downlink_interference(row, row, power, carrier, load).tolist() == [2.0 * 0.5 + 8.0 * 0.25]
    assert cells.downlink_interference(row, row - 1, power, carrier, load).tolist() == [0.0]


def test_uplink_interference_comes_from_the_other_cells_devices():
    power = np.array([[1.0, 2.0, 4.0], [8.0, 1.0, 2.0], [5.0, 5.0, 5.0]])
    rows, cell = np.arange(3, dtype=np.int32), np.array([0, 1, -1], np.int32)
    total = cells.uplink_interference(
        rows, cell, power, np.zeros(3, np.int32), np.full(3, 20.0), np.full(3, 30.0), np.array([0.5, 1.0, 1.0])
    )
    assert total.tolist() == pytest.approx([0.8, 0.1, 0.2 + 0.2])


def test_a_network_expects_the_interference_of_what_devices_report():
    """Closed form but for the errors of reports: 2 dB, and 0.5 dB of the steps."""
    n, rng = 4000, np.random.default_rng(1)
    rows, cell = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    power = 10.0 ** rng.uniform(-11.0, -6.0, (n, 4))
    carrier, load = np.array([0, 0, 1, 0], np.int32), np.array([0.5, 0.3, 1.0, 0.0])
    sent, transmit = np.full(n, 23.0), np.full(4, 30.0)
    airtime = np.zeros(n)
    airtime[7] = 0.25
    key = rng.integers(0, 2**63, n).astype(np.uint64)
    down, up = np.zeros(n), np.zeros(4)
    sending = cells.Sending(carrier, load, transmit)
    cells.expected_interference(rows, cell, power, sending, sent, airtime, key, down, up)
    error = 10.0 * np.log10(down / cells.downlink_interference(rows, cell, power, carrier, load))
    assert np.abs(error).max() <= 2.5
    assert error.std() == pytest.approx(math.sqrt(4.0**2 / 12.0 + 1.0 / 12.0), rel=0.05)
    exact = cells.uplink_interference(rows, cell, power, carrier, sent, transmit, airtime)
    assert up[0] == up[2] == exact[0] == exact[2] == 0.0
    assert np.abs(10.0 * np.log10(up[[1, 3]] / exact[[1, 3]])).max() <= 2.5
    again = np.zeros(n)
    cells.expected_interference(rows, cell, power, sending, sent, airtime, key, again, up)
    assert (again == down).all()
