"""The event queue: a heap of what is due soon, and buckets of time for the rest.

A simulation with a million devices has millions of pending events, and a heap of that size misses
the cache at each of its twenty levels. So only the events of the present bucket of time are in the
heap, some hundreds; the others lie unordered in their bucket, in chunks of SLOTS entries, and are
poured into the heap when its time comes (a calendar queue: Brown 1988, doi 10.1145/63039.63045, with
a heap for the current day). Putting and taking out is O(1) for far events and O(log k) for near ones.

Every event number is due at most once, at `due`, inf for not at all. An entry whose time is not that
any more is stale: it is left where it is and skipped when it comes up, so that moving an event costs
one write. When there is no room left, stale entries are cleared out; there is always room for those
that are not stale. The order is (time, number), a total one. Events after the end of the simulation
are not kept.
"""

from __future__ import annotations

import math

from cosim.continuum.jit import jit
from cosim.continuum.offloading.layout import SLOTS, Record
from cosim.continuum.offloading.rows import bucket, real, slot

_HEADER = 1  # the first entry of a chunk holds the number of the next chunk


@jit
def _up(s: Record, k: int, time: float, number: int) -> None:
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
def _down(s: Record, count: int, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k of the heap of `count` entries or further from the top."""
    while True:
        below = 2 * k + 1
        if below >= count:
            break
        t, w = slot(s.heap, below).time, slot(s.heap, below).number
        if below + 1 < count:
            t2, w2 = slot(s.heap, below + 1).time, slot(s.heap, below + 1).number
            if t2 < t or (t2 == t and w2 < w):
                below += 1
                t, w = t2, w2
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
def _clear_heap(s: Record) -> None:
    """Take the stale entries out of the heap."""
    kept = 0
    for k in range(s.queued):
        time, number = slot(s.heap, k).time, slot(s.heap, k).number
        if real(s.due, number).v == time:
            _up(s, kept, time, number)
            kept += 1
    s.queued = kept


@jit
def _push(s: Record, time: float, number: int) -> None:
    if s.queued == s.heap_room:
        _clear_heap(s)
    k = s.queued
    s.queued = k + 1
    _up(s, k, time, number)


@jit
def _new_chunk(s: Record) -> int:
    chunk = s.free_chunk
    if chunk >= 0:
        s.free_chunk = slot(s.chunks, chunk * SLOTS).number
    else:
        chunk = s.chunks_used
        s.chunks_used = chunk + 1
    s.chunks_free -= 1
    return int(chunk)


@jit
def _append(s: Record, b: int, time: float, number: int) -> None:
    """Put an entry into bucket b."""
    group = bucket(s.buckets, b)
    if group.chunk < 0 or group.fill == SLOTS:
        chunk = _new_chunk(s)
        slot(s.chunks, chunk * SLOTS).number = group.chunk
        group.chunk = chunk
        group.fill = _HEADER
    entry = slot(s.chunks, group.chunk * SLOTS + group.fill)
    entry.time = time
    entry.number = number
    group.fill += 1


@jit
def _take(s: Record, b: int) -> int:
    """Empty bucket b; its first chunk, for the caller to go through and give back."""
    chunk = bucket(s.buckets, b).chunk
    bucket(s.buckets, b).chunk = -1
    return int(chunk)


@jit
def _give_back(s: Record, chunk: int) -> int:
    """Free a chunk; the one after it."""
    header = slot(s.chunks, chunk * SLOTS)
    following = header.number
    header.number = s.free_chunk
    s.free_chunk = chunk
    s.chunks_free += 1
    return int(following)


@jit
def _clear_buckets(s: Record) -> None:
    """Take the stale entries out of the buckets. One free chunk is enough to do it."""
    for b in range(s.bucket + 1, s.bucket_count):
        fill = bucket(s.buckets, b).fill
        chunk = _take(s, b)
        while chunk >= 0:
            for k in range(chunk * SLOTS + _HEADER, chunk * SLOTS + fill):
                time, number = slot(s.chunks, k).time, slot(s.chunks, k).number
                if real(s.due, number).v == time:
                    _append(s, b, time, number)
            chunk = _give_back(s, chunk)
            fill = SLOTS


@jit
def drop(s: Record, number: int) -> None:
    """Take event `number` out, if it is in."""
    real(s.due, number).v = math.inf


@jit
def put(s: Record, number: int, time: float) -> None:
    """Let event `number` happen at `time` (not before now), whenever it was due before."""
    if real(s.due, number).v == time:
        return
    if not time <= s.end:
        drop(s, number)
        return
    real(s.due, number).v = time
    b = min(int(time * s.buckets_per_second), s.bucket_count - 1)
    if b <= s.bucket:
        _push(s, time, number)
        return
    if s.chunks_free <= 1:
        _clear_buckets(s)
    _append(s, b, time, number)


@jit
def first(s: Record) -> int:
    """The number of the first event, which is then at the top of the heap; -1 when there is none left."""
    while True:
        while s.queued > 0:
            time, number = slot(s.heap, 0).time, slot(s.heap, 0).number
            if real(s.due, number).v == time:
                return int(number)
            s.queued -= 1
            _down(s, s.queued, 0, slot(s.heap, s.queued).time, slot(s.heap, s.queued).number)
        if s.bucket + 1 >= s.bucket_count:
            return -1
        s.bucket += 1
        fill = bucket(s.buckets, s.bucket).fill
        chunk = _take(s, s.bucket)
        while chunk >= 0:
            for k in range(chunk * SLOTS + _HEADER, chunk * SLOTS + fill):
                time, number = slot(s.chunks, k).time, slot(s.chunks, k).number
                if real(s.due, number).v == time:
                    _push(s, time, number)
            chunk = _give_back(s, chunk)
            fill = SLOTS


@jit
def take_next(s: Record, until: float) -> int:
    """Take out the first event up to `until` (s), whose time it is now; its number, or -1 for none."""
    number = first(s)
    if number < 0:
        return -1
    time = slot(s.heap, 0).time
    if time > until:
        return -1
    drop(s, number)
    s.now = time
    s.events += 1
    return int(number)
