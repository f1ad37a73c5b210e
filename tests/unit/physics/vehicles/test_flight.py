"""What vehicles do when told: they get there, within their limits, and come home."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles import BatteryPack, Copter, Rover, VehicleFleet, Waypoint
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.layout import CRITICAL, EMPTY, FENCE, LOW


def flying(*vehicles, height=20.0, **options):
    """Copters that hover at `height` above homes 50 m apart."""
    fleet = VehicleFleet(vehicles, [(50.0 * k, 0.0, 0.0) for k in range(len(vehicles))], **options)
    rows = range(len(vehicles))
    assert fleet.arm(rows).all()
    fleet.take_off(rows, height)
    fleet.advance(30.0)
    return fleet


def watch(fleet, until, step=0.1):
    """Columns of the state over time, copied after every step."""
    rows = []
    while fleet.now < until - 1e-9:
        fleet.advance(fleet.now + step)
        rows.append(fleet.state.copy())
    return np.array(rows)


def test_takes_off_to_the_height_and_stays_there():
    fleet = VehicleFleet([Copter()], [(5.0, 6.0, 7.0)])
    fleet.arm([0])
    fleet.take_off([0], 15.0)
    seen = watch(fleet, 20.0)
    assert seen["z"].max() < 7.0 + 15.0 + 0.2
    assert fleet.state["z"][0] == pytest.approx(22.0, abs=0.02)
    assert (fleet.state["x"][0], fleet.state["y"][0]) == pytest.approx((5.0, 6.0), abs=0.01)
    assert seen["vz"].max() <= Copter().climb + 0.1


def test_goes_where_it_is_told_within_its_limits():
    copter = Copter(speed=8.0, accel=2.0)
    fleet = flying(copter)
    fleet.go([0], [[120.0, -90.0, 35.0]])
    seen = watch(fleet, 70.0)
    speed = np.hypot(seen["vx"], seen["vy"])
    assert speed.max() <= 8.0 + 0.1
    tilt = np.arccos(np.clip(np.cos(seen["roll"]) * np.cos(seen["pitch"]), -1.0, 1.0))
    assert tilt.max() <= copter.tilt + 0.02
    end = fleet.state[0]
    assert (end["x"], end["y"], end["z"]) == pytest.approx((120.0, -90.0, 35.0), abs=0.05)
    # over 150 m at 8 m/s with 2 m/s^2: no faster than the limits allow, and not much slower
    there = seen[:, 0][np.hypot(seen["x"][:, 0] - 120.0, seen["y"][:, 0] + 90.0) < 2.0]
    first = 30.0 + 0.1 * (len(seen) - len(there) + 1)
    assert 150.0 / 8.0 + 30.0 < first < 150.0 / 8.0 + 8.0 / 2.0 + 6.0 + 30.0


def test_returns_home_and_disarms_there():
    fleet = flying(Copter())
    fleet.go([0], [[80.0, 60.0, 12.0]])
    fleet.advance(60.0)
    assert fleet.go_home([0]).all()
    seen = watch(fleet, 140.0, 0.5)
    end = fleet.state[0]
    assert np.hypot(end["x"], end["y"]) < 1.0
    assert end["armed"] == 0
    assert end["landed"] == 1
    assert end["impact"] == pytest.approx(Copter().land_speed, abs=0.1)
    assert seen["z"].max() == pytest.approx(Copter().return_height, abs=0.5)


def test_hovers_in_wind_with_the_tilt_that_balances_its_drag():
    copter = Copter()
    fleet = flying(copter)
    fleet.wind[:] = (6.0, 0.0, 0.0)
    fleet.go([0], [[0.0, 0.0, 20.0]])
    fleet.advance(60.0)
    s = fleet.state[0]
    deceleration = (copter.drag + copter.drag2 * 6.0) * 6.0
    tilt = math.acos(math.cos(s["roll"]) * math.cos(s["pitch"]))
    assert tilt == pytest.approx(math.atan(deceleration / GRAVITY), abs=0.01)
    assert np.hypot(s["vx"], s["vy"]) < 0.01


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_takes_off_into_air_that_sinks(dynamics):
    copter = Copter(dynamics=dynamics)
    fleet = VehicleFleet([copter], [(0.0, 0.0, 0.0)])
    fleet.wind[:] = (0.0, 0.0, -5.0)
    fleet.arm([0])
    fleet.take_off([0], 10.0)
    fleet.advance(10.0)
    assert fleet.state["z"][0] == pytest.approx(10.0, abs=0.05)
    if dynamics == "point":  # thrust less weight is what the air pushes
        assert fleet.state["az"][0] == pytest.approx((copter.drag + copter.drag2 * 5.0) * 5.0, abs=0.02)


def test_mission_in_order_with_stops_and_speeds():
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    fleet.set_mission(0, [
        Waypoint(z=10.0, what="take-off"),
        Waypoint(60.0, 0.0, 10.0, hold=5.0),
        Waypoint(60.0, 60.0, 10.0, speed=4.0),
        Waypoint(what="return"),
    ])  # fmt: skip
    assert not fleet.start_mission([0]).any()  # not armed
    fleet.arm([0])
    assert fleet.start_mission([0]).all()
    seen = watch(fleet, 140.0)[:, 0]
    assert list(dict.fromkeys(seen["reached"].tolist())) == [-1, 0, 1, 2]
    second = seen[seen["reached"] == 1]
    stop = seen[(np.hypot(seen["x"] - 60.0, seen["y"]) < 2.0) & (seen["reached"] == 0)]
    assert 0.1 * len(stop) == pytest.approx(5.0, abs=0.3)
    assert np.hypot(seen["vx"], seen["vy"])[seen["reached"] == 0].max() > 9.0
    assert np.hypot(second["vx"], second["vy"])[20:].max() < 4.2
    assert fleet.state["armed"][0] == 0
    assert np.hypot(fleet.state["x"], fleet.state["y"])[0] < 1.0


def test_follows_a_point_that_moves_as_last_told():
    fleet = flying(Copter())
    for second in range(30, 80):
        fleet.go([0], [[3.0 * (second - 30), 20.0, 15.0]], [[3.0, 0.0, 0.0]])
        fleet.advance(float(second + 1))
    assert fleet.state["x"][0] == pytest.approx(3.0 * 50, abs=0.3)
    assert fleet.state["y"][0] == pytest.approx(20.0, abs=0.1)


def test_velocity_holds_for_its_time_only():
    fleet = flying(Copter())
    fleet.steer([0], [[4.0, 0.0, 0.0]], valid=3.0)
    fleet.advance(32.9)
    assert fleet.state["vx"][0] == pytest.approx(4.0, abs=0.1)
    fleet.advance(45.0)
    assert abs(fleet.state["vx"][0]) < 0.01
    assert fleet.mode([0]) == ["hold"]


def test_fence_sends_it_home():
    fleet = flying(Copter())
    fleet.set_fence([0], radius=60.0)
    fleet.go([0], [[200.0, 0.0, 20.0]])
    seen = watch(fleet, 120.0)
    assert fleet.state["failsafe"][0] == FENCE
    assert seen["x"].max() < 60.0 + 40.0  # it needs its braking distance
    assert abs(fleet.state["x"][0]) < 1.0


@pytest.mark.parametrize(("action", "home"), [("return", True), ("land", False)])
def test_low_battery_ends_the_flight_as_told(action, home):
    pack = BatteryPack(capacity=0.5, action=action)
    fleet = flying(Copter(battery=pack))
    fleet.go([0], [[60.0, 0.0, 20.0]])
    seen = watch(fleet, 200.0, 0.5)
    assert LOW in seen["failsafe"]
    assert fleet.state["landed"][0] == 1
    assert bool(abs(fleet.state["x"][0]) < 1.0) is home


def test_critical_battery_lands_and_an_empty_one_drops_it():
    lands = flying(Copter(battery=BatteryPack(capacity=0.5, low=0.1, critical=0.1, action="none")), height=5.0)
    lands.advance(200.0)
    assert (lands.state["failsafe"][0], lands.state["crashed"][0], lands.state["landed"][0]) == (CRITICAL, 0, 1)
    drops = flying(Copter(battery=BatteryPack(capacity=0.5, low=0.0, critical=0.0, action="none")), height=30.0)
    drops.advance(200.0)
    s = drops.state[0]
    assert (s["failsafe"], s["crashed"], s["armed"], s["charge"]) == (EMPTY, 1, 0, 0.0)
    # 30 m of free fall against the air
    assert 15.0 < s["impact"] < math.sqrt(2.0 * GRAVITY * 30.0)
    assert not drops.arm([0]).any()


def test_falls_at_terminal_velocity():
    pack = BatteryPack(capacity=0.8, low=0.0, critical=0.0, action="none")
    copter = Copter(battery=pack, climb=20.0, accel=8.0, drag2=0.05)
    fleet = flying(copter, height=400.0)
    fleet.advance(400.0)
    a, b = copter.drag2, copter.drag
    assert fleet.state["impact"][0] == pytest.approx((-b + math.sqrt(b * b + 4 * a * GRAVITY)) / (2 * a), rel=0.02)


@pytest.mark.parametrize("steering", ["skid", "ackermann"])
def test_rover_drives_a_square_within_its_turning_circle(steering):
    rover = Rover(steering=steering)
    fleet = VehicleFleet([rover], [(0.0, 0.0, 0.0)])
    corners = [(0.0, 20.0), (20.0, 20.0), (20.0, 0.0), (0.0, 0.0)]
    fleet.set_mission(0, [Waypoint(x, y) for x, y in corners])
    fleet.arm([0])
    fleet.start_mission([0])
    seen = watch(fleet, 90.0)[:, 0]
    assert list(dict.fromkeys(seen["reached"].tolist())) == [-1, 0, 1, 2, 3]
    assert fleet.state["done"][0] == 1
    assert np.hypot(seen["vx"], seen["vy"]).max() <= 1.02 * rover.speed  # the lag lets it overshoot a little
    if steering == "ackermann":
        v = np.hypot(seen["vx"], seen["vy"])
        assert np.all(np.abs(seen["turn"]) <= v * math.tan(rover.steer) / rover.wheelbase * 1.05 + 0.02)
    else:
        assert np.abs(seen["turn"]).max() <= rover.yaw_rate + 1e-9


def test_refuses_what_it_cannot_do():
    fleet = VehicleFleet([Copter(), Rover()], [(0, 0, 0), (9, 0, 0)])
    assert not fleet.take_off([0, 1], 10.0).any()  # not armed
    fleet.arm([0, 1])
    assert fleet.go([0, 1], [5.0, 5.0, 5.0]).tolist() == [False, True]  # on the ground
    assert fleet.take_off([0, 1], 10.0).tolist() == [True, False]
    fleet.advance(5.0)
    assert fleet.arm([0], on=False).tolist() == [False]  # in flight
    assert fleet.land([0, 1]).tolist() == [True, False]
    with pytest.raises(ValueError, match="cannot go back"):
        fleet.advance(1.0)


def test_stands_armed_only_for_a_while():
    fleet = VehicleFleet([Copter()], [(0, 0, 0)])
    fleet.arm([0])
    fleet.advance(9.0)
    assert fleet.state["armed"][0] == 1
    fleet.advance(11.0)
    assert fleet.state["armed"][0] == 0


def test_vehicles_do_not_depend_on_their_neighbours_or_on_the_partition_of_time():
    alone, among = flying(Copter(), height=12.0), flying(Copter(), Copter(mass=3.0), height=12.0)
    for fleet in (alone, among):
        fleet.go([0], [[30.0, 40.0, 25.0]])
    alone.advance(40.0)
    for k in range(1, 21):
        among.advance(30.0 + 0.5 * k)
    for name in alone.state.dtype.names:
        assert among.state[name][0] == pytest.approx(alone.state[name][0], rel=1e-9, abs=1e-9, nan_ok=True)


ORDERS = st.sampled_from(["arm", "disarm", "up", "go", "steer", "home", "land", "hold", "mission", "wait"])


@given(
    st.lists(st.tuples(ORDERS, st.floats(-200.0, 200.0), st.floats(-200.0, 200.0), st.floats(0.0, 80.0)), max_size=12),
    st.floats(0.02, 1.0),
    st.floats(-12.0, 12.0),
)
def test_whatever_it_is_told_the_state_stays_sound(orders, capacity, gust):
    pack = BatteryPack(capacity=capacity)
    fleet = VehicleFleet([Copter(battery=pack), Rover(battery=pack)], [(0, 0, 0), (0, 0, 0)])
    fleet.wind[:, 0] = gust
    full = fleet.state["charge"].copy()
    for order, x, y, z in orders:
        act = {
            "arm": lambda: fleet.arm([0, 1]),
            "disarm": lambda: fleet.arm([0, 1], on=False),
            "up": lambda z=z: fleet.take_off([0, 1], z),
            "go": lambda p=(x, y, z): fleet.go([0, 1], p, (1.0, 0.0, 0.0)),
            "steer": lambda p=(x / 20.0, y / 20.0, 0.0): fleet.steer([0, 1], p),
            "home": lambda: fleet.go_home([0, 1]),
            "land": lambda: fleet.land([0, 1]),
            "hold": lambda: fleet.hold([0, 1]),
            "mission": lambda p=(x, y, z): (
                fleet.set_mission(0, [Waypoint(*p), Waypoint(what="land")]), fleet.start_mission([0])
            ),
            "wait": lambda: None,
        }[order]  # fmt: skip
        act()
        fleet.advance(fleet.now + 4.0)
        s = fleet.state
        for name in ("x", "y", "z", "vx", "vy", "vz", "heading", "voltage", "current", "power", "charge"):
            assert np.isfinite(s[name]).all(), name
        assert (s["z"] >= -1e-9).all()
        assert (s["charge"] >= 0.0).all()
        assert (s["charge"] <= full).all()
        full = s["charge"].copy()


def test_a_mission_ends_where_it_lands():
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    fleet.arm([0])
    fleet.set_mission(0, [Waypoint(z=10.0, what="take-off"), Waypoint(20.0, 0.0, 10.0), Waypoint(what="land")])
    fleet.start_mission([0])
    fleet.advance(60.0)
    end = fleet.state[0]
    assert (end["landed"], end["armed"], end["done"], end["reached"]) == (1, 0, 1, 2)
    assert end["x"] == pytest.approx(20.0, abs=3.0)  # it flew to within its radius, and braked


def test_a_mission_goes_on_after_a_landing_in_between():
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    fleet.arm([0])
    rise, land = Waypoint(z=5.0, what="take-off"), Waypoint(what="land")
    fleet.set_mission(0, [rise, land, rise, Waypoint(30.0, 0.0, 5.0)])
    fleet.start_mission([0])
    fleet.advance(80.0)
    assert fleet.state["done"][0] == 1
    assert fleet.state["x"][0] == pytest.approx(30.0, abs=2.0)
    assert fleet.state["landed"][0] == 0
