"""The autopilot's side of the mission protocol, for missions, fences and rally points.

https://mavlink.io/en/services/mission.html. A GCS announces a count and is asked for the items one by
one; or asks for the count and then for the items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message, mavlink, numbers
from cosim.autopilot.flight import ACTIVE, COPTERS, FLOWN, JUMP, NAV_DELAY, NAVIGATION, TERRAIN, MissionItem
from cosim.autopilot.geodesy import HIGHEST

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

MISSION, FENCE, RALLY, EVERY = 0, 1, 2, 255  # MAV_MISSION_TYPE
RALLY_POINT = 5100
_ACCEPTED, _ERROR, _BAD_FRAME, _UNSUPPORTED, _NO_SPACE, _INVALID, _BAD_SEQUENCE, _DENIED = 0, 1, 2, 3, 4, 5, 13, 14
_BAD_1, _BAD_X, _BAD_Y, _BAD_Z = 6, 10, 11, 12
_CANCELLED = 15
_LEVELS = {*numbers("GLOBAL GLOBAL_INT GLOBAL_RELATIVE_ALT GLOBAL_RELATIVE_ALT_INT", "MAV_FRAME")}
_FRAMES = {*_LEVELS, *TERRAIN, mavlink.MAV_FRAME_MISSION}  # of the mission: no place
# What PX4 takes: items with a place in global frames, all others in MAV_FRAME_MISSION.
_PX4_PLACED = {*numbers(
    "NAV_WAYPOINT NAV_LOITER_UNLIM NAV_LOITER_TIME NAV_LAND NAV_TAKEOFF NAV_LOITER_TO_ALT DO_SET_ROI", "MAV_CMD"
)}  # fmt: skip
_PX4_PLAIN = {*numbers(
    "NAV_RETURN_TO_LAUNCH NAV_DELAY CONDITION_DELAY CONDITION_DISTANCE DO_JUMP DO_CHANGE_SPEED DO_SET_HOME "
    "DO_LAND_START DO_SET_ROI_NONE DO_SET_ROI DO_DIGICAM_CONTROL DO_SET_CAM_TRIGG_DIST IMAGE_START_CAPTURE "
    "IMAGE_STOP_CAPTURE", "MAV_CMD"
)}  # fmt: skip
_KIND_FRAMES = {FENCE: _LEVELS, RALLY: {*_LEVELS, *TERRAIN}}
_PLACED = NAVIGATION | {  # commands with a latitude and longitude
    *numbers("DO_SET_HOME DO_SET_ROI_LOCATION DO_SET_ROI", "MAV_CMD"), *range(5000, 5005), RALLY_POINT,
}  # fmt: skip
Handler = Callable[[Message, Hashable], None]
# commands that need a height; with others clients put NaN there
_HIGH = {*numbers("NAV_WAYPOINT NAV_LOITER_UNLIM NAV_LOITER_TURNS NAV_LOITER_TIME NAV_SPLINE_WAYPOINT", "MAV_CMD")}
MOST_ITEMS = 2000
_ARDUPILOT_MOST = {MISSION: 724, FENCE: 70, RALLY: 50}  # items that a real one has room for
_FENCE_COMMANDS = range(5000, 5005)
_PATIENCE = 1.0  # s of wall time after which an item is asked for again
_TRIES = 7


def item_number(upload: _Upload) -> int:
    """Of the item that is asked for."""
    return upload.first + len(upload.items)


@dataclass(slots=True)
class _Upload:
    kind: int
    first: int
    last: int
    link: Hashable
    system: int
    component: int
    asked: float  # s of wall time
    partial: bool = False
    items: list[MissionItem] = field(default_factory=list)
    tries: int = 0


class Missions:
    """What is stored, and the upload under way."""

    def __init__(self, autopilot: Autopilot) -> None:
        self._autopilot = autopilot
        self._fence: list[MissionItem] = []
        self._rally: list[MissionItem] = []
        self._upload: _Upload | None = None
        self._stored: tuple[Hashable, int, int] | None = None  # link, kind and last item of what was stored last

    def stored(self, kind: int) -> list[MissionItem]:
        """The items of one kind. ArduPilot has home in item 0 of missions."""
        if kind == MISSION:
            items = self._autopilot.pilot.mission.items
            return items if self._autopilot.pilot.persona.px4 or not items else [self._home(), *items[1:]]
        return self._fence if kind == FENCE else self._rally

    def handle(self, message: Message, link: Hashable) -> bool:
        """Answer a message of the protocol; False if it is none."""
        handler: Handler | None = {
            "MISSION_COUNT": self._count,
            "MISSION_WRITE_PARTIAL_LIST": self._count_partial,
            "MISSION_ITEM": self._item,
            "MISSION_ITEM_INT": self._item,
            "MISSION_REQUEST_LIST": self._request_list,
            "MISSION_REQUEST_PARTIAL_LIST": self._request_list,
            "MISSION_REQUEST": self._request,
            "MISSION_REQUEST_INT": self._request,
            "MISSION_CLEAR_ALL": self._clear,
            "MISSION_SET_CURRENT": self._set_current,
        }.get(message.get_type())
        if handler is None:
            return False
        handler(message, link)
        return True

    def remind(self, wall: float) -> None:
        """Ask again for an item that does not come, and give up after some tries."""
        upload = self._upload
        if upload is None or wall - upload.asked < _PATIENCE:
            return
        upload.tries += 1
        if upload.tries > _TRIES:
            self._upload = None
            self._ack(upload.link, upload.system, upload.component, _CANCELLED, upload.kind)
        else:
            self._ask(upload)

    def _home(self) -> MissionItem:
        place = self._autopilot.pilot.home_place()
        return MissionItem(
            0, 16, 1, 0, 0, 0, 0, round(place.latitude * 1e7), round(place.longitude * 1e7), place.altitude
        )

    def _ack(self, link: Hashable, system: int, component: int, result: int, kind: int) -> None:
        self._autopilot.reply(link, mavlink.MAVLink_mission_ack_message(system, component, result, kind))

    def _answer(self, message: Message, link: Hashable, result: int, kind: int) -> None:
        self._ack(link, message.get_srcSystem(), message.get_srcComponent(), result, kind)

    def _ask(self, upload: _Upload) -> None:
        """ArduPilot asks with MISSION_REQUEST, and some clients know no other; PX4 asks with MISSION_REQUEST_INT."""
        upload.asked = self._autopilot.wall
        px4 = self._autopilot.pilot.persona.px4
        make = mavlink.MAVLink_mission_request_int_message if px4 else mavlink.MAVLink_mission_request_message
        seq = upload.first + len(upload.items)
        self._autopilot.reply(upload.link, make(upload.system, upload.component, seq, upload.kind))

    def _count(self, message: Message, link: Hashable) -> None:
        kind = message.mission_type
        if kind not in (MISSION, FENCE, RALLY):
            self._answer(message, link, mavlink.MAV_MISSION_UNSUPPORTED, kind)
        elif message.count > (MOST_ITEMS if self._autopilot.pilot.persona.px4 else _ARDUPILOT_MOST[kind]):
            self._answer(message, link, _NO_SPACE, kind)
        elif self._busy(message, link):
            self._answer(message, link, _DENIED, kind)
        elif message.count == 0:
            self._store(kind, [])
            self._answer(message, link, _ACCEPTED, kind)
        else:
            self._begin(message, link, 0, message.count - 1)

    def _count_partial(self, message: Message, link: Hashable) -> None:
        kind, first, last = message.mission_type, message.start_index, message.end_index
        if kind not in (MISSION, FENCE, RALLY) or not 0 <= first <= last < len(self.stored(kind)):
            self._answer(message, link, _ERROR, kind)
        elif self._busy(message, link):
            self._answer(message, link, _DENIED, kind)
        else:
            self._begin(message, link, first, last, partial=True)

    def _busy(self, message: Message, link: Hashable) -> bool:
        """Whether another sender is uploading."""
        u, sender = self._upload, (message.get_srcSystem(), message.get_srcComponent())
        return u is not None and (u.link, u.system, u.component) != (link, *sender)

    def _begin(self, message: Message, link: Hashable, first: int, last: int, partial: bool = False) -> None:
        upload = _Upload(
            message.mission_type, first, last, link, message.get_srcSystem(), message.get_srcComponent(), 0.0, partial
        )
        self._upload = upload
        self._ask(upload)

    def _item(self, message: Message, link: Hashable) -> None:
        if message.current in (2, 3):
            self._guided(message, link)
            return
        upload, px4 = self._upload, self._autopilot.pilot.persona.px4
        if upload is None or upload.kind != message.mission_type:  # not requested
            again = px4 and self._stored == (link, message.mission_type, message.seq)  # the acknowledgement was lost
            self._answer(message, link, _ACCEPTED if again else _ERROR, message.mission_type)
            return
        if self._busy(message, link):
            self._answer(message, link, _DENIED, upload.kind)
            return
        if message.seq != item_number(upload):  # an item came twice or was lost
            if px4:
                self._ask(upload)
            else:
                self._answer(message, link, _BAD_SEQUENCE, upload.kind)
            return
        item = _read(message)
        wrong = self._mistake(item, upload)
        if wrong:
            self._finish(upload, wrong)
            return
        upload.items.append(item)
        upload.tries = 0
        if message.seq < upload.last:
            self._ask(upload)
            return
        items = upload.items
        if upload.partial:
            old = self.stored(upload.kind)
            items = [*old[: upload.first], *items, *old[upload.last + 1 :]]
        self._stored = (link, upload.kind, upload.last)
        self._finish(upload, self._store(upload.kind, items))

    def _mistake(self, item: MissionItem, upload: _Upload) -> int:
        """MAV_MISSION_RESULT of an item that will not be flown, 0 if it will."""
        persona = self._autopilot.pilot.persona
        if upload.kind == FENCE and item.command not in _FENCE_COMMANDS:
            return _UNSUPPORTED
        if upload.kind == RALLY and item.command != RALLY_POINT:
            return _UNSUPPORTED
        if upload.kind == MISSION and not (upload.first == item_number(upload) == 0 and not persona.px4):
            if item.command not in FLOWN or (persona.frame == "rover" and item.command in COPTERS):
                self._autopilot.pilot.say(4, f"Mission: command {item.command} is not flown")
                return _UNSUPPORTED
            if math.isnan(item.param1) and not persona.px4:
                return _BAD_1
            if item.command == NAV_DELAY and not item.param1 >= 0.0:
                self._autopilot.pilot.say(4, "Mission: a delay until a time of day")
                return _UNSUPPORTED
            if item.command == JUMP and not 0 <= item.param1 <= upload.last:
                return _ERROR
        if item.frame not in _KIND_FRAMES.get(upload.kind, _FRAMES) and item.command in _PLACED:
            return _BAD_FRAME
        if item.frame in TERRAIN and item.command in _PLACED and self._autopilot.pilot.fleet.terrain is not None:
            self._autopilot.pilot.say(4, f"Item {item_number(upload)}: frame {item.frame}, terrain is not followed")
            return _BAD_FRAME
        return (_px4_mistake(item) if persona.px4 and upload.kind == MISSION else 0) or _misplaced(item)

    def _finish(self, upload: _Upload, result: int) -> None:
        self._upload = None
        self._ack(upload.link, upload.system, upload.component, result, upload.kind)

    def _store(self, kind: int, items: list[MissionItem]) -> int:
        pilot = self._autopilot.pilot
        if kind == MISSION:
            pilot.mission.load(items)
            pilot.say(6, "Flight plan received")
        elif kind == FENCE:
            reason = pilot.fence.load(items)
            if reason:
                pilot.say(4, f"Fence: {reason}"[:50])
                return _INVALID if pilot.persona.px4 else _ERROR
            self._fence = items
        else:
            if any(item.command != RALLY_POINT for item in items):
                return _INVALID
            self._rally = items
            home = pilot.home_place().altitude
            pilot.rally = [item.place(home) for item in items]
        return _ACCEPTED

    def _clear(self, message: Message, link: Hashable) -> None:
        px4 = self._autopilot.pilot.persona.px4
        kinds = (MISSION, FENCE, RALLY) if message.mission_type == EVERY and px4 else (message.mission_type,)
        if kinds[0] not in (MISSION, FENCE, RALLY):
            self._answer(message, link, mavlink.MAV_MISSION_UNSUPPORTED, message.mission_type)
            return
        # ArduPilot keeps a mission that it flies, and one that is being uploaded
        flying = not px4 and kinds[0] == MISSION and self._autopilot.pilot.mission.state == ACTIVE
        if flying or (self._upload is not None and self._upload.kind in kinds):
            self._answer(message, link, _ERROR, message.mission_type)
            return
        for kind in kinds:
            self._store(kind, [])
        self._answer(message, link, _ACCEPTED, message.mission_type)

    def _request_list(self, message: Message, link: Hashable) -> None:
        if message.mission_type not in (MISSION, FENCE, RALLY):
            self._answer(message, link, mavlink.MAV_MISSION_UNSUPPORTED, message.mission_type)
            return
        if self._upload is not None and self._upload.kind == message.mission_type:
            self._answer(message, link, _DENIED, message.mission_type)  # until it is complete
            return
        count = len(self.stored(message.mission_type))
        if message.get_type() == "MISSION_REQUEST_PARTIAL_LIST":
            last = message.end_index if message.end_index >= 0 else count - 1
            count = max(min(last, count - 1) - message.start_index + 1, 0)
        kind, system, component = message.mission_type, message.get_srcSystem(), message.get_srcComponent()
        self._autopilot.reply(link, mavlink.MAVLink_mission_count_message(system, component, count, kind))

    def _request(self, message: Message, link: Hashable) -> None:
        kind = message.mission_type
        items = self.stored(kind) if kind in (MISSION, FENCE, RALLY) else []
        if not 0 <= message.seq < len(items):
            px4 = self._autopilot.pilot.persona.px4
            self._answer(message, link, _BAD_SEQUENCE if px4 else _ERROR, kind)
            return
        whole = message.get_type() == "MISSION_REQUEST_INT"
        pilot = self._autopilot.pilot
        item = items[message.seq]
        # the frame goes back as it came, since clients compare: 3 stays 3, 6 stays 6
        current = int(kind == MISSION and message.seq == pilot.mission.current)
        head = (message.get_srcSystem(), message.get_srcComponent(), message.seq, item.frame, item.command, current)
        values = (item.autocontinue, item.param1, item.param2, item.param3, item.param4)
        if whole:
            answer = mavlink.MAVLink_mission_item_int_message(*head, *values, item.x, item.y, item.z, kind)
        else:
            x, y = (item.x / 1e7, item.y / 1e7) if item.command in _PLACED else (float(item.x), float(item.y))
            answer = mavlink.MAVLink_mission_item_message(*head, *values, x, y, item.z, kind)
        self._autopilot.reply(link, answer)

    def _set_current(self, message: Message, link: Hashable) -> None:
        if self._autopilot.pilot.mission.jump(message.seq):
            self._autopilot.send_now(mavlink.MAVLINK_MSG_ID_MISSION_CURRENT, link)
        else:
            self._autopilot.pilot.say(4, f"Mission: there is no item {message.seq}")

    def _guided(self, message: Message, link: Hashable) -> None:
        """ArduPilot's MISSION_ITEM with current 2 (go there) or 3 (change height)."""
        pilot = self._autopilot.pilot
        item = _read(message)
        if pilot.persona.px4:
            self._answer(message, link, _DENIED, MISSION)
            return
        if item.frame in TERRAIN and pilot.fleet.terrain is not None:
            pilot.say(4, f"Refused: frame {item.frame}: terrain is not followed")
            self._answer(message, link, _BAD_FRAME, MISSION)
            return
        wrong = _misplaced(item) if message.current == 2 else 0
        reason = None if pilot.mode == "GUIDED" else "not in GUIDED"
        if wrong:
            self._answer(message, link, wrong, MISSION)
            return
        if message.current == 2 and (item.command != 16 or not item.located):
            reason = "not a waypoint"
        if reason is None:
            home = pilot.home_place()
            if message.current == 2:
                point = pilot.ground.local(item.place(home.altitude))
            else:
                v = pilot.look()
                point = (v.target_x, v.target_y, item.place(home.altitude).altitude - pilot.ground.origin.altitude)
            reason = pilot.go(point)
        self._answer(message, link, _ACCEPTED if reason is None else _ERROR, MISSION)


def _misplaced(item: MissionItem) -> int:
    """MAV_MISSION_RESULT of an item whose place cannot be, 0 if it can."""
    placed = item.command in _PLACED
    if placed and item.frame not in _FRAMES:
        return _BAD_FRAME
    high = placed and abs(item.z) > HIGHEST
    if high or math.isinf(item.z) or (math.isnan(item.z) and item.command in _HIGH):
        return _BAD_Z
    if abs(item.x) >= (900_000_001 if placed else 2**31):
        return _BAD_X
    return _BAD_Y if abs(item.y) >= (1_800_000_001 if placed else 2**31) else 0


def _px4_mistake(item: MissionItem) -> int:
    """MAV_MISSION_RESULT of an item whose command and frame PX4 does not take together, 0 if it does."""
    if item.frame == mavlink.MAV_FRAME_MISSION:
        known = _PX4_PLAIN
    elif item.frame in (0, 3, 5, 6):
        known = _PX4_PLACED
    else:
        return _BAD_FRAME
    if item.command not in known:
        return _UNSUPPORTED
    region = item.command == mavlink.MAV_CMD_DO_SET_ROI
    return _BAD_1 if region and item.param1 not in (mavlink.MAV_ROI_NONE, mavlink.MAV_ROI_LOCATION) else 0


def _read(message: Message) -> MissionItem:
    """An item of either message; degrees become 1e-7 deg."""
    x, y = message.x, message.y
    if message.get_type() == "MISSION_ITEM":
        scale = 1e7 if message.command in _PLACED or message.current in (2, 3) else 1.0
        x, y = (round(scale * part) if math.isfinite(part) else 0 for part in (x, y))
    params = (message.param1, message.param2, message.param3, message.param4)
    return MissionItem(message.frame, message.command, message.autocontinue, *params, x, y, message.z)
