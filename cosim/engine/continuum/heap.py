"""A binary heap of (time, number) for compiled models; entries that are no longer valid are left in it.

Every event number is due at most once, at `due`, inf for not at all. An entry with another time is
stale: it is skipped when it comes up, and cleared out when the heap is full, so that moving an event
costs one write. The order (time, number) is total: equal times are handled alike however the heap was
built.

A number may stand below a rank of its own: the entry then has `number + (rank << NUMBER_BITS)`, so that
equal times are handled by rank, whatever the numbers are. `due` goes by the number alone.

The record of a model has `queued` and `heap_room` (entries), and the addresses `due` and `heap`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosim.compiled.rowtypes import Record, rows_of
from cosim.engine.continuum.jit import jit

ENTRY: Final = np.dtype([("time", "f8"), ("number", "i8")])
NUMBER_BITS: Final = 30
NUMBER: Final = (1 << NUMBER_BITS) - 1  # the bits of the number
RANK: Final = (1 << (63 - NUMBER_BITS)) - 1  # the bits of a rank

slot = rows_of(ENTRY)
real = rows_of(np.dtype([("v", "f8")]))


@jit
def up(s: Record, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k of the heap or nearer to the top."""
    while k > 0:
        above = slot(s.heap, (k - 1) >> 1)
        if above.time < time or (above.time == time and above.number < number):
            break
        entry = slot(s.heap, k)
        entry.time = above.time
        entry.number = above.number
        k = (k - 1) >> 1
    entry = slot(s.heap, k)
    entry.time = time
    entry.number = number


@jit
def down(s: Record, count: int, time: float, number: int) -> None:
    """Put (time, number) at the top of the heap of `count` entries or below it."""
    k = 0
    while True:
        below = 2 * k + 1
        if below >= count:
            break
        if below + 1 < count:
            left, right = slot(s.heap, below), slot(s.heap, below + 1)
            # without a branch: which of them is first cannot be foreseen
            below += int((right.time < left.time) | ((right.time == left.time) & (right.number < left.number)))
        t, w = slot(s.heap, below).time, slot(s.heap, below).number
        if time < t or (time == t and number < w):
            break
        entry = slot(s.heap, k)
        entry.time = t
        entry.number = w
        k = below
    entry = slot(s.heap, k)
    entry.time = time
    entry.number = number


@jit
def sweep(s: Record) -> None:
    """Remove the stale entries, and all duplicates."""
    kept = 0
    for k in range(s.queued):
        time, number = slot(s.heap, k).time, slot(s.heap, k).number
        if real(s.due, number & NUMBER).v == time:
            real(s.due, number & NUMBER).v = -math.inf
            up(s, kept, time, number)
            kept += 1
    for k in range(kept):
        real(s.due, slot(s.heap, k).number & NUMBER).v = slot(s.heap, k).time
    s.queued = kept


@jit
def push(s: Record, time: float, number: int) -> None:
    """An entry more."""
    if s.queued == s.heap_room:
        sweep(s)
    k = s.queued
    s.queued = k + 1
    up(s, k, time, number)


@jit
def pop(s: Record) -> None:
    """Take the first entry out."""
    s.queued -= 1
    down(s, s.queued, slot(s.heap, s.queued).time, slot(s.heap, s.queued).number)


@jit
def first(s: Record) -> int:
    """The number of the first event, -1: there is none in the heap. Stale entries above it are taken out."""
    while s.queued > 0:
        number = slot(s.heap, 0).number & NUMBER
        if real(s.due, number).v == slot(s.heap, 0).time:
            return int(number)
        pop(s)
    return -1


@jit
def drop(s: Record, number: int) -> None:
    """Take event `number` out, if it is in."""
    real(s.due, number & NUMBER).v = math.inf


@jit
def put(s: Record, number: int, time: float) -> None:
    """Make event `number` due at `time`, whenever it was due before."""
    if real(s.due, number & NUMBER).v != time:
        real(s.due, number & NUMBER).v = time
        push(s, time, number)
