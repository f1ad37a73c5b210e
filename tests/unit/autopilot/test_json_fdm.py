"""ArduPilot's JSON interface, driven by a small stand-in for ArduPilot that knows the format only."""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.json_fdm import JsonBody, JsonPhysics, parse
from cosim.autopilot.side import SideChannel, readings, settings
from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError
from cosim.physics.vehicles import Copter, Rover
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.terrain import Terrain
from tests.unit.autopilot.stand_in import Lander, Loop, packet, scan

RIGID = Copter(dynamics="rigid")


def test_a_controller_flies_it_over_the_wire():
    body, loop = JsonBody(RIGID), Loop((8.0, 5.0, -10.0))
    for _ in range(200 * 25):
        body.take(parse(loop.packet(rate=200)))
        loop.outputs(scan(body.line()))
    state = scan(body.line())
    assert state["timestamp"] == pytest.approx(25.0)
    assert state["position"] == pytest.approx([8.0, 5.0, -10.0], abs=0.3)
    assert np.linalg.norm(state["velocity"]) < 0.2


def test_at_rest_it_feels_gravity_only():
    body = JsonBody(RIGID, heading=1.0)
    body.take(parse(packet(1, [1000] * 4)))
    state = scan(body.line())
    assert state["accel_body"] == pytest.approx([0.0, 0.0, -9.80665], abs=5e-3)
    assert state["gyro"] == pytest.approx([0.0, 0.0, 0.0])
    assert state["position"] == pytest.approx([0.0, 0.0, 0.0])
    heading = 2.0 * math.atan2(state["quaternion"][3], state["quaternion"][0])
    assert heading == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("pulses", "axis", "sign"), [([1450, 1550, 1550, 1450], 0, 1), ([1550, 1450, 1550, 1450], 1, 1)]
)
def test_motors_turn_it_as_ardupilot_numbers_them(pulses, axis, sign):
    """Less on the right rolls right; more in front pitches up."""
    body = JsonBody(RIGID)
    for count in range(1, 200):
        body.take(parse(packet(count, [1700] * 4)))  # up
    for count in range(200, 230):
        body.take(parse(packet(count, pulses)))
    assert sign * scan(body.line())["gyro"][axis] > 0.1


def test_counts_tell_repeats_and_restarts():
    body = JsonBody(RIGID)
    for count in (1, 2, 2, 2, 3):
        body.take(parse(packet(count, [1600] * 4)))
    assert body.steps == 3
    assert body.now == pytest.approx(3 / 400)
    for count in range(4, 400):
        body.take(parse(packet(count, [1900] * 4)))
    assert body.driven.state["z"] > 0.5
    body.take(parse(packet(1, [0] * 4)))
    assert body.now == pytest.approx(1 / 400)
    assert body.driven.state["z"] == pytest.approx(0.0, abs=1e-3)


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
    assert heights[0] == pytest.approx(0.0, abs=1e-3)
    assert heights[1] > 0.1
    physics.close()


def test_a_rover_steers_and_drives():
    body = JsonBody(Rover(steering="skid", yaw_rate=0.5))
    for count in range(1, 400):
        body.take(parse(packet(count, [1500, 0, 1900], rate=100)))
    assert scan(body.line())["velocity"][0] == pytest.approx(2.0, abs=0.1)
    for count in range(400, 500):
        body.take(parse(packet(count, [1900, 0, 1900], rate=100)))
    state = scan(body.line())
    assert state["gyro"][2] == pytest.approx(0.5, abs=0.01)  # to the right
    assert 2.0 * math.atan2(state["quaternion"][3], state["quaternion"][0]) == pytest.approx(0.5, abs=0.02)


def test_the_wind_pushes_and_the_battery_empties():
    body, loop = JsonBody(RIGID), Loop((0.0, 0.0, -5.0))
    for _ in range(200 * 10):
        body.take(parse(loop.packet(rate=200)))
        loop.outputs(scan(body.line()))
    shown = readings(body.driven)
    assert 13.0 < shown["SIM_BATT_VOLTAGE"] < 16.8
    # what ArduPilot's analog monitor makes of a pin at 0 V
    assert (0.0 - shown["BATT_AMP_OFFSET"]) * 17.0 == pytest.approx(body.driven.state["current"])
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


@pytest.mark.parametrize(("wind", "slope"), [(0.0, 0.0), (10.0, 0.0), (12.0, 0.0), (6.0, 0.04)])
def test_it_lands_and_disarms_in_the_wind(wind, slope):
    """Less than 3 g at 0.5 m/s, never below the ground, and it stands still so that an autopilot sees it land."""
    land = Terrain(np.array([-50.0, -50.0, 100.0]), slope * np.array([[0.0, 100.0], [0.0, 100.0]])) if slope else None
    start = None if land is None else land.seen_from((0.0, 0.0, float(land.height(0.0, 0.0))))
    # to stay in 12 m/s takes 15.06 degrees, a hair more than those at which ArduCopter sees that it has landed
    loop = Lander((0.0, 4.0 if slope else 0.0, -2.5), 15.0 if wind < 12.0 else 16.0)
    body = JsonBody(RIGID, terrain=start)
    body.driven.wind[:] = (wind, 0.0, 0.0)
    touched, felt, deepest = None, 0.0, 0.0
    for k in range(400 * 22):
        loop.lands = k >= 400 * 9
        body.take(parse(loop.packet()))
        state = scan(body.line())
        loop.outputs(state)
        row = body.driven.state
        if loop.lands and touched is None and row["landed"]:
            touched, at = k, (row["x"], row["y"])
        if touched is not None:
            felt = max(felt, float(np.linalg.norm(state["accel_body"])) / 9.80665)
            deepest = min(deepest, float(row["z"] - body.driven.frame["ground"]))
            if loop.disarmed:
                break
    assert loop.disarmed
    assert (k - touched) / 400 < 3.0
    assert felt < 3.0
    assert deepest > -0.05
    assert math.dist(at, (row["x"], row["y"])) < 0.15
    assert row["z"] == pytest.approx(slope * row["x"], abs=0.02)


@pytest.mark.parametrize(("rate", "dt"), [(0, 0.02), (20, 0.02), (300, 1 / 300), (65535, 1 / 65535)])
def test_odd_rates_and_gaps_of_frames_keep_the_clock(rate, dt):
    body = JsonBody(RIGID)
    for count in (1, 2, 5, 6, 60):  # packets are lost: ArduPilot's clock goes by our answers
        body.take(parse(packet(count, [1500] * 4, rate=rate)))
    assert body.now == pytest.approx(5 * dt)
    assert all(np.isfinite(value).all() for value in scan(body.line()).values())


def test_wrong_vehicles_and_taken_ports_are_named():
    with pytest.raises(ValueError, match="rigid"):
        Driven(Copter())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SetupError, match="ports go up by 10"):
            JsonPhysics(RIGID, Address(*taken.getsockname()))


def test_a_version_that_reads_our_lines_counts_no_current_twice():
    """What such a version shows: the current of the line, and what the offset adds."""
    body, loop = JsonBody(RIGID), Loop((0.0, 0.0, -3.0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = SideChannel(Address(*server.getsockname()))
        channel.announce(body.driven, 0.0, 0.0)
        peer, _ = server.accept()
        peer.settimeout(5.0)
        ours, decoder = mavlink.MAVLink(None, 1, 1), mavlink.MAVLink(None)
        offset, shown, heard = 0.0, [], []
        for half in range(1, 13):
            for _ in range(200):
                body.take(parse(loop.packet()))
                loop.outputs(scan(body.line()))
            current = float(body.driven.state["current"])
            channel.announce(body.driven, 0.5 * half, 0.5 * half)
            heard += decoder.parse_buffer(peer.recv(65536)) or []
            offset = [m.param_value for m in heard if getattr(m, "param_id", "") == "BATT_AMP_OFFSET"][-1]
            shown.append((current - 17.0 * offset) / current)
            amps = round(100.0 * (current - 17.0 * offset))
            peer.sendall(mavlink.MAVLink_heartbeat_message(2, 3, 81, 6, 4, 3).pack(ours))
            peer.sendall(mavlink.MAVLink_sys_status_message(0, 0, 0, 0, 16000, amps, 90, *[0] * 6).pack(ours))
            time.sleep(0.01)
        assert shown[0] == pytest.approx(2.0, abs=0.01)
        assert shown[-1] == pytest.approx(1.0)
        assert channel.hears
        assert channel.mode == 6
        resets = [m for m in heard if m.get_type() == "COMMAND_LONG" and m.command == 42651]
        assert len(resets) == 2
        channel.close()
        assert channel.mode is None
        peer.close()


@pytest.mark.parametrize("version", ["4.6", "4.8"])
def test_limits_are_read_back_by_the_names_of_each_version(version):
    """A peer that answers to what it knows only, and keeps its own tilt, as one out of range."""
    body = JsonBody(RIGID)
    body.take(parse(packet(1, [1500] * 4)))
    limits = settings(body.driven)
    new = {
        "WPNAV_SPEED": "WP_SPD",
        "WPNAV_SPEED_UP": "WP_SPD_UP",
        "WPNAV_SPEED_DN": "WP_SPD_DN",
        "WPNAV_ACCEL": "WP_ACC",
    }
    new |= {
        "WPNAV_ACCEL_Z": "WP_ACC_Z",
        "LAND_SPEED": "LAND_SPD_MS",
        "RTL_ALT": "RTL_ALT_M",
        "ANGLE_MAX": "ATC_ANGLE_MAX",
    }
    tilt = "ANGLE_MAX" if version == "4.6" else "ATC_ANGLE_MAX"
    known = {new.get(name, name) if version == "4.8" else name for name in limits}
    values, encoder = {}, mavlink.MAVLink(None, srcSystem=7, srcComponent=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel, decoder = SideChannel(Address(*server.getsockname())), mavlink.MAVLink(None)
        channel.announce(body.driven, 0.0, 10.0)
        peer, _ = server.accept()
        peer.settimeout(0.05)
        for k in range(1, 80):
            channel.announce(body.driven, 0.1 * k, 10.0 + k)
            if k % 10 > 1:
                continue
            with suppress(TimeoutError):
                for m in decoder.parse_buffer(peer.recv(65536)) or []:
                    if m.get_type() == "PARAM_SET" and m.param_id in known:
                        values[m.param_id] = 1.0 if m.param_id == tilt else m.param_value
                        kind = 4 if m.param_id.startswith("LAND_SPEED") else 9
                        said = mavlink.MAVLink_param_value_message(m.param_id.encode(), values[m.param_id], kind, 1, 0)
                        peer.sendall(said.pack(encoder))
        peer.close()
        channel.close()
    assert channel.refused == ["ANGLE_MAX (ATC_ANGLE_MAX)"]
    assert set(values) == known
    if version == "4.8":
        assert values["WP_SPD"] == pytest.approx(10.0)
        assert values["LAND_SPD_MS"] == pytest.approx(limits["LAND_SPEED"] / 100.0)


def test_the_side_channel_shows_the_pack_and_the_limits():
    """A small peer in the place of ArduPilot's second serial port."""
    body = JsonBody(RIGID, charge=0.5)
    body.take(parse(packet(1, [1500] * 4)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = SideChannel(Address(*server.getsockname()))
        for k in range(4):
            channel.announce(body.driven, 0.5 * k, 10.0 + k)
        assert channel.connected
        peer, _ = server.accept()
        peer.settimeout(5.0)
        decoder, heard = mavlink.MAVLink(None), []
        wanted = len(settings(body.driven)) + 2 + 4 * 2
        while len(heard) < wanted:
            heard += decoder.parse_buffer(peer.recv(65536)) or []
        peer.close()
        reported = {m.param_id: m.param_value for m in heard if m.get_type() == "PARAM_SET"}
        assert reported["SIM_BATT_VOLTAGE"] == pytest.approx(body.driven.state["voltage"])
        assert reported["BATT_CAPACITY"] == pytest.approx(5200.0)
        assert reported["BATT_LOW_MAH"] == pytest.approx(1040.0)
        assert reported["WPNAV_SPEED"] == 1000.0
        reset = next(m for m in heard if m.get_type() == "COMMAND_LONG" and m.command == 42651)
        assert (reset.command, reset.param1) == (42651, 1.0)
        assert reset.param2 == pytest.approx(50.0, abs=0.1)
        channel.announce(body.driven, 3.0, 20.0)
        channel.announce(body.driven, 4.0, 20.1)
    for k in range(3):  # nobody is there any more, and nothing happens
        channel.announce(body.driven, 5.0 + k, 30.0 + k)
    assert not channel.connected
    channel.close()
