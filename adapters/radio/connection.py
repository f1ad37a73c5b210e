"""The state of a device's connection: attached under an RNTI, out of sync, failed, and back by random access."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import LinkFailure
from cosim.contract.records import Flags, Floats
from cosim.contract.signals import CONNECTION_STATES

Ints = NDArray[np.int32]

_FIRST, _LAST = 0x4601, 0xFFEF  # RNTIs: srsRAN starts at the first; the last of TS 38.321 table 7.1-1
DETACHED, CONNECTED, OUT_OF_SYNC, RE_ESTABLISHING = range(len(CONNECTION_STATES))  # codes in the signal `ue`


class Connections:
    """Arrays (capacity,) over the slots of the scene."""

    def __init__(self, capacity: int, cells: int, timers: LinkFailure | None) -> None:
        self._timers = timers
        self.rnti = np.zeros(capacity, np.int32)
        self.failures = np.zeros(capacity, np.int32)  # of the radio link so far
        self.attached = np.zeros(cells, np.int64)  # RNTIs that each cell has given so far
        self._cell = np.full(capacity, -1, np.int32)  # that gave the RNTI
        self._since = np.full(capacity, np.nan)  # s, out of sync since then
        self._until = np.full(capacity, -np.inf)  # s, no access before then

    def forget(self, rows: Ints) -> None:
        """Reset these slots, which belong to other nodes now."""
        self.rnti[rows], self.failures[rows], self._cell[rows] = 0, 0, -1
        self._since[rows], self._until[rows] = np.nan, -np.inf

    def barred(self, rows: Ints, time: float) -> Flags:
        """Which of `rows` (n,) may not access a cell yet."""
        return np.asarray(self._until[rows] > time + 1e-9)

    def lost(self, rows: Ints, serving: Ints, sinr: Floats, least: float, time: float) -> Flags:
        """Which links of `rows` (n,) fail now, at `sinr` (n,) dB and the threshold `least`; counts them."""
        served = serving >= 0
        low = served & (sinr < least)
        if self._timers is None:
            failing = low
        else:
            started = self._cell[rows] == serving  # one that is only just getting access does not wait
            since = self._since[rows]
            begun = np.isnan(since)
            since = np.where(low & begun, time, since)
            since[~served | (sinr >= self._timers.in_sync)] = np.nan
            over = np.nan_to_num(time - since, nan=-1.0) >= self._timers.t310 - 1e-9
            failing = low & (~started | over)
            since[failing] = np.nan
            self._since[rows] = since
            self._until[rows[failing]] = time + self._timers.access
        self.failures[rows[failing & (self.rnti[rows] > 0)]] += 1
        return np.asarray(failing)

    def settle(self, rows: Ints, serving: Ints) -> None:
        """Give RNTIs to those of `rows` (n,) that a cell of `serving` (n,) has just taken up, in their order."""
        new = (serving >= 0) & (serving != self._cell[rows])
        for row, cell in zip(rows[new].tolist(), serving[new].tolist(), strict=True):
            self.rnti[row] = _FIRST + self.attached[cell] % (_LAST - _FIRST + 1)
            self.attached[cell] += 1
        self.rnti[rows[serving < 0]] = 0
        self._cell[rows] = serving

    def state(self, rows: Ints, serving: Ints, time: float) -> NDArray[np.int8]:
        """The code (n,) of each of `rows` in `STATES`."""
        state = np.where(serving >= 0, CONNECTED, DETACHED)
        state[(serving >= 0) & ~np.isnan(self._since[rows])] = OUT_OF_SYNC
        state[(serving < 0) & self.barred(rows, time)] = RE_ESTABLISHING
        return state.astype(np.int8)
