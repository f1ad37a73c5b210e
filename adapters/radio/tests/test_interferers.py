"""The fading of other cells and of jammers, against closed forms, through the adapter."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.adapters.radio.tests.test_jammers import frames, jammer
from cosim.adapters.radio.tests.test_radio_adapter import phone, scene, started, station, traffic

special = pytest.importorskip("scipy.special")
stats = pytest.importorskip("scipy.stats")

PEOPLE = 900
FLAT = {
    "fading": "rayleigh",
    "delay_spread": "1 ns",
    "shadowing": "0 dB",
    "log": True,
    "background": "50 %",
}  # one block


def crowd(*others, **config):
    """Many phones at one place; what differs between them is their fading."""
    return started(scene(station("bs", 0.0), *(phone(f"p{k}", 90.0) for k in range(PEOPLE)), *others), **config)


def of_cells(seen):
    """Power (n,) of other cells over noise at each phone, from what is logged: signal over noise, and over both."""
    ratio = 10.0 ** ((seen["impairment"]["snr_down"] - seen["ue"]["sinr"]) / 10.0)
    return ratio - 1.0


def of_jammers(seen):
    return 10.0 ** (seen["jamming"]["jn_down"] / 10.0)


CASES = {"cell": (lambda: station("other", 250.0), of_cells), "jammer": (lambda: jammer("j", 250.0), of_jammers)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["rayleigh", "rician"])
@pytest.mark.parametrize("surroundings", ["1 m/s", "0.01 m/s"])  # without and with a memory from step to step
def test_what_disturbs_has_the_law_of_its_fading(case, kind, surroundings):
    make, power_of = CASES[case]
    config = {**FLAT, "fading": kind, "surroundings": surroundings}
    steady = power_of(frames(crowd(make(), **{**config, "fading": "none"})))
    gains = power_of(frames(crowd(make(), **config))) / steady
    factor = 10.0**0.9
    law = stats.expon() if kind == "rayleigh" else stats.ncx2(2, 2.0 * factor, scale=0.5 / (1.0 + factor))
    assert stats.kstest(gains, law.cdf).pvalue > 0.01


@pytest.mark.parametrize("case", CASES)
def test_what_disturbs_is_forgotten_as_jakes_says(case):
    """Power of Rayleigh fading is correlated by the square of J0."""
    make, power_of = CASES[case]
    adapter = crowd(make(), **FLAT, surroundings="0.01 m/s")
    seen = np.array([power_of(frames(adapter, float(time))) for time in range(30)])
    phase = 2.0 * np.pi * 3.5e9 / 299_792_458.0 * 0.01
    for lag in (1, 2, 5):
        found = np.mean([np.corrcoef(seen[k], seen[k + lag])[0, 1] for k in range(len(seen) - lag)])
        assert found == pytest.approx(special.j0(lag * phase) ** 2, abs=0.04)


@pytest.mark.parametrize("case", CASES)
def test_the_uplink_of_a_mast_fades_as_well(case):
    """A jammer at a base station; what phones of another cell send there."""
    config = {**FLAT, "background": "0 %"}
    if case == "jammer":
        adapter = started(scene(station("bs", 0.0), phone("p", 90.0), jammer("j", 250.0)), **config)
        seen = [frames(adapter, float(time))["jamming"]["jn_up"][0] for time in range(400)]
        level = 10.0 ** (np.array(seen) / 10.0)
        assert stats.kstest(level / level.mean(), "expon").pvalue > 0.01
        return
    adapter = started(scene(station("a", 0.0), station("b", 500.0), phone("p", 20.0), phone("q", 450.0)), **config)
    seen = []
    for time in range(400):
        carried = [traffic(float(time), [2, 3], 1, 0, sent=1e9 * time)]
        seen.append(frames(adapter, float(time), traffic=carried)["impairment"]["interference_up"][0])
    level = 10.0 ** (np.array(seen[2:]) / 10.0) - 1.0
    assert stats.kstest(level / level.mean(), "expon").pvalue > 0.01


def test_who_jams_changes_no_fading_of_cells():
    with_jam = crowd(station("other", 250.0), jammer("j", 400.0), **FLAT)
    without = crowd(station("other", 250.0), **FLAT)
    for time in range(3):
        one, other = frames(with_jam, float(time)), frames(without, float(time))
        assert (one["impairment"]["interference_down"] == other["impairment"]["interference_down"]).all()
        lost = other["ue"]["sinr"] - one["ue"]["sinr"]
        assert one["jamming"]["loss_down"] == pytest.approx(lost)


def test_what_is_weak_does_not_fade():
    """Ten times below the noise: its mean counts."""
    far = crowd(jammer("j", 1200.0, power="0 dBm"), **FLAT)
    plain = crowd(jammer("j", 1200.0, power="0 dBm"), **{**FLAT, "fading": "none"})
    assert of_jammers(frames(far)) == pytest.approx(of_jammers(frames(plain)))


def test_the_blocks_of_a_channel_are_disturbed_by_themselves():
    """20 MHz at 100 ns have ten blocks: the variance of their mean is a tenth of that of one."""
    for spread, variance in (("1 ns", 1.0), ("100 ns", 0.1)):
        seen = frames(crowd(station("other", 250.0), **{**FLAT, "delay_spread": spread}))
        level = 10.0 ** (seen["impairment"]["interference_down"] / 10.0) - 1.0
        assert np.var(level / level.mean()) == pytest.approx(variance, rel=0.25)
