"""Fast fading: Clarke's process for each link and block of the channel."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Flags, Floats
from cosim.physics.radio.pathloss import umi_los_probability
from cosim.physics.radio.shadowing import cell_key, draw_key, mix

Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]

_ROOT_HALF = math.sqrt(0.5)
_FADING_DRAWS = 1 << 24  # numbers from here on draw fading, beside those of shadowing
_chance = part(umi_los_probability)

_SAMPLES = 16  # of `clarke` in a wavelength; its spectrum ends at one period in a wavelength
_BITS = 17  # the table has 2^17 samples: 8192 wavelengths
_SEED = 4  # of the table; on its whole length the power keeps J0^2 to 0.02
_BELOW = 32 - _BITS  # bits of a place in the table below its samples
_PLACES = 2.0**_BELOW * _SAMPLES / (2.0 * math.pi)  # in a rad; a place is 32 bits and runs around the table
SEGMENT = 2048.0 * 2.0 * math.pi  # rad; after them a link reads the table from another place


@cache
def clarke() -> NDArray[np.float32]:
    """One component (2^17 + 1,) of Clarke's channel along a way: variance 1/2, correlation J0(2 pi way / wavelength).

    The power of all paths, which come from everywhere alike, has the density 1 / (pi sqrt(1 - (f / fd)^2)) over the
    Doppler shift f (W. C. Jakes, Microwave Mobile Communications, 1974, 1.2); phases are random. The last sample is the
    first again: a table without an end. Reading it between samples takes 1.3 % of the variance, which is added here.
    """
    count = 1 << _BITS
    top = count // _SAMPLES
    edges = np.minimum((np.arange(top + 2) - 0.5) / top, 1.0)  # of the bins, over fd
    edges[0] = 0.0
    amplitude = np.zeros(count // 2 + 1)
    amplitude[: top + 1] = np.sqrt(np.diff(np.arcsin(edges)) / math.pi / 2.0) * count
    phase = np.random.default_rng(_SEED).uniform(0.0, 2.0 * math.pi, len(amplitude))
    made = np.fft.irfft(amplitude * np.exp(1j * phase), count)
    between = 0.5 * (made + np.roll(made, -1))
    made *= math.sqrt(1.5 * 0.5 / (0.5 * np.mean(made * made) + np.mean(between * between)))
    return np.append(made, made[0]).astype(np.float32)


def coherence_bandwidth(delay_spread: float) -> float:
    """Hz over which the channel is about the same: 1 / (5 tau_rms), correlation above 0.5.

    T. S. Rappaport, Wireless Communications, 2nd ed., equation 5.39. `delay_spread` is tau_rms in s.
    """
    return 1.0 / (5.0 * delay_spread)


@part
def _read(table: NDArray[np.float32], place: np.uint64) -> float:
    """The table at a place of 32 bits, on the line between two samples."""
    at = np.int64((place & np.uint64(0xFFFFFFFF)) >> np.uint64(_BELOW))
    rest = np.float64(np.int64(place & np.uint64((1 << _BELOW) - 1))) * 2.0**-_BELOW
    return float(table[at] + rest * (table[at + 1] - table[at]))


@entry()
def fade(
    rows: Ints, fresh: Flags, phase: Floats, key: Keys, factor: Floats, table: NDArray[np.float32],
    way: Floats, gain: Floats,
) -> None:  # fmt: skip
    """Advance the links of `rows` (n,) by `phase` (n,) rad and write their power `gain` (n, B), 1 in the mean.

    `phase` is 2 pi way / wavelength; between two moments with `phase` between them the power of the scattered part is
    correlated by J0(phase)^2, whatever the steps in between (Clarke 1968). `way` (slots,) rad is kept between calls;
    `fresh` (n,) links start anew. `key` (n,) chooses the draws; `table` is `clarke()`. `factor` (n,) is Rice's K as a
    ratio: the power of the steady path over that of the scattered one, 0 for Rayleigh fading.

    Real and imaginary part of each block read the table at places of their own. Segment by segment of the way other
    places are drawn, and the new ones are faded in as the old ones are faded out, so that no link repeats itself.
    """
    for i in range(len(rows)):
        row = rows[i]
        at = way[row] + phase[i]
        if fresh[i]:
            at = (math.floor(way[row] / SEGMENT) + 2.0) * SEGMENT
        way[row] = at
        segment = math.floor(at / SEGMENT)
        turn = at / SEGMENT - segment
        since, forth = np.uint64((turn + 1.0) * SEGMENT * _PLACES), np.uint64(turn * SEGMENT * _PLACES)
        number = segment + _FADING_DRAWS
        old, new = draw_key(key[i], number), draw_key(key[i], number + 1)
        steady, scattered = math.sqrt(factor[i] / (1.0 + factor[i])), math.sqrt(1.0 / (1.0 + factor[i]))
        out, into = scattered * math.cos(0.5 * math.pi * turn), scattered * math.sin(0.5 * math.pi * turn)
        for b in range(gain.shape[1]):
            one, other = mix(cell_key(old, b)), mix(cell_key(new, b))
            x = steady + out * _read(table, one + since) + into * _read(table, other + forth)
            one, other = one >> np.uint64(32), other >> np.uint64(32)
            y = out * _read(table, one + since) + into * _read(table, other + forth)
            gain[i, b] = x * x + y * y


@entry()
def in_sight(rows: Ints, cell: Ints, sight: Floats, ground: Floats) -> Flags:
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
