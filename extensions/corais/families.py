"""Seeded families of instances.

`corais` has ranges that agree with 25 published figures of the paper within 5 % (the paper's own ranges are lost).
From 20 edges on its optimum is nearly always the backlog of the worst edge, whatever is decided; `corais-tight` has
no backlog, run times that differ by a factor of 20, and places in clusters, so that decisions matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.corais.problem import Instance

BACKLOG = 6  # requests at most, of each kind, at an edge of the family `corais`
REPLICAS = 5  # at most
SPREAD = 20.0  # between the fastest and the slowest edge of `corais-tight`
OFFSET = 0.3  # of the slope, at most, in `corais-tight`
TRANSFERS = (0.3, 1.0, 3.0)  # s per unit of data and distance in `corais-tight`, in turn
CLUSTER = 0.08  # standard deviation of a place around its cluster's centre

Scale = tuple[int, int, int]  # all edges, edges of the region, requests


def corais(scale: Scale, rng: np.random.Generator) -> Instance:
    """An instance of the family `corais`."""
    total, edges, requests = scale
    place = rng.random((total, 2))
    slope, offset = rng.random(edges), np.zeros(edges)
    replicas = rng.integers(1, REPLICAS + 1, edges)
    own, other, coming, leaving = (np.zeros(edges) for _ in range(4))
    for q in range(edges):
        for _ in range(int(rng.integers(0, BACKLOG + 1))):
            own[q] += slope[q] * rng.random() / replicas[q]
            leaving[q] = max(leaving[q], rng.random() * _apart(place, q, int(rng.integers(total))))
        for _ in range(int(rng.integers(0, BACKLOG + 1))):
            size = rng.random()
            other[q] += slope[q] * size / replicas[q]
            coming[q] = max(coming[q], size * _apart(place, q, int(rng.integers(total))))
            leaving[q] = max(leaving[q], rng.random() * _apart(place, q, int(rng.integers(total))))
    return Instance(
        place, slope, offset, replicas, own, other, coming, leaving,
        rng.integers(0, edges, requests), rng.integers(0, total, requests), rng.random(requests), rng.random(requests),
        1.0,
    )  # fmt: skip


def tight(scale: Scale, rng: np.random.Generator) -> Instance:
    """An instance of the family `corais-tight`."""
    total, edges, requests = scale
    centres = rng.random((max(2, total // 5), 2))
    place = centres[rng.integers(0, len(centres), total)] + CLUSTER * rng.standard_normal((total, 2))
    slope = np.exp(-np.log(SPREAD) * rng.random(edges))
    zero = np.zeros(edges)
    return Instance(
        place, slope, OFFSET * slope * rng.random(edges), rng.integers(1, REPLICAS + 1, edges), zero, zero, zero, zero,
        rng.integers(0, edges, requests), rng.integers(0, total, requests), rng.random(requests), rng.random(requests),
        float(rng.choice(TRANSFERS)),
    )  # fmt: skip


FAMILIES: Mapping[str, Callable[[Scale, np.random.Generator], Instance]] = {"corais": corais, "corais-tight": tight}


def instances(family: str, scale: Scale, count: int, seed: int = 0) -> Iterator[Instance]:
    """`count` instances; each has a stream of its own, so the first ones are the same whatever `count` is."""
    make = FAMILIES[family]
    for stream in np.random.SeedSequence([seed, *scale, sorted(FAMILIES).index(family)]).spawn(count):
        yield make(scale, np.random.Generator(np.random.PCG64(stream)))


def _apart(place: Floats, a: int, b: int) -> float:
    return float(np.hypot(*(place[a] - place[b])))
