"""One period of consolidation: who leaves an over-loaded or under-loaded host, and where to.

The procedure is that of Beloglazov and Buyya 2012 (doi 10.1002/cpe.1867): machines leave over-loaded
hosts one by one, by the selection score, until the host is no longer over-loaded; they are placed in
the order of falling load; then the least loaded hosts are emptied if all of their machines fit
elsewhere. Where a machine fits nowhere, its host offers the others. `relocate` empties hosts at places
whose energy has become expensive, before under-loaded ones. Nothing is moved here: the answer is a list
of moves.
"""

from __future__ import annotations

import numpy as np

from cosim.compiled.compiling import codes, entry
from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.jit import jit
from cosim.extensions.extcloudsim.datacentre import layout as l
from cosim.extensions.extcloudsim.datacentre.detect import entries
from cosim.extensions.extcloudsim.datacentre.layout import Bools, Hosts, Kinds, Machines, PeriodRules, Wan
from cosim.extensions.extcloudsim.datacentre.tally import (
    Given,
    HostSums,
    PeriodView,
    is_over,
    least_watts,
    pull,
    push,
    watts,
)

(_NONE,) = codes(1)


@jit
def _lowest(g: Given, kind: int, load: float) -> int:
    """The lowest operating point that keeps the load below the threshold: frequency scales capacity."""
    top = int(g.kinds.points[kind]) - 1
    for point in range(top):
        if load * g.kinds.frequency[kind, top] / g.kinds.frequency[kind, point] < g.rules.threshold:
            return point
    return top


@jit
def move_cost(m: Machines, wan: Wan, v: int, here: int, there: int) -> float:
    """What moving machine v costs: the penalty while it is on its way, and the transfer."""
    seconds = m.ram[v] / wan.bandwidth[here, there]
    penalty = m.rate[v] * m.price[v] * seconds * wan.factor[here, there]
    return float(penalty + m.ram[v] * wan.transfer_cost[here, there])


@jit
def _badness(b: HostSums, g: Given, v: int, h: int, origin: int) -> float:
    """What the placement policy minimises."""
    kind = g.hosts.kind[h]
    load = b.load[h]
    after = load + g.sees.demand[v] / g.hosts.mips[h]
    if g.rules.placer == l.BEST_FIT:  # written out in `_place`, where a call for every host would cost the most
        return float(g.rules.threshold - after)
    if g.rules.placer == l.WORST_FIT:
        return float(after - g.rules.threshold)
    if g.rules.placer == l.DVFS_FIT:
        old, new = _lowest(g, kind, load), _lowest(g, kind, after)
        top = g.kinds.frequency[kind, g.kinds.points[kind] - 1]
        return float((g.kinds.frequency[kind, new] - g.kinds.frequency[kind, old]) / top - after)
    if g.rules.placer == l.FIRST_FIT:
        return float(h)
    point = g.sees.point[h]
    slow = g.kinds.slowdown[kind, g.m.work[v], point]
    if g.rules.placer == l.POWER_AWARE:
        now = watts(g.kinds, kind, point, load) if load > 0.0 else g.kinds.resting[kind]
        return float(watts(g.kinds, kind, point, after) - now)
    now = watts(g.kinds, kind, point, b.judged[h]) if load > 0.0 else g.kinds.resting[kind]
    more = watts(g.kinds, kind, point, b.judged[h] + slow * (after - load)) - now
    lost = g.m.rate[v] * g.m.price[v] * (1.0 - 1.0 / slow + g.hosts.failures[h] * g.rules.horizon)
    cost = (more * g.sees.price[g.hosts.place[h]] + lost) * g.rules.horizon
    if origin >= 0:
        cost += move_cost(g.m, g.wan, v, g.hosts.place[origin], g.hosts.place[h])
    return float(cost)


@jit
def _spare(b: HostSums, g: Given, v: int) -> Floats:
    """(places,) W that each place may draw more at its lowest clocks, machine v not counted; inf without a cap."""
    spare = g.sees.cap.copy()
    if not np.isfinite(spare).any():
        return spare
    for h in range(len(g.hosts.kind)):
        if g.sees.up[h]:
            load = b.slowest[h]
            if b.at[v] == h:
                load -= g.sees.demand[v] / g.hosts.mips[h] * g.kinds.slowdown[g.hosts.kind[h], g.m.work[v], 0]
                load = 0.0 if b.first[h] == b.last[h] else load
            spare[g.hosts.place[h]] -= least_watts(g, g.hosts.kind[h], load)
    return spare


@jit
def _place(b: HostSums, g: Given, v: int, closed: Bools, origin: int) -> int:
    """The host for machine v, -1 if it fits on none."""
    best, least = -1, np.inf
    spare = _spare(b, g, v)
    for h in range(len(g.hosts.kind)):
        if closed[h] or not g.sees.up[h] or b.ram[h] + g.m.ram[v] > g.hosts.ram[h] * g.rules.overcommit:
            continue
        if b.gpus[h] + g.m.gpus[v] > g.hosts.gpus[h]:
            continue
        if spare[g.hosts.place[h]] < np.inf:
            kind, slow = g.hosts.kind[h], g.kinds.slowdown[g.hosts.kind[h], g.m.work[v], 0]
            after = b.slowest[h] + g.sees.demand[v] / g.hosts.mips[h] * slow
            more = least_watts(g, kind, after) - least_watts(g, kind, b.slowest[h])
            if more > spare[g.hosts.place[h]]:
                continue
        share = g.sees.demand[v] / g.hosts.mips[h]
        if b.load[h] + share > g.rules.threshold:
            continue
        badness = g.rules.threshold - (b.load[h] + share)
        if g.rules.placer != l.BEST_FIT:
            badness = _badness(b, g, v, h, origin)
        if not badness < least:
            continue
        extra = share * g.kinds.slowdown[g.hosts.kind[h], g.m.work[v], g.sees.point[h]]
        if b.first[h] >= 0 and is_over(b, g, h, v, extra):
            continue
        best, least = h, badness
        if g.rules.placer == l.FIRST_FIT:
            break
    return best


@jit
def determination(rows: Floats) -> Floats:
    """R^2 of each row regressed on all others: 1 - 1 / (C^-1)_ii of their correlation matrix C.

    A ridge of 1e-9 keeps the inverse finite where rows are linearly dependent.
    """
    n, periods = rows.shape
    c = np.zeros((n, 2 * n))
    centred = np.zeros((n, periods))
    for i in range(n):
        centred[i] = rows[i] - rows[i].mean()
        norm = np.sqrt((centred[i] * centred[i]).sum())
        if norm > 0.0:
            centred[i] /= norm
    for i in range(n):
        for j in range(n):
            c[i, j] = (centred[i] * centred[j]).sum()
        c[i, i] = 1.0 + 1e-9
        c[i, n + i] = 1.0
    for i in range(n):  # Gauss-Jordan; the matrix is symmetric and positive, so no pivots are needed
        c[i] /= c[i, i]
        for j in range(n):
            if j != i:
                c[j] -= c[j, i] * c[i]
    r2 = np.empty(n)
    for i in range(n):
        r2[i] = 1.0 - 1.0 / c[i, n + i]
    return r2


@jit
def _select(b: HostSums, view: PeriodView, movable: Bools, h: int) -> int:
    """The machine that leaves host h next, -1 if none may."""
    count = 0
    v = b.first[h]
    best, least = -1, np.inf
    while v >= 0:
        count += 1
        if movable[v] and view.score[v] < least:
            best, least = v, view.score[v]
        v = b.after[v]
    if view.correlated == 0 or count < 3:
        return best
    length = max(2, entries(b.past[h]))
    rows = np.empty((count, length))
    names = np.empty(count, np.int64)
    v = b.first[h]
    for i in range(count):
        names[i] = v
        for j in range(length):
            rows[i, j] = view.history[v, j]
        v = b.after[v]
    r2 = determination(rows)
    best, most = -1, -np.inf
    for i in range(count):
        if movable[names[i]] and r2[i] > most:
            best, most = names[i], r2[i]
    return best


@jit
def _by_demand(view: PeriodView, who: Ints) -> Ints:
    """`who` in the order of falling demand; equal ones stay in order."""
    return who[np.argsort(-view.demand[who], kind="mergesort")]


@jit
def _empty(b: HostSums, g: Given, h: int, closed: Bools, moved: Ints, count: int, gain: float) -> int:
    """Move all machines of host h elsewhere, or none. The new number of moves.

    `gain` is what emptying the host is worth; a move that costs more than what is left of it is not made.
    """
    number = 0
    v = b.first[h]
    while v >= 0:
        if not g.sees.movable[v]:
            return count
        number += 1
        v = b.after[v]
    who = np.empty(number, np.int64)
    v = b.first[h]
    for i in range(number):
        who[i] = v
        v = b.after[v]
    tried = 0
    queue = _by_demand(g.sees, who)
    for i in range(number):
        v = queue[i]
        target = _place(b, g, v, closed, h)
        if target < 0:
            break
        gain -= _badness(b, g, v, target, h) if gain < np.inf else 0.0
        if gain < 0.0:
            break
        pull(b, g, v)
        push(b, g, v, target)
        moved[count + tried] = v
        tried += 1
    if tried == number:
        return count + number
    for i in range(number):
        pull(b, g, who[i])
        push(b, g, who[i], h)
    return count


@jit
def _sheds(b: HostSums, g: Given, h: int) -> bool:
    """Whether over-loaded host h, some machines less, must give up another."""
    if b.first[h] < 0:
        return False
    if g.rules.detector == l.FLAGS:
        return bool(b.judged[h] > g.rules.threshold)
    return is_over(b, g, h, -1, 0.0)


@jit
def _insist(b: HostSums, g: Given, over: Bools, stays: Bools, moved: Ints, count: int) -> int:
    """Hosts whose machines fitted nowhere offer their others, until they are no longer over-loaded.

    The new number of moves; `stays` grows by the machines that were tried in vain.
    """
    offered = g.sees.movable & ~stays
    for h in range(len(g.hosts.kind)):
        back = False
        v = b.first[h]
        while v >= 0:
            back = back or stays[v]
            v = b.after[v]
        while back and over[h] and _sheds(b, g, h):
            v = _select(b, g.sees, offered, h)
            if v < 0:
                break
            offered[v] = False
            pull(b, g, v)
            target = _place(b, g, v, over, h)
            if target < 0:
                stays[v] = True
                push(b, g, v, h)
            else:
                push(b, g, v, target)
                moved[count] = v
                count += 1
    return count


@jit
def _relocate(b: HostSums, g: Given, over: Bools, target_of: Bools, moved: Ints, count: int) -> int:
    """Empty hosts at dear places into cheaper ones where that pays. The new number of moves."""
    n_hosts = len(g.hosts.kind)
    shut = np.empty(n_hosts, np.bool_)
    for h in np.argsort(-g.sees.price[g.hosts.place], kind="mergesort"):
        if over[h] or b.first[h] < 0 or target_of[h]:
            continue
        here = g.sees.price[g.hosts.place[h]]
        for i in range(n_hosts):
            shut[i] = over[i] or g.sees.price[g.hosts.place[i]] >= here
        kind = g.hosts.kind[h]
        saved = watts(g.kinds, kind, g.sees.point[h], b.judged[h]) - g.kinds.resting[kind]
        before = count
        count = _empty(b, g, h, shut, moved, count, saved * here * g.rules.horizon)
        for i in range(before, count):
            target_of[b.at[moved[i]]] = True
    return count


@entry()
def consolidate(
    hosts: Hosts, kinds: Kinds, m: Machines, view: PeriodView, rules: PeriodRules, wan: Wan
) -> tuple[Ints, Ints, Bools]:
    """(machines that move, their new hosts, hosts found over-loaded). Homeless machines are placed first.

    A machine without a place stays where it is, or homeless.
    """
    g = Given(hosts, kinds, m, view, rules, wan)
    n_hosts, n = len(g.hosts.kind), len(g.m.mips)
    b = HostSums(
        np.full(n, -1, np.int64), np.full(n_hosts, -1, np.int64), np.full(n_hosts, -1, np.int64),
        np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.zeros(n_hosts), np.zeros(n_hosts), np.zeros(n_hosts),
        np.zeros(n_hosts), np.zeros(n_hosts), np.zeros((n_hosts, l.HISTORY)), np.zeros(l.HISTORY),
    )  # fmt: skip
    for v in g.sees.order:
        if g.sees.at[v] >= 0:
            push(b, g, v, g.sees.at[v])
    moved = np.empty(n + 1, np.int64)
    count = _NONE
    start = b.judged.copy()  # load with slow-downs
    idle = b.first < 0

    over = np.zeros(n_hosts, np.bool_)
    for h in range(n_hosts):
        over[h] = b.first[h] >= 0 and is_over(b, g, h, -1, 0.0)
    leaving = np.empty(n, np.int64)
    out = 0
    for v in g.sees.order:
        if g.sees.at[v] < 0:
            leaving[out] = v
            out += 1
    for h in range(n_hosts):
        while over[h]:
            v = _select(b, g.sees, g.sees.movable, h)
            if v < 0:
                break
            pull(b, g, v)
            leaving[out] = v
            out += 1
            if not _sheds(b, g, h):
                break
    target_of = np.zeros(n_hosts, np.bool_)
    stays = np.zeros(n, np.bool_)
    queue = leaving[:out].copy() if g.rules.in_order == 1 else _by_demand(g.sees, leaving[:out])
    for v in queue:
        target = _place(b, g, v, over, g.sees.at[v])
        if target < 0:
            stays[v] = True
            continue
        push(b, g, v, target)
        moved[count] = v
        count += 1
    for v in g.sees.order:  # what found no place goes back to where it came from
        if stays[v] and g.sees.at[v] >= 0:
            push(b, g, v, g.sees.at[v])

    if stays.any():
        count = _insist(b, g, over, stays, moved, count)
    for i in range(count):
        target_of[b.at[moved[i]]] = True
    follow = g.rules.relocate == 1 and g.rules.placer == l.COST_AWARE
    if follow:
        count = _relocate(b, g, over, target_of, moved, count)

    tried = over | idle | target_of
    closed = over | idle | (b.first < 0)
    shut = closed.copy()
    while g.rules.evacuate == 1:
        h, least = _NONE - 1, 1.0
        for i in range(n_hosts):
            if not tried[i] and b.first[i] >= 0 and 0.0 < start[i] < least:
                h, least = i, start[i]
        if h < 0:
            break
        tried[h] = closed[h] = True
        for i in range(n_hosts):  # who follows prices does not empty hosts into dearer places
            shut[i] = closed[i] or (follow and g.sees.price[g.hosts.place[i]] > g.sees.price[g.hosts.place[h]])
        before = count
        count = _empty(b, g, h, shut, moved, count, np.inf)
        for i in range(before, count):
            tried[b.at[moved[i]]] = target_of[b.at[moved[i]]] = True
    return moved[:count].copy(), b.at[moved[:count]], over
