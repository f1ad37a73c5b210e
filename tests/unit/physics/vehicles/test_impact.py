"""Impacts against closed forms: falls, walls at every angle, two balls, and what breaks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles.airframe import COPTER_BEARS, GRAVITY, ROVER_BEARS
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.impact import Contacts
from cosim.physics.vehicles.layout import GROUND, OBSTACLE, VEHICLE
from cosim.physics.vehicles.obstacles import Obstacles

SILO = Obstacles.of([("silo", [np.array([[45.0, -5.0], [55.0, -5.0], [55.0, 5.0], [45.0, 5.0]])], 30.0)])
WALL = Obstacles.of([("wall", [np.array([[10.0, -500.0], [10.02, -500.0], [10.02, 500.0], [10.0, 500.0]])], 30.0)])
BODY = float(Copter().row()["body"][0])
FREE = Copter(drag=0.0, drag2=0.0)
SPEEDS = st.floats(-25.0, 25.0)


def flying(*vehicles, homes=None, obstacles=None, height=20.0):
    """Vehicles among obstacles, the copters at a height."""
    fleet = VehicleFleet(vehicles, homes or [(0.0, 0.0, 0.0)] * len(vehicles))
    rows = np.arange(len(vehicles))
    fleet.obstacles, fleet.contacts = obstacles, Contacts(obstacles)
    fleet.arm(rows)
    fleet.take_off(rows, height)
    fleet.advance(20.0)
    return fleet


def moved(fleet, ways, span=0.02):
    """Let what stands in their straight ways act on vehicles with these velocities (n, 3) m/s."""
    before, velocity = fleet.places(), np.array(ways, float)
    for k, axis in enumerate("xyz"):
        fleet.state[f"v{axis}"] = velocity[:, k]
        fleet.state[axis] += span * velocity[:, k]
    fleet.contacts.settle(fleet.state, fleet.frames, before, fleet.now)
    return np.column_stack([fleet.state[f"v{axis}"] for axis in "xyz"])


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
@pytest.mark.parametrize("height", [0.3, 1.0, 20.0])
def test_a_fall_ends_at_the_speed_of_its_height_and_breaks_above_the_limit(height, dynamics):
    fleet = VehicleFleet([Copter(drag=0.0, drag2=0.0, dynamics=dynamics)], [(0.0, 0.0, 0.0)])
    fleet.contacts = Contacts()
    s = fleet.state[0]
    s["armed"], s["landed"], s["z"], s["qw"] = 1, 0, height, 1.0
    fleet.cut([0])
    fleet.advance(3.0)
    speed = math.sqrt(2.0 * GRAVITY * height)
    assert s["impact"] == pytest.approx(speed, abs=GRAVITY * 0.01)  # one step
    broken = speed > COPTER_BEARS
    assert (s["crashed"], s["hits"], s["armed"], s["z"]) == (broken, broken, 0, 0.0)
    if broken:
        assert (s["hit_what"], s["hit_other"]) == (GROUND, -1)
        assert s["hit_at"] == pytest.approx(math.sqrt(2.0 * height / GRAVITY), abs=0.02)
        assert not fleet.arm([0])[0]


@given(st.floats(0.02, 6.0), st.floats(-0.9, 0.9), st.floats(-0.9, 0.9))
def test_feet_never_give_back_more_energy_than_came_in(height, roll, pitch):
    body = Driven(Copter(dynamics="rigid", drag=0.0, drag2=0.0))
    s, a = body.state, body.frame
    cr, sr, cp, sp = math.cos(roll / 2), math.sin(roll / 2), math.cos(pitch / 2), math.sin(pitch / 2)
    s["qw"], s["qx"], s["qy"], s["qz"] = cr * cp, sr * cp, cr * sp, -sr * sp
    s["z"], s["landed"] = height + 0.2, 0
    start, highest = a["mass"] * GRAVITY * s["z"], 0.0
    for _ in range(800):
        body.step(np.zeros(4), 0.0025)
        turning = sum(a[f"inertia_{axis}"] * s[rate] ** 2 for axis, rate in zip("xyz", "pqr", strict=True))
        moving = a["mass"] * (s["vx"] ** 2 + s["vy"] ** 2 + s["vz"] ** 2)
        highest = max(highest, 0.5 * (turning + moving) + a["mass"] * GRAVITY * s["z"])
    assert highest <= start + a["mass"] * GRAVITY * 0.05  # as deep as the feet go
    assert s["impact"] <= math.sqrt(2.0 * GRAVITY * (height + 0.2)) + GRAVITY * 0.0025
    assert s["crashed"] == (s["impact"] > COPTER_BEARS)


@given(SPEEDS, SPEEDS, st.floats(0.1, 9.0), st.floats(0.001, 1.0))
def test_a_wall_takes_what_is_at_right_angles_and_leaves_the_rest(vx, vy, gap, span):
    fleet = flying(FREE, obstacles=WALL)
    fleet.state["x"] = 10.0 - BODY - gap
    fleet.state["y"] = 0.0
    hits = vx * span > gap
    ((ux, uy, _),) = moved(fleet, [(vx, vy, 0.0)], span)
    s = fleet.state[0]
    if hits:  # through no wall, however thin and fast
        assert (ux, uy) == pytest.approx((0.0, vy), abs=1e-9)
        assert s["y"] == pytest.approx(vy * span, abs=1e-4)  # it slides on
        grazing = gap * math.exp(-200.0 * vx / math.hypot(vx, vy))  # what steps as long as the gap leave of it
        assert -1e-5 - 2.0 * grazing <= s["x"] - 10.0 + BODY <= 1e-5
        assert s["crashed"] == s["stopped"] == (vx > COPTER_BEARS)
        if vx > 0.5:
            assert (s["hit_what"], s["hit_other"], s["hit_speed"]) == (OBSTACLE, 0, pytest.approx(vx))
    elif vx * span < gap - 1e-5:
        assert (ux, uy, s["hits"], s["x"]) == (vx, vy, 0, 10.0 - BODY - gap + span * vx)


@given(st.lists(SPEEDS, min_size=6, max_size=6), st.floats(0.3, 20.0), st.floats(-0.5, 0.5))
def test_two_that_meet_keep_their_momentum_and_lose_the_energy_along_the_line_between_them(speeds, heavy, aside):
    fleet = flying(FREE, Copter(mass=heavy, rotor_radius=0.4), homes=[(0.0, 0.0, 0.0), (1.3, aside, 0.0)])
    mass, reach = fleet.frames["mass"], float(fleet.frames["body"].sum())
    start = np.array([speeds[:3], speeds[3:]])
    before = fleet.places()
    end = moved(fleet, start, 0.1)
    gap = fleet.places()
    assert mass @ end == pytest.approx(mass @ start, abs=1e-9)
    lost = 0.5 * (mass @ (start**2).sum(axis=1) - mass @ (end**2).sum(axis=1))
    assert lost >= -1e-9
    hits = fleet.state["hits"]
    change = np.linalg.norm(end - start, axis=1)
    assert (fleet.state["crashed"] == ((hits > 0) & (change > COPTER_BEARS))).all()
    if hits.any():
        speed = fleet.state["hit_speed"][0]
        reduced = mass[0] * mass[1] / mass.sum()
        assert lost == pytest.approx(0.5 * reduced * speed**2, rel=1e-9)  # perfectly inelastic
        assert change == pytest.approx(speed * reduced / mass, rel=1e-9)
        assert np.linalg.norm(gap[1] - gap[0]) >= reach * (1.0 - 1e-9)
        assert fleet.state["hit_other"].tolist() == [1, 0]
        assert (fleet.state["hit_what"] == VEHICLE).all()
    elif np.linalg.norm(before[1] - before[0]) > reach and change.max() == 0.0:
        steps = before + np.linspace(0.0, 0.1, 201)[:, None, None] * start
        assert np.linalg.norm(steps[:, 1] - steps[:, 0], axis=1).min() > reach - 1e-3


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
@pytest.mark.parametrize("speed", [2.0, 10.0])
def test_a_copter_that_flies_against_a_silo_is_held_up_or_falls_down_beside_it(speed, dynamics):
    fleet = flying(Copter(speed=speed, dynamics=dynamics), obstacles=SILO)
    fleet.go([0], [[100.0, 0.0, 20.0]])
    while fleet.now < 55.0:
        fleet.advance(fleet.now + 0.1)
    s = fleet.state[0]
    assert (s["x"], s["y"]) == pytest.approx((45.0 - BODY, 0.0), abs=0.02)
    assert (s["hits"], s["hit_speed"]) == (1, pytest.approx(speed, abs=0.05))
    broken = speed > COPTER_BEARS
    assert (s["crashed"], s["armed"], s["landed"]) == (broken, not broken, broken)
    assert s["z"] == pytest.approx(0.0 if broken else 20.0, abs=0.05)
    if broken:
        assert s["power"] == fleet.frames["idle"][0]


def test_a_rover_breaks_at_a_wall_above_the_speed_that_a_bumper_bears():
    for speed in (0.9, 2.0):
        fleet = VehicleFleet([Rover(speed=speed)], [(40.0, 0.0, 0.0)])
        fleet.obstacles, fleet.contacts = SILO, Contacts(SILO)
        fleet.arm([0])
        fleet.go([0], [[100.0, 0.0, 0.0]])
        fleet.advance(20.0)
        s = fleet.state[0]
        assert s["x"] == pytest.approx(45.0 - fleet.frames["body"][0], abs=1e-4)
        assert (s["crashed"], s["armed"]) == (speed > ROVER_BEARS, speed < ROVER_BEARS)
        assert s["hit_speed"] == pytest.approx(speed, rel=0.02)


def test_a_copter_lands_on_a_roof_takes_off_from_it_and_lands_beside():
    fleet = flying(Copter(), obstacles=SILO, height=35.0)
    fleet.go([0], [[50.0, 0.0, 35.0]])
    fleet.advance(40.0)
    fleet.land([0])
    fleet.advance(60.0)
    s = fleet.state[0]
    assert (s["z"], s["landed"], s["armed"], s["crashed"], s["hits"]) == (30.0, 1, 0, 0, 0)
    assert fleet.arm([0])[0]
    fleet.take_off([0], 10.0)
    fleet.advance(80.0)
    fleet.go([0], [[20.0, 0.0, 40.0]])
    fleet.advance(100.0)
    assert s["z"] == pytest.approx(40.0, abs=0.1)
    fleet.land([0])
    fleet.advance(160.0)
    assert (s["z"], s["landed"], s["crashed"]) == (0.0, 1, 0)


def test_what_is_parked_stands_firm_and_the_lighter_one_breaks():
    fleet = VehicleFleet([Copter(), Rover(mass=900.0, wheelbase=1.6)], [(0.0, 0.0, 0.0), (30.0, 0.0, 0.0)])
    fleet.contacts = Contacts()
    fleet.arm([0])
    fleet.take_off([0], 1.0)
    fleet.advance(10.0)
    fleet.go([0], [[60.0, 0.0, 1.0]])
    fleet.advance(25.0)
    drone, tractor = fleet.state
    assert (drone["crashed"], tractor["crashed"], tractor["x"]) == (1, 0, 30.0)
    assert (drone["hit_other"], tractor["hit_other"]) == (1, 0)


def test_steps_near_each_other_are_those_of_vehicles_that_meet_nothing():
    wind = np.array([1.0, -2.0, 0.5])
    states = []
    for solid in (False, True):
        fleet = flying(Copter(), Copter(dynamics="rigid"), homes=[(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)])
        fleet.contacts = Contacts() if solid else None
        fleet.wind[:] = wind
        fleet.go([0, 1], [[30.0, 5.0, 20.0], [31.0, 5.0, 20.0]])
        for _ in range(50):
            fleet.advance(fleet.now + 0.1)
        states.append(fleet.state.copy())
    assert states[0].tobytes() == states[1].tobytes()


def test_those_that_start_at_one_place_come_apart():
    fleet = flying(Copter(), Copter())
    fleet.go([0], [[20.0, 0.0, 20.0]])
    fleet.advance(40.0)
    assert fleet.state["x"] == pytest.approx([20.0, 0.0], abs=0.1)
    assert not fleet.state["hits"].any()


def test_what_vehicles_bear_is_what_the_rules_ask_for():
    drop = 1.5 * 13.0 * 0.0254  # m: 14 CFR 27.725(a) and 27.727(a)
    assert pytest.approx(math.sqrt(2.0 * GRAVITY * drop), rel=0.05) == COPTER_BEARS
    assert pytest.approx(2.5 * 1609.344 / 3600.0, rel=0.02) == ROVER_BEARS  # 49 CFR 581.5(a)
