"""MAV_CMD commands, by COMMAND_LONG and COMMAND_INT."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from cosim.autopilot.dialect import Message, mavlink
from cosim.autopilot.geodesy import Place

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = range(5)  # MAV_RESULT
_FORCE = 21196  # param2 of an arming command that passes the checks
_ABSOLUTE = {mavlink.MAV_FRAME_GLOBAL, mavlink.MAV_FRAME_GLOBAL_INT}


Handler = Callable[["Autopilot", "Order"], int]


class Order(NamedTuple):
    """A command in one form, whichever message it came by."""

    command: int
    p: tuple[float, float, float, float]  # param1 to param4
    latitude: float  # deg, or param5
    longitude: float  # deg, or param6
    z: float
    frame: int | None  # MAV_FRAME of a COMMAND_INT
    link: Hashable


def read(message: Message, link: Hashable) -> Order:
    """The order in a COMMAND_LONG or COMMAND_INT."""
    p = (message.param1, message.param2, message.param3, message.param4)
    if message.get_type() == "COMMAND_INT":
        return Order(message.command, p, message.x / 1e7, message.y / 1e7, message.z, message.frame, link)
    return Order(message.command, p, message.param5, message.param6, message.param7, None, link)


def whole(value: float) -> int:
    """The integer that a float field stands for; clients put NaN where they mean nothing."""
    return round(value) if math.isfinite(value) else 0


def execute(a: Autopilot, order: Order) -> int:
    """Do what is ordered; the MAV_RESULT. What is refused is said, too."""
    handler = HANDLERS[a.pilot.persona.px4].get(order.command)
    return UNSUPPORTED if handler is None else handler(a, order)


def _told(a: Autopilot, reason: str | None) -> int:
    if reason is None:
        return ACCEPTED
    a.pilot.say(4, reason[:50])
    return FAILED


def _arm(a: Autopilot, order: Order) -> int:
    force = whole(order.p[1]) == _FORCE
    if not order.p[0] >= 0.5:
        return _told(a, a.pilot.disarm(force))
    reason = a.pilot.arm(force)
    if reason is None:
        return ACCEPTED
    for text in a.pilot.objections() or [reason]:
        a.pilot.say(2, f"{'Preflight Fail' if a.pilot.persona.px4 else 'PreArm'}: {text}"[:50])
    return TEMPORARILY_REJECTED if a.pilot.persona.px4 else FAILED


def _mode(a: Autopilot, order: Order) -> int:
    number = whole(order.p[1])
    if not whole(order.p[0]) & mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED:
        return DENIED
    if a.pilot.persona.px4:
        number = number << 16 | whole(order.p[2]) << 24
    name = a.pilot.persona.named(number)
    if name is None:
        return DENIED
    return _told(a, a.pilot.set_mode(name))


def _take_off(a: Autopilot, order: Order) -> int:
    height = order.z
    if a.pilot.persona.px4:  # above the sea, or NaN for the parameter's height
        if math.isfinite(height) and height != 0.0:
            height -= a.pilot.home_place().altitude
        else:
            height = a.parameters["MIS_TAKEOFF_ALT"]
    return _told(a, a.pilot.take_off(height))


def _land(a: Autopilot, _: Order) -> int:
    if "LAND" not in a.pilot.persona.modes or a.pilot.persona.frame == "rover":
        return UNSUPPORTED
    return _told(a, a.pilot.set_mode("LAND"))


def _return(a: Autopilot, _: Order) -> int:
    return _told(a, a.pilot.set_mode("RTL"))


def _start_mission(a: Autopilot, order: Order) -> int:
    pilot = a.pilot
    if pilot.mission.refusal(landed=False):
        return _told(a, "Mission: no mission")
    if not pilot.look().armed:
        return _told(a, "Mission: not armed")
    first = whole(order.p[0])
    name = pilot.persona.doing("mission")
    if pilot.mode == name:
        pilot.mission.start()
    result = _told(a, pilot.set_mode(name))
    if result == ACCEPTED and first > pilot.persona.first_item:
        pilot.mission.jump(first)
    return result


def _speed(a: Autopilot, order: Order) -> int:
    """Speed over ground (type 0, 1), of climbing (2) or of sinking (3); PX4 knows the first only."""
    kind, speed = whole(order.p[0]), order.p[1]
    frames, row = a.pilot.fleet.frames, a.pilot.row
    if speed == -1.0 and a.pilot.persona.px4:  # as before
        return ACCEPTED
    if not 0.0 < speed < math.inf or kind not in (0, 1, 2, 3):
        return DENIED if a.pilot.persona.px4 else FAILED
    if kind in (0, 1):
        a.pilot.fleet.set_speed([row], speed)
    elif a.pilot.persona.px4 or a.pilot.persona.frame == "rover":
        return DENIED
    else:
        frames["climb" if kind == 2 else "descent"][row] = speed
    return ACCEPTED


def _reposition(a: Autopilot, order: Order) -> int:
    pilot = a.pilot
    if order.frame is None and not pilot.persona.px4:
        return UNSUPPORTED  # ArduPilot takes it as COMMAND_INT only
    if pilot.behaviour != "guided" or (pilot.persona.px4 and pilot.mode != "HOLD"):
        if not whole(order.p[1]) & 1:
            return DENIED
        reason = pilot.set_mode(pilot.persona.doing("guided"))
        if reason:
            return _told(a, reason)
    v = pilot.look()
    here = pilot.ground.place(v.x, v.y, v.z)
    latitude = order.latitude if math.isfinite(order.latitude) else here.latitude
    longitude = order.longitude if math.isfinite(order.longitude) else here.longitude
    z = order.z if math.isfinite(order.z) else here.altitude
    # without a frame heights are above the sea
    if math.isfinite(order.z) and order.frame is not None and order.frame not in _ABSOLUTE:
        z += pilot.home_place().altitude
    if 0.0 < order.p[0] < math.inf:
        pilot.fleet.set_speed([pilot.row], order.p[0])
    yaw = order.p[3] if math.isfinite(order.p[3]) else None
    reason = pilot.go(pilot.ground.local(Place(latitude, longitude, z)), None, yaw)
    if reason:
        pilot.say(4, f"Reposition: {reason}"[:50])
    return DENIED if reason else ACCEPTED


def _yaw(a: Autopilot, order: Order) -> int:
    angle = math.radians(order.p[0])
    if not math.isfinite(angle):
        return DENIED
    if order.p[3] != 0.0:  # relative, in the direction of param3
        angle = a.pilot.look().heading + (angle if order.p[2] >= 0.0 else -angle)
    a.pilot.fleet.face([a.pilot.row], angle)
    return ACCEPTED


def _set_home(a: Autopilot, order: Order) -> int:
    if whole(order.p[0]) == 1 or (not a.pilot.persona.px4 and not (order.latitude or order.longitude)):
        v = a.pilot.look()
        point = (v.x, v.y, v.z)
    elif abs(order.latitude) <= 90.0 and abs(order.longitude) <= 180.0 and (order.latitude or order.longitude):
        z = order.z if math.isfinite(order.z) else a.pilot.home_place().altitude
        if order.frame is not None and order.frame not in _ABSOLUTE:
            z += a.pilot.home_place().altitude
        point = a.pilot.ground.local(Place(order.latitude, order.longitude, z))
    else:
        return DENIED
    a.pilot.set_home(point)
    a.send_now(242)
    return ACCEPTED


def _current(a: Autopilot, order: Order) -> int:
    return ACCEPTED if a.pilot.mission.jump(whole(order.p[0])) else DENIED


def _pause(a: Autopilot, order: Order) -> int:
    """DO_PAUSE_CONTINUE: hold, or go on with the mission."""
    if a.pilot.look().landed and a.pilot.persona.frame == "copter" and not a.pilot.persona.px4:
        return _told(a, "Failed to resume" if order.p[0] else "Failed to pause")
    name = a.pilot.persona.doing("mission") if order.p[0] else a.pilot.persona.hold
    return _told(a, a.pilot.set_mode(name))


def _fence(a: Autopilot, order: Order) -> int:
    if a.pilot.persona.px4 or whole(order.p[0]) not in (0, 1, 2):
        return UNSUPPORTED
    if whole(order.p[0]) == 2:  # no floor is flown, so that it is off
        return ACCEPTED
    a.parameters.set("FENCE_ENABLE", order.p[0])
    return ACCEPTED


def _interval(a: Autopilot, order: Order) -> int:
    message, period = whole(order.p[0]), order.p[1]
    if message == 0:
        return ACCEPTED  # heartbeats keep their rate
    if not a.knows(message):
        return UNSUPPORTED if a.pilot.persona.px4 else _denied(a, f"No ap_message for mavlink id ({message})")
    a.set_rate(message, None if period == 0.0 else 1e6 / period if period > 0.0 else 0.0)
    return ACCEPTED


def _tell_interval(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    if not 0 <= message <= 65535:
        return UNSUPPORTED
    rate = a.streams.rates.get(message, 0.0)
    period = round(1e6 / rate) if rate > 0.0 else -1 if a.knows(message) else 0
    a.reply(order.link, mavlink.MAVLink_message_interval_message(message, period))
    return ACCEPTED


def _request(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    # ArduPilot has terrain to report only where it flies by it
    if not a.knows(message) or (message == mavlink.MAVLINK_MSG_ID_TERRAIN_REPORT and not a.pilot.persona.px4):
        return UNSUPPORTED if a.pilot.persona.px4 else FAILED
    return ACCEPTED if a.send_now(message, order.link) else DENIED


def _tell(message: int) -> Callable[[Autopilot, Order], int]:
    def send(a: Autopilot, order: Order) -> int:
        a.send_now(message, order.link)
        return ACCEPTED

    return send


def _deny(_: Autopilot, __: Order) -> int:
    return DENIED


def _denied(a: Autopilot, text: str) -> int:
    a.pilot.say(4, text[:50])
    return DENIED


def _fail(_: Autopilot, __: Order) -> int:
    return FAILED


def _fail_saying(*texts: str) -> Handler:
    def say(a: Autopilot, _: Order) -> int:
        for text in texts:
            a.pilot.say(4, text)
        return FAILED

    return say


def _nothing(on: tuple[float, ...] = (1.0,)) -> Handler:
    """Equipment that is not there: refused, unless it is to be off."""

    def answer(_: Autopilot, order: Order) -> int:
        return FAILED if order.p[0] in on or not math.isfinite(order.p[0]) else ACCEPTED

    return answer


def _loiter(a: Autopilot, _: Order) -> int:
    return _told(a, a.pilot.set_mode(a.pilot.persona.hold))


def _follow(a: Autopilot, order: Order) -> int:
    """DO_FOLLOW: whom FOLLOW follows."""
    system = whole(order.p[0])
    if not a.parameters.get("FOLL_ENABLE") or not 0 < system < 256:
        return DENIED
    a.parameters.set("FOLL_SYSID", system)
    return ACCEPTED


def _terminate(a: Autopilot, order: Order) -> int:
    """DO_FLIGHTTERMINATION: the motors stop, wherever it is."""
    if not order.p[0] > 0.5:
        return FAILED
    a.pilot.say(0, "Terminating due to GCS request")
    a.pilot.cut()
    return ACCEPTED


def _relay(a: Autopilot, order: Order) -> int:
    return ACCEPTED if a.equipment.set_relay(whole(order.p[0]), whole(order.p[1]) != 0) else FAILED


def _repeat_relay(a: Autopilot, order: Order) -> int:
    done = a.equipment.flip_relay(whole(order.p[0]), whole(order.p[1]), order.p[2])
    return ACCEPTED if done else FAILED


def _region(a: Autopilot, order: Order) -> int:
    """DO_SET_ROI and DO_SET_ROI_LOCATION: look there; nowhere when no place is named."""
    if order.latitude == 0.0 and order.longitude == 0.0:
        return _no_region(a, order)
    if not (abs(order.latitude) <= 90.0 and abs(order.longitude) <= 180.0):
        return DENIED
    a.equipment.look_at(Place(order.latitude, order.longitude, 0.0))
    return ACCEPTED


def _no_region(a: Autopilot, _: Order) -> int:
    a.equipment.look_at(None)
    return ACCEPTED


def _region_system(a: Autopilot, order: Order) -> int:
    a.equipment.look_at(None, whole(order.p[0]) & 255)
    return ACCEPTED


def _camera(a: Autopilot, order: Order) -> int:
    """DO_DIGICAM_CONTROL: param5 takes a picture; there is no zoom, focus or shutter to set."""
    if any(value not in (0.0, 1.0) and math.isfinite(value) for value in order.p):
        return DENIED
    if order.latitude == 1.0:
        a.equipment.shoot()
    return ACCEPTED


def _pictures(a: Autopilot, order: Order) -> int:
    """IMAGE_START_CAPTURE: one picture; series by time are refused."""
    if whole(order.p[2]) != 1:
        return FAILED
    a.equipment.shoot()
    return ACCEPTED


def _picture_distance(a: Autopilot, order: Order) -> int:
    if not 0.0 <= order.p[0] < math.inf:
        return DENIED
    a.equipment.every = order.p[0]
    if whole(order.p[2]) == 1:
        a.equipment.shoot()
    return ACCEPTED


def _no_pictures(a: Autopilot, _: Order) -> int:
    a.equipment.every = 0.0
    return ACCEPTED


def _motor_test(a: Autopilot, _: Order) -> int:
    if a.pilot.look().armed:
        return _told(a, "Motor Test: vehicle is armed")
    a.pilot.say(5, "starting motor test")
    a.pilot.say(5, "finished motor test")
    return ACCEPTED


def _checks(a: Autopilot, _: Order) -> int:
    if a.pilot.look().armed:
        return TEMPORARILY_REJECTED
    for text in a.pilot.objections():
        a.pilot.say(2, f"PreArm: {text}"[:50])
    return ACCEPTED


def _safety(a: Autopilot, order: Order) -> int:
    """DO_SET_SAFETY_SWITCH_STATE: 0 keeps the motors off, 1 frees them."""
    if whole(order.p[0]) not in (0, 1) or a.pilot.look().armed:
        return FAILED
    a.equipment.safe = whole(order.p[0]) == 0
    return ACCEPTED


def _battery(a: Autopilot, order: Order) -> int:
    """BATTERY_RESET of the batteries in the mask param1 to param2 %: a fresh pack, on the ground."""
    if not whole(order.p[0]) & 1:
        return ACCEPTED
    done = 0.0 <= order.p[1] <= 100.0 and bool(a.pilot.fleet.recharge([a.pilot.row], order.p[1] / 100.0)[0])
    return ACCEPTED if done else FAILED


def _banner(a: Autopilot, _: Order) -> int:
    a.pilot.say(6, f"Ardu{a.pilot.persona.frame.title()} V4.6.0-dev (emulated by cosim)")
    a.pilot.say(6, "Frame: QUAD/PLUS")
    return ACCEPTED


def _capabilities(a: Autopilot, order: Order) -> int:
    if whole(order.p[0]) != 1 and not a.pilot.persona.px4:
        return FAILED
    a.send_now(mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION, order.link)
    return ACCEPTED


def _latency(a: Autopilot, order: Order) -> int:
    if whole(order.p[0]):
        return FAILED
    a.pilot.say(6, "High Latency disabled")
    return ACCEPTED


def _calibrate(a: Autopilot, order: Order) -> int:
    """Sensors without error are calibrated at once; clients wait for PX4's texts."""
    names = [name for k, name in ((0, "gyro"), (1, "mag"), (3, "level")) if order.p[k] == 1.0]
    if order.latitude == 1.0:  # param5
        names.append("accel")
    for name in names if a.pilot.persona.px4 else ():
        for text in (f"calibration started: 2 {name}", "progress <100>", f"calibration done: {name}"):
            a.pilot.say(6, f"[cal] {text}")
    return ACCEPTED


# What both autopilots know.
_COMMON: dict[int, Handler] = {
    mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH: _return,
    mavlink.MAV_CMD_NAV_LAND: _land,
    mavlink.MAV_CMD_NAV_TAKEOFF: _take_off,
    mavlink.MAV_CMD_DO_SET_MODE: _mode,
    mavlink.MAV_CMD_DO_CHANGE_SPEED: _speed,
    mavlink.MAV_CMD_DO_SET_HOME: _set_home,
    mavlink.MAV_CMD_DO_FLIGHTTERMINATION: _terminate,
    mavlink.MAV_CMD_DO_REPOSITION: _reposition,
    mavlink.MAV_CMD_DO_PAUSE_CONTINUE: _pause,
    mavlink.MAV_CMD_DO_SET_ROI_LOCATION: _region,
    mavlink.MAV_CMD_DO_SET_ROI_NONE: _no_region,
    mavlink.MAV_CMD_DO_SET_ROI: _region,
    mavlink.MAV_CMD_DO_DIGICAM_CONTROL: _camera,
    mavlink.MAV_CMD_DO_MOUNT_CONTROL: _fail,
    mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST: _picture_distance,
    mavlink.MAV_CMD_DO_SET_MISSION_CURRENT: _current,
    mavlink.MAV_CMD_PREFLIGHT_CALIBRATION: _calibrate,
    mavlink.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN: _deny,
    mavlink.MAV_CMD_MISSION_START: _start_mission,
    mavlink.MAV_CMD_COMPONENT_ARM_DISARM: _arm,
    mavlink.MAV_CMD_GET_HOME_POSITION: _tell(mavlink.MAVLINK_MSG_ID_HOME_POSITION),
    mavlink.MAV_CMD_GET_MESSAGE_INTERVAL: _tell_interval,
    mavlink.MAV_CMD_SET_MESSAGE_INTERVAL: _interval,
    mavlink.MAV_CMD_REQUEST_MESSAGE: _request,
    mavlink.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: _capabilities,
    mavlink.MAV_CMD_IMAGE_START_CAPTURE: _pictures,
    mavlink.MAV_CMD_IMAGE_STOP_CAPTURE: _no_pictures,
}
# What ArduPilot knows besides. Those that fail are of equipment or settings that are not there.
_ARDUPILOT: dict[int, Handler] = {
    mavlink.MAV_CMD_NAV_LOITER_UNLIM: _loiter,
    mavlink.MAV_CMD_DO_FOLLOW: _follow,
    mavlink.MAV_CMD_NAV_VTOL_TAKEOFF: _take_off,
    mavlink.MAV_CMD_NAV_VTOL_LAND: _land,
    mavlink.MAV_CMD_CONDITION_YAW: _yaw,
    mavlink.MAV_CMD_DO_SET_RELAY: _relay,
    mavlink.MAV_CMD_DO_REPEAT_RELAY: _repeat_relay,
    mavlink.MAV_CMD_DO_SET_SERVO: _fail,
    mavlink.MAV_CMD_DO_REPEAT_SERVO: _fail,
    mavlink.MAV_CMD_DO_LAND_START: _fail_saying("Unable to start landing sequence"),
    mavlink.MAV_CMD_DO_SET_ROI_SYSID: _region_system,
    mavlink.MAV_CMD_DO_MOUNT_CONFIGURE: _fail,
    mavlink.MAV_CMD_DO_FENCE_ENABLE: _fence,
    mavlink.MAV_CMD_DO_PARACHUTE: _nothing((1.0, 2.0)),
    mavlink.MAV_CMD_DO_MOTOR_TEST: _motor_test,
    mavlink.MAV_CMD_DO_GRIPPER: _fail,
    mavlink.MAV_CMD_DO_SPRAYER: _nothing(),
    mavlink.MAV_CMD_DO_AUX_FUNCTION: _fail_saying("Auxiliary functions are not emulated"),
    mavlink.MAV_CMD_PREFLIGHT_STORAGE: _deny,
    mavlink.MAV_CMD_RUN_PREARM_CHECKS: _checks,
    mavlink.MAV_CMD_START_RX_PAIR: _fail,
    mavlink.MAV_CMD_SET_CAMERA_FOCUS: _deny,
    mavlink.MAV_CMD_SET_CAMERA_SOURCE: _deny,
    mavlink.MAV_CMD_DO_JUMP_TAG: _fail_saying("There is no such tag"),
    mavlink.MAV_CMD_DO_GIMBAL_MANAGER_PITCHYAW: _fail,
    mavlink.MAV_CMD_DO_GIMBAL_MANAGER_CONFIGURE: _fail,
    mavlink.MAV_CMD_VIDEO_START_CAPTURE: _fail,
    mavlink.MAV_CMD_VIDEO_STOP_CAPTURE: _fail,
    mavlink.MAV_CMD_CONTROL_HIGH_LATENCY: _latency,
    mavlink.MAV_CMD_DO_SET_SAFETY_SWITCH_STATE: _safety,
    mavlink.MAV_CMD_DO_ADSB_OUT_IDENT: _fail,
    mavlink.MAV_CMD_CAN_FORWARD: _nothing((1.0, 2.0)),
    mavlink.MAV_CMD_FIXED_MAG_CAL_YAW: _nothing(()),  # a compass without error
    mavlink.MAV_CMD_SET_EKF_SOURCE_SET: _deny,
    mavlink.MAV_CMD_DO_ACCEPT_MAG_CAL: _fail,
    mavlink.MAV_CMD_DO_CANCEL_MAG_CAL: _nothing(()),  # none is under way
    mavlink.MAV_CMD_DO_SEND_BANNER: _banner,
    mavlink.MAV_CMD_BATTERY_RESET: _battery,
    mavlink.MAV_CMD_DEBUG_TRAP: _deny,
}
HANDLERS: dict[bool, dict[int, Handler]] = {True: _COMMON, False: {**_COMMON, **_ARDUPILOT}}  # by: whether it is PX4
