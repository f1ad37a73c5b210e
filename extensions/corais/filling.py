"""Placement for large instances, without a table of times: distances are computed when they are needed.

Where backlogs are long, nearly all requests can stay at their source, and the makespan is that of the backlog, the
floor: every request goes to the first edge that still ends within it, its source, then the others, fast ones first.
Else each goes, long ones first, where the response of the edge stays least; where all fit below that by the first rule,
they are placed so; and requests of the worst edge are moved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.extensions.corais.problem import Decision, Floats, Instance, distance, response

Ints = NDArray[np.int64]

BUDGET = 30_000_000  # evaluations of a move; some 0.2 s
_STEP = 0.98  # of the makespan, that a placement is tried at next


def fill(instance: Instance) -> Decision:
    """A decision for a large instance: (requests,) edges; at the floor where that goes by the rule."""
    found: Decision = _large(instance.floor, BUDGET, *instance.arrays())
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


@part
def _after(
    z: int, q: int, most: float, place: Floats, slope: Floats, offset: Floats, replicas: Ints, source: Ints,
    target: Ints, size: Floats, output: Floats, transfer: float, row: Floats,
) -> float:  # fmt: skip
    """The response of edge q with request z as well; a lower bound of it where that is `most` or more already."""
    work = (slope[q] * size[z] + offset[q]) / replicas[q]
    if q == source[z]:
        least = response(row[0] + work, row[1], row[2], row[3])
    else:
        least = response(row[0], row[1] + work, row[2], row[3])
    if least >= most:
        return least
    last = max(row[3], transfer * output[z] * distance(place, q, target[z]))
    if q == source[z]:
        return response(row[0] + work, row[1], row[2], last)
    way = transfer * size[z] * distance(place, source[z], q)
    return response(row[0], row[1] + work, max(row[2], way), last)


@part
def _add(
    z: int, q: int, place: Floats, slope: Floats, offset: Floats, replicas: Ints, source: Ints, target: Ints,
    size: Floats, output: Floats, transfer: float, row: Floats,
) -> None:  # fmt: skip
    """Put request z into the state of edge q."""
    work = (slope[q] * size[z] + offset[q]) / replicas[q]
    if q == source[z]:
        row[0] += work
    else:
        row[1] += work
        row[2] = max(row[2], transfer * size[z] * distance(place, source[z], q))
    row[3] = max(row[3], transfer * output[z] * distance(place, q, target[z]))


@part
def _longest_first(
    order: Ints, fast: Ints, place: Floats, slope: Floats, offset: Floats, replicas: Ints, base: Floats, source: Ints,
    target: Ints, size: Floats, output: Floats, transfer: float, state: Floats, decision: Ints,
) -> None:  # fmt: skip
    """Each request, long ones first, where the response of the edge stays least."""
    state[:] = base
    for z in order:
        best = source[z]  # mostly near the best, so that few ways of others have to be known
        least = _after(
            z, best, np.inf, place, slope, offset, replicas, source, target, size, output, transfer, state[best]
        )
        for q in fast:
            work = (slope[q] * size[z] + offset[q]) / replicas[q]
            if max(state[q, 0], state[q, 2]) + state[q, 1] + work + state[q, 3] >= least or q == source[z]:
                continue
            after = _after(
                z, q, least, place, slope, offset, replicas, source, target, size, output, transfer, state[q]
            )
            if after < least:
                best, least = q, after
        decision[z] = best
        _add(z, best, place, slope, offset, replicas, source, target, size, output, transfer, state[best])


@part
def _descend(
    budget: int, place: Floats, slope: Floats, offset: Floats, replicas: Ints, base: Floats, source: Ints,
    target: Ints, size: Floats, output: Floats, transfer: float, state: Floats, decision: Ints,
) -> None:  # fmt: skip
    """The best move of a request away from the worst edge, again and again, until there is none or no `budget`."""
    edges, requests = len(slope), len(source)
    state[:] = base
    for z in range(requests):
        q = decision[z]
        _add(z, q, place, slope, offset, replicas, source, target, size, output, transfer, state[q])
    responses = np.empty(edges)
    for q in range(edges):
        responses[q] = response(state[q, 0], state[q, 1], state[q, 2], state[q, 3])
    mine, row, kept = np.empty(requests, np.int64), np.empty(4), np.empty(4)
    while budget > 0:
        w = int(np.argmax(responses))
        count = 0
        for z in range(requests):
            if decision[z] == w:
                mine[count] = z
                count += 1
        least, who, where = responses[w], -1, -1
        for i in range(count):
            row[:] = base[w]
            for j in range(count):
                if j != i:
                    _add(mine[j], w, place, slope, offset, replicas, source, target, size, output, transfer, row)
            rest = response(row[0], row[1], row[2], row[3])
            if rest >= least:
                continue
            budget -= edges
            for q in range(edges):
                if q == w:
                    continue
                after = _after(
                    mine[i], q, least, place, slope, offset, replicas, source, target, size, output, transfer, state[q]
                )
                if max(after, rest) < least:
                    least, who, where = max(after, rest), mine[i], q
                    kept[:] = row
        budget -= requests
        if who < 0:
            return
        decision[who] = where
        state[w] = kept
        _add(who, where, place, slope, offset, replicas, source, target, size, output, transfer, state[where])
        for q in (w, where):
            responses[q] = response(state[q, 0], state[q, 1], state[q, 2], state[q, 3])


@entry()
def _large(
    floor: float, budget: int, place: Floats, slope: Floats, offset: Floats, replicas: Ints, own_work: Floats,
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
    _longest_first(
        order, fast, place, slope, offset, replicas, base, source, target, size, output, transfer, state, decision
    )
    value = 0.0
    for q in range(edges):
        value = max(value, response(state[q, 0], state[q, 1], state[q, 2], state[q, 3]))
    limit = _STEP * value
    while limit > floor and _fill(
        limit, order, fast, place, slope, offset, replicas, base, source, target, size, output, transfer, state, trial
    ):
        decision[:] = trial
        limit *= _STEP
    _descend(budget, place, slope, offset, replicas, base, source, target, size, output, transfer, state, decision)
    return decision
