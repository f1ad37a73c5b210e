"""Evolutionary searches that the compared methods use on their surrogates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.extensions.simtune.surrogate.encoding import Encoding

Loss = Callable[[Floats], Floats]  # units (n, d) -> (n,)


@dataclass(frozen=True, slots=True, eq=False)
class EvolutionTrials:
    """All vectors that a search tried, the best first."""

    units: Floats  # (n, d)
    losses: Floats  # (n,)


def ordered(units: Floats, losses: Floats) -> EvolutionTrials:
    """The same, the best first; losses that are not finite come last."""
    losses = np.where(np.isfinite(losses), losses, np.inf)
    order = np.argsort(losses, kind="stable")
    return EvolutionTrials(units[order], losses[order])


def evolution_strategy(
    loss: Loss, start: ArrayLike, *, generations: int = 40, children: int = 40, parents: int = 10, step: float = 0.2,
    seed: int = 1,
) -> EvolutionTrials:  # fmt: skip
    """(mu, lambda)-evolution strategy with self-adapted steps, from `start` (d,) of the unit cube.

    Every child is the mean of two parents, moved by a normal step whose log-normal size it inherits
    (H.-P. Schwefel, Evolution and Optimum Seeking, 1995; learning rate 1 / sqrt(2 d)).
    """
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6573]))
    unit = np.asarray(start, np.float64)
    d = len(unit)
    pool, sizes = np.repeat(unit[None], parents, axis=0), np.full(parents, step)
    seen, losses = [unit[None]], [loss(unit[None])]
    for _ in range(generations):
        pairs = random.integers(parents, size=(children, 2))
        size = np.sqrt(sizes[pairs[:, 0]] * sizes[pairs[:, 1]])
        size = np.clip(size * np.exp(random.standard_normal(children) / np.sqrt(2.0 * d)), 1e-3, 0.5)
        made = pool[pairs].mean(axis=1) + size[:, None] * random.standard_normal((children, d))
        made = np.clip(made, 0.0, 1.0)
        found = loss(made)
        best = np.argsort(np.where(np.isfinite(found), found, np.inf), kind="stable")[:parents]
        pool, sizes = made[best], size[best]
        seen.append(made)
        losses.append(found)
    return ordered(np.concatenate(seen), np.concatenate(losses))


def mutation_crossover(
    loss: Loss, start: ArrayLike, *, generations: int = 40, population: int = 40, elite: int = 4, seed: int = 1
) -> EvolutionTrials:
    """Genetic search: tournaments of two, uniform crossover, mutation of a gene with chance max(0.1, 1/d), an elite.

    The first population is `start` (d,) and points of the whole cube. A mutation is a normal step of 0.1,
    or, once in four, a fresh value, so that categories are left too.
    """
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x6D78]))
    unit = np.asarray(start, np.float64)
    d = len(unit)
    pool = random.random((population, d))
    pool[0] = unit
    scores = loss(pool)
    seen, losses = [pool], [scores]
    for _ in range(generations):
        scores = np.where(np.isfinite(scores), scores, np.inf)
        pairs = random.integers(population, size=(2, population, 2))
        winner = np.where(scores[pairs[..., 0]] <= scores[pairs[..., 1]], pairs[..., 0], pairs[..., 1])
        made = np.where(random.random((population, d)) < 0.5, pool[winner[0]], pool[winner[1]])
        mutated = random.random((population, d)) < max(0.1, 1.0 / d)
        fresh = random.random((population, d)) < 0.25
        moved = np.where(fresh, random.random((population, d)), made + 0.1 * random.standard_normal((population, d)))
        made = np.clip(np.where(mutated, moved, made), 0.0, 1.0)
        best = np.argsort(scores, kind="stable")[:elite]
        made[:elite] = pool[best]
        pool, scores = made, np.concatenate([scores[best], loss(made[elite:])])
        seen.append(made[elite:])
        losses.append(scores[elite:])
    return ordered(np.concatenate(seen), np.concatenate(losses))


def descent(
    loss: Loss, gradients: Callable[[Floats], Floats], encoding: Encoding, starts: ArrayLike, *, steps: int = 200,
    rate: float = 0.05,
) -> EvolutionTrials:  # fmt: skip
    """Gradient descent on the parameters with momentum 0.9, from every row of `starts` (n, d): equation 6.

    `gradients` gives (n, d) of units that are relaxed: a discrete parameter moves along its levels as if
    they were a line, and is rounded when `loss` is asked (DiffTune). Steps are limited to `rate` per
    parameter, because the norm of equation 5 has slopes that do not shrink near its minimum.
    """
    units = np.atleast_2d(np.asarray(starts, np.float64)).copy()
    velocity = np.zeros_like(units)
    seen = [units.copy()]
    for k in range(steps):
        now = rate * 0.5 * (1.0 + np.cos(np.pi * k / steps))  # cosine annealing
        slope = np.nan_to_num(gradients(units))
        size = np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-12)
        velocity = 0.9 * velocity - 0.1 * now * slope / np.maximum(size, 1e-3)
        units = np.clip(units + velocity, 0.0, 1.0)
        if k % 10 == 9:
            seen.append(units.copy())
    tried = encoding.space.units(encoding.space.values(np.concatenate(seen)))
    return ordered(tried, loss(tried))
