"""Steps of time: what moves, moves as fast as it says; legs keep their limits; the ground holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles import Copter, VehicleFleet, Waypoint
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.legs import along, shape


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
@pytest.mark.parametrize("substep", [0.0005, 0.001, 0.002, 0.003, 0.006, 0.02, 0.03, 0.05])
def test_way_is_speed_times_time_at_any_step(dynamics, substep):
    fleet = VehicleFleet([Copter(dynamics=dynamics)], [(0, 0, 0)], substep=substep)
    fleet.arm([0])
    fleet.take_off([0], 20.0)
    fleet.advance(15.0)
    fleet.go([0], [[1e5, 0.0, 20.0]])
    fleet.advance(30.0)
    before, speed = float(fleet.state["x"][0]), float(fleet.state["vx"][0])
    assert speed == pytest.approx(10.0, rel=2e-3)
    fleet.advance(33.0)
    assert fleet.state["x"][0] - before == pytest.approx(3.0 * speed, rel=1e-3)


def test_rigid_dynamics_converge_with_first_order():
    def end(substep):
        fleet = VehicleFleet([Copter(dynamics="rigid")], [(0, 0, 0)], substep=substep)
        fleet.arm([0])
        fleet.take_off([0], 20.0)
        fleet.advance(12.0)
        fleet.go([0], [[80.0, 30.0, 25.0]])
        fleet.advance(18.0)
        return float(fleet.state["x"][0])

    exact = end(0.0001)
    errors = [abs(end(step) - exact) for step in (0.002, 0.001, 0.0005)]
    assert errors[0] < 0.05
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.3)
    assert errors[1] / errors[2] == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_a_rigid_body_turns_round_at_once(start):
    """Half a turn is no balance of its controller."""
    fleet = VehicleFleet([Copter(dynamics="rigid", jerk=start)], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 20.0)
    fleet.advance(12.0)
    fleet.go([0], [[0.0, 120.0, 20.0]])
    fleet.advance(40.0)
    assert abs(fleet.state["heading"][0]) < 0.01
    fleet.go([0], [[0.0, 0.0, 20.0]])
    fleet.advance(45.0)
    assert abs(fleet.state["heading"][0]) == pytest.approx(math.pi, abs=0.25)
    fleet.advance(57.5)
    assert abs(fleet.state["y"][0]) < 1.0


@given(st.floats(0.05, 500.0), st.floats(0.5, 20.0), st.floats(0.5, 5.0), st.floats(0.3, 10.0))
def test_legs_keep_their_limits_and_arrive(length, top, accel, jerk):
    v, ramp, rise, total = shape(length, top, accel, jerk)
    assert v <= top * (1 + 1e-9)
    times = np.linspace(0.0, total, 301)
    p, speed, a = np.array([along(t, length, v, ramp, rise, total, jerk) for t in times]).T
    assert (p[0], speed[0]) == (0.0, 0.0)
    assert (p[-1], speed[-1]) == pytest.approx((length, 0.0), abs=1e-6)
    assert speed.max() <= top * (1 + 1e-9)
    assert np.abs(a).max() <= accel * (1 + 1e-9)
    assert np.abs(np.diff(a)).max() <= jerk * (times[1] - times[0]) * (1 + 1e-6)
    assert np.trapezoid(speed, times) == pytest.approx(length, rel=1e-2)


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_corners_of_a_mission_are_cut_by_no_more_than_the_radius(dynamics):
    fleet = VehicleFleet([Copter(dynamics=dynamics, jerk=1.0)], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 20.0)
    fleet.advance(15.0)
    fleet.set_mission(0, [Waypoint(100, 0, 20), Waypoint(100, 100, 20), Waypoint(0, 100, 20, hold=1.0)])
    fleet.start_mission([0])
    seen = []
    while fleet.state["done"][0] == 0 and fleet.now < 90.0:
        fleet.advance(fleet.now + 0.1)
        seen.append((fleet.state["x"][0], fleet.state["y"][0], math.hypot(fleet.state["vx"][0], fleet.state["vy"][0])))
    x, y, speed = np.array(seen).T
    off = np.minimum(
        np.minimum(np.hypot(np.maximum(x - 100, 0), y), np.hypot(x - 100, np.maximum(-y, 0))), abs(y - 100)
    )
    assert off.max() < 2.0
    assert speed.max() < 10.1
    # a corner is rounded, not stopped at: s-curves of 100 m take 16.5 s each from rest to rest
    assert fleet.now - 15.0 < 3 * 16.5 - 3.0 + 1.5
    corner = speed[np.argmin(np.hypot(x - 100, y))]
    assert 1.0 < corner < 4.0


def test_take_off_waits_for_the_rotors_and_landing_for_the_motors():
    copter = Copter(arming_delay=2.0, spool_up=1.0, disarm_after=2.5)
    fleet = VehicleFleet([copter], [(0, 0, 0)])
    fleet.arm([0])
    fleet.take_off([0], 5.0)
    fleet.advance(2.9)
    assert fleet.state["z"][0] == 0.0
    fleet.advance(10.0)
    assert fleet.state["z"][0] == pytest.approx(5.0, abs=0.2)
    fleet.land([0])
    while not fleet.state["landed"][0]:
        fleet.advance(fleet.now + 0.1)
    down = fleet.now
    while fleet.state["armed"][0]:
        fleet.advance(fleet.now + 0.1)
    assert fleet.now - down == pytest.approx(2.5, abs=0.2)


@pytest.mark.parametrize("wind", [0.0, 5.0, 8.0, 12.0])
def test_a_driven_copter_comes_down_in_wind_and_stands(wind):
    """Leaning into the wind its thrust is above its weight all the way down: the ground must hold it."""
    body = Driven(Copter(dynamics="rigid"), home=(0.0, 0.0, 10.0))
    body.wind[:] = (wind, 0.0, 0.0)
    s = body.state
    drag = (0.1 + 0.01 * wind) * wind
    lean = math.atan2(drag, GRAVITY)
    s["z"], s["vz"], s["landed"] = 10.2, -0.5, 0
    s["qw"], s["qy"] = math.cos(0.5 * lean), -math.sin(0.5 * lean)
    each = math.hypot(drag, GRAVITY) / (2.2 * GRAVITY)
    s["t0"] = s["t1"] = s["t2"] = s["t3"] = 0.25 * 1.5 * math.hypot(drag, GRAVITY)
    push, lowest, hardest = np.full(4, each), math.inf, 0.0
    for k in range(4000):
        if s["landed"] and k % 8 == 0:
            push *= 0.995  # the throttle goes down once it is down
        body.step(push, 0.00125)
        lowest = min(lowest, float(s["z"]))
        hardest = max(hardest, float(np.abs(body.force[2])))
    assert lowest > 10.0 - 0.05
    assert hardest < 3.0 * GRAVITY
    assert s["impact"] == pytest.approx(0.5, abs=0.1)
    assert s["z"] == pytest.approx(10.0, abs=2e-3)
    assert max(abs(float(s[n])) for n in ("vx", "vy", "vz", "p", "q", "r")) < 1e-3
    up = 1.0 - 2.0 * (s["qx"] ** 2 + s["qy"] ** 2)
    assert up == pytest.approx(1.0, abs=1e-3)
    there = float(s["x"])
    body.step(np.zeros(4), 0.00125, 4000)
    assert s["x"] == pytest.approx(there, abs=1e-3)  # friction holds it
