"""What a period brings: who gets how much, and what power that takes. Compiled.

A period is cut into slots. In a slot, a machine asks its host for a share r of it (what it has to do,
times longer by the slow-down of the host's operating point); a host asked for L <= 1 gives everybody
what they ask for, otherwise r / L. Power follows from the load of the slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.jit import jit
from cosim.extensions.extcloudsim.datacentre.layout import Bools, Hosts, Kinds, Machines
from cosim.extensions.extcloudsim.datacentre.tally import watts

EMPTY = 6e-4  # load below which a host counts as empty (the limit of the platforms' power model)


class Period(NamedTuple):
    """The state that a period begins with."""

    at: Ints  # (machines,) host at the end of the period, -1 none
    source: Ints  # (machines,) host that runs it until it arrives, -1 none
    arrival: Floats  # (machines,) s after the beginning
    work: Floats  # (machines,) capacity wanted over the period, what was left over included
    degradation: float  # part of the capacity lost while on the way
    point: Ints  # (hosts,) operating point
    up: Bools  # (hosts,)
    slots: int
    seconds: float  # s
    bounded: int  # 1: a machine's share of the processor is at most its size
    fixed: int  # 1: what a machine gets is the same in all slots, as if all of its host's were there
    small: float  # utilisation below which a machine is not accounted


class PeriodOutcome(NamedTuple):
    """What a period brought, per host and per machine."""

    energy: Floats  # (hosts,) J
    busy: Floats  # (hosts,) s, integral of the load, at most 1
    active: Floats  # (hosts,) s with load
    short: Floats  # (hosts,) s in which less was given than asked for
    asked: Floats  # (machines,) integral of the share asked for, s of a host
    given: Floats  # (machines,)
    done: Floats  # (machines,) capacity x s worked off
    overload: Floats  # (machines,) s in which it got less than it asked for, its own way apart
    shortfall: Floats  # (machines,) s, integral of (asked - given) / asked meanwhile
    headroom: Floats  # (machines,) s, integral of (most - given) / most meanwhile, most: the share of its full size
    away: Floats  # (machines,) s without a host
    peak: Floats  # (hosts,) largest load asked for, may exceed 1
    cramped: Floats  # (machines,) s on a host whose machines ask for more memory than it has
    memory: Floats  # (machines,) s, integral of the part of its memory that is missing meanwhile


class Slot(NamedTuple):
    """A stretch of time, with some machines and the hosts that they are on."""

    who: Ints  # machines
    where: Ints  # hosts
    start: float  # s after the beginning of the period
    span: float  # s


@jit
def _share(hosts: Hosts, kinds: Kinds, m: Machines, p: Period, v: int, h: int, way: int) -> float:
    """The share of host h that machine v asks for; less while it is being copied away (way 1)."""
    wanted = p.work[v] * kinds.slowdown[hosts.kind[h], m.work[v], p.point[h]]
    if p.bounded == 1:
        wanted = min(wanted, m.mips[v])
    return float(wanted / hosts.mips[h] * (1.0 - p.degradation if way == 1 else 1.0))


@jit
def _stretch(
    hosts: Hosts, kinds: Kinds, m: Machines, p: Period, o: PeriodOutcome, load: Floats, whole: Floats, held: Floats,
    slot: Slot,
) -> None:  # fmt: skip
    """Account for a slot."""
    who, where, start, span = slot.who, slot.where, slot.start, slot.span
    for h in where:
        load[h] = held[h] = 0.0
    for v in who:
        # the part of the stretch that the machine has arrived in
        here = min(1.0, max(0.0, (start + span - p.arrival[v]) / span))
        for way in range(2):
            h = p.at[v] if way == 0 else p.source[v]
            part = here if way == 0 else 1.0 - here
            if h >= 0 and part > 0.0 and p.up[h]:
                load[h] += part * _share(hosts, kinds, m, p, v, h, way)
                held[h] += part * m.ram[v] if p.work[v] >= p.small * m.mips[v] else 0.0
    for h in where:
        if not p.up[h]:
            continue
        asked = whole[h] if p.fixed == 1 else load[h]
        used = load[h] / max(1.0, asked)
        o.peak[h] = max(o.peak[h], asked)
        if used > EMPTY:
            o.energy[h] += span * watts(kinds, hosts.kind[h], p.point[h], used)
        else:
            o.energy[h] += span * kinds.resting[hosts.kind[h]]
        if used > EMPTY or (p.small > 0.0 and held[h] > 0.0):
            o.active[h] += span
        o.busy[h] += span * min(1.0, used)
        if asked > 1.0:
            o.short[h] += span
        load[h] = asked
    for v in who:
        here = min(1.0, max(0.0, (start + span - p.arrival[v]) / span))
        gone = span
        for way in range(2):
            h = p.at[v] if way == 0 else p.source[v]
            part = span * (here if way == 0 else 1.0 - here)
            if h < 0 or part <= 0.0 or not p.up[h]:
                continue
            gone -= part
            share = _share(hosts, kinds, m, p, v, h, way)
            got = share / load[h] if load[h] > 1.0 else share
            wanted = share / (1.0 - p.degradation) if way == 1 else share
            o.asked[v] += part * wanted
            o.given[v] += part * got
            slow = kinds.slowdown[hosts.kind[h], m.work[v], p.point[h]]
            o.done[v] += part * got * hosts.mips[h] / slow
            if held[h] > hosts.ram[h] * (1.0 + 1e-12):
                o.cramped[v] += part
                o.memory[v] += part * (1.0 - hosts.ram[h] / held[h])
            if load[h] > 1.0 and share > 0.0 and p.work[v] >= p.small * m.mips[v]:
                o.overload[v] += part
                o.shortfall[v] += part * (share - got) / share
                most = m.mips[v] * (slow if p.bounded == 0 else 1.0) / hosts.mips[h]
                o.headroom[v] += part * max(0.0, most - got) / most
        o.away[v] += max(0.0, gone)


@entry()
def account(hosts: Hosts, kinds: Kinds, m: Machines, p: Period) -> PeriodOutcome:
    """Run one period; hosts that nothing comes to or goes from are taken in one piece."""
    n_hosts, n = len(hosts.kind), len(m.mips)
    o = PeriodOutcome(
        np.zeros(n_hosts), np.zeros(n_hosts), np.zeros(n_hosts), np.zeros(n_hosts), np.zeros(n), np.zeros(n),
        np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n_hosts), np.zeros(n), np.zeros(n),
    )  # fmt: skip
    touched = np.zeros(n_hosts, np.bool_)
    for v in range(n):
        if p.arrival[v] > 0.0:
            if p.at[v] >= 0:
                touched[p.at[v]] = True
            if p.source[v] >= 0:
                touched[p.source[v]] = True
    late = np.zeros(n, np.bool_)
    for v in range(n):
        late[v] = p.arrival[v] > 0.0 or (p.at[v] >= 0 and touched[p.at[v]])
    load, held, whole = np.zeros(n_hosts), np.zeros(n_hosts), np.zeros(n_hosts)
    for v in range(n if p.fixed == 1 else 0):
        for way in range(2):
            h = p.at[v] if way == 0 else p.source[v]
            if h >= 0 and p.up[h]:
                whole[h] += _share(hosts, kinds, m, p, v, h, way)
    _stretch(
        hosts, kinds, m, p, o, load, whole, held, Slot(np.flatnonzero(~late), np.flatnonzero(~touched), 0.0, p.seconds)
    )
    who, where = np.flatnonzero(late), np.flatnonzero(touched)
    slot = p.seconds / p.slots
    for k in range(p.slots if len(who) else 0):
        _stretch(hosts, kinds, m, p, o, load, whole, held, Slot(who, where, k * slot, slot))
    return o
