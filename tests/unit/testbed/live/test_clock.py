"""Offsets by four timestamps, and limits of rates."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cosim.testbed.live.clock import Bucket, ClockFilter

ways = st.floats(1e-5, 0.5)


@given(st.floats(-1e4, 1e4), st.lists(st.tuples(ways, ways, st.floats(0, 0.1)), min_size=1, max_size=20))
def test_the_error_is_at_most_half_of_the_best_round_trip(ahead, exchanges):
    clock, now, trips = ClockFilter(), 0.0, []
    for up, down, inside in exchanges:
        assert clock.add(now, now + up + ahead, now + up + inside + ahead, now + up + inside + down)
        trips.append(up + down)
        now += 1.0
    assert abs(clock.offset - ahead) <= min(trips[-8:]) / 2 + 1e-9
    assert abs(clock.round_trip - trips[-1]) < 1e-9


def test_equal_ways_give_the_offset_itself():
    clock = ClockFilter()
    clock.add(10.0, 3610.2, 3610.3, 10.5)
    assert math.isclose(clock.offset, 3600.0)
    assert math.isclose(clock.round_trip, 0.4)


def test_a_clock_that_was_set_is_believed_at_once():
    clock = ClockFilter()
    for k in range(5):
        clock.add(k, k + 0.01, k + 0.01, k + 0.02)
    clock.add(6.0, 3606.5, 3606.5, 7.0)
    assert math.isclose(clock.offset, 3600.0)
    assert clock.steps == 1


def test_times_out_of_order_are_no_sample():
    clock = ClockFilter()
    for times in ((1.0, 2.0, 1.5, 3.0), (3.0, 2.0, 2.0, 1.0), (1.0, 2.0, 9.0, 2.0)):
        assert not clock.add(*times)
    assert math.isnan(clock.offset)
    assert math.isnan(clock.round_trip)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 20)), max_size=60))
def test_a_bucket_lets_no_more_through_than_its_burst_and_rate(events):
    bucket, now, passed = Bucket(5.0, 10.0), 0.0, 0.0
    for pause, amount in events:
        now += pause
        if bucket.take(amount, now):
            passed += amount
        assert passed <= 10.0 + 5.0 * now + 1e-6
