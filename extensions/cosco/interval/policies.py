"""Placement policies that come with the model: they write decisions (slot, host) into `World.pairs`."""

from __future__ import annotations

import math

from cosim.engine.continuum.draw import stream, uniform
from cosim.engine.continuum.jit import jit
from cosim.extensions.cosco.interval import layout as l
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.hosts import base, taken
from cosim.extensions.cosco.interval.layout import Record

_DECISION = 3  # stream


@jit
def decide(w: Record) -> int:
    """Decide by the policy of the rules, and return the number of pairs.

    `random`: new containers anywhere; `shuffle`: also, every other container moves anywhere with
    probability 1/2. The others place new containers on hosts where they fit beside what is there and
    what has been decided: `first-fit` the lowest, `best-fit` the one with the highest share of its MIPS
    demanded, `least-loaded` the lowest share, `round-robin` the next. A container that fits nowhere is
    left waiting.
    """
    policy = w.policy
    pairs = 0
    if policy in (l.RANDOM, l.SHUFFLE):
        key = stream(w.seed, w.now, 0, _DECISION)
        for i in range(w.slot_count):
            slot = memory.slot(w.slots, i)
            if slot.container != l.NONE and (slot.host < 0 or (policy == l.SHUFFLE and uniform(key, i, 1) < 0.5)):
                pairs = _add(w, pairs, i, int(uniform(key, i, 0) * w.host_count))
        return pairs
    for h in range(w.host_count):
        host = memory.host(w.hosts, h)
        host.plan_mips, host.plan_ram, host.plan_disk = taken(w, h)
    for i in range(w.slot_count):
        if memory.slot(w.slots, i).container != l.NONE and memory.slot(w.slots, i).host < 0:
            h = _choose(w, i, policy)
            if h >= 0:
                host = memory.host(w.hosts, h)
                host.plan_mips += base(w, i)
                host.plan_ram += memory.slot(w.slots, i).ram
                host.plan_disk += memory.slot(w.slots, i).disk
                pairs = _add(w, pairs, i, h)
    return pairs


@jit
def _add(w: Record, pairs: int, i: int, h: int) -> int:
    if memory.slot(w.slots, i).host == h:
        return pairs
    memory.pair(w.pairs, pairs).slot, memory.pair(w.pairs, pairs).host = i, h
    return pairs + 1


@jit
def _choose(w: Record, i: int, policy: int) -> int:
    """The host for the new container in slot i, -1 for none."""
    mips, ram, disk = base(w, i), memory.slot(w.slots, i).ram, memory.slot(w.slots, i).disk
    hosts = w.host_count
    best, least = l.NONE, math.inf
    for k in range(hosts):
        h = (w.turn + k) % hosts if policy == l.ROUND_ROBIN else k
        host = memory.host(w.hosts, h)
        if (
            host.up != 0
            and mips <= host.mips - host.plan_mips
            and ram <= host.ram - host.plan_ram
            and disk <= host.disk - host.plan_disk
        ):
            if policy == l.FIRST_FIT:
                return h
            if policy == l.ROUND_ROBIN:
                w.turn = h + 1
                return h
            rank = host.plan_mips / host.mips
            if policy == l.BEST_FIT:
                rank = -rank
            if rank < least:
                best, least = h, rank
    return best if policy in (l.BEST_FIT, l.LEAST_LOADED) else l.NONE
