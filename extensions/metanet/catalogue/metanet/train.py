"""Train MetaNet and the DQN selector: `python -m cosim.extensions.metanet.catalogue.train metanet` (extra `learn`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.cosco.state import per_interval
from cosim.extensions.metanet.catalogue.experience import world
from cosim.extensions.metanet.catalogue.metanet.model import begin, costs
from cosim.extensions.metanet.catalogue.pool import POOL, Chooser
from cosim.extensions.metanet.catalogue.training import fit, library
from cosim.schedulers.state import decides

CHANGED = 5  # intervals that a policy decides before another one does


class IntervalRecord(NamedTuple):
    """One interval."""

    seen: Floats  # (SEEN,)
    policy: int
    cost: float
    following: Floats  # (SEEN,)


@decides("interval")
class _Any(Chooser):
    """Any policy, for some intervals each."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng, self.rows, self._now, self._turn = rng, list[IntervalRecord](), 0, 0

    def choose(self, seen: Floats) -> int:
        if self._turn % CHANGED == 0:
            self._now = int(self.rng.integers(len(POOL)))
        self._turn += 1
        return self._now

    def heard(self, seen: Floats, policy: int, cost: float, following: Floats) -> None:
        if self._turn > 3:
            self.rows.append(IntervalRecord(seen, policy, min(cost, 5.0), following))


def runs(seed: int, worlds: int, intervals: int) -> list[IntervalRecord]:
    """Intervals of worlds in which the policies take turns."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found: list[IntervalRecord] = []
    for _ in range(worlds):
        one, policy = world(rng), _Any(rng)
        decided: Any = policy
        one.decide_by(per_interval(decided, one))
        one.run(intervals)
        found += policy.rows
    return found


def train(seed: int = 5, worlds: int = 35, intervals: int = 26, epochs: int = 60) -> tuple[dict[str, Floats], Any]:
    """Weights, and the error of the predicted cost with the deviation to compare it with."""
    found, figures = fitted(runs(seed, worlds, intervals), seed, epochs)
    return found, {"seed": seed, "worlds": worlds} | figures


def fitted(rows: Sequence[IntervalRecord], seed: int, epochs: int) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Weights from what was heard, a fifth of which is held back to judge them."""
    seen = np.stack([row.seen for row in rows])
    policy: Ints = np.array([row.policy for row in rows])
    cost = np.array([row.cost for row in rows])
    greatest = np.array([cost[policy == k].max() if (policy == k).any() else cost.max() for k in range(len(POOL))])
    weights = begin(np.random.Generator(np.random.PCG64(seed)), seen, greatest)
    held = np.arange(len(rows)) % 5 == 4
    whole, _ = regressed(weights, seen[~held], policy[~held], cost[~held], float(cost.std()), epochs, seed)
    guess = costs(np, whole, seen[held])[np.arange(int(held.sum())), policy[held]]
    return whole, {
        "intervals": len(rows), "epochs": epochs, "rmse": float(np.sqrt(((guess - cost[held]) ** 2).mean())),
        "deviation": float(cost[held].std()),
    }  # fmt: skip


def regressed(
    weights: dict[str, Floats], seen: Floats, policy: Ints, target: Floats, deviation: float, epochs: int,
    seed: int,
) -> tuple[dict[str, Floats], list[float]]:  # fmt: skip
    """Weights whose costs of what was `seen` (n, SEEN) under a `policy` (n,) come near `target` (n,), and mean losses.

    Errors count by the `deviation` of costs, else the optimiser's steps would depend on the currency.
    """
    torch = library()

    fixed = {name: torch.tensor(weights[name], dtype=torch.float32) for name in ("mean", "deviation", "greatest")}
    samples = [
        (torch.tensor(seen[k], dtype=torch.float32), torch.from_numpy(policy[k]),
         torch.tensor(target[k], dtype=torch.float32))
        for k in np.array_split(np.arange(len(seen)), max(1, len(seen) // 32))
    ]  # fmt: skip

    def loss(changed: dict[str, Any], sample: Any) -> Any:  # noqa: ANN401
        x, which, true = sample
        error = costs(torch, changed | fixed, x).gather(1, which[:, None])[:, 0] - true
        return ((error / (deviation + 1e-12)) ** 2).mean()

    free = {name: value for name, value in weights.items() if name.startswith("meta")}
    found, losses = fit(free, samples, loss, epochs=epochs, seed=seed, batch=1, rate=1e-3)
    return weights | found, losses
