"""Placement for large instances, without a table of times: distances are computed when they are needed.

Where backlogs are long, nearly all requests can stay at their source, and the makespan is that of the backlog, the
floor: every request goes to the first edge that still ends within it, its source, then the others, fast ones first.
Else each goes, long ones first, where the response of the edge stays least; where all fit below that by the first rule,
they are placed so; and requests of the worst edge are moved.
"""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats, Ints
from cosim.extensions.corais.problem import Decision, Instance, distance, response

BUDGET = 30_000_000  # evaluations of a move; some 0.2 s
_STEP = 0.98  # of the makespan, that a placement is tried at next


def fill(instance: Instance) -> Decision:
    """A decision for a large instance: (requests,) edges; at the floor where that goes by the rule."""
    found: Decision = _large(instance.floor, BUDGET, instance)
    return found


@part
def _try(z: int, q: int, limit: float, p: Instance, work: float, row: Floats) -> bool:
    """Place request z at edge q if the edge ends within `limit` then."""
    own, other, arrival = row[0], row[1], row[2]
    if q == p.source[z]:
        own += work
    else:
        other += work
        if max(own, arrival) + other + row[3] > limit:
            return False
        arrival = max(arrival, p.transfer * p.input[z] * distance(p.place, p.source[z], q))
    last = max(row[3], p.transfer * p.output[z] * distance(p.place, q, p.target[z]))
    if response(own, other, arrival, last) > limit:
        return False
    row[0], row[1], row[2], row[3] = own, other, arrival, last
    return True


@part
def _fill(limit: float, order: Ints, fast: Ints, p: Instance, base: Floats, state: Floats, decision: Ints) -> bool:
    """Place every request within `limit`: at its source, else at the first edge that takes it, fast ones first."""
    state[:] = base
    edges = len(p.slope)
    for z in order:
        q = p.source[z]
        work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
        done = _try(z, q, limit, p, work, state[q])
        if not done:
            for k in range(edges):
                q = fast[k]
                row = state[q]
                work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
                if max(row[0], row[2]) + row[1] + row[3] + work > limit and row[0] + work + row[1] + row[3] > limit:
                    continue
                if _try(z, q, limit, p, work, row):
                    done = True
                    break
        if not done:
            return False
        decision[z] = q
    return True


@part
def _after(z: int, q: int, most: float, p: Instance, row: Floats) -> float:
    """The response of edge q with request z as well; a lower bound of it where that is `most` or more already."""
    work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
    if q == p.source[z]:
        least = response(row[0] + work, row[1], row[2], row[3])
    else:
        least = response(row[0], row[1] + work, row[2], row[3])
    if least >= most:
        return least
    last = max(row[3], p.transfer * p.output[z] * distance(p.place, q, p.target[z]))
    if q == p.source[z]:
        return response(row[0] + work, row[1], row[2], last)
    way = p.transfer * p.input[z] * distance(p.place, p.source[z], q)
    return response(row[0], row[1] + work, max(row[2], way), last)


@part
def _add(z: int, q: int, p: Instance, row: Floats) -> None:
    """Put request z into the state of edge q."""
    work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
    if q == p.source[z]:
        row[0] += work
    else:
        row[1] += work
        row[2] = max(row[2], p.transfer * p.input[z] * distance(p.place, p.source[z], q))
    row[3] = max(row[3], p.transfer * p.output[z] * distance(p.place, q, p.target[z]))


@part
def _longest_first(order: Ints, fast: Ints, p: Instance, base: Floats, state: Floats, decision: Ints) -> None:
    """Each request, long ones first, where the response of the edge stays least."""
    state[:] = base
    for z in order:
        best = p.source[z]  # mostly near the best, so that few ways of others have to be known
        least = _after(z, best, np.inf, p, state[best])
        for q in fast:
            work = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
            if max(state[q, 0], state[q, 2]) + state[q, 1] + work + state[q, 3] >= least or q == p.source[z]:
                continue
            after = _after(z, q, least, p, state[q])
            if after < least:
                best, least = q, after
        decision[z] = best
        _add(z, best, p, state[best])


@part
def _descend(budget: int, p: Instance, base: Floats, state: Floats, decision: Ints) -> None:
    """The best move of a request away from the worst edge, again and again, until there is none or no `budget`."""
    edges, requests = len(p.slope), len(p.source)
    state[:] = base
    for z in range(requests):
        q = decision[z]
        _add(z, q, p, state[q])
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
                    _add(mine[j], w, p, row)
            rest = response(row[0], row[1], row[2], row[3])
            if rest >= least:
                continue
            budget -= edges
            for q in range(edges):
                if q == w:
                    continue
                after = _after(mine[i], q, least, p, state[q])
                if max(after, rest) < least:
                    least, who, where = max(after, rest), mine[i], q
                    kept[:] = row
        budget -= requests
        if who < 0:
            return
        decision[who] = where
        state[w] = kept
        _add(who, where, p, state[where])
        for q in (w, where):
            responses[q] = response(state[q, 0], state[q, 1], state[q, 2], state[q, 3])


@entry()
def _large(floor: float, budget: int, p: Instance) -> Ints:
    edges, requests = len(p.slope), len(p.source)
    base = np.empty((edges, 4))
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = p.own_work, p.coming_work, p.coming, p.leaving
    order = np.argsort(-p.input)
    fast = np.argsort((p.slope + p.offset) / p.replicas)
    state = base.copy()
    decision, trial = np.empty(requests, np.int64), np.empty(requests, np.int64)
    if _fill(floor, order, fast, p, base, state, decision):
        return decision
    _longest_first(order, fast, p, base, state, decision)
    value = 0.0
    for q in range(edges):
        value = max(value, response(state[q, 0], state[q, 1], state[q, 2], state[q, 3]))
    limit = _STEP * value
    while limit > floor and _fill(limit, order, fast, p, base, state, trial):
        decision[:] = trial
        limit *= _STEP
    _descend(budget, p, base, state, decision)
    return decision
