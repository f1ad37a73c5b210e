"""Powers and their ratios: noise, RSRP, RSSI, RSRQ, SINR."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints

_PER_DECIBEL = np.log(10.0) / 10.0  # numpy's exp and log are several times faster than its power and log10
FLOOR = 1e-20  # mW; what counts as no power at all, -200 dBm


def milliwatts(level: float | Floats) -> Floats:
    """dBm as mW (or dB as a ratio)."""
    return np.asarray(np.exp(_PER_DECIBEL * np.asarray(level, np.float64)))


def decibels(power: float | Floats) -> Floats:
    """mW as dBm (or a ratio as dB); not below -200."""
    return np.asarray(np.log(np.maximum(power, FLOOR)) / _PER_DECIBEL)


def noise(bandwidth: float | Floats, noise_figure: float | Floats) -> Floats:
    """Thermal noise in dBm at 290 K: -174 dBm/Hz + 10 log10 B + NF; `bandwidth` Hz, `noise_figure` dB."""
    return np.asarray(-174.0 + 10.0 * np.log10(bandwidth) + noise_figure)


def rsrp(received: float | Floats, blocks: int | Ints) -> Floats:
    """Power per resource element in dBm: the `received` power (dBm) spread over 12 N_PRB; TS 38.215 5.1.1."""
    return np.asarray(received - 10.0 * np.log10(12.0 * np.asarray(blocks)))


def sinr(signal: float | Floats, interference: float | Floats, noise: float | Floats) -> Floats:
    """Signal over interference and noise in dB, from powers in mW over the same band."""
    return decibels(np.asarray(signal) / (np.asarray(interference) + noise))
