"""What hosts that really compute add to the books: the load that they measured, and the energy of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.adapters.continuum.equipment import power_table
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.records import Flags, Floats, Ints
from cosim.contract.signals import NODE_METERS
from cosim.engine.continuum.power import table

_METERS = [NODE_METERS.index(name) for name in NODE_METERS if name not in ("none", "modelled")]


class RealLoad:
    """Load and energy beside what the engine simulates, per slot.

    A node's share of busy cores is what it measured (`resources`) and what the engine simulates there, together at
    most 1. Its energy is what a meter of its own shows; without one it is what its power curve gives for that share.
    The engine's own account of the node goes on, so the energy here is the difference to it. Batteries and tariffs do
    not know of it.
    """

    def __init__(self, scene: Scene) -> None:
        templates: Sequence[Node] = (*scene.nodes, *(fleet.template for fleet in scene.fleets))
        group = np.arange(scene.capacity)
        for number, fleet in enumerate(scene.fleets, len(scene.nodes)):
            group[fleet.first : fleet.first + fleet.capacity] = number
        self._group = group
        self._tables = [np.array(power_table(node.power, node.cores)) for node in templates]
        self._cores = np.array([node.cores for node in templates], np.float64)[group]
        self._share = np.full(scene.capacity, np.nan)  # of the cores, as measured last; NaN: not measured
        self._watts = np.full(scene.capacity, np.nan)
        self.energy = np.zeros(scene.capacity)  # J beyond the engine's
        self.busy = np.zeros(scene.capacity)  # core-s beyond the engine's
        self.metered: set[int] = set()  # slots whose energy a meter has shown
        self.modelled: set[int] = set()  # whose energy was modelled from a measured load

    def heard(self, frames: Sequence[Frame]) -> None:
        """The frames of `resources`."""
        self._share[:], self._watts[:] = np.nan, np.nan
        for frame in frames:
            here = frame["present"] & np.isfinite(frame["cpu"]) & (self._cores[frame.slot] > 0)
            if not here.any():
                continue
            self._share[frame.slot[here]] = frame["cpu"][here]
            metered = here & np.isin(frame["meter"], _METERS) & np.isfinite(frame["power"])
            self._watts[frame.slot[metered]] = frame["power"][metered]

    def passed(self, slots: Ints, span: Floats, share: Floats, energy: Floats, up: Flags) -> None:
        """Enter an interval of `span` (s) with the engine's `share` of the cores and `energy` (J), all (n,)."""
        measured = np.where(up, self._share[slots], np.nan)
        for k in np.flatnonzero(np.isfinite(measured) & (span > 0.0)).tolist():
            slot = int(slots[k])
            whole = min(1.0, float(share[k] + measured[k]))
            self.busy[slot] += (whole - share[k]) * self._cores[slot] * span[k]
            watts, curve = self._watts[slot], self._tables[self._group[slot]]
            if np.isfinite(watts):
                self.energy[slot] += watts * span[k] - energy[k]
                self.metered.add(slot)
            elif len(curve):
                self.energy[slot] += float(table(whole, curve) - table(float(share[k]), curve)) * span[k]
                self.modelled.add(slot)
