"""Parameters that are the vehicle's own properties: shown as they are, and changed with them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cosim.physics.vehicles import layout

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

# parameter: (field of AIRFRAME, field's unit in the parameter's)
_ARDUPILOT = {
    "WPNAV_SPEED": ("speed", 100.0),
    "WPNAV_SPEED_UP": ("climb", 100.0),
    "WPNAV_SPEED_DN": ("descent", 100.0),
    "WPNAV_ACCEL": ("accel", 100.0),
    "WPNAV_RADIUS": ("radius", 100.0),
    "LAND_SPEED": ("land_speed", 100.0),
    "RTL_ALT": ("return_height", 100.0),
    "DISARM_DELAY": ("disarm_delay", 1.0),
    "CRUISE_SPEED": ("speed", 1.0),
    "WP_SPEED": ("speed", 1.0),
    "WP_RADIUS": ("radius", 1.0),
}
_PX4 = {
    "MPC_XY_CRUISE": ("speed", 1.0),
    "MPC_Z_V_AUTO_UP": ("climb", 1.0),
    "MPC_Z_V_AUTO_DN": ("descent", 1.0),
    "MPC_ACC_HOR": ("accel", 1.0),
    "MPC_LAND_SPEED": ("land_speed", 1.0),
    "NAV_ACC_RAD": ("radius", 1.0),
    "RTL_RETURN_ALT": ("return_height", 1.0),
    "COM_DISARM_PRFLT": ("disarm_delay", 1.0),
    "COM_DISARM_LAND": ("disarm_after", 1.0),
}
# What ArduPilot decides and airframes leave open: the vehicle takes it from the parameter at start.
_TAKEN = {
    "WPNAV_ACCEL_Z": ("climb_accel", 100.0),
    "WPNAV_JERK": ("jerk", 1.0),
    "RTL_LOIT_TIME": ("return_hover", 1000.0),
}
# s, as a real ArduCopter 4.6 has them in software in the loop: motors wait after arming, the throttle rises, and after
# landing it makes sure that it stands.
_ARMING, _SPOOL, _LANDED = 2.0, 0.75, 2.7
_WIND = {"SIM_WIND_SPD", "SIM_WIND_DIR", "SIM_WIND_DIR_Z"}
_ROVER_ONLY = {"CRUISE_SPEED", "WP_RADIUS"}
_UNTIL = {"disarm_delay", "disarm_after"}  # s; a value of 0 or less: never
_ACTIONS = {0: -1, 1: int(layout.LAND), 2: int(layout.RETURN)}  # BATT_FS_*_ACT: mode of the fleet
_CHARGE = {"BATT_LOW_MAH", "BATT_CRT_MAH", "BATT_FS_LOW_ACT", "BATT_FS_CRT_ACT", "BAT_LOW_THR", "BAT_CRIT_THR"}
_CHARGE |= {"BAT_EMERGEN_THR", "COM_LOW_BAT_ACT", "BATT_CAPACITY", "BAT1_CAPACITY"}


def show_vehicle(pilot: Pilot, timed: bool) -> None:
    """Set the parameters that describe the vehicle to what it is; with `timed`, a copter takes a real one's times."""
    frame, parameters = pilot.fleet.frames[pilot.row], pilot.parameters
    for name, (field, scale) in (_PX4 if pilot.persona.px4 else _ARDUPILOT).items():
        if name in parameters and name != "WP_SPEED" and (pilot.persona.frame == "rover" or name not in _ROVER_ONLY):
            parameters.set(name, scale * float(frame[field]))
    capacity = float(frame["capacity"]) / 3.6  # mAh
    low, critical, action = float(frame["low"]), float(frame["critical"]), int(frame["low_action"])
    if pilot.persona.px4:
        parameters.set("BAT1_CAPACITY", capacity)
        parameters.set("BAT1_N_CELLS", float(frame["cells"]))
        parameters.set("BAT_LOW_THR", low)
        parameters.set("BAT_CRIT_THR", low)
        parameters.set("BAT_EMERGEN_THR", critical)
        parameters.set("COM_LOW_BAT_ACT", {-1: 0, int(layout.LAND): 2}.get(action, 3))
        parameters.set("MAV_TYPE", pilot.persona.kind)
    else:
        if pilot.persona.frame == "copter" and not timed:
            for name, (field, scale) in _TAKEN.items():
                parameters.set(name, scale * float(frame[field]))
        elif pilot.persona.frame == "copter":
            for name, (field, scale) in _TAKEN.items():
                frame[field] = parameters[name] / scale
            frame["arming_delay"], frame["spool_up"], frame["disarm_after"] = _ARMING, _SPOOL, _LANDED
        parameters.set("BATT_CAPACITY", capacity)
        parameters.set("BATT_LOW_MAH", low * capacity)
        parameters.set("BATT_CRT_MAH", critical * capacity)
        parameters.set("BATT_FS_LOW_ACT", {value: key for key, value in _ACTIONS.items()}[action])
        parameters.set("BATT_FS_CRT_ACT", 1 if critical > 0.0 else 0)
        parameters.set("FRAME_CLASS", 2 if pilot.persona.frame == "rover" else 1)


def tune_vehicle(pilot: Pilot, name: str) -> None:
    """Let the vehicle follow the parameter `name`; most have no effect."""
    frames, row, parameters = pilot.fleet.frames, pilot.row, pilot.parameters
    field = (_PX4 if pilot.persona.px4 else {**_ARDUPILOT, **_TAKEN}).get(name)
    known = parameters.table[name]
    if (field or name in _WIND or name.endswith("_CAPACITY")) and not known.low <= parameters[name] <= known.high:
        pilot.say(4, f"{name} out of range, not used")
        return
    if name.endswith("_CAPACITY") and parameters[name] > 0.0:
        frames["capacity"][row] = 3.6 * parameters[name]
        state = pilot.fleet.state  # a pack holds no more than its capacity
        state["charge"][row] = min(state["charge"][row], frames["capacity"][row])
    if name == "WP_SPEED" and parameters[name] <= 0.0:
        frames["speed"][row] = parameters["CRUISE_SPEED"]
    elif field and field[0] in _UNTIL and parameters[name] <= 0.0:
        frames[field[0]][row] = math.inf
    elif field and (parameters[name] > 0.0 or name == "RTL_LOIT_TIME"):
        frames[field[0]][row] = parameters[name] / field[1]
    elif name in _WIND:
        speed, rise = parameters["SIM_WIND_SPD"], math.radians(parameters["SIM_WIND_DIR_Z"])
        to = math.radians(parameters["SIM_WIND_DIR"] + 180.0)
        flat = speed * math.cos(rise)
        pilot.fleet.wind[row] = flat * math.sin(to), flat * math.cos(to), speed * math.sin(rise)
    elif name in _CHARGE and pilot.persona.px4:
        # PX4 warns when low, returns when critical, lands in an emergency
        frames["low"][row] = parameters["BAT_CRIT_THR"]
        frames["critical"][row] = parameters["BAT_EMERGEN_THR"] if parameters["COM_LOW_BAT_ACT"] else 0.0
        frames["low_action"][row] = {0: -1, 1: -1, 2: int(layout.LAND)}.get(
            int(parameters["COM_LOW_BAT_ACT"]), int(layout.RETURN)
        )
    elif name in _CHARGE:
        capacity = float(frames["capacity"][row]) / 3.6
        lands = parameters["BATT_FS_CRT_ACT"] == 1
        frames["low"][row] = parameters["BATT_LOW_MAH"] / capacity
        frames["critical"][row] = parameters["BATT_CRT_MAH"] / capacity if lands else 0.0
        frames["low_action"][row] = _ACTIONS.get(int(parameters["BATT_FS_LOW_ACT"]), -1)
