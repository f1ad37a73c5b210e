"""Particle swarm optimisation over placements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.population import chance, problem, said
from cosim.schedulers.objective import Scale
from cosim.schedulers.state import State, decides


@decides("interval")
class Swarm:
    """Particles in the space of a logit per task and host (Kennedy and Eberhart 1995), GOBI's surrogate as cost.

    A particle's placement is the host with the highest logit of each task. Velocities follow the particle's
    best and the swarm's best, each with a weight drawn anew, and inertia; the better of old and new best is
    kept. Against the published code, which replaces rows at random, has no velocities and keeps the worse.
    """

    def __init__(self, size: int = 16, steps: int = 12, inertia: float = 0.72, pull: float = 1.49) -> None:
        self.size, self.steps, self.inertia, self.pull = size, steps, inertia, pull  # Clerc and Kennedy 2002
        self.surrogate, self._scale = DecisionSurrogate(stored("gobi")), Scale()

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations."""
        self._scale.see(state)
        one = problem(state, self._scale, self.surrogate)
        if one is None:
            return np.full(len(state.tasks), -1, np.int64)
        rng = chance(state)
        shape = (self.size, *one.features.allowed.shape)
        begin = np.eye(shape[2])[one.starts][np.arange(self.size) % len(one.starts)]
        shut = np.where(one.features.allowed > 0.0, 0.0, -1e9)
        shut = np.where(one.can[:, None], shut, np.where(begin[0] > 0.0, 0.0, -1e9))
        noise = rng.random(shape) * np.linspace(0.0, 1.2, self.size)[:, None, None]
        at = begin + noise
        velocity = 0.2 * (rng.random(shape) - 0.5)
        hosts = (at + shut).argmax(axis=2)
        best, least = at.copy(), one.cost(hosts)
        chosen, top = hosts[int(least.argmin())], int(least.argmin())
        value = float(least[top])
        leader = best[top].copy()
        for _ in range(self.steps):
            own, swarm = rng.random((2, *shape[:2], 1))
            velocity = self.inertia * velocity + self.pull * (own * (best - at) + swarm * (leader - at))
            at = at + velocity
            hosts = (at + shut).argmax(axis=2)
            cost = one.cost(hosts)
            better = cost < least
            best[better], least[better] = at[better], cost[better]
            top = int(least.argmin())
            if least[top] < value:
                value, leader, chosen = float(least[top]), best[top].copy(), hosts[top]
        return said(state, chosen)
