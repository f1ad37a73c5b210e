"""The persona against a real ArduCopter 4.6 on our physics: the times of one flight, without wind."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.unit.autopilot.wire import station

CORNERS = [(0.0, 0.0, 20.0), (150.0, 0.0, 20.0), (150.0, 150.0, 20.0), (0.0, 150.0, 30.0), (-50.0, 50.0, 30.0)]
STAYS = (0.0, 3.0, 0.0, 3.0)


def off(point):
    """m from the lines between the corners."""
    found = []
    for a, b in zip(np.array(CORNERS), np.array(CORNERS[1:]), strict=False):
        along = np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
        found.append(float(np.linalg.norm(point - a - along * (b - a))))
    return min(found)


def fly():
    """The flight of the reference: 20 m up, 120 m north and back, four waypoints, and home."""
    s = station()
    row, reported = s.fleet.state[0], {}
    s.run(1.0)
    assert s.command(176, 1, 4) == 0
    assert s.command(400, 1) == 0
    s.run(0.3)
    begun = s.fleet.now
    assert s.command(22, 0, 0, 0, 0, 0, 0, 20.0) == 0
    reported["off the ground"] = s.until(lambda v: v.z > 0.2)
    s.until(lambda v: v.z > 19.0)
    reported["19 m"] = s.fleet.now - begun
    s.run(6.0)
    for name, north in (("out", 120.0), ("back", 0.0)):
        x, y, z = s.place(0.0, north, 20.0)
        s.send("set_position_target_global_int", 0, 1, 1, 6, 0xFF8, x, y, z, *[0.0] * 8)
        reported[name] = s.until(lambda v, north=north: abs(v.y - north) < 1.0)
        s.run(24.0 - reported[name])
    goals = zip(CORNERS[1:], STAYS, strict=True)
    home = (0, 16, 0, 0, 0, 0, *s.place(0, 0))
    assert s.upload([home, *((3, 16, stay, 0, 0, 0, *s.place(*goal)) for goal, stay in goals)]) == 0
    s.run(1.0)
    first = last = s.fleet.now
    assert s.command(176, 1, 3) == 0
    seen, leg = [], 0
    while leg < 4:
        for m in s.run(0.1):
            if m.get_type() == "MISSION_ITEM_REACHED":
                leg = m.seq
                reported[f"leg {leg}"], last = s.fleet.now - last, s.fleet.now
        seen.append((off(np.array([row["x"], row["y"], row["z"]])), math.hypot(row["vx"], row["vy"])))
        if leg == 1 and seen[-1][1] > 9.99:
            reported["braking"] = 150.0 - float(row["y"])  # m before the end of leg 2
    reported["mission"] = s.fleet.now - first
    reported["from the lines"], reported["cruise"] = (max(column) for column in zip(*seen, strict=True))
    first = s.fleet.now
    assert s.command(20) == 0
    for name, reached in (
        ("2 m of home", lambda v: math.hypot(v.x, v.y) < 2.0), ("sinks", lambda v: v.vz < -0.2),
        ("on the ground", lambda v: v.landed), ("disarmed", lambda v: not v.armed),
    ):  # fmt: skip
        s.until(reached)
        reported[name] = s.fleet.now - first
    reported["flight"] = s.fleet.now - begun
    reported["charge"] = float(s.fleet.frames["capacity"][0] - row["charge"]) / 3.6  # mAh
    return reported


def test_the_flight_takes_the_time_of_a_real_one():
    real = {
        "off the ground": 3.4, "19 m": 12.2, "out": 16.3, "back": 16.3, "cruise": 10.06, "leg 1": 19.4, "leg 2": 22.5,
        "leg 3": 19.8, "leg 4": 18.6, "mission": 80.3, "2 m of home": 12.5, "sinks": 20.4, "on the ground": 54.7,
        "disarmed": 57.4, "flight": 207.0,
    }  # fmt: skip
    reported = fly()
    assert reported.pop("from the lines") <= 2.0
    assert reported.pop("braking") == pytest.approx(33.1, rel=0.1)
    # the real one was flown by an older law of power
    assert reported.pop("charge") == pytest.approx(566.0, rel=0.08)
    assert reported == pytest.approx(real, rel=0.05)
