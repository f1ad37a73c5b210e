"""The event queue against a dictionary that is searched for its least entry."""

import numba
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.engine.continuum import queue as events
from cosim.extensions.edgecloudsim.offloading.build import lay_out
from cosim.extensions.edgecloudsim.tests.offloading.studies import study


@pytest.fixture(scope="module")
def queue():
    put, drop, first, slot = events.put, events.drop, events.queue().first, events.slot

    @numba.njit
    def do_put(w, number, time):
        put(w[0], number, time)

    @numba.njit
    def do_drop(w, number):
        drop(w[0], number)

    @numba.njit
    def take(w):
        number = first(w[0])
        if number < 0:
            return -1, 0.0
        time = slot(w[0].heap, 0).time
        drop(w[0], number)
        return number, time

    @numba.njit
    def hurry(w, number, now, times):
        for k in range(times):
            put(w[0], number, now + (120.0 - now) * (times - k) / (times + 1))
        return now + (120.0 - now) / (times + 1)

    return do_put, do_drop, take, hurry


operation = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 11), st.sampled_from([0.0, 0.0, 0.5, 3.0, 40.0, 119.0, 130.0])),
    st.tuples(st.just("put"), st.integers(0, 11), st.floats(0.0, 125.0)),
    st.tuples(st.just("drop"), st.integers(0, 11)),
    st.tuples(st.just("take")),
    st.tuples(st.just("hurry"), st.integers(0, 11), st.integers(1, 5000)),
)


@pytest.mark.slow
@given(st.lists(operation, max_size=60))
def test_events_come_in_the_order_of_time_and_number(queue, operations):
    """`put` is relative to now. `hurry` moves one event many times, which leaves stale entries to clear out."""
    put, drop, take, hurry = queue
    state = lay_out(study("app1", devices=1), 1, trace=False, custom=False)
    room = state.meta["heap_room"][0], state.meta["chunks_free"][0]
    w = state.meta
    now, due = 0.0, {}
    for operation in [*operations, *[("take",)] * 13]:
        if operation[0] == "put":
            _, number, delay = operation
            put(w, number, now + delay)
            due[number] = now + delay
        elif operation[0] == "drop":
            drop(w, operation[1])
            due.pop(operation[1], None)
        elif operation[0] == "hurry":
            _, number, times = operation
            due[number] = hurry(w, number, now, times)
        else:
            expected = min(((time, number) for number, time in due.items()), default=(0.0, -1))
            number, time = take(w)
            assert (time, number) == expected
            if number >= 0:
                del due[number]
                now = time
        due = {number: time for number, time in due.items() if time <= 120.0}
        assert state.meta["queued"][0] <= room[0]
        assert 0 <= state.meta["chunks_free"][0] <= room[1]
    assert take(w) == (-1, 0.0)
