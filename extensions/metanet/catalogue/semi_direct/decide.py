"""Semi-Direct: predict utilisation, then search on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.metanet.catalogue.estimate import PlacementEstimate
from cosim.extensions.metanet.catalogue.features import Features, features
from cosim.extensions.metanet.catalogue.networks import HOST_INPUT, host_input, stored
from cosim.extensions.metanet.catalogue.population import chance, said
from cosim.extensions.metanet.layers import Weights, made, perceptron, sigmoid
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, full, packed, spread
from cosim.schedulers.state import State, decides


def begin(rng: np.random.Generator) -> dict[str, Floats]:
    """Weights to begin with."""
    return made(rng, "busy", HOST_INPUT, 24, 24, 1)


def busy(lib: Any, weights: Weights, f: Features, decision: Any) -> Any:  # noqa: ANN401 - numpy or torch
    """(..., H) the share of each host's speed that the next interval will use, of a decision (..., T, H)."""
    return sigmoid(lib, perceptron(weights, "busy", host_input(lib, f, decision))[..., 0])


@decides("interval")
class SemiDirect:
    """A network predicts the utilisation of each host in the next interval; a local search minimises what follows.

    As MetaNet compares it. The search changes a task or two at a time and goes on from the best. Against the
    published code, where the search is called with an argument missing and so never ran as it is.
    """

    def __init__(self, rounds: int = 10, tried: int = 32) -> None:
        self.rounds, self.tried = rounds, tried
        self._weights, self._scale = stored("semi_direct"), Scale()

    def __call__(self, state: State) -> Ints:
        """(T,) destinations."""
        self._scale.see(state)
        can = np.flatnonzero(decided(state))
        f = features(state, self._scale) if len(can) else None
        can = can if f is None else can[(f.allowed[can] != 0.0).any(axis=1)]
        if f is None or not len(can):
            return np.full(len(state.tasks), -1, np.int64)
        core = float((state.hosts["speed"] / state.hosts["cores"]).mean())
        one = PlacementEstimate(state, self._scale, np.where(state.tasks["demand"] > 0.0, state.tasks["demand"], core))
        rng = chance(state)
        starts = np.array([full(state, row) for row in (spread(state), packed(state))])
        for t in np.flatnonzero((starts < 0).any(axis=0)):
            near = np.flatnonzero(f.allowed[t])
            starts[starts[:, t] < 0, t] = rng.choice(near) if len(near) else 0

        def cost(hosts: Ints) -> Floats:
            return one.cost(hosts, busy(np, self._weights, f, np.eye(len(state.hosts))[hosts]))

        values = cost(starts)
        best, least = starts[int(values.argmin())], float(values.min())
        for _ in range(self.rounds):
            rows = np.repeat(best[None, :], self.tried, axis=0)
            for part in range(2):
                now = np.flatnonzero(rng.random(self.tried) < 0.5**part)
                tasks = rng.choice(can, len(now))
                rows[now, tasks] = [rng.choice(np.flatnonzero(f.allowed[t])) for t in tasks]
            values = cost(rows)
            if values.min() < least:
                best, least = rows[int(values.argmin())], float(values.min())
        return said(state, best)
