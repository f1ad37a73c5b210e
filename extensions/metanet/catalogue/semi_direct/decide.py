"""Semi-Direct: predict utilisation, then search on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.estimate import Estimate
from cosim.extensions.metanet.catalogue.features import features
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.population import chance, said
from cosim.extensions.metanet.catalogue.semi_direct.model import busy
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, full, packed, spread
from cosim.schedulers.state import State, decides


@decides("interval")
class SemiDirect:
    """A network predicts the utilisation of each host in the next interval; a local search minimises what follows.

    As MetaNet compares it. The search changes a task or two at a time and goes on from the best. Against the
    published code, where the search is called with an argument missing and so never ran as it is.
    """

    def __init__(self, rounds: int = 10, tried: int = 32) -> None:
        self.rounds, self.tried = rounds, tried
        self._weights, self._scale = stored("semi_direct"), Scale()

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations."""
        self._scale.see(state)
        can = np.flatnonzero(decided(state))
        if not len(can):
            return np.full(len(state.tasks), -1, np.int64)
        f = features(state, self._scale)
        core = float((state.hosts["speed"] / state.hosts["cores"]).mean())
        one = Estimate(state, self._scale, np.where(state.tasks["demand"] > 0.0, state.tasks["demand"], core))
        rng = chance(state)
        starts = np.array([full(state, row) for row in (spread(state), packed(state))])
        for t in np.flatnonzero((starts < 0).any(axis=0)):
            near = np.flatnonzero(f.allowed[t])
            starts[starts[:, t] < 0, t] = rng.choice(near) if len(near) else 0

        def cost(hosts: NDArray[np.int64]) -> NDArray[np.float64]:
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
