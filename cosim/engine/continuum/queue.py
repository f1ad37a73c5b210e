"""The event queue: a ladder of buckets of time, and a heap for what is due next.

A system with a million devices has millions of pending events, and a heap of that size misses the cache at
each of its twenty levels. So the heap holds only the events of the present bucket of time, some hundreds; the
others are unordered in buckets, in chunks of SLOTS entries. When its time comes, a bucket is poured into the
heap, or split into a rung of narrower buckets if it holds many events. Events after all buckets lie on top of
the ladder and become the first rung when the ladder is used up (Tang, Goh, Thng 2005, doi
10.1145/1103323.1103324). Putting and taking out is O(1) amortised, whatever the distances between events are.

Every event number is due at most once, at `due`, inf for not at all. An entry with another time is stale: it
is left in place and skipped when it comes up, so that moving an event costs one write. When there is no room
left, stale entries are cleared out; there is always room for the others (`cosim.engine.continuum.heap`). The
order (time, number) is total: it does not depend on how the queue was built. Events after `end` are not kept.
Events after `horizon` are noted in `due` only, where a caller that continues beyond it finds them.

`META` of a model has the fields of `FIELDS` and the addresses of the arrays that `arrays` makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.rowtypes import LINE, Record, prefetch, rows_of
from cosim.contract.records import Records
from cosim.engine.continuum import heap
from cosim.engine.continuum.heap import ENTRY, NUMBER, drop, real, slot
from cosim.engine.continuum.jit import jit

SLOTS: Final = 8  # entries of a chunk; the first one holds the number of the next chunk
RUNGS: Final = 6
WIDTH: Final = 512  # most buckets of a rung
TOP: Final = RUNGS * WIDTH  # number of the bucket on top of the ladder
_SPLIT: Final = 192  # a bucket with more entries is split
_PER_BUCKET: Final = 24  # entries of it that a narrower bucket gets
_FEW: Final = 16  # a heap with fewer entries takes all events, while no others are pending
_LARGE: Final = 2048  # a heap with more entries becomes a rung

BUCKET: Final = np.dtype([("chunk", "i4"), ("count", "i4")])  # its newest chunk, -1: none; its entries
RUNG: Final = np.dtype([
    ("start", "f8"), ("scale", "f8"),  # s, where it begins; buckets per s
    ("current", "i8"), ("count", "i8"),  # the bucket that has been poured last, -1: none; its buckets
])  # fmt: skip

# What META has for the queue, besides `now` (s) and `events`, how many were taken out.
FIELDS: Final = (
    ("end", "f8"),  # s, later events are not kept
    ("horizon", "f8"),  # s, later events are in `due` only
    ("queued", "i8"), ("heap_room", "i8"),  # entries of the heap
    ("chunks_used", "i8"), ("chunks_free", "i8"), ("free_chunk", "i8"),  # ever; now; first of the given back, -1
    ("heap_limit", "i8"),  # entries at which the heap is made a rung
    ("rungs", "i8"),  # in use
    ("top_start", "f8"),  # s, later events go to the top
    ("top_least", "f8"), ("top_most", "f8"),  # s, first and last of those on top
)  # fmt: skip
ARRAYS: Final = ("due", "heap", "chunks", "buckets", "ladder")

_CHUNK: Final = SLOTS * ENTRY.itemsize  # B

bucket = rows_of(BUCKET)
rung = rows_of(RUNG)


def arrays() -> dict[str, NDArray[Any]]:
    """The arrays of an empty queue without any event number."""
    buckets: Records = np.zeros(TOP + 1, BUCKET)
    buckets["chunk"] = -1
    return {
        "due": np.zeros(0), "heap": np.zeros(64, ENTRY), "chunks": np.zeros(0, ENTRY),
        "buckets": buckets, "ladder": np.zeros(RUNGS, RUNG),
    }  # fmt: skip


def begin(meta: Records) -> None:
    """Write into META that the queue is empty."""
    meta["free_chunk"] = -1
    meta["heap_limit"] = _LARGE
    meta["heap_room"] = 64
    meta["top_start"] = -np.inf
    meta["horizon"] = np.inf
    meta["top_least"], meta["top_most"] = np.inf, -np.inf


def more_events(meta: Records, old: dict[str, NDArray[Any]], more: int) -> dict[str, NDArray[Any]]:
    """`due`, `heap` and `chunks` with room for `more` event numbers, and half of it again for stale entries."""
    first = len(old["due"]) == 0
    chunks = 2 * more // (SLOTS - 1) + min(more, TOP if first else 0) + 8  # a bucket's newest chunk is not full
    found = {
        "due": np.concatenate([old["due"], np.full(more, np.inf)]),
        "heap": _longer(old["heap"], more, int(meta["queued"][0])),
        "chunks": _longer(old["chunks"], chunks * SLOTS, int(meta["chunks_used"][0]) * SLOTS),
    }
    meta["heap_room"] = len(found["heap"])
    meta["chunks_free"] += chunks
    return found


def _longer(array: NDArray[Any], more: int, used: int) -> NDArray[Any]:
    """The array with room for `more` entries; only those in use are copied, the rest of the memory is not touched."""
    found = np.zeros(len(array) + more, array.dtype)
    found[:used] = array[:used]
    return found


def clear(meta: Records, due: NDArray[Any], heap: NDArray[Any], chunks: NDArray[Any], buckets: NDArray[Any]) -> None:
    """Take all events out."""
    forget(meta, heap, chunks, buckets)
    due.fill(np.inf)


def forget(meta: Records, heap: NDArray[Any], chunks: NDArray[Any], buckets: NDArray[Any]) -> None:
    """Empty the queue; `due` still holds its events."""
    begin(meta)
    meta["heap_room"], meta["chunks_free"] = len(heap), len(chunks) // SLOTS
    meta["queued"] = meta["chunks_used"] = meta["rungs"] = 0
    buckets["chunk"], buckets["count"] = -1, 0


@jit
def restart(s: Record, horizon: float) -> None:
    """Begin anew with an empty queue for events up to `horizon`, after all events up to the last one are over."""
    s.horizon, s.heap_limit = horizon, _LARGE
    s.top_start = -math.inf
    s.top_least, s.top_most = math.inf, -math.inf
    s.rungs = s.queued = 0


class Lookahead(NamedTuple):
    """Functions (s, number) that ask the cache for what an event of a bucket will need, one after another for all."""

    warm: Callable[[Record, int], None]
    follow: Callable[[Record, int], None]
    soon: Callable[[Record, int], None]  # in large systems, as `ahead` says
    last: Callable[[Record, int], None]


class Queue(NamedTuple):
    """The functions of a queue, for compiled callers."""

    put: Callable[[Record, int, float], None]
    drop: Callable[[Record, int], None]
    first: Callable[[Record], int]
    take_next: Callable[[Record, float], int]


@jit
def _new_chunk(s: Record) -> int:
    chunk = s.free_chunk
    if chunk >= 0:
        s.free_chunk = slot(s.chunks, chunk * SLOTS).number
    else:
        chunk = int(s.chunks_used)
        s.chunks_used = chunk + 1
    s.chunks_free -= 1
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
def _append(s: Record, b: int, time: float, number: int) -> None:
    """Put an entry into bucket b."""
    group = bucket(s.buckets, b)
    count = group.count
    chunk = group.chunk
    place = count % (SLOTS - 1)
    if place == 0:
        following = chunk
        chunk = _new_chunk(s)
        slot(s.chunks, chunk * SLOTS).number = following
        group.chunk = chunk
    entry = slot(s.chunks, chunk * SLOTS + 1 + place)
    entry.time = time
    entry.number = number
    group.count = count + 1
    if b == TOP:
        s.top_least = min(s.top_least, time)
        s.top_most = max(s.top_most, time)


@jit
def _fill(count: int) -> int:
    """Entries in the newest chunk of a bucket with so many."""
    return (count - 1) % (SLOTS - 1) + 1 if count > 0 else 0


@jit
def _empty(s: Record, b: int) -> int:
    """Empty bucket b; its newest chunk, for the caller to go through and give back."""
    group = bucket(s.buckets, b)
    chunk = group.chunk
    group.chunk = -1
    group.count = 0
    if b == TOP:
        s.top_least, s.top_most = math.inf, -math.inf
    return int(chunk)


@jit
def _place(s: Record, time: float) -> int:
    """The bucket for an event at `time`, -1 for the heap."""
    if time > s.top_start:
        return TOP
    for r in range(s.rungs):
        step = rung(s.ladder, r)
        if time >= step.start:
            position = (time - step.start) * step.scale
            b = step.count - 1
            if position < b:
                b = int(position)
            if b > step.current:
                return int(r * WIDTH + b)
    return -1


@jit
def _ask_for_chunk(s: Record, chunk: int) -> None:
    """Ask the cache for a chunk, if it is one."""
    if chunk >= 0:
        prefetch(s.chunks + _CHUNK * chunk)
        prefetch(s.chunks + _CHUNK * chunk + LINE)


@jit
def abandon(s: Record) -> None:
    """Empty the queue before its time; `due` still holds its events."""
    for b in range(TOP + 1):
        chunk = _empty(s, b)
        while chunk >= 0:
            chunk = _give_back(s, chunk)
    s.queued = s.rungs = 0


@jit
def _range(s: Record, b: int) -> tuple[float, float]:
    """First and last time of bucket b."""
    least, most = math.inf, -math.inf
    chunk, fill = bucket(s.buckets, b).chunk, _fill(bucket(s.buckets, b).count)
    while chunk >= 0:
        _ask_for_chunk(s, slot(s.chunks, chunk * SLOTS).number)
        for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
            time = slot(s.chunks, k).time
            least = min(least, time)
            most = max(most, time)
        chunk = slot(s.chunks, chunk * SLOTS).number
        fill = SLOTS - 1
    return least, most


@jit
def _new_rung(s: Record, count: int, least: float, most: float) -> int:
    """A rung for `count` events from `least` to `most`; its number, -1 when there can be none."""
    if s.rungs == RUNGS or not most > least:
        return -1
    buckets = min(max(count // _PER_BUCKET, 16), WIDTH)
    scale = buckets / (most - least)
    if not scale < math.inf:
        return -1
    r = s.rungs
    step = rung(s.ladder, r)
    step.start, step.scale, step.current, step.count = least, scale, -1, buckets
    s.rungs = r + 1
    return int(r)


@jit
def _spill(s: Record, b: int, r: int) -> None:
    """Distribute bucket b among the buckets of rung r."""
    step = rung(s.ladder, r)
    if s.chunks_free <= step.count + 2:  # each bucket's newest chunk need not be full
        _sweep(s)
    fill = _fill(bucket(s.buckets, b).count)
    chunk = _empty(s, b)
    while chunk >= 0:
        _ask_for_chunk(s, slot(s.chunks, chunk * SLOTS).number)
        for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
            prefetch(s.due + 8 * (slot(s.chunks, k).number & NUMBER))
        for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
            time, number = slot(s.chunks, k).time, slot(s.chunks, k).number
            if real(s.due, number & NUMBER).v != time:
                continue
            position = (time - step.start) * step.scale
            into = step.count - 1
            if position < into:
                into = int(position)
            _append(s, r * WIDTH + into, time, number)
        chunk = _give_back(s, chunk)
        fill = SLOTS - 1


@jit
def _sweep(s: Record) -> None:
    """Remove the stale entries from all buckets, and all duplicates.

    One free chunk is enough for it.
    """
    for b in range(TOP + 1):
        fill = _fill(bucket(s.buckets, b).count)
        chunk = _empty(s, b)
        while chunk >= 0:
            for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
                time, number = slot(s.chunks, k).time, slot(s.chunks, k).number
                if real(s.due, number & NUMBER).v == time:
                    real(s.due, number & NUMBER).v = -math.inf
                    _append(s, b, time, number)
            chunk = _give_back(s, chunk)
            fill = SLOTS - 1
        chunk, fill = bucket(s.buckets, b).chunk, _fill(bucket(s.buckets, b).count)
        while chunk >= 0:
            for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
                real(s.due, slot(s.chunks, k).number & NUMBER).v = slot(s.chunks, k).time
            chunk = slot(s.chunks, chunk * SLOTS).number
            fill = SLOTS - 1


@jit
def _heap_to_rung(s: Record) -> None:
    """Move the heap into a rung of its own, where there is one left and the times differ."""
    least, most = math.inf, -math.inf
    for k in range(s.queued):
        least = min(least, slot(s.heap, k).time)
        most = max(most, slot(s.heap, k).time)
    s.heap_limit = 2 * s.queued
    if s.chunks_free <= s.queued + 2:
        return
    r = _new_rung(s, s.queued, least, most)
    if r < 0:
        return
    count = s.queued
    s.queued = 0
    for k in range(count):
        time, number = slot(s.heap, k).time, slot(s.heap, k).number
        _append(s, _place(s, time), time, number)


@jit
def put(s: Record, number: int, time: float) -> None:
    """Let event `number` happen at `time` (not before now), whenever it was due before."""
    if real(s.due, number & NUMBER).v == time:
        return
    if not time <= s.end or time == math.inf:
        drop(s, number)
        return
    real(s.due, number & NUMBER).v = time
    if time <= s.horizon:
        line_up(s, number, time)


@jit
def line_up(s: Record, number: int, time: float) -> None:
    """Let event `number`, which is due at `time`, into the queue."""
    if s.queued < _FEW and s.rungs == 0 and bucket(s.buckets, TOP).count == 0:
        s.top_start, s.heap_limit = max(s.top_start, time), 8 * _FEW  # so few events need no buckets
        heap.push(s, time, number)
        return
    b = _place(s, time)
    if b < 0:
        heap.push(s, time, number)
        return
    if s.chunks_free <= 1:
        _sweep(s)
    _append(s, b, time, number)


def queue(ahead: Lookahead | None = None) -> Queue:
    """The functions of a queue."""
    warm, follow, soon, last = ahead or (None,) * 4

    @jit
    def pour(s: Record, b: int) -> None:
        """Move bucket b into the heap."""
        fill = _fill(bucket(s.buckets, b).count)
        chunk = bucket(s.buckets, b).chunk
        while chunk >= 0:
            following = slot(s.chunks, chunk * SLOTS).number
            _ask_for_chunk(s, following)
            for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
                number = slot(s.chunks, k).number & NUMBER
                prefetch(s.due + 8 * number)
                if warm is not None:
                    warm(s, number)
            chunk = following
            fill = SLOTS - 1
        fill = _fill(bucket(s.buckets, b).count)
        chunk = _empty(s, b)
        while chunk >= 0:
            for k in range(chunk * SLOTS + 1, chunk * SLOTS + 1 + fill):
                time, number = slot(s.chunks, k).time, slot(s.chunks, k).number
                if real(s.due, number & NUMBER).v == time:
                    if follow is not None:
                        follow(s, number & NUMBER)
                    heap.push(s, time, number)
            chunk = _give_back(s, chunk)
            fill = SLOTS - 1
        if soon is not None and last is not None and s.ahead != 0:
            for k in range(s.queued):
                soon(s, slot(s.heap, k).number & NUMBER)
            for k in range(s.queued):
                last(s, slot(s.heap, k).number & NUMBER)

    @jit
    def step_down(s: Record) -> bool:
        """Fill the heap with what is due next; False when nothing is left."""
        s.heap_limit = _LARGE
        if s.rungs == 0:
            count = bucket(s.buckets, TOP).count
            if count == 0:
                return False
            least, most = s.top_least, s.top_most
            s.top_start = most
            r = -1
            if count > _SPLIT:
                r = _new_rung(s, count, least, most)
            if r < 0:
                pour(s, TOP)
            else:
                _spill(s, TOP, r)
            return True
        r = s.rungs - 1
        step = rung(s.ladder, r)
        b = step.current + 1
        while b < step.count and bucket(s.buckets, r * WIDTH + b).count == 0:
            b += 1
        if b >= step.count:
            s.rungs = r
            return True
        step.current = b
        b += r * WIDTH
        count = bucket(s.buckets, b).count
        child = -1
        if count > _SPLIT:
            least, most = _range(s, b)
            child = _new_rung(s, count, least, most)
        if child < 0:
            pour(s, b)
        else:
            _spill(s, b, child)
        return True

    @jit
    def first(s: Record) -> int:
        """The number of the first event, which is then at the top of the heap; -1 when there is none left."""
        while True:
            if s.queued > s.heap_limit:
                _heap_to_rung(s)
            number = heap.first(s)
            if number >= 0:
                return int(number)
            if not step_down(s):
                return -1

    @jit
    def take_next(s: Record, until: float) -> int:
        """Take out the first event up to `until` (s), whose time it is now; its number, or -1 for none."""
        number = first(s)
        if number < 0:
            return -1
        time = slot(s.heap, 0).time
        if time > until:
            return -1
        heap.drop(s, number)
        heap.pop(s)
        s.now = time
        s.events += 1
        return int(number)

    return Queue(put, drop, first, take_next)


__all__ = ["ARRAYS", "BUCKET", "ENTRY", "FIELDS", "RUNG", "Lookahead", "Queue", "abandon", "arrays", "begin", "drop",
           "forget", "line_up", "more_events", "prefetch", "put", "queue", "restart", "slot"]  # fmt: skip
