"""Gusts by the Dryden model of MIL-F-8785C for low heights, seeded, one series per vehicle.

Scale lengths and strengths (section 3.7.3.4) depend on the height above ground, 3 to 305 m, and on the wind at 6 m:
sigma_w = 0.1 W20, sigma_u = sigma_v = sigma_w / (0.177 + 0.000823 h)^0.4, L_w = h, L_u = L_v =
h / (0.177 + 0.000823 h)^1.2 with h in feet. The spectra are those of a filter of first order along the wind and of
second order across it, driven by white noise; each step is exact, so that the spectrum does not depend on it.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.contract.records import Floats

_FOOT = 0.3048  # m
_LEAST = 1.0  # m/s against the air: slower vehicles meet gusts that the wind carries past


class Gusts:
    """Gusts of n vehicles in m/s: along the mean wind, to the left of it, up."""

    def __init__(self, count: int, strength: float, seed: int | np.random.SeedSequence) -> None:
        """`strength`: m/s of the wind at 6 m above ground that they belong to."""
        if not strength >= 0.0:
            raise ValueError(f"gusts belong to a wind of 0 m/s or more at 6 m; this is {strength}")
        self._random = np.random.default_rng(seed)
        self._strength = strength
        self._along = self._random.standard_normal(count)
        # position and rate of both filters of second order, scaled to their stationary spread
        self._across = self._random.standard_normal((2, 2, count))

    def step(self, height: Floats, speed: Floats, dt: float) -> Floats:
        """(n, 3) m/s after `dt` s. `height` (n,) m above ground, `speed` (n,) m/s against the air."""
        feet = np.clip(height, 3.0, 305.0) / _FOOT
        shape = 0.177 + 0.000823 * feet
        vertical = 0.1 * self._strength
        level = vertical / shape**0.4
        fast = np.maximum(speed, _LEAST)
        long, short = feet / shape**1.2 * _FOOT, feet * _FOOT
        keep = np.exp(-fast * dt / long)
        self._along = keep * self._along + np.sqrt(1.0 - keep**2) * self._random.standard_normal(len(height))
        across = self._second(0, fast / long, dt)
        up = self._second(1, fast / short, dt)
        return np.stack([level * self._along, level * across, vertical * up], axis=1)

    def _second(self, which: int, rate: Floats, dt: float) -> Floats:
        """The filter (1 + sqrt(3) s / a) / (1 + s / a)^2 of unit spread; its states are kept in units of their own."""
        place, pace = self._across[which]
        t = rate * dt
        decay = np.exp(-t)
        new = decay * ((1.0 + t) * place + t * pace)
        rest = decay * ((1.0 - t) * pace - t * place)
        # covariance of what the noise adds: the identity less its image under the step
        a, b = decay * (1.0 + t), decay * t
        c, d = -decay * t, decay * (1.0 - t)
        xx, xy, yy = 1.0 - a * a - b * b, -(a * c + b * d), 1.0 - c * c - d * d
        one, two = self._random.standard_normal((2, len(rate)))
        root = np.sqrt(np.maximum(xx, 1e-300))
        new += root * one
        rest += xy / root * one + np.sqrt(np.maximum(yy - xy * xy / (root * root), 0.0)) * two
        self._across[which] = new, rest
        found: Floats = 0.5 * (new + math.sqrt(3.0) * rest)
        return found


def turned(gusts: Floats, wind: Floats) -> Floats:
    """(n, 3) m/s east, north, up of gusts along, to the left of and above the mean `wind` (n, 3) m/s."""
    flat = np.hypot(wind[:, 0], wind[:, 1])
    calm = flat < 1e-9
    east = np.where(calm, 1.0, wind[:, 0] / np.where(calm, 1.0, flat))
    north = np.where(calm, 0.0, wind[:, 1] / np.where(calm, 1.0, flat))
    return np.stack(
        [gusts[:, 0] * east - gusts[:, 1] * north, gusts[:, 0] * north + gusts[:, 1] * east, gusts[:, 2]], axis=1
    )
