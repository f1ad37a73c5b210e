"""Fast fading: a complex Gauss-Markov process per link and block of the channel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, part
from cosim.radio.pathloss import umi_los_probability
from cosim.radio.shadowing import cell_key, draw_key, normal

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

FIRST_ZERO = 2.404825557695773  # of J0: beyond it draws are independent
_ROOT_HALF = math.sqrt(0.5)
_chance = part(umi_los_probability)
_FADING_DRAWS = 1 << 24  # numbers from here on draw fading, beside those of shadowing


def coherence_bandwidth(delay_spread: float) -> float:
    """Hz over which the channel is about the same: 1 / (5 tau_rms), correlation above 0.5.

    T. S. Rappaport, Wireless Communications, 2nd ed., equation 5.39. `delay_spread` is tau_rms in s.
    """
    return 1.0 / (5.0 * delay_spread)


@part
def correlation(phase: float) -> float:
    """Correlation of the channel after a way of `phase` rad (2 pi way / wavelength): J0, by Clarke and Jakes.

    0 beyond the first zero of J0. Abramowitz and Stegun 9.4.1, error below 5e-8.
    """
    if phase >= FIRST_ZERO:
        return 0.0
    y = phase * phase / 9.0
    value = 0.0444479 - 0.0039444 * y + 0.0002100 * y * y
    return 1.0 + y * (-2.2499997 + y * (1.2656208 + y * (-0.3163866 + y * value)))


@entry()
def fade(
    rows: Ints, fresh: NDArray[np.bool_], phase: Floats, key: Keys, draw: int, factor: Floats, real: Floats,
    imaginary: Floats, gain: Floats,
) -> None:  # fmt: skip
    """Move the channels of `rows` (n,) on by `phase` (n,) rad and say their power `gain` (n, B), 1 in the mean.

    `real` and `imaginary` (slots, B) are the scattered part, kept between calls, of variance 1/2
    each; `fresh` (n,) ones start anew. `key` (n,) and the number `draw` choose the draws. `factor`
    (n,) is Rice's K as a ratio: the power of the steady path over that of the scattered one, 0 for
    Rayleigh fading.
    """
    blocks = gain.shape[1]
    for i in range(len(rows)):
        row = rows[i]
        kept = 0.0 if fresh[i] else correlation(phase[i])
        new = math.sqrt(max(1.0 - kept * kept, 0.0)) * _ROOT_HALF
        drawing = draw_key(key[i], draw + _FADING_DRAWS)
        steady, scattered = math.sqrt(factor[i] / (1.0 + factor[i])), math.sqrt(1.0 / (1.0 + factor[i]))
        for b in range(blocks):
            re = (kept * real[row, b] if kept > 0.0 else 0.0) + new * normal(cell_key(drawing, 2 * b))
            im = (kept * imaginary[row, b] if kept > 0.0 else 0.0) + new * normal(cell_key(drawing, 2 * b + 1))
            real[row, b], imaginary[row, b] = re, im
            x, y = steady + scattered * re, scattered * im
            gain[i, b] = x * x + y * y


@entry()
def in_sight(rows: Ints, cell: Ints, sight: Floats, ground: Floats) -> NDArray[np.bool_]:
    """Which devices `rows` (n,) see their `cell` (n,): TR 38.901's line-of-sight state as `cells.receive` keeps it.

    `sight` (slots, m) are its unit Gaussians, `ground` (n,) m the horizontal distances.
    """
    seen = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        if cell[i] >= 0:
            seen[i] = 0.5 * math.erfc(-sight[rows[i], cell[i]] * _ROOT_HALF) < _chance(ground[i])
    return seen
