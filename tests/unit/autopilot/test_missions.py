"""Missions, fences and rally points: their protocol, and how they are flown."""

from __future__ import annotations

import math
import struct
from collections import Counter

import numpy as np
import pytest

from cosim.autopilot.dialect import mavlink
from cosim.physics.vehicles import Copter
from cosim.physics.vehicles.terrain import Terrain
from tests.unit.autopilot.wire import ORIGIN, flying, rover, station

AUTO = 3  # custom_mode of ArduCopter


def waypoint(s, east, north, up, frame=3, hold=0.0):
    return (frame, 16, hold, 0, 0, 0, *s.place(east, north, up))


def simple_mission(s):
    return [
        waypoint(s, 0, 0, 0, frame=0),
        (3, 22, 0, 0, 0, 0, 0, 0, 10.0),
        waypoint(s, 40, 0, 12),
        waypoint(s, 40, 30, 12, frame=6),
        (3, 20, 0, 0, 0, 0, 0, 0, 0),
    ]


def test_a_mission_comes_back_as_it_went_with_home_in_item_0():
    s = station()
    items = simple_mission(s)
    items[0] = waypoint(s, 900, 900, 5)
    assert s.upload(items) == 0
    back = s.download()
    assert [m.command for m in back] == [16, 22, 16, 16, 20]
    assert [m.frame for m in back[1:]] == [3, 3, 6, 3]  # clients compare frames
    assert (back[0].x, back[0].y) == s.place(0, 0)[:2]  # home, not what was uploaded
    assert (back[2].x, back[2].y, back[2].z) == s.place(40, 0, 12)


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
@pytest.mark.parametrize("frame", [10, 11])
def test_heights_above_a_terrain_that_is_not_flat_are_refused_by_name(persona, frame):
    """On flat ground they are those above home. Home in item 0 of ArduPilot is not flown, so its frame may be any."""
    flat = station(persona)
    reported = 2 if persona == "px4" else 0  # PX4 knows no such frames
    assert flat.upload([waypoint(flat, 0, 0, 0), waypoint(flat, 40, 0, 12, frame=frame)]) == reported
    s = flying(persona, terrain=Terrain(np.array([-50.0, -50.0, 100.0]), np.array([[0.0, 5.0], [0.0, 5.0]])))
    assert s.upload([waypoint(s, 0, 0, 0), waypoint(s, 40, 0, 12)]) == 0
    assert s.upload([waypoint(s, 0, 0, 0), waypoint(s, 40, 0, 12, frame=frame)]) == 2  # MAV_MISSION_UNSUPPORTED_FRAME
    assert f"Item 1: frame {frame}, terrain is not followed" in s.texts()
    x, y, z = s.place(20, 0, 12)
    s.send("command_int", 1, 1, frame, 192, 0, 0, -1, 1, 0, math.nan, x, y, z)
    assert [m.result for m in s.collect() if m.get_type() == "COMMAND_ACK"] == [2]  # DENIED
    assert f"Command 192: frame {frame}, terrain is not followed" in s.texts()
    s.send("set_position_target_global_int", 0, 1, 1, frame, 0b110111111000, x, y, z, 0, 0, 0, 0, 0, 0, 0, 0)
    s.run(1.0)
    assert f"Refused: frame {frame}: terrain is not followed" in s.texts()


def test_item_0_is_home_and_not_on_px4():
    s = station()
    assert s.download() == []  # as of a real ArduCopter that was sent a count of 0
    assert s.upload([waypoint(s, 90, 0, 10), waypoint(s, 10, 0, 10)]) == 0
    assert s.download()[0].x == s.place(0, 0)[0]
    s = station("px4")
    assert s.download() == []
    assert s.upload([waypoint(s, 10, 0, 10)]) == 0
    assert s.download()[0].x == s.place(10, 0)[0]


def test_asks_for_items_in_the_way_of_the_persona():
    for persona, name in (("ardupilot", "MISSION_REQUEST"), ("px4", "MISSION_REQUEST_INT")):
        s = station(persona)
        s.send("mission_count", 1, 1, 2, 0)
        assert name in {m.get_type() for m in s.collect()}


def test_flies_a_mission_and_stays_in_auto_while_it_returns():
    s = station()
    s.upload(simple_mission(s))
    s.command(176, 1, 4)
    s.command(400, 1)
    assert s.command(300, 0, 0) == 0
    s.until(lambda v: not v.armed)
    s.run(0.2)
    assert [m.seq for m in s.heard if m.get_type() == "MISSION_ITEM_REACHED"] == [1, 2, 3, 4]
    assert s.last("HEARTBEAT").custom_mode == AUTO
    end = s.last("MISSION_CURRENT")
    assert end.seq < end.total == 5
    assert end.mission_state == mavlink.MISSION_STATE_COMPLETE


def test_needs_a_take_off_to_begin_on_the_ground():
    s = station()
    s.upload([waypoint(s, 0, 0, 0), waypoint(s, 40, 0, 12)])
    assert s.command(176, 1, AUTO) == 4
    s.run(0.1)
    assert any("Missing Takeoff Cmd" in text for text in s.texts())


def test_px4_rises_first_and_holds_at_the_end():
    s = station("px4")
    s.upload([waypoint(s, 30, 0, 12), waypoint(s, 30, 20, 12)])
    s.command(400, 1)
    assert s.command(176, 1, 4, 4) == 0
    s.until(lambda v: math.hypot(v.x - 30, v.y - 20) < 1.5)
    s.run(3.0)
    assert s.autopilot.pilot.mode == "HOLD"
    assert [m.seq for m in s.heard if m.get_type() == "MISSION_ITEM_REACHED"] == [0, 1]


def test_jumps_speeds_delays_and_unknown_commands():
    s = flying()
    mission = [
        waypoint(s, 0, 0, 0),
        (3, 178, 0, 4.0, 0, 0, 0, 0, 0),  # speed
        (3, 206, 1.0, 0, 0, 0, 0, 0, 0),  # camera: unknown here
        waypoint(s, 30, 0, 10),
        (3, 112, 5.0, 0, 0, 0, 0, 0, 0),  # delay
        waypoint(s, 0, 0, 10),
        (3, 177, 3.0, 2.0, 0, 0, 0, 0, 0),  # jump to 3, twice
        waypoint(s, 0, 20, 10),
    ]
    assert s.upload(mission) == 0
    assert s.command(176, 1, AUTO) == 0
    seen = s.run(160.0, step=0.1)
    assert [m.seq for m in seen if m.get_type() == "MISSION_ITEM_REACHED"] == [3, 5, 3, 5, 3, 5, 7]
    speeds = [m.groundspeed for m in seen if m.get_type() == "VFR_HUD"]
    assert max(speeds) == pytest.approx(4.0, abs=0.3)


def test_lands_in_between_and_goes_on():
    s = station()
    rise = (3, 22, 0, 0, 0, 0, 0, 0, 5.0)
    land = (3, 21, 0, 0, 0, 0, *s.place(15, 0, 0))
    s.upload([waypoint(s, 0, 0, 0), rise, land, rise, waypoint(s, 15, 20, 5)])
    s.command(176, 1, 4)
    s.command(400, 1)
    s.command(300)
    s.until(lambda v: math.hypot(v.x - 15, v.y - 20) < 2.0 and v.z > 4.0)
    s.run(3.0)
    assert [m.seq for m in s.heard if m.get_type() == "MISSION_ITEM_REACHED"] == [1, 2, 3, 4]


def test_goes_on_with_the_item_where_it_was_left():
    s = flying()
    s.upload([waypoint(s, 0, 0, 0), *(waypoint(s, 20.0 * k, 0, 10) for k in range(1, 6))])
    s.command(176, 1, AUTO)
    s.until(lambda v: v.x > 50.0)
    s.command(176, 1, 5)
    s.run(5.0)
    at = s.autopilot.pilot.mission.current
    s.command(176, 1, AUTO)
    s.run(0.2)
    assert s.autopilot.pilot.mission.current == at >= 3
    s.send("mission_set_current", 1, 1, 1)
    s.until(lambda v: v.x < 22.0)


def test_a_rover_drives_its_mission():
    s = rover()
    s.upload([waypoint(s, 0, 0, 0), waypoint(s, 10, 0, 0), waypoint(s, 10, 8, 0)])
    s.command(176, 1, 10)
    s.command(400, 1)
    s.until(lambda v: math.hypot(v.x - 10, v.y - 8) < 1.5)


def test_part_of_a_mission_is_replaced():
    s = station()
    s.upload(simple_mission(s))
    s.send("mission_write_partial_list", 1, 1, 2, 2, 0)
    assert [m.seq for m in s.collect() if m.get_type() == "MISSION_REQUEST"] == [2]
    s.send("mission_item_int", 1, 1, 2, 3, 16, 0, 1, 0, 0, 0, 0, *s.place(77, 0, 9), 0)
    assert s.last("MISSION_REQUEST").seq == 2
    assert [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"] == [0]
    back = s.download()
    assert len(back) == 5
    assert (back[2].x, back[2].z) == (s.place(77, 0)[0], 9.0)
    s.send("mission_write_partial_list", 1, 1, 2, 9, 0)
    assert [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"] == [1]


def test_lost_and_repeated_items_of_an_upload():
    s = station()
    items = simple_mission(s)

    def give(seq):
        frame, command, *params, x, y, z = items[seq]
        s.send("mission_item_int", 1, 1, seq, frame, command, 0, 1, *params, x, y, z, 0)

    s.send("mission_count", 1, 1, 5, 0)
    give(0)
    give(0)  # came twice
    s.collect()
    assert s.last("MISSION_REQUEST").seq == 1
    s.run(1.5)  # the request was lost: it is repeated
    assert Counter(m.seq for m in s.heard if m.get_type() == "MISSION_REQUEST")[1] >= 2
    for seq in range(1, 5):
        give(seq)
    assert [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"] == [0]
    s.send("mission_count", 1, 1, 5, 0)
    s.run(12.0)  # the client has gone
    assert s.last("MISSION_ACK").type == mavlink.MAV_MISSION_OPERATION_CANCELLED
    assert len(s.download()) == 5


def test_refuses_what_is_no_mission():
    s = station()
    assert s.upload([(4, 16, 0, 0, 0, 0, *s.place(0, 0, 0))]) == mavlink.MAV_MISSION_UNSUPPORTED_FRAME
    assert s.upload([(3, 16, 0, 0, 0, 0, *s.place(0, 0)[:2], math.nan)]) == mavlink.MAV_MISSION_INVALID_PARAM7
    s.send("mission_count", 1, 1, 60000, 0)
    assert [m.type for m in s.collect() if m.get_type() == "MISSION_ACK"] == [mavlink.MAV_MISSION_NO_SPACE]


def test_fields_that_mean_nothing_may_be_nan():
    """MAVSDK fills what a command does not use with NaN."""
    s = flying("px4")
    nan = math.nan
    speed, land = (2, 178, 1.0, 5.0, -1.0, nan, 0, 0, nan), (6, 21, nan, nan, nan, nan, *s.place(0, 20)[:2], nan)
    assert s.upload([speed, (6, 16, 0, 2.0, nan, nan, *s.place(20, 0, 12)), land]) == 0
    assert s.command(176, 1, 4, 4) == 0
    s.until(lambda v: not v.armed)
    assert s.autopilot.pilot.look().y == pytest.approx(20.0, abs=2.5)


def test_clears_all():
    """PX4 does; ArduPilot clears one kind at a time (recorded of a real one: MAV_MISSION_UNSUPPORTED)."""
    for persona, result, left in (("px4", 0, (0, 0)), ("ardupilot", 3, (2, 1))):
        s = station(persona)
        s.upload([waypoint(s, 0, 0, 0), waypoint(s, 40, 0, 12)])
        s.upload([(3, 5100, 0, 0, 0, 0, *s.place(0, 20, 0))], kind=2)
        s.send("mission_clear_all", 1, 1, 255)
        s.collect()
        assert s.last("MISSION_ACK").type == result
        assert (len(s.download()), len(s.download(2))) == left


# -- fence and rally points


def test_a_polygon_turns_it_back():
    s = flying()
    corners = [(-20, -20), (20, -20), (20, 20), (-20, 20)]
    items = [(0, 5001, 4, 0, 0, 0, *s.place(*corner)) for corner in corners]
    assert s.upload(items, kind=1) == 0
    assert [m.x for m in s.download(1)] == [item[6] for item in items]
    s.set_parameter("FENCE_ENABLE", 1)
    for _ in range(100):
        # an acceleration, as velocities stop at the fence
        s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xC3F, 0, 0, 0, 0, 0, 0, 0, 0.8, 0, 0, 0)
        s.run(0.1)
    assert s.fleet.state["x"][0] < 30.0
    assert s.autopilot.pilot.mode == "RTL"
    assert "Fence breached" in s.texts()
    s.command(512, 162)
    s.collect()
    assert s.last("FENCE_STATUS").breach_count == 1
    s.until(lambda v: not v.armed)
    assert "Fence breach cleared" in s.texts()


def steer_on(s, north, east, up, seconds=16.0):
    """Ask for a velocity all the time; the places on the way."""
    places = []
    for _ in range(round(seconds / 0.1)):
        s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xDC7, 0, 0, 0, north, east, -up, 0, 0, 0, 0, 0)
        s.run(0.1)
        v = s.autopilot.pilot.look()
        places.append((v.x, v.y, v.z))
    return np.array(places)


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_an_ordered_velocity_brakes_before_a_circle_as_in_a_real_one(dynamics):
    s = flying(vehicle=Copter(dynamics=dynamics))
    for name, value in (("FENCE_TYPE", 2), ("FENCE_RADIUS", 30), ("FENCE_ENABLE", 1)):
        s.set_parameter(name, value)
    far = np.hypot(*steer_on(s, 8.0, 0.0, 0.0)[:, :2].T).max()
    assert 28.0 < far < 33.4  # m that a real ArduCopter 4.6 went at 8 m/s; 45 when it does not brake before the fence


def test_it_slides_along_the_edge_of_a_polygon_and_below_the_ceiling():
    s = flying()
    corners = [(-50, -300), (50, -300), (50, 300), (-50, 300)]
    assert s.upload([(0, 5001, 4, 0, 0, 0, *s.place(*corner)) for corner in corners], kind=1) == 0
    for name, value in (("FENCE_TYPE", 5), ("FENCE_ALT_MAX", 30), ("FENCE_ENABLE", 1)):
        s.set_parameter(name, value)
    places = steer_on(s, 3.0, 4.0, 2.0, 30.0)
    assert 46.0 < places[:, 0].max() < 50.0
    assert 27.0 < places[:, 2].max() < 30.0
    assert np.diff(places[-50:, 1]).mean() == pytest.approx(0.3, abs=0.01)
    assert s.autopilot.pilot.mode == "GUIDED"


def test_circles_keep_out_and_in():
    s = flying()
    assert s.upload([(0, 5004, 10.0, 0, 0, 0, *s.place(40, 0))], kind=1) == 0
    fence, pilot = s.autopilot.pilot.fence, s.autopilot.pilot
    s.set_parameter("FENCE_ENABLE", 1)
    assert fence.breach(pilot) == 0
    assert s.upload([(0, 5003, 10.0, 0, 0, 0, *s.place(40, 0))], kind=1) == 0
    assert fence.breach(pilot) == 3
    assert s.upload([(0, 5001, 5, 0, 0, 0, *s.place(0, 0))], kind=1) == mavlink.MAV_MISSION_ERROR


def test_px4_limits_by_parameters():
    s = flying("px4")
    s.set_parameter("GF_MAX_HOR_DIST", 15.0)
    s.set_parameter("GF_ACTION", struct.unpack("<f", struct.pack("<i", 3))[0])
    x, y, _ = s.place(60, 0)
    s.send("command_int", 1, 1, 5, 192, 0, 0, -1.0, 1.0, 0.0, math.nan, x, y, ORIGIN[2] + 10.0)
    s.until(lambda v: v.x > 15.0)
    s.run(0.3)
    assert s.autopilot.pilot.mode == "RTL"


def test_returns_to_the_nearest_rally_point():
    s = flying()
    assert s.upload([(3, 5100, 0, 0, 0, 0, *s.place(50, 0)), (3, 5100, 0, 0, 0, 0, *s.place(0, 90))], kind=2) == 0
    x, y, _ = s.place(80, 0)
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 10.0, *[0.0] * 8)
    s.until(lambda v: v.x > 79.0)
    s.command(20)
    s.until(lambda v: not v.armed)
    assert s.autopilot.pilot.look().x == pytest.approx(50.0, abs=1.5)
    assert s.autopilot.pilot.home == (0.0, 0.0, 0.0)
