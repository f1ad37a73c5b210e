"""Which slots are taken: those of static nodes always, those of a fleet while its owner shows a member there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame


class Presence:
    """Which slots are taken; read-only for others.

    `here` (capacity,) marks those taken now, `known` (capacity,) those ever taken, and `generation` (capacity,)
    counts how often each went to a new member.

    No member of a fleet is there before the first frame of its owner.
    """

    def __init__(self, scene: Scene) -> None:
        self.here = np.arange(scene.capacity) < len(scene.nodes)
        self.known = self.here.copy()
        self.generation = np.zeros(scene.capacity, np.int64)
        self._fleets = {fleet.first: fleet.first + fleet.capacity for fleet in scene.fleets}

    def take(self, frames: Iterable[Frame]) -> None:
        """Take in frames of `mobility`; those that own no fleet, as of machines that report positions, are ignored."""
        for frame in frames:
            if frame.table is None or frame.table.first not in self._fleets:
                continue
            first, end = frame.table.first, self._fleets[frame.table.first]
            self.generation[first : first + len(frame.table.ids)] = frame.table.generation
            self.here[first:end] = False
            self.here[frame.slot[(frame.slot >= first) & (frame.slot < end)]] = True
            self.known |= self.here
