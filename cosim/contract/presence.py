"""Which slots have somebody: static nodes always, those of a fleet while its owner shows a member there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame


class Presence:
    """Who has the slots; read only for others.

    `here` (capacity,) says which are taken now, `known` (capacity,) which ever were, `generation` (capacity,) how often
    they went to somebody new.

    Nobody of a fleet is there before the first frame of its owner.
    """

    def __init__(self, scene: Scene) -> None:
        self.here = np.arange(scene.capacity) < len(scene.nodes)
        self.known = self.here.copy()
        self.generation = np.zeros(scene.capacity, np.int64)
        self._fleets = {fleet.first: fleet.first + fleet.capacity for fleet in scene.fleets}

    def take(self, frames: Iterable[Frame]) -> None:
        """Frames of `mobility`; those that own no fleet, as of machines that report positions, say nothing."""
        for frame in frames:
            if frame.table is None or frame.table.first not in self._fleets:
                continue
            first, end = frame.table.first, self._fleets[frame.table.first]
            self.generation[first : first + len(frame.table.ids)] = frame.table.generation
            self.here[first:end] = False
            self.here[frame.slot[(frame.slot >= first) & (frame.slot < end)]] = True
            self.known |= self.here
