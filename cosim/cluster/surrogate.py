"""A quick look at what an order of a window leads to: room and free uplinks of leaves, without circuits.

It follows the kernel's rules but for two: which leaves a job gets is decided by room alone, and any free
uplinks of two leaves can be joined. So an order takes microseconds, and its figures are features of the
ranker, not results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import entry, part

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FIGURES = 6  # end, last start, sum of ends, GPU s idle until the last start, sum of starts, leaves used


@part
def _fit(n: int, ring: int, rails: int, free: Ints, up: Ints, at: Ints, count: Ints) -> int:
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
    left, m, after = n, 0, -(1 << 40)
    while left > 0:
        best = 0
        for k in range(leaves):
            rank = -min(free[k], up[k]) * leaves + k
            if after < rank < best:
                best = rank
        if best == 0:
            return 0
        after = best
        k = best % leaves
        at[m], count[m] = k, min(left, free[k])
        left -= count[m]
        m += 1
    least = rails
    for i in range(m):
        least = min(least, count[i])
    for i in range(m):
        if ring > 0:
            need = least * (2 if m > 2 else 1)
        else:
            need = max(m - 1, int(np.ceil(count[i] * (n - count[i]) / (n - 1.0))))
        if need > up[at[i]]:
            return 0
    return m


@entry()
def look(
    orders: Ints, n: Ints, work: Floats, ring: Ints, rails: Ints, ends: Floats, held: Ints, taken: Ints, room: Ints,
    uplinks: Ints, now: float, found: Floats,
) -> None:  # fmt: skip
    """Figures (orders, FIGURES) of jobs (n ranks, work s, ring or not, rails) in each of the orders.

    Running ones end at `ends` (ascending) and then give back `held` GPUs and `taken` uplinks (each
    (running, leaves)) to `room` and `uplinks` of the leaves.
    """
    window, running, leaves = orders.shape[1], len(ends), len(room)
    free, up = np.empty(leaves, np.int64), np.empty(leaves, np.int64)
    at, count = np.empty((window, leaves), np.int64), np.empty((window, leaves), np.int64)
    m, end = np.empty(window, np.int64), np.empty(window)
    for p in range(len(orders)):
        free[:], up[:] = room, uplinks
        time, gone, last, total, idle, starts, spread = now, 0, now, 0.0, 0.0, 0.0, 0
        if running:
            last = ends[running - 1]
        for i in range(window):
            j = orders[p, i]
            while True:
                got = _fit(n[j], ring[j], rails[j], free, up, at[i], count[i])
                if got > 0:
                    break
                soon, which = np.inf, -1
                if gone < running:
                    soon = ends[gone]
                for k in range(i):
                    if m[k] > 0 and end[k] < soon:
                        soon, which = end[k], k
                if soon == np.inf:
                    break
                spare = 0
                for k in range(leaves):
                    spare += free[k]
                idle += spare * (soon - time)
                time = soon
                if which < 0:
                    free += held[gone]
                    up += taken[gone]
                    gone += 1
                else:
                    _change(n, ring, rails, orders[p, which], at[which], count[which], m[which], free, up, 1)
                    m[which] = 0
            m[i], end[i] = got, time + work[j]
            if got > 0:
                _change(n, ring, rails, j, at[i], count[i], got, free, up, -1)
            spread += got
            starts += time
            total += end[i]
            last = max(last, end[i])
        found[p, 0], found[p, 1], found[p, 2] = last - now, time - now, total - window * now
        found[p, 3], found[p, 4], found[p, 5] = idle, starts - window * now, spread


@part
def _change(
    n: Ints, ring: Ints, rails: Ints, j: int, at: Ints, count: Ints, m: int, free: Ints, up: Ints, sign: int
) -> None:
    """Give back (1) or take (-1) what job j has on its leaves."""
    least = rails[j]
    for i in range(m):
        least = min(least, count[i])
    for i in range(m):
        free[at[i]] += sign * count[i]
        if m > 1:
            if ring[j] > 0:
                need = least * (2 if m > 2 else 1)
            else:
                need = max(m - 1, int(np.ceil(count[i] * (n[j] - count[i]) / (n[j] - 1.0))))
            up[at[i]] += sign * need
