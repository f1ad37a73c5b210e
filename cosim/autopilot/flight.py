"""Flying a mission: its items, one after another, as waypoints of the fleet.

The fleet gets the next few waypoints only, so that jumps, delays and speeds between them are decided
when they are due, and corners are still flown as one.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cosim.autopilot.geodesy import Place
from cosim.vehicles import Waypoint, layout

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

WAYPOINT, LOITER, TURNS, LOITER_TIME, RETURN, LAND, TAKEOFF = 16, 17, 18, 19, 20, 21, 22  # MAV_CMD_NAV_*
SPLINE, NAV_DELAY, DELAY, YAW, JUMP, SPEED = 82, 93, 112, 115, 177, 178
NAVIGATION = {WAYPOINT, LOITER, TURNS, LOITER_TIME, RETURN, LAND, TAKEOFF, SPLINE, NAV_DELAY}
ABSOLUTE = {0, 5}  # MAV_FRAME_GLOBAL and GLOBAL_INT: heights above the sea; the other frames here: above home
_AHEAD = 3  # waypoints that the fleet knows of
_MOST_STEPS = 1000  # of commands between two waypoints: more is a loop
NO_MISSION, NOT_STARTED, ACTIVE, PAUSED, COMPLETE = 1, 2, 3, 4, 5  # MISSION_STATE


def finite(value: float) -> float:
    """`value`, or 0 where clients put NaN because they mean nothing."""
    return value if math.isfinite(value) else 0.0


class Item(NamedTuple):
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


class Mission:
    """The mission of one vehicle."""

    def __init__(self, pilot: Pilot) -> None:
        self._pilot = pilot
        self.items: list[Item] = []
        self.current = 0  # the item it is on
        self.state = NO_MISSION
        self.reached: list[int] = []  # items reached and not announced yet
        self._legs: deque[_Leg] = deque()
        self._next = 0  # item from which to plan on
        self._jumps: dict[int, int] = {}
        self._speed = 0.0
        self._returns = False  # whether an item told it to return or land

    def load(self, items: list[Item]) -> None:
        """Replace the mission; one that is being flown goes on with the same number if it still can."""
        self.items = items
        flying = self.state == ACTIVE
        self.state = NOT_STARTED if len(items) > self._pilot.persona.first_item else NO_MISSION
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

    def end(self) -> None:
        """The vehicle is disarmed: if an item made it land, that item is done."""
        if self.state == ACTIVE and self._returns:
            self._announce(self.current)
            self.state, self._returns = COMPLETE, False
            self._legs.clear()
        self.pause()

    def flies(self, mode: int) -> bool:
        """Whether the fleet is in `mode` because an item says so."""
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

    def _announce(self, seq: int) -> None:
        self.reached.append(seq)
        if not self._pilot.persona.px4:
            self._pilot.say(6, f"Reached command #{seq}")

    def _fly(self, start: bool) -> None:
        """Give the fleet the planned waypoints."""
        pilot, rows = self._pilot, [self._pilot.row]
        if not self._legs:
            self.state = COMPLETE
            if pilot.persona.frame == "copter" and pilot.persona.px4:
                pilot.set_mode("HOLD")
            else:
                pilot.fleet.hold(rows)
            return
        head = self._legs[0]
        self.current = head.seq
        what = head.waypoint.what
        if what == "return" or (what == "land" and pilot.persona.frame == "copter"):
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
        if not math.isnan(head.heading):
            pilot.fleet.face(rows, head.heading)

    def _plan(self) -> None:
        while len(self._legs) < _AHEAD and self._next < len(self.items):
            self._append(self._next)

    def _append(self, seq: int) -> None:
        """Plan the next waypoint at or after item `seq`, doing the commands before it."""
        heading, delay = math.nan, 0.0
        for _ in range(_MOST_STEPS):
            if seq >= len(self.items):
                break
            item = self.items[seq]
            if item.command in NAVIGATION:
                self._navigate(seq, item, heading, delay)
                seq += 1
                break
            if item.command == JUMP:
                count = self._jumps.get(seq, 0)
                again = item.param2 < 0 or count < item.param2
                self._jumps[seq] = count + 1
                target = int(finite(item.param1))
                seq = target if again and 0 <= target < len(self.items) else seq + 1
                continue
            if item.command == SPEED and 0.0 < item.param2 < math.inf:
                self._speed = item.param2
            elif item.command == YAW:
                heading = math.radians(finite(item.param1))
            elif item.command == DELAY:
                delay += max(finite(item.param1), 0.0)
            seq += 1  # commands that the emulator does not know are passed over
        else:
            seq = len(self.items)
        self._next = seq

    def _navigate(self, seq: int, item: Item, heading: float, delay: float) -> None:
        pilot, command = self._pilot, item.command
        home = pilot.home_place().altitude
        before = self._legs[-1].waypoint if self._legs else Waypoint(pilot.view.x, pilot.view.y, pilot.view.z)
        here = (before.x, before.y, before.z)
        if delay > 0.0:
            self._legs.append(_Leg(Waypoint(*here, hold=delay), seq, last=False))
        rover = pilot.persona.frame == "rover"
        if command == RETURN:
            leg = Waypoint(what="return")
        elif command == TAKEOFF and not rover:
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
                self._legs.append(_Leg(Waypoint(x, y, max(here[2], z), speed=self._speed), seq, last=False))
                leg = Waypoint(x, y, what="land")
            else:
                leg = Waypoint(x, y, z, self._stay(item), self._speed)
        self._legs.append(_Leg(leg, seq, heading=heading))

    def _stay(self, item: Item) -> float:
        """s to stay at a waypoint. Turns are not flown, but take their time."""
        if item.command == LOITER:
            return math.inf
        if item.command == TURNS:
            radius = abs(finite(item.param3)) or 10.0
            speed = self._speed or float(self._pilot.fleet.frames["speed"][self._pilot.row])
            return max(finite(item.param1), 0.0) * 2.0 * math.pi * radius / speed
        if item.command == SPLINE or item.command in (WAYPOINT, LOITER_TIME):
            return max(finite(item.param1), 0.0)
        return 0.0
