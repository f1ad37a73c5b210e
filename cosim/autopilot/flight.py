"""Flying a mission: its items, one after another, as waypoints of the fleet.

The fleet gets the next few waypoints only, so that jumps, delays and speeds between them are decided
when they are due, and corners are still flown as one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Place, Vector
from cosim.physics.vehicles import Waypoint, layout

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

WAYPOINT, LOITER = mavlink.MAV_CMD_NAV_WAYPOINT, mavlink.MAV_CMD_NAV_LOITER_UNLIM
TURNS, LOITER_TIME = mavlink.MAV_CMD_NAV_LOITER_TURNS, mavlink.MAV_CMD_NAV_LOITER_TIME
TO_HEIGHT, CHANGE_HEIGHT = mavlink.MAV_CMD_NAV_LOITER_TO_ALT, mavlink.MAV_CMD_NAV_CONTINUE_AND_CHANGE_ALT
RETURN, LAND, TAKEOFF = (mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH, mavlink.MAV_CMD_NAV_LAND, mavlink.MAV_CMD_NAV_TAKEOFF)
SPLINE, NAV_DELAY = mavlink.MAV_CMD_NAV_SPLINE_WAYPOINT, mavlink.MAV_CMD_NAV_DELAY
DELAY, DISTANCE, YAW = (
    mavlink.MAV_CMD_CONDITION_DELAY, mavlink.MAV_CMD_CONDITION_DISTANCE, mavlink.MAV_CMD_CONDITION_YAW,
)  # fmt: skip
JUMP, SPEED = mavlink.MAV_CMD_DO_JUMP, mavlink.MAV_CMD_DO_CHANGE_SPEED
TAG, JUMP_TAG, LAND_START = mavlink.MAV_CMD_JUMP_TAG, mavlink.MAV_CMD_DO_JUMP_TAG, mavlink.MAV_CMD_DO_LAND_START
# Quadplanes' names for the same, which a copter takes, too.
_SAME = {mavlink.MAV_CMD_NAV_VTOL_TAKEOFF: TAKEOFF, mavlink.MAV_CMD_NAV_VTOL_LAND: LAND}
NAVIGATION = {
    WAYPOINT, LOITER, TURNS, LOITER_TIME, RETURN, LAND, TAKEOFF, SPLINE, NAV_DELAY, TO_HEIGHT, CHANGE_HEIGHT, *_SAME,
}  # fmt: skip
COPTERS = {TURNS, TAKEOFF, LAND, SPLINE, TO_HEIGHT, CHANGE_HEIGHT, *_SAME}  # what a rover cannot do
# Commands that are carried out as if they came at their time.
DO = {
    mavlink.MAV_CMD_DO_SET_HOME, mavlink.MAV_CMD_DO_SET_RELAY, mavlink.MAV_CMD_DO_REPEAT_RELAY,
    mavlink.MAV_CMD_DO_SET_ROI, mavlink.MAV_CMD_DO_SET_ROI_NONE, mavlink.MAV_CMD_DO_DIGICAM_CONTROL,
    mavlink.MAV_CMD_DO_SET_CAM_TRIGG_DIST, mavlink.MAV_CMD_DO_FENCE_ENABLE, mavlink.MAV_CMD_IMAGE_START_CAPTURE,
    mavlink.MAV_CMD_IMAGE_STOP_CAPTURE, YAW, SPEED,
}  # fmt: skip
FLOWN = NAVIGATION | DO | {DELAY, DISTANCE, JUMP, TAG, JUMP_TAG, LAND_START}  # every other item is refused
LOCATED = {mavlink.MAV_CMD_DO_SET_HOME, mavlink.MAV_CMD_DO_SET_ROI, mavlink.MAV_CMD_DO_SET_ROI_LOCATION}
ABSOLUTE = {
    mavlink.MAV_FRAME_GLOBAL,
    mavlink.MAV_FRAME_GLOBAL_INT,
}  # heights above the sea; the other frames here: above home
TERRAIN = {  # heights above the ground: the same where it is flat, else refused, since terrain is not followed
    mavlink.MAV_FRAME_GLOBAL_TERRAIN_ALT, mavlink.MAV_FRAME_GLOBAL_TERRAIN_ALT_INT,
}  # fmt: skip
_AHEAD = 3  # waypoints that the fleet knows of
_CURVE = 6  # points of a spline between two waypoints
_MOST_STEPS = 1000  # of commands between two waypoints: more is a loop
NO_MISSION, NOT_STARTED, ACTIVE, PAUSED, COMPLETE = 1, 2, 3, 4, 5  # MISSION_STATE


def finite(value: float) -> float:
    """`value`, or 0 where clients put NaN because they mean nothing."""
    return value if math.isfinite(value) else 0.0


class MissionItem(NamedTuple):
    """One item of a mission, a fence or a list of rally points, as MISSION_ITEM_INT has it."""

    frame: int
    command: int
    autocontinue: int
    param1: float
    param2: float
    param3: float
    param4: float
    x: int  # latitude in 1e-7 deg, or param5
    y: int  # longitude in 1e-7 deg, or param6
    z: float  # m, or param7

    @property
    def located(self) -> bool:
        """Whether it names a place."""
        return self.x != 0 or self.y != 0

    def place(self, home: float) -> Place:
        """The place, when heights that are not absolute are above `home` (m)."""
        return Place(self.x / 1e7, self.y / 1e7, finite(self.z) + (0.0 if self.frame in ABSOLUTE else home))


@dataclass(frozen=True, slots=True)
class _Leg:
    waypoint: Waypoint
    seq: int
    last: bool = True  # whether the item is reached with it
    heading: float = math.nan  # rad, to keep from here on
    does: tuple[tuple[float, float, MissionItem], ...] = ()  # s after it begins, m before its end (inf: any), command


class Mission:
    """The mission of one vehicle."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self.items: list[MissionItem] = []
        self.current = 0  # the item it is on
        self.state = NO_MISSION
        self.reached: list[int] = []  # items reached and not announced yet
        self._legs: deque[_Leg] = deque()
        self._next = 0  # item from which to plan on
        self._jumps: dict[int, int] = {}
        self._speed = 0.0
        self._returns = False  # whether an item ordered it to return or land
        self._due: list[tuple[float, float, MissionItem]] = []  # s, m, command: of the present leg
        self._last: list[tuple[float, float, MissionItem]] = []  # behind the last leg

    def load(self, items: list[MissionItem]) -> None:
        """Replace the mission; one that is being flown goes on with the same number if it still can."""
        self.items = items
        flying, persona = self.state == ACTIVE, self._pilot.persona
        self.state = NOT_STARTED if len(items) > persona.first_item else NO_MISSION
        if flying and self.state == NO_MISSION and persona.px4 and persona.frame == "copter":
            self._legs.clear()
            self._pilot.say(4, "No valid mission available, loitering")
            self._pilot.set_mode("HOLD")
        if flying and self.state != NO_MISSION:
            self._begin(min(self.current, len(items) - 1))
        else:
            self.current = 0

    def refusal(self, landed: bool) -> str | None:
        """Why it cannot be flown now."""
        first = self._pilot.persona.first_item
        if len(self.items) <= first:
            return "no mission"
        if landed and self._pilot.persona.frame == "copter" and not self._pilot.persona.px4:
            at = self.current if self.state == PAUSED else first
            command = next((item.command for item in self.items[at:] if item.command in NAVIGATION), 0)
            if command != TAKEOFF:
                return "Missing Takeoff Cmd"
        return None

    def start(self) -> None:
        """Begin, or go on where it was left."""
        anew = self.state != PAUSED or self._pilot.parameters.get("MIS_RESTART") == 1
        self._begin(self._pilot.persona.first_item if anew else self.current, anew)

    def jump(self, seq: int) -> bool:
        """Make `seq` the current item."""
        if not 0 <= seq < len(self.items):
            return False
        if self.state == ACTIVE:
            self._begin(max(seq, self._pilot.persona.first_item), anew=False)
        else:
            self.current, self.state = seq, PAUSED
        return True

    def pause(self) -> None:
        """It is not being flown any more."""
        if self.state == ACTIVE:
            self.state = PAUSED
            self._legs.clear()

    def halt(self) -> bool:
        """Stop on the present leg; False where there is none."""
        pilot = self._pilot
        if self.state != ACTIVE or self._returns or not self._legs:
            return False
        pilot.fleet.hold([pilot.row])
        return True

    def proceed(self) -> bool:
        """Go on with the present leg; False where there is none."""
        pilot = self._pilot
        if self.state != ACTIVE or self._returns or not self._legs:
            return False
        pilot.fleet.start_mission([pilot.row])
        return True

    @property
    def turning(self) -> bool:
        """Whether it flies the circles of LOITER_TURNS."""
        v = self._pilot.view
        return self.state == ACTIVE and bool(self._legs) and self._legs[0].waypoint.what == "turns" and v.stage == 1

    def end(self) -> None:
        """The vehicle is disarmed: if an item made it land, that item is done."""
        if self.state == ACTIVE and self._returns:
            self._announce(self.current)
            self.state, self._returns = COMPLETE, False
            self._legs.clear()
        self.pause()

    def flies(self, mode: int) -> bool:
        """Whether the fleet is in `mode` because of an item."""
        if not self._returns or self._pilot.behaviour != "mission":
            return False
        # an item that returns leaves ArduPilot in AUTO, while PX4 changes its mode
        return mode == layout.LAND or (mode == layout.RETURN and not self._pilot.persona.px4)

    def update(self) -> None:
        """Take the waypoints that were reached off the list and plan the next ones."""
        pilot = self._pilot
        if pilot.behaviour != "mission":
            self.pause()
            return
        v = pilot.view
        if self.state == ACTIVE and self._returns and v.landed and self.current + 1 < len(self.items):
            self._announce(self.current)  # landed in between
            self._begin(self.current + 1, anew=False)
        if self.state != ACTIVE or self._returns or v.mode != layout.MISSION:
            return
        done = min(v.item, len(self._legs))
        self._do_due()
        if not done:
            return
        for _ in range(done):
            leg = self._legs.popleft()
            if leg.last:
                self._announce(leg.seq)
        self._plan()
        self._fly(v.done != 0)

    def _begin(self, seq: int, anew: bool = True) -> None:
        self.state, self.current, self._next, self._returns = ACTIVE, seq, seq, False
        if anew:
            self._jumps.clear()
            self._speed = 0.0
        self._legs.clear()
        pilot = self._pilot
        if pilot.persona.px4 and pilot.persona.frame == "copter" and pilot.view.landed:
            height = pilot.parameters["MIS_TAKEOFF_ALT"]  # PX4 rises first, whatever the mission begins with
            self._legs.append(_Leg(Waypoint(z=pilot.home[2] + height, what="take-off"), seq, last=False))
        self._plan()
        self._fly(start=True)

    def _do_due(self) -> None:
        """Carry out the commands whose time or distance has come; they follow each other in order."""
        now, v = self._pilot.fleet.now, self._pilot.view
        point = self._legs[0].waypoint if self._legs else None
        while self._due:
            at, near, item = self._due[0]
            far = math.hypot(point.x - v.x, point.y - v.y) if point is not None else 0.0
            if now < at or far > near:
                return
            del self._due[0]
            self._pilot.perform(item)

    def _announce(self, seq: int) -> None:
        self.reached.append(seq)
        if not self._pilot.persona.px4:
            self._pilot.say(6, f"Reached command #{seq}")

    def _fly(self, start: bool) -> None:
        """Give the fleet the planned waypoints."""
        pilot, rows = self._pilot, [self._pilot.row]
        if not self._legs:
            self.state = COMPLETE
            self._due, self._last = self._last, []
            self._do_due()
            if pilot.persona.frame == "copter" and pilot.persona.px4:
                pilot.set_mode("HOLD")
            else:
                pilot.fleet.hold(rows)
            return
        head = self._legs[0]
        self.current = head.seq
        self._due = [(pilot.fleet.now + after, near, item) for after, near, item in head.does]
        what = head.waypoint.what
        if what == "return" or (what == "land" and pilot.persona.frame == "copter"):
            self._do_due()
            self._returns = True  # the mode stays AUTO, as ArduPilot's does
            obeyed = pilot.fleet.go_home(rows) if what == "return" else pilot.fleet.land(rows)
            if not obeyed[0]:
                pilot.fleet.arm(rows, on=False)
            return
        ahead = []
        for leg in self._legs:  # what ends a mission is not the fleet's to know
            if leg.waypoint.what in ("return", "land"):
                break
            ahead.append(leg.waypoint)
        pilot.fleet.set_mission(pilot.row, ahead)
        if start:
            pilot.fleet.start_mission(rows, 0)
        pilot.fleet.face(rows, head.heading)  # a heading is kept for one leg
        self._do_due()

    def _plan(self) -> None:
        while len(self._legs) < _AHEAD and self._next < len(self.items):
            self._append(self._next)

    def _append(self, seq: int) -> None:
        """Plan the next waypoint at or after item `seq`, doing the commands before it."""
        heading, delay, near = math.nan, 0.0, math.inf
        does: list[tuple[float, float, MissionItem]] = []
        for _ in range(_MOST_STEPS):
            if seq >= len(self.items):
                self._last = does
                break
            item = self.items[seq]
            if item.command in NAVIGATION:
                self._navigate(seq, item, heading, tuple(does))
                seq += 1
                break
            if item.command in (JUMP, JUMP_TAG):
                count = self._jumps.get(seq, 0)
                again = item.param2 < 0 or count < item.param2
                self._jumps[seq] = count + 1
                target = int(finite(item.param1))
                if item.command == JUMP_TAG:
                    tags = (k for k, tag in enumerate(self.items) if tag.command == TAG and tag.param1 == item.param1)
                    target = next(tags, -1)
                seq = target if again and 0 <= target < len(self.items) else seq + 1
                continue
            waits = delay > 0.0 or near < math.inf
            if item.command == SPEED and item.param1 in (0.0, 1.0) and 0.0 < item.param2 < math.inf and not waits:
                self._speed = item.param2
            elif item.command == YAW and not waits and item.param4 != 1.0 and not finite(item.param2):
                heading = math.radians(finite(item.param1))
            elif item.command == DELAY:  # the leg goes on, what follows waits
                delay += max(finite(item.param1), 0.0)
            elif item.command == DISTANCE:
                near = max(finite(item.param1), 0.0)
            elif item.command in DO:
                does.append((delay, near, item))
            seq += 1
        else:
            seq = len(self.items)
        self._next = seq

    def _navigate(
        self, seq: int, item: MissionItem, heading: float, does: tuple[tuple[float, float, MissionItem], ...]
    ) -> None:
        pilot, command = self._pilot, _SAME.get(item.command, item.command)
        home = pilot.home_place().altitude
        before = self._legs[-1].waypoint if self._legs else Waypoint(pilot.view.x, pilot.view.y, pilot.view.z)
        here = (before.x, before.y, before.z)
        rover = pilot.persona.frame == "rover"
        if command == RETURN:
            leg = Waypoint(what="return")
        elif command in (TAKEOFF, CHANGE_HEIGHT) and not rover:
            height = item.place(home).altitude - pilot.ground.origin.altitude
            if math.isnan(item.z):
                height = pilot.home[2] + pilot.parameters.get("MIS_TAKEOFF_ALT", 2.5)
            leg = Waypoint(*here[:2], height, what="take-off")
        elif command == NAV_DELAY:
            leg = Waypoint(*here, hold=max(finite(item.param1), 0.0))
        elif command == LAND and not item.located:
            leg = Waypoint(*here, what="land")
        else:
            x, y, z = pilot.ground.local(item.place(home)) if item.located else here
            if not item.located and finite(item.z):
                z = item.place(home).altitude - pilot.ground.origin.altitude
            if command == LAND:
                height = max(here[2], z)
                self._legs.append(_Leg(Waypoint(x, y, height, speed=self._speed), seq, last=False, does=does))
                leg, does = Waypoint(x, y, what="land"), ()
            elif command == TURNS and not rover:
                radius = finite(item.param3) or 10.0
                leg = Waypoint(x, y, z, 0.0, self._speed, "turns", radius, max(finite(item.param1), 0.0))
            else:
                if command == SPLINE:
                    self._curve(seq, here, (x, y, z), home)
                leg = Waypoint(x, y, z, self._stay(item), self._speed)
                if pilot.persona.px4 and not rover and math.isfinite(item.param4):
                    heading = math.radians(item.param4)  # ArduPilot has none of a waypoint's own
        self._legs.append(_Leg(leg, seq, heading=heading, does=does))

    def _curve(self, seq: int, start: Vector, end: Vector, home: float) -> None:
        """Waypoints on the way of a spline: Hermite's, with the tangent at its end towards the waypoint after it."""
        after = next((item for item in self.items[seq + 1 :] if item.command in NAVIGATION), None)
        beyond = self._pilot.ground.local(after.place(home)) if after is not None and after.located else end
        v = self._pilot.view
        first = len(self._legs) > 1 or math.hypot(v.vx, v.vy) > 1.0
        behind = self._legs[-2].waypoint if len(self._legs) > 1 else None
        leave = (
            tuple(0.5 * (e - b) for e, b in zip(end, (behind.x, behind.y, behind.z), strict=True))
            if behind is not None and first
            else tuple(0.5 * (e - s) for e, s in zip(end, start, strict=True))
        )
        arrive = tuple(0.5 * (b - s) for b, s in zip(beyond, start, strict=True))
        for k in range(1, _CURVE):
            u = k / _CURVE
            a, b, c, d = 2 * u**3 - 3 * u**2 + 1, u**3 - 2 * u**2 + u, -2 * u**3 + 3 * u**2, u**3 - u**2
            x, y, z = (a * p + b * m + c * q + d * n for p, m, q, n in zip(start, leave, end, arrive, strict=True))
            self._legs.append(_Leg(Waypoint(x, y, z, speed=self._speed), seq, last=False))

    def _stay(self, item: MissionItem) -> float:
        """s to stay at a waypoint."""
        if item.command == LOITER:
            return math.inf
        return max(finite(item.param1), 0.0) if item.command in (SPLINE, WAYPOINT, LOITER_TIME) else 0.0
