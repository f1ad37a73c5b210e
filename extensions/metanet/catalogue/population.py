"""What searches over whole placements share: a cost for many of them at once, and what to begin with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosim.contract.records import Flags, Floats, Ints
from cosim.extensions.metanet.catalogue.features import Features, features
from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate
from cosim.extensions.metanet.catalogue.relaxed import scales
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, full, packed, settle, spread
from cosim.schedulers.state import State

_OVER = 10.0  # added per unit of load that does not fit


class PlacementSearch(NamedTuple):
    """One decision as a search over vectors of hosts."""

    features: Features
    surrogate: DecisionSurrogate
    parts: tuple[float, float]
    can: Flags  # (T,) may change
    starts: Ints  # (n, T) hosts of simple decisions that all place as many tasks as they can
    choices: list[Ints]  # (T) hosts that each task may be on

    def cost(self, hosts: Ints) -> Floats:
        """(n,) predicted cost of placements (n, T); those that do not fit cost more."""
        f = self.features
        d = np.eye(len(f.hosts))[hosts]
        sums = d.transpose(0, 2, 1) @ f.tasks
        over = np.maximum(sums[:, :, 1] / f.speed - 1.0, 0.0) + np.maximum(sums[:, :, 3] / f.room - 1.0, 0.0)
        found: Floats = self.surrogate.objective(f, d, self.parts) + _OVER * over.sum(axis=1)
        return found


def problem(state: State, scale: Scale, surrogate: DecisionSurrogate) -> PlacementSearch | None:
    """The search for one decision; None when there is nothing to decide."""
    can = decided(state)
    if not can.any():
        return None
    f = features(state, scale)
    choices = [np.flatnonzero(row) for row in f.allowed]
    rng = chance(state)
    starts = np.array([full(state, row) for row in (spread(state), packed(state))])
    for t in np.flatnonzero((starts < 0).any(axis=0)):  # fits nowhere: anywhere, to be refused
        starts[starts[:, t] < 0, t] = rng.choice(choices[t]) if len(choices[t]) else 0
    return PlacementSearch(f, surrogate, scales(state, scale), can, starts, choices)


def chance(state: State) -> np.random.Generator:
    """Draws of a policy's own, the same for the same state."""
    return np.random.Generator(np.random.PCG64(int(2**53 * float(state.tasks["chance"][0]))))


def said(state: State, hosts: Ints) -> Ints:
    """(T,) destinations that can be carried out, from the hosts found."""
    scores = np.zeros((len(hosts), len(state.hosts)))
    scores[np.arange(len(hosts)), hosts] = 1.0
    return settle(state, scores)
