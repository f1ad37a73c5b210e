"""Our autopilot on a physics of somebody else's, over ArduPilot's JSON interface."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest

from cosim.autopilot.json_pilot import JsonPilot, parse, pulse
from cosim.autopilot.table import Address
from cosim.physics.vehicles import Copter, VehicleFleet
from tests.unit.autopilot.json_world import Program, World

HOME = (50.0, 20.0, 0.0)


class Flight:
    """A copter of ours on a world of theirs."""

    def __init__(self, world, loses=0):
        self.program = Program(world, loses)
        self.fleet = VehicleFleet([Copter(dynamics="rigid")], [HOME], substep=0.0025)
        self.pilot = JsonPilot(self.fleet, 0, Address("127.0.0.1", self.program.port), rate=200)
        assert self.pilot.seek()
        self.pilot.begin(0.0)

    def to(self, until):
        while self.fleet.now < until - 1e-9:
            self.fleet.now += 0.1
            assert self.pilot.fly(self.fleet.now, 2.0)
        return self.place()

    def place(self):
        s = self.fleet.state[0]
        return [float(s[axis]) for axis in "xyz"]

    def close(self):
        self.pilot.close()
        self.program.close()


def test_it_takes_off_goes_there_in_the_wind_comes_home_lands_and_disarms():
    world = World(wind=(4.0, 3.0, 0.0))
    flight = Flight(world, loses=50)
    try:
        assert flight.to(0.5) == pytest.approx(HOME, abs=0.01)  # where it stands is home
        assert flight.fleet.arm([0]).all()
        assert flight.fleet.take_off([0], 6.0).all()
        assert flight.to(8.0) == pytest.approx([50.0, 20.0, 6.0], abs=0.3)
        assert flight.pilot.wind == pytest.approx([3.0, 4.0], abs=0.8)  # east, north; the laws of drag differ
        flight.fleet.go([0], [[62.0, 28.0, 7.0]])
        assert flight.to(20.0) == pytest.approx([62.0, 28.0, 7.0], abs=0.3)
        assert world.place == pytest.approx([3.0 + 8.0, -2.0 + 12.0, -0.19 - 7.0], abs=0.3)  # the other program's axes
        assert 0.6 < flight.pilot.strength < 1.5
        flight.fleet.land([0])
        flight.to(42.0)
        assert flight.fleet.state["armed"][0] == 0
        assert world.place[2] == pytest.approx(-0.19)
        assert world.impact < 0.8  # m/s
        assert flight.fleet.state["energy"][0] > 20.0 * 100.0  # our battery pays
    finally:
        flight.close()


def test_a_program_that_falls_silent_is_told_and_our_physics_takes_over():
    flight = Flight(World())
    try:
        flight.fleet.arm([0])
        flight.fleet.take_off([0], 4.0)
        flight.to(5.0)
        flight.program.close()
        assert not flight.pilot.fly(6.0, 0.2)
        flight.fleet.hold([0])
        flight.fleet.advance(8.0)
        assert flight.place() == pytest.approx([50.0, 20.0, 4.0], abs=0.5)
    finally:
        flight.close()


def test_packets_are_those_of_the_interface():
    world = World()
    taken = []
    world.take = lambda packet: taken.append(struct.unpack("<HHI16H", packet))
    program = Program(world)
    fleet = VehicleFleet([Copter(dynamics="rigid")], [(0, 0, 0)])
    pilot = JsonPilot(fleet, 0, Address("127.0.0.1", program.port), rate=300)
    assert pilot.seek()
    pilot.close()
    program.close()
    assert taken == [(18458, 300, 1, *[1000] * 4, *[0] * 12)]


def line(**changes):
    reported = {
        "timestamp": 2.5, "imu": {"gyro": [0.1, 0.2, 0.3], "accel_body": [1.0, 2.0, -9.0]}, "position": [1, 2, -3],
        "velocity": [4, 5, -6], "quaternion": [1, 0, 0, 0], **changes,
    }  # fmt: skip
    return b"\n" + json.dumps(reported).encode() + b"\n"


def test_a_line_is_read_in_our_axes():
    reported = parse(line())
    assert reported.time == 2.5
    assert (reported.place, reported.velocity) == ((2.0, 1.0, 3.0), (5.0, 4.0, 6.0))
    assert (reported.rates, reported.force) == ((0.1, -0.2, -0.3), (1.0, -2.0, 9.0))
    # level with the nose to the north: turned by a quarter from east
    assert reported.quaternion == pytest.approx((math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)))


@pytest.mark.parametrize("angles", [(0.3, -0.2, 1.9), (-1.0, 0.4, -2.7)])
def test_angles_and_their_quaternion_are_the_same(angles):
    roll, pitch, yaw = angles

    def about(k, angle):
        found = np.zeros(4)
        found[0], found[k] = math.cos(0.5 * angle), math.sin(0.5 * angle)
        return found

    def times(a, b):
        w, v, u, r = a[0], a[1:], b[1:], b[0]
        return np.array([w * r - v @ u, *(w * u + r * v + np.cross(v, u))])

    whole = times(times(about(3, yaw), about(2, pitch)), about(1, roll))
    first = parse(line(quaternion=whole.tolist()))
    reported = json.loads(line())
    del reported["quaternion"]
    second = parse(json.dumps({**reported, "attitude": angles}).encode())
    assert first.quaternion == pytest.approx(second.quaternion)


@pytest.mark.parametrize(
    "wrong",
    [b"", b"\n{}\n", b"\xff\xfe", line(position=[1, 2]), line(velocity=[1, 2, "x"]), line(quaternion=[0, 0, 0, 0]),
     line(timestamp=math.nan), line(imu={"gyro": [0, 0, 0]})],
)  # fmt: skip
def test_what_is_no_state_is_left_alone(wrong):
    assert parse(wrong) is None


@pytest.mark.parametrize("expo", [0.0, 0.4, 0.65, 1.0])
def test_pulses_give_the_part_of_the_thrust_that_is_asked_for(expo):
    for part in (0.0, 0.1, 0.5, 0.9, 1.0):
        h = (pulse(part, expo) - 1100) / 800
        assert (1.0 - expo) * h + expo * h * h == pytest.approx(part, abs=0.002)
    assert (pulse(-1.0, expo), pulse(2.0, expo)) == (1100, 1900)
