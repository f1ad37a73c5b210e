"""pymavlink's mavutil: python fly_pymavlink.py PORT PERSONA SPEED."""

# ruff: noqa: T201 - it tells its steps on the standard output

import math
import os
import sys
import time

os.environ["MAVLINK20"] = "1"
from pymavlink import mavutil

PORT, PERSONA, SPEED = sys.argv[1], sys.argv[2], float(sys.argv[3])
PX4 = PERSONA == "px4"
link = mavutil.mavlink_connection(f"udpin:127.0.0.1:{PORT}")


def until(kind, condition=lambda m: True, limit=120.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        m = link.recv_match(type=kind, blocking=True, timeout=1.0)
        if m is not None and condition(m):
            return m
    raise SystemExit(f"waited {limit} s for {kind}")


def command(number, *params, tries=1):
    for _ in range(tries):
        link.mav.command_long_send(link.target_system, 1, number, 0, *params, *[0] * (7 - len(params)))
        if until("COMMAND_ACK", lambda m: m.command == number, 10.0).result == 0:
            return
        time.sleep(0.5)
    raise SystemExit(f"command {number} was refused")


def set_mode(name):
    if PX4:
        _, main, sub = mavutil.px4_map[name]
        command(176, 1 | 128, main, sub)
    else:
        command(176, 1, link.mode_mapping()[name])


link.wait_heartbeat(timeout=30)
print("ok connect")
assert link.flightmode in ("STABILIZE", "POSCTL"), link.flightmode
link.mav.request_data_stream_send(link.target_system, 1, 0, 10, 1)
link.param_fetch_all()
names, count, end = set(), 1, time.monotonic() + 60.0
while len(names) < count and time.monotonic() < end:
    m = until("PARAM_VALUE")
    names.add(m.param_id)
    count = m.param_count
assert len(names) == count > 200, (len(names), count)
print("ok parameters")
until("GPS_RAW_INT", lambda m: m.fix_type >= 3)
until("ESTIMATOR_STATUS" if PX4 else "EKF_STATUS_REPORT", lambda m: m.flags & 0x31F == 0x31F)
home = until("HOME_POSITION")
print("ok ready")


def take_off(height):
    if not PX4:
        set_mode("GUIDED")
    command(400, 1, tries=20)
    print("ok arm")
    command(22, 0, 0, 0, math.nan, math.nan, math.nan, height + (home.altitude / 1e3 if PX4 else 0.0))
    until("GLOBAL_POSITION_INT", lambda m: m.relative_alt > 950 * height)
    print("ok takeoff")


take_off(10.0)
lat, lon = home.latitude + 3000, home.longitude + 2000
if PX4:
    link.mav.command_int_send(
        link.target_system, 1, 5, 192, 0, 0, -1, 1, 0, math.nan, lat, lon, home.altitude / 1e3 + 15.0
    )
else:
    link.mav.set_position_target_global_int_send(0, link.target_system, 1, 6, 0xFF8, lat, lon, 15, *[0] * 8)
until("GLOBAL_POSITION_INT", lambda m: abs(m.lat - lat) < 100 and abs(m.lon - lon) < 100)
print("ok goto")

items = [(16, lat + 2000, lon, 15), (16, lat + 2000, lon + 2000, 20), (20, 0, 0, 0)]
if not PX4:
    items = [(16, home.latitude, home.longitude, 0), (22, 0, 0, 15), *items]
link.mav.mission_count_send(link.target_system, 1, len(items), 0)
while True:
    m = until(["MISSION_REQUEST", "MISSION_REQUEST_INT", "MISSION_ACK"], limit=10.0)
    if m.get_type() == "MISSION_ACK":
        assert m.type == 0, m
        break
    number, x, y, z = items[m.seq]
    link.mav.mission_item_int_send(
        link.target_system, 1, m.seq, 6 if x or not PX4 else 2, number, 0, 1, 0, 0, 0, math.nan if x else 0, x, y, z
    )
print("ok upload")
link.mav.mission_request_list_send(link.target_system, 1, 0)
assert until("MISSION_COUNT").count == len(items)
for k, (number, x, _, _) in enumerate(items):
    link.mav.mission_request_int_send(link.target_system, 1, k, 0)
    m = until("MISSION_ITEM_INT", lambda m, k=k: m.seq == k)
    assert m.command == number, m
    assert k == 0 or m.x == x, m
print("ok download")
set_mode("MISSION" if PX4 else "AUTO")
until("MISSION_ITEM_REACHED", lambda m: m.seq == len(items) - 2)
print("ok mission")
until("HEARTBEAT", lambda m: not m.base_mode & 128, 240.0)  # the mission's last item is the return
assert PX4 or link.flightmode == "AUTO", link.flightmode
print("ok disarmed")

take_off(8.0)
set_mode("RTL")
until("HEARTBEAT", lambda m: not m.base_mode & 128)
print("ok return")
take_off(5.0)
set_mode("LAND")
until("HEARTBEAT", lambda m: not m.base_mode & 128)
print("ok land")
take_off(8.0)
name = "BAT_CRIT_THR" if PX4 else "BATT_LOW_MAH"
link.param_set_send(name, 0.999 if PX4 else 99999.0)
m = until("STATUSTEXT", lambda m: "low" in m.text.lower())
print(m.text)
until("HEARTBEAT", lambda m: not m.base_mode & 128)
print("ok battery")
