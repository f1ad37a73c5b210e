"""Who is on which host while moves are tried: lists and running sums, compiled.

The sums of a host that gives a machine up are made anew, so that trying and taking back leaves no trace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.jit import jit
from cosim.extensions.extcloudsim.datacentre import layout as l
from cosim.extensions.extcloudsim.datacentre.detect import entries, overloaded
from cosim.extensions.extcloudsim.datacentre.layout import Bools, Hosts, Kinds, Machines, PeriodRules, Wan


class PeriodView(NamedTuple):
    """What a period's decisions may look at."""

    at: Ints  # (machines,) host, -1 none
    order: Ints  # (machines,) machines in the order in which they came to their hosts
    demand: Floats  # (machines,) capacity wanted now, or foreseen
    history: Floats  # (machines, HISTORY) capacity wanted in earlier periods, newest first
    score: Floats  # (machines,) selection: the lowest leaves first
    movable: Bools  # (machines,)
    point: Ints  # (hosts,) operating point that load is judged at
    up: Bools  # (hosts,)
    flags: Bools  # (hosts,) over-loaded according to a function of the user's
    price: Floats  # (places,) currency/J of one more W
    cap: Floats  # (places,) W that a place may draw, inf where nothing limits it
    correlated: int  # 1: select by the correlation of loads instead of the score


class Given(NamedTuple):
    """All that a period's decisions are made from."""

    hosts: Hosts
    kinds: Kinds
    m: Machines
    sees: PeriodView  # numba knows no attribute "view" but that of arrays
    rules: PeriodRules
    wan: Wan


class HostSums(NamedTuple):
    """Running sums per host while moves are tried."""

    at: Ints
    first: Ints  # (hosts,) lists of machines in order of arrival, -1 ends
    last: Ints
    after: Ints  # (machines,)
    before: Ints
    load: Floats  # (hosts,) share of the capacity
    judged: Floats  # (hosts,) load as the detectors see it
    slowest: Floats  # (hosts,) load at the lowest operating point
    ram: Floats  # (hosts,) MB
    gpus: Floats  # (hosts,)
    past: Floats  # (hosts, HISTORY) by `history`, in shares
    trial: Floats  # (HISTORY,) scratch


@jit
def watts(kinds: Kinds, kind: int, point: int, u: float) -> float:
    """Power of a host that is on."""
    u = min(1.0, u)
    law = kinds.law[kind]
    if law == l.TABLE:
        x = u * (kinds.table.shape[1] - 1)
        i = min(int(x), kinds.table.shape[1] - 2)
        low = kinds.table[kind, i]
        return float(low + (kinds.table[kind, i + 1] - low) * (x - i))
    if law == l.CUBIC:
        return float(kinds.idle[kind, point] + kinds.span[kind, point] * u * u * u)
    return float(kinds.idle[kind, point] + kinds.span[kind, point] * u)


@jit
def least_watts(g: Given, kind: int, load: float) -> float:
    """Power of a host at its lowest operating point, where its load is `load`; at full load in the worst case."""
    if load <= 0.0:
        return float(g.kinds.resting[kind])
    return float(watts(g.kinds, kind, 0, 1.0 if g.rules.worst_case == 1 else load))


@jit
def push(b: HostSums, g: Given, v: int, h: int) -> None:
    """Put machine v at the end of host h's list."""
    b.at[v] = h
    b.after[v] = -1
    b.before[v] = b.last[h]
    if b.last[h] >= 0:
        b.after[b.last[h]] = v
    else:
        b.first[h] = v
    b.last[h] = v
    count_in(b, g, v, h)


@jit
def count_in(b: HostSums, g: Given, v: int, h: int) -> None:
    share = g.sees.demand[v] / g.hosts.mips[h]
    b.load[h] += share
    b.judged[h] += share * g.kinds.slowdown[g.hosts.kind[h], g.m.work[v], g.sees.point[h]]
    b.slowest[h] += share * g.kinds.slowdown[g.hosts.kind[h], g.m.work[v], 0]
    b.ram[h] += g.m.ram[v]
    b.gpus[h] += g.m.gpus[v]
    for i in range(l.HISTORY):
        b.past[h, i] += g.sees.history[v, i] / g.hosts.mips[h]


@jit
def pull(b: HostSums, g: Given, v: int) -> None:
    """Take machine v off its host, whose sums are made anew so that they do not drift."""
    h = b.at[v]
    if b.before[v] >= 0:
        b.after[b.before[v]] = b.after[v]
    else:
        b.first[h] = b.after[v]
    if b.after[v] >= 0:
        b.before[b.after[v]] = b.before[v]
    else:
        b.last[h] = b.before[v]
    b.at[v] = -1
    b.load[h] = b.judged[h] = b.slowest[h] = b.ram[h] = b.gpus[h] = 0.0
    b.past[h, :] = 0.0
    w = b.first[h]
    while w >= 0:
        count_in(b, g, w, h)
        w = b.after[w]


@jit
def is_over(b: HostSums, g: Given, h: int, v: int, extra: float) -> bool:
    """Whether host h is over-loaded, with machine v on it too unless v is -1."""
    load = b.judged[h] + extra
    if g.rules.detector == l.FLAGS:
        return bool(g.sees.flags[h]) if v < 0 else load > g.rules.threshold
    largest = 0.0
    for i in range(l.HISTORY):
        b.trial[i] = b.past[h, i]
    if v >= 0:
        largest = g.m.ram[v]
        for i in range(l.HISTORY):
            b.trial[i] += g.sees.history[v, i] / g.hosts.mips[h]
    w = b.first[h] if g.rules.detector in (l.LR, l.LRR) else -1
    while w >= 0:
        largest = max(largest, g.m.ram[w])
        w = b.after[w]
    place = g.hosts.place[h]
    ahead = np.ceil(largest / g.wan.bandwidth[place, place] / g.rules.interval)
    return overloaded(g.rules.detector, g.rules.threshold, g.rules.safety, load, b.trial, entries(b.trial), ahead)
