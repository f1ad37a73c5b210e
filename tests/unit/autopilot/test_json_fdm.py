"""ArduPilot's JSON interface, driven by a small stand-in for ArduPilot that knows the format only."""

from __future__ import annotations

import math
import re
import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.autopilot.json_fdm import Body, JsonPhysics, parse
from cosim.autopilot.table import Address
from cosim.errors import SetupError
from cosim.vehicles import Copter, Rover
from cosim.vehicles.driven import Driven

RIGID = Copter(dynamics="rigid")


def packet(count, pulses, rate=400, magic=18458):
    size = 16 if magic == 18458 else 32
    return struct.pack(f"<HHI{size}H", magic, rate, count, *pulses, *[0] * (size - len(pulses)))


def scan(line):
    """What ArduPilot's parser finds: it looks for a key, then reads numbers up to the bracket."""
    text = line.decode()
    assert text.startswith("\n")
    assert text.endswith("\n")
    found = {"timestamp": float(re.search(r'"timestamp":([-\d.]+)', text).group(1))}
    for key in ("gyro", "accel_body", "position", "velocity", "quaternion"):
        found[key] = np.array([float(x) for x in re.search(rf'"{key}":\[([^]]*)]', text).group(1).split(",")])
    return found


def turned(q, v):
    """A vector in axes of the body, in those of the world."""
    w, x, y, z = q
    matrix = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    return matrix @ v


class Loop:
    """Stand-in for ArduCopter: a cascaded controller on the state that comes over the wire."""

    def __init__(self, goal):
        self.goal, self.count = np.array(goal), 0
        self.pulses = [1000] * 4

    def outputs(self, state):
        q = state["quaternion"]
        wanted = np.clip(0.5 * (self.goal - state["position"]), -2.0, 2.0)
        push = np.clip(1.5 * (wanted - state["velocity"]), -3.0, 3.0)
        thrust = np.clip((9.81 - push[2]) / 9.81 / 2.2, 0.1, 0.9)  # 2.2: most thrust per weight
        up = turned(q, np.array([0.0, 0.0, -1.0]))
        lean = np.array([push[0], push[1], -9.81]) / math.hypot(push[0], push[1], 9.81)
        error = np.cross(up, lean)  # rotation vector in the world
        body = turned([q[0], -q[1], -q[2], -q[3]], error)
        heading = math.atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] ** 2 + q[3] ** 2))
        rates = np.array([6.0 * body[0], 6.0 * body[1], -1.0 * heading]) - state["gyro"]
        roll, pitch, yaw = 0.02 * rates[0], 0.02 * rates[1], 0.05 * rates[2]
        # front right, rear left turn counter-clockwise; front left, rear right clockwise
        mix = [
            thrust - roll + pitch + yaw,
            thrust + roll - pitch + yaw,
            thrust + roll + pitch - yaw,
            thrust - roll - pitch - yaw,
        ]
        self.pulses = [round(1100 + 800 * min(max(m, 0.0), 1.0)) for m in mix]

    def packet(self, rate=400):
        self.count += 1
        return packet(self.count, self.pulses, rate)


def test_a_controller_flies_it_over_the_wire():
    body, loop = Body(RIGID), Loop((8.0, 5.0, -10.0))
    for _ in range(200 * 25):
        body.take(parse(loop.packet(rate=200)))
        loop.outputs(scan(body.line()))
    state = scan(body.line())
    assert state["timestamp"] == pytest.approx(25.0)
    assert state["position"] == pytest.approx([8.0, 5.0, -10.0], abs=0.3)
    assert np.linalg.norm(state["velocity"]) < 0.2


def test_at_rest_it_feels_gravity_only():
    body = Body(RIGID, heading=1.0)
    body.take(parse(packet(1, [1000] * 4)))
    state = scan(body.line())
    assert state["accel_body"] == pytest.approx([0.0, 0.0, -9.80665], abs=1e-4)
    assert state["gyro"] == pytest.approx([0.0, 0.0, 0.0])
    assert state["position"] == pytest.approx([0.0, 0.0, 0.0])
    heading = 2.0 * math.atan2(state["quaternion"][3], state["quaternion"][0])
    assert heading == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("pulses", "axis", "sign"), [([1450, 1550, 1550, 1450], 0, 1), ([1550, 1450, 1550, 1450], 1, 1)]
)
def test_motors_turn_it_as_ardupilot_numbers_them(pulses, axis, sign):
    """Less on the right rolls right; more in front pitches up."""
    body = Body(RIGID)
    for count in range(1, 200):
        body.take(parse(packet(count, [1700] * 4)))  # up
    for count in range(200, 230):
        body.take(parse(packet(count, pulses)))
    assert sign * scan(body.line())["gyro"][axis] > 0.1


def test_counts_tell_repeats_and_restarts():
    body = Body(RIGID)
    for count in (1, 2, 2, 2, 3):
        body.take(parse(packet(count, [1600] * 4)))
    assert body.steps == 3
    assert body.now == pytest.approx(3 / 400)
    for count in range(4, 400):
        body.take(parse(packet(count, [1900] * 4)))
    assert body.driven.state["z"] > 0.5
    body.take(parse(packet(1, [0] * 4)))
    assert body.now == pytest.approx(1 / 400)
    assert body.driven.state["z"] == 0.0


def test_both_packets_and_nothing_else():
    assert len(packet(1, [])) == 40
    assert len(packet(1, [], magic=29569)) == 72
    assert parse(packet(7, [1500], rate=1200)).rate == 1200
    assert len(parse(packet(7, [1500], magic=29569)).pulses) == 32
    assert parse(packet(1, [])[:-1]) is None
    assert parse(b"\x48\x1a" * 20) is None


@given(st.binary(max_size=80))
def test_no_packet_breaks_the_parser(data):
    parse(data)


def test_time_stops_where_it_was_granted():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ardupilot:
        ardupilot.bind(("127.0.0.1", 0))
        ardupilot.settimeout(0.05)
        physics = JsonPhysics(RIGID, Address("127.0.0.1", 0))
        to = physics._socket.getsockname()
        loop = Loop((0.0, 0.0, -3.0))
        times = []

        def exchange(data):
            ardupilot.sendto(data, to)
            physics.serve(0.2)
            try:
                times.append(scan(ardupilot.recv(2048))["timestamp"])
            except TimeoutError:
                return False
            return True

        physics.grant(0.05)
        while exchange(loop.packet()):
            pass
        assert times[-1] == pytest.approx(0.05)
        assert physics.waits()
        again = packet(loop.count, loop.pulses)
        assert not exchange(again)  # ArduPilot repeats a frame while it waits: nothing passes
        physics.grant(0.1)
        times.append(scan(ardupilot.recv(2048))["timestamp"])
        assert times[-1] == pytest.approx(0.0525)
        assert not physics.waits()
        while exchange(loop.packet()):
            pass
        assert times[-1] == pytest.approx(0.1)
        physics.close()


def test_two_ardupilots_have_a_vehicle_each():
    physics = JsonPhysics(RIGID, Address("127.0.0.1", 0))
    to = physics._socket.getsockname()
    physics.grant(10.0)
    stop = threading.Event()

    def answer():
        while not stop.is_set():
            physics.serve(0.05)

    thread = threading.Thread(target=answer)
    thread.start()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two,
    ):
        for sock, pulse, frames in ((one, 1900, 200), (two, 1000, 50)):
            sock.settimeout(5.0)
            for count in range(1, frames + 1):
                sock.sendto(packet(count, [pulse] * 4), to)
                state = scan(sock.recv(2048))
            assert state["timestamp"] == pytest.approx(frames / 400)
    stop.set()
    thread.join()
    heights = sorted(body.driven.state["z"] for body in physics.bodies.values())
    assert heights[0] == 0.0 < heights[1]
    physics.close()


def test_a_rover_steers_and_drives():
    body = Body(Rover(steering="skid", yaw_rate=0.5))
    for count in range(1, 400):
        body.take(parse(packet(count, [1500, 0, 1900], rate=100)))
    assert scan(body.line())["velocity"][0] == pytest.approx(2.0, abs=0.1)
    for count in range(400, 500):
        body.take(parse(packet(count, [1900, 0, 1900], rate=100)))
    state = scan(body.line())
    assert state["gyro"][2] == pytest.approx(0.5, abs=0.01)  # to the right
    assert 2.0 * math.atan2(state["quaternion"][3], state["quaternion"][0]) == pytest.approx(0.5, abs=0.02)


def test_the_wind_pushes_and_the_battery_empties():
    body, loop = Body(RIGID), Loop((0.0, 0.0, -5.0))
    for _ in range(200 * 10):
        body.take(parse(loop.packet(rate=200)))
        loop.outputs(scan(body.line()))
    name, voltage = body.battery_parameter()
    assert name == "SIM_BATT_VOLTAGE"
    assert 13.0 < voltage < 16.8
    hover = body.driven.state["power"]
    assert 100.0 < hover < 400.0
    body.driven.wind[:] = (4.0, 0.0, 0.0)
    for _ in range(200):
        body.take(parse(loop.packet()))
    assert body.driven.state["x"] > 0.05
    body.driven.state["charge"] = 0.0
    for _ in range(800):
        body.take(parse(loop.packet()))
    assert body.driven.state["landed"] == 1
    assert body.driven.state["impact"] > 1.0


def test_wrong_vehicles_and_taken_ports_are_named():
    with pytest.raises(ValueError, match="rigid"):
        Driven(Copter())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SetupError, match="ports go up by 10"):
            JsonPhysics(RIGID, Address(*taken.getsockname()))
