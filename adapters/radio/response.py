"""What devices do about alarms: they stay away from cells for a while."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adapters.radio.config import Response
from adapters.radio.scenery import Stations
from adapters.radio.state import State
from cosim.contract.frame import Frame

Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Responses:
    """Which device avoids which cell until when; arrays over the slots of the scene and the m cells."""

    def __init__(self, response: Response | None, stations: Stations, capacity: int) -> None:
        self._response, self._carrier = response, stations.carrier
        size = capacity if response is not None else 0
        self._until = np.full(size, -np.inf)  # s
        self._since = np.full(size, -np.inf)  # s, of the last response
        self._avoided = np.full(size, -1, np.int32)  # cell that it had at the alarm
        spare = response.spare if response is not None else ()
        self._spare = np.array([name in spare for name in stations.ids], bool)  # (m,)
        self._awake = -np.inf  # s until which the spare cells send
        self.taken = 0  # responses that began

    def take(self, frames: Sequence[Frame], rows: Ints, serving: Ints, new: Flags, time: float) -> None:
        """Take in the alarms about `rows` (n,) at `serving` (n,); `new` ones have none yet."""
        if self._response is None:
            return
        self._until[rows[new]] = -np.inf
        for frame in frames:
            on = np.zeros(len(self._until), bool)
            on[frame.slot] = frame["on"]
            if on.any():
                self._awake = time + self._response.hold
            alarmed = on[rows] & (serving >= 0) & ~new
            settled = time - self._since[rows] >= self._response.settle
            moved = self._avoided[rows] != serving  # an alarm there is about that cell, once the windows are over
            fresh = alarmed & ((self._until[rows] <= time) | (moved & settled))
            self.taken += int(fresh.sum())
            self._avoided[rows[fresh]] = serving[fresh]
            self._since[rows[fresh]] = time
            self._until[rows[on[rows]]] = time + self._response.hold

    def asleep(self, time: float) -> Flags:
        """Which cells (m,) are spare ones that send nothing at `time`."""
        return self._spare & (time >= self._awake)

    def leaving(self, rows: Ints, time: float) -> Flags:
        """Which of `rows` (n,) leave the air."""
        if self._response is None or self._response.do != "disconnect":
            return np.zeros(len(rows), bool)
        return np.asarray(self._until[rows] > time)

    def hidden(self, rows: Ints, state: State, time: float) -> tuple[Ints, NDArray[np.float64]]:
        """Hide avoided cells from those that choose, if there is another one; what to put back with `shown`."""
        if self._response is None or self._response.do == "disconnect":
            return rows[:0], np.empty((0, 0))
        mine = rows[(self._until[rows] > time) & (self._avoided[rows] >= 0)]
        kept = state.power[mine].copy()
        avoided = self._avoided[mine]
        if self._response.do == "other-carrier":
            hide = self._carrier == self._carrier[avoided][:, None]
        else:
            hide = np.arange(len(self._carrier)) == avoided[:, None]
        left = np.where(hide, 0.0, kept)
        some = left.max(axis=1, initial=0.0) > 0.0
        state.power[mine[some]] = left[some]
        return mine, kept

    @staticmethod
    def shown(hidden: tuple[Ints, NDArray[np.float64]], state: State) -> None:
        """Put back what `hidden` hid."""
        rows, power = hidden
        if len(rows):
            state.power[rows] = power
