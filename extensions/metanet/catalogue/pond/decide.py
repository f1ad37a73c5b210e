"""POND: rewards with optimism, limits with pessimism."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.schedulers.objective import WEIGHT, Scale, powers
from cosim.schedulers.placing import decided, settle, stay, there
from cosim.schedulers.state import State, decides


@decides("interval")
class Pond:
    """Pessimistic-optimistic online dispatching (Liu, Li, Shi, Ying 2020): bounds of rewards, queues of violations.

    A new task goes where the upper confidence bound of its reward less the host's virtual queue is greatest. The
    reward of a host is minus the cost per task that was seen there: its power per task against the fleet's, and
    its tasks against the cycles that they got. The queue grows by what a host was loaded over `limit`, with a
    margin (the pessimism), and shrinks by what was left. Against the published code, where the bound multiplies
    the reward instead of being added and is 0 in the beginning: as the paper has it.
    """

    def __init__(self, limit: float = 0.85, margin: float = 0.02, optimism: float = 0.1) -> None:
        self.limit, self.margin, self.optimism = limit, margin, optimism
        self._scale = Scale()
        self._mean = self._tried = self._queue = np.empty(0)
        self._rounds = 0

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations; placed tasks stay."""
        self._scale.see(state)
        hosts = state.hosts
        if len(self._mean) != len(hosts):
            self._mean, self._tried, self._queue = np.zeros((3, len(hosts)))
            self._tried += 1e-3
        self._watch(state)
        if not len(state.tasks):
            return np.empty(0, np.int64)
        bound = self._mean + self.optimism * np.sqrt(math.log(self._rounds + 1) / np.maximum(self._tried, 1.0))
        scores = stay(state) + np.where(there(state), bound - self._queue, -1e9)[...]
        waiting = np.flatnonzero((state.tasks["host"] < 0.0) & decided(state))
        count = np.zeros(len(hosts))
        for t in waiting[np.argsort(state.tasks["task"][waiting], kind="stable")]:
            scores[t] -= count / np.maximum(hosts["tasks"] + 1.0, 1.0)
            count[int(scores[t].argmax())] += 1.0
        return settle(state, scores)

    def _watch(self, state: State) -> None:
        hosts = state.hosts
        self._rounds += 1
        busy = hosts["tasks"] > 0.0
        idle, full = powers(state)
        watts = np.where(np.isfinite(hosts["power"]), hosts["power"], idle + (full - idle) * hosts["utilisation"])
        cycles = np.maximum(hosts["utilisation"] * hosts["speed"], 0.02 * hosts["speed"])
        fleet = self._scale.power / max(float((hosts["utilisation"] * hosts["speed"]).sum()), 1e-9)
        energy = watts / cycles / max(fleet, 1e-30)
        mean = float(hosts["speed"].mean())
        slow = hosts["tasks"] * mean / cycles
        reward = -np.clip(WEIGHT * energy + (1.0 - WEIGHT) * slow, 0.0, 20.0)
        self._tried[busy] += 1.0
        self._mean[busy] += (reward[busy] - self._mean[busy]) / np.minimum(self._tried[busy], 20.0)
        load = hosts["demand"] / hosts["speed"]
        self._queue = np.maximum(self._queue + load - self.limit + self.margin, 0.0)
