"""MAV_CMD commands, by COMMAND_LONG and COMMAND_INT."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from cosim.autopilot.dialect import Message, mavlink, numbers
from cosim.autopilot.flight import TERRAIN
from cosim.autopilot.geodesy import Place

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

ACCEPTED, TEMPORARILY_REJECTED, DENIED, UNSUPPORTED, FAILED = range(5)  # MAV_RESULT
_FORCE_ARM, _FORCE_DISARM = 2989, 21196  # param2 that passes the checks: the first to arm only, the other to do both
_FRAMES = {  # of places; the first two: above the sea
    *numbers("GLOBAL GLOBAL_INT GLOBAL_RELATIVE_ALT GLOBAL_RELATIVE_ALT_INT", "MAV_FRAME"), *TERRAIN,
}  # fmt: skip
_ABSOLUTE = {mavlink.MAV_FRAME_GLOBAL, mavlink.MAV_FRAME_GLOBAL_INT}
_FARTHEST = 50_000.0  # m from the origin at which ArduPilot takes a home
_ITEM_FRAMES = {False: _FRAMES, True: _FRAMES | {mavlink.MAV_FRAME_MISSION}}  # of orders, and of items of missions
_NOWHERE = 2**31 - 1  # of a COMMAND_INT that names no place
_HIGH = {  # commands with a place, whose height is relative to the frame's reference
    mavlink.MAV_CMD_DO_REPOSITION, mavlink.MAV_CMD_DO_SET_HOME, mavlink.MAV_CMD_DO_ORBIT,
    mavlink.MAV_CMD_DO_SET_ROI, mavlink.MAV_CMD_DO_SET_ROI_LOCATION,
}  # fmt: skip
# Required parameters of commands, by their index: a value that is no number is refused.
_NEEDED: dict[int, tuple[int, ...]] = {
    number: needed
    for needed, names in {
        (0,): "DO_FOLLOW DO_SET_HOME DO_FLIGHTTERMINATION DO_PAUSE_CONTINUE DO_SET_ROI_SYSID DO_FENCE_ENABLE "
        "DO_SET_MISSION_CURRENT GET_MESSAGE_INTERVAL REQUEST_MESSAGE DO_SET_SAFETY_SWITCH_STATE",
        (1,): "DO_REPOSITION",
        (0, 1): "DO_SET_MODE DO_CHANGE_SPEED DO_SET_RELAY SET_MESSAGE_INTERVAL BATTERY_RESET",
        (0, 3): "CONDITION_YAW",
        (0, 1, 2): "DO_REPEAT_RELAY",
        (0, 1, 2, 3): "DO_MOTOR_TEST",
    }.items()
    for number in numbers(names, "MAV_CMD")
}

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
        x, y = (math.nan,) * 2 if message.x == message.y == _NOWHERE else (message.x / 1e7, message.y / 1e7)
        return Order(message.command, p, x, y, message.z, message.frame, link)
    return Order(message.command, p, message.param5, message.param6, message.param7, None, link)


def whole(value: float) -> int:
    """The integer that a float field stands for; clients put NaN where they mean nothing."""
    return round(value) if math.isfinite(value) else 0


def execute(a: Autopilot, order: Order) -> int:
    """Carry out an order and return its MAV_RESULT. Refusals are reported as texts, too."""
    persona = a.pilot.persona
    handler = HANDLERS[persona.px4].get(order.command)
    if handler is None or (order.command in _COPTERS and persona.frame == "rover" and not persona.px4):
        return UNSUPPORTED
    if order.link is not None and not all(math.isfinite(order.p[k]) for k in _NEEDED.get(order.command, ())):
        return DENIED  # items of missions may have NaN where they mean nothing
    if order.command in _HIGH and order.frame is not None and order.frame not in _ITEM_FRAMES[order.link is None]:
        return DENIED
    if order.frame in TERRAIN and order.command in _HIGH and a.pilot.fleet.terrain is not None:
        a.pilot.say(4, f"Command {order.command}: frame {order.frame}, terrain is not followed"[:50])
        return DENIED
    return handler(a, order)


def _somewhere(order: Order) -> bool:
    """Whether the order names a place on Earth; 0, 0 is none."""
    return (
        abs(order.latitude) <= 90.0
        and abs(order.longitude) <= 180.0
        and (order.latitude != 0.0 or order.longitude != 0.0)
    )


def _refusal_result(a: Autopilot, reason: str | None) -> int:
    if reason is None:
        return ACCEPTED
    a.pilot.say(4, reason[:50])
    return FAILED


def _arm(a: Autopilot, order: Order) -> int:
    px4 = a.pilot.persona.px4
    if not math.isfinite(order.p[0]):
        return UNSUPPORTED
    action = math.floor(order.p[0] + 0.5) if px4 else order.p[0]
    if action not in (0, 1):
        return UNSUPPORTED
    if action == 0:
        result = _refusal_result(a, a.pilot.disarm(whole(order.p[1]) == _FORCE_DISARM))
        return TEMPORARILY_REJECTED if px4 and result == FAILED else result
    # PX4 skips no checks at the request of another system
    return _armed(a, not px4 and whole(order.p[1]) in (_FORCE_ARM, _FORCE_DISARM))


def _armed(a: Autopilot, force: bool = False) -> int:
    """Arm, or report every objection."""
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
    return _refusal_result(a, a.pilot.set_mode(name))


def _take_off(a: Autopilot, order: Order) -> int:
    height = order.z
    if not a.pilot.persona.px4 and order.frame not in (None, mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT):
        return DENIED
    if a.pilot.persona.px4:  # above the sea, or NaN for the parameter's height
        if math.isfinite(height) and height != 0.0:
            height -= a.pilot.home_place().altitude
        else:
            height = a.parameters["MIS_TAKEOFF_ALT"]
    return _refusal_result(a, a.pilot.take_off(height))


def _land(a: Autopilot, _: Order) -> int:
    if "LAND" not in a.pilot.persona.modes or a.pilot.persona.frame == "rover":
        return UNSUPPORTED
    return _refusal_result(a, a.pilot.set_mode("LAND"))


def _return(a: Autopilot, _: Order) -> int:
    return _refusal_result(a, a.pilot.set_mode("RTL"))


def _start_mission(a: Autopilot, order: Order) -> int:
    """MISSION_START: PX4 arms for it and takes a first item, ArduPilot neither."""
    pilot, px4 = a.pilot, a.pilot.persona.px4
    if not px4 and (order.p[0] != 0.0 or order.p[1] != 0.0):
        return DENIED
    if pilot.mission.refusal(landed=False):
        _refusal_result(a, "Mission: no mission")
        return DENIED if px4 else FAILED
    if px4 and not -1.0 <= order.p[0] < len(pilot.mission.items):
        return DENIED
    if not px4 and not pilot.look().armed:
        return _refusal_result(a, "Mission: not armed")
    name = pilot.persona.doing("mission")
    if pilot.mode == name and pilot.look().armed:
        pilot.mission.start()
    result = _refusal_result(a, pilot.set_mode(name))
    if px4 and result == ACCEPTED and not pilot.look().armed:
        result = _armed(a)
    if result == ACCEPTED and whole(order.p[0]) > pilot.persona.first_item:
        pilot.mission.jump(whole(order.p[0]))
    return TEMPORARILY_REJECTED if px4 and result == FAILED else result


def _speed(a: Autopilot, order: Order) -> int:
    """Speed over ground (type 0, 1), of climbing (2) or of sinking (3); PX4 knows the first only."""
    kind, speed = whole(order.p[0]), order.p[1]
    frames, row = a.pilot.fleet.frames, a.pilot.row
    ardurover = a.pilot.persona.frame == "rover" and not a.pilot.persona.px4
    if ardurover and order.link is not None and a.pilot.behaviour not in ("guided", "mission", "return", "follow"):
        return FAILED
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
    pilot, px4 = a.pilot, a.pilot.persona.px4
    flags = whole(order.p[1])
    if px4:
        if flags != 1:  # PX4 does it in HOLD only, so it has to be given leave
            return UNSUPPORTED
    elif order.frame is None:
        return UNSUPPORTED  # ArduPilot takes it as COMMAND_INT only
    elif pilot.behaviour != "guided" and not flags & 1:
        return DENIED
    v = pilot.look()
    here = pilot.ground.place(v.x, v.y, v.z)
    nowhere = math.isnan(order.latitude) and math.isnan(order.longitude)
    if not _somewhere(order) and not (px4 and nowhere):  # PX4: where it is
        return DENIED
    if not math.isfinite(order.z) and not (px4 and math.isnan(order.z)):
        return DENIED
    if pilot.behaviour != "guided" or (px4 and pilot.mode != "HOLD"):
        reason = pilot.set_mode(pilot.persona.doing("guided"))
        if reason:
            return _refusal_result(a, reason)
    latitude, longitude = (here.latitude, here.longitude) if nowhere else (order.latitude, order.longitude)
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


def _orbit(a: Autopilot, order: Order) -> int:
    """DO_ORBIT of PX4: round a place, or round where it is; the nose to the centre (param3 0) or along the way (3)."""
    pilot, v = a.pilot, a.pilot.look()
    if pilot.persona.frame == "rover":
        return UNSUPPORTED
    nowhere = math.isnan(order.latitude) and math.isnan(order.longitude)
    if (
        whole(order.p[2]) not in (0, 3)
        or any(map(math.isinf, (*order.p, order.z)))
        or not (nowhere or _somewhere(order))
    ):
        return DENIED
    here = pilot.ground.place(v.x, v.y, v.z)
    centre = Place(  # heights are above the sea whatever the frame, which MAVSDK leaves at one of relative heights
        here.latitude if nowhere else order.latitude,
        here.longitude if nowhere else order.longitude,
        order.z if math.isfinite(order.z) else here.altitude,
    )
    reason = pilot.orbit(pilot.ground.local(centre), order.p[0], order.p[1], nose_in=whole(order.p[2]) == 0)
    return ACCEPTED if reason is None else TEMPORARILY_REJECTED


def _yaw(a: Autopilot, order: Order) -> int:
    if not 0.0 <= order.p[0] <= 360.0 or order.p[3] not in (0.0, 1.0):
        return FAILED
    a.equipment.look_at(None)  # the heading takes the place of what was looked at
    heading, angle = a.pilot.look().heading, math.radians(order.p[0])
    if order.p[3] == 1.0:  # relative, in the direction of param3
        turn = angle if order.p[2] >= 0.0 else -angle
    else:  # by the shorter way
        turn = math.remainder(angle - heading, 2.0 * math.pi)
    rate = math.radians(order.p[1]) if 0.0 < order.p[1] < math.inf else math.inf
    a.pilot.swing(heading, turn, min(rate, float(a.pilot.fleet.frames["yaw_rate"][a.pilot.row])))
    return ACCEPTED


def _set_home(a: Autopilot, order: Order) -> int:
    px4 = a.pilot.persona.px4
    here = order.p[0] > 0.5 if px4 else order.p[0] == 1.0 or not (order.latitude or order.longitude)
    if not here and not px4 and order.link is not None and order.p[0] != 0.0:
        return DENIED
    if not here and not (_somewhere(order) and (math.isfinite(order.z) or not px4)):
        return DENIED
    if not a.pilot.ready:
        return TEMPORARILY_REJECTED if px4 else FAILED
    if here:
        v = a.pilot.look()
        point = (v.x, v.y, v.z)
    else:
        z = order.z if math.isfinite(order.z) else a.pilot.home_place().altitude
        if order.frame is not None and order.frame not in _ABSOLUTE:
            z += a.pilot.home_place().altitude
        place = Place(order.latitude, order.longitude, z)
        if not place.possible:
            return DENIED if px4 else FAILED
        point = a.pilot.ground.local(place)
        if not px4 and math.hypot(point[0] - a.start[0], point[1] - a.start[1]) > _FARTHEST:
            return FAILED
    a.pilot.set_home(point)
    a.send_now(mavlink.MAVLINK_MSG_ID_HOME_POSITION)
    return ACCEPTED


def _current(a: Autopilot, order: Order) -> int:
    return ACCEPTED if a.pilot.mission.jump(whole(order.p[0])) else DENIED


def _pause(a: Autopilot, order: Order) -> int:
    """DO_PAUSE_CONTINUE: stop on the way, or go on, in a guided mode or a mission; the mode stays."""
    if whole(order.p[0]) not in (0, 1):
        return DENIED
    if whole(order.p[0]):
        done, text = a.pilot.resume(), "Failed to resume"
    else:
        done, text = a.pilot.pause(), "Failed to pause"
    return ACCEPTED if done else _refusal_result(a, text)


def _fence(a: Autopilot, order: Order) -> int:
    if a.pilot.persona.px4 or whole(order.p[0]) not in (0, 1, 2):
        return UNSUPPORTED
    if whole(order.p[1]):
        return _refusal_result(a, "Fence: all at once only")  # param2 names some of them
    if whole(order.p[0]) == 2:  # no floor is flown, so that it is off
        return ACCEPTED
    a.parameters.set("FENCE_ENABLE", order.p[0])
    return ACCEPTED


def _interval(a: Autopilot, order: Order) -> int:
    message, period = whole(order.p[0]), order.p[1]
    if message == mavlink.MAVLINK_MSG_ID_HEARTBEAT:
        # they do not stop: clients would take it for lost
        return ACCEPTED if a.beat(1.0 if period == 0.0 else 1e-6 * period) else DENIED
    if not a.knows(message):
        return UNSUPPORTED if a.pilot.persona.px4 else _denied(a, f"No ap_message for mavlink id ({message})")
    a.set_rate(message, None if period == 0.0 else 1e6 / period if period > 0.0 else 0.0)
    return ACCEPTED


def _report_interval(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    if not 0 <= message <= 65535:
        return UNSUPPORTED
    rate = 1.0 / a.period if message == mavlink.MAVLINK_MSG_ID_HEARTBEAT else a.streams.rates.get(message, 0.0)
    period = round(1e6 / rate) if rate > 0.0 else -1 if a.knows(message) else 0
    a.reply(order.link, mavlink.MAVLink_message_interval_message(message, period))
    return ACCEPTED if period or a.pilot.persona.px4 else FAILED  # 0: not known


def _request(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    # ArduPilot has terrain to report only where it flies by it
    if not a.knows(message) or (message == mavlink.MAVLINK_MSG_ID_TERRAIN_REPORT and not a.pilot.persona.px4):
        return UNSUPPORTED if a.pilot.persona.px4 else FAILED
    return ACCEPTED if a.send_now(message, order.link) else DENIED


def _send_message(message: int) -> Callable[[Autopilot, Order], int]:
    def send(a: Autopilot, order: Order) -> int:
        return ACCEPTED if a.send_now(message, order.link) else FAILED

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


def _off(_: Autopilot, order: Order) -> int:
    """Equipment that is not there: refused, unless it is to be off."""
    return ACCEPTED if order.p[0] == 0.0 else FAILED


def _compass(_: Autopilot, order: Order) -> int:
    """A compass without error needs no calibration, and none is under way."""
    return ACCEPTED if 0.0 <= order.p[0] < 360.0 else FAILED


def _loiter(a: Autopilot, _: Order) -> int:
    return _refusal_result(a, a.pilot.set_mode(a.pilot.persona.hold))


def _follow(a: Autopilot, order: Order) -> int:
    """DO_FOLLOW: whom FOLLOW follows."""
    system = whole(order.p[0])
    if not a.parameters.get("FOLL_ENABLE") or not 0 < system < 256:
        return DENIED
    a.parameters.set("FOLL_SYSID", system)
    return ACCEPTED


def _terminate(a: Autopilot, order: Order) -> int:
    """DO_FLIGHTTERMINATION: the motors stop, wherever it is."""
    if a.pilot.persona.px4 and not (order.p[0] > 0.5 and a.pilot.look().armed):
        return DENIED
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
    modal = a.pilot.persona.px4 and order.command == mavlink.MAV_CMD_DO_SET_ROI  # PX4 reads the kind from param1
    if modal and order.p[0] not in (mavlink.MAV_ROI_NONE, mavlink.MAV_ROI_LOCATION):
        return UNSUPPORTED
    if (order.latitude == 0.0 and order.longitude == 0.0) or (modal and order.p[0] == mavlink.MAV_ROI_NONE):
        return _no_region(a, order)
    if not _somewhere(order):
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
    """IMAGE_START_CAPTURE: one picture, or param3 of them (0: until stopped) every param2 s."""
    count, period = whole(order.p[2]), order.p[1]
    if count == 1:
        a.equipment.shoot()
    elif math.isfinite(order.p[2]) and count >= 0 and 0.0 < period < math.inf:
        a.equipment.shoot_every(period, count or math.inf)
    else:
        return FAILED
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
    a.equipment.shoot_every(1.0, 0)
    return ACCEPTED


def _motor_test(a: Autopilot, _: Order) -> int:
    if a.pilot.look().armed:
        return _refusal_result(a, "Motor Test: vehicle is armed")
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
    a.pilot.say(6, a.banner)
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
    """Sensors without error are calibrated at once, on the ground; clients wait for PX4's texts."""
    if a.pilot.look().armed:
        return TEMPORARILY_REJECTED if a.pilot.persona.px4 else FAILED
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
    mavlink.MAV_CMD_DO_SET_ROI_LOCATION: _region,
    mavlink.MAV_CMD_DO_SET_ROI_NONE: _no_region,
    mavlink.MAV_CMD_DO_SET_ROI: _region,
    mavlink.MAV_CMD_DO_DIGICAM_CONTROL: _camera,
    mavlink.MAV_CMD_DO_MOUNT_CONTROL: _fail,
    mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST: _picture_distance,
    mavlink.MAV_CMD_PREFLIGHT_CALIBRATION: _calibrate,
    mavlink.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN: _deny,
    mavlink.MAV_CMD_MISSION_START: _start_mission,
    mavlink.MAV_CMD_COMPONENT_ARM_DISARM: _arm,
    mavlink.MAV_CMD_GET_HOME_POSITION: _send_message(mavlink.MAVLINK_MSG_ID_HOME_POSITION),
    mavlink.MAV_CMD_GET_MESSAGE_INTERVAL: _report_interval,
    mavlink.MAV_CMD_SET_MESSAGE_INTERVAL: _interval,
    mavlink.MAV_CMD_REQUEST_MESSAGE: _request,
    mavlink.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: _capabilities,
    mavlink.MAV_CMD_IMAGE_START_CAPTURE: _pictures,
    mavlink.MAV_CMD_IMAGE_STOP_CAPTURE: _no_pictures,
}
# What ArduPilot knows besides, of it equipment and settings that are not there.
_FAILING = """
    DO_SET_SERVO DO_REPEAT_SERVO DO_MOUNT_CONFIGURE DO_GRIPPER START_RX_PAIR DO_GIMBAL_MANAGER_PITCHYAW
    DO_GIMBAL_MANAGER_CONFIGURE VIDEO_START_CAPTURE VIDEO_STOP_CAPTURE DO_ADSB_OUT_IDENT DO_ACCEPT_MAG_CAL
"""
_DENIED = "PREFLIGHT_STORAGE SET_CAMERA_FOCUS SET_CAMERA_SOURCE SET_EKF_SOURCE_SET DEBUG_TRAP"
_ARDUPILOT: dict[int, Handler] = {
    **dict.fromkeys(numbers(_FAILING, "MAV_CMD"), _fail),
    **dict.fromkeys(numbers(_DENIED, "MAV_CMD"), _deny),
    mavlink.MAV_CMD_NAV_LOITER_UNLIM: _loiter,
    mavlink.MAV_CMD_DO_PAUSE_CONTINUE: _pause,
    mavlink.MAV_CMD_DO_SET_MISSION_CURRENT: _current,
    mavlink.MAV_CMD_DO_FOLLOW: _follow,
    mavlink.MAV_CMD_NAV_VTOL_TAKEOFF: _take_off,
    mavlink.MAV_CMD_NAV_VTOL_LAND: _land,
    mavlink.MAV_CMD_CONDITION_YAW: _yaw,
    mavlink.MAV_CMD_DO_SET_RELAY: _relay,
    mavlink.MAV_CMD_DO_REPEAT_RELAY: _repeat_relay,
    mavlink.MAV_CMD_DO_LAND_START: _fail_saying("Unable to start landing sequence"),
    mavlink.MAV_CMD_DO_SET_ROI_SYSID: _region_system,
    mavlink.MAV_CMD_DO_FENCE_ENABLE: _fence,
    mavlink.MAV_CMD_DO_PARACHUTE: _off,
    mavlink.MAV_CMD_DO_MOTOR_TEST: _motor_test,
    mavlink.MAV_CMD_DO_SPRAYER: _off,
    mavlink.MAV_CMD_DO_AUX_FUNCTION: _fail_saying("Auxiliary functions are not emulated"),
    mavlink.MAV_CMD_RUN_PREARM_CHECKS: _checks,
    mavlink.MAV_CMD_DO_JUMP_TAG: _fail_saying("There is no such tag"),
    mavlink.MAV_CMD_CONTROL_HIGH_LATENCY: _latency,
    mavlink.MAV_CMD_DO_SET_SAFETY_SWITCH_STATE: _safety,
    mavlink.MAV_CMD_CAN_FORWARD: _off,
    mavlink.MAV_CMD_FIXED_MAG_CAL_YAW: _compass,
    mavlink.MAV_CMD_DO_CANCEL_MAG_CAL: _compass,
    mavlink.MAV_CMD_DO_SEND_BANNER: _banner,
    mavlink.MAV_CMD_BATTERY_RESET: _battery,
}
_COPTERS = {  # those that an ArduRover does not know
    mavlink.MAV_CMD_NAV_LOITER_UNLIM, mavlink.MAV_CMD_NAV_TAKEOFF, mavlink.MAV_CMD_NAV_LAND, mavlink.MAV_CMD_DO_FOLLOW,
    mavlink.MAV_CMD_NAV_VTOL_TAKEOFF, mavlink.MAV_CMD_NAV_VTOL_LAND, mavlink.MAV_CMD_DO_PAUSE_CONTINUE,
    mavlink.MAV_CMD_CONDITION_YAW, mavlink.MAV_CMD_DO_SET_ROI, mavlink.MAV_CMD_DO_SET_ROI_LOCATION,
    mavlink.MAV_CMD_DO_SET_ROI_NONE, mavlink.MAV_CMD_DO_SET_ROI_SYSID, mavlink.MAV_CMD_DO_PARACHUTE,
}  # fmt: skip
_PX4: dict[int, Handler] = {mavlink.MAV_CMD_DO_ORBIT: _orbit, mavlink.MAV_CMD_NAV_LOITER_UNLIM: _loiter}
HANDLERS: dict[bool, dict[int, Handler]] = {
    True: {**_COMMON, **_PX4},
    False: {**_COMMON, **_ARDUPILOT},
}  # by: whether it is PX4
