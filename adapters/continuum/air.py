"""What links are like now: the radio's frames and the scenario's events, laid over one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.world import slots_of
from cosim.contract.entities import Event
from cosim.contract.frame import Frame

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """A `degrade` or `restore`: the pairs between two sets of nodes, and what they are like since."""

    event: Event
    a: NDArray[np.bool_]  # (slots,)
    b: NDArray[np.bool_]


class Changes:
    """The link events so far. For every pair of nodes the last event that names it holds."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changes: list[_Change] = []

    def add(self, event: Event) -> None:
        """Take note of a `degrade` or `restore` event."""
        if event.link is None:
            return
        self._changes = [change for change in self._changes if change.event.link != event.link]
        if event.do == "degrade" or self._changes:
            masks = []
            for side in event.link:
                mask = np.zeros(self._capacity, np.bool_)
                mask[slots_of(side)] = True
                masks.append(mask)
            self._changes.append(_Change(event, masks[0], masks[1]))

    def between(self, x: Slots, y: Slots) -> tuple[Floats, Floats, Floats]:
        """(rate factor, added delay in s, added loss) of the pairs (x[i], y[i]); y -1 for no pair."""
        factor, delay, loss = np.ones(len(x)), np.zeros(len(x)), np.zeros(len(x))
        for change in self._changes:
            hit = ((change.a[x] & change.b[y]) | (change.b[x] & change.a[y])) & (y >= 0)
            restored = change.event.do == "restore"
            factor[hit] = 1.0 if restored else change.event.rate
            delay[hit] = 0.0 if restored else change.event.delay
            loss[hit] = 0.0 if restored else change.event.loss
        return factor, delay, loss


@dataclass(frozen=True, slots=True, eq=False)
class Air:
    """The last known radio state: one row per device that has, or had, a radio link."""

    slot: Slots
    cell: Slots
    uplink: Floats  # bit/s
    downlink: Floats  # bit/s
    delay: Floats  # s
    loss: Floats

    @staticmethod
    def silent() -> Air:
        none, nothing = np.empty(0, np.int64), np.empty(0)
        return Air(none, none, nothing, nothing, nothing, nothing)

    def following(self, frames: Sequence[Frame], present: NDArray[np.bool_]) -> Air:
        """The radio by these `link` frames; devices that are no longer in them have lost their cell."""

        def column(name: str) -> NDArray[np.float64]:
            return np.concatenate([frame[name] for frame in frames]) if frames else np.empty(0)

        slot = np.concatenate([frame.slot for frame in frames]).astype(np.int64) if frames else np.empty(0, np.int64)
        here = present[slot]
        left = np.zeros(len(present), np.bool_)
        left[self.slot] = True
        left[slot] = False
        lost = np.flatnonzero(left & present)
        none, nothing = np.full(len(lost), -1, np.int64), np.zeros(len(lost))
        return Air(
            np.concatenate([slot[here], lost]),
            np.concatenate([column("cell").astype(np.int64)[here], none]),
            np.concatenate([column("uplink_rate")[here], nothing]),
            np.concatenate([column("downlink_rate")[here], nothing]),
            np.concatenate([column("delay")[here], nothing]),
            np.concatenate([column("loss")[here], nothing]),
        )
