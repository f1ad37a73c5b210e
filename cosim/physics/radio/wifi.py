"""Wi-Fi links by their signal to noise: 802.11n rates, errors, goodput, loss and medium access.

    curve = wifi.curve()                  # 20 MHz, one stream, no fading
    snr = wifi.snr(100.0, frequency=5.18e9, exponent=2.7, emitted=20.0, floor=-94.0)
    curve.at(snr).goodput                 # bit/s of payload

A link is what its mean signal to noise makes of it, so all of it is one table over dB (`Curve`). The
thresholds are calibrated to a sweep of ns-3.44 (802.11n, 20 MHz at 5.18 GHz, 20 dBm, noise figure 7 dB,
close-in exponent 2.7, IdealWifiManager, UDP with 1400 B, 60 Mbit/s offered, 5 to 300 m):
goodput within 15 % at 5 to 240 m, edge at 262 m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.physics.radio import pathloss

# 802.11n, one spatial stream, 20 MHz, long guard interval: bit/s of MCS 0 to 7, IEEE 802.11-2020 table 19-27.
MCS = np.array([6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0]) * 1e6
# dB of signal to noise from which a rate is used; fitted to the ns-3 sweep. The first is the preamble's
# detection threshold (ThresholdPreambleDetectionModel, 2 dB).
THRESHOLD = np.array([2.0, 4.3, 7.4, 10.7, 14.2, 18.2, 19.7, 21.1])
WIDER = {20e6: 1.0, 40e6: 108.0 / 52.0}  # bandwidth Hz -> factor of the rates, by the data subcarriers (table 19-6)

SLOT, SIFS = 9e-6, 16e-6  # s, OFDM PHY at 5 GHz, IEEE 802.11-2020 table 17-21
DIFS = SIFS + 2.0 * SLOT
BACKOFF = 7.5 * SLOT  # s, mean of a window of 15 slots
PREAMBLE = 36e-6  # s, HT-mixed format, one stream
ACKNOWLEDGE = 68e-6  # s, a block acknowledgement of 32 B at 6 Mbit/s with its preamble
LONGEST = 5.484e-3  # s, of a PPDU
AGGREGATE = 65535.0  # B, of an A-MPDU
OVERHEAD = 70.0  # B per packet: UDP and IP 28, LLC 8, MAC 26, FCS 4, delimiter 4
ERROR = 0.01  # packet error rate at a rate's threshold; what an ideal rate manager aims at is of this order
SLOPE = 8.0  # 1/dB, of the logistic error curve: 1 % to 99 % within 1.2 dB, as error curves without fading have it
RETRIES = 7  # dot11ShortRetryLimit

LOWEST, HIGHEST, STEP = -20.0, 80.0, 0.01  # dB, of the table


class RatePoint(NamedTuple):
    """What links are at one or more ratios of signal to noise."""

    goodput: Floats  # bit/s of payload when no other station sends; 0: no link
    delay: Floats  # s, one way, besides the transmission: medium access, retries included
    jitter: Floats  # s, half width of the delay's variation
    loss: Floats  # 1, of packets after all retries


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The table: arrays (k,) over dB from `LOWEST` in steps of `STEP`; `least` dB is where a link begins."""

    goodput: Floats
    delay: Floats
    jitter: Floats
    loss: Floats
    least: float

    def table(self) -> Floats:
        """(k, 4): goodput, delay, jitter, loss; what `wifi_pairs.find` looks up."""
        return np.column_stack([self.goodput, self.delay, self.jitter, self.loss])

    def at(self, snr: ArrayLike) -> RatePoint:
        """The links at `snr` dB (any shape)."""
        place = np.floor((np.asarray(snr, np.float64) - LOWEST) / STEP + 1e-6)
        index = np.clip(place, 0, len(self.goodput) - 1).astype(np.int64)
        return RatePoint(self.goodput[index], self.delay[index], self.jitter[index], self.loss[index])


def snr(
    distance: ArrayLike, frequency: float, exponent: float = 2.7, emitted: float = 20.0, floor: float = -94.0
) -> Floats:
    """dB at `distance` m: `emitted` dBm with both antennas' gains, less the close-in loss, over `floor` dBm noise."""
    lost = pathloss.close_in(np.asarray(distance, np.float64), frequency, exponent)
    return np.asarray(emitted - lost - floor)


def reach(curve: Curve, frequency: float, exponent: float, budget: float) -> float:
    """m at which links end: `budget` dB is the emitted power over the noise."""
    reference = float(20.0 * np.log10(4.0 * np.pi * frequency / pathloss.LIGHT))
    return float(10.0 ** ((budget - reference - curve.least) / (10.0 * exponent)))


@cache
def curve(bandwidth: float = 20e6, packet: float = 1400.0, fading: float = 0.0, retries: int = RETRIES) -> Curve:
    """The table for `packet` B of payload; `fading` is Nakagami's m, drawn anew for every attempt, 0: none.

    Without fading the fastest rate whose threshold the signal reaches is used. With it, power is a
    gamma variate of shape m around its mean (Nakagami 1960), an attempt succeeds when the drawn
    signal reaches the threshold, P = Q(m, m threshold / mean), and the rate is the one with the most
    goodput. Raises `ValueError` for a bandwidth that 802.11n does not have.
    """
    if bandwidth not in WIDER:
        known = ", ".join(f"{width / 1e6:g} MHz" for width in WIDER)
        raise ValueError(f"802.11n has channels of {known}, not {bandwidth / 1e6:g} MHz")
    level = LOWEST + STEP * np.arange(round((HIGHEST - LOWEST) / STEP) + 1)
    rate = MCS * WIDER[bandwidth]
    over = level[:, None] - THRESHOLD[None, :]  # (k, 8) dB
    if fading > 0.0:
        success = (1.0 - ERROR) * _survival(fading, fading * 10.0 ** (-over / 10.0))
        usable = success > 1e-3
    else:
        usable = over >= -1e-9
        success = 1.0 - 1.0 / (1.0 + (1.0 - ERROR) / ERROR * np.exp(SLOPE * np.minimum(over, 50.0)))
    goodput = np.where(usable, success * _full_goodput(rate, packet)[None, :], 0.0)
    best = np.argmax(goodput, axis=1)
    row = np.arange(len(level))
    got, p = goodput[row, best], success[row, best]
    there = got > 0.0
    missed = np.where(there, 1.0 - p, 1.0)
    attempts = np.where(there, (1.0 - missed ** (retries + 1)) / np.maximum(1.0 - missed, 1e-9), 0.0)
    access = DIFS + BACKOFF + PREAMBLE + SIFS + ACKNOWLEDGE
    again = (attempts - 1.0).clip(0.0) * (access + 8.0 * (packet + OVERHEAD) / rate[best])
    return Curve(
        got,
        np.where(there, access + again, 0.0),
        np.where(there, BACKOFF * attempts, 0.0),
        np.where(there, missed ** (retries + 1), 1.0),
        float(level[there][0]),
    )


def _full_goodput(rate: Floats, packet: float) -> Floats:
    """bit/s of payload (8,) of a saturated sender that aggregates as many packets as a PPDU holds."""
    whole = 4.0 * math.ceil((packet + OVERHEAD) / 4.0)
    count = np.maximum(np.floor(np.minimum(AGGREGATE, rate * LONGEST / 8.0) / whole), 1.0)
    spent = DIFS + BACKOFF + PREAMBLE + 8.0 * count * whole / rate + SIFS + ACKNOWLEDGE
    return np.asarray(8.0 * count * packet / spent)


def _survival(shape: float, x: Floats) -> Floats:
    """P(G > x) of a gamma variate G with this shape and scale 1: 1 - x^s e^-x sum x^n / Gamma(s + n + 1)."""
    x = np.minimum(x, 60.0 + 10.0 * shape)  # beyond it the chance is nil
    term = np.exp(shape * np.log(np.maximum(x, 1e-300)) - x - math.lgamma(shape + 1.0))
    total = np.zeros_like(x)
    for n in range(1, 400):
        total += term
        term = term * x / (shape + n)
    return np.asarray(np.clip(1.0 - total, 0.0, 1.0))
