"""Surrogates under the conditions of one calibration: parameter features to QoS vectors and reality gaps."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.simtune.surrogate.hgp import MOST, HeteroscedasticProcess
from cosim.extensions.simtune.surrogate.layers import Architecture
from cosim.extensions.simtune.surrogate.network import QosNetwork, TrainingOptions, TrainingResult
from cosim.extensions.simtune.surrogate.target import Conditions, QosTarget

_DRAWS = 2  # of Monte-Carlo dropout per question


class Surrogate(Protocol):
    """f^ of equation 4."""

    def fit(self, features: Floats, qos: Floats, training: TrainingOptions) -> TrainingResult:
        """Learn rows (n, e) and (n, q); a second call goes on with more rows."""

    def predict(self, features: Floats) -> Floats:
        """(n, q) mean QoS vectors."""

    def gaps(self, features: Floats) -> Floats:
        """(n,) reality gaps."""

    def gradients(self, features: Floats) -> Floats:
        """(n, e) gradients of the gaps."""


class NetworkSurrogate:
    """A network of torch; gaps and gradients are means over Monte-Carlo dropout."""

    def __init__(
        self, architecture: Architecture, conditions: Conditions, target: QosTarget, features: int, seed: int
    ) -> None:
        widths = conditions.workload.shape[1], conditions.hosts.shape[1]
        self._network = QosNetwork(*widths, features, target.width, architecture=architecture, seed=seed)
        self._around = conditions.workload[None], conditions.hosts[None]
        self._target = target

    def fit(self, features: Floats, qos: Floats, training: TrainingOptions) -> TrainingResult:
        return self._network.fit(*self._around, features, qos, training)

    def predict(self, features: Floats) -> Floats:
        return np.asarray(self._network.predict(*self._around, features, draws=_DRAWS).mean(axis=0), np.float64)

    def gaps(self, features: Floats) -> Floats:
        return np.asarray(
            self._target.gaps(self._network.predict(*self._around, features, draws=_DRAWS)).mean(axis=0), np.float64
        )

    def gradients(self, features: Floats) -> Floats:
        target = self._target
        return self._network.slopes(*self._around, features, target.measured, target.weights, draws=_DRAWS)[1]


class ProcessSurrogate:
    """The heteroscedastic process. Of many rows it learns those with the lowest gaps, and others evenly."""

    def __init__(self, target: QosTarget, seed: int) -> None:
        self._target, self._seed = target, seed
        self._process: HeteroscedasticProcess | None = None

    def fit(self, features: Floats, qos: Floats, training: TrainingOptions) -> TrainingResult:
        order = np.argsort(self._target.gaps(qos), kind="stable")
        best, rest = order[: MOST // 2], order[MOST // 2 :]
        rest = rest[:: max(1, -(-len(rest) // (MOST // 2)))]
        kept = np.sort(np.concatenate([best, rest]))
        x, y = features[kept], qos[kept]
        tested = np.arange(len(x)) % max(2, round(1.0 / training.tested)) == 0
        error = y[tested] - HeteroscedasticProcess(x[~tested], y[~tested], seed=self._seed).predict(x[tested])
        around = y[tested] - y[tested].mean(axis=0)
        self._process = HeteroscedasticProcess(x, y, seed=self._seed)
        r2 = 1.0 - float((error**2).sum() / max((around**2).sum(), 1e-12))
        return TrainingResult(1, float(np.linalg.norm(error, axis=1).mean()), r2, "fitted")

    def predict(self, features: Floats) -> Floats:
        if self._process is None:
            raise ValueError("the process has not been fitted")
        return self._process.predict(features)

    def gaps(self, features: Floats) -> Floats:
        return self._target.gaps(self.predict(features))

    def gradients(self, features: Floats) -> Floats:
        """By central differences: the searches that go with it ask for none."""
        step = 1e-4 * np.eye(features.shape[1])
        ends = np.stack([features[:, None] + step, features[:, None] - step])
        up, down = self.gaps(ends.reshape(-1, features.shape[1])).reshape(ends.shape[:-1])
        return np.asarray((up - down) / 2e-4, np.float64)
