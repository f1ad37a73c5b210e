"""Each parameter that is marked `used` changes what the vehicle does; what is not marked changes nothing."""

from __future__ import annotations

import struct

import pytest

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.parameters import table
from cosim.autopilot.personas import PERSONAS
from cosim.physics.vehicles import BatteryPack, Copter, Rover
from tests.unit.autopilot.wire import Station, flying, station

GUIDED, LOITER, CIRCLE, FOLLOW, RTL, LAND, ALT_HOLD, AUTO = 4, 5, 7, 23, 6, 9, 2, 3
STEERED = 0xDC7  # a velocity only


def put(s, name, value):
    """PARAM_SET; PX4 has the bytes of integers in the field."""
    parameters = s.autopilot.parameters
    whole = s.autopilot.persona.px4 and parameters.table[name].type != "float"
    s.set_parameter(name, struct.unpack("<f", struct.pack("<i", int(value)))[0] if whole else value)


def seen(s, seconds, sticks=None):
    """Where it goes and what it does for a while."""
    rows = []
    for _ in range(round(2.0 * seconds)):
        if sticks is not None:
            s.send("rc_channels_override", 1, 1, *sticks, *[0] * (8 - len(sticks)))
        s.run(0.5, step=0.1)
        v = s.autopilot.pilot.look()
        rows.append(
            (*(round(getattr(v, axis), 3) for axis in ("x", "y", "z", "heading")), v.armed, s.autopilot.pilot.mode)
        )
    return rows, [text for text in s.texts() if "PARAM" not in text]


def steered(s, seconds, north, east=0.0, up=0.0):
    rows = []
    for _ in range(round(seconds)):
        s.send("set_position_target_local_ned", 0, 1, 1, 1, STEERED, 0, 0, 0, north, east, -up, 0, 0, 0, 0, 0)
        rows += seen(s, 1.0)
    return rows


def mission(s, seconds=40.0):
    copter, px4 = s.autopilot.persona.frame == "copter", s.autopilot.persona.px4
    home = [] if px4 else [(3, 16, 0, 0, 0, 0, *s.place(0, 0))]
    s.upload([*home, *((3, 16, 0, 0, 0, 0, *s.place(x, y)[:2], z) for x, y, z in ((60, 0, 25), (60, 40, 12)))])
    s.command(176, 1, 4 if px4 else AUTO if copter else 10, 4 if px4 else 0)
    return seen(s, seconds)


def home(s):
    s.autopilot.pilot.go((20.0, 0.0, 8.0))
    s.run(10.0)
    s.command(176, 1, 4 if s.autopilot.persona.px4 else RTL, 5 if s.autopilot.persona.px4 else 0)
    return seen(s, 60.0)


def drained(s):
    """From 3/4 of the charge to nothing, as quickly as the parameter allows to notice."""
    found = []
    for left in (0.6, 0.3, 0.1, 0.06, 0.04):
        s.fleet.state["charge"][0] = left * 5.2 * 3600.0
        found += seen(s, 12.0)
    return found


def sticks(mode, *pulses):
    def flight(s):
        s.command(176, 1, mode)
        return seen(s, 4.0, pulses), seen(s, 8.0)

    return flight


def idle(s):
    s.command(400, 1)
    return seen(s, 14.0)


def quiet(s):
    s.send("heartbeat", mavlink.MAV_TYPE_GCS, 0, 0, 0, 4, 3)
    return seen(s, 15.0)


def circled(s):
    s.command(176, 1, CIRCLE)
    return seen(s, 12.0)


def followed(s):
    """Another vehicle passes by, with nose and height of its own; a third one further away is heard later."""
    px4, other = s.autopilot.persona.px4, Station(s.autopilot, "other", 9)
    far = Station(s.autopilot, "far", 4)
    s.command(176, 1, 4 if px4 else FOLLOW if s.autopilot.persona.frame == "copter" else 6, 8 if px4 else 0)
    found = []
    for k in range(30):
        for who, away in ((other, 30.0), (far, 90.0)):
            x, y, _ = who.place(away, 2.0 * k)
            if px4:
                who.send("follow_target", 0, 7, x, y, 80.0, [2.0, 0.0, 0.0], [0] * 3, [1, 0, 0, 0], [0] * 3, [0] * 3, 0)
            else:
                who.send("global_position_int", 0, x, y, 85000, 18000, 200, 0, 0, 4500)
        found += seen(s, 1.0)
    return found


def retreat(s):
    """Rally points near and far, then home."""
    s.upload([(3, 5100, 0, 0, 0, 0, *s.place(40.0, 0.0)[:2], 10.0)], 2)
    return home(s)


def rallied(s):
    s.upload([(3, 5100, 0, 0, 0, 0, *s.place(400.0, 0.0)[:2], 10.0)], 2)
    s.fleet.state["x"][0] = 600.0
    s.command(176, 1, RTL)
    return seen(s, 10.0)


def again(s):
    mission(s, 14.0)
    s.command(176, 1, GUIDED)
    s.run(2.0)
    s.command(176, 1, AUTO)
    return seen(s, 5.0)


def heard(s):
    Station(s.autopilot, "other", 77).send("rc_channels_override", 1, 1, 1500, 1200, 1500, 1500, 0, 0, 0, 0)
    return seen(s, 3.0)


def armed(s):
    s.fleet.state["failsafe"][0] = 1
    return s.command(400, 1), s.texts()


def breach(s):
    return steered(s, 14.0, 8.0)


def risen(s):
    return steered(s, 10.0, 0.0, 0.0, 5.0)


def radio(s):
    s.command(176, 1, LOITER)
    return seen(s, 6.0, (1500, 1500, 900, 1500))


def taken_off(s):
    s.command(400, 1)
    s.command(22, 0, 0, 0, 0, 0, 0, float("nan"))
    return seen(s, 12.0)


def logged(s):
    s.run(1.0)
    s.command(400, 1)
    s.run(2.0)
    s.command(400, 0)
    s.send("log_request_list", 1, 1, 0, 0xFFFF)
    return [m.size for m in s.run(0.2) if m.get_type() == "LOG_ENTRY"]


WALL = {"FENCE_ENABLE": 1, "FENCE_RADIUS": 40, "FENCE_ALT_MAX": 30}
KEEP = {"GF_MAX_HOR_DIST": 40, "GF_MAX_VER_DIST": 30, "GF_ACTION": 3}
FLIES = {  # parameter: another value, what is flown, what is set besides
    "ANGLE_MAX": (1500, sticks(ALT_HOLD, 1500, 1100), {}),
    "BATT_FS_CRT_ACT": (2, drained, {"BATT_FS_LOW_ACT": 0}),
    "BATT_FS_LOW_ACT": (1, drained, {}),
    "BATT_CAPACITY": (3000, drained, {}),
    "BATT_CRT_MAH": (2000, drained, {"BATT_FS_LOW_ACT": 0}),
    "BATT_LOW_MAH": (3000, drained, {}),
    "BATT_LOW_TIMER": (1, drained, {"BATT_LOW_VOLT": 20, "BATT_FS_LOW_ACT": 2}),
    "BATT_LOW_VOLT": (20, drained, {"BATT_FS_LOW_ACT": 2}),
    "BATT_CRT_VOLT": (20, drained, {"BATT_FS_CRT_ACT": 1, "BATT_LOW_VOLT": 0}),
    "CIRCLE_OPTIONS": (2, circled, {}),
    "CIRCLE_RADIUS": (2000, circled, {}),
    "CIRCLE_RATE": (10, circled, {}),
    "FENCE_ACTION": (0, breach, {**WALL, "FENCE_MARGIN": 1}),
    "FENCE_ALT_MAX": (20, risen, {"FENCE_ENABLE": 1}),
    "FENCE_ENABLE": (0, breach, WALL),
    "FENCE_MARGIN": (8, breach, WALL),
    "FENCE_RADIUS": (60, breach, WALL),
    "FENCE_TYPE": (1, breach, WALL),
    "FOLL_ALT_TYPE": (0, followed, {"FOLL_ENABLE": 1}),
    "FOLL_DIST_MAX": (10, followed, {"FOLL_ENABLE": 1}),
    "FOLL_ENABLE": (1, followed, {}),
    "FOLL_OFS_TYPE": (0, followed, {"FOLL_ENABLE": 1}),
    "FOLL_OFS_X": (-30, followed, {"FOLL_ENABLE": 1}),
    "FOLL_OFS_Y": (15, followed, {"FOLL_ENABLE": 1}),
    "FOLL_OFS_Z": (-9, followed, {"FOLL_ENABLE": 1}),
    "FOLL_SYSID": (4, followed, {"FOLL_ENABLE": 1}),
    "FOLL_YAW_BEHAVE": (2, followed, {"FOLL_ENABLE": 1}),
    "FS_GCS_ENABLE": (1, quiet, {}),
    "FS_GCS_TIMEOUT": (12, quiet, {"FS_GCS_ENABLE": 1}),
    "FS_THR_ENABLE": (0, radio, {}),
    "GUID_TIMEOUT": (0.5, lambda s: (steered(s, 1.0, 4.0), seen(s, 4.0)), {}),
    "LAND_SPEED": (100, home, {}),
    "LOIT_SPEED": (200, sticks(LOITER, 1500, 1000), {}),
    "MIS_RESTART": (1, again, {}),
    "PILOT_SPEED_DN": (50, sticks(LOITER, 1500, 1500, 1100), {}),
    "PILOT_SPEED_UP": (100, sticks(LOITER, 1500, 1500, 1900), {}),
    "PILOT_Y_RATE": (30, sticks(LOITER, 1500, 1500, 1500, 1700), {}),
    "RALLY_INCL_HOME": (0, retreat, {}),
    "RALLY_LIMIT_KM": (0.1, rallied, {}),
    "RC_OVERRIDE_TIME": (0.5, sticks(LOITER, 1500, 1300), {}),
    "RTL_ALT": (3000, home, {}),
    "RTL_LOIT_TIME": (500, home, {}),
    "RTL_SPEED": (300, home, {}),
    "SIM_WIND_DIR": (90, sticks(ALT_HOLD, 1500, 1300), {"SIM_WIND_SPD": 8}),
    "SIM_WIND_DIR_Z": (60, sticks(ALT_HOLD, 1500, 1300), {"SIM_WIND_SPD": 8}),
    "SIM_WIND_SPD": (12, sticks(ALT_HOLD, 1500, 1300), {}),
    "SYSID_MYGCS": (77, heard, {}),
    "WPNAV_ACCEL": (100, mission, {}),
    "WPNAV_ACCEL_Z": (250, lambda s: (s.autopilot.pilot.go((5.0, 0.0, 40.0)), seen(s, 15.0)), {}),
    "WPNAV_JERK": (5, mission, {}),
    "WPNAV_RADIUS": (800, mission, {}),
    "WPNAV_SPEED": (500, mission, {}),
    "WPNAV_SPEED_DN": (300, mission, {}),
    "WPNAV_SPEED_UP": (100, mission, {}),
    # PX4
    "BAT1_CAPACITY": (3000, drained, {}),
    "BAT_CRIT_THR": (0.4, drained, {}),
    "BAT_EMERGEN_THR": (0.1, drained, {"COM_LOW_BAT_ACT": 2}),
    "COM_DISARM_LAND": (8, lambda s: (s.command(21), seen(s, 50.0)), {}),
    "COM_LOW_BAT_ACT": (0, drained, {}),
    "COM_OF_LOSS_T": (4, lambda s: (steered(s, 1.0, 1.0), s.command(176, 1, 6), seen(s, 6.0)), {}),
    "FLW_TGT_DST": (20, followed, {}),
    "FLW_TGT_FA": (90, followed, {}),
    "FLW_TGT_HT": (20, followed, {}),
    "GF_ACTION": (1, lambda s: (s.command(192, -1, 1, 0, 0, *PLACE), seen(s, 20.0)), KEEP),
    "GF_MAX_HOR_DIST": (20, lambda s: (s.command(192, -1, 1, 0, 0, *PLACE), seen(s, 20.0)), KEEP),
    "GF_MAX_VER_DIST": (15, lambda s: (s.command(192, -1, 1, 0, 0, *PLACE), seen(s, 20.0)), KEEP),
    "MPC_ACC_HOR": (8, mission, {}),
    "MPC_LAND_SPEED": (2, home, {}),
    "MPC_XY_CRUISE": (3, mission, {}),
    "MPC_Z_V_AUTO_DN": (3, mission, {}),
    "MPC_Z_V_AUTO_UP": (1, mission, {}),
    "NAV_ACC_RAD": (8, mission, {}),
    "RTL_RETURN_ALT": (30, home, {}),
}
PLACE = (38.2406, 21.7306, 85.0)  # 67 m north, 52 m east, 25 m up of the origin
STANDS = {
    "ARMING_CHECK": (0, armed, {}),
    "BATT_ARM_VOLT": (30, idle, {}),
    "COM_DISARM_PRFLT": (3, idle, {}),
    "DISARM_DELAY": (3, idle, {}),
    "LOG_BITMASK": (4, logged, {}),
    "LOG_DISARMED": (1, logged, {}),
    "MIS_TAKEOFF_ALT": (6, taken_off, {}),
}
DRIVES = {
    "ARMING_CHECK": STANDS["ARMING_CHECK"],
    "BATT_ARM_VOLT": STANDS["BATT_ARM_VOLT"],
    "LOG_BITMASK": STANDS["LOG_BITMASK"],
    "LOG_DISARMED": STANDS["LOG_DISARMED"],
    "WP_RADIUS": (8, mission, {}),
    "WP_SPEED": (1, mission, {}),
}
QUICK = ("BAT1_CAPACITY", "COM_DISARM_LAND", "FENCE_MARGIN", "LOIT_SPEED", "RC_OVERRIDE_TIME", "WP_SPEED")


def flown(persona, name, changed, case):
    other, flight, besides = case
    flies = name in FLIES and (persona.frame == "copter")
    vehicle = Rover() if persona.frame == "rover" else Copter(battery=BatteryPack(capacity=5.2), jerk=1.0)
    s = flying(persona.name, vehicle=vehicle) if flies else station(persona.name, vehicle)
    if persona.frame == "rover" and name not in STANDS:
        s.command(400, 1)
    for each, value in (besides | ({name: other} if changed else {})).items():
        put(s, each, value)
    return flight(s)


def used(persona):
    return [name for name, about in table(persona).items() if about.used]


def cases():
    for persona in PERSONAS.values():
        for name in used(persona):
            case = (DRIVES if persona.frame == "rover" else STANDS | FLIES).get(name)
            if case is not None:
                marks = [] if name in QUICK else [pytest.mark.slow]
                yield pytest.param(persona, name, case, marks=marks, id=f"{persona.name}-{persona.frame}-{name}")


@pytest.mark.parametrize(("persona", "name", "case"), list(cases()))
def test_has_an_effect(persona, name, case):
    assert flown(persona, name, False, case) != flown(persona, name, True, case)


def test_every_used_parameter_of_copters_is_tried():
    for persona in PERSONAS.values():
        if persona.frame == "copter":
            assert sorted(set(used(persona)) - set(FLIES) - set(STANDS)) == []
