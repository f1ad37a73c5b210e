"""Ours: a decision by construction, then moves and swaps away from the worst edge, with kicks out of local optima.

`solve` stops at the floor (no decision is below the backlog of the worst edge) or when its budget is spent. The
budget counts evaluations, not time, so that equal seeds give equal decisions on every machine.

Construction looks for the smallest makespan at which all requests, longest first, can be placed: at a given makespan
each goes to the edge that spends least of its time on it and still ends within. That is bisected, first without more,
then for the longest ways that each of the fastest edges may take, one after the other: what the fastest edge waits for
and answers is paid by all that it computes. Then edges change, at random, how far they take requests from and answer
to, and all requests are placed anew a little below the worst; where that fails, some requests are moved and the descent
begins again. Above `DENSE` pairs of requests and edges there is no table of times, and `filling` places the requests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cosim.compiled.compiling import entry, part
from cosim.compiled.splitmix import STEP
from cosim.contract.records import Floats, Ints
from cosim.extensions.corais.filling import fill
from cosim.extensions.corais.problem import Decision, Instance, distance, response

Index = Any  # int in Python, int64 in machine code: numba makes a float of a signed and an unsigned one

DENSE = 2_000_000  # pairs of request and edge up to which a table of times is made
BUDGET = 60_000  # evaluations of a move or swap; about 1 ms
BISECTIONS = 12
RULES = 3  # by which an edge is chosen when all are placed anew
_CAPS, _SWEPT, _ROUNDS = 16, 3, 2  # caps tried, of so many of the fastest edges, how often
TRIES = 8  # of other caps before a kick
_STEPS = (0.02, 0.0005)  # how far below the best makespan all are placed anew, at first and at least
_EPS = 1e-12


def solve(instance: Instance, *, budget: int = BUDGET, seed: int = 0) -> Decision:
    """A decision for `instance`: (requests,) edges."""
    if instance.requests == 0:
        return np.zeros(0, np.int64)
    if instance.requests * instance.edges > DENSE:
        return fill(instance)
    found: Decision = _dense(instance.floor, budget, BISECTIONS, np.uint64(seed), instance)
    return found


class Times(NamedTuple):
    """What a request takes at each edge, and what the edges have to do without any; s, (edges, requests)."""

    work: Floats
    way: Floats  # of the input, 0 at its source
    back: Floats  # of the result
    source: Ints  # (requests,) edges
    base: Floats  # (edges, 4): own work, that of others, their ways, ways back
    ways: Floats  # as `way`, ascending for each edge
    backs: Floats  # as `back`, ascending for each edge


@part
def _times(p: Instance) -> Times:
    edges, requests = len(p.slope), len(p.source)
    work, way, back = np.empty((edges, requests)), np.empty((edges, requests)), np.empty((edges, requests))
    apart = np.empty((edges, len(p.place)))
    for q in range(edges):
        for n in range(len(p.place)):
            apart[q, n] = p.transfer * distance(p.place, q, n)
    for q in range(edges):
        for z in range(requests):
            work[q, z] = (p.slope[q] * p.input[z] + p.offset[q]) / p.replicas[q]
            way[q, z] = p.input[z] * apart[q, p.source[z]]
            back[q, z] = p.output[z] * apart[q, p.target[z]]
    base = np.empty((edges, 4))
    base[:, 0], base[:, 1], base[:, 2], base[:, 3] = p.own_work, p.coming_work, p.coming, p.leaving
    ways, backs = np.empty_like(way), np.empty_like(back)
    for q in range(edges):
        ways[q], backs[q] = np.sort(way[q]), np.sort(back[q])
    return Times(work, way, back, p.source, base, ways, backs)


@part
def _place(limit: float, order: Ints, t: Times, state: Floats, decision: Ints) -> bool:
    """Place all requests so that every edge ends within `limit`, if that goes by the rule; `state` is scratch."""
    state[:] = t.base
    edges = t.work.shape[0]
    for z in order:
        best, least = -1, np.inf
        for q in range(edges):
            after = _after(state[q], q == t.source[z], t.work[q, z], t.way[q, z], t.back[q, z])
            # What the edge loses of its time, in parts of the time that it has.
            spent = (after - _end(state[q])) / limit
            price = spent + t.work[q, z] / limit
            if after <= limit and price < least:
                best, least = q, price
        if best < 0:
            return False
        decision[z] = best
        _add(state[best], best == t.source[z], t.work[best, z], t.way[best, z], t.back[best, z])
    return True


@part
def _end(row: Floats) -> float:
    """When an edge with such a row of `base` ends."""
    return response(row[0], row[1], row[2], row[3])


@part
def _after(row: Floats, own: bool, work: float, way: float, back: float) -> float:
    """The same with one request more."""
    if own:
        return response(row[0] + work, row[1], row[2], max(row[3], back))
    return response(row[0], row[1] + work, max(row[2], way), max(row[3], back))


@part
def _add(row: Floats, own: bool, work: float, way: float, back: float) -> None:
    if own:
        row[0] += work
    else:
        row[1] += work
        row[2] = max(row[2], way)
    row[3] = max(row[3], back)


@part
def _greedy(order: Ints, t: Times, state: Floats, decision: Ints) -> float:
    """Longest first, each where the edge's response stays least; the makespan."""
    for z in order:
        best, least = 0, np.inf
        for q in range(t.work.shape[0]):
            after = _after(state[q], q == t.source[z], t.work[q, z], t.way[q, z], t.back[q, z])
            if after < least:
                best, least = q, after
        decision[z] = best
        _add(state[best], best == t.source[z], t.work[best, z], t.way[best, z], t.back[best, z])
    worst = 0.0
    for q in range(t.work.shape[0]):
        worst = max(worst, _end(state[q]))
    return worst


@part
def _sum(q: Index, decision: Ints, t: Times, rows: Floats) -> None:
    """The state of one edge anew: sums, and the two largest ways with the request of the largest.

    rows[q]: own, other, arrival, second arrival, its request, last, second last, its request, response.
    """
    own, other = t.base[q, 0], t.base[q, 1]
    first, second, who = t.base[q, 2], t.base[q, 2], -1
    late, later, whose = t.base[q, 3], t.base[q, 3], -1
    for z in range(len(decision)):
        if decision[z] != q:
            continue
        if q == t.source[z]:
            own += t.work[q, z]
        else:
            other += t.work[q, z]
            if t.way[q, z] > first:
                second, first, who = first, t.way[q, z], z
            elif t.way[q, z] > second:
                second = t.way[q, z]
        if t.back[q, z] > late:
            later, late, whose = late, t.back[q, z], z
        elif t.back[q, z] > later:
            later = t.back[q, z]
    rows[q, 0], rows[q, 1], rows[q, 2], rows[q, 3], rows[q, 4] = own, other, first, second, who
    rows[q, 5], rows[q, 6], rows[q, 7] = late, later, whose
    rows[q, 8] = response(own, other, first, late)


@part
def _changed(rows: Floats, q: Index, out: Index, into: Index, t: Times) -> float:
    """The response of edge q without request `out` and with request `into`; -1: none."""
    own, other, first, late = rows[q, 0], rows[q, 1], rows[q, 2], rows[q, 5]
    if out >= 0:
        if t.source[out] == q:
            own -= t.work[q, out]
        else:
            other -= t.work[q, out]
            if rows[q, 4] == out:
                first = rows[q, 3]
        if rows[q, 7] == out:
            late = rows[q, 6]
    if into >= 0:
        if t.source[into] == q:
            own += t.work[q, into]
        else:
            other += t.work[q, into]
            first = max(first, t.way[q, into])
        late = max(late, t.back[q, into])
    return response(own, other, first, late)


@part
def _improve(w: Index, limit: float, decision: Ints, rows: Floats, t: Times) -> tuple[int, int, int, int]:
    """The first move, or else swap, after which edge w and the other one end before `limit`.

    Returns request, edge, the request that comes back or -1, and the evaluations; request -1: there is none.
    """
    edges, requests = t.work.shape
    tried = 0
    for z in range(requests):
        if decision[z] == w and _changed(rows, w, z, -1, t) < limit:
            tried += edges
            for q in range(edges):
                if q != w and _changed(rows, q, -1, z, t) < limit:
                    return z, q, -1, tried
    for z in range(requests):
        if decision[z] != w:
            continue
        tried += requests
        for z2 in range(requests):
            q = decision[z2]
            if q != w and _changed(rows, w, z, z2, t) < limit and _changed(rows, q, z2, z, t) < limit:
                return z, q, z2, tried
    return -1, -1, -1, tried


@part
def _descend(decision: Ints, rows: Floats, t: Times, budget: int) -> int:
    """Moves and swaps that lower the worst edge until there is none, or the budget is spent; what is left of it."""
    while budget > 0:
        w = int(np.argmax(rows[:, 8]))
        z, q, other, tried = _improve(w, rows[w, 8] - _EPS, decision, rows, t)
        budget -= tried + len(decision)
        if z < 0:
            break
        decision[z] = q
        if other >= 0:
            decision[other] = w
        _sum(w, decision, t, rows)
        _sum(q, decision, t, rows)
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
def _kick(word: np.uint64, decision: Ints, rows: Floats, t: Times) -> np.uint64:
    """Send what travels longest to, or from, one edge elsewhere, mostly from the worst edge; then a random request.

    Single moves do not see that: as long as a second request travels as far, nothing is gained.
    """
    edges, requests = t.work.shape
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
                after = _changed(rows, q, -1, z, t)
                if after < least:
                    best, least = q, after
        decision[z] = best
        _sum(w, decision, t, rows)
        _sum(best, decision, t, rows)
    word = _random(word)
    z, q = _below(word, 0, requests), _below(word, 32, edges)
    was = decision[z]
    if q != was:
        decision[z] = q
        _sum(was, decision, t, rows)
        _sum(q, decision, t, rows)
    return word


@part
def _place_within(rule: int, limit: float, order: Ints, t: Times, caps: Floats, state: Floats, decision: Ints) -> bool:
    """Place all requests so that every edge ends within `limit` and none travels longer than the caps of its edge.

    Those that the fewest edges may take come first, longest first among them.

    rule: an edge is chosen by its time and the work that a request takes (0), by these as a part of what is left of its
    time (1), or where it ends first (2). caps: (edges, 2) s, of the ways to the edge and of the ways back. They are
    paid from the beginning, so that a request which travels less costs its work only.
    """
    edges = t.work.shape[0]
    for q in range(edges):
        state[q, 0], state[q, 1] = t.base[q, 0], t.base[q, 1]
        state[q, 2], state[q, 3] = caps[q, 0], caps[q, 1]
        if _end(state[q]) > limit:
            return False
    requests = len(order)
    free = np.zeros(requests, np.int64)  # edges that may take each request
    for q in range(edges):
        for z in range(requests):
            if t.back[q, z] <= caps[q, 1] and (q == t.source[z] or t.way[q, z] <= caps[q, 0]):
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
            if t.back[q, z] > caps[q, 1] or (q != t.source[z] and t.way[q, z] > caps[q, 0]):
                continue
            after = _after(state[q], q == t.source[z], t.work[q, z], t.way[q, z], t.back[q, z])
            if after <= limit:
                before = _end(state[q])
                if rule == 0:
                    price = after - before + t.work[q, z]
                elif rule == 1:
                    price = (after - before + 0.05 * t.work[q, z]) / (limit - before + _EPS)
                else:
                    price = after
                if price < least:
                    best, least = q, price
        if best < 0:
            return False
        decision[z] = best
        _add(state[best], best == t.source[z], t.work[best, z], t.way[best, z], t.back[best, z])
    return True


@part
def _place_capped(
    limit: float, first: Index, caps: Floats, order: Ints, t: Times, state: Floats, decision: Ints
) -> bool:
    """As `_place`, but no edge takes what travels longer, there and back, than its caps (edges, 2).

    What edge `first` may not take is placed before all else, as the other edges have less room.
    """
    state[:] = t.base
    edges = t.work.shape[0]
    for turn in range(2):
        for z in order:
            fits = t.back[first, z] <= caps[first, 1] and (first == t.source[z] or t.way[first, z] <= caps[first, 0])
            if fits == (turn == 0):
                continue
            best, least = -1, np.inf
            for q in range(edges):
                if t.back[q, z] > caps[q, 1] or (q != t.source[z] and t.way[q, z] > caps[q, 0]):
                    continue
                after = _after(state[q], q == t.source[z], t.work[q, z], t.way[q, z], t.back[q, z])
                if after <= limit:
                    price = after - _end(state[q]) + t.work[q, z]
                    if price < least:
                        best, least = q, price
            if best < 0:
                return False
            decision[z] = best
            _add(state[best], best == t.source[z], t.work[best, z], t.way[best, z], t.back[best, z])
    return True


@part
def _sweep(value: float, floor: float, order: Ints, t: Times, state: Floats, trial: Ints, decision: Ints) -> float:
    """How much each edge takes from afar and answers afar, tried out, fast ones first; the makespan, and `decision`."""
    edges, requests = t.work.shape
    caps = np.full((edges, 2), np.inf)
    total = np.empty(edges)
    for q in range(edges):
        total[q] = t.work[q].sum()
    fast = np.argsort(total)
    for turn in range(_ROUNDS * min(edges, _SWEPT)):
        q = fast[turn % min(edges, _SWEPT)]
        for which in (1, 0):
            levels = t.backs[q] if which == 1 else t.ways[q]
            kept = caps[q, which]
            for i in range(_CAPS):
                if value <= floor + _EPS:
                    return value
                caps[q, which] = max(t.base[q, 2 + which], levels[requests - 1 - i * requests // _CAPS])
                high = max(floor, value * 0.999)
                if not _place_capped(high, fast[0], caps, order, t, state, trial):
                    continue
                decision[:] = trial
                kept, low, value = caps[q, which], floor, high
                for _ in range(4):
                    middle = 0.7 * value + 0.3 * low
                    if _place_capped(middle, fast[0], caps, order, t, state, trial):
                        decision[:] = trial
                        value = middle
                    else:
                        low = middle
            caps[q, which] = kept
    return value


@part
def _nearby(word: np.uint64, shift: int, values: Floats, now: float, least: float) -> float:
    """A cap some steps up or down the ascending `values` from `now`; not below `least`."""
    step = 1 + _below(word, shift, 3)
    if (word >> np.uint64(shift + 4)) % np.uint64(4) == 0:
        step += _below(word, shift + 6, 12)
    at: Index = np.searchsorted(values, now - _EPS)  # the first that is not below
    last = len(values) - 1
    if (word >> np.uint64(shift + 10)) % np.uint64(2) == 0:
        at -= step
    elif values[min(at, last)] <= now + _EPS:
        at += step
    else:
        at += step - 1
    return float(least if at < 0 else max(least, values[min(at, last)]))


@part
def _recap(
    word: np.uint64, limit: float, tries: int, order: Ints, decision: Ints, rows: Floats, t: Times, state: Floats,
    trial: Ints,
) -> tuple[np.uint64, int]:  # fmt: skip
    """Change what one or two edges take from afar, and place all anew within `limit`; ends at a success.

    Returns the generator's state and the tries that were made, or -1 when `decision` and `rows` are better now.
    """
    edges = len(t.work)
    caps = np.empty((edges, 2))
    for _ in range(tries):
        for q in range(edges):
            caps[q, 0], caps[q, 1] = rows[q, 2], rows[q, 5]
        word = _random(word)
        for _ in range(1 + _below(word, 60, 3)):
            word = _random(word)
            q = _below(word, 3, edges)
            which = _below(word, 30, 3)
            if which != 0:
                caps[q, 1] = _nearby(word, 10, t.backs[q], caps[q, 1], t.base[q, 3])
            if which != 1:
                caps[q, 0] = _nearby(word, 40, t.ways[q], caps[q, 0], t.base[q, 2])
        if _place_within(_below(word, 5, RULES), limit, order, t, caps, state, trial):
            decision[:] = trial
            for q in range(edges):
                _sum(q, decision, t, rows)
            return word, -1
    return word, tries


@entry()
def _dense(floor: float, budget: int, bisections: int, seed: np.uint64, p: Instance) -> Ints:
    t = _times(p)
    edges, requests = t.work.shape
    order = np.argsort(-p.input)
    decision, trial = np.empty(requests, np.int64), np.empty(requests, np.int64)
    state = t.base.copy()
    value = _greedy(order, t, state, decision)
    low, high = floor, value
    for _ in range(bisections):
        if high - low <= 1e-3 * high:
            break
        middle = 0.5 * (low + high)
        if _place(middle, order, t, state, trial):
            high = middle
            decision[:] = trial
        else:
            low = middle
    if budget > 0:
        _sweep(high, floor, order, t, state, trial, decision)
    rows = np.empty((edges, 9))
    for q in range(edges):
        _sum(q, decision, t, rows)
    budget = _descend(decision, rows, t, budget)
    value = rows[:, 8].max()
    found = decision.copy()
    word = _random((seed + np.uint64(1)) * STEP)
    step = _STEPS[0]
    while budget > 0 and value > floor + _EPS:
        decision[:] = found
        for q in range(edges):
            _sum(q, decision, t, rows)
        limit = max(floor, value * (1.0 - step))
        word, tried = _recap(word, limit, TRIES, order, decision, rows, t, state, trial)
        budget -= (TRIES if tried >= 0 else TRIES // 2) * requests * edges // 4
        if tried >= 0:
            step = max(0.5 * step, _STEPS[1])
            word = _kick(word, decision, rows, t)
            budget -= requests * 2
        else:
            step = min(1.5 * step, _STEPS[0])
        budget = _descend(decision, rows, t, budget)
        now = rows[:, 8].max()
        if now < value + _EPS:
            value = min(value, now)
            found[:] = decision
    return found
