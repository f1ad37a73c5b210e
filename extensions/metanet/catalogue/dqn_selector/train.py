"""Train the DQN selector: `python -m cosim.extensions.metanet.catalogue.train dqn-selector` (extra `learn`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.metanet.model import begin, costs
from cosim.extensions.metanet.catalogue.metanet.train import IntervalRecord, regressed, runs
from cosim.extensions.metanet.catalogue.pool import POOL

DISCOUNT = 0.8


def train(
    seed: int = 5, worlds: int = 35, intervals: int = 26, rounds: int = 6, epochs: int = 12
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights, and the loss of the last round; MetaNet's data, the target network anew in each round."""
    rows = runs(seed, worlds, intervals)
    weights, loss = fitted(rows, seed, rounds, epochs)
    return weights, {"seed": seed, "worlds": worlds, "intervals": len(rows), "rounds": rounds, "loss": loss}


def fitted(rows: Sequence[IntervalRecord], seed: int, rounds: int, epochs: int) -> tuple[dict[str, Floats], float]:
    """Weights from what was heard, and the loss of the last round."""
    seen, after = np.stack([row.seen for row in rows]), np.stack([row.following for row in rows])
    policy, cost = np.array([row.policy for row in rows]), np.array([row.cost for row in rows])
    weights = begin(np.random.Generator(np.random.PCG64(seed)), seen, np.full(len(POOL), cost.max() / (1.0 - DISCOUNT)))
    losses = [0.0]
    for k in range(rounds):
        ahead = costs(np, weights, after).min(axis=1) if k else np.full(len(rows), cost.mean() / (1.0 - DISCOUNT))
        target = cost + DISCOUNT * ahead
        weights, losses = regressed(weights, seen, policy, target, float(cost.std()), epochs, seed + k)
    return weights, losses[-1]
