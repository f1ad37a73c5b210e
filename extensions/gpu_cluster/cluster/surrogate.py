"""A quick look at what an order of a window leads to: room and free uplinks of leaves, without circuits.

It follows the kernel's rules but for two: which leaves a job gets is decided by room alone, and any free
uplinks of two leaves can be joined. So an order takes a microsecond, and its figures are features of the
ranker, not results.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cosim.compiled.compiling import codes, entry, part
from cosim.contract.records import Floats, Ints, Records
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.engine import rows as r
from cosim.extensions.gpu_cluster.cluster.engine import wire
from cosim.extensions.gpu_cluster.cluster.engine.rows import Record
from cosim.extensions.gpu_cluster.cluster.engine.work import allocation

FIGURES = 6  # end, last start, sum of ends, GPU s idle until the last start, sum of starts, leaves used
FEATURES = FIGURES + 4  # and where long, large, costly and all-to-all jobs stand in the order
_MOST = 8  # jobs of a window
# Uplinks that a job needs: none; rings and all-to-all into a spine; rings and all-to-all by circuits.
_ANY, _SPINE, _SPREAD, _RING, _ALL = codes(5)


@part
def _need(kind: int, rails: int, m: int, ranks: int, n: int) -> int:
    """Uplinks of a leaf with so many of a job's n ranks, on m leaves."""
    if kind == _ANY:
        return 0
    if kind == _SPINE:
        return rails
    if kind == _RING:
        return rails * (2 if m > 2 else 1)
    crossing = math.ceil(ranks * (n - ranks) / (n - 1.0) - 1e-9)
    return max(1, min(ranks, crossing)) if kind == _SPREAD else max(m - 1, crossing)


@part
def _fit(n: int, kind: int, rails: int, free: Ints, up: Ints, at: Ints, count: Ints) -> int:
    """Leaves for n ranks, in `at` and `count`; how many, 0: none now."""
    leaves = len(free)
    best, chosen = 1 << 40, -1
    for k in range(leaves):
        if n <= free[k] < best:
            best, chosen = free[k], k
            if free[k] == n:
                break
    if chosen >= 0:
        at[0], count[0] = chosen, n
        return 1
    left, m, after, least = n, 0, -(1 << 40), rails
    while left > 0:
        best = 0
        for k in range(leaves):
            size = min(free[k], up[k]) if kind != _ANY else free[k]
            rank = -size * leaves + k
            if size > 0 and after < rank < best:
                best = rank
        if best == 0:
            return 0
        after = best
        k = best % leaves
        if left <= free[k]:  # the last leaf: the one with the least room that does
            for other in range(leaves):
                used = False
                for i in range(m):
                    used = used or at[i] == other
                enough = kind == _ANY or up[other] >= min(left, up[k])
                if not used and enough and left <= free[other] < free[k]:
                    k = other
        at[m], count[m] = k, min(left, free[k])
        least = min(least, count[m])
        left -= count[m]
        m += 1
    for i in range(m):
        if _need(kind, least, m, count[i], n) > up[at[i]]:
            return 0
    return m


@part
def _change(n: int, kind: int, rails: int, at: Ints, count: Ints, m: int, free: Ints, up: Ints, sign: int) -> None:
    """Give back (1) or take (-1) what a job has on its leaves."""
    least = rails
    for i in range(m):
        least = min(least, count[i])
    for i in range(m):
        free[at[i]] += sign * count[i]
        if m > 1:
            up[at[i]] += sign * _need(kind, least, m, count[i], n)


@part
def _running(s: Record, ends: Floats, held: Ints, taken: Ints) -> None:
    """Ends of the running jobs, ascending, and what each gives back to each leaf: GPUs, uplinks."""
    which, j = np.empty(s.running, np.int64), s.head
    times = np.empty(s.running)
    for i in range(s.running):
        which[i], times[i] = j, r.real(s.due, j).v
        j = r.job(s.job, j).next
    order = np.argsort(times)
    for i in range(s.running):
        j = which[order[i]]
        ends[i] = times[order[i]]
        r.job(s.job, j).mark = i
        if r.job(s.job, j).milli < l.WHOLE:
            continue  # its GPU may be needed by others
        m = allocation(s, j)
        for k in range(m):
            leaf = r.cell(s, l.AT, k).v
            held[i, leaf] = r.cell(s, l.COUNT, k).v
            if s.network == l.PACKET and m > 1 and r.job(s.job, j).pattern != l.LOCAL:
                taken[i, leaf] = wire.uplinks_of(s, j, m, k)
    for p in range(s.ports):
        port = r.port(s.port, p)
        if port.holder >= 0:
            taken[r.job(s.job, port.holder).mark, port.leaf] += 1


@part
def _kind(s: Record, j: int) -> int:
    pattern = r.job(s.job, j).pattern
    if pattern == l.LOCAL or s.network == l.ROUTED:
        return int(_ANY)
    if pattern == l.ALL_TO_ALL:
        return int(_SPREAD if s.network == l.PACKET else _ALL)
    return int(_SPINE if s.network == l.PACKET else _RING)


@part
def _look(s: Record, jobs: Ints, orders: Ints, found: Floats) -> None:
    """The figures of each order. Orders that begin alike share the beginning when they follow one another."""
    window, running, leaves = orders.shape[1], s.running, s.leaves
    ends, held, taken = np.empty(running), np.zeros((running, leaves), np.int64), np.zeros((running, leaves), np.int64)
    _running(s, ends, held, taken)
    n, rails, kind, work = (
        np.empty(_MOST, np.int64), np.empty(_MOST, np.int64), np.empty(_MOST, np.int64), np.empty(_MOST),
    )  # fmt: skip
    for i in range(window):
        job = r.job(s.job, jobs[i])
        n[i], rails[i], work[i], kind[i] = job.n, job.rails, job.left, _kind(s, jobs[i])
    deep = window + 1  # what holds before each place of the order
    free, up = np.empty((deep, leaves), np.int64), np.empty((deep, leaves), np.int64)
    at, count = np.empty((window, leaves), np.int64), np.empty((window, leaves), np.int64)
    m, end = np.zeros((deep, window), np.int64), np.empty(window)  # leaves of jobs that run, their ends
    time, gone, sums = np.empty(deep), np.zeros(deep, np.int64), np.zeros((deep, 5))
    for k in range(leaves):
        leaf = r.leaf(s.leaf, k)
        free[0, k], up[0, k] = 0 if leaf.down else leaf.free, leaf.up
    time[0] = s.now
    sums[0, 0] = ends[running - 1] if running else s.now  # end, idle, starts, ends, leaves
    for p in range(len(orders)):
        shared = 0
        while p > 0 and shared < window and orders[p, shared] == orders[p - 1, shared]:
            shared += 1
        for d in range(shared, window):
            j, e = orders[p, d], d + 1
            free[e], up[e], m[e], sums[e] = free[d], up[d], m[d], sums[d]
            now, out, spare, got = time[d], gone[d], 0, 0
            for k in range(leaves):
                spare += free[e, k]
            while True:
                if spare >= n[j]:
                    got = _fit(n[j], kind[j], rails[j], free[e], up[e], at[d], count[d])
                if got > 0:
                    break
                soon, which = np.inf, -1
                if out < running:
                    soon = ends[out]
                for k in range(d):
                    if m[e, k] > 0 and end[k] < soon:
                        soon, which = end[k], k
                if soon == np.inf:
                    break
                sums[e, 1] += spare * (soon - now)
                now = soon
                if which < 0:
                    for k in range(leaves):
                        free[e, k] += held[out, k]
                        up[e, k] += taken[out, k]
                        spare += held[out, k]
                    out += 1
                else:
                    o = orders[p, which]
                    _change(n[o], kind[o], rails[o], at[which], count[which], m[e, which], free[e], up[e], 1)
                    m[e, which] = 0
                    spare += n[o]
            m[e, d], end[d] = got, now + work[j]
            if got > 0:
                _change(n[j], kind[j], rails[j], at[d], count[d], got, free[e], up[e], -1)
            time[e], gone[e] = now, out
            sums[e, 0] = max(sums[e, 0], end[d])
            sums[e, 2] += now - s.now
            sums[e, 3] += end[d] - s.now
            sums[e, 4] += got
        last = sums[window]
        found[p, 0], found[p, 1], found[p, 2] = last[0] - s.now, time[window] - s.now, last[3]
        found[p, 3], found[p, 4], found[p, 5] = last[1], last[2], last[4]


@part
def _centred(values: Floats) -> None:
    values -= values.mean()
    spread = np.sqrt((values * values).mean())
    values /= spread if spread > 0.0 else 1.0


@entry()
def features(meta: Records, jobs: Ints, orders: Ints, found: Floats) -> None:
    """(orders, FEATURES) of orders, as places in `jobs`, of waiting jobs; figures from 0 (the least) to 1."""
    s = meta[0]
    window = len(jobs)
    _look(s, jobs, orders, found)
    kinds = np.empty((4, window))
    for i in range(window):
        job = r.job(s.job, jobs[i])
        kinds[0, i], kinds[1, i], kinds[2, i] = job.left, job.n, job.n * job.left
        kinds[3, i] = 0.0 if job.pattern == l.ALL_TO_ALL else 1.0
    for k in range(4):
        _centred(kinds[k])
    for k in range(FIGURES):  # by what the orders differ, so that long tails look like short ones
        least, most = found[:, k].min(), found[:, k].max()
        found[:, k] -= least
        if most - least > 1e-9 * abs(most):
            found[:, k] /= most - least
        else:
            found[:, k] = 0.0
    for p in range(len(orders)):
        for k in range(4):
            total = 0.0
            for i in range(window):
                total += kinds[k, orders[p, i]] * (i - 0.5 * (window - 1)) / window
            found[p, FIGURES + k] = total


def all_features(meta: Any, jobs: Ints, orders: Ints) -> Floats:  # noqa: ANN401 - what `world` gives
    """The same in an array of its own."""
    found = np.empty((len(orders), FEATURES))
    features(meta, jobs, orders, found)
    return found
