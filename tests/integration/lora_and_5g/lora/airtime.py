"""How long LoRa packets take on the air, and how weak they may be."""

from __future__ import annotations

import math

CODING = 1  # of 4 / (4 + CODING): 4/5
PREAMBLE = 8  # symbols, LoRaWAN 1.0.4
HEAD = 13  # B of LoRaWAN around a payload
LONGEST = 222  # B of payload at SF7, LoRaWAN regional parameters for EU868
NOISE_FIGURE = 6.0  # dB, Semtech AN1200.22
NEEDED = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}  # dB of SNR, SX1276 datasheet


def airtime(payload: int, spreading: int, bandwidth: float) -> float:
    """s on the air of `payload` B, LoRaWAN's head among them, with header and CRC (Semtech AN1200.13)."""
    symbol = 2**spreading / bandwidth
    slow = 2 if symbol > 16e-3 else 0  # low data rate optimisation
    coded = math.ceil((8 * payload - 4 * spreading + 28 + 16) / (4 * (spreading - slow)))
    return (PREAMBLE + 4.25 + 8 + max(coded * (CODING + 4), 0)) * symbol


def airtime_of(size: float, spreading: int, bandwidth: float) -> float:
    """s on the air of `size` B in packets that are as long as they may be."""
    full, rest = divmod(math.ceil(size), LONGEST)
    whole = full * airtime(LONGEST + HEAD, spreading, bandwidth)
    return whole + (airtime(rest + HEAD, spreading, bandwidth) if rest else 0.0)


def noise(bandwidth: float) -> float:
    """dBm at a receiver; what is weaker by `NEEDED` is not received (Semtech AN1200.22)."""
    return -174.0 + 10.0 * math.log10(bandwidth) + NOISE_FIGURE
