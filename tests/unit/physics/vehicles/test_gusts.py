"""Gusts against the spectra and strengths of MIL-F-8785C."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.physics.vehicles.gusts import Gusts, turned

COUNT = 4000


def series(dt, steps, height=30.0, speed=10.0, strength=8.0):
    gusts = Gusts(COUNT, strength, 7)
    at, fast = np.full(COUNT, height), np.full(COUNT, speed)
    return np.array([gusts.step(at, fast, dt) for _ in range(steps)])  # (steps, n, 3)


@pytest.mark.parametrize("dt", [0.05, 0.5])
def test_strength_and_decay_are_those_of_the_standard_at_any_step(dt):
    seen = series(dt, 41)
    feet = 30.0 / 0.3048
    shape = 0.177 + 0.000823 * feet
    strength = np.array([0.8 / shape**0.4, 0.8 / shape**0.4, 0.8])
    assert seen[-1].std(axis=0) == pytest.approx(strength, rel=0.05)
    assert seen[-1].mean(axis=0) == pytest.approx([0.0, 0.0, 0.0], abs=0.06)
    # autocorrelations: e^-x along the wind, e^-x (1 - x / 2) across it
    long, short, lag = feet / shape**1.2 * 0.3048, 30.0, 40 * dt
    a, b = seen[0], seen[-1]
    found = (a * b).mean(axis=0) / strength**2
    x = 10.0 * lag / np.array([long, long, short])
    expected = np.exp(-x) * np.array([1.0, 1.0 - x[1] / 2.0, 1.0 - x[2] / 2.0])
    assert found == pytest.approx(expected, abs=0.06)


def test_the_same_seed_gives_the_same_gusts():
    assert (series(0.1, 3) == series(0.1, 3)).all()


def test_they_turn_with_the_wind():
    gusts = np.array([[1.0, 2.0, 3.0]])
    assert turned(gusts, np.array([[0.0, 5.0, 0.0]]))[0] == pytest.approx([-2.0, 1.0, 3.0])
    assert turned(gusts, np.zeros((1, 3)))[0] == pytest.approx([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="gusts belong"):
        Gusts(1, -1.0, 0)
