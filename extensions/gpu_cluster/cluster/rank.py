"""A model that ranks the orders of a window by features of its jobs and of the cluster's state.

The score of an order is w2 . tanh(W1 x + b1) + w . x over features x, least is best; the weights in
`weights.npz` were trained by `python -m cosim.extensions.gpu_cluster.cluster.train --windows 900` on windows of which
all orders had been simulated, with a pairwise logistic loss. The best by score, and the order of arrival, are then
simulated. Ranking needs numpy and the compiled `surrogate`, no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.gpu_cluster.cluster import surrogate
from cosim.extensions.gpu_cluster.cluster.order import all_orders, better
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSimulation

CHECKED = 8  # orders, the best by score, that are simulated besides that of arrival
SEARCH = 1100  # by (9 + leaves): up to so many orders are simulated while all could end earlier
FEATURES = surrogate.FEATURES


@dataclass(frozen=True, slots=True, eq=False)
class Ranker:
    """Weights of the model."""

    hidden: Floats  # (units, FEATURES)
    bias: Floats  # (units,)
    out: Floats  # (units,)
    direct: Floats  # (FEATURES,)

    def scores(self, features: Floats) -> Floats:
        """(orders,) least is best."""
        return np.asarray(np.tanh(features @ self.hidden.T + self.bias) @ self.out + features @ self.direct)

    def order(self, jobs: Sequence[int], simulation: ClusterSimulation, check: int = CHECKED) -> Sequence[int]:
        """The best of a few orders, each simulated: that of arrival, and those of the least scores.

        The score alone decides when `check` is 0. When all that runs could end earlier than it does
        with the best one of `check`, more follow, half of them with the longest job first; fewer in a
        larger cluster, where each takes longer: so the time of a window is bounded.
        """
        if len(jobs) < 2:
            return list(jobs)
        places = all_orders(len(jobs))
        ranked = np.argsort(self.scores(features(jobs, simulation)), kind="stable")
        orders = np.asarray(jobs)[places[ranked]]
        if check == 0:
            return [int(job) for job in orders[0]]
        first = int(np.flatnonzero(ranked == 0)[0])  # the order of arrival
        kept = np.concatenate([orders[first : first + 1], orders[: check + 1]])
        found = simulation.try_orders(kept)
        most = min(len(orders), max(check, SEARCH // (9 + simulation.fabric.leaves)))
        if most > check + 1 and found[:, 0].min() > simulation.bound(jobs) * (1.0 + 1e-9):
            more = orders[check + 1 :]
            longest = jobs[int(np.argmax(simulation.state.job["left"][np.asarray(jobs)]))]
            early = np.flatnonzero(more[:, 0] == longest)[: (most - check) // 2]
            rest = np.setdiff1d(np.arange(len(more)), early)
            more = more[np.concatenate([early, rest])[: most - check - 1]]
            kept, found = np.concatenate([kept, more]), np.concatenate([found, simulation.try_orders(more)])
        return [int(job) for job in kept[better(found)[0]]]


def features(jobs: Sequence[int], simulation: ClusterSimulation) -> Floats:
    """(orders, FEATURES) of all orders of waiting jobs, without dimension."""
    return simulation.features(jobs, all_orders(len(jobs)))


@cache
def shipped() -> Ranker:
    """The ranker with the weights of the package."""
    with np.load(Path(__file__).with_name("weights.npz")) as file:
        return Ranker(*(file[one.name] for one in fields(Ranker)))


def ranked(jobs: Sequence[int], simulation: ClusterSimulation) -> Sequence[int]:
    """The best order according to the shipped ranker."""
    return shipped().order(jobs, simulation)
