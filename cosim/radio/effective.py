"""One SINR for a channel whose parts differ: exponential effective SINR mapping (EESM)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, part
from cosim.radio import nr
from cosim.radio.fast import exp, ln

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# beta of QPSK, 16QAM and 64QAM; 1.5 to 30 over the modulations, 16QAM in their geometric middle.
# K. Brueninghaus et al., "Link performance models for system level simulations of broadband radio
# access systems", PIMRC 2005, calibrates values in this range.
BETA = (1.5, 6.7, 30.0)
_DECIBEL = 10.0 / math.log(10.0)
_LOWEST = 1e-20


@part
def _mapped(ratio: Floats, width: Floats, count: int, beta: float) -> float:
    """-beta ln(sum of width exp(-ratio / beta)), as a ratio; the least ratio stands before the sum for precision."""
    least = ratio[0]
    for g in range(1, count):
        least = min(least, ratio[g])
    total = 0.0
    for g in range(count):
        total += width[g] * exp(-(ratio[g] - least) / beta)
    found: float = least - beta * ln(total)
    return found


@part
def _best(ratio: Floats, width: Floats, count: int, amplitude: float, high: float) -> float:
    """The effective ratio under the highest modulation that it allows; `amplitude` and `high` are where those begin.

    It is never above the mean (Jensen), so a modulation that the mean does not reach need not be tried.
    """
    mean = 0.0
    for g in range(count):
        mean += width[g] * ratio[g]
    if mean < amplitude:
        return _mapped(ratio, width, count, BETA[0])
    found = _mapped(ratio, width, count, BETA[2]) if mean >= high else 0.0
    if found >= high:
        return found
    found = min(_mapped(ratio, width, count, BETA[1]), high)
    if found >= amplitude:
        return found
    return min(_mapped(ratio, width, count, BETA[0]), amplitude)


@entry()
def effective(
    cell: Ints, signal: Floats, floor: Floats, jam: Floats, spread: Floats, width: Floats, block: NDArray[np.int64],
    gain: Floats, borders: Floats, jammed: Floats, clean: Floats,
) -> None:  # fmt: skip
    """Effective SINR in dB with jammers, `jammed` (n,), and without, `clean` (n,), on the channels of `cell` (n,).

    `signal` and `floor` (noise and interference) (n,) mW over the whole channel, `jam` (n, J) mW of
    each jammer in all, `spread` (J, m, G), `width` and `block` (m, G) as in `jamming.Grid`, `gain`
    (n, B) of the fading blocks. `borders` (2,) are the ratios where 16QAM and 64QAM begin.
    """
    pieces = width.shape[1]
    with_jam, without = np.empty(pieces), np.empty(pieces)
    for i in range(len(cell)):
        c = cell[i]
        if c < 0 or signal[i] <= 0.0:
            jammed[i] = clean[i] = -200.0
            continue
        count, heard = 0, False
        while count < pieces and width[c, count] > 0.0:
            density = 0.0
            for j in range(jam.shape[1]):
                density += jam[i, j] * spread[j, c, count]
            heard = heard or density > 0.0
            own = signal[i] * gain[i, block[c, count]]
            without[count] = own / floor[i]
            with_jam[count] = own / (floor[i] + density / width[c, count])
            count += 1
        clean[i] = _DECIBEL * math.log(max(_best(without, width[c], count, borders[0], borders[1]), _LOWEST))
        if heard:
            jammed[i] = _DECIBEL * math.log(max(_best(with_jam, width[c], count, borders[0], borders[1]), _LOWEST))
        else:
            jammed[i] = clean[i]


def borders(alpha: float) -> Floats:
    """The SINR ratios (2,) where the CQI table turns to 16QAM (CQI 7) and 64QAM (CQI 10), TS 38.214 5.2.2.1-2."""
    return np.asarray(10.0 ** (nr.thresholds(nr.CQI_EFFICIENCY[[6, 9]], alpha) / 10.0))
