"""Failed nodes and degraded links, as the events of the scenario leave them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Event, SlotRange

Ranges = tuple[SlotRange, ...]
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Degraded:
    a: Ranges
    b: Ranges
    delay: float  # s
    loss: float  # 1
    rate: float  # 1


class Faults:
    """Which slots are failed, and what is added to which links."""

    def __init__(self, capacity: int) -> None:
        self.failed = np.zeros(capacity, bool)  # (capacity,)
        self._degraded: list[_Degraded] = []

    def take(self, events: Sequence[Event]) -> None:
        """Apply what became due, in order. A second degradation of the same link replaces the first."""
        for event in events:
            if event.do in ("fail", "recover"):
                for where in event.nodes:
                    self.failed[where.first : where.first + where.count] = event.do == "fail"
            elif event.link is not None and event.do in ("degrade", "restore"):
                a, b = event.link
                self._degraded = [entry for entry in self._degraded if not _within(entry, a, b)]
                if event.do == "degrade":
                    self._degraded.append(_Degraded(a, b, event.delay, event.loss, event.rate))

    @property
    def degrades(self) -> bool:
        """Whether any link is degraded now."""
        return bool(self._degraded)

    def apply(self, device: Ints, cell: Ints, rates: Sequence[Floats], delay: Floats, loss: Floats) -> None:
        """Change `rates`, `delay` and `loss` (n,) of the links between slots `device` and `cell` in place."""
        for entry in self._degraded:
            hit = (_in(device, entry.a) & _in(cell, entry.b)) | (_in(device, entry.b) & _in(cell, entry.a))
            for rate in rates:
                rate[hit] *= entry.rate
            delay[hit] += entry.delay
            loss[hit] = 1.0 - (1.0 - loss[hit]) * (1.0 - entry.loss)


def _in(slots: Ints, ranges: Ranges) -> NDArray[np.bool_]:
    inside = np.zeros(len(slots), bool)
    for where in ranges:
        inside |= (slots >= where.first) & (slots < where.first + where.count)
    return inside


def _within(entry: _Degraded, a: Ranges, b: Ranges) -> bool:
    """Whether all links of `entry` are between `a` and `b`."""
    return (_covers(a, entry.a) and _covers(b, entry.b)) or (_covers(a, entry.b) and _covers(b, entry.a))


def _covers(outer: Ranges, inner: Ranges) -> bool:
    return all(any(o.first <= i.first and i.first + i.count <= o.first + o.count for o in outer) for i in inner)
