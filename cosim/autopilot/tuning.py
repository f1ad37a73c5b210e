"""Parameters that are the vehicle's own properties: shown as they are, and changed with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.vehicles import layout

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
}
_ROVER_ONLY = {"CRUISE_SPEED", "WP_RADIUS"}
_ACTIONS = {0: -1, 1: int(layout.LAND), 2: int(layout.RETURN)}  # BATT_FS_*_ACT: mode of the fleet
_CHARGE = {"BATT_LOW_MAH", "BATT_CRT_MAH", "BATT_FS_LOW_ACT", "BATT_FS_CRT_ACT", "BAT_LOW_THR", "BAT_CRIT_THR"}
_CHARGE |= {"BAT_EMERGEN_THR", "COM_LOW_BAT_ACT", "BATT_CAPACITY"}


def show_vehicle(pilot: Pilot) -> None:
    """Set the parameters that describe the vehicle to what it is."""
    frame, parameters = pilot.fleet.frames[pilot.row], pilot.parameters
    for name, (field, scale) in (_PX4 if pilot.persona.px4 else _ARDUPILOT).items():
        if name in parameters and (pilot.persona.frame == "rover" or name not in _ROVER_ONLY):
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
        parameters.set("BATT_CAPACITY", capacity)
        parameters.set("BATT_LOW_MAH", low * capacity)
        parameters.set("BATT_CRT_MAH", critical * capacity)
        parameters.set("BATT_FS_LOW_ACT", {value: key for key, value in _ACTIONS.items()}[action])
        parameters.set("FRAME_CLASS", 2 if pilot.persona.frame == "rover" else 1)


def tune_vehicle(pilot: Pilot, name: str) -> None:
    """Let the vehicle follow the parameter `name`; most have no effect."""
    frames, row, parameters = pilot.fleet.frames, pilot.row, pilot.parameters
    field = (_PX4 if pilot.persona.px4 else _ARDUPILOT).get(name)
    if field and parameters[name] > 0.0:
        frames[field[0]][row] = parameters[name] / field[1]
    elif name in _CHARGE and pilot.persona.px4:
        # PX4 warns when low, returns when critical, lands in an emergency
        frames["low"][row] = parameters["BAT_CRIT_THR"]
        frames["critical"][row] = parameters["BAT_EMERGEN_THR"] if parameters["COM_LOW_BAT_ACT"] else 0.0
        frames["low_action"][row] = {0: -1, 1: -1, 2: int(layout.LAND)}.get(
            int(parameters["COM_LOW_BAT_ACT"]), int(layout.RETURN)
        )
    elif name in _CHARGE:
        capacity = parameters["BATT_CAPACITY"]
        if name == "BATT_CAPACITY" and capacity > 0.0:
            frames["capacity"][row] = 3.6 * capacity
        else:
            capacity = float(frames["capacity"][row]) / 3.6
        lands = parameters["BATT_FS_CRT_ACT"] == 1
        frames["low"][row] = parameters["BATT_LOW_MAH"] / capacity
        frames["critical"][row] = parameters["BATT_CRT_MAH"] / capacity if lands else 0.0
        frames["low_action"][row] = _ACTIONS.get(int(parameters["BATT_FS_LOW_ACT"]), -1)
