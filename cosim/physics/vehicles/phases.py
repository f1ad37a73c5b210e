"""What drones and tractors are about, and what is written down about an engagement."""

from __future__ import annotations

from typing import Final

import numpy as np

# A drone that is engaged and disengaged.
HOME_IDLE, ARMING, TAKEOFF, APPROACH, FOLLOW, RETURN, LANDING, FAILSAFE, ABORT = range(9)
# A vehicle that works.
PARKED, WORKING, TURNING, WAITING, DONE = range(9, 14)
STATES: Final = (
    "home-idle", "arming", "takeoff", "approach", "follow", "return", "landing", "failsafe", "abort",
    "parked", "working", "turning", "waiting", "done",
)  # fmt: skip

RUNNING, COMPLETED, ABORTED, FAILED = range(4)
OUTCOMES: Final = ("running", "completed", "aborted", "failed")

NOTHING, DISENGAGED, BATTERY, LINK_LOST, TARGET_DONE, FENCE, NODE_FAILED, CRASHED, REFUSED, UNHEARD = range(10)
REASONS: Final = (
    "none", "disengaged", "battery", "link-lost", "target-done", "fence", "node-failed", "crashed", "refused",
    "unheard",
)  # fmt: skip

# Phases whose energy is booked, by the state of the drone; FAILSAFE and ABORT count as `return`.
ENERGIES: Final = ("arming", "takeoff", "approach", "follow", "return", "landing")

# name -> unit, meaning; all are float64, NaN: it did not come to that
METRICS: Final = {
    "t_command": ("s", "the engage command was given"),
    "latency": ("s", "command given until the drone had it"),
    "wait": ("s", "until the drone was ready to arm: battery swap, landing of the flight before"),
    "t_arm": ("s", "arming"),
    "t_takeoff": ("s", "armed until the height of flight"),
    "t_approach": ("s", "from there to contact"),
    "t_engage": ("s", "command given until contact: within the radius of the stand-off point, to stay there"),
    "distance_command": ("m", "from home to the target when commanded"),
    "distance_contact": ("m", "from home to the target at contact"),
    "home_x": ("m", "home, east"),
    "home_y": ("m", "home, north"),
    "target_x": ("m", "target when commanded, east"),
    "target_y": ("m", "target when commanded, north"),
    "target_vx": ("m/s", "its velocity then, east"),
    "target_vy": ("m/s", "its velocity then, north"),
    "t_follow": ("s", "time in follow"),
    "error_mean": ("m", "distance from the true stand-off point in follow"),
    "error_p95": ("m", "95 % of the time it was less"),
    "error_max": ("m", "the most"),
    "separation": ("m", "least distance from the target in the air"),
    "coverage": ("m2", "area that its camera saw in follow"),
    "t_return": ("s", "from the order to return until above home"),
    "t_land": ("s", "from there, or from the order to land, until disarmed"),
    **{f"energy_{name}": ("J", f"from the battery, {name}") for name in ENERGIES},
    "charge_contact": ("1", "part of the battery's charge at contact"),
    "charge_landing": ("1", "when disarmed after landing"),
    "rssi": ("dBm", "mean of the link from the target in the air"),
    "delay": ("s", "its mean"),
    "loss": ("1", "its mean"),
    "age": ("s", "mean age of the target's last received position in approach and follow"),
}

# The row that is kept of an engagement.
RECORD: Final = np.dtype(
    [("pair", "i8"), ("number", "i8"), ("outcome", "i8"), ("reason", "i8"), *((name, "f8") for name in METRICS)]
)
