"""The orders of a vehicle of the fleet, carried out by a real ArduPilot over MAVLink, in GUIDED.

Missions and engagements write their orders into the vehicle's row, as for our own autopilot: mode, target, mission.
An ArduPilot that moves the vehicle elsewhere gets them as commands: GUIDED, arm, NAV_TAKEOFF, DO_CHANGE_SPEED,
SET_POSITION_TARGET_GLOBAL_INT, RTL, LAND, and HOLD of rovers. Commands without effect are sent again. A step is
reached when the vehicle of the physics is there. All times are simulated.

A mode that was not requested here comes from radio control or a ground station: orders wait until the vehicle is in
GUIDED again, or end with its disarming. RTL and LAND at the charge of a fail-safe come from that fail-safe.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Ground, Place, Vector
from cosim.autopilot.personas import Persona
from cosim.autopilot.personas import persona as find_persona
from cosim.autopilot.side import SideChannel
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import (
    COPTER,
    CRITICAL,
    DESCEND,
    FENCE,
    GO,
    HOLD,
    HOME,
    LAND,
    LOW,
    MANUAL,
    MISSION,
    NONE,
    RETURN,
    RISE,
    TAKE_OFF,
    VELOCITY,
)

REFUSED, TAKEN_OVER, GIVEN_BACK = "refused", "taken-over", "given-back"  # what may happen
# Fields of STATE that orders consist of.
_ORDERED = (
    "mode", "stage", "hold_until", "speed", "target_x", "target_y", "target_z", "target_vx", "target_vy", "target_vz",
    "target_until", "lead_x", "lead_y", "lead_z",
)  # fmt: skip
_AGAIN = 1.0  # s until a command that had no effect, or a target, is sent again
_RISING = 10.0  # s until an accepted take-off counts as one that had no effect
_OFTEN = 0.1  # s at least between two targets
_FRESH = 3.0  # s for a mode that was asked for to be in a heartbeat
_POINTS = 0.02  # of the charge by which ArduPilot's own count may be off
_FAR = 100.0  # m between where it thinks that it is and where it is: another home than ours
_SAME = 0.01  # m, m/s: no new target
_RISEN = 1.0  # m below the height of a take-off at which it has taken off; its estimate of the height may be off
_LEVEL, _START = 0.2, 3.0  # m/s, s after it left the ground: it climbs no further
_SLOW = 0.1  # m/s: a rover that stands

_ARM, _TAKE_OFF = mavlink.MAV_CMD_COMPONENT_ARM_DISARM, mavlink.MAV_CMD_NAV_TAKEOFF
_SPEED, _MODE = mavlink.MAV_CMD_DO_CHANGE_SPEED, mavlink.MAV_CMD_DO_SET_MODE
_CUSTOM = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
_ENDING = ("RTL", "SMART_RTL", "LAND")


class MavlinkPilot:
    """Carries out the orders in the row `row` of `fleet`, whose vehicle an ArduPilot at `side` moves.

    `order` goes before time is granted, `show` after the vehicle's state is in the row. `ground` is that of the
    fleet's axes, `limit` s after which an ArduPilot that cannot be armed, or does not take off, is given up.
    """

    def __init__(self, fleet: VehicleFleet, row: int, side: SideChannel, ground: Ground, limit: float) -> None:
        self._fleet, self._row, self._side, self._ground, self._limit = fleet, row, side, ground, limit
        self._copter = bool(fleet.frames["kind"][row] == COPTER)
        self._persona: Persona = find_persona("ardupilot", "copter" if self._copter else "rover")
        self._guided = self._persona.modes["GUIDED"].number
        self._events: list[tuple[float, str, str]] = []
        self.armed = False  # whether ArduPilot is
        self._active = False  # under orders
        self._flown = False  # whether it has left the ground, or driven, since it was ordered to arm
        self._since = 0.0  # s, since when it is being armed, or ordered to take off
        self._left = math.inf  # s, it left the ground
        self._shown = (int(MANUAL), 0)  # mode and armed, as the row had them last
        self._kept: Any = None  # the orders that wait while another system flies
        self._mode: int | None = None
        self._asked: dict[int, float] = {}  # s, when each mode was asked for last
        self._sent: dict[int, tuple[float, tuple[float, ...]]] = {}  # s and parameters with which each command was sent
        self._target: tuple[float, ...] = ()  # that it has
        self._target_at = -math.inf  # s
        self._speed = 0.0  # m/s that it keeps
        self._failsafe = int(NONE)
        self._charge = math.inf  # C

    @property
    def unready(self) -> bool:
        """Whether it is ordered to arm, and has not."""
        return self._active and not self.armed

    @property
    def active(self) -> bool:
        """Whether it is under orders, even while another system flies it."""
        return self._active

    @property
    def _state(self) -> Any:  # noqa: ANN401 - a record
        return self._fleet.state[self._row]

    def order(self, now: float, driven: Any) -> None:  # noqa: ANN401 - a record of STATE
        """Send what the orders in the row ask for; `driven`: state of the physics, whose battery may be changed."""
        s = self._state
        self._see_battery(s, driven)
        reported = int(s["mode"]), int(s["armed"])
        if not self._active:
            if reported == self._shown or not s["armed"]:
                return
            self._begin(now)
        if self._kept is not None:
            if reported != self._shown:
                self._kept = s.copy()
        elif self._side.mode is None:
            self._overdue(now, "its MAVLink does not answer")
        elif not s["armed"]:
            if not self.armed:
                self._end()
            elif s["landed"] or not self._copter:
                self._command(now, _ARM, 0.0)
        elif not self.armed:
            self._arm(now)
        elif self._copter and s["landed"]:
            self._leave(now)
        else:
            self._fly(now)

    def show(self, now: float, mode: int, turning: bool) -> None:
        """Write what it does into the row; `mode`: of the fleet, for its own; `turning`: whether its motors do."""
        s, before = self._state, self.armed
        self.armed = turning if self._side.armed is None else self._side.armed
        if self._active and self.armed and not before:
            self._since = now
        if self._failsafe != NONE and s["failsafe"] == NONE:
            s["failsafe"] = self._failsafe
        self._hear(now)
        if self._active and self._kept is None:
            if self.armed and (not self._copter or not s["landed"]):
                if not self._flown:
                    self._flown, self._left = True, now
            elif before and not self.armed:
                if self._flown:
                    if s["mode"] not in (RETURN, LAND):
                        self._report(
                            now, TAKEN_OVER, "is disarmed, which the run has not asked for; its orders are dropped"
                        )
                    self._end()
                else:
                    self._since = now  # DISARM_DELAY: it is armed again
            if s["mode"] == RETURN and self._copter and s["vz"] < -_LEVEL and self._homeward() < self._radius:
                s["stage"] = 3
        elif self._active and not self.armed:
            self._end()
        if not self._active or self._kept is not None:
            s["mode"], s["armed"] = mode, self.armed
        self._shown = int(s["mode"]), int(s["armed"])
        self._charge = float(s["charge"])

    def news(self) -> list[tuple[float, str, str]]:
        """The events since the last call: when (s), which one, a text for people."""
        found, self._events = self._events, []
        return found

    def part(self) -> None:
        """Take over from an absent ArduPilot: the vehicle is flown here by its row, even if another system had it."""
        if self._kept is not None:
            self._give_back()

    def _give_back(self) -> None:
        s = self._state
        for field in _ORDERED:
            s[field] = self._kept[field]
        s["armed"], self._kept = 1, None

    def restart(self, now: float, *, home: bool) -> None:
        """Another program is there, or the same after it was away; `home`: its vehicle stands where it began."""
        s = self._state
        self._asked.clear()
        self._sent.clear()
        self._mode, self._target, self._since = None, (), now
        ordered = self._active or bool(s["armed"])
        if home:
            self._kept, self._flown, self.armed, self._failsafe = None, False, False, int(NONE)
            if ordered and (s["mode"] != MISSION or s["done"]):
                self._end()  # its orders are of no use from here; a mission goes on
                return
        if ordered and not self._active:
            self._begin(now)

    # -- its orders --------------------------------------------------------------------------------

    def _begin(self, now: float) -> None:
        self._active, self._since = True, now
        self._flown = self.armed and not (self._copter and self._state["landed"])
        self._left, self._target = now, ()
        if not self._flown and self._state["mode"] in (RETURN, LAND):
            self._state["mode"] = HOLD  # that was the last flight

    def _end(self) -> None:
        self._active, self._kept, self._flown = False, None, False
        self._state["armed"] = 0

    def _arm(self, now: float) -> None:
        s = self._state
        if self._flown or s["mode"] in (RETURN, LAND):
            self._end()
            return
        side, reason = self._side, self._side.said or "it gives no reason"
        if side.place is None:
            reason = f"it does not report its position{side.said and ', ' + side.said}"
        elif (far := self._off(side.place)) > _FAR:
            reason = f"it takes itself for {far:,.0f} m away; start it with the --home that the run has printed"
        elif side.mode != self._guided:
            self._ask(now, "GUIDED")
        else:
            self._command(now, _ARM, 1.0)
        self._overdue(now, reason)

    def _off(self, place: Place) -> float:
        """How far (m) `place` is from where the vehicle is."""
        x, y, _ = self._ground.local(place)
        return math.hypot(x - self._state["x"], y - self._state["y"])

    def _overdue(self, now: float, reason: str) -> None:
        """Give up arming or takeoff after the time limit."""
        if now - self._since < self._limit or self._flown:
            return
        what = "does not take off" if self.armed else "could not be armed"
        self._report(now, REFUSED, f"{what} for {self._limit:g} s: {reason}; its orders are dropped")
        if self.armed:
            self._command(now, _ARM, 0.0)
        self._end()

    def _leave(self, now: float) -> None:
        """An armed copter on the ground."""
        s, side = self._state, self._side
        mode = int(s["mode"])
        height = math.nan
        if mode == TAKE_OFF:
            height = float(s["target_z"] - s["home_z"])
        elif mode == MISSION and not s["done"]:
            item = self._item()
            if item["what"] == DESCEND and self._flown:
                self._proceed()
            elif item["what"] not in (HOME, DESCEND):
                height = float(item["z"] - s["home_z"])
        elif mode in (RETURN, LAND):
            if not self._flown:
                self._command(now, _ARM, 0.0)
            return
        if math.isnan(height):
            self._since = now
            return
        if side.mode != self._guided:
            self._ask(now, "GUIDED")
        else:
            # param7 counts from home
            every = _RISING if side.accepted.get(_TAKE_OFF) else _AGAIN
            self._command(now, _TAKE_OFF, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, max(height, 1.0), every=every)
        self._overdue(now, side.said or "it gives no reason")

    def _fly(self, now: float) -> None:
        """A copter in the air, or an armed rover."""
        s, fleet, rows = self._state, self._fleet, [self._row]
        out = s["fence_radius"] > 0.0 and self._homeward() > s["fence_radius"]
        out = out or (s["fence_top"] > 0.0 and s["z"] - s["home_z"] > s["fence_top"])
        if out and s["failsafe"] == NONE and s["mode"] not in (RETURN, LAND):
            self._failsafe = s["failsafe"] = int(FENCE)
            fleet.go_home(rows)
        mode = int(s["mode"])
        if mode == TAKE_OFF:
            if s["z"] > s["target_z"] - _RISEN:
                fleet.go(rows, [[s["target_x"], s["target_y"], s["target_z"]]])
        elif mode == GO:
            moves = now < s["target_until"]
            velocity = (float(s["lead_x"]), float(s["lead_y"]), float(s["lead_z"])) if moves else None
            self._go(now, (float(s["target_x"]), float(s["target_y"]), float(s["target_z"])), velocity)
        elif mode == VELOCITY and now < s["target_until"]:
            self._steer(now, (float(s["target_vx"]), float(s["target_vy"]), float(s["target_vz"])))
        elif mode == MISSION and not s["done"]:
            self._mission(now)
        elif mode == RETURN:
            self._ask(now, "RTL")
        elif mode == LAND:
            self._ask(now, "LAND" if self._copter else "HOLD")
        elif self._copter:
            self._steer(now, (0.0, 0.0, 0.0))
        else:
            self._ask(now, "HOLD")

    def _mission(self, now: float) -> None:
        s, item = self._state, self._item()
        if item["speed"] > 0.0:
            s["speed"] = item["speed"]
        place = (float(item["x"]), float(item["y"]), float(item["z"]))
        if item["what"] == HOME:
            self._fleet.go_home([self._row])
            s["item"] += 1
            s["done"] = s["item"] >= s["items"]
            self._ask(now, "RTL")
        elif item["what"] == DESCEND:
            self._ask(now, "LAND")
        elif item["what"] == RISE:
            if abs(s["z"] - place[2]) < _RISEN:
                self._proceed()
            elif now - self._left > _START and abs(s["vz"]) < _LEVEL:
                self._go(now, (float(s["target_x"]), float(s["target_y"]), place[2]))
        else:
            self._go(now, place)
            if self._reached(place):
                s["hold_until"] = now + item["hold"] if s["hold_until"] < 0.0 else s["hold_until"]
                if now >= s["hold_until"]:
                    self._proceed()

    def _reached(self, place: Vector) -> bool:
        s, radius = self._state, self._radius
        x, y, z = place[0] - s["x"], place[1] - s["y"], place[2] - s["z"]
        if self._copter:
            return bool(math.sqrt(x * x + y * y + z * z) < radius)
        far = math.hypot(x, y)
        turn = abs(math.remainder(math.atan2(x, y) - s["heading"], 2.0 * math.pi))
        slow = math.hypot(s["vx"], s["vy"]) < _SLOW
        # what lies inside its turning circle can only be passed; it stops as near as WP_RADIUS has it
        return bool(far < radius or (far < 2.0 * radius and (turn > 0.5 * math.pi or slow)))

    def _proceed(self) -> None:
        """On to the next item, as our own autopilot does."""
        s = self._state
        s["reached"] = s["item"]
        s["item"] += 1
        s["hold_until"], s["stage"] = -1.0, 0
        s["done"] = s["item"] >= s["items"]

    def _item(self) -> np.void:
        found: np.void = self._fleet.items(self._row)[self._state["item"]]
        return found

    @property
    def _radius(self) -> float:
        return float(self._fleet.frames["radius"][self._row])

    def _homeward(self) -> float:
        s = self._state
        return math.hypot(s["x"] - s["home_x"], s["y"] - s["home_y"])

    # -- what is sent ------------------------------------------------------------------------------

    def _command(self, now: float, number: int, *params: float, every: float = _AGAIN) -> None:
        at, last = self._sent.get(number, (-math.inf, ()))
        if params != last or now - at >= every - 1e-9:
            self._sent[number] = now, params
            self._side.command(number, *params)

    def _ask(self, now: float, name: str) -> None:
        """Change the mode, if it is another."""
        number = self._persona.modes[name].number
        if self._side.mode != number:
            self._asked[number] = now
            self._command(now, _MODE, float(_CUSTOM), float(number))

    def _go(self, now: float, place: Vector, velocity: Vector | None = None) -> None:
        """To `place` (m), which moves on at `velocity` (m/s)."""
        s = self._state
        if self._may_steer(now, (*place, *(velocity or ()))):
            where = self._ground.place(*place)
            self._side.target(now, Place(where.latitude, where.longitude, place[2] - float(s["home_z"])), velocity)

    def _steer(self, now: float, velocity: Vector) -> None:
        if self._may_steer(now, velocity):
            self._side.steer(now, velocity)

    def _may_steer(self, now: float, target: tuple[float, ...]) -> bool:
        """Whether it is time to send the target; its mode and its speed are sent first."""
        if self._side.mode != self._guided:
            self._target = ()
            self._ask(now, "GUIDED")
            return False
        s = self._state
        top = float(s["speed"]) if s["speed"] > 0.0 else float(self._fleet.frames["speed"][self._row])
        if top != self._speed:
            self._command(now, _SPEED, 1.0, top, -1.0)
            if self._side.accepted.get(_SPEED):
                self._speed = top
        same = len(target) == len(self._target) and all(
            abs(one - other) < _SAME for one, other in zip(target, self._target, strict=True)
        )
        if now - self._target_at < (_AGAIN if same else _OFTEN) - 1e-9:
            return False
        self._target, self._target_at = target, now
        return True

    # -- what is heard -----------------------------------------------------------------------------

    def _hear(self, now: float) -> None:
        """Notice a change of its mode, and by whom."""
        number, before = self._side.mode, self._mode
        self._mode = number
        if number is None or number == before:
            return
        s = self._state
        if number == self._guided:  # it begins with a speed of its own
            self._speed, self._target = 0.0, ()
        if not self._active or before is None or not self.armed:
            return
        name = self._persona.named(number) or str(number)
        if self._kept is not None:
            if number == self._guided:
                self._give_back()
                self._report(now, GIVEN_BACK, "is in GUIDED again and goes on with its orders")
            return
        if number == self._guided or now - self._asked.get(number, -math.inf) <= _FRESH:
            return
        left = float(s["charge"]) / float(self._fleet.frames["capacity"][self._row])
        low, critical = (float(self._fleet.frames[level][self._row]) + _POINTS for level in ("low", "critical"))
        if name in _ENDING and left <= low:
            self._failsafe = s["failsafe"] = int(CRITICAL if left <= critical else LOW)
            (self._fleet.land if name == "LAND" else self._fleet.go_home)([self._row])
            return
        self._kept = s.copy()
        self._report(now, TAKEN_OVER, f"is in {name}, which the run has not asked for; its orders wait for GUIDED")

    def _see_battery(self, s: Any, driven: Any) -> None:  # noqa: ANN401
        """A battery that was changed, or a fail-safe that was cleared, on the ground."""
        if s["charge"] > self._charge + 1.0:
            driven["charge"], driven["failsafe"] = s["charge"], s["failsafe"]
            self._side.recharged = True
        if s["failsafe"] == NONE:
            self._failsafe = int(NONE)

    def _report(self, now: float, event: str, text: str) -> None:
        self._events.append((now, event, text))
