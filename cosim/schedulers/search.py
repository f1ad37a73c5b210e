"""Search on the branching engine: the best of many candidates, each tried on the model itself."""

from __future__ import annotations

import numpy as np

from cosim.contract.functions import missing_extension
from cosim.contract.records import Floats, Ints
from cosim.schedulers import scheduler, target_of
from cosim.schedulers.objective import WEIGHT, Scale, costs, powers
from cosim.schedulers.placing import decided, full, packed, settle, spread, stay, there
from cosim.schedulers.policies import edf
from cosim.schedulers.state import KEEP, LOCAL, State, decides

_JOINED = 24  # improvements that are tried together


@decides("interval")
class Search:
    """Placements and migrations by local search over the exact model, for the cost of `catalogue.objective`.

    Begins with the best of a few simple decisions and of those of the policy `warm`, unless that belongs to an
    extension that is not there. In each round every change of one task (hosts that are alike stand for each other),
    swaps and hosts to be emptied are tried with `branch`; then the best changes together, as many as still help. It
    ends when a round finds nothing, or after `budget` candidates or `State.most`. With a `horizon` above 1 the built-in
    policy `then` decides in the intervals after the first, and containers that come in them are drawn by `futures`
    seeds of the policy's own: the search does not know the future.
    """

    branches = True  # tries candidates on the model

    def __init__(
        self, budget: int = 3000, horizon: int = 1, weight: float = WEIGHT, then: str = "least-loaded",
        futures: int = 1, warm: str | None = "dqn",
    ) -> None:  # fmt: skip
        self.budget, self.horizon, self.weight, self.then, self.futures = budget, horizon, weight, then, futures
        self.warm = None
        if warm is not None and not missing_extension(target_of(warm)):
            self.warm = scheduler(warm).policy("continuum")
        self._scale = Scale()

    def __call__(self, state: State) -> Ints:
        """(T,) the best destinations found."""
        if state.branch is None:
            raise ValueError("search needs a model that can branch: continuum or interval")
        self._scale.see(state)
        if not len(state.tasks):
            return np.empty(0, np.int64)
        self._left, self._first = min(self.budget, state.most or self.budget), 0
        chance = np.random.Generator(np.random.PCG64(int(2**53 * float(state.tasks["chance"][0]))))
        self._seeds = chance.integers(0, 2**63, self.futures).tolist()
        best, cost = self._least(state, self._starts(state))
        while self._left > 0:
            near = self._neighbours(state, best, chance)
            if not len(near):
                break
            values = self._costs(state, near)
            order = np.argsort(values, kind="stable")
            if values[order[0]] >= cost - 1e-9:
                break
            joined = _joined(best, near[order[: _JOINED * 4]][values[order[: _JOINED * 4]] < cost])
            found, value = self._least(state, joined)
            best, cost = (found, value) if value < values[order[0]] else (near[order[0]], float(values[order[0]]))
        return np.where(best == state.tasks["host"], KEEP, best)

    def _starts(self, state: State) -> Ints:
        """(n, T) hosts to begin with."""
        rows = [spread(state), packed(state), edf(state), settle(state, stay(state) + _efficiency(state))]
        if self.warm is not None:
            rows.append(np.asarray(self.warm(state), np.int64))
        return np.unique([full(state, row) for row in rows], axis=0)

    def _neighbours(self, state: State, best: Ints, chance: np.random.Generator) -> Ints:
        """(n, T) hosts that differ in one task; those of two tasks exchanged; those of one host gone to another."""
        kinds = _alike(state, best)
        near = there(state)[:, kinds] & decided(state)[:, None]
        tasks, columns = np.nonzero(near & (kinds[None, :] != best[:, None]))
        singles = np.repeat(best[None, :], len(tasks), axis=0)
        singles[np.arange(len(tasks)), tasks] = kinds[columns]
        own = np.flatnonzero((state.tasks["host"] == KEEP) & (state.tasks["own_speed"] > 0.0) & (best != LOCAL))
        alone = np.repeat(best[None, :], len(own), axis=0)
        alone[np.arange(len(own)), own] = LOCAL
        rows = [alone, singles]
        if state.most is not None:  # what waits comes first, in the rows as in the budget
            self._first = len(own) + int((state.tasks["host"][tasks] == KEEP).sum())
        used = np.unique(best[best >= 0])
        first, second = np.meshgrid(used, kinds, indexing="ij")
        pairs = np.stack([first.ravel(), second.ravel()], axis=1)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        can = decided(state)
        moved = np.repeat(best[None, :], len(pairs), axis=0)
        moved = np.where((moved == pairs[:, :1]) & can[None, :], pairs[:, 1:], moved)
        rows.append(moved)
        placed = np.flatnonzero((best >= 0) & can)
        if len(placed) > 1:
            a, b = chance.choice(placed, (2, min(400, 8 * len(placed))))
            a, b = a[best[a] != best[b]], b[best[a] != best[b]]
            swapped = np.repeat(best[None, :], len(a), axis=0)
            swapped[np.arange(len(a)), a], swapped[np.arange(len(a)), b] = best[b], best[a]
            rows.append(swapped)
        found = np.concatenate(rows)
        left = max(self._left, 0)
        kept = min(self._first, left)
        if len(found) > left:
            rest = kept + np.sort(chance.choice(len(found) - kept, left - kept, replace=False))
            found = found[np.concatenate([np.arange(kept), rest])]
        return found

    def _least(self, state: State, rows: Ints) -> tuple[Ints, float]:
        values = self._costs(state, rows)
        k = int(values.argmin())
        return rows[k], float(values[k])

    def _costs(self, state: State, rows: Ints) -> Floats:
        """(n,) of each candidate."""
        assert state.branch is not None
        self._left -= len(rows)
        moves = np.where(rows == state.tasks["host"], KEEP, rows)
        if self.horizon == 1:
            return costs(state.branch(moves), state, self._scale, self.weight)
        found = [
            costs(
                state.branch(moves, self.horizon, then=self.then, seed=seed, each=True), state, self._scale, self.weight
            )
            for seed in self._seeds
        ]
        mean: Floats = np.mean(found, axis=0)
        return mean


def _joined(best: Ints, better: Ints) -> Ints:
    """(n, T) the first 1, 2, 3, ... of the better rows' changes together, as far as they are about different tasks."""
    rows, row, touched = [], best.copy(), np.zeros(len(best), np.bool_)
    hosts: set[int] = set()
    for one in better:
        changed = one != best
        concerned = set(one[changed].tolist()) | set(best[changed].tolist())
        if (touched & changed).any() or concerned & hosts - {-1}:
            continue
        row = np.where(changed, one, row)
        touched |= changed
        hosts |= concerned
        rows.append(row)
        if len(rows) == _JOINED:
            break
    return np.array(rows)


def _alike(state: State, best: Ints) -> Ints:
    """Hosts that stand for all: those with tasks, and one of the empty ones of each kind."""
    hosts = state.hosts
    count = np.bincount(best[best >= 0], minlength=len(hosts))
    was = np.bincount(state.tasks["host"][state.tasks["host"] >= 0].astype(np.int64), minlength=len(hosts))
    empty = (count == 0) & (was == 0) & (hosts["up"] != 0.0)
    idle, most = powers(state)
    names = np.stack([hosts["speed"], hosts["memory"], idle, most, _same(state.reach), hosts["power"] == 0.0], 1)
    _, first = np.unique(names[empty], axis=0, return_index=True)
    busy = np.flatnonzero(((count > 0) | (was > 0)) & (hosts["up"] != 0.0))
    return np.sort(np.concatenate([busy, np.flatnonzero(empty)[first]]))


def _same(reach: Floats) -> Ints:
    """(H,) a number for each host, the same for those that are equally far from every task."""
    found: Ints = np.unique(np.unique(reach, axis=0), axis=1, return_inverse=True)[1].reshape(-1)
    return found


def _efficiency(state: State) -> Floats:
    _, most = powers(state)
    return np.broadcast_to(-most / state.hosts["speed"] * state.hosts["speed"].mean() / most.mean(), state.reach.shape)
