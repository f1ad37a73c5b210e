"""What MAVLink orders make a vehicle do, for both personas."""

from __future__ import annotations

import math

import pytest

from cosim.autopilot import Autopilot
from cosim.autopilot.dialect import mavlink
from cosim.physics.vehicles import BatteryPack, Copter, VehicleFleet
from tests.unit.autopilot.wire import ORIGIN, Station, flying, rover, station

GUIDED, AUTO, RTL, LAND, FOLLOW = 4, 3, 6, 9, 23  # custom_mode of ArduCopter


def px4_mode(main, sub=0):
    return main << 16 | sub << 24


def test_is_not_ready_at_first_and_says_so():
    s = station(ready_after=10.0)
    s.run(2.0)
    assert s.last("GPS_RAW_INT").fix_type == 1
    assert not s.last("EKF_STATUS_REPORT").flags & 0x10
    assert s.last("HEARTBEAT").system_status == mavlink.MAV_STATE_CALIBRATING
    assert not s.last("SYS_STATUS").onboard_control_sensors_health & mavlink.MAV_SYS_STATUS_PREARM_CHECK
    assert s.command(400, 1) == 4
    s.run(0.1)
    assert "PreArm: GPS 1: Bad fix" in s.texts()
    assert not [m for m in s.heard if m.get_type() == "HOME_POSITION"]
    s.run(9.0)
    assert s.last("GPS_RAW_INT").fix_type >= 3
    assert s.last("GPS_RAW_INT").satellites_visible >= 6
    assert s.last("EKF_STATUS_REPORT").flags == 0x33F
    assert s.last("HOME_POSITION").latitude == round(ORIGIN[0] * 1e7)
    assert s.command(400, 1) == 0


def test_a_forced_arming_passes_the_checks():
    s = station(ready_after=100.0)
    assert s.command(400, 1) == 4
    assert s.command(400, 1, 12345) == 4
    assert s.command(400, 1, 2989) == 0
    s = station("px4", ready_after=100.0)
    assert s.command(400, 1, 21196) == 1  # PX4 passes no checks for somebody outside


def test_takes_off_in_guided_only():
    s = station()
    s.command(400, 1)
    assert s.command(22, 0, 0, 0, 0, 0, 0, 10.0) == 4
    s.command(176, 1, GUIDED)
    assert s.command(22, 0, 0, 0, 0, 0, 0, 10.0) == 0
    s.until(lambda v: v.z > 9.6)
    s.run(2.0)
    assert s.last("GLOBAL_POSITION_INT").relative_alt == pytest.approx(10_000, abs=300)
    assert s.last("EXTENDED_SYS_STATE").landed_state == mavlink.MAV_LANDED_STATE_IN_AIR


def test_disarms_by_itself_when_it_does_not_take_off():
    s = station()
    s.command(176, 1, GUIDED)
    s.command(400, 1)
    assert s.until(lambda v: not v.armed) == pytest.approx(10.0, abs=0.3)


@pytest.mark.parametrize(
    ("frame", "height"), [(6, 15.0), (3, 15.0), (11, 15.0), (5, ORIGIN[2] + 15.0), (0, ORIGIN[2] + 15.0)]
)
def test_goes_to_global_positions_in_all_frames(frame, height):
    s = flying()
    x, y, _ = s.place(30.0, 20.0)
    s.send("set_position_target_global_int", 0, 1, 1, frame, 0xFF8, x, y, height, *[0.0] * 8)
    s.until(lambda v: math.dist((v.x, v.y, v.z), (30.0, 20.0, 15.0)) < 0.2)


@pytest.mark.parametrize(
    ("frame", "goal"),
    [(1, (20.0, 10.0, 12.0)), (7, (20.0, 10.0, 22.0)), (8, (-10.0, 20.0, 22.0)), (9, (-10.0, 20.0, 22.0))],
)
def test_goes_to_local_positions_in_all_frames(frame, goal):
    """10 m north or forward, 20 m east or right, 12 m up; the vehicle looks west in frames of its body."""
    s = flying()
    if frame in (8, 9):
        s.command(115, 270.0, 0, 1, 0)
        s.run(5.0)
    s.send("set_position_target_local_ned", 0, 1, 1, frame, 0xFF8, 10.0, 20.0, -12.0, *[0.0] * 8)
    s.until(lambda v: math.dist((v.x, v.y, v.z), goal) < 0.3)


def test_a_velocity_holds_for_three_seconds():
    s = flying()
    s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xFC7, 0, 0, 0, 2.0, 0.0, 0.0, *[0.0] * 5)
    s.run(2.5)
    assert s.autopilot.pilot.look().vy == pytest.approx(2.0, abs=0.1)
    s.run(4.0)
    assert abs(s.autopilot.pilot.look().vy) < 0.1
    assert s.autopilot.pilot.mode == "GUIDED"


def test_targets_are_dropped_on_the_ground():
    s = station()
    s.command(176, 1, GUIDED)
    s.command(400, 1)
    x, y, _ = s.place(30.0, 20.0)
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 15.0, *[0.0] * 8)
    s.run(3.0)
    assert s.autopilot.pilot.look().landed


def test_mission_items_with_current_2_and_3_are_targets():
    s = flying()
    x, y, _ = s.place(25.0, 0.0)
    s.send("mission_item", 1, 1, 0, 3, 16, 2, 1, 0, 0, 0, 0, x / 1e7, y / 1e7, 12.0, 0)
    s.until(lambda v: math.hypot(v.x - 25.0, v.z - 12.0) < 0.3)  # 1e-7 deg and float32: about 1 m elsewhere
    s.send("mission_item", 1, 1, 0, 3, 16, 3, 1, 0, 0, 0, 0, 0, 0, 20.0, 0)
    s.until(lambda v: abs(v.z - 20.0) < 0.2)
    assert s.last("MISSION_ACK").type == 0


def test_repositions_by_command_int():
    s = flying()
    s.command(176, 1, 5)  # LOITER
    x, y, _ = s.place(0.0, 40.0)
    s.send("command_int", 1, 1, 5, 192, 0, 0, -1.0, 0.0, 0.0, math.nan, x, y, ORIGIN[2] + 10.0)
    s.run(0.1)
    assert s.last("COMMAND_ACK").result == 2  # no leave to change the mode
    s.send("command_int", 1, 1, 5, 192, 0, 0, -1.0, 1.0, 0.0, math.nan, x, y, ORIGIN[2] + 10.0)
    s.until(lambda v: abs(v.y - 40.0) < 0.2)
    assert s.last("COMMAND_ACK").result == 0


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_lands_and_returns(persona):
    s = flying(persona)
    assert s.command(21) == 0
    s.until(lambda v: not v.armed)
    s = flying(persona, height=20.0)
    v = s.autopilot.pilot.look()
    x, y, _ = s.place(60.0, 0.0)
    s.send("command_int", 1, 1, 5, 192, 0, 0, -1.0, 1.0, 0.0, math.nan, x, y, ORIGIN[2] + 20.0)
    s.until(lambda v: v.x > 59.0)
    assert s.command(20) == 0
    s.run(0.1)
    assert s.last("HEARTBEAT").custom_mode == (RTL if persona == "ardupilot" else px4_mode(4, 5))
    s.until(lambda v: not v.armed)
    v = s.autopilot.pilot.look()
    assert math.hypot(v.x, v.y) < 1.5


def test_px4_changes_modes_by_itself():
    s = station("px4")
    s.run(0.1)
    s.command(400, 1)
    assert s.command(22, 0, 0, 0, 0, 0, 0, math.nan) == 0
    s.run(0.1)
    assert s.last("HEARTBEAT").custom_mode == px4_mode(4, 2)
    assert s.last("HEARTBEAT").autopilot == mavlink.MAV_AUTOPILOT_PX4
    s.run(10.0)
    assert s.last("HEARTBEAT").custom_mode == px4_mode(4, 3)
    assert s.autopilot.pilot.look().z == pytest.approx(2.5, abs=0.2)  # MIS_TAKEOFF_ALT


def test_px4_needs_setpoints_for_offboard_and_leaves_it_without():
    s = flying("px4")
    assert s.command(176, 1, 6) == 4

    def target(seconds):
        for _ in range(round(seconds / 0.2)):
            s.send("set_position_target_local_ned", 0, 1, 1, 1, 0xFF8, 30.0, 0.0, -10.0, *[0.0] * 8)
            s.run(0.2)

    target(0.4)
    assert s.command(176, 1, 6) == 0
    target(10.0)
    assert s.autopilot.pilot.look().y == pytest.approx(30.0, abs=1.0)
    s.run(2.0)
    assert s.autopilot.pilot.mode == "HOLD"
    assert "Offboard control lost" in s.texts()


def test_a_rover_drives():
    s = rover()
    s.run(0.1)
    assert s.last("HEARTBEAT").type == mavlink.MAV_TYPE_GROUND_ROVER
    assert s.command(176, 1, 15) == 0
    assert s.command(400, 1) == 0
    assert s.command(22, 0, 0, 0, 0, 0, 0, 10.0) == 3
    x, y, _ = s.place(10.0, 5.0)
    s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, 0.0, *[0.0] * 8)
    s.until(lambda v: math.hypot(v.x - 10.0, v.y - 5.0) < 1.0)


@pytest.mark.parametrize("persona", ["ardupilot", "px4"])
def test_a_low_battery_brings_it_home(persona):
    copter = Copter(battery=BatteryPack(capacity=0.6, low=0.5, critical=0.1))
    s = flying(persona, vehicle=copter)
    s.until(lambda v: not v.armed)
    s.run(0.1)
    said = s.texts()
    assert any("low" in text.lower() for text in said), said
    modes = {m.custom_mode for m in s.heard if m.get_type() == "HEARTBEAT"}
    assert (RTL if persona == "ardupilot" else px4_mode(4, 5)) in modes


def test_a_battery_parameter_acts_in_flight():
    s = flying()
    s.set_parameter("BATT_LOW_MAH", 5200.0)
    s.run(0.5)
    assert s.autopilot.pilot.mode == "RTL"


def test_a_low_voltage_counts_after_its_time():
    s = flying()
    s.set_parameter("BATT_FS_LOW_ACT", 1)
    s.set_parameter("BATT_LOW_VOLT", 20.0)
    s.run(5.0)
    assert s.autopilot.pilot.mode == "GUIDED"
    s.run(6.0)
    assert s.autopilot.pilot.mode == "LAND"


def test_an_empty_battery_drops_it():
    s = flying(height=8.0, vehicle=Copter(battery=BatteryPack(capacity=0.25, low=0.0, critical=0.0, action="none")))
    s.until(lambda v: v.crashed)
    s.run(0.1)
    assert any("motors stopped" in text for text in s.texts())
    assert s.command(400, 1) == 4


def test_follows_another_vehicle_with_its_offset():
    s = flying(height=15.0)
    for name, value in (("FOLL_ENABLE", 1), ("FOLL_SYSID", 2), ("FOLL_OFS_X", -8.0), ("FOLL_OFS_Z", -15.0)):
        s.set_parameter(name, value)
    assert s.command(176, 1, FOLLOW) == 0
    other = Station(s.autopilot, "tractor", system=2)
    north = 20.0
    for _ in range(100):  # a rover goes north at 2 m/s
        north += 0.4
        x, y, _ = s.place(5.0, north)
        other.send("global_position_int", 0, x, y, 60000, 0, 200, 0, 0, 0)
        s.run(0.2)
    v = s.autopilot.pilot.look()
    assert (v.x, v.y, v.z) == pytest.approx((5.0, north - 8.0, 15.0), abs=1.0)
    s.run(8.0)
    assert "Follow: target lost" in s.texts()
    assert math.hypot(s.autopilot.pilot.look().vx, s.autopilot.pilot.look().vy) < 0.1


def test_px4_follows_a_target():
    s = flying("px4", height=15.0)
    assert s.command(176, 1, 4, 8) == 0
    north = 20.0
    for _ in range(100):
        north += 0.4
        x, y, _ = s.place(0.0, north)
        s.send("follow_target", 0, 3, x, y, 60.0, [2.0, 0, 0], [0] * 3, [1, 0, 0, 0], [0] * 3, [0] * 3, 0)
        s.run(0.2)
    v = s.autopilot.pilot.look()
    assert (v.x, v.y, v.z) == pytest.approx((0.0, north - 8.0, 8.0), abs=1.0)


def test_sees_what_the_fleet_is_told_by_others():
    s = station()
    s.fleet.arm([0])
    s.fleet.take_off([0], 5.0)
    s.run(10.0)
    assert s.autopilot.pilot.mode == "GUIDED"
    s.fleet.land([0])
    s.run(1.0)
    assert s.last("HEARTBEAT").custom_mode == LAND


def test_wrong_identities_are_refused():
    fleet = VehicleFleet([Copter()], [(0, 0, 0)])
    with pytest.raises(ValueError, match="system id 255"):
        Autopilot(fleet, 0, sysid=255)
    with pytest.raises(ValueError, match="known are ardupilot, px4"):
        Autopilot(fleet, 0, persona="betaflight")
    with pytest.raises(ValueError, match="latitude 91"):
        Autopilot(fleet, 0, origin=(91.0, 0.0, 0.0))
