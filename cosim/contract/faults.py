"""Failed nodes and degraded links, as the events of the scenario leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Event, SlotRange
from cosim.contract.records import Flags, Floats, Ints

Ranges = tuple[SlotRange, ...]
Slots = NDArray[np.int32] | Ints


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """A `degrade` or `restore`: the pairs between two sets of nodes, and what they are like since."""

    event: Event
    a: Flags  # (capacity,)
    b: Flags


class LinkChanges:
    """The link events so far. For every pair of nodes the last event that names it holds."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changes: list[_Change] = []

    def add(self, event: Event) -> None:
        """Take note of a `degrade` or `restore` event; others change nothing."""
        if event.link is None or event.do not in ("degrade", "restore"):
            return
        a, b = (self._mask(side) for side in event.link)
        self._changes = [one for one in self._changes if not _within(one, a, b)]
        if event.do == "degrade" or self._changes:
            self._changes.append(_Change(event, a, b))

    def __bool__(self) -> bool:
        """Whether any link may be degraded now."""
        return bool(self._changes)

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

    def _mask(self, ranges: Ranges) -> Flags:
        found = np.zeros(self._capacity, np.bool_)
        for where in ranges:
            found[where.first : where.first + where.count] = True
        return found


class Faults:
    """Which slots are failed, and what is added to which links."""

    def __init__(self, capacity: int) -> None:
        self.failed = np.zeros(capacity, bool)  # (capacity,)
        self._links = LinkChanges(capacity)

    def take(self, events: Sequence[Event]) -> None:
        """Apply what became due, in order."""
        for event in events:
            if event.do in ("fail", "recover"):
                for where in event.nodes:
                    self.failed[where.first : where.first + where.count] = event.do == "fail"
            else:
                self._links.add(event)

    @property
    def degrades(self) -> bool:
        """Whether any link may be degraded now."""
        return bool(self._links)

    def apply(self, device: Slots, cell: Slots, rates: Sequence[Floats], delay: Floats, loss: Floats) -> None:
        """Change `rates`, `delay` and `loss` (n,) of the links between slots `device` and `cell` in place."""
        if not self._links:
            return
        factor, more, lost = self._links.between(device, cell)
        for rate in rates:
            rate *= factor
        delay += more
        hit = lost > 0.0
        loss[hit] = 1.0 - (1.0 - loss[hit]) * (1.0 - lost[hit])


def _within(change: _Change, a: Flags, b: Flags) -> bool:
    """Whether all pairs of `change` are between `a` and `b`."""
    first, second = change.a, change.b
    return bool(
        (not (first & ~a).any() and not (second & ~b).any()) or (not (first & ~b).any() and not (second & ~a).any())
    )
