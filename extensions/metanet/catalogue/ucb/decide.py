"""A bandit over policies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.metanet.catalogue.pool import POOL, Chooser, spent
from cosim.schedulers.state import decides


@decides("interval")
class Ucb(Chooser):
    """UCB1 (Auer et al. 2002) over the policies, without regard to the state: MetaNet's MAB.

    The least mean cost less sqrt(2 ln t / n) times the deviation seen; each policy is tried once first.
    """

    def __init__(self, cost: Callable[..., float] = spent) -> None:
        super().__init__(cost)
        self._mean, self._square = np.zeros((2, len(POOL)))
        self._tried = np.zeros(len(POOL))

    def choose(self, seen: Floats) -> int:
        """The least bound."""
        if (self._tried == 0.0).any():
            return int((self._tried == 0.0).argmax())
        total = float(self._tried.sum())
        overall = float((self._tried * self._mean).sum() / total)
        deviation = math.sqrt(max(float((self._tried * self._square).sum() / total) - overall**2, 1e-6))
        return int((self._mean - deviation * np.sqrt(2.0 * math.log(total) / self._tried)).argmin())

    def heard(self, seen: Floats, policy: int, cost: float, following: Floats) -> None:
        """Take the cost into the mean of the policy."""
        self._tried[policy] += 1.0
        self._mean[policy] += (cost - self._mean[policy]) / self._tried[policy]
        self._square[policy] += (cost**2 - self._square[policy]) / self._tried[policy]
