"""Links of all ordered pairs of Wi-Fi antennas, compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part, ready
from cosim.contract.records import Flags, Floats, Ints
from cosim.physics.radio.fast import ln
from cosim.physics.radio.pathloss import LIGHT
from cosim.physics.radio.wifi import LOWEST, STEP

Rows = NDArray[np.int32]
_DECIBELS = 10.0 / np.log(10.0)
_FIGURES = 5


class Antennas(NamedTuple):
    """n antennas and the tables of their links."""

    network: Ints  # (n,) those of one number hear each other
    emitted: Floats  # (n,) dBm, with the antenna's gain
    gain: Floats  # (n,) dB, of the receiver
    floor: Floats  # (n,) dBm of noise at the receiver
    reference: Floats  # (n,) dB of path loss at 1 m
    exponent: float
    reach: Floats  # (n,) m beyond which no receiver hears the sender
    curve: Ints  # (n,) number of the sender's table
    curves: Floats  # (c, k, 4), see `cosim.physics.radio.wifi.Curve.table`
    least: Floats  # (c,) dB where the links of a table begin


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The links there are, by sender, then by receiver; arrays (p,), views of a `Finder`'s memory."""

    sender: Rows  # numbers of the antennas
    receiver: Rows
    rate: Floats  # bit/s
    delay: Floats  # s
    jitter: Floats  # s
    loss: Floats  # 1
    rssi: Floats  # dBm


class Finder:
    """Finds pairs again and again in memory of its own; what it returns is good until the next call but one.

    Fresh memory for a million pairs costs more than the pairs themselves.
    """

    def __init__(self) -> None:
        self._buffers = [(np.empty((2, 0), np.int32), np.empty((_FIGURES, 0))) for _ in range(2)]

    def find(self, place: Floats, there: Flags, antennas: Antennas) -> Pairs:
        """The links between the antennas that are `there` (n,), at `place` (n, 3) m."""
        self._buffers.reverse()
        for _ in range(2):
            ends, figures = self._buffers[0]
            count = _find(place, there, antennas, ends, figures)
            if count <= ends.shape[1]:
                break
            room = count + count // 4
            self._buffers[0] = np.empty((2, room), np.int32), np.empty((_FIGURES, room))
        rate, delay, jitter, loss, rssi = figures[:, :count]
        return Pairs(ends[0, :count], ends[1, :count], rate, delay, jitter, loss, rssi)


def compiled() -> bool:
    """Whether the search starts without compiling."""
    return ready(_find)


@part
def _square(place: Floats, i: int, j: int) -> float:
    dx, dy, dz = place[i, 0] - place[j, 0], place[i, 1] - place[j, 1], place[i, 2] - place[j, 2]
    return float(dx * dx + dy * dy + dz * dz)


@entry()
def _find(place: Floats, there: Flags, a: Antennas, ends: Rows, figures: Floats) -> int:
    """The number of links; as many of them as there is room for go to `ends` (2, room) and `figures` (5, room)."""
    count, room = 0, ends.shape[1]
    slope = 0.5 * a.exponent * _DECIBELS
    for i in range(len(place)):
        if not there[i]:
            continue
        near, c = a.reach[i] * a.reach[i], a.curve[i]
        for j in range(len(place)):
            if j == i or a.network[j] != a.network[i] or not there[j]:
                continue
            square = _square(place, i, j)
            if square > near:
                continue
            rssi = a.emitted[i] + a.gain[j] - a.reference[i] - slope * ln(max(square, 1.0))
            snr = rssi - a.floor[j]
            if snr < a.least[c]:
                continue
            if count < room:
                k = min(int((snr - LOWEST) / STEP + 1e-6), a.curves.shape[1] - 1)
                ends[0, count], ends[1, count] = i, j
                figures[0, count] = a.curves[c, k, 0]
                figures[1, count] = a.curves[c, k, 1] + np.sqrt(square) / LIGHT
                figures[2, count] = a.curves[c, k, 2]
                figures[3, count] = a.curves[c, k, 3]
                figures[4, count] = rssi
            count += 1
    return count
