"""Decisions without a search: at the source, at the predicted edge, the best of k random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.corais.problem import Decision, Instance, responses


def local(instance: Instance) -> Decision:
    """Every request where it came in."""
    return instance.source.copy()


def predicted(instance: Instance) -> Decision:
    """Every request where its result is wanted; where it came in, when that edge is outside the region."""
    found: Decision = np.where(instance.target < instance.edges, instance.target, instance.source)
    return found


def random(instance: Instance, count: int, rng: np.random.Generator) -> Decision:
    """The best of `count` uniform draws by the exact objective."""
    return best_of(instance, rng.integers(0, instance.edges, (count, instance.requests)))


def best_of(instance: Instance, decisions: NDArray[np.int64]) -> Decision:
    """That of the decisions (K, requests) with the least makespan; the first of equal ones."""
    best: Decision = decisions[responses(instance, decisions).max(axis=1).argmin()]
    return best
