"""Fast fading: a complex Gauss-Markov process per link and block of the channel."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.physics.radio.fast import ln
from cosim.physics.radio.pathloss import umi_los_probability
from cosim.physics.radio.shadowing import cell_key, draw_key, mix, normal

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

FIRST_ZERO = 2.404825557695773  # of J0: beyond it draws are independent
_ROOT_HALF = math.sqrt(0.5)
_BITS = 0x4330000000000000  # of 2^52
_S3, _S5, _S7, _S9, _S11, _S13, _S15 = ((-1) ** k / math.factorial(2 * k + 1) for k in range(1, 8))  # sine's series
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
    """Advance the channels of `rows` (n,) by `phase` (n,) rad and write their power `gain` (n, B), 1 in the mean.

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
def fade_anew(key: Keys, draw: int, factor: Floats, gain: Floats) -> None:
    """The power `gain` (k, B) of channels that remember nothing; `key`, `draw`, `factor` as of `fade`.

    The same law from one word instead of two normal draws: the scattered power is exponential and its angle to the
    steady path uniform, 32 bits each, so that no draw is above 22 times its mean (chance 2e-10). The loop over blocks
    becomes vector instructions; its sine is good to 1e-11.
    """
    blocks = gain.shape[1]
    words = np.empty(blocks, np.uint64)
    for i in range(len(key)):
        drawing = draw_key(key[i], draw + _FADING_DRAWS)
        steady, scattered = factor[i] / (1.0 + factor[i]), 1.0 / (1.0 + factor[i])
        both = 2.0 * math.sqrt(steady * scattered)
        for b in range(blocks):
            words[b] = mix(cell_key(drawing, b))
        if steady == 0.0:
            for b in range(blocks):
                gain[i, b] = -ln(_half(words[b] >> np.uint64(32)))
        else:
            for b in range(blocks):
                loud = -ln(_half(words[b] >> np.uint64(32)))
                x = math.pi * (_half(words[b] & np.uint64(0xFFFFFFFF)) - 0.5)
                q = x * x
                sine = q * (q * (q * (q * (q * (_S15 * q + _S13) + _S11) + _S9) + _S7) + _S5) + _S3
                sine = x + x * q * sine
                gain[i, b] = steady + both * math.sqrt(loud) * sine + scattered * loud


@part
def _half(word: np.uint64) -> float:
    """A number of 32 bits as a draw from (0, 1): its integer goes into the low bits of 2^52."""
    return (np.uint64(word | np.uint64(_BITS)).view(np.float64) - 2.0**52 + 0.5) * 2.0**-32


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


@entry()
def pair_keys(key: Keys, other: Ints) -> Keys:
    """Keys (k,) of the links between devices of keys `key` (k,) and the cells `other` (k,)."""
    found = np.empty(len(key), np.uint64)
    for i in range(len(key)):
        found[i] = mix(key[i] ^ mix(np.uint64(_FADING_DRAWS) + np.uint64(other[i])))
    return found


@entry()
def strongest_others(
    rows: Ints, cell: Ints, power: Floats, carrier: Ints, floor: Floats, before: Ints, found: Ints
) -> None:
    """The cells `found` (n, K) on the carrier of `cell` (n,) that devices `rows` (n,) hear best besides it.

    `power` (slots, m) mW; those not above `floor` (n,) mW are left out, -1. A cell that was among `before` (slots, K)
    keeps its column, so that what is kept of its link is found again; `before` becomes what is found.
    """
    most = found.shape[1]
    best, level = np.empty(most, np.int64), np.empty(most)
    for i in range(len(rows)):
        row, own = rows[i], cell[i]
        best[:], level[:] = -1, floor[i]
        for c in range(power.shape[1]):
            heard = power[row, c]
            if own < 0 or heard <= level[most - 1] or c == own or carrier[c] != carrier[own]:
                continue
            k = most - 1
            while k > 0 and heard > level[k - 1]:
                best[k], level[k] = best[k - 1], level[k - 1]
                k -= 1
            best[k], level[k] = c, heard
        found[i] = -1
        for k in range(most):
            for b in range(most):
                if best[b] >= 0 and before[row, k] == best[b]:
                    found[i, k], best[b] = best[b], -1
                    break
        for b in range(most):
            for k in range(most):
                if best[b] >= 0 and found[i, k] < 0:
                    found[i, k], best[b] = best[b], -1
        before[row] = found[i]


@entry()
def add_faded(
    device: NDArray[np.int64], other: Ints, gain: Floats, heard: Floats, sent: Floats, down: Floats, up: Floats
) -> None:
    """Let the links between devices `device` (k,) and cells `other` (k,) fade: what their mean power adds is there.

    `gain` (k, B) of their blocks. Added is what it is above 1, times `heard` (k,) mW of the cell at the device, to
    `down` (n, B), and times `sent` (k,) mW of the device at the cell to `up` (m, B).
    """
    for k in range(len(device)):
        i, c = device[k], other[k]
        for b in range(gain.shape[1]):
            down[i, b] += heard[k] * (gain[k, b] - 1.0)
        if sent[k] > 0.0:
            for b in range(gain.shape[1]):
                up[c, b] += sent[k] * (gain[k, b] - 1.0)
