"""MetaNet: the policy with the least predicted cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.metanet.model import costs, improve
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.pool import Chooser, spent
from cosim.extensions.metanet.layers import Weights
from cosim.schedulers.state import decides


@decides("interval")
class MetaNet(Chooser):
    """Chooses the policy of each interval by a network that predicts the cost of each.

    After Tuli, Casale, Jennings (MetaNet, IEEE TPDS 2023). Three layers of 64, ReLU, a sigmoid per policy (the paper
    states one scalar, but needs one per policy). The outputs are scaled back by the greatest cost of each policy
    before they are compared; after each interval there is one gradient step on the policy that ran. The published
    code, by contrast, compares the scaled outputs, sees the CPU use of a fixed number of hosts only, and is not
    tuned while it runs.
    """

    def __init__(self, rate: float = 3e-3, weights: Weights | None = None, cost: Callable[..., float] = spent) -> None:
        super().__init__(cost)
        self.rate = rate
        known = stored("metanet") if weights is None else weights
        self._weights = {name: np.array(value, np.float64) for name, value in known.items()}

    def choose(self, seen: Floats) -> int:
        """The least of the predicted costs."""
        return int(costs(np, self._weights, seen[None, :])[0].argmin())

    def heard(self, seen: Floats, policy: int, cost: float, following: Floats) -> None:
        """One step on the policy that ran."""
        improve(self._weights, seen, policy, cost, self.rate)
