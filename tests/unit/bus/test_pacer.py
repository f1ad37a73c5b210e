"""Pacing to absolute deadlines, and what each policy does with lag."""

from __future__ import annotations

import pytest

from cosim.bus.pacer import Pacer
from cosim.contract.errors import RunError
from cosim.scenario.plan.plan import Lag


class Clock:
    """A clock that only sleeping and working move, and sleeping overshoots."""

    def __init__(self, overshoot=0.0):
        self.now, self.slept, self.overshoot = 100.0, [], overshoot

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds + self.overshoot


def pacer(clock, factor=1.0, policy="report", warn=0.1, fail=1.0, **more):
    return Pacer(factor, Lag(policy, warn, fail), clock=clock, sleep=clock.sleep, **more)


def test_as_fast_as_possible_never_waits_and_records_nothing():
    clock = Clock()
    paced = pacer(clock, factor=0.0)
    assert paced.wait(5.0) == 0.0
    assert clock.slept == []
    assert paced.record.ticks == 0


@pytest.mark.parametrize(("factor", "wall"), [(1.0, 10.0), (10.0, 1.0), (0.5, 20.0)])
def test_a_factor_relates_simulated_to_wall_seconds(factor, wall):
    clock = Clock()
    paced = pacer(clock, factor)
    for tick in range(11):
        paced.wait(float(tick))
    assert clock.now == pytest.approx(100.0 + wall, abs=2e-3)


def test_overshooting_sleeps_do_not_add_up():
    clock = Clock(overshoot=0.003)
    paced = pacer(clock)
    for tick in range(1001):
        paced.wait(tick * 0.1)
    assert clock.now == pytest.approx(200.0, abs=0.005)
    assert paced.record.max <= 0.0031


def test_report_catches_up_and_records_the_lag():
    clock = Clock()
    paced = pacer(clock)
    paced.wait(0.0)
    clock.now += 1.5
    assert paced.wait(1.0) == pytest.approx(0.5)
    assert paced.wait(2.0) == pytest.approx(0.0, abs=1e-3)
    assert clock.now == pytest.approx(102.0, abs=2e-3)
    assert (paced.record.late_ticks, paced.record.max) == (1, pytest.approx(0.5))


def test_wait_moves_the_deadlines_and_never_hurries():
    clock = Clock()
    paced = pacer(clock, policy="wait")
    paced.wait(0.0)
    clock.now += 1.5
    paced.wait(1.0)
    paced.wait(2.0)
    assert clock.now == pytest.approx(102.5, abs=2e-3)
    assert paced.record.shifted == pytest.approx(0.5, abs=2e-3)


def test_strict_fails_above_the_limit_and_says_what_to_do():
    clock = Clock()
    paced = pacer(clock, policy="strict", fail=1.0)
    paced.wait(0.0)
    clock.now += 1.9
    paced.wait(1.0)
    clock.now += 2.5
    with pytest.raises(RunError, match=r"at 2 s the run is 2\.4 s behind .* run\.lag\.fail = 1 s; choose a slower"):
        paced.wait(2.0)


def test_a_request_to_stop_ends_the_sleep():
    clock = Clock()
    paced = pacer(clock, stopping=lambda: clock.now > 101.0)
    paced.wait(0.0)
    paced.wait(1000.0)
    assert clock.now < 102.0


def test_a_pause_stops_the_clock_of_the_run_and_counts_as_no_lag():
    clock = Clock()
    shown = []

    def idle():
        shown.append(clock.now)
        if clock.now > 130.0:
            paced.resume()

    paced = pacer(clock, controlled=True, idle=idle)
    paced.wait(0.0)
    clock.now += 0.25  # a quarter of the way to the next tick
    paced.pause()
    paced.wait(1.0)
    assert shown
    assert clock.now == pytest.approx(130.75, abs=0.3)
    assert paced.record.max < 0.01
    assert not paced.paused


@pytest.mark.parametrize(("factor", "wall"), [(4.0, 0.25), (0.0, 0.0), (0.5, 2.0)])
def test_another_pace_holds_from_then_on(factor, wall):
    clock = Clock()
    paced = pacer(clock, controlled=True)
    for tick in range(4):
        paced.wait(float(tick))
    paced.pace(factor)
    begun = clock.now
    for tick in range(4, 14):
        paced.wait(float(tick))
    assert clock.now - begun == pytest.approx(10 * wall, abs=1.01)
    assert paced.record.max < 0.01


def test_a_stop_ends_a_pause():
    clock = Clock()
    paced = pacer(clock, factor=0.0, controlled=True, stopping=lambda: clock.now > 101.0)
    paced.pause()
    assert paced.active
    assert paced.wait(5.0) == 0.0
    assert clock.now == pytest.approx(101.0, abs=0.1)
