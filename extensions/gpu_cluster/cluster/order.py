"""Which job comes next: all orders of a window, beams, or a policy that is asked.

The line is cut into windows of W jobs (five by default). A policy `order(jobs, simulation)` returns
the order in which the W first ones start. `in_windows` asks it once per window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import permutations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSimulation

Order = Callable[[Sequence[int], ClusterSimulation], Sequence[int]]
Ranks = Sequence[tuple[int, int]]  # leaves, and how many ranks each has
Place = Callable[[int, ClusterSimulation], Ranks | None]
Wire = Callable[[int, Ranks, ClusterSimulation], Sequence[tuple[int, int]] | None]
WINDOW = 5


@cache
def all_orders(count: int) -> Ints:
    """(count!, count) all orders of `count` things, the given one first."""
    return np.array(list(permutations(range(count))), np.int64).reshape(-1, count)


def better(found: Floats) -> Ints:
    """Rows of `try_orders`, best first: the least end, then the least last start, then the least sum."""
    return np.lexsort((np.arange(len(found)), found[:, 2], found[:, 1], found[:, 0]))


def best(jobs: Sequence[int], simulation: ClusterSimulation) -> Sequence[int]:
    """The best of all orders, each simulated."""
    orders = np.asarray(jobs, np.int64)[all_orders(len(jobs))]
    return [int(job) for job in orders[better(simulation.try_orders(orders))[0]]]


def beam(width: int = 8) -> Order:
    """Orders built job by job, of which the best `width` beginnings are kept."""

    def order(jobs: Sequence[int], simulation: ClusterSimulation) -> Sequence[int]:
        kept: list[tuple[int, ...]] = [()]
        for _ in jobs:
            longer = [(*begun, job) for begun in kept for job in jobs if job not in begun]
            ranked = better(simulation.try_orders(np.array(longer)))
            kept = [longer[i] for i in ranked[:width]]
        return list(kept[0])

    return order


def arrival(jobs: Sequence[int], _: ClusterSimulation) -> Sequence[int]:
    """As they came."""
    return sorted(jobs)


def in_windows(simulation: ClusterSimulation, order: Order, size: int = WINDOW, *, until: float = np.inf) -> None:
    """Run on, asking `order` once for each window."""
    simulation.asking()
    while not simulation.advance(until):
        chosen = order(simulation.line(size), simulation)
        for job in reversed(chosen):
            simulation.decide(job)


def placed(
    simulation: ClusterSimulation, order: Order, place: Place | None, wire: Wire | None = None, size: int = WINDOW, *,
    until: float = np.inf,
) -> None:  # fmt: skip
    """Run on, asking `order` for each window, and `place` and `wire` before each start.

    `place(job, simulation)` gives leaves with numbers of ranks, None: not now; without it the one of the
    settings holds. `wire(job, ranks, simulation)` gives pairs of uplinks to join, None: not now. Both are
    asked again when something has changed. Raises `ValueError` for an answer that cannot be.
    """
    simulation.by_hand()
    plan: list[int] = []
    while not simulation.advance(until):
        waiting = set(simulation.line(None if plan else size))
        plan = [job for job in plan if job in waiting] or list(order(simulation.line(size), simulation))
        job = plan[0]
        simulation.decide(job)
        ranks = place(job, simulation) if place is not None else _fitting(job, simulation)
        circuits = wire(job, ranks, simulation) if wire is not None and ranks and len(ranks) > 1 else None
        refused = not ranks or (wire is not None and len(ranks) > 1 and circuits is None)
        if refused or not simulation.start(job, ranks or (), circuits):
            simulation.waits(job)
        else:
            plan.pop(0)


def _fitting(job: int, simulation: ClusterSimulation) -> Ranks | None:
    found = simulation.fitting(job)
    return None if found is None else list(zip(found[0].tolist(), found[1].tolist(), strict=True))
