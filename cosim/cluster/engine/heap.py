"""The event heap: a binary heap over event numbers that can be moved and taken out.

Every event number is in the heap at most once. The order is (time, number), a total one, so that
equal times are handled alike however the heap came about.
"""

from __future__ import annotations

from cosim.cluster.engine import rows as r
from cosim.cluster.engine.rows import Record
from cosim.compiling import part


@part
def _set(s: Record, k: int, time: float, number: int) -> None:
    r.real(s.due, k).v = time
    r.whole(s.what, k).v = number
    r.whole(s.place, number).v = k


@part
def _up(s: Record, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k or nearer to the top."""
    while k > 0:
        above = (k - 1) >> 1
        t, w = r.real(s.due, above).v, r.whole(s.what, above).v
        if t < time or (t == time and w < number):
            break
        _set(s, k, t, w)
        k = above
    _set(s, k, time, number)


@part
def _down(s: Record, count: int, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k or further from the top."""
    while True:
        below = 2 * k + 1
        if below >= count:
            break
        t, w = r.real(s.due, below).v, r.whole(s.what, below).v
        if below + 1 < count:
            t2, w2 = r.real(s.due, below + 1).v, r.whole(s.what, below + 1).v
            if t2 < t or (t2 == t and w2 < w):
                below += 1
                t, w = t2, w2
        if time < t or (time == t and number < w):
            break
        _set(s, k, t, w)
        k = below
    _set(s, k, time, number)


@part
def put(s: Record, number: int, time: float) -> None:
    """Make event `number` due at `time`, whenever it was due before."""
    k = r.whole(s.place, number).v
    if k < 0:
        k = s.queue
        s.queue = k + 1
        _up(s, k, time, number)
    elif time < r.real(s.due, k).v:
        _up(s, k, time, number)
    else:
        _down(s, s.queue, k, time, number)


@part
def drop(s: Record, number: int) -> None:
    """Take event `number` out, if it is in."""
    k = r.whole(s.place, number).v
    if k < 0:
        return
    r.whole(s.place, number).v = -1
    last = s.queue - 1
    s.queue = last
    if k == last:
        return
    time, moved = r.real(s.due, last).v, r.whole(s.what, last).v
    if time < r.real(s.due, k).v or (time == r.real(s.due, k).v and moved < number):
        _up(s, k, time, moved)
    else:
        _down(s, last, k, time, moved)
