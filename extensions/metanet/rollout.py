"""Parallel rollout: the policy of a pool whose decision turns out best when all of them are tried on the model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.pool import Chooser
from cosim.schedulers.objective import costs
from cosim.schedulers.state import KEEP, State, decides


@decides("interval")
class Rollout(Chooser):
    """Carries out the decision of the seven policies of MetaNet's pool that costs least on the branching model.

    After Chang, Givan, Chong (Parallel rollout for online solution of partially observable Markov decision processes,
    Discrete Event Dynamic Systems 14, 2004), one interval ahead, with the cost of `catalogue.objective`. All seven
    decide in each interval, so it takes as long as all of them; nothing is learned. Where policies agree or cost the
    same, the first one of the pool counts as chosen. With `priced` the cost is the price of the hosts, in the interval
    and for what is then left.
    """

    branches = True  # tries candidates on the model

    def __init__(self, priced: bool = False) -> None:
        super().__init__()
        self.priced = priced

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations, of the policy whose decision costs least."""
        if state.branch is None:
            raise ValueError("rollout needs a model that can branch: continuum or interval")
        self.scale.see(state)
        if not len(state.tasks):
            return np.empty(0, np.int64)
        said = decisions(self, state)
        figures = state.branch(said)
        if self.priced:
            value = costs(figures, state, self.scale, 1.0) * figures["cost"] / np.maximum(figures["energy"], 1e-9)
        else:
            value = costs(figures, state, self.scale)
        best = int(value.argmin())
        self.counts[best] += 1
        chosen: NDArray[np.int64] = said[best]
        return chosen


def decisions(chooser: Chooser, state: State) -> NDArray[np.int64]:
    """(policies, T) what each policy of the pool would do, KEEP for tasks that stay."""
    rows = np.array([policy(state) for policy in chooser.pool], np.int64)
    return np.where(rows == state.tasks["host"], KEEP, rows)
