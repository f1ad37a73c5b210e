"""Consolidation by foresight: which hosts to relieve, by which machine, and how much room each needs.

The heuristic is the same for every predictor, so that predictors can be compared. Forecasts of mean and
peak are renewed every `horizon` periods and hold until then. A machine needs room for its foreseen peak,
wherever it is placed; a host is relieved only if it was over the limit in the last period and will on
average be over it: a burst that passes by itself is no reason to move anybody. The machine that leaves
first is the smallest whose going relieves the host, else the largest.

Its functions are policies of `cosim.extensions.extcloudsim.datacentre` and know its state only by what they read of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats
from cosim.extensions.extcloudsim.predict.predictors import (
    LastValue,
    LocalRegression,
    Oracle,
    Predictor,
    TrainedNetwork,
)
from cosim.extensions.extcloudsim.predict.samples import HORIZON

if TYPE_CHECKING:
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreState

PREDICTORS = ("learned", "lstm", "local-regression", "last-value", "oracle")
LIMIT = 0.9  # of a host's capacity


class Foresight:
    """The policies of one run: `foresee`, `overloaded` and `leaves_first` share one forecast."""

    def __init__(self, predictor: Predictor, limit: float = LIMIT, horizon: int = HORIZON) -> None:
        self.predictor, self.limit, self.horizon = predictor, limit, horizon
        self._made = 0  # periods that had been seen when the forecast was made
        self._mean: Floats = np.zeros(0)
        self._peak: Floats = np.zeros(0)
        self._life: Floats = np.zeros(0)

    def foresee(self, history: Floats, aux: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, peak (0..1) and life (s) of each machine: (machines,) each. `history` is (machines, periods)."""
        seen = history.shape[1]
        if self._made == 0 or seen >= self._made + self.horizon:
            self._mean, self._peak, self._life = self.predictor.predict(history, aux)
            self._made = seen
        return self._mean, self._peak, self._life

    def overloaded(self, state: DatacentreState) -> NDArray[np.bool_]:
        """(hosts,) over the limit in the last period, and foreseen to be so on average."""
        last = self._load(state, state.history[0])
        coming = self._load(state, self._mean * state.machines.mips)
        return (last > self.limit) & (coming > self.limit)

    def leaves_first(self, state: DatacentreState) -> Floats:
        """(machines,) the lowest leaves its host first."""
        need = self._peak * state.machines.mips
        excess = (self._load(state, need) - self.limit) * state.hosts.mips
        spare = need - np.where(state.at >= 0, excess[state.at], 0.0)
        # Those that do not suffice come after all that do, the largest first.
        beyond: Floats = np.where(spare >= 0.0, spare, np.max(need, initial=0.0) - spare)
        return beyond

    def _load(self, state: DatacentreState, capacity: Floats) -> Floats:
        """(hosts,) share of each host's capacity that its machines want."""
        there = state.at >= 0
        hosts = len(state.hosts.mips)
        wanted: Floats = np.bincount(state.at[there], capacity[there], hosts) / state.hosts.mips
        return wanted


def predictor(name: str, utilisation: Floats) -> Predictor:
    """A predictor by name; only `oracle` looks at `utilisation` (machines, periods)."""
    known: dict[str, Callable[[], Predictor]] = {
        "learned": TrainedNetwork.shipped,
        "lstm": lambda: TrainedNetwork.shipped("lstm"),
        "local-regression": LocalRegression,
        "last-value": LastValue,
        "oracle": lambda: Oracle(utilisation),
    }
    if name not in known:
        raise ValueError(f"there is no predictor '{name}'; known: {', '.join(PREDICTORS)}")
    return known[name]()


def policies(name: str, utilisation: Floats, limit: float = LIMIT) -> dict[str, Any]:
    """Settings of a datacentre that decides by foresight with a predictor of that name."""
    foresight = Foresight(predictor(name, utilisation), limit)
    return {
        "predictor": foresight.foresee,
        "detector": foresight.overloaded,
        "selector": foresight.leaves_first,
        "placer": "best-fit",
        "threshold": limit,
    }
