"""A genetic algorithm over placements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.metanet.catalogue.networks import DecisionSurrogate, stored
from cosim.extensions.metanet.catalogue.population import chance, problem, said
from cosim.schedulers.objective import Scale
from cosim.schedulers.state import State, decides


@decides("interval")
class Genetic:
    """Whole placements as individuals, the surrogate of GOBI as fitness, as COSCO and SimTune compare it.

    Tournaments of two, uniform crossover by task, mutation to any host in reach, an elite that stays. Against the
    published code: it begins with the present placement and simple decisions about it (there with rows of a
    historic data set that have nothing to do with the state), and ends after a fixed number of generations.
    """

    def __init__(self, size: int = 24, generations: int = 12, elite: int = 3) -> None:
        self.size, self.generations, self.elite = size, generations, elite
        self.surrogate, self._scale = DecisionSurrogate(stored("gobi")), Scale()

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(T,) destinations."""
        self._scale.see(state)
        one = problem(state, self._scale, self.surrogate)
        if one is None:
            return np.full(len(state.tasks), -1, np.int64)
        rng = chance(state)
        count = len(state.tasks)
        anything = np.array([rng.choice(c, self.size) if len(c) else np.zeros(self.size, int) for c in one.choices]).T
        people = np.repeat(one.starts, -(-self.size // len(one.starts)), axis=0)[: self.size]
        change = (rng.random((self.size, count)) < rng.choice([0.05, 0.2], (self.size, 1))) & one.can
        change[: len(one.starts)] = False
        change[: self.size : len(one.starts)] &= np.arange(self.size)[:: len(one.starts), None] > 0
        people = np.where(change, anything, people)
        people[: len(one.starts)] = one.starts
        cost = one.cost(people)
        for _ in range(self.generations):
            order = np.argsort(cost, kind="stable")
            people, cost = people[order], cost[order]
            parents = rng.integers(0, self.size, (2, 2, self.size - self.elite)).min(axis=0)  # sorted: the lower wins
            mixed = rng.random((self.size - self.elite, count)) < 0.5
            children = np.where(mixed, people[parents[0]], people[parents[1]])
            new = np.array([rng.choice(c) if len(c) else 0 for c in one.choices])
            mutate = (rng.random(children.shape) < 1.5 / count) & one.can
            fresh = np.where(rng.random(children.shape) < 0.5, new, anything[self.elite :])
            children = np.where(mutate, fresh, children)
            people = np.concatenate([people[: self.elite], children])
            cost = np.concatenate([cost[: self.elite], one.cost(children)])
        return said(state, people[int(cost.argmin())])
