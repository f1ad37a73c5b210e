"""Laws for devices in the air against values worked out by hand, and what the compiled loop makes of them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from cosim.physics.radio import aerial, pathloss, sector
from cosim.physics.radio.cells import PairRows, Receivers, Transmitters

LAWS = (aerial.RMA_AV, aerial.UMA_AV, aerial.UMI_AV)


@pytest.mark.parametrize(
    ("law", "height", "seen", "expected"),
    [
        # 2 GHz, cells as high as the device, so the ground distance of 1 km is the distance; log10 is 3
        (aerial.UMA_AV, 100.0, True, 28.0 + 66.0 + 6.0206),
        (aerial.UMA_AV, 100.0, False, -17.5 + 32.0 * 3.0 + 38.4624),
        (aerial.RMA_AV, 100.0, True, 20.3 * 3.0 + 38.4624),
        (aerial.RMA_AV, 40.0, False, -12.0 + (35.0 - 5.3 * 1.60206) * 3.0 + 38.4624),
        (aerial.UMI_AV, 100.0, True, 30.9 + 21.25 * 3.0 + 6.0206),
        (aerial.UMI_AV, 100.0, False, 32.4 + 28.0 * 3.0 + 6.0206),
    ],
)
def test_path_loss_in_the_air_by_hand(law, height, seen, expected):
    loss = aerial.los_loss if seen else aerial.nlos_loss
    assert loss(law, 1000.0, height, height, 2e9) == pytest.approx(expected, abs=1e-3)


def test_path_loss_on_the_ground_by_hand():
    # UMa at 3.5 GHz, 25 m mast, 500 m: log10(500.55) = 2.69945; 28 + 22 l + 20 log10 3.5, 13.54 + 39.08 l + the same
    assert aerial.los_loss(aerial.UMA_AV, 500.0, 25.0, 1.5, 3.5e9) == pytest.approx(98.269, abs=1e-2)
    assert aerial.nlos_loss(aerial.UMA_AV, 500.0, 25.0, 1.5, 3.5e9) == pytest.approx(129.916, abs=1e-2)
    # RMa: the second slope is 40 dB per decade
    losses = [aerial.los_loss(aerial.RMA_AV, d, 35.0, 1.5, 2e9) for d in (5e3, 5e4)]
    assert losses[1] - losses[0] == pytest.approx(40.0, abs=0.01)
    assert aerial.nlos_loss(aerial.UMI_AV, 100.0, 10.0, 1.5, 3.5e9) == pathloss.umi_nlos(100.0, 10.0, 1.5, 3.5e9)


@pytest.mark.parametrize("ground", [50.0, 2200.0, 2201.0, 5000.0])  # the breakpoint is 2200.6 m on the ground
def test_the_breakpoint_of_rural_macro_is_a_ground_distance(ground):
    """TR 38.901 table 7.4.1-1 at 2 GHz, mast 35 m, buildings 5 m: PL1, and PL1(d_BP) + 40 log10(d_3D / d_BP)."""

    def first(d):
        roofs = 5.0**1.72
        loss = 20.0 * math.log10(40.0 * math.pi * d * 2.0 / 3.0) + min(0.03 * roofs, 10.0) * math.log10(d)
        return loss - min(0.044 * roofs, 14.77) + 0.002 * math.log10(5.0) * d

    end, distance = 2.0 * math.pi * 35.0 * 1.5 * 2e9 / pathloss.LIGHT, math.hypot(ground, 33.5)
    expected = first(distance) if ground <= end else first(end) + 40.0 * math.log10(distance / end)
    assert aerial.los_loss(aerial.RMA_AV, ground, 35.0, 1.5, 2e9) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_chance_of_sight_grows_with_height_and_falls_with_distance(law):
    heights = np.linspace(25.0, 300.0, 30)
    far = [aerial.los_probability(law, 800.0, h) for h in heights]
    assert all(a <= b for a, b in pairwise(far))
    away = [aerial.los_probability(law, d, 30.0) for d in np.linspace(0.0, 5000.0, 50)]
    assert away[0] == 1.0
    assert all(a >= b for a, b in pairwise(away))
    assert far[-1] == 1.0 or law == aerial.UMI_AV


def test_chance_of_sight_by_hand():
    # UMa-AV, 50 m: d1 = 460 log10 50 - 700 = 81.53, p1 = 4300 log10 50 - 3800 = 3505.57
    assert aerial.los_probability(aerial.UMA_AV, 1000.0, 50.0) == pytest.approx(
        0.08153 + math.exp(-1000.0 / 3505.57) * (1 - 0.08153), abs=1e-4
    )
    assert aerial.los_probability(aerial.RMA_AV, 1e4, 41.0) == aerial.los_probability(aerial.UMA_AV, 1e4, 101.0) == 1.0


@pytest.mark.slow
def test_devices_get_sight_and_shadowing_as_often_as_the_tables_say():
    n, height, ground = 4000, 60.0, 1500.0
    rows = np.arange(n, dtype=np.int32)
    position = np.tile([ground, 0.0, height], (n, 1))
    sight, shadow, power = np.full((n, 1), np.nan), np.full((n, 1), np.nan), np.zeros((n, 1))
    key = np.arange(n, dtype=np.uint64) * np.uint64(7919)
    cells, frequency, law = np.array([[0.0, 0.0, 25.0]]), np.array([2e9]), aerial.UMA_AV
    at = Receivers(rows, position, np.zeros(n), np.full(n, np.inf), key, np.zeros(n, np.uint64))
    pairs = PairRows(shadow, sight, power)
    aerial.receive(at, Transmitters(cells, np.zeros(1), frequency), law, 1e5, pairs, False)
    seen = aerial.in_sight(rows, np.zeros(n, np.int32), sight, np.full(n, ground), np.full(n, height), law)
    chance = aerial.los_probability(law, ground, height)
    assert seen.mean() == pytest.approx(chance, abs=4.0 * math.sqrt(chance * (1.0 - chance) / n))
    loss = -10.0 * np.log10(power[:, 0])
    for state, law_of in ((True, aerial.los_loss), (False, aerial.nlos_loss)):
        sigma = aerial.shadowing(law, ground, 25.0, height, 2e9, state)
        found = loss[seen == state]
        assert found.mean() == pytest.approx(
            law_of(law, ground, 25.0, height, 2e9), abs=4.0 * sigma / math.sqrt(len(found))
        )
        assert found.std() == pytest.approx(sigma, rel=0.1)


def test_a_sector_loses_three_decibels_at_half_its_width():
    about = {"azimuth": 90.0, "width": 65.0, "tilt": 10.0, "high": 10.0, "side": 20.0, "most": 25.0}
    bore = math.radians(-10.0)
    assert sector.attenuation(math.cos(bore), 0.0, math.sin(bore), **about) == pytest.approx(0.0, abs=1e-9)
    side = math.radians(90.0 + 32.5)
    at_edge = sector.attenuation(
        math.cos(bore) * math.sin(side), math.cos(bore) * math.cos(side), math.sin(bore), **about
    )
    assert at_edge == pytest.approx(3.0, abs=1e-6)
    above = math.radians(-5.0)
    assert sector.attenuation(math.cos(above), 0.0, math.sin(above), **about) == pytest.approx(3.0, abs=1e-6)
    assert sector.attenuation(-1.0, 0.0, 0.0, **about) == 25.0
    assert sector.attenuation(1.0, 0.0, 1e6, **about) == pytest.approx(20.0)
    assert sector.attenuation(-1.0, 0.0, 0.0, **{**about, "width": math.inf}) == pytest.approx(12.0)  # the tilt alone
