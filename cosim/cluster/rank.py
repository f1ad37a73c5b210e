"""A model that ranks the orders of a window by features of its jobs and of the cluster's state.

The score of an order is w2 . tanh(W1 x + b1) + w . x over features x, least is best; the weights in
`weights.py` were trained by `python -m cosim.cluster.train` on windows of which all orders had been
simulated, with a pairwise logistic loss. Ranking needs numpy and the compiled `surrogate`, no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cosim.cluster import surrogate
from cosim.cluster.engine import layout as l
from cosim.cluster.order import all_orders, better
from cosim.cluster.simulate import Simulation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CHECKED = 3  # orders, the best by score, of which the best one is found by simulating them
FEATURES = surrogate.FIGURES + 4  # and where long, large, costly and all-to-all jobs stand in the order


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

    def order(self, jobs: Sequence[int], simulation: Simulation, check: int = CHECKED) -> Sequence[int]:
        """The jobs in the order of the least score; of the `check` first ones the best, each simulated."""
        if len(jobs) < 2:
            return list(jobs)
        orders = np.asarray(jobs)[all_orders(len(jobs))]
        ranked = np.argsort(self.scores(features(jobs, simulation)), kind="stable")[:check]
        first = better(simulation.try_orders(orders[ranked]))[0] if check > 1 else 0
        return [int(job) for job in orders[ranked[first]]]


def features(jobs: Sequence[int], simulation: Simulation) -> Floats:
    """(orders, FEATURES) of all orders of waiting jobs, without dimension."""
    chosen, s = np.asarray(jobs, np.int64), simulation.state
    orders = all_orders(len(chosen))
    job = s.job[chosen]
    ring = (job["pattern"] != l.ALL_TO_ALL).astype(np.int64)
    n, work = job["n"].astype(np.int64), job["left"].astype(np.float64)
    ends, held, taken = _running(simulation)
    found = np.zeros((len(orders), surrogate.FIGURES))
    surrogate.look(
        orders, n, work, ring, job["rails"].astype(np.int64), ends, held, taken, s.leaf["free"].astype(np.int64),
        s.leaf["up"].astype(np.int64), simulation.now, found,
    )  # fmt: skip
    scale = float(work.mean())
    found[:, :2] /= scale
    found[:, 2] /= scale * len(chosen)
    found[:, 3] /= scale * simulation.fabric.gpus
    found[:, 4] /= scale * len(chosen)
    found[:, 5] /= len(chosen)
    found[:, :4] -= found[:, :4].min(0)
    place = (np.argsort(orders, axis=1) - 0.5 * (len(chosen) - 1)) / len(chosen)  # (orders, job) where it stands

    def centred(values: Floats) -> Floats:
        spread = float(values.std())
        return (values - values.mean()) / spread if spread > 0.0 else np.zeros(len(values))

    kinds = np.stack([centred(work), centred(n.astype(float)), centred(n * work), centred(ring.astype(float))])
    found[:, 4:6] -= found[:, 4:6].min(0)
    return np.concatenate([found, place @ kinds.T], axis=1)


def _running(simulation: Simulation) -> tuple[Floats, Ints, Ints]:
    """Ends of the running jobs, ascending, and what each gives back to each leaf: GPUs, uplinks."""
    s, count = simulation.state, int(simulation["running"])
    which = np.argsort(s.due, kind="stable")[:count]
    ends = s.due[which]
    leaves = simulation.fabric.leaves
    row = np.full(len(s.job), -1, np.int64)
    row[which] = np.arange(count)
    owned = np.flatnonzero(s.gpu["owner"] >= 0)
    leaf = s.server["leaf"][owned // simulation.fabric.per_server]
    held = np.bincount(row[s.gpu["owner"][owned]] * leaves + leaf, minlength=count * leaves)
    ports = np.flatnonzero(s.port["holder"] >= 0)
    taken = np.bincount(row[s.port["holder"][ports]] * leaves + s.port["leaf"][ports], minlength=count * leaves)
    return ends.copy(), held.reshape(count, leaves).astype(np.int64), taken.reshape(count, leaves).astype(np.int64)


def shipped() -> Ranker:
    """The ranker with the weights of the package."""
    from cosim.cluster import weights

    return Ranker(*(np.array(getattr(weights, name)) for name in ("HIDDEN", "BIAS", "OUT", "DIRECT")))


@cache
def _shipped() -> Ranker:
    return shipped()


def ranked(jobs: Sequence[int], simulation: Simulation) -> Sequence[int]:
    """The order that the shipped ranker says is best."""
    return _shipped().order(jobs, simulation)
