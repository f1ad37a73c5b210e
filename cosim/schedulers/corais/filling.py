"""Placement for large instances: every request at the first edge that still ends within a makespan, bisected.

A request is tried at its source, then at the other edges, fast ones first; distances are computed when they are
needed. Where backlogs are long, nearly all requests stay at their source and the whole costs O(requests).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, part
from cosim.schedulers.corais.problem import Decision, Floats, Instance, distance, response

Ints = NDArray[np.int64]

BISECTIONS = 12


def fill(instance: Instance) -> Decision:
    """A decision for a large instance: (requests,) edges; at the floor where that goes by the rule."""
    found: Decision = _large(instance.floor, BISECTIONS, *instance.arrays())
    return found


@part
def _try(
    z: int, q: int, limit: float, place: Floats, work: float, source: Ints, target: Ints, size: Floats, output: Floats,
    transfer: float, row: Floats,
) -> bool:  # fmt: skip
    """Place request z at edge q if the edge ends within `limit` then."""
    own, other, arrival = row[0], row[1], row[2]
    if q == source[z]:
        own += work
    else:
        other += work
        if max(own, arrival) + other + row[3] > limit:
            return False
        arrival = max(arrival, transfer * size[z] * distance(place, source[z], q))
    last = max(row[3], transfer * output[z] * distance(place, q, target[z]))
    if response(own, other, arrival, last) > limit:
        return False
    row[0], row[1], row[2], row[3] = own, other, arrival, last
    return True


@part
def _fill(
    limit: float, order: Ints, fast: Ints, place: Floats, slope: Floats, offset: Floats, replicas: Ints, base: Floats,
    source: Ints, target: Ints, size: Floats, output: Floats, transfer: float, state: Floats, decision: Ints,
) -> bool:  # fmt: skip
    """Place every request within `limit`: at its source, else at the first edge that takes it, fast ones first."""
    state[:] = base
    edges = len(slope)
    for z in order:
        q = source[z]
        work = (slope[q] * size[z] + offset[q]) / replicas[q]
        done = _try(z, q, limit, place, work, source, target, size, output, transfer, state[q])
        if not done:
            for k in range(edges):
                q = fast[k]
                row = state[q]
                work = (slope[q] * size[z] + offset[q]) / replicas[q]
                if max(row[0], row[2]) + row[1] + row[3] + work > limit and row[0] + work + row[1] + row[3] > limit:
                    continue
                if _try(z, q, limit, place, work, source, target, size, output, transfer, row):
                    done = True
                    break
        if not done:
            return False
        decision[z] = q
    return True


@entry()
def _large(
    floor: float, bisections: int, place: Floats, slope: Floats, offset: Floats, replicas: Ints, own_work: Floats,
    coming_work: Floats, coming: Floats, leaving: Floats, source: Ints, target: Ints, size: Floats, output: Floats,
    transfer: float,
) -> Ints:  # fmt: skip
    edges, requests = len(slope), len(source)
    base = np.empty((edges, 4))
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = own_work, coming_work, coming, leaving
    order = np.argsort(-size)
    fast = np.argsort((slope + offset) / replicas)
    state = base.copy()
    decision, trial = np.empty(requests, np.int64), np.empty(requests, np.int64)
    if _fill(
        floor, order, fast, place, slope, offset, replicas, base, source, target, size, output, transfer, state,
        decision,
    ):  # fmt: skip
        return decision
    low, high = floor, 2.0 * floor + 1e-6
    while not _fill(
        high, order, fast, place, slope, offset, replicas, base, source, target, size, output, transfer, state, decision
    ):
        low, high = high, 2.0 * high
    for _ in range(bisections):
        if high - low <= 1e-3 * high:
            break
        middle = 0.5 * (low + high)
        if _fill(
            middle, order, fast, place, slope, offset, replicas, base, source, target, size, output, transfer, state,
            trial,
        ):  # fmt: skip
            high = middle
            decision[:] = trial
        else:
            low = middle
    return decision
