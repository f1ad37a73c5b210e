"""Ant colony optimisation on forecast demands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.estimate import PlacementEstimate
from cosim.extensions.metanet.catalogue.forecast import Demands, Forecast, arima
from cosim.extensions.metanet.catalogue.population import chance, said
from cosim.schedulers.objective import Scale
from cosim.schedulers.placing import decided, full, packed, spread, there
from cosim.schedulers.state import State, decides


@decides("interval")
class Ants:
    """ARIMA + ACO of MetaNet's comparison: ants place all tasks by pheromone and by a forecast of their demand.

    Pheromone is per task and host; the heuristic is the seconds that a task is expected to take there. Each
    round the best ant of the round and the best of all leave pheromone, the rest evaporates within bounds (max-min
    ant system, Stuetzle and Hoos 2000). Against the published code: the forecast is ARIMA's (there the current
    CPU use), and it enters the score of a decision (there the score is the same for all, with noise on it).
    """

    def __init__(self, ants: int = 12, rounds: int = 10, evaporation: float = 0.2, forecast: Forecast = arima) -> None:
        self.ants, self.rounds, self.evaporation = ants, rounds, evaporation
        self._scale, self._demands = Scale(), Demands(forecast)

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations."""
        self._scale.see(state)
        can = decided(state)
        if not can.any():
            return np.full(len(state.tasks), -1, np.int64)
        demand = self._demands.next(state)
        one = PlacementEstimate(state, self._scale, demand)
        rng = chance(state)
        rows = np.arange(len(demand))
        near = there(state)
        speed = state.hosts["speed"]
        free = np.maximum(speed - state.hosts["demand"], 0.02 * speed)
        seconds = state.tasks["work"][:, None] / np.minimum(free, self._scale.stretch * demand[:, None]) + one.transfer
        heuristic = near / np.maximum(seconds, 1e-6) ** 2
        heuristic[~can] = 0.0
        at = state.tasks["host"].astype(np.int64)
        placed = np.flatnonzero(at >= 0)
        heuristic[placed, at[placed]] = np.maximum(heuristic[placed].max(axis=1), 1e-12) * np.where(can[placed], 4.0, 1)
        heuristic /= np.maximum(heuristic.sum(axis=1, keepdims=True), 1e-300)
        heuristic[heuristic.sum(axis=1) == 0.0, 0] = 1.0
        trail = np.ones_like(heuristic)
        best, least = at, np.inf
        for start in (spread(state), packed(state)):
            hosts = full(state, start)
            if (hosts >= 0).all() and (value := float(one.cost(hosts[None, :])[0])) < least:
                best, least = hosts, value
        if np.isfinite(least):
            trail[rows, best] += 4.0
        for _ in range(self.rounds):
            chances = np.cumsum(trail * heuristic, axis=1)
            drawn = rng.random((self.ants, len(rows))) * chances[:, -1]
            hosts = (chances[None, :, :] < drawn[:, :, None]).sum(axis=2)
            hosts = np.minimum(hosts, len(speed) - 1)
            cost = one.cost(hosts)
            top = int(cost.argmin())
            if cost[top] < least:
                best, least = hosts[top], float(cost[top])
            trail = np.clip((1.0 - self.evaporation) * trail, 0.02, 10.0)
            trail[rows, hosts[top]] += 0.5
            trail[rows, best] += 1.0
        return said(state, best)
