"""The event queue with thousands of events, near and far, against a sorted list."""

import heapq

import numba
import numpy as np
import pytest

from cosim.engine.continuum import queue

META = np.dtype([("now", "f8"), ("events", "i8"), *queue.FIELDS, *((name, "i8") for name in queue.ARRAYS)])
functions = queue.queue()
put, drop, take_next = functions.put, functions.drop, functions.take_next


@numba.njit
def do_put(w, numbers, times):
    for k in range(len(numbers)):
        put(w[0], numbers[k], times[k])


@numba.njit
def do_drop(w, number):
    drop(w[0], number)


@numba.njit
def take(w, until):
    number = take_next(w[0], until)
    return number, w[0].now


class Queue:
    """An empty queue for `count` event numbers."""

    def __init__(self, count, end=1e300):
        self.meta = np.zeros(1, META)
        queue.begin(self.meta)
        self.meta["end"] = end
        self.arrays = queue.arrays()
        self.arrays |= queue.more_events(self.meta, self.arrays, count)
        for name, array in self.arrays.items():
            self.meta[name] = array.ctypes.data

    def put(self, numbers, times):
        do_put(self.meta, np.asarray(numbers, np.int64), np.asarray(times, np.float64))


SPANS = {
    "even": lambda rng, n: rng.random(n) * 10.0,
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "at once": lambda rng, n: np.zeros(n),
    "few instants": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "far apart": lambda rng, n: 10.0 ** rng.uniform(-9, 9, n),
    "nearly equal": lambda rng, n: 1.0 + rng.integers(0, 5, n) * np.finfo(float).eps,
}


@pytest.mark.parametrize("spans", SPANS)
def test_many_events_come_in_the_order_of_time_and_number(spans):
    """Events are put, moved, dropped and put again as they come up; the reference is a heap of live entries."""
    rng = np.random.default_rng(5)
    draw = SPANS[spans]
    count = 3000
    q = Queue(count)
    due = dict(enumerate(draw(rng, count).tolist()))
    q.put(list(due), list(due.values()))
    reference = [(time, number) for number, time in due.items()]
    heapq.heapify(reference)
    for turn in range(12_000):
        while due.get(reference[0][1]) != reference[0][0]:
            heapq.heappop(reference)  # moved or dropped
        expected = heapq.heappop(reference)
        number, now = take(q.meta, 1e300)
        assert (now, number) == expected, turn
        del due[number]
        others = rng.integers(0, count, 2).tolist()
        if turn % 7 == 0:
            do_drop(q.meta, others[0])
            due.pop(others[0], None)
        times = (now + draw(rng, 3)).tolist()
        for one, time in zip([number, *others], times, strict=True):
            if turn % 3 == 0 or one == number:
                q.put([one], [time])
                if due.get(one) != time:
                    heapq.heappush(reference, (time, one))
                due[one] = time
    assert q.meta["queued"][0] <= q.meta["heap_room"][0]
    assert 0 <= q.meta["chunks_free"][0] <= len(q.arrays["chunks"]) // queue.SLOTS


def test_what_is_moved_over_and_over_takes_no_more_room():
    q = Queue(10)
    for k in range(50_000):
        q.put([k % 10], [1e6 - k])
    assert [take(q.meta, 1e300)[0] for _ in range(11)] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1]


def test_nothing_comes_before_its_time_or_after_the_end():
    q = Queue(3, end=5.0)
    q.put([0, 1, 2], [4.0, 6.0, np.inf])
    assert take(q.meta, 3.9)[0] == -1
    assert take(q.meta, 4.0)[0] == 0
    assert take(q.meta, 1e300)[0] == -1
