"""What a placement costs by a plain estimate, for schedulers without a surrogate: forecasts in, energy and time out."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.schedulers.objective import WEIGHT, Scale, powers
from cosim.schedulers.placing import transfers
from cosim.schedulers.state import State

_OVER = 10.0  # added per unit of load that does not fit


class PlacementEstimate:
    """Costs of many placements (n, T) of one state, by the forecast demand of each task.

    The tasks on a host share its speed: each gets its demand and an equal part of the rest, as far as the
    stretch that has been seen. Energy is that of the work and, where empty hosts are switched off, the
    idle power until the last task ends. `busy` (n, H), if a model predicts it, replaces the share of each host's speed.
    """

    def __init__(self, state: State, scale: Scale, demand: Floats, weight: float = WEIGHT) -> None:
        self.state, self.scale, self.demand, self.weight = state, scale, demand, weight
        self.idle, self.full = powers(state)
        self.transfer = transfers(state)
        at = state.tasks["host"].astype(np.int64)
        placed = np.flatnonzero(at >= 0)
        held = np.bincount(at[placed], state.tasks["memory"][placed], len(state.hosts))
        self.memory = state.hosts["memory"] + held

    def cost(self, hosts: Ints, busy: Floats | None = None) -> Floats:
        """(n,) in the units of `objective`."""
        state, tasks, speed = self.state, self.state.tasks, self.state.hosts["speed"]
        rows, count, wide = len(hosts), hosts.shape[1], len(speed)
        flat = (hosts + wide * np.arange(rows)[:, None]).ravel()

        def sums(values: Floats) -> Floats:
            found: Floats = np.bincount(flat, np.tile(values, rows), rows * wide).reshape(rows, wide).astype(np.float64)
            return found

        asked, on, held = sums(self.demand), sums(np.ones(count)), sums(tasks["memory"])
        served = np.minimum(asked * self.scale.stretch, speed) if busy is None else busy * speed
        rate = np.maximum(served, 1e-9) / np.maximum(asked, 1e-9)
        mine = np.minimum(np.take_along_axis(rate, hosts, axis=1) * self.demand, self.scale.stretch * self.demand)
        seconds = tasks["work"] / np.maximum(mine, 1e-9) + self.transfer[np.arange(count), hosts]
        work = sums(tasks["work"])
        energy = ((self.full - self.idle) * work / speed).sum(axis=1)
        if self.scale.off:
            longest = np.zeros(rows * wide)
            np.maximum.at(longest, flat, seconds.ravel())
            energy += (self.idle * np.maximum(longest.reshape(rows, wide), state.interval * (on > 0.0))).sum(axis=1)
        over = np.maximum(asked / speed - 1.0, 0.0) + np.maximum(held / np.maximum(self.memory, 1.0) - 1.0, 0.0)
        length = state.interval
        found: Floats = (
            self.weight * energy / (self.scale.power * length)
            + (1.0 - self.weight) * seconds.sum(axis=1) / (self.scale.tasks * length)
            + _OVER * over.sum(axis=1)
        )
        return found
