"""What a follower knows of whom it follows: position reports over a link with delay and loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.compiled.splitmix import STEP, mix
from cosim.contract.records import Floats, Ints

Words = NDArray[np.uint64]

_DEPTH = 64  # reports on the way at once; an older one is given up


@dataclass(slots=True, eq=False)
class PairLinks:
    """The links of n pairs, as they are now; arrays (n,)."""

    delay: Floats  # s, of a report from the target to the drone
    loss: Floats  # 1
    rssi: Floats  # dBm, NaN: not known
    command_delay: Floats  # s, of a command from the controller to the drone
    command_loss: Floats  # 1

    @staticmethod
    def steady(count: int, delay: float = 0.0, loss: float = 0.0) -> PairLinks:
        """The same for all, in both directions."""
        late, lost = np.full(count, delay), np.full(count, loss)
        return PairLinks(late, lost, np.full(count, np.nan), late.copy(), lost.copy())


class Chance:
    """Uniform draws by counter: draw k of a key depends on no other key (SplitMix64, Steele et al. 2014)."""

    def __init__(self, keys: Words) -> None:
        self._keys = mix(keys + STEP)
        self._drawn = np.zeros(len(keys), np.uint64)

    def draw(self, which: Ints) -> Floats:
        """The next draw (m,) in [0, 1) of the keys `which` (m,), each named once."""
        self._drawn[which] += np.uint64(1)
        words = mix(self._keys[which] + self._drawn[which] * STEP)
        return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


class Reports:
    """Reports of n targets on their way to n followers, and the newest that each has received.

    `place` (n, 3) m, `velocity` (n, 3) m/s, `heading` (n,) rad, and `sent` (n,) s, the time for which
    they hold: -inf before the first.
    """

    def __init__(self, count: int, chance: Chance) -> None:
        self._chance = chance
        self._due = np.full((_DEPTH, count), np.inf)  # s of arrival
        self._moment = np.full((_DEPTH, count), -np.inf)  # s of sending
        self._said = np.zeros((_DEPTH, count, 7))
        self._next = np.zeros(count, np.int64)
        self._known = np.zeros((count, 7))
        self.sent = np.full(count, -np.inf)
        self.sends = np.zeros(count, np.int64)  # reports so far
        self.losses = np.zeros(count, np.int64)
        self.outside = np.zeros(count, bool)  # reports that travel over a network outside this model; see `hear`

    @property
    def place(self) -> Floats:
        return self._known[:, 0:3]

    @property
    def velocity(self) -> Floats:
        return self._known[:, 3:6]

    @property
    def heading(self) -> Floats:
        return self._known[:, 6]

    def send(self, which: Ints, now: float, said: Floats, delay: Floats, loss: Floats) -> None:
        """Send `said` (m, 7), place, velocity and heading, to the followers `which` (m,)."""
        inside = ~self.outside[which]
        which, said, delay, loss = which[inside], said[inside], delay[inside], loss[inside]
        lost = self._chance.draw(which) < loss
        self.sends[which] += 1
        self.losses[which] += lost
        reported, late = which[~lost], delay[~lost]
        at = self._next[reported]
        self._due[at, reported], self._moment[at, reported], self._said[at, reported] = now + late, now, said[~lost]
        self._next[reported] = (at + 1) % _DEPTH

    def hear(self, follower: int, sent: float, said: ArrayLike) -> None:
        """Take in a report (7,) that has come another way; an older one than the last is dropped."""
        if sent > self.sent[follower]:
            self._known[follower] = said
            self.sent[follower] = sent

    def receive(self, now: float) -> None:
        """Take in what has arrived; a report that was overtaken by a newer one is dropped."""
        here = self._due <= now + 1e-9
        if not here.any():
            return
        moments = np.where(here, self._moment, -np.inf)
        newest = np.argmax(moments, axis=0)
        column = np.arange(len(newest))
        fresh = column[moments[newest, column] > self.sent]
        self._known[fresh] = self._said[newest[fresh], fresh]
        self.sent[fresh] = self._moment[newest[fresh], fresh]
        self._due[here] = np.inf
