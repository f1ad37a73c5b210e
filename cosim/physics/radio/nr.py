"""5G New Radio: from SINR to CQI, MCS, block errors and rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats

Ints = NDArray[np.integer[Any]]

# TS 38.214 table 5.2.2.1-2: bit/s/Hz of CQI 1..15
CQI_EFFICIENCY: Floats = np.array([
    0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141,
    2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547,
])  # fmt: skip

# TS 38.214 table 5.1.3.1-1, MCS 0..28: bits per symbol and code rate x 1024
MCS_ORDER: Ints = np.array([2] * 10 + [4] * 7 + [6] * 12)
MCS_RATE: Floats = np.array([
    120, 157, 193, 251, 308, 379, 449, 526, 602, 679,
    340, 378, 434, 490, 553, 616, 658,
    438, 466, 517, 567, 616, 666, 719, 772, 822, 873, 910, 948,
]) / 1024  # fmt: skip
MCS_EFFICIENCY: Floats = MCS_ORDER * MCS_RATE  # bit/s/Hz

# TS 38.101-1 table 5.3.2-1: subcarrier spacing Hz -> bandwidth MHz -> resource blocks
_BLOCKS = {
    15e3: {5: 25, 10: 52, 15: 79, 20: 106, 25: 133, 30: 160, 35: 188, 40: 216, 45: 242, 50: 270},
    30e3: {5: 11, 10: 24, 15: 38, 20: 51, 25: 65, 30: 78, 35: 92, 40: 106, 45: 119, 50: 133, 60: 162, 70: 189, 80: 217,
           90: 245, 100: 273},
}  # fmt: skip

OVERHEAD_DOWNLINK = 0.14  # TS 38.306 4.1.2, frequency range 1
OVERHEAD_UPLINK = 0.08  # TS 38.306 4.1.2, frequency range 1
BLER_TARGET = 0.1  # block errors that a CQI stands for, TS 38.214 5.2.2.1
HARQ_TRANSMISSIONS = 4  # of a block in all


def resource_blocks(bandwidth: float, spacing: float = 30e3) -> int:
    """Resource blocks of a channel of `bandwidth` Hz at a subcarrier `spacing` of 15 or 30 kHz.

    TS 38.101-1 table 5.3.2-1; between its bandwidths the occupied part of the next narrower one
    holds (of the narrowest one below it). Raises `ValueError` when there is room for none or the
    channel is wider than the table allows.
    """
    table = _BLOCKS[spacing]
    megahertz = bandwidth * 1e-6
    base = max((width for width in table if width <= megahertz), default=min(table))
    blocks = math.floor(table[base] * megahertz / base + 1e-9)
    if megahertz > max(table):
        raise ValueError(f"{bandwidth:g} Hz is wider than the {max(table)} MHz that {spacing:g} Hz subcarriers allow")
    if blocks < 1:
        raise ValueError(f"a bandwidth of {bandwidth:g} Hz holds no resource block of 12 x {spacing:g} Hz")
    return blocks


def thresholds(efficiency: Floats, alpha: float = 0.75) -> Floats:
    """SINR in dB that a spectral `efficiency` (bit/s/Hz) needs: 10 log10(2^(eff/alpha) - 1).

    Shannon's bound with the implementation loss `alpha` of 3GPP TR 36.942 annex A (0.6 to 0.75).
    """
    return np.asarray(10.0 * np.log10(2.0 ** (efficiency / alpha) - 1.0))


def cqi(sinr: Floats, alpha: float = 0.75) -> Ints:
    """The largest CQI whose threshold `sinr` (dB) reaches, 0 for none."""
    return np.searchsorted(thresholds(CQI_EFFICIENCY, alpha), sinr, side="right")


def mcs(cqi: Ints) -> Ints:
    """The fastest MCS that is no faster than what `cqi` reports; 0 for CQI 0."""
    return _MCS_OF_CQI[cqi]


_MCS_OF_CQI: Ints = np.concatenate(
    [[0], np.maximum(np.searchsorted(MCS_EFFICIENCY, CQI_EFFICIENCY + 5e-4, side="right") - 1, 0)]
)


def bler(sinr: Floats, mcs: Ints, alpha: float = 0.75, slope: float = 1.5) -> Floats:
    """Block error rate of the first transmission: logistic in dB with `slope` per dB.

    It is 10 % where `sinr` equals the threshold of the MCS, because that is what a CQI promises.
    """
    margin = np.asarray(sinr) - thresholds(MCS_EFFICIENCY, alpha)[mcs]
    odds = (1.0 - BLER_TARGET) / BLER_TARGET * np.exp(np.clip(slope * margin, -50.0, 50.0))
    return np.asarray(1.0 / (1.0 + odds))


def residual_loss(bler: Floats, transmissions: int = HARQ_TRANSMISSIONS) -> Floats:
    """What is still lost after all HARQ `transmissions`, taken as independent: BLER^transmissions."""
    # repeated multiplication: a power of an array is several times slower
    return np.asarray(np.multiply.reduce([bler] * transmissions))


def rate(
    mcs: Ints, blocks: Ints | int, share: float, overhead: float, layers: int = 1, spacing: float = 30e3
) -> Floats:
    """Bit/s of a device that has the cell for itself, before block errors: TS 38.306 4.1.2.

    layers x Q_m x R x N_PRB x 12 / T_s x (1 - overhead) x `share`, where `share` is the part of the
    time that TDD gives to this direction and T_s = 1 ms / (14 x spacing / 15 kHz).
    """
    symbols = 14e3 * spacing / 15e3  # 1/s
    return np.asarray(layers * MCS_EFFICIENCY[mcs] * blocks * 12.0 * symbols * (1.0 - overhead) * share)
