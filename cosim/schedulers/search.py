"""Search on the branching engine: the best of many candidates, each tried on the model itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.schedulers.policies import edf
from cosim.schedulers.state import KEEP, Floats, State, decides

Ints = NDArray[np.int64]


@decides("interval")
class Search:
    """Placements and migrations by local search over the exact model.

    Candidates are rows of destinations. The first leave everything where it is and place new containers
    by `edf`, by the least extra power, and together with a host to empty. Each round tries `candidates`
    of them with `branch` and goes on from the best, changing one to three destinations at a time. The
    cost is the energy of the interval, less what its work would have taken as in the first candidate (work
    put off is no energy saved), against the energy of the first candidate, plus `weight` times the
    seconds that the containers would still take against those that pass for them in an interval (by
    Little's law, what an interval adds to their response times); those that are left waiting take an
    interval and what they take at the rate that they ask for. With a `horizon` above 1, `then` decides in
    the intervals after the first, and containers that come in them are drawn by a seed of the policy's
    own: the search does not know the future.
    """

    def __init__(
        self, candidates: int = 160, rounds: int = 6, horizon: int = 1, weight: float = 4.0, then: str = "least-loaded"
    ) -> None:
        self.candidates, self.rounds, self.horizon, self.weight, self.then = candidates, rounds, horizon, weight, then

    def __call__(self, state: State) -> Ints:
        """(T,) the best destinations found."""
        if state.branch is None:
            raise ValueError("search needs a model that can branch; the interval model can")
        if not len(state.tasks):
            return np.empty(0, np.int64)
        chance = np.random.Generator(np.random.PCG64(int(2**53 * float(state.tasks["chance"][0]))))
        best = self._starts(state)
        cost = self._cost(state, best, chance)
        for _ in range(self.rounds):
            order = np.argsort(cost, kind="stable")[: max(1, self.candidates // 20)]
            best, cost = best[order], cost[order]
            tried = self._changed(state, best, chance)
            best, cost = np.concatenate([best, tried]), np.concatenate([cost, self._cost(state, tried, chance)])
        found: Ints = best[int(np.argmin(cost))]
        return found

    def _starts(self, state: State) -> Ints:
        """(n, T) candidates to begin with; the first one is the reference."""
        soonest = edf(state)
        thrifty = _by_power(state)
        rows = [soonest, thrifty]
        hosts = state.tasks["host"]
        for h in np.unique(hosts[hosts >= 0.0]):  # empty one host
            row = thrifty.copy()
            leaving = hosts == h
            target = _cheapest(state, without=int(h))
            if target >= 0:
                row[leaving] = target
                rows.append(row)
        return np.array(rows)

    def _changed(self, state: State, best: Ints, chance: np.random.Generator) -> Ints:
        """(candidates, T) variations of the best rows."""
        tried = best[chance.integers(0, len(best), self.candidates)].copy()
        rows = np.arange(self.candidates)
        used = np.unique(np.concatenate([state.tasks["host"], tried.ravel()]))
        used = used[used >= 0].astype(np.int64)
        up = np.flatnonzero(state.hosts["up"])
        for k in range(3):
            now = rows[chance.random(self.candidates) < 0.6**k]
            which = chance.integers(0, tried.shape[1], len(now))
            pool = np.concatenate([used, used, up]) if len(up) else used
            where = pool[chance.integers(0, len(pool), len(now))]
            where[chance.random(len(now)) < 0.1] = KEEP
            tried[now, which] = where
        waits = state.tasks["host"] < 0.0
        tried[:, ~waits] = np.where(tried[:, ~waits] == state.tasks["host"][~waits], KEEP, tried[:, ~waits])
        return tried

    def _cost(self, state: State, tried: Ints, chance: np.random.Generator) -> Floats:
        """(n,) of each candidate, 1 + weight for one as good as the reference."""
        assert state.branch is not None
        if state.time != getattr(self, "_at", None):
            self._at, self._seed = state.time, int(chance.integers(0, 2**63))
            self._scale: tuple[float, float, float] | None = None
        figures = state.branch(tried, self.horizon, then=self.then, seed=self._seed)
        if self._scale is None:
            count = float(figures["active"][0] + figures["waiting"][0])
            energy, idle = float(figures["energy"][0]), float(state.hosts["idle_power"].sum()) * state.interval
            per_work = max(energy - idle * self.horizon, 0.0) / max(float(figures["work"][0]), 1e-9)
            self._scale = max(energy, 1e-9), max(count, 1.0) * state.interval, per_work
        energy, seconds, per_work = self._scale
        waits = state.tasks["host"] < 0.0
        alone = state.tasks["work"] / np.maximum(state.tasks["demand"], 1e-9) + state.interval
        kept = ((tried == KEEP) & waits) @ alone
        refused = figures["refused"] * float(alone.mean())
        left = figures["left"] + kept + refused
        joules = figures["energy"] - per_work * figures["work"]
        cost: Floats = joules / energy + self.weight * left / seconds
        return cost


def _by_power(state: State) -> Ints:
    """New tasks on the host with room that takes the least extra power; others stay."""
    hosts = state.hosts
    found = np.full(len(state.tasks), KEEP, np.int64)
    demand, memory = hosts["demand"].copy(), hosts["memory"].copy()
    slope = (hosts["full_power"] - hosts["idle_power"]) / hosts["speed"]
    for t in np.flatnonzero(state.tasks["host"] < 0.0):
        asks, takes = float(state.tasks["demand"][t]), float(state.tasks["memory"][t])
        room = (hosts["up"] != 0.0) & (demand + asks <= hosts["speed"]) & (memory >= takes)
        if room.any():
            h = int(np.where(room, slope, np.inf).argmin())
            found[t] = h
            demand[h] += asks
            memory[h] -= takes
    return found


def _cheapest(state: State, without: int) -> int:
    """The host with the least power per speed that is not too full, -1 for none."""
    hosts = state.hosts
    free = (hosts["up"] != 0.0) & (hosts["demand"] < 0.7 * hosts["speed"])
    free[without] = False
    if not free.any():
        return -1
    return int(np.where(free, hosts["full_power"] / hosts["speed"], np.inf).argmin())
