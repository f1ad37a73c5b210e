"""Predictors of what VMs will need, all asked the same way."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats
from cosim.extensions.extcloudsim.predict import network
from cosim.extensions.extcloudsim.predict.samples import HORIZON, LONGEST_LIFE, future, recent


class VmPrediction(NamedTuple):
    """What is expected of each VM, from the next period on."""

    mean: Floats  # (vms,) 0..1 over the horizon
    peak: Floats  # (vms,) 0..1 over the horizon, at least the mean
    life: Floats  # (vms,) s, inf where nothing is known


class Predictor(Protocol):
    """Asked at the end of a period, with all periods so far."""

    def predict(self, history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> VmPrediction:
        """`history` (vms, periods so far) in 0..1, NaN where unknown; `aux` (vms, 1): age in s, if known."""


class LastValue:
    """The next periods are as the last one."""

    def predict(self, history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> VmPrediction:
        last = recent(history, 1)[:, 0].astype(np.float64)
        return VmPrediction(last, last.copy(), np.full(len(last), np.inf))


class LocalRegression:
    """The next value on the line through the last ten, weighted by tricube, as in LR of Beloglazov and Buyya 2012.

    Their safety factor of 1.2 makes the peak.
    """

    def __init__(self, length: int = 10, safety: float = 1.2) -> None:
        self.length, self.safety = length, safety

    def predict(self, history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> VmPrediction:
        past = recent(history, self.length).astype(np.float64)
        x = np.arange(1.0, self.length + 1.0)
        weight = (1.0 - ((self.length - x) / (self.length - 1.0)) ** 3) ** 3
        weight /= weight.sum()
        centre, level = weight @ x, past @ weight
        slope = (past - level[:, None]) @ (weight * (x - centre)) / (weight @ (x - centre) ** 2)
        mean = np.clip(level + slope * (self.length + 1.0 - centre), 0.0, 1.0)
        return VmPrediction(mean, np.minimum(self.safety * mean, 1.0), np.full(len(mean), np.inf))


class Oracle:
    """The truth, for comparison: it is given the whole trace beforehand."""

    def __init__(
        self, utilisation: NDArray[np.floating], life: NDArray[np.floating] | None = None, horizon: int = HORIZON
    ) -> None:
        """`utilisation` (vms, periods) and `life` (vms,) s from the first period on."""
        self.utilisation, self.horizon = utilisation, horizon
        self.life = life

    def predict(self, history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> VmPrediction:
        mean, peak = future(self.utilisation, history.shape[1], self.horizon)
        if self.life is None or aux is None:
            return VmPrediction(mean, peak, np.full(len(mean), np.inf))
        return VmPrediction(mean, peak, np.maximum(self.life - aux[:, 0], 0.0))


class TrainedNetwork:
    """A trained network."""

    def __init__(self, architecture: str, weights: network.Weights) -> None:
        self.architecture, self.weights = architecture, weights

    @classmethod
    def load(cls, path: Path) -> TrainedNetwork:
        """Weights that `cosim.extensions.extcloudsim.predict.train` wrote; raises `ScenarioError` for any other
        file."""
        return cls(*network.load(path))

    @classmethod
    def shipped(cls, architecture: str = "gru-attention") -> TrainedNetwork:
        """The weights that come with the package: `gru-attention` or `lstm`."""
        if architecture not in network.ARCHITECTURES:
            raise ValueError(f"there is no '{architecture}'; there are {', '.join(network.ARCHITECTURES)}")
        name = f"{architecture}.npz"
        with (files("cosim.extensions.extcloudsim.predict") / "weights" / name).open("rb") as file:
            return cls(*network.load(file, name))

    def predict(self, history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> VmPrediction:
        past = recent(history)
        stacked = np.stack([past, past], axis=2)
        found = network.forward(self.architecture, self.weights, stacked, auxiliary(history, aux)).astype(np.float64)
        mean = found[:, 0]
        return VmPrediction(mean, np.maximum(found[:, 1], mean), found[:, 2] * LONGEST_LIFE)


def auxiliary(history: NDArray[np.floating], aux: NDArray[np.floating] | None = None) -> NDArray[np.float32]:
    """A network's input besides the window: age (1 = 20 days) and largest value so far, (vms, 2).

    The age is that of `aux` (s), else the number of periods seen, of 300 s.
    """
    largest = np.max(np.nan_to_num(history, nan=0.0), axis=1, initial=0.0)
    age = np.full(len(history), history.shape[1] * 300.0) if aux is None else aux[:, 0]
    return np.stack([np.minimum(age / LONGEST_LIFE, 1.0), largest], axis=1).astype(np.float32)
