"""Jammers, fading, effective SINR and the outer loop against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.physics.radio import fading, jamming, nr
from cosim.physics.radio.adaptation import adapt, ladder
from cosim.physics.radio.effective import BETA, FadedJam, borders, effective
from cosim.physics.radio.shadowing import device_keys

special = pytest.importorskip("scipy.special")
stats = pytest.importorskip("scipy.stats")


def waveform(pattern, seed=1, **keys):
    return jamming.Waveform(jamming.Timing(pattern, **keys), np.random.default_rng(seed))


def levels(wave, times, *, traffic=True):
    return np.array([wave.level(float(t), traffic=traffic) for t in times])


def faded(rows, steps, phase, factor=0.0, blocks=2, keys=None):
    """Power gains (steps, rows, blocks) of links that advance by `phase` at each step."""
    slots = np.arange(rows, dtype=np.int32)
    keys = device_keys(np.uint64(3), slots, np.zeros(rows, np.int32)) if keys is None else keys
    way, power = np.zeros(rows), np.empty((steps, rows, blocks))
    phases = np.broadcast_to(phase, (steps, rows))
    for k in range(steps):
        fresh = np.full(rows, k == 0)
        fading.fade(slots, fresh, phases[k].copy(), keys, np.full(rows, factor), fading.clarke(), way, power[k])
    return power


def kept(power, lag):
    """Correlation of the power of links with itself `lag` steps later, of the law's own mean and variance, 1."""
    return np.mean((power[lag:] - 1.0) * (power[: len(power) - lag] - 1.0))


def mapped(ratios, widths, jam=(), at=0.0, least=0.0):
    """Effective SINR in dB, with and without jammers, of one channel with the signal-to-noise `ratios` by piece."""
    pieces = len(ratios)
    spread = np.asarray([[list(part)] for part in jam], np.float64).reshape(len(jam), 1, pieces)
    level = np.full((1, len(jam)), at)
    heard = FadedJam(level, level, np.full((1, len(jam)), -1, np.int32), np.ones((1, 1)))
    grid = jamming.ChannelGrid(np.asarray([widths], np.float64), np.arange(pieces).reshape(1, -1), spread)
    out = effective(
        np.zeros(1, np.int32), np.zeros(1, np.int32), np.ones(1), np.ones((1, pieces)), heard, least, grid,
        np.asarray([ratios], np.float64), borders(0.75),
    )  # fmt: skip
    return float(out[0][0]), float(out[1][0])


def test_patterns_follow_their_formulas():
    times = np.arange(0.0, 20.0, 0.25)
    assert (levels(waveform("continuous"), times) == 0.0).all()
    sine = levels(waveform("sine", period=10.0, depth=20.0), times)
    assert sine == pytest.approx(10.0 * np.sin(2.0 * np.pi * times / 10.0) - 10.0)
    ramp = levels(waveform("ramp", period=10.0, depth=20.0), times)
    assert ramp == pytest.approx(-20.0 + 2.0 * (times % 10.0))
    square = levels(waveform("square", period=10.0, depth=6.0), times)
    assert (square == np.where(times % 10.0 < 5.0, 0.0, -6.0)).all()
    assert (levels(waveform("reactive"), times, traffic=False) == jamming.OFF).all()
    assert (levels(waveform("reactive"), times) == 0.0).all()


def test_an_intermittent_jammer_is_on_for_its_share_and_its_times_are_exponential():
    on = levels(waveform("intermittent", on=2.0, off=5.0), np.arange(0.0, 10_000.0, 0.02)) == 0.0
    assert on.mean() == pytest.approx(2.0 / 7.0, abs=0.02)
    change = np.flatnonzero(np.diff(on.astype(int))) + 1
    lengths = np.diff(change) * 0.02
    first_on = bool(on[change[0]])
    held = lengths[0::2] if first_on else lengths[1::2]
    assert stats.kstest(held, "expon", args=(0, 2.0)).statistic < 0.04


def test_a_random_jammer_takes_every_level_as_often():
    seen = levels(waveform("random", levels=3, depth=20.0, hold=1.0), np.arange(0.5, 20_000.0))
    for value in (0.0, -10.0, -20.0, jamming.OFF):
        assert (seen == value).mean() == pytest.approx(0.25, abs=0.015)


def test_the_power_of_a_jammer_is_kept_on_its_pieces():
    grid = jamming.grid([(0.0, 20.0), (15.0, 35.0)], [(5.0, 25.0), (18.0, 19.0)], [1, 2])
    assert grid.width.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert grid.spread.sum(axis=2) == pytest.approx(np.array([[0.75, 0.5], [1.0, 1.0]]))
    assert set(grid.block[1, : np.count_nonzero(grid.width[1])]) == {0, 1}


@pytest.mark.parametrize("factor", [0.0, 10.0**0.9])
@pytest.mark.parametrize("start", [0.0, 0.5])  # of a segment of the way: read at two places, and at four
def test_power_has_the_law_of_its_fading(factor, start):
    power = faded(20_000, 2, start * fading.SEGMENT, factor)[1]
    law = stats.expon() if factor == 0.0 else stats.ncx2(2, 2.0 * factor, scale=0.5 / (1.0 + factor))
    assert stats.kstest(power.ravel(), law.cdf).pvalue > 0.01
    assert power.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("step", [0.001, 0.003, 0.01, 0.03, 0.1])  # s, at 3.5 GHz and 1 m/s
def test_power_is_forgotten_as_clarke_says_at_any_lag(step):
    """J0^2 of the phase of all steps together, however long one is; the error of the estimate is 0.01."""
    phase = 2.0 * np.pi * 3.5e9 / 299_792_458.0 * step
    power = faded(20_000, 51, phase, blocks=1)
    found = [kept(power[[0, lag]], 1) for lag in range(1, 51)]
    assert found == pytest.approx(special.j0(phase * np.arange(1, 51)) ** 2, abs=0.03)


def test_a_segment_of_the_way_ends_without_a_step():
    steps = np.full((12, 1), 0.1)
    steps[1] = fading.SEGMENT - 0.5
    power = faded(20_000, 12, steps, blocks=1)[1:]
    assert np.abs(np.diff(power, axis=0)).max(axis=(1, 2)) == pytest.approx([0.9] * 10, abs=0.5)
    assert [kept(power[[0, lag]], 1) for lag in range(1, 11)] == pytest.approx(
        special.j0(0.1 * np.arange(1, 11)) ** 2, abs=0.03
    )


def test_a_link_that_changes_its_speed_is_correlated_by_the_way_between():
    phase = np.random.default_rng(1).uniform(0.0, 0.6, (12, 1)) * np.linspace(0.5, 1.0, 20_000)
    power = faded(20_000, 12, phase, blocks=1)
    between = phase[1:].sum(axis=0)
    found = np.mean((power[0, :, 0] - 1.0) * (power[11, :, 0] - 1.0))
    assert found == pytest.approx(np.mean(special.j0(between) ** 2), abs=0.03)


def test_a_link_never_repeats_itself():
    """Neither where its table ends nor segments later, which steps of 32 wavelengths reach soon."""
    power = faded(2000, 1100, 64.0 * np.pi, blocks=1)
    lags = [64, 128, 192, 256, 257, 512, 1024]
    assert [kept(power, lag) for lag in lags] == pytest.approx([0.0] * len(lags), abs=0.03)


def test_links_blocks_and_new_starts_have_draws_of_their_own():
    keys = device_keys(np.uint64(5), np.zeros(20_000, np.int32), np.zeros(1, np.int32))
    pairs = fading.pair_keys(keys, np.arange(20_000, dtype=np.int32))
    assert len(np.unique(pairs)) == 20_000
    power = faded(20_000, 1, 0.0, keys=pairs)[0]
    assert stats.kstest(power.ravel(), "expon").pvalue > 0.01
    slots, way, again = np.arange(20_000, dtype=np.int32), np.full(20_000, 2.0 * fading.SEGMENT), np.empty((20_000, 2))
    none, fresh = np.zeros(20_000), np.ones(20_000, bool)
    fading.fade(slots, fresh, none, pairs, none, fading.clarke(), way, again)
    for one, other in ((power[:, 0], power[:, 1]), (power[:-1, 0], power[1:, 0]), (power[:, 0], again[:, 0])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.03


def test_a_link_does_not_depend_on_what_else_is_computed():
    keys = device_keys(np.uint64(5), np.arange(9, dtype=np.int32), np.zeros(9, np.int32))
    assert (faded(9, 5, 0.3, keys=keys)[:, 4:] == faded(5, 5, 0.3, keys=keys[4:])).all()


def test_the_strongest_other_cells_on_the_carrier_keep_their_columns():
    carrier = np.array([0, 0, 0, 1, 0], np.int32)
    before, found = np.full((1, 2), -1, np.int32), np.empty((1, 2), np.int32)
    rows, own, floor = np.zeros(1, np.int32), np.zeros(1, np.int32), np.array([0.5])
    for power, cells in (
        ([9.0, 2.0, 3.0, 9.0, 1.0], [2, 1]),
        ([9.0, 2.0, 3.0, 9.0, 4.0], [2, 4]),  # 2 is second now, and keeps its column
        ([9.0, 2.0, 0.1, 9.0, 4.0], [1, 4]),
        ([9.0, 0.4, 0.1, 9.0, 0.6], [-1, 4]),  # the others are below the floor
    ):
        fading.strongest_others(rows, own, np.array([power]), carrier, floor, before, found)
        assert found[0].tolist() == cells


def test_what_fades_adds_what_it_is_above_its_mean():
    down, up = np.full((2, 2), 5.0), np.full((3, 2), 1.0)
    gain = np.array([[3.0, 0.0], [1.0, 2.0]])
    fading.add_faded(
        np.array([0, 1]), np.array([2, 1], np.int32), gain, np.array([2.0, 1.0]), np.array([0.5, 0.0]), down, up
    )
    assert down.tolist() == [[9.0, 3.0], [5.0, 6.0]]
    assert up.tolist() == [[1.0, 1.0], [1.0, 1.0], [2.0, 0.5]]


def test_jammers_far_below_the_floor_are_left_out_of_a_sinr():
    """At most 0.1 % of the floor: less than 0.005 dB."""
    exact, clean = mapped([10.0, 20.0], [0.5, 0.5], jam=[(0.5, 0.5)], at=1e-3)
    left, _ = mapped([10.0, 20.0], [0.5, 0.5], jam=[(0.5, 0.5)], at=1e-3, least=1e-3)
    assert left == clean
    assert 0.0 < clean - exact < 0.005


def test_effective_sinr_of_equal_pieces_is_that_of_each():
    for decibels in (-5.0, 7.0, 25.0):
        ratio = 10.0 ** (decibels / 10.0)
        assert mapped([ratio] * 3, [0.2, 0.3, 0.5])[0] == pytest.approx(decibels, abs=1e-9)


def test_effective_sinr_is_eesm():
    ratios, widths = np.array([0.5, 1.5]), np.array([0.25, 0.75])
    expected = -BETA[0] * math.log(float(np.sum(widths * np.exp(-ratios / BETA[0]))))
    assert 10.0 ** (mapped(ratios, widths)[0] / 10.0) == pytest.approx(expected, rel=1e-9)


def test_a_narrow_jammer_hurts_as_much_as_its_part_of_the_channel():
    """At any power it takes at most its pieces: the sum over the channel tends to that of what is left."""
    good = 10.0**1.5
    jammed, clean = mapped([good, good], [0.1, 0.9], jam=[(1.0, 0.0)], at=1e9)
    assert clean == pytest.approx(15.0)
    left = -BETA[2] * math.log(0.1 + 0.9 * math.exp(-good / BETA[2]))
    assert 10.0 ** (jammed / 10.0) == pytest.approx(left, rel=1e-6)
    weak, _ = mapped([good, good], [0.1, 0.9], jam=[(1.0, 0.0)], at=1e-12)
    assert weak == pytest.approx(15.0, abs=1e-6)


def test_the_outer_loop_holds_its_target_whatever_the_report_is_off_by():
    need, steps = nr.thresholds(nr.MCS_EFFICIENCY, 0.75), ladder(0.75)
    sinr = np.linspace(0.0, 18.0, 40)
    for bias in (-3.0, 0.0, 4.0):
        offset = np.zeros(40)
        mcs = np.zeros(40, np.int64)
        seen = []
        for k in range(400):
            bler, _, _ = adapt(sinr + bias, sinr, offset, steps, need, 1.5, 16, mcs)
            seen += [bler] if k >= 100 else []
        assert np.mean(seen, axis=0) == pytest.approx(np.full(40, 0.1), abs=0.005)


def test_combining_loses_what_the_product_of_its_attempts_says():
    need, steps = nr.thresholds(nr.MCS_EFFICIENCY, 0.75), ladder(0.75)
    sinr = np.array([4.0])
    mcs = np.zeros(1, np.int64)
    bler, lost, sent = adapt(np.array([6.5]), sinr, np.zeros(1), steps, need, 1.5, 0, mcs)
    errors = [float(nr.bler(sinr + 10.0 * math.log10(m), mcs)[0]) for m in (1, 2, 3, 4)]
    assert bler[0] == pytest.approx(errors[0])
    assert lost[0] == pytest.approx(math.prod(errors))
    assert sent[0] == pytest.approx(1.0 + errors[0] + errors[0] * errors[1] + math.prod(errors[:3]))
