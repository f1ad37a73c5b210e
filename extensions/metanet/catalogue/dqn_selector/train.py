"""Train the DQN selector: `python -m cosim.extensions.metanet.catalogue.train dqn-selector` (extra `learn`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cosim.extensions.metanet.catalogue.metanet.model import begin, costs
from cosim.extensions.metanet.catalogue.metanet.train import IntervalRecord, runs
from cosim.extensions.metanet.catalogue.pool import POOL
from cosim.extensions.metanet.catalogue.training import fit, library
from cosim.schedulers.state import Floats

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
    torch = library()

    seen, after = np.stack([row.seen for row in rows]), np.stack([row.following for row in rows])
    policy, cost = np.array([row.policy for row in rows]), np.array([row.cost for row in rows])
    unit = float(cost.std()) + 1e-12  # as in metanet's: steps do not depend on the currency
    weights = begin(np.random.Generator(np.random.PCG64(seed)), seen, np.full(len(POOL), cost.max() / (1.0 - DISCOUNT)))
    fixed_names = ("mean", "deviation", "greatest")
    fixed = {name: torch.tensor(weights[name], dtype=torch.float32) for name in fixed_names}
    parts = np.array_split(np.arange(len(rows)), max(1, len(rows) // 32))
    losses = [0.0]

    def loss(changed: dict[str, Any], sample: Any) -> Any:  # noqa: ANN401
        x, which, true = sample
        error = costs(torch, changed | fixed, x).gather(1, which[:, None])[:, 0] - true
        return ((error / unit) ** 2).mean()

    for k in range(rounds):
        ahead = costs(np, weights, after).min(axis=1) if k else np.full(len(rows), cost.mean() / (1.0 - DISCOUNT))
        target = cost + DISCOUNT * ahead
        samples = [
            (torch.tensor(seen[part], dtype=torch.float32), torch.from_numpy(policy[part]),
             torch.tensor(target[part], dtype=torch.float32))
            for part in parts
        ]  # fmt: skip
        free = {name: value for name, value in weights.items() if name.startswith("meta")}
        found, losses = fit(free, samples, loss, epochs=epochs, seed=seed + k, batch=1, rate=1e-3)
        weights = weights | found
    return weights, losses[-1]
