"""Between whom orders and reports pass, and what those links are like now."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.adapters.vehicle.config import EngagePart, LinkPart
from cosim.contract.frame import Frame
from cosim.contract.records import Floats, Ints
from cosim.physics.vehicles.reports import PairLinks


class Hearing:
    """The links of n pairs: target to drone for reports, controller to drone for orders."""

    def __init__(self, parts: Sequence[EngagePart], slots: dict[str, int], capacity: int, usual: LinkPart) -> None:
        drone = np.array([slots[part.drone] for part in parts], np.int64)
        target = np.array([slots[part.target] for part in parts], np.int64)
        here = [part.controller is None for part in parts]
        control = np.array([slots[part.controller or part.drone] for part in parts], np.int64)
        self._capacity = capacity
        self._report, self._order = target * capacity + drone, control * capacity + drone
        self._wanted = np.unique(np.concatenate([self._report, self._order]))
        self._at_once = np.array(here, bool)
        self.links = PairLinks.steady(len(parts), usual.delay, usual.loss)
        self._no_radio()

    def take(self, frames: Sequence[Frame]) -> None:
        """Bring the links up to date; pairs without a row in any frame hear nothing. Without frames they stay."""
        if not frames:
            return
        kept: list[tuple[Ints, Floats]] = []
        for frame in frames:
            key = frame.slot.astype(np.int64) * self._capacity + frame["peer"]
            hit = np.flatnonzero(np.isin(key, self._wanted))
            figures = np.column_stack([frame[name][hit] for name in ("delay", "loss", "rssi", "rate")])
            kept.append((key[hit], figures))
        keys = np.concatenate([key for key, _ in kept])
        figures = np.concatenate([row for _, row in kept])
        self.links.delay, self.links.loss, self.links.rssi = self._of(self._report, keys, figures)
        self.links.command_delay, self.links.command_loss, _ = self._of(self._order, keys, figures)
        self._no_radio()

    def _no_radio(self) -> None:
        """Orders without a controller arrive at once."""
        self.links.command_delay[self._at_once] = 0.0
        self.links.command_loss[self._at_once] = 0.0

    def _of(self, wanted: Ints, keys: Ints, figures: Floats) -> tuple[Floats, Floats, Floats]:
        delay, loss, rssi = np.zeros(len(wanted)), np.ones(len(wanted)), np.full(len(wanted), np.nan)
        for k, key in enumerate(wanted):
            rows = figures[keys == key]
            rows = rows[rows[:, 3] > 0.0]  # one that carries nothing is none
            if len(rows):
                best = rows[np.argmin(rows[:, 1])]  # several radios: the surest
                delay[k], loss[k], rssi[k] = best[:3]
        return delay, loss, rssi
