"""The event queue: a heap of what is due soon, and buckets of time for the rest.

A simulation with a million devices has millions of pending events, and a heap of that size misses
the cache at each of its twenty levels. So only the events of the present bucket of time (and those
that are due at once) are in the heap, some hundreds; the others lie unordered in the linked list of
their bucket, which is poured into the heap when its time comes (a calendar queue: Brown 1988, doi
10.1145/63039.63045, with a heap for the current day). Putting, moving and taking out is O(1) for
far events and O(log k) for near ones.

Every event number is in the queue at most once, and the order is (time, number), a total one. Events
after the end of the simulation are not kept.
"""

from __future__ import annotations

from cosim.continuum.jit import jit
from cosim.continuum.offloading.layout import Record, codes
from cosim.continuum.offloading.rows import event, slot, whole

_ONE, _TWO = codes(3)[1:]
ABSENT, LISTED = -_ONE, -_TWO


@jit
def _set(s: Record, k: int, time: float, number: int) -> None:
    entry = slot(s.heap, k)
    entry.time = time
    entry.number = number
    event(s.pending, number).where = k


@jit
def _up(s: Record, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k or nearer to the top."""
    while k > 0:
        above = (k - 1) >> 1
        t, w = slot(s.heap, above).time, slot(s.heap, above).number
        if t < time or (t == time and w < number):
            break
        _set(s, k, t, w)
        k = above
    _set(s, k, time, number)


@jit
def _down(s: Record, count: int, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k or further from the top."""
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
        _set(s, k, t, w)
        k = below
    _set(s, k, time, number)


@jit
def bucket_of(s: Record, time: float) -> int:
    """The bucket of a time up to the end."""
    return int(min(int(time * s.buckets_per_second), s.bucket_count - 1))


@jit
def drop(s: Record, number: int) -> None:
    """Take event `number` out, if it is in."""
    e = event(s.pending, number)
    k = e.where
    if k == ABSENT:
        return
    e.where = ABSENT
    if k == LISTED:
        left, right = e.before, e.after
        if left >= 0:
            event(s.pending, left).after = right
        else:
            whole(s.buckets, bucket_of(s, e.due)).v = right
        if right >= 0:
            event(s.pending, right).before = left
        return
    last = s.queued - 1
    s.queued = last
    if k == last:
        return
    time, moved = slot(s.heap, last).time, slot(s.heap, last).number
    if time < slot(s.heap, k).time or (time == slot(s.heap, k).time and moved < number):
        _up(s, k, time, moved)
    else:
        _down(s, last, k, time, moved)


@jit
def put(s: Record, number: int, time: float) -> None:
    """Let event `number` happen at `time` (not before now), whenever it was due before."""
    drop(s, number)
    if not time <= s.end:
        return
    b = bucket_of(s, time)
    if b <= s.bucket:
        k = s.queued
        s.queued = k + 1
        _up(s, k, time, number)
        return
    top = whole(s.buckets, b).v
    e = event(s.pending, number)
    e.due = time
    e.where = LISTED
    e.before = -1
    e.after = top
    if top >= 0:
        event(s.pending, top).before = number
    whole(s.buckets, b).v = number


@jit
def first(s: Record) -> int:
    """The number of the first event, which is then at the top of the heap; -1 when there is none left."""
    while s.queued == 0:
        if s.bucket + 1 >= s.bucket_count:
            return -1
        s.bucket += 1
        number = whole(s.buckets, s.bucket).v
        whole(s.buckets, s.bucket).v = -1
        while number >= 0:
            e = event(s.pending, number)
            following = e.after
            k = s.queued
            s.queued = k + 1
            _up(s, k, e.due, number)
            number = following
    return int(slot(s.heap, 0).number)
