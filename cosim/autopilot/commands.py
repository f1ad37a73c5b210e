"""MAV_CMD commands, by COMMAND_LONG and COMMAND_INT."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from cosim.autopilot.dialect import Message, mavlink
from cosim.autopilot.geodesy import Place
from cosim.autopilot.telemetry import BUILDERS

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

ACCEPTED, DENIED, UNSUPPORTED, FAILED = 0, 2, 3, 4  # MAV_RESULT
_FORCE = 21196  # param2 of an arming command that passes the checks
_ABSOLUTE = {0, 5}


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
    handler = HANDLERS.get(order.command)
    return UNSUPPORTED if handler is None else handler(a, order)


def _told(a: Autopilot, reason: str | None) -> int:
    if reason is None:
        return ACCEPTED
    a.pilot.say(4, reason[:50])
    return FAILED


def _arm(a: Autopilot, order: Order) -> int:
    force = whole(order.p[1]) == _FORCE
    if not order.p[0] >= 0.5:
        return ACCEPTED if a.pilot.disarm(force) is None else FAILED
    reason = a.pilot.arm(force)
    if reason is None:
        return ACCEPTED
    for text in a.pilot.objections() or [reason]:
        a.pilot.say(2, f"{'Preflight Fail' if a.pilot.persona.px4 else 'PreArm'}: {text}"[:50])
    return mavlink.MAV_RESULT_TEMPORARILY_REJECTED if a.pilot.persona.px4 else FAILED


def _mode(a: Autopilot, order: Order) -> int:
    number = whole(order.p[1])
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
    speed = order.p[1]
    if speed == 0.0 or math.isinf(speed):
        return DENIED
    if speed > 0.0:  # -1 and NaN: as before
        a.pilot.fleet.set_speed([a.pilot.row], speed)
    return ACCEPTED


def _reposition(a: Autopilot, order: Order) -> int:
    pilot = a.pilot
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
    return DENIED if pilot.go(pilot.ground.local(Place(latitude, longitude, z)), None, yaw) else ACCEPTED


def _yaw(a: Autopilot, order: Order) -> int:
    angle = math.radians(order.p[0])
    if not math.isfinite(angle):
        return DENIED
    if order.p[3] != 0.0:  # relative, in the direction of param3
        angle = a.pilot.look().heading + (angle if order.p[2] >= 0.0 else -angle)
    a.pilot.fleet.face([a.pilot.row], angle)
    return ACCEPTED


def _set_home(a: Autopilot, order: Order) -> int:
    if whole(order.p[0]) == 1:
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
    name = a.pilot.persona.doing("mission") if order.p[0] else a.pilot.persona.hold
    return _told(a, a.pilot.set_mode(name))


def _fence(a: Autopilot, order: Order) -> int:
    if a.pilot.persona.px4 or whole(order.p[0]) not in (0, 1):
        return UNSUPPORTED
    a.parameters.set("FENCE_ENABLE", order.p[0])
    return ACCEPTED


def _interval(a: Autopilot, order: Order) -> int:
    message, period = whole(order.p[0]), order.p[1]
    if message == 0 or message not in BUILDERS:
        return UNSUPPORTED if message else ACCEPTED
    a.set_rate(message, None if period == 0.0 else 1e6 / period if period > 0.0 else 0.0)
    return ACCEPTED


def _tell_interval(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    if not 0 <= message <= 65535:
        return UNSUPPORTED
    rate = a.streams.rates.get(message, 0.0)
    period = round(1e6 / rate) if rate > 0.0 else -1 if message in BUILDERS else 0
    a.reply(order.link, mavlink.MAVLink_message_interval_message(message, period))
    return ACCEPTED


def _request(a: Autopilot, order: Order) -> int:
    message = whole(order.p[0])
    if message not in BUILDERS:
        return UNSUPPORTED  # clients go another way then, and do not ask again
    return ACCEPTED if a.send_now(message, order.link) else DENIED


def _tell(message: int) -> Callable[[Autopilot, Order], int]:
    def send(a: Autopilot, order: Order) -> int:
        a.send_now(message, order.link)
        return ACCEPTED

    return send


def _deny(_: Autopilot, __: Order) -> int:
    return DENIED


def _accept(_: Autopilot, __: Order) -> int:
    return ACCEPTED


HANDLERS: dict[int, Callable[[Autopilot, Order], int]] = {
    20: _return,
    21: _land,
    22: _take_off,
    115: _yaw,
    176: _mode,
    178: _speed,
    179: _set_home,
    192: _reposition,
    193: _pause,
    201: _accept,  # region of interest: there is no camera to turn
    203: _deny,  # camera
    205: _deny,  # mount
    207: _fence,
    224: _current,
    241: _accept,  # calibration: nothing to do
    246: _deny,  # reboot
    300: _start_mission,
    400: _arm,
    410: _tell(242),
    510: _tell_interval,
    511: _interval,
    512: _request,
    520: _tell(148),
    530: _deny,  # camera mode
}
