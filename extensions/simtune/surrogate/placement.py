"""A learned scheduler of fixed size for any fleet: the g of Algorithm 1.

It predicts the QoS objective of a decision from a few features of the load after it, and places containers
one after the other where the predicted objective is least. It learns by recursive least squares with
forgetting (L. Ljung, System Identification, 1999, section 11.2), so that old data fade as new ones come.
"""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.cosco.interval import IntervalView

FEATURES = 8


def features(steps: Floats, hosts: Floats) -> Floats:
    """(n, 8) of loads `steps` (n, 2 H) and graphs `hosts` (n or 1, H, 4), as `monitor.IntervalRow` holds them.

    1; mean load over hosts weighted by their size, mean square of the load, mean and maximum of what
    exceeds 1; share of hosts without load; mean memory used; mean load times latency.
    """
    load, memory = np.split(steps, 2, axis=-1)
    size = hosts[..., 0] / hosts[..., 0].sum(axis=-1, keepdims=True)
    over = np.maximum(load - 1.0, 0.0)
    found: Floats = np.stack(
        [
            np.ones(load.shape[:-1]), (size * load).sum(-1), (size * load**2).sum(-1), over.mean(-1), over.max(-1),
            (load < 1e-9).mean(-1), memory.mean(-1), (size * load * hosts[..., 2]).sum(-1),
        ], axis=-1,
    )  # fmt: skip
    return found


class LearnedPlacement:
    """Scheduler D = g(G, W); `energy` is the weight of energy in the objective, the rest is the response's."""

    def __init__(self, *, energy: float = 0.5, forgetting: float = 0.999) -> None:
        self.energy, self._forgetting = energy, forgetting
        self.weights: Floats = np.zeros(FEATURES)
        self._covariance = 1e3 * np.eye(FEATURES)

    def tune(self, steps: Floats, hosts: Floats, qos: Floats) -> None:
        """Learn from rows: loads after decisions (n, 2 H), graphs (n or 1, H, 4), QoS (n, 2)."""
        rows = features(steps, hosts)
        wanted = qos @ np.array([self.energy, 1.0 - self.energy])
        for x, y in zip(rows, wanted, strict=True):
            gain = self._covariance @ x / (self._forgetting + x @ self._covariance @ x)
            self.weights = self.weights + gain * (y - x @ self.weights)
            self._covariance = (self._covariance - np.outer(gain, x @ self._covariance)) / self._forgetting
            self._covariance = 0.5 * (self._covariance + self._covariance.T)

    def expected(self, steps: Floats, hosts: Floats) -> Floats:
        """(n,) the objective it expects."""
        return np.asarray(features(steps, hosts) @ self.weights, np.float64)

    def decide(self, view: IntervalView, step: Floats, hosts: Floats) -> Ints:
        """(k, 2) decisions for the containers that wait; `step` (2 H,) is the load before, `hosts` (H, 4) G.

        Hosts without room for a container's memory are not taken; one that fits nowhere goes on waiting.
        """
        count = len(view.mips)
        now, free = step.copy(), view.ram - view.ram_used
        decisions = []
        for k in np.flatnonzero(view.host < 0):
            options = np.repeat(now[None], count, axis=0)
            at = np.arange(count)
            options[at, at] += view.demand[k] / view.mips
            options[at, at + count] += view.size[k] / view.ram
            objective = np.where(view.up & (free >= view.size[k]), self.expected(options, hosts[None]), np.inf)
            best = int(np.argmin(objective))
            if np.isfinite(objective[best]):
                decisions.append((int(view.slot[k]), best))
                now, free[best] = options[best], free[best] - view.size[k]
        return np.array(decisions, np.int64).reshape(-1, 2)
