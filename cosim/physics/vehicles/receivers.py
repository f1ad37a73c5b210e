"""Where vehicles think that they are: a slow error of satellite positions, one series per vehicle.

A process of Gauss and Markov of first order in each axis: e' = e exp(-dt / T) + s sqrt(1 - exp(-2 dt / T)) N(0, 1)
with deviation s and correlation time T, the usual model of what a receiver's filter leaves (Brown and Hwang,
Introduction to Random Signals and Applied Kalman Filtering, section on GPS errors). Steps are exact: their length
does not change the statistics.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.contract.records import Floats


class PositionErrors:
    """Errors of n vehicles, `now` (n, 3) m east, north, up: where they think that they are less where they are."""

    def __init__(
        self, count: int, level: float, height: float, correlation: float, seed: int | np.random.SeedSequence
    ) -> None:
        """`level`, `height`: deviation in m of east and north each, and of the height; `correlation`: s."""
        if not (level >= 0.0 and height >= 0.0 and correlation > 0.0):
            raise ValueError("deviations of positions are 0 m or more, and their correlation time is above 0 s")
        self._random = np.random.default_rng(seed)
        self.spread = np.array([level, level, height])
        self._correlation = correlation
        self.now: Floats = self.spread * self._random.standard_normal((count, 3))

    def step(self, dt: float) -> Floats:
        """`now` after `dt` s."""
        keep = math.exp(-dt / self._correlation)
        noise = self._random.standard_normal(self.now.shape)
        self.now = keep * self.now + math.sqrt(1.0 - keep * keep) * self.spread * noise
        return self.now
