"""Deep Q-learning over policies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.metanet.model import costs
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.pool import Chooser, spent
from cosim.extensions.metanet.layers import Weights
from cosim.schedulers.state import decides


@decides("interval")
class DqnSelector(Chooser):
    """The policy with the least expected cost of this interval and those after it, by Q-learning: MetaNet's DQN.

    The same network as MetaNet's on the same data, but its target is the cost and the discounted least value of
    the state that followed. It is not tuned while it runs.
    """

    def __init__(self, weights: Weights | None = None, cost: Callable[..., float] = spent) -> None:
        super().__init__(cost)
        self._weights = stored("dqn_selector") if weights is None else weights

    def choose(self, seen: Floats) -> int:
        """The least value."""
        return int(costs(np, self._weights, seen[None, :])[0].argmin())
