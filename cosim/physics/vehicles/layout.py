"""The state of vehicles and what every field means, as record arrays with one row per vehicle.

Lengths in m (x east, y north, z up, of the scenario's origin), times in s, angles in rad (heading
clockwise from north), charge in C, electrical quantities in V, A, W, J.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cosim.compiled.compiling import codes

# What a vehicle is.
COPTER, SKID, ACKERMANN = codes(3)

# How a copter is moved: as a mass with a lag, as a rigid body, or as one by the physics of another program.
POINT, RIGID, ELSEWHERE = codes(3)

# Its mode. MANUAL keeps still; HOLD brakes and stays; the names of the others explain them.
(MANUAL, HOLD, TAKE_OFF, GO, VELOCITY, MISSION, RETURN, LAND, ATTITUDE, ACCELERATION, CIRCLE) = codes(11)
MODES: Final = (
    "manual", "hold", "take-off", "go", "velocity", "mission", "return", "land", "attitude", "acceleration", "circle",
)  # fmt: skip

# Why it stopped following its orders.
NONE, LOW, CRITICAL, EMPTY, FENCE = codes(5)
FAILSAFES: Final = ("none", "battery-low", "battery-critical", "battery-empty", "fence")

# What it ran into last.
GROUND, OBSTACLE, VEHICLE = codes(3)
STRUCK: Final = ("ground", "obstacle", "vehicle")

# What a waypoint asks for.
FLY, RISE, DESCEND, HOME, TURNS = codes(5)


def _record(reals: str, wholes: str) -> np.dtype[np.void]:
    return np.dtype([*((name, "f8") for name in reals.split()), *((name, "i8") for name in wholes.split())])


STATE = _record(
    "x y z vx vy vz "  # position, velocity over ground
    "roll pitch heading turn "  # attitude, rate of heading (rad/s)
    "ax ay az "  # m/s^2, what thrust or wheels give now, after their lag
    "charge voltage current power energy "  # left in the battery; at its terminals; used so far
    "target_x target_y target_z target_vx target_vy target_vz target_heading kept "  # NaN: along the way
    "lead_x lead_y lead_z target_until "  # velocity of a moving target; until when that, or a wanted velocity, holds
    "feed_x feed_y feed_z target_turn "  # wanted acceleration; rate of heading (rad/s), NaN: none
    "target_roll target_pitch "  # rad, in mode `attitude`; target_vz is the rate of climb
    "from_x from_y from_z leg_began next_began leg_top "  # leg with limited jerk: m; s, -1: none; m/s, -1: not so
    "old_x old_y old_z old_began "  # the leg before, which ends at from_*, while both overlap
    "circle_x circle_y circle_radius circle_speed turned "  # m, m/s (below 0: anticlockwise), rad flown round so far
    "home_x home_y home_z "
    "speed "  # horizontal, that it was ordered to keep; 0: its own
    "qw qx qy qz p q r t0 t1 t2 t3 "  # rigid bodies: attitude; copters: body rates (rad/s), rotor thrusts (N)
    "hold_until armed_at landed_at impact "  # s, s, s, m/s of the last touch down
    "fence_radius fence_top "  # of home; 0: none
    "hit_at hit_speed ",  # s, m/s of the last impact that was felt
    "mode armed landed crashed failsafe stopped stage "  # stage: 0 first, then what its mode or item has it go through
    "hits hit_what hit_other "  # impacts so far; the last one's obstacle or row of the vehicle, -1: ground
    "first_item items item reached done",  # its mission in the items; next and last reached item, all done
)

AIRFRAME = _record(
    "mass speed climb descent land_speed accel climb_accel jerk tilt lag yaw_rate "
    "drag drag2 "  # 1/s and 1/m: deceleration by air per speed and speed^2
    "gain radius return_height "  # 1/s of the position controller; m, a waypoint counts as reached
    "profile tip inflow efficiency idle "  # of `rotor_power`; what the rest draws, W
    "altitude temperature "  # m of the origin above the sea, K of the air there; 0 K: standard air at sea level
    "arm inertia_x inertia_y inertia_z rotor_lag torque thrust_ratio "  # m, kg m^2, s, m, most thrust per weight
    "rolling wheel_efficiency "  # coefficient of rolling resistance
    "wheelbase steer "  # m, rad (Ackermann)
    "body bears "  # m, radius of all of it; m/s, change of velocity by an impact from which on it is broken
    "capacity cells resistance low critical "  # C, number, ohm, fractions of the capacity
    "arming_delay spool_up return_hover disarm_after disarm_delay ground",  # s; m, height of the ground at home
    "kind rigid low_action",  # mode into which `low` changes; -1: none
)

# hold s at the waypoint, speed m/s from here on (0: as before); radius m (below 0: anticlockwise) and number of turns
ITEM = _record("x y z hold speed radius turns", "what")
