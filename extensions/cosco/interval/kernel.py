"""The compiled entry point: runs intervals, one world or the same world under many seeds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiled import compiling
from cosim.contract.records import Floats, Ints, Records
from cosim.engine.continuum.jit import jit
from cosim.extensions.cosco.interval import layout as l
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.arrivals import arriving, fill, push_back, push_front
from cosim.extensions.cosco.interval.flow import meter, place_at_once, place_in_order, release, retire
from cosim.extensions.cosco.interval.hosts import age, has
from cosim.extensions.cosco.interval.layout import Record
from cosim.extensions.cosco.interval.policies import decide
from cosim.extensions.cosco.interval.quirks import ORDER_DEPENDENT, WHOLE_INTERVALS

RUN, BATCH, FAIL, BRANCH = range(4)  # what to do

_HOST_WORDS, _SLOT_WORDS = l.HOST.itemsize // 8, l.SLOT.itemsize // 8
_FIRST_CHANGING, _LAST_CHANGING = l.HOST.fields["up"][1] // 8, l.HOST.fields["into"][1] // 8  # type: ignore[index]

entry = compiling.entry()


@jit
def begin(w: Record) -> bool:
    """Begin the next interval: containers end, come and take slots. False: the queue's ring is too small."""
    count = arriving(w)
    if w.queued + count + w.slot_count > w.queue_room:
        return False
    for k in range(w.row_room):
        memory.real(w.row, k).v = 0.0
    created = w.now
    w.now += 1
    for i in range(w.slot_count):
        if memory.slot(w.slots, i).container != l.NONE:
            age(w, i)
    if has(w, WHOLE_INTERVALS):
        retire(w)
    for _ in range(count):
        push_back(w, w.created, created)
        w.created += 1
    memory.real(w.row, l.F_ARRIVED).v = count
    fill(w)
    w.open = 1
    return True


@jit
def end(w: Record, pairs: int) -> None:
    """Carry out the decisions and let the interval pass."""
    for h in range(w.host_count):
        memory.host(w.hosts, h).into = memory.host(w.hosts, h).out_of = 0
        memory.host(w.hosts, h).used = memory.host(w.hosts, h).joules = 0.0
    for i in range(w.slot_count):
        memory.slot(w.slots, i).offset = 0.0
    if has(w, ORDER_DEPENDENT):
        place_in_order(w, pairs)
    else:
        place_at_once(w, pairs)
    for i in range(w.slot_count - 1, -1, -1):
        if memory.slot(w.slots, i).container != l.NONE and memory.slot(w.slots, i).host < 0:
            push_front(w, memory.slot(w.slots, i).container, memory.slot(w.slots, i).created)
            memory.slot(w.slots, i).container = l.NONE
    meter(w)
    if not has(w, WHOLE_INTERVALS):
        retire(w)
    for i in range(w.slot_count):
        if memory.slot(w.slots, i).container != l.NONE:
            memory.real(w.row, l.F_ACTIVE).v += 1.0
    memory.real(w.row, l.F_WAITING).v = w.queued
    w.open = 0


@jit
def _take(w: Record, decisions: Ints) -> int:
    """The caller's decisions without those that change nothing."""
    pairs = 0
    for k in range(len(decisions)):
        if memory.slot(w.slots, decisions[k, 0]).host != decisions[k, 1]:
            memory.pair(w.pairs, pairs).slot, memory.pair(w.pairs, pairs).host = decisions[k, 0], decisions[k, 1]
            pairs += 1
    return pairs


@jit
def _run(w: Record, count: int, decisions: Ints, rows: Floats) -> int:
    """Up to `count` intervals; fewer when rows of ended containers or the ring have no room."""
    if w.open == 0 and not begin(w):
        return 0
    for k in range(count):
        if w.ended_room > 0 and w.ended_room - w.ended_count < 2 * w.slot_count:
            return k
        end(w, _take(w, decisions) if w.policy == l.CALLER else decide(w))
        for column in range(w.row_room):
            rows[k, column] = memory.real(w.row, column).v
        if not begin(w):
            return k + 1
    return count


@jit
def _copy(source: int, target: int, first: int, last: int) -> None:
    for k in range(first, last):
        memory.real(target, k).v = memory.real(source, k).v


@jit
def _take_over(w: Record, copy: Record, ring: bool) -> None:
    """The world `copy`, of the same sizes and hosts, is as `w` is now; the ring only if it will be read."""
    for h in range(w.host_count):
        _copy(w.hosts, copy.hosts, _HOST_WORDS * h + _FIRST_CHANGING, _HOST_WORDS * h + _LAST_CHANGING)
    _copy(w.slots, copy.slots, 0, _SLOT_WORDS * w.slot_count)
    if ring:
        for k in range(w.queued):
            at = (w.head + k) % w.queue_room
            here, there = memory.waiting(w.queue, at), memory.waiting(copy.queue, at)
            there.container, there.created = here.container, here.created
    copy.now, copy.open, copy.created, copy.turn = w.now, w.open, w.created, w.turn
    copy.head, copy.queued, copy.ended_count = w.head, w.queued, 0
    for k in range(w.row_room):
        memory.real(copy.row, k).v = memory.real(w.row, k).v


@jit
def _branch(w: Record, copy: Record, horizon: int, answers: Ints, rows: Floats) -> int:
    """The figures of `horizon` intervals, under `answers` in the first and the rules' policy then; candidates done.

    A row per candidate holds their sums; a row per candidate and interval, if there are so many, each for itself.
    """
    order = answers[0]  # of slots, so that pairs need not be sorted for each candidate
    span = max(1, len(rows) // (len(answers) - 1))
    for k in range(len(answers) - 1):
        _take_over(w, copy, horizon > 1)
        pairs = 0
        for place in range(w.slot_count):
            i = order[place]
            host = answers[k + 1, i]
            slot = memory.slot(copy.slots, i)
            if host >= 0 and slot.container != l.NONE and slot.host != host:
                memory.pair(copy.pairs, pairs).slot, memory.pair(copy.pairs, pairs).host = i, host
                pairs += 1
        for at in range(k * span, (k + 1) * span):
            for column in range(w.row_room):
                rows[at, column] = 0.0
        for step in range(horizon):
            at = k * span + min(step, span - 1)
            if step > 0:
                if not begin(copy):
                    return k
                pairs = decide(copy)
            end(copy, pairs)
            for column in range(w.row_room):
                rows[at, column] += memory.real(copy.row, column).v
    return len(answers) - 1


@jit
def _reset(w: Record, seed: np.uint64) -> None:
    """The world as it was made, with another seed."""
    w.seed = seed
    w.now = w.open = w.created = w.head = w.queued = w.turn = w.ended_count = 0
    for i in range(w.slot_count):
        memory.slot(w.slots, i).container = memory.slot(w.slots, i).host = l.NONE
    for h in range(w.host_count):
        host = memory.host(w.hosts, h)
        host.first, host.count, host.up, host.on, host.completed = l.NONE, 0, 1, 1, 0
        host.energy = host.busy = host.cost = 0.0


@jit
def fail(w: Record, h: int) -> None:
    """Host h fails; what is on it ends."""
    host = memory.host(w.hosts, h)
    host.up = 0
    while host.first >= 0:
        release(w, host.first, l.NODE_FAILED)


@entry
def act(rules: Records, what: int, count: int, decisions: Ints, seeds: NDArray[np.uint64], rows: Floats) -> int:
    """Do `what`; rows are (len(seeds), count, FIGURES).

    RUN: `count` intervals with the rules' policy, or with `decisions` (k, 2) under CALLER; the number
    of intervals done. When it is less, the ring needs room (`open` is 0) or `ended` must be emptied.
    BATCH: `count` intervals for each seed from the beginning; the number of seeds done.
    BRANCH: `decisions` (1 + k, slots) are the slots in the order of decisions, then hosts or -1 for each
    candidate, which the world at `branch` tries; rows (1, k, FIGURES) are sums over `count` intervals, rows
    (1, k count, FIGURES) those of each; the number of candidates done.
    FAIL: `decisions` (k, 1) are hosts that fail; what is on them ends.
    """
    w = rules[0]
    if what == FAIL:
        for k in range(len(decisions)):
            fail(w, decisions[k, 0])
        return len(decisions)
    if what == BRANCH:
        return _branch(w, memory.rules(w.branch, 0), count, decisions, rows[0])
    if what == BATCH:
        for k in range(len(seeds)):
            _reset(w, seeds[k])
            if _run(w, count, decisions, rows[k]) < count:
                return k
        return len(seeds)
    return _run(w, count, decisions, rows[0])
