"""Ours: a decision by construction, then moves and swaps away from the worst edge, with kicks out of local optima.

`solve` stops at the floor (no decision is below the backlog of the worst edge) or when its budget is spent. The
budget counts evaluations, not time, so that equal seeds give equal decisions on every machine.

Construction looks for the smallest makespan at which all requests, longest first, can be placed: at a given makespan
each goes to the edge that spends least of its time on it and still ends within. That is bisected. Then edges change,
at random, how far they take requests from and answer to, and all requests are placed anew a little below the worst;
where that fails, some requests are moved and the descent begins again. Above `DENSE` pairs of requests and edges
there is no table of times, and `filling` places the requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, part
from cosim.schedulers.corais.filling import fill
from cosim.schedulers.corais.problem import Decision, Floats, Instance, distance, response

Ints = NDArray[np.int64]
Index = Any  # int in Python, int64 in machine code: numba makes a float of a signed and an unsigned one

DENSE = 2_000_000  # pairs of request and edge up to which a table of times is made
BUDGET = 60_000  # evaluations of a move or swap; about 1 ms
BISECTIONS = 12
_EPS = 1e-12


def solve(instance: Instance, *, budget: int = BUDGET, seed: int = 0) -> Decision:
    """A decision for `instance`: (requests,) edges."""
    arrays = instance.arrays()
    if instance.requests == 0:
        return np.zeros(0, np.int64)
    if instance.requests * instance.edges > DENSE:
        return fill(instance)
    found: Decision = _dense(instance.floor, budget, BISECTIONS, np.uint64(seed), *arrays)
    return found


@part
def _times(
    place: Floats, slope: Floats, offset: Floats, replicas: Ints, source: Ints, target: Ints, size: Floats,
    output: Floats, transfer: float,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """(edges, requests) s of work, of the input's way (0 at its source), of the result's way."""
    edges, requests = len(slope), len(source)
    work, way, back = np.empty((edges, requests)), np.empty((edges, requests)), np.empty((edges, requests))
    apart = np.empty((edges, len(place)))
    for q in range(edges):
        for n in range(len(place)):
            apart[q, n] = transfer * distance(place, q, n)
    for q in range(edges):
        for z in range(requests):
            work[q, z] = (slope[q] * size[z] + offset[q]) / replicas[q]
            way[q, z] = size[z] * apart[q, source[z]]
            back[q, z] = output[z] * apart[q, target[z]]
    return work, way, back


@part
def _place(
    limit: float, order: Ints, work: Floats, way: Floats, back: Floats, source: Ints, base: Floats, state: Floats,
    decision: Ints,
) -> bool:  # fmt: skip
    """Place all requests so that every edge ends within `limit`, if that goes by the rule; `state` is scratch."""
    state[:] = base
    edges = work.shape[0]
    for z in order:
        best, least = -1, np.inf
        for q in range(edges):
            own, other, arrival, last = state[q, 0], state[q, 1], state[q, 2], state[q, 3]
            if q == source[z]:
                own += work[q, z]
            else:
                other += work[q, z]
                arrival = max(arrival, way[q, z])
            last = max(last, back[q, z])
            after = response(own, other, arrival, last)
            # What the edge loses of its time, in parts of the time that it has.
            spent = (after - response(state[q, 0], state[q, 1], state[q, 2], state[q, 3])) / limit
            price = spent + work[q, z] / limit
            if after <= limit and price < least:
                best, least = q, price
        if best < 0:
            return False
        decision[z] = best
        _add(state[best], best == source[z], work[best, z], way[best, z], back[best, z])
    return True


@part
def _add(row: Floats, own: bool, work: float, way: float, back: float) -> None:
    if own:
        row[0] += work
    else:
        row[1] += work
        row[2] = max(row[2], way)
    row[3] = max(row[3], back)


@part
def _greedy(order: Ints, work: Floats, way: Floats, back: Floats, source: Ints, state: Floats, decision: Ints) -> float:
    """Longest first, each where the edge's response stays least; the makespan."""
    for z in order:
        best, least = 0, np.inf
        for q in range(work.shape[0]):
            own, other, arrival = state[q, 0], state[q, 1], state[q, 2]
            if q == source[z]:
                own += work[q, z]
            else:
                other += work[q, z]
                arrival = max(arrival, way[q, z])
            after = response(own, other, arrival, max(state[q, 3], back[q, z]))
            if after < least:
                best, least = q, after
        decision[z] = best
        _add(state[best], best == source[z], work[best, z], way[best, z], back[best, z])
    worst = 0.0
    for q in range(work.shape[0]):
        worst = max(worst, response(state[q, 0], state[q, 1], state[q, 2], state[q, 3]))
    return worst


@part
def _sum(
    q: Index, decision: Ints, work: Floats, way: Floats, back: Floats, source: Ints, base: Floats, rows: Floats
) -> None:
    """The state of one edge anew: sums, and the two largest ways with the request of the largest.

    rows[q]: own, other, arrival, second arrival, its request, last, second last, its request, response.
    """
    own, other = base[q, 0], base[q, 1]
    first, second, who = base[q, 2], base[q, 2], -1
    late, later, whose = base[q, 3], base[q, 3], -1
    for z in range(len(decision)):
        if decision[z] != q:
            continue
        if q == source[z]:
            own += work[q, z]
        else:
            other += work[q, z]
            if way[q, z] > first:
                second, first, who = first, way[q, z], z
            elif way[q, z] > second:
                second = way[q, z]
        if back[q, z] > late:
            later, late, whose = late, back[q, z], z
        elif back[q, z] > later:
            later = back[q, z]
    rows[q, 0], rows[q, 1], rows[q, 2], rows[q, 3], rows[q, 4] = own, other, first, second, who
    rows[q, 5], rows[q, 6], rows[q, 7] = late, later, whose
    rows[q, 8] = response(own, other, first, late)


@part
def _changed(
    rows: Floats, q: Index, out: Index, into: Index, work: Floats, way: Floats, back: Floats, source: Ints
) -> float:
    """The response of edge q without request `out` and with request `into`; -1: none."""
    own, other, first, late = rows[q, 0], rows[q, 1], rows[q, 2], rows[q, 5]
    if out >= 0:
        if source[out] == q:
            own -= work[q, out]
        else:
            other -= work[q, out]
            if rows[q, 4] == out:
                first = rows[q, 3]
        if rows[q, 7] == out:
            late = rows[q, 6]
    if into >= 0:
        if source[into] == q:
            own += work[q, into]
        else:
            other += work[q, into]
            first = max(first, way[q, into])
        late = max(late, back[q, into])
    return response(own, other, first, late)


@part
def _improve(
    w: Index, limit: float, decision: Ints, rows: Floats, work: Floats, way: Floats, back: Floats, source: Ints
) -> tuple[int, int, int, int]:  # fmt: skip
    """The first move, or else swap, after which edge w and the other one end before `limit`.

    Returns request, edge, the request that comes back or -1, and the evaluations; request -1: there is none.
    """
    edges, requests = work.shape
    tried = 0
    for z in range(requests):
        if decision[z] == w and _changed(rows, w, z, -1, work, way, back, source) < limit:
            tried += edges
            for q in range(edges):
                if q != w and _changed(rows, q, -1, z, work, way, back, source) < limit:
                    return z, q, -1, tried
    for z in range(requests):
        if decision[z] != w:
            continue
        tried += requests
        for z2 in range(requests):
            q = decision[z2]
            if (
                q != w
                and _changed(rows, w, z, z2, work, way, back, source) < limit
                and _changed(rows, q, z2, z, work, way, back, source) < limit
            ):
                return z, q, z2, tried
    return -1, -1, -1, tried


@part
def _descend(
    decision: Ints, rows: Floats, work: Floats, way: Floats, back: Floats, source: Ints, base: Floats, budget: int
) -> int:
    """Moves and swaps that lower the worst edge until there is none, or the budget is spent; what is left of it."""
    while budget > 0:
        w = int(np.argmax(rows[:, 8]))
        z, q, other, tried = _improve(w, rows[w, 8] - _EPS, decision, rows, work, way, back, source)
        budget -= tried + len(decision)
        if z < 0:
            break
        decision[z] = q
        if other >= 0:
            decision[other] = w
        _sum(w, decision, work, way, back, source, base, rows)
        _sum(q, decision, work, way, back, source, base, rows)
    return budget


@part
def _random(state: np.uint64) -> np.uint64:
    """xorshift64*, without its multiplication."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    return state


@part
def _below(word: np.uint64, shift: int, count: int) -> Index:
    """A whole number from 0 to below `count`, of the bits of `word` above the first `shift`."""
    return np.int64((word >> np.uint64(shift)) % np.uint64(count))


@part
def _kick(
    word: np.uint64, decision: Ints, rows: Floats, work: Floats, way: Floats, back: Floats, source: Ints, base: Floats
) -> np.uint64:  # fmt: skip
    """Send what travels longest to, or from, one edge elsewhere, mostly from the worst edge; then a random request.

    Single moves do not see that: as long as a second request travels as far, nothing is gained.
    """
    edges, requests = work.shape
    word = _random(word)
    w: Index = int(np.argmax(rows[:, 8]))
    if word % np.uint64(4) == 0:
        w = _below(word, 8, edges)
    by_way = (word >> np.uint64(40)) % np.uint64(2) == 0
    for _ in range(1 + _below(word, 44, 4)):
        z = np.int64(rows[w, 4]) if by_way else np.int64(rows[w, 7])
        if z < 0:
            break
        best, least = -1, np.inf
        for q in range(edges):
            if q != w:
                after = _changed(rows, q, -1, z, work, way, back, source)
                if after < least:
                    best, least = q, after
        decision[z] = best
        _sum(w, decision, work, way, back, source, base, rows)
        _sum(best, decision, work, way, back, source, base, rows)
    word = _random(word)
    z, q = _below(word, 0, requests), _below(word, 32, edges)
    was = decision[z]
    if q != was:
        decision[z] = q
        _sum(was, decision, work, way, back, source, base, rows)
        _sum(q, decision, work, way, back, source, base, rows)
    return word


@part
def _place_within(
    limit: float, order: Ints, work: Floats, way: Floats, back: Floats, source: Ints, base: Floats, caps: Floats,
    state: Floats, decision: Ints,
) -> bool:  # fmt: skip
    """Place all requests so that every edge ends within `limit` and none travels longer than the caps of its edge.

    Those that the fewest edges may take come first, longest first among them.

    caps: (edges, 2) s, of the ways to the edge and of the ways back. They are paid from the beginning, so that a
    request which travels less costs its work only.
    """
    edges = work.shape[0]
    for q in range(edges):
        state[q, 0], state[q, 1] = base[q, 0], base[q, 1]
        state[q, 2], state[q, 3] = caps[q, 0], caps[q, 1]
        if response(state[q, 0], state[q, 1], state[q, 2], state[q, 3]) > limit:
            return False
    requests = len(order)
    free = np.zeros(requests, np.int64)  # edges that may take each request
    for q in range(edges):
        for z in range(requests):
            if back[q, z] <= caps[q, 1] and (q == source[z] or way[q, z] <= caps[q, 0]):
                free[z] += 1
    first = np.zeros(edges + 2, np.int64)
    for z in range(requests):
        if free[z] == 0:
            return False
        first[free[z] + 1] += 1
    for k in range(1, edges + 2):
        first[k] += first[k - 1]
    bound = np.empty(requests, np.int64)
    for z in order:
        bound[first[free[z]]] = z
        first[free[z]] += 1
    for k in range(requests):
        z = int(bound[k])
        best, least = -1, np.inf
        for q in range(edges):
            if back[q, z] > caps[q, 1]:
                continue
            own, other = state[q, 0], state[q, 1]
            if q == source[z]:
                own += work[q, z]
            elif way[q, z] > caps[q, 0]:
                continue
            else:
                other += work[q, z]
            after = response(own, other, state[q, 2], state[q, 3])
            if after <= limit:
                price = after - response(state[q, 0], state[q, 1], state[q, 2], state[q, 3]) + work[q, z]
                if price < least:
                    best, least = q, price
        if best < 0:
            return False
        decision[z] = best
        if best == source[z]:
            state[best, 0] += work[best, z]
        else:
            state[best, 1] += work[best, z]
    return True


@part
def _recap(
    word: np.uint64, step: float, tries: int, order: Ints, decision: Ints, rows: Floats, work: Floats, way: Floats,
    back: Floats, source: Ints, base: Floats, state: Floats, trial: Ints,
) -> tuple[np.uint64, int]:  # fmt: skip
    """Change what one or two edges take from afar, and place all anew a little below the worst; ends at a success.

    Returns the generator's state and the tries that were made, or -1 when `decision` and `rows` are better now.
    """
    edges, requests = work.shape
    limit = rows[:, 8].max() * (1.0 - step)
    caps = np.empty((edges, 2))
    for _ in range(tries):
        for q in range(edges):
            caps[q, 0], caps[q, 1] = rows[q, 2], rows[q, 5]
        for _ in range(2):
            word = _random(word)
            q = _below(word, 3, edges)
            z = _below(word, 23, requests)
            which = _below(word, 50, 4)
            if which == 0:
                caps[q, 0] = max(base[q, 2], way[q, z])
            elif which == 1:
                caps[q, 1] = max(base[q, 3], back[q, z])
            elif which == 2:
                caps[q, 1] = base[q, 3]
            else:
                caps[q, 0], caps[q, 1] = max(base[q, 2], way[q, z]), max(base[q, 3], back[q, z])
        if _place_within(limit, order, work, way, back, source, base, caps, state, trial):
            decision[:] = trial
            for q in range(edges):
                _sum(q, decision, work, way, back, source, base, rows)
            return word, -1
    return word, tries


@entry()
def _dense(
    floor: float, budget: int, bisections: int, seed: np.uint64, place: Floats, slope: Floats, offset: Floats,
    replicas: Ints, own_work: Floats, coming_work: Floats, coming: Floats, leaving: Floats, source: Ints, target: Ints,
    size: Floats, output: Floats, transfer: float,
) -> Ints:  # fmt: skip
    edges, requests = len(slope), len(source)
    work, way, back = _times(place, slope, offset, replicas, source, target, size, output, transfer)
    base = np.empty((edges, 4))
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = own_work, coming_work, coming, leaving
    order = np.argsort(-size)
    decision, trial = np.empty(requests, np.int64), np.empty(requests, np.int64)
    state = base.copy()
    value = _greedy(order, work, way, back, source, state, decision)
    low, high = floor, value
    for _ in range(bisections):
        if high - low <= 1e-3 * high:
            break
        middle = 0.5 * (low + high)
        if _place(middle, order, work, way, back, source, base, state, trial):
            high = middle
            decision[:] = trial
        else:
            low = middle
    rows = np.empty((edges, 9))
    for q in range(edges):
        _sum(q, decision, work, way, back, source, base, rows)
    budget = _descend(decision, rows, work, way, back, source, base, budget)
    value = rows[:, 8].max()
    found = decision.copy()
    word = _random((seed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))
    while budget > 0 and value > floor + _EPS:
        decision[:] = found
        for q in range(edges):
            _sum(q, decision, work, way, back, source, base, rows)
        word, tried = _recap(word, 0.002, 8, order, decision, rows, work, way, back, source, base, state, trial)
        budget -= 8 * requests * edges // 4
        if tried >= 0:
            word = _kick(word, decision, rows, work, way, back, source, base)
            budget -= requests * 2
        budget = _descend(decision, rows, work, way, back, source, base, budget)
        now = rows[:, 8].max()
        if now < value + _EPS:
            value = min(value, now)
            found[:] = decision
    return found
