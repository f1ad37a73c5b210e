"""Decisions without a search: at the source, at the predicted edge, the best of k random ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cosim.schedulers.corais.problem import Decision, Instance, makespan


def local(instance: Instance) -> Decision:
    """Every request where it came in."""
    return instance.source.copy()


def predicted(instance: Instance) -> Decision:
    """Every request where its result is wanted; where it came in, when that edge is outside the region."""
    found: Decision = np.where(instance.target < instance.edges, instance.target, instance.source)
    return found


def random(instance: Instance, count: int, rng: np.random.Generator) -> Decision:
    """The best of `count` uniform draws by the exact objective."""
    return best_of(instance, (rng.integers(0, instance.edges, instance.requests) for _ in range(count)))


def best_of(instance: Instance, decisions: Iterable[Decision]) -> Decision:
    """The decision with the least makespan; the first of equal ones."""
    return min(decisions, key=lambda one: makespan(instance, one))
