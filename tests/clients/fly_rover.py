"""pymavlink and ArduPilot's rover: python fly_rover.py PORT PERSONA SPEED."""

# ruff: noqa: T201 - it tells its steps on the standard output

import os
import sys
import time

os.environ["MAVLINK20"] = "1"
from pymavlink import mavutil

link = mavutil.mavlink_connection(f"udpin:127.0.0.1:{sys.argv[1]}")


def until(kind, condition=lambda m: True, limit=200.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        m = link.recv_match(type=kind, blocking=True, timeout=1.0)
        if m is not None and condition(m):
            return m
    raise SystemExit(f"waited {limit} s for {kind}")


def command(number, *params):
    link.mav.command_long_send(link.target_system, 1, number, 0, *params, *[0] * (7 - len(params)))
    assert until("COMMAND_ACK", lambda m: m.command == number, 10.0).result == 0, number


assert link.wait_heartbeat(timeout=30).type == 10
assert link.mode_mapping()["GUIDED"] == 15
print("ok connect")
home = until("HOME_POSITION")
until("EKF_STATUS_REPORT", lambda m: m.flags & 0x10)
items = [(0, 0), (0, 0), (700, 0), (700, 900)]
link.mav.mission_count_send(link.target_system, 1, len(items), 0)
while True:
    m = until(["MISSION_REQUEST", "MISSION_ACK"], limit=10.0)
    if m.get_type() == "MISSION_ACK":
        assert m.type == 0, m
        break
    north, east = items[m.seq]
    place = (home.latitude + north, home.longitude + east)
    link.mav.mission_item_int_send(link.target_system, 1, m.seq, 6, 16, 0, 1, 0, 0, 0, 0, *place, 0)
print("ok upload")
command(176, 1, link.mode_mapping()["GUIDED"])
command(400, 1)
print("ok arm")
command(176, 1, link.mode_mapping()["AUTO"])
for seq in (1, 2, 3):
    until("MISSION_ITEM_REACHED", lambda m, seq=seq: m.seq == seq)
print("ok mission")
