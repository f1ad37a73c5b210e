"""What sensors read agrees with the path that was flown: differentiated numerically, and by closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Place
from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.receivers import PositionErrors
from tests.unit.autopilot.wire import flying, rotation, station

DT = 0.01


def fly_about(s, steps=2500):
    """Sharp turns in a gusty wind: position (NED), rotation, specific force and rates at every step."""
    a, chance = s.autopilot, np.random.default_rng(1)
    rows = []
    for k in range(steps):
        if k % 400 == 0:
            east, north = ((60, 0), (60, 60), (0, 60), (-40, 10), (0, 0), (30, 90), (0, 0))[k // 400]
            assert a.pilot.go((east, north, 10.0 + k / 100.0)) is None
        if k % 20 == 0:
            s.fleet.wind[0] = 4.0 + chance.normal(0.0, 1.0, 3)
        s.fleet.advance(s.fleet.now + DT)
        a.send_now(mavlink.MAVLINK_MSG_ID_SIMSTATE)
        (m,) = [m for m in s.collect() if m.get_type() == "SIMSTATE"]
        v = a.pilot.look()
        force, rates = (m.xacc, m.yacc, m.zacc), (m.xgyro, m.ygyro, m.zgyro)
        rows.append(((v.y, v.x, -v.z), rotation(m.roll, m.pitch, m.yaw), force, rates))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_accelerometer_and_gyroscope_are_derivatives_of_the_path(dynamics):
    s = flying(vehicle=Copter(dynamics=dynamics, lag=0.3), substep=DT)
    place, turned, force, rates = fly_about(s)
    flown = np.diff(place, 2, axis=0) / DT**2 - [0.0, 0.0, GRAVITY]
    read = np.einsum("nij,nj->ni", turned, force)[2:]
    assert np.sqrt(((read - flown) ** 2).mean() / (flown**2).mean()) < 0.02
    assert np.abs(flown[:, :2]).max() > 3.0
    between = np.einsum("nji,njk->nik", turned[:-1], turned[1:])
    swung = np.stack([between[:, 2, 1], between[:, 0, 2], between[:, 1, 0]], 1) / DT
    middle = 0.5 * (rates[1:] + rates[:-1]) if dynamics == "rigid" else rates[1:]
    assert np.sqrt(((middle - swung) ** 2).mean() / (swung**2).mean()) < 0.02
    assert np.abs(swung).max() > 0.3


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_motors_give_the_thrust_and_the_moments_of_the_flight(dynamics):
    vehicle = Copter(dynamics=dynamics)
    s = flying(vehicle=vehicle)
    a, most = s.autopilot, vehicle.thrust_ratio * vehicle.mass * GRAVITY / 4.0

    def pulses():
        a.send_now(mavlink.MAVLINK_MSG_ID_SERVO_OUTPUT_RAW)
        (m,) = [m for m in s.collect() if m.get_type() == "SERVO_OUTPUT_RAW"]
        return np.array([m.servo1_raw, m.servo2_raw, m.servo3_raw, m.servo4_raw]) - 1000.0

    s.run(8.0)
    hover = pulses() / 1000.0 * most
    assert hover.sum() == pytest.approx(vehicle.mass * GRAVITY, rel=0.01)
    assert np.ptp(hover) < 0.01 * hover.mean()
    assert a.pilot.go((0.0, 50.0, 10.0)) is None  # north, where it looks: the nose goes down, then the rotors even out
    s.run(0.1, step=0.05)
    front_right, rear_left, front_left, rear_right = pulses()
    assert min(rear_left, rear_right) > max(front_right, front_left)
    s.run(3.0)
    v = a.pilot.look()
    lift = vehicle.mass * math.sqrt(v.ax**2 + v.ay**2 + (v.az + GRAVITY) ** 2)
    assert pulses().sum() / 1000.0 * most == pytest.approx(lift, rel=0.01)


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_attitude_points_the_rotors_along_their_thrust(dynamics):
    s = flying(vehicle=Copter(dynamics=dynamics), substep=DT)
    assert s.autopilot.pilot.go((60.0, 60.0, 30.0), heading=0.3) is None
    leans = []
    for _ in range(40):
        s.run(0.1)
        v = s.autopilot.pilot.look()
        thrust = np.array([v.ay, v.ax, -(v.az + GRAVITY)])
        assert rotation(v.roll, v.pitch, v.heading) @ [0.0, 0.0, -1.0] == pytest.approx(
            thrust / np.linalg.norm(thrust), abs=0.01 if dynamics == "rigid" else 1e-9
        )
        leans.append((abs(v.roll), abs(v.pitch)))
    assert np.min(np.max(leans, axis=0)) > 0.1  # rad, about both axes


def test_on_the_ground_it_feels_its_weight_and_a_rover_its_turns():
    s = station()
    s.autopilot.send_now(mavlink.MAVLINK_MSG_ID_RAW_IMU)
    (m,) = [m for m in s.collect() if m.get_type() == "RAW_IMU"]
    assert (m.xacc, m.yacc, m.zacc, m.xgyro, m.ygyro, m.zgyro) == (0, 0, -1000, 0, 0, 0)
    fleet = VehicleFleet([Rover()], [(0.0, 0.0, 0.0)], substep=DT)
    s = station(vehicle=Rover(), substep=DT)
    s.command(400, 1)
    s.command(176, 1, 15)
    assert s.autopilot.pilot.go((20.0, 30.0, 0.0)) is None
    fleet, sides = s.fleet, []
    before = None
    for _ in range(800):
        fleet.advance(fleet.now + DT)
        s.autopilot.send_now(mavlink.MAVLINK_MSG_ID_SIMSTATE)
        (m,) = [m for m in s.collect() if m.get_type() == "SIMSTATE"]
        v = s.autopilot.pilot.look()
        now = np.array([v.vy, v.vx])
        if before is not None:
            ahead = np.array([math.cos(m.yaw), math.sin(m.yaw)])
            right = np.array([-math.sin(m.yaw), math.cos(m.yaw)])
            sides.append(((now - before) @ ahead / DT - m.xacc, (now - before) @ right / DT - m.yacc, m.yacc))
        before = now
    off = np.array(sides)
    assert np.abs(off[:, 2]).max() > 0.1
    assert np.abs(off[:, :2]).max() < 0.02


def test_air_is_that_of_the_place():
    s = flying("ardupilot", height=100.0)
    frames = s.fleet.frames
    frames["altitude"], frames["temperature"] = 60.0, 303.15
    s.autopilot.send_now(mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE)
    (m,) = [m for m in s.collect() if m.get_type() == "SCALED_PRESSURE"]
    above = s.autopilot.pilot.place().altitude
    assert m.press_abs == pytest.approx(1013.25 * (1.0 - 0.0065 * above / 288.15) ** 5.25588, rel=1e-5)
    assert m.temperature == pytest.approx(3000 - 0.65 * (above - 60.0), abs=1.0)


def test_vibration_grows_with_the_thrust():
    s = flying("ardupilot")
    s.run(5.0)
    levels = []
    for climb in (0.0, 2.0):
        assert s.autopilot.pilot.steer((0.0, 0.0, climb)) is None
        s.run(0.3)
        s.autopilot.send_now(mavlink.MAVLINK_MSG_ID_VIBRATION)
        levels.append(next(m for m in s.collect() if m.get_type() == "VIBRATION").vibration_x)
    v = s.autopilot.pilot.look()
    assert levels[0] == pytest.approx(0.2, rel=0.02)
    assert levels[1] == pytest.approx(0.2 * (1.0 + v.az / GRAVITY), rel=0.02)
    assert levels[1] > 0.21


def test_a_receiver_is_off_by_the_deviations_that_are_declared_and_shows_them():
    """Steps of ten correlation times are independent, and the deviation of 400 is known to 3.5 %."""
    s = flying()
    a = s.autopilot

    def fixes(count):
        for _ in range(count):
            if s.fleet.receivers is not None:
                s.fleet.receivers.step(10.0)
            for number in (mavlink.MAVLINK_MSG_ID_GPS_RAW_INT, mavlink.MAVLINK_MSG_ID_GLOBAL_POSITION_INT):
                a.send_now(number)
            found = {m.get_type(): m for m in s.collect()}
            yield found["GPS_RAW_INT"], found["GLOBAL_POSITION_INT"]

    (((fix, position)),) = fixes(1)
    assert (fix.lat, fix.lon, fix.alt, fix.h_acc, fix.v_acc) == (position.lat, position.lon, position.alt, 300, 500)
    s.fleet.receivers = PositionErrors(1, 2.0, 3.0, 1.0, 5)
    off = []
    for fix, same in fixes(400):
        assert (same.lat, same.lon, same.alt) == (position.lat, position.lon, position.alt)
        assert (fix.h_acc, fix.v_acc) == (2828, 3000)  # 2 m to the east and to the north: 2.83 m across
        place = a.pilot.ground.local(Place(fix.lat / 1e7, fix.lon / 1e7, fix.alt / 1e3))
        off.append(np.array(place) - a.pilot.ground.local(a.place))
        assert off[-1] == pytest.approx(s.fleet.receivers.now[0], abs=0.02)
    assert np.std(off, axis=0) == pytest.approx([2.0, 2.0, 3.0], rel=0.1)
