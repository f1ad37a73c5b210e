"""Orders that have no acknowledgement, and orders of missions: each is done, or refused aloud."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from cosim.autopilot.dialect import mavlink
from cosim.physics.vehicles.impact import Contacts
from cosim.physics.vehicles.obstacles import Obstacles
from tests.unit.autopilot.wire import ORIGIN, Station, flying, rover, station

GUIDED, AUTO, CIRCLE, LOITER, ALT_HOLD = 4, 3, 7, 5, 2
NOTHING = 0xFFF & ~0x200  # a mask that ignores everything


def offboard(s):
    """Bring PX4 into OFFBOARD with setpoints that keep it where it is."""
    s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xFC7, *[0.0] * 11)
    assert s.command(176, 1, 6) == 0


def stream(s, seconds, name, *values):
    """Send a setpoint at 10 Hz."""
    for _ in range(round(10 * seconds)):
        s.send(name, *values)
        s.run(0.1)


def local(mask, **values):
    """The fields of a SET_POSITION_TARGET_LOCAL_NED behind the frame."""
    names = ("x", "y", "z", "vx", "vy", "vz", "afx", "afy", "afz", "yaw", "yaw_rate")
    return (mask, *(values.get(name, 0.0) for name in names))


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_accelerations_attitudes_rates_and_turns_move_it(persona):
    s = flying(persona)
    if persona == "px4":
        offboard(s)
        s.run(1.1)  # the first one came before
        offboard(s)
        s.heard.clear()
    row = s.fleet.state
    stream(s, 2.0, "set_position_target_local_ned", 0, 1, 1, 1, *local(0xFFF & ~0x1C0 & ~0x200, afx=1.0))
    assert row["vy"][0] == pytest.approx(2.0, abs=0.5)
    stream(s, 4.0, "set_position_target_local_ned", 0, 1, 1, 1, *local(0xFFF & ~0x38 & ~0x200))
    lean = math.radians(10.0)
    q = [math.cos(lean / 2), math.sin(lean / 2), 0.0, 0.0]
    x = row["x"][0]
    stream(s, 2.0, "set_attitude_target", 0, 1, 1, 0x7, q, 0.0, 0.0, 0.0, 0.5)
    assert row["roll"][0] == pytest.approx(lean, abs=0.02)
    assert row["x"][0] > x + 1.0
    stream(s, 4.0, "set_position_target_local_ned", 0, 1, 1, 1, *local(0xFFF & ~0x38 & ~0x200))
    stream(s, 1.0, "set_attitude_target", 0, 1, 1, 0x80, [1.0, 0.0, 0.0, 0.0], 0.0, -0.2, 0.0, 0.5)
    assert row["pitch"][0] < -0.1
    stream(s, 4.0, "set_position_target_local_ned", 0, 1, 1, 1, *local(0xFFF & ~0x38 & ~0x200))
    before = row["heading"][0]
    stream(s, 2.0, "set_position_target_local_ned", 0, 1, 1, 1, *local(0xFFF & ~0x38 & ~0x800 & ~0x200, yaw_rate=0.5))
    turned = math.remainder(row["heading"][0] - before, 2 * math.pi)
    assert turned == pytest.approx(1.0, abs=0.15)
    assert not [text for text in s.texts() if text.startswith("Refused")]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("set_position_target_local_ned", (0, 1, 1, 1, *local(NOTHING))),
        ("set_position_target_local_ned", (0, 1, 1, 20, *local(0xFF8))),
        ("set_position_target_local_ned", (0, 1, 1, 1, *local(0xFFF & ~0x1C0, afx=1.0))),
        ("set_position_target_local_ned", (0, 1, 1, 1, *local(0xFF9))),
        ("set_position_target_global_int", (0, 1, 1, 6, 0xFF8, 10**9, 0, 10.0, *[0.0] * 8)),
        ("set_position_target_global_int", (0, 1, 1, 6, 0xFF8, 382400000, 217300000, math.nan, *[0.0] * 8)),
        ("set_attitude_target", (0, 1, 1, 0x7, [0.0] * 4, 0.0, 0.0, 0.0, 0.5)),
        ("set_attitude_target", (0, 1, 1, 0x47, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0, 0.5)),
        ("set_actuator_control_target", (0, 0, 1, 1, [0.0] * 8)),
    ],
)
def test_what_cannot_be_done_is_refused_aloud(name, values):
    s = flying()
    s.send(name, *values)
    s.run(0.2)
    assert [text for text in s.texts() if text.startswith("Refused")]


def test_setpoints_of_a_vehicle_that_stands_or_is_not_guided_are_refused_aloud():
    s = station()
    s.command(176, 1, GUIDED)
    s.send("set_position_target_local_ned", 0, 1, 1, 1, *local(0xFC7, vx=2.0))
    s.run(0.2)
    assert "Refused: not flying" in s.texts()
    s = flying()
    s.command(176, 1, LOITER)
    s.send("set_attitude_target", 0, 1, 1, 0x7, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0, 0.5)
    s.run(0.2)
    assert "Refused: not in guided mode" in s.texts()


@pytest.mark.parametrize(("mode", "low", "high"), [(LOITER, 5.0, 20.0), (ALT_HOLD, 5.0, 40.0)])
def test_sticks_move_it_and_let_go(mode, low, high):
    s = flying()
    s.command(176, 1, mode)
    for _ in range(50):
        s.send("rc_channels_override", 1, 1, 1500, 1300, 1500, 1500, 0, 0, 0, 0)
        s.run(0.1)
    assert low < s.fleet.state["y"][0] < high  # a real ArduCopter 4.6 in LOITER: 9.7 m
    s.run(10.0)
    assert math.hypot(s.fleet.state["vx"][0], s.fleet.state["vy"][0]) < 0.1
    at = s.fleet.state["x"][0]
    for _ in range(30):
        s.send("manual_control", 1, 0, 500, 500, 0, 0)
        s.run(0.1)
    assert s.fleet.state["x"][0] > at + 1.0
    s.run(4.0)
    s.command(176, 1, GUIDED)
    s.send("rc_channels_override", 1, 1, 1500, 1300, 1500, 1500, 0, 0, 0, 0)
    s.run(0.3)
    assert "Sticks have no effect in GUIDED" in s.texts()


def test_a_low_throttle_is_a_lost_radio():
    s = flying()
    s.send("rc_channels_override", 1, 1, 1500, 1500, 900, 1500, 0, 0, 0, 0)
    s.run(0.3)
    assert s.autopilot.pilot.mode == "RTL"
    assert "Radio Failsafe" in s.texts()


def test_a_silent_ground_station_is_a_failsafe():
    s = flying()
    assert s.set_parameter("FS_GCS_ENABLE", 1) == 1
    s.send("heartbeat", 6, 8, 0, 0, 0, 3)
    s.run(4.5)
    assert s.autopilot.pilot.mode == "GUIDED"
    s.run(1.0)
    assert s.autopilot.pilot.mode == "RTL"
    assert "GCS Failsafe" in s.texts()
    s.send("heartbeat", 6, 8, 0, 0, 0, 3)
    s.run(0.2)
    assert "GCS Failsafe Cleared" in s.texts()


def test_it_flies_a_circle_and_turns_of_a_mission():
    s = flying()
    assert s.command(176, 1, CIRCLE) == 0
    s.run(25.0)
    row = s.fleet.state
    seen = []
    for _ in range(200):
        s.run(0.1)
        seen.append(math.hypot(row["x"][0], row["y"][0] - 10.0))
    assert min(seen) > 9.0
    assert max(seen) < 11.0
    s.command(176, 1, GUIDED)
    s.upload([(0, 16, 0, 0, 0, 0, *s.place(0, 0)), (3, 18, 2.0, 0, 15.0, 0, *s.place(40, 0, 12))])
    assert s.command(176, 1, AUTO) == 0
    s.run(20.0)
    seen = []
    for _ in range(200):
        s.run(0.1)
        seen.append(math.hypot(row["x"][0] - 40.0, row["y"][0]))
    assert min(seen) > 14.0  # a real ArduCopter 4.6: 14.5 to 15.0 m
    assert max(seen) < 16.0
    s.run(60.0)
    assert s.autopilot.pilot.mission.state == 5


def test_px4_orbits_a_place_with_its_nose_to_it():
    s = flying("px4")
    x, y, _ = s.place(30, 0)
    s.send("command_int", 1, 1, 5, 34, 0, 0, -15.0, 4.0, 0.0, math.nan, x, y, 75.0)
    assert [m.result for m in s.collect() if m.get_type() == "COMMAND_ACK"] == [0]
    s.until(lambda v: math.hypot(v.x - 30.0, v.y) < 15.5)
    s.run(10.0)
    v = s.autopilot.pilot.look()
    assert math.hypot(v.x - 30.0, v.y) == pytest.approx(15.0, abs=0.5)
    assert (v.z, math.hypot(v.vx, v.vy)) == pytest.approx((15.0, 4.0), abs=0.3)
    assert (v.x - 30.0) * v.vy - v.y * v.vx > 0.0  # a radius below 0: anticlockwise
    assert abs(math.remainder(math.atan2(30.0 - v.x, -v.y) - v.heading, 2.0 * math.pi)) < 0.3
    assert s.last("HEARTBEAT").custom_mode == 3 << 16 | 1 << 24
    assert s.command(34, 15, 4, 2) == 2  # a heading without a rule
    assert s.command(17) == 0
    assert s.autopilot.pilot.mode == "HOLD"


def test_pictures_come_in_series():
    s = station()
    assert s.command(2000, 0, 0.5, 3) == 0
    s.run(3.0)
    assert [m.get_type() for m in s.heard].count("CAMERA_FEEDBACK") == 3
    assert s.command(2000, 0, 0.5, 0) == 0
    s.run(1.0)
    assert s.command(2001) == 0
    assert "CAMERA_FEEDBACK" not in [m.get_type() for m in s.run(1.0)]
    assert s.command(2000, 0, 0.0, 3) == 4


def test_a_yaw_turns_at_its_rate_and_ends_what_was_looked_at():
    s = flying()
    x, y, _ = s.place(0, 100)
    assert s.command(195, 0, 0, 0, 0, x / 1e7, y / 1e7) == 0
    s.run(2.0)
    assert s.command(115, 90, 10, 1, 0) == 0
    s.run(4.0)
    assert math.degrees(s.autopilot.pilot.look().heading) == pytest.approx(40.0, abs=12.0)
    s.run(8.0)
    assert math.degrees(s.autopilot.pilot.look().heading) == pytest.approx(90.0, abs=1.0)
    assert s.command(115, 270, 45, 1, 1) == 0  # clockwise, by the longer way
    s.run(3.0)
    assert 180.0 < math.degrees(s.autopilot.pilot.look().heading) % 360.0 < 240.0


def test_headings_of_missions_hold_for_a_leg():
    s = flying()
    home, first, second = (0, 16, 0, 0, 0, 0, *s.place(0, 0)), s.place(60, 0, 10), s.place(60, 60, 10)
    turn = (3, 115, 90.0, 0, -1.0, 1.0, 0, 0, 0.0)  # to the left of where it looks
    assert s.upload([home, turn, (3, 16, 0, 0, 0, 0, *first), (3, 16, 0, 0, 0, 0, *second)]) == 0
    s.command(176, 1, AUTO)
    s.until(lambda v: v.x > 30.0)
    assert math.degrees(s.autopilot.pilot.look().heading) % 360.0 == pytest.approx(270.0, abs=2.0)
    s.until(lambda v: v.y > 30.0)
    assert abs(math.degrees(s.autopilot.pilot.look().heading)) < 10.0
    s = flying("px4")
    assert (
        s.upload([(3, 16, 0, 0, 0, 90.0, *s.place(0, 60, 10)), (3, 16, 0, 0, 0, math.nan, *s.place(0, 120, 10))]) == 0
    )
    assert s.command(300) == 0
    s.until(lambda v: v.y > 30.0)
    assert math.degrees(s.autopilot.pilot.look().heading) == pytest.approx(90.0, abs=2.0)
    s.send("mission_clear_all", 1, 1, 0)
    s.run(0.3)
    assert s.autopilot.pilot.mode == "HOLD"
    assert "No valid mission available, loitering" in s.texts()


def test_a_delay_holds_the_next_command_and_not_the_leg():
    s = flying()
    legs = [(3, 16, 0, 0, 0, 0, *s.place(0, up, 10)) for up in (0, 150)]
    items = [(0, 16, 0, 0, 0, 0, *s.place(0, 0)), legs[0], (3, 112, 6.0, 0, 0, 0, 0, 0, 0.0)]
    items += [(3, 181, 2, 1, 0, 0, 0, 0, 0.0), (3, 206, 20.0, 0, 0, 0, 0, 0, 0.0), legs[1]]
    assert s.upload(items) == 0
    assert s.command(176, 1, AUTO) == 0
    s.until(lambda v: v.y > 10.0)
    assert not s.autopilot.equipment.relays[2]
    s.run(5.0)
    assert s.autopilot.equipment.relays[2]
    assert s.fleet.state["vy"][0] > 5.0
    s.run(10.0)
    pictures = [m for m in s.heard if m.get_type() == "CAMERA_FEEDBACK"]
    assert len(pictures) >= 4
    far = [m.lat * 1e-7 * 111_000 for m in pictures]
    assert all(b - a > 18.0 for a, b in pairwise(far))


def test_unknown_items_are_refused_and_one_uploads_at_a_time():
    s = station()
    items = [(0, 16, 0, 0, 0, 0, *s.place(0, 0)), (3, 22, 0, 0, 0, 0, 0, 0, 5.0), (3, 9999, 0, 0, 0, 0, 0, 0, 0.0)]
    assert s.upload(items) == mavlink.MAV_MISSION_UNSUPPORTED
    other = Station(s.autopilot, "other", system=254)
    s.send("mission_count", 1, 1, 3, 0)
    s.collect()
    other.send("mission_count", 1, 1, 2, 0)
    assert other.collect()[-1].type == mavlink.MAV_MISSION_DENIED
    for seq, item in enumerate(items[:2]):
        frame, command, *params, x, y, z = item
        s.send("mission_item_int", 1, 1, seq, frame, command, 0, 1, *params, x, y, z, 0)
    frame, command, *params, x, y, z = items[1]
    s.send("mission_item_int", 1, 1, 2, frame, command, 0, 1, *params, x, y, z, 0)
    assert [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"] == [0]


def test_speeds_by_type():
    s = flying()
    assert s.command(178, 2, 1.0) == 0
    assert s.fleet.frames["climb"][0] == 1.0
    assert s.command(178, 3, 0.7) == 0
    assert s.fleet.frames["descent"][0] == pytest.approx(0.7)
    assert s.fleet.state["speed"][0] == 0.0
    assert s.command(178, 1, 4.0) == 0
    assert s.fleet.state["speed"][0] == 4.0
    assert s.command(178, 1, -3.0) == 4
    assert s.command(178, 9, 3.0) == 4


@pytest.mark.parametrize("frame", [0, 3, 5, 6])
def test_heights_are_of_their_frame_in_every_command(frame):
    """40 m above home, and 40 m + home's above the sea, are the same place."""
    s = flying()
    x, y, _ = s.place(30, 0)
    z = 40.0 + (ORIGIN[2] if frame in (0, 5) else 0.0)
    s.send("command_int", 1, 1, frame, 192, 0, 0, -1.0, 1.0, 0.0, math.nan, x, y, z)
    s.collect()
    assert s.fleet.state["target_z"][0] == pytest.approx(40.0, abs=0.1)
    s.send("command_int", 1, 1, frame, 179, 0, 0, 0.0, 0.0, 0.0, 0.0, x, y, z)
    s.collect()
    assert s.autopilot.pilot.home[2] == pytest.approx(40.0, abs=0.1)


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_a_wall_ends_its_flight_and_it_disarms_where_it_lies(persona):
    s = flying(persona, height=20.0)
    wall = np.array([[40.0, -20.0], [41.0, -20.0], [41.0, 20.0], [40.0, 20.0]])
    s.fleet.contacts = Contacts(Obstacles.of([("wall", [wall], 30.0)]))
    s.fleet.go([0], [[100.0, 0.0, 20.0]])
    s.until(lambda v: v.crashed)
    falls = s.until(lambda v: not v.armed)
    assert 1.5 < falls < 4.0
    s.run(1.1)
    beat = s.last("HEARTBEAT")
    assert beat.system_status == mavlink.MAV_STATE_STANDBY
    assert not beat.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED
    assert "Crash: Disarming" in s.texts()
    assert s.command(400, 1.0) != 0
    assert "Vehicle has crashed" in " ".join(s.texts())
    v = s.autopilot.pilot.look()
    assert (v.z, v.power) == (0.0, s.fleet.frames["idle"][0])


def test_termination_and_forced_disarming_drop_it():
    s = flying(height=20.0)
    assert s.command(185, 1.0) == 0
    s.run(4.0)
    assert s.fleet.state["crashed"][0] == 1
    s = flying(height=20.0)
    assert s.command(400, 0.0) == 4
    assert "not landed" in s.texts()
    assert s.command(400, 0.0, 21196) == 0
    s.run(1.5)
    assert s.fleet.state["vz"][0] < -8.0  # a real ArduCopter 4.6 falls as well


def test_a_target_outside_the_fence_is_refused():
    s = flying()
    s.set_parameter("FENCE_ENABLE", 1)
    s.set_parameter("FENCE_RADIUS", 30.0)
    x, y, _ = s.place(60, 0)
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 10.0, *[0.0] * 8)
    s.run(5.0)
    assert abs(s.fleet.state["x"][0]) < 0.5
    assert "Refused: target is outside the fence" in s.texts()


def test_the_nose_follows_the_region_of_interest():
    s = flying()
    p = s.autopilot.pilot.ground.place(50.0, 0.0, 0.0)
    assert s.command(195, 0, 0, 0, 0, p.latitude, p.longitude, 0.0) == 0
    s.run(4.0)
    assert s.fleet.state["heading"][0] == pytest.approx(math.pi / 2, abs=0.05)
    assert s.command(197) == 0


def test_a_spline_is_a_curve():
    s = flying()
    path = [(0, 60), (60, 60)]
    items = [(0, 16, 0, 0, 0, 0, *s.place(0, 0)), *((3, 82, 0, 0, 0, 0, *s.place(x, y, 10)) for x, y in path)]
    assert s.upload(items) == 0
    assert s.command(176, 1, AUTO) == 0
    beyond = 0.0
    for _ in range(700):
        s.run(0.1)
        beyond = max(beyond, float(s.fleet.state["y"][0]))
    assert beyond > 60.3  # it swings round the waypoint, which straight legs cut
    assert math.hypot(s.fleet.state["x"][0] - 60, s.fleet.state["y"][0] - 60) < 2.0


def test_rovers_take_sticks_and_refuse_what_flies():
    s = rover()
    s.command(400, 1)
    s.send("set_attitude_target", 0, 1, 1, 0x7, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0, 0.5)
    for _ in range(30):
        s.send("rc_channels_override", 1, 1, 1500, 1500, 1800, 1500, 0, 0, 0, 0)
        s.run(0.1)
    assert s.fleet.state["y"][0] > 1.0
    assert [text for text in s.texts() if text.startswith("Refused")]


def test_the_wind_is_set_in_flight():
    s = flying()
    s.set_parameter("SIM_WIND_DIR", 270.0)  # from the west
    s.set_parameter("SIM_WIND_SPD", 6.0)
    assert s.fleet.wind[0] == pytest.approx([6.0, 0.0, 0.0], abs=1e-6)
    s.run(10.0)
    assert abs(s.fleet.state["roll"][0]) > 0.05  # it leans against it


def test_a_target_inside_an_obstacle_is_refused():
    s = flying()
    s.fleet.obstacles = Obstacles.of([("silo", [np.array([(25.0, -5), (35, -5), (35, 5), (25, 5)])], 20.0)])
    x, y, _ = s.place(30, 0)
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 10.0, *[0.0] * 8)
    s.run(5.0)
    assert abs(s.fleet.state["x"][0]) < 0.5
    assert "Refused: target is inside an obstacle" in s.texts()
    s.send("command_int", 1, 1, 5, 192, 0, 0, -1.0, 1.0, 0.0, math.nan, x, y, ORIGIN[2] + 10.0)
    assert [m.result for m in s.collect() if m.get_type() == "COMMAND_ACK"][-1] == mavlink.MAV_RESULT_DENIED
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 25.0, *[0.0] * 8)  # above it
    s.run(15.0)
    assert s.fleet.state["x"][0] == pytest.approx(30.0, abs=0.5)
