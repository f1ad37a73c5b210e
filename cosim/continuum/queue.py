"""The event heap: a binary heap over event numbers that can be moved and taken out.

Every event number is in the heap at most once. The order is (time, number), a total one, so that
equal times are handled alike however the heap came about.
"""

from __future__ import annotations

from cosim.continuum import memory
from cosim.continuum.jit import jit
from cosim.continuum.layout import Record


@jit
def _set(s: Record, k: int, time: float, number: int) -> None:
    memory.real(s.due, k).v = time
    memory.whole(s.what, k).v = number
    memory.whole(s.place, number).v = k


@jit
def _up(s: Record, k: int, time: float, number: int) -> None:
    """Put (time, number) at position k or nearer to the top."""
    while k > 0:
        above = (k - 1) >> 1
        t, w = memory.real(s.due, above).v, memory.whole(s.what, above).v
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
        t, w = memory.real(s.due, below).v, memory.whole(s.what, below).v
        if below + 1 < count:
            t2, w2 = memory.real(s.due, below + 1).v, memory.whole(s.what, below + 1).v
            if t2 < t or (t2 == t and w2 < w):
                below += 1
                t, w = t2, w2
        if time < t or (time == t and number < w):
            break
        _set(s, k, t, w)
        k = below
    _set(s, k, time, number)


@jit
def put(s: Record, number: int, time: float) -> None:
    """Let event `number` happen at `time`, whenever it was due before."""
    k = memory.whole(s.place, number).v
    if k < 0:
        k = s.queue
        s.queue = k + 1
        _up(s, k, time, number)
    elif time < memory.real(s.due, k).v:
        _up(s, k, time, number)
    else:
        _down(s, s.queue, k, time, number)


@jit
def drop(s: Record, number: int) -> None:
    """Take event `number` out, if it is in."""
    k = memory.whole(s.place, number).v
    if k < 0:
        return
    memory.whole(s.place, number).v = -1
    last = s.queue - 1
    s.queue = last
    if k == last:
        return
    time, moved = memory.real(s.due, last).v, memory.whole(s.what, last).v
    if time < memory.real(s.due, k).v or (time == memory.real(s.due, k).v and moved < number):
        _up(s, k, time, moved)
    else:
        _down(s, last, k, time, moved)
