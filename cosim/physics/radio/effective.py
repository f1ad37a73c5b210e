"""One SINR for a channel whose parts differ: exponential effective SINR mapping (EESM)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats
from cosim.physics.radio import nr
from cosim.physics.radio.fast import exp, ln
from cosim.physics.radio.jamming import ChannelGrid

Ints = NDArray[np.int32]

# beta of QPSK, 16QAM and 64QAM; 1.5 to 30 over the modulations, 16QAM in their geometric middle.
# K. Brueninghaus et al., "Link performance models for system level simulations of broadband radio
# access systems", PIMRC 2005, calibrates values in this range.
BETA = (1.5, 6.7, 30.0)
_DECIBEL = 10.0 / math.log(10.0)
_LOWEST = 1e-20


@part
def _mapped(ratio: Floats, width: Floats, count: int, beta: float, terms: Floats) -> float:
    """-beta ln(sum of width exp(-ratio / beta)), as a ratio; the least ratio stands before the sum for precision.

    `terms` is scratch: without a sum in it the loop of exponentials becomes vector instructions.
    """
    least = ratio[0]
    for g in range(1, count):
        least = min(least, ratio[g])
    for g in range(count):
        terms[g] = exp(-(ratio[g] - least) / beta)
    total = 0.0
    for g in range(count):
        total += width[g] * terms[g]
    found: float = least - beta * ln(total)
    return found


@part
def _best(ratio: Floats, width: Floats, count: int, amplitude: float, high: float, terms: Floats) -> float:
    """The effective ratio under the highest modulation that it allows; `amplitude` and `high` are where those begin.

    It is never above the mean (Jensen), so a modulation that the mean does not reach need not be tried.
    """
    mean = 0.0
    for g in range(count):
        mean += width[g] * ratio[g]
    if mean < amplitude:
        return _mapped(ratio, width, count, BETA[0], terms)
    found = _mapped(ratio, width, count, BETA[2], terms) if mean >= high else 0.0
    if found >= high:
        return found
    found = min(_mapped(ratio, width, count, BETA[1], terms), high)
    if found >= amplitude:
        return found
    return min(_mapped(ratio, width, count, BETA[0], terms), amplitude)


class FadedJam(NamedTuple):
    """Power of J jammers at F receivers."""

    mean: Floats  # (F, J) mW, fading left out
    power: Floats  # (F, J) mW over the channel, with it
    fade: Ints  # (F, J) row of `fades`, -1: it does not fade
    fades: Floats  # (k, B) power gain by block


@entry()
def effective(
    cell: Ints, at: Ints, signal: Floats, floor: Floats, heard: FadedJam, least: float, grid: ChannelGrid, gain: Floats,
    borders: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Effective SINR (n,) in dB with jammers, and without, on the channels of `cell` (n,).

    `signal` (n,) mW over the whole channel and its `gain` (n, B) by fading block. What disturbs it is that of the
    receiver `at` (n,), of which there are F: `floor` (F, B) mW, noise and interference as if each block's held over
    the whole channel; `heard` of J jammers. Jammers whose power is at most the part `least` of the floor are left
    out: at 0.001 they cost less than 0.005 dB. `borders` (2,) are the ratios where 16QAM and 64QAM begin.
    """
    jam, width, block = heard.mean, grid.width, grid.block
    jammed, clean = np.empty(len(cell)), np.empty(len(cell))
    pieces = width.shape[1]
    with_jam, without, density, terms = np.empty(pieces), np.empty(pieces), np.empty(pieces), np.empty(pieces)
    counts = np.zeros(len(width), np.int64)
    for c in range(len(width)):
        while counts[c] < pieces and width[c, counts[c]] > 0.0:
            counts[c] += 1
    for i in range(len(cell)):
        c = cell[i]
        if c < 0 or signal[i] <= 0.0:
            jammed[i] = clean[i] = -200.0
            continue
        a, count, audible = at[i], counts[c], False
        for g in range(count):
            density[g] = 0.0
            without[g] = signal[i] * gain[i, block[c, g]] / floor[a, block[c, g]]
        for j in range(jam.shape[1]):
            if jam[a, j] <= least * floor[a, 0]:
                continue
            audible = True
            f = heard.fade[a, j]
            if f < 0:
                for g in range(count):
                    density[g] += jam[a, j] * grid.spread[j, c, g]
            else:
                for g in range(count):
                    density[g] += jam[a, j] * heard.fades[f, block[c, g]] * grid.spread[j, c, g]
        clean[i] = _DECIBEL * math.log(max(_best(without, width[c], count, borders[0], borders[1], terms), _LOWEST))
        if audible:
            for g in range(count):
                own = signal[i] * gain[i, block[c, g]]
                with_jam[g] = own / (floor[a, block[c, g]] + density[g] / width[c, g])
            found = _best(with_jam, width[c], count, borders[0], borders[1], terms)
            jammed[i] = _DECIBEL * math.log(max(found, _LOWEST))
        else:
            jammed[i] = clean[i]
    return jammed, clean


@entry()
def jammed_parts(cell: Ints, at: Ints, jam: Floats, share: Floats) -> Floats:
    """Power (S, n) mW that the channels of `cell` (n,) take of the jammers `jam` (F, J) mW at the receivers `at` (n,).

    `share` (S, J, m) is the part of each jammer's power on each channel.
    """
    found = np.zeros((len(share), len(cell)))
    for i in range(len(cell)):
        for j in range(jam.shape[1]):
            level = jam[at[i], j]
            for s in range(len(share)):
                found[s, i] += level * share[s, j, cell[i]]
    return found


def borders(alpha: float) -> Floats:
    """The SINR ratios (2,) where the CQI table turns to 16QAM (CQI 7) and 64QAM (CQI 10), TS 38.214 5.2.2.1-2."""
    return np.asarray(10.0 ** (nr.thresholds(nr.CQI_EFFICIENCY[[6, 9]], alpha) / 10.0))
