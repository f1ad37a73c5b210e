"""A fleet of vehicles: commands in, columns out, one compiled call per advance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cosim.compiled.compiling import entry, part, ready, records
from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.physics.vehicles import layout as l
from cosim.physics.vehicles.airframe import Copter, Rover
from cosim.physics.vehicles.battery import open_circuit
from cosim.physics.vehicles.impact import Contacts, touch, touch_down
from cosim.physics.vehicles.motion import density, discharge, fall, ride
from cosim.physics.vehicles.obstacles import Obstacles
from cosim.physics.vehicles.pilot import pilot_copter, pilot_rover, proceed, protect
from cosim.physics.vehicles.receivers import PositionErrors
from cosim.physics.vehicles.rigid import show, stand
from cosim.physics.vehicles.terrain import FLAT, Terrain, closing, ground_at

WHAT = {"fly": l.FLY, "take-off": l.RISE, "land": l.DESCEND, "return": l.HOME, "turns": l.TURNS}
# What a new mode begins with.
_ENTERED = {
    "stage": 0, "hold_until": -1.0, "target_until": -1.0, "leg_began": -1.0, "next_began": -1.0, "leg_top": 0.0,
    "target_heading": math.nan, "target_turn": math.nan, "feed_x": 0.0, "feed_y": 0.0, "feed_z": 0.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waypoint:
    """A step of a mission; x, y, z in m of the scenario's origin."""

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    hold: float = 0.0  # s to stay
    speed: float = 0.0  # m/s from here on, 0: as before
    what: Literal["fly", "take-off", "land", "return", "turns"] = "fly"
    radius: float = 0.0  # m, of turns about the point; below 0: anticlockwise
    turns: float = 0.0


@part
def _on_ground(s: Any, a: Any, items: Records, wind: Floats, now: float) -> None:  # noqa: ANN401 - rows of records
    """An armed copter that stands: it takes off when ordered to, and disarms when nothing happens."""
    s.vx = s.vy = s.vz = 0.0
    s.power = a.idle + 0.1 * a.profile / a.efficiency  # idling rotors, of the order of a tenth of the blade power
    if s.mode == l.MISSION and s.done == 0 and items[s.first_item + s.item].what == l.DESCEND:
        proceed(s)  # it has landed, as the mission requires
    wants = s.mode == l.TAKE_OFF or (s.mode == l.MISSION and s.done == 0)
    if wants and s.hold_until < 0.0:  # rotors are to reach their speed first
        s.hold_until = max(now, s.armed_at + a.arming_delay) + a.spool_up
    if wants:
        if now < s.hold_until:
            return
        drag = (a.drag + a.drag2 * math.sqrt(wind[0] ** 2 + wind[1] ** 2 + wind[2] ** 2)) * density(s, a)
        s.az = drag * (0.0 - wind[2])  # the thrust of a hover in this wind: no downdraught keeps it on the ground
        if a.rigid != 0:
            stand(s, a)
        s.landed = 0
        s.stage = 0
        s.hold_until = now if a.jerk > 0.0 else -1.0
    elif now - max(s.armed_at, s.landed_at) >= (
        a.disarm_after if s.mode in (l.LAND, l.RETURN, l.MISSION) else a.disarm_delay
    ):
        s.armed = 0


@entry()
def _advance(
    states: Records, frames: Records, items: Records, winds: Floats, heights: Floats, box: Floats, start: float,
    dt: float, steps: int,
) -> None:  # fmt: skip
    """Let `steps` times `dt` s pass for every vehicle; one vehicle after another, as they do not meet.

    `heights` and `box` are those of a `Terrain`; without cells the ground is flat, as high as at each one's home.
    """
    hilly = len(heights) > 0
    for i in range(len(states)):
        s, a, wind = states[i], frames[i], winds[i]
        for k in range(steps):
            now = start + k * dt
            if s.armed == 0:
                s.vx = s.vy = s.vz = s.ax = s.ay = s.az = s.roll = s.pitch = s.turn = 0.0
                s.power = 0.0 if s.failsafe == l.EMPTY else a.idle
                discharge(s, a, dt)
                continue
            if hilly:
                a.ground = ground_at(heights, box, s.x, s.y)
            protect(s, a)
            if a.kind != l.COPTER:
                if s.failsafe == l.EMPTY:
                    s.vx = s.vy = s.ax = s.power = s.turn = 0.0
                    s.armed = 0
                else:
                    before = s.vx * math.sin(s.heading) + s.vy * math.cos(s.heading)
                    pilot_rover(s, a, items, now, dt)
                    if hilly:
                        a.ground = ground_at(heights, box, s.x, s.y)
                        ride(s, a, before, dt)
                discharge(s, a, dt)
                continue
            if (s.failsafe == l.EMPTY or s.stopped != 0) and s.landed == 0:
                fall(s, a, wind[0], wind[1], wind[2], dt)
            elif s.landed != 0:
                _on_ground(s, a, items, wind, now)
                discharge(s, a, dt)
                continue
            else:
                pilot_copter(s, a, items, wind, now, dt)
            discharge(s, a, dt)
            nearing = -s.vz
            if hilly:
                a.ground = ground_at(heights, box, s.x, s.y)
                nearing = closing(s, heights, box)
            if a.rigid != l.ELSEWHERE and s.z <= a.ground and nearing >= 0.0:
                s.z = a.ground
                touch_down(s, a, nearing, now, -1)


def compiled() -> bool:
    """Whether the kernel is ready, in this process or from the cache of an earlier one."""
    return ready(_advance, touch)


class VehicleFleet:
    """Vehicles side by side.

    `vehicles` are `Copter` or `Rover`; `homes` (n, 3) m; `headings` (n,) rad. `substep` is the
    step of the dynamics in s. `state` is the record array of `cosim.physics.vehicles.layout.STATE`: look at
    it freely, change it by the methods. Commands take rows (numbers of vehicles) and answer which
    of them obeyed, as an autopilot does that refuses what it cannot do in its state.

    On a `terrain` all stand on the ground: the heights of `homes` do not count, copters meet the ground where it is,
    and rovers follow it. Without one the ground is flat, for each at the height of its home.
    """

    def __init__(
        self,
        vehicles: Sequence[Copter | Rover],
        homes: ArrayLike,
        headings: ArrayLike = 0.0,
        substep: float = 0.01,
        charge: ArrayLike = 1.0,
        terrain: Terrain | None = None,
    ) -> None:
        place = np.array(homes, np.float64).reshape(-1, 3)
        if len(place) != len(vehicles):
            raise ValueError(f"{len(vehicles)} vehicles need as many homes; there are {len(place)}")
        if not substep > 0.0:
            raise ValueError(f"substep is {substep} s; it must be above 0")
        self.terrain = terrain
        self.obstacles: Obstacles | None = None  # into which autopilots are not to be sent
        self.receivers: PositionErrors | None = None  # what satellite receivers are off by; None: nothing
        self.contacts: Contacts | None = None  # what vehicles run into besides the ground; None: nothing
        if terrain is not None:
            place[:, 2] = terrain.height(place[:, 0], place[:, 1])
        rows: dict[Copter | Rover, Records] = {}
        for vehicle in vehicles:
            if vehicle not in rows:
                rows[vehicle] = vehicle.row()
        self.frames: Records = (
            np.concatenate([rows[vehicle] for vehicle in vehicles]) if len(vehicles) else np.zeros(0, l.AIRFRAME)
        )
        self.frames["ground"] = place[:, 2]
        self.state: Records = np.zeros(len(vehicles), l.STATE)
        self.wind = np.zeros((len(vehicles), 3))  # m/s east, north, up; set it at will
        self.now = 0.0
        self.substep = substep
        self._items: Records = np.zeros(0, l.ITEM)
        s = self.state
        for k, axis in enumerate("xyz"):
            s[axis] = s[f"home_{axis}"] = s[f"target_{axis}"] = place[:, k]
        s["heading"] = s["kept"] = np.asarray(headings)
        s["target_heading"] = s["target_turn"] = math.nan
        s["charge"] = np.asarray(charge, np.float64) * self.frames["capacity"]
        s["landed"], s["mode"], s["reached"], s["failsafe"] = 1, l.HOLD, -1, l.NONE
        s["hold_until"] = s["target_until"] = s["leg_began"] = s["next_began"] = s["old_began"] = -1.0
        s["voltage"] = [
            a["cells"] * open_circuit(c / a["capacity"]) for a, c in zip(self.frames, s["charge"], strict=True)
        ]

    def restore(self, state: Records, items: Records, now: float) -> None:
        """Go on from `state` (n,) STATE with the missions `items` at `now` s, as copies of another fleet's."""
        self.state[:] = state
        self._items = np.array(items, l.ITEM)
        self.now = now

    def items(self, row: int) -> Records:
        """A copy of the mission of a vehicle, (n,) ITEM."""
        s = self.state[row]
        return self._items[s["first_item"] : s["first_item"] + s["items"]].copy()

    def advance(self, until: float) -> None:
        """Let time pass up to `until` s, in equal sub-steps of at most `substep`."""
        span = until - self.now
        if span < 0.0:
            raise ValueError(f"it is {self.now} s already; cannot go back to {until} s")
        steps = max(math.ceil(span / self.substep - 1e-9), 1)
        dt = span / steps
        if span > 0.0 and (self.contacts is None or not self.contacts.near(self.state, self.frames, span)):
            self._go(dt, self.now, steps)
        elif span > 0.0 and self.contacts is not None:
            for now in (self.now + k * dt for k in range(steps)):  # the same steps, one by one
                before = self.places()
                self._go(dt, now, 1)
                self.contacts.settle(self.state, self.frames, before, now + dt)
        self.now = until

    def _go(self, dt: float, now: float, steps: int) -> None:
        land = FLAT if self.terrain is None else self.terrain
        _advance(self.state, self.frames, self._items, self.wind, land.heights, land.box, now, dt, steps)

    def places(self) -> Floats:
        """(n, 3) m."""
        return np.column_stack([self.state[axis] for axis in "xyz"])

    def decide(self, row: int, now: float, dt: float) -> None:
        """Let only the vehicle `row` go on from `now` s by `dt` s: one that is moved elsewhere sets its rotors."""
        one = slice(row, row + 1)
        land = FLAT if self.terrain is None else self.terrain
        _advance(self.state[one], self.frames[one], self._items, self.wind[one], land.heights, land.box, now, dt, 1)

    def show(self, row: int) -> None:
        """Set the angles of a vehicle whose quaternion and body rates were set."""
        show(records(self.state)[row])

    def touch_down(self, row: int, now: float) -> None:
        """A vehicle that is moved elsewhere stands since `now` s, where it is."""
        s = records(self.state)[row]
        touch_down(s, records(self.frames)[row], -s.vz, now, -1)

    def above_ground(self) -> Floats:
        """(n,) m, of all vehicles above the ground that is under them."""
        s = self.state
        ground = self.frames["ground"] if self.terrain is None else self.terrain.height(s["x"], s["y"])
        above: Floats = s["z"] - ground
        return above

    def mode(self, rows: ArrayLike) -> list[str]:
        """The modes of vehicles by name."""
        return [l.MODES[code] for code in self.state["mode"][np.asarray(rows)]]

    def arm(self, rows: ArrayLike, on: bool = True) -> Flags:
        """Arm or disarm. Home is where a vehicle is armed. Refused: a broken or empty one, disarming in flight."""
        r = self._rows(rows)
        s = self.state
        if on:
            obeys: Flags = (s["crashed"][r] == 0) & (s["failsafe"][r] != l.EMPTY)
            new = r[obeys & (s["armed"][r] == 0)]
            for axis in "xyz":
                s[f"home_{axis}"][new] = s[axis][new]
            s["armed"][new], s["armed_at"][new] = 1, self.now
            s["stopped"][new], s["hold_until"][new] = 0, -1.0
            # among obstacles it may stand on a roof
            level = new if self.obstacles is None else new[self.frames["rigid"][new] == l.ELSEWHERE]
            self.frames["ground"][level] = s["z"][level]
        else:
            obeys = (self.frames["kind"][r] != l.COPTER) | (s["landed"][r] != 0)
            s["armed"][r[obeys]] = 0
        return obeys

    def take_off(self, rows: ArrayLike, height: ArrayLike) -> Flags:
        """Rise to `height` m above home. Refused by rovers, and when not armed or not on the ground."""
        r = self._rows(rows)
        s = self.state
        up = np.broadcast_to(np.asarray(height, np.float64), r.shape)
        obeys: Flags = (self.frames["kind"][r] == l.COPTER) & (s["armed"][r] != 0) & (s["landed"][r] != 0) & (up > 0.0)
        self._enter(r[obeys], int(l.TAKE_OFF))
        s["target_z"][r[obeys]] = s["home_z"][r[obeys]] + up[obeys]
        return obeys

    def go(self, rows: ArrayLike, position: ArrayLike, velocity: ArrayLike | None = None, valid: float = 3.0) -> Flags:
        """Fly or drive to `position` (n, 3) m.

        With `velocity` (n, 3) m/s the point moves on for `valid` s, like the reported target of a
        follower. Refused when not armed or, by copters, on the ground.
        """
        r = self._rows(rows)
        s = self.state
        obeys = self._able(r)
        obeying, where = r[obeys], np.broadcast_to(np.asarray(position, np.float64), (len(r), 3))[obeys]
        already = obeying[s["mode"][obeying] != l.GO]
        self._enter(already, int(l.GO))
        # a vehicle with an unchanged target goes on with its leg
        new = obeying[sum(np.abs(s[f"target_{axis}"][obeying] - where[:, k]) for k, axis in enumerate("xyz")) > 0.1]
        s["leg_began"][new] = s["next_began"][new] = -1.0
        s["leg_top"][new] = 0.0
        for k, axis in enumerate("xyz"):
            s[f"target_{axis}"][obeying] = where[:, k]
        s["target_until"][obeying] = -1.0
        if velocity is not None:
            moving = np.broadcast_to(np.asarray(velocity, np.float64), (len(r), 3))[obeys]
            for k, axis in enumerate("xyz"):
                s[f"lead_{axis}"][obeying] = moving[:, k]
            s["target_until"][obeying] = self.now + valid
        return obeys

    def steer(self, rows: ArrayLike, velocity: ArrayLike, valid: float = 3.0) -> Flags:
        """Keep `velocity` (n, 3) m/s over ground for `valid` s, then stop. Refused as `go` is."""
        r = self._rows(rows)
        s = self.state
        obeys = self._able(r)
        obeying, wanted = r[obeys], np.broadcast_to(np.asarray(velocity, np.float64), (len(r), 3))[obeys]
        self._enter(obeying, int(l.VELOCITY))
        for k, axis in enumerate("xyz"):
            s[f"target_v{axis}"][obeying] = wanted[:, k]
        s["target_until"][obeying] = self.now + valid
        return obeys

    def accelerate(self, rows: ArrayLike, acceleration: ArrayLike, valid: float = 3.0) -> Flags:
        """Keep `acceleration` (n, 3) m/s^2 for `valid` s, then stop. Refused as `go` is, and by rovers."""
        obeys, obeying = self._hover_orders(rows, int(l.ACCELERATION), valid)
        wanted = np.broadcast_to(np.asarray(acceleration, np.float64), (len(obeys), 3))[obeys]
        for k, axis in enumerate("xyz"):
            self.state[f"feed_{axis}"][obeying] = wanted[:, k]
        return obeys

    def lean(
        self, rows: ArrayLike, roll: ArrayLike, pitch: ArrayLike, climb: ArrayLike = 0.0, valid: float = 3.0
    ) -> Flags:
        """Keep an attitude (rad; roll to the right, pitch nose up) and a rate of climb (m/s) for `valid` s, then stop.

        Refused as `go` is, and by rovers.
        """
        obeys, obeying = self._hover_orders(rows, int(l.ATTITUDE), valid)
        most = self.frames["tilt"][obeying]
        for name, wanted in (("target_roll", roll), ("target_pitch", pitch)):
            self.state[name][obeying] = np.clip(np.broadcast_to(wanted, obeys.shape)[obeys], -most, most)
        fastest, slowest = self.frames["climb"][obeying], -self.frames["descent"][obeying]
        self.state["target_vz"][obeying] = np.clip(np.broadcast_to(climb, obeys.shape)[obeys], slowest, fastest)
        return obeys

    def circle(self, rows: ArrayLike, centre: ArrayLike, radius: ArrayLike, speed: ArrayLike) -> Flags:
        """Fly round `centre` (n, 3) m at `radius` m with `speed` m/s, clockwise when above 0, until the next order.

        Refused as `go` is, and by rovers.
        """
        obeys, obeying = self._hover_orders(rows, int(l.CIRCLE), math.inf)
        s, point = self.state, np.broadcast_to(np.asarray(centre, np.float64), (len(obeys), 3))[obeys]
        for name, values in zip(("circle_x", "circle_y", "target_z"), point.T, strict=True):
            s[name][obeying] = values
        s["circle_radius"][obeying] = np.broadcast_to(radius, obeys.shape)[obeys]
        s["circle_speed"][obeying] = np.broadcast_to(speed, obeys.shape)[obeys]
        s["turned"][obeying] = 0.0
        return obeys

    def turn(self, rows: ArrayLike, rate: ArrayLike) -> None:
        """Turn at `rate` rad/s, clockwise when above 0, in the present mode; NaN: no more."""
        self.state["target_turn"][self._rows(rows)] = rate

    def cut(self, rows: ArrayLike) -> None:
        """Stop the motors, also in the air: a copter falls."""
        r = self._rows(rows)
        self.state["stopped"][r] = 1
        grounded = r[(self.state["landed"][r] != 0) | (self.frames["kind"][r] != l.COPTER)]
        self.state["armed"][grounded] = 0

    def set_air(self, altitude: float) -> None:
        """Let the air be the ICAO standard atmosphere's (Doc 7488) above a place `altitude` m above the sea."""
        self.frames["altitude"], self.frames["temperature"] = altitude, 288.15 - 0.0065 * altitude

    def _hover_orders(self, rows: ArrayLike, mode: int, valid: float) -> tuple[Flags, Ints]:
        """Who obeys an order that only copters in flight take, and their rows, which are in `mode` now."""
        r = self._rows(rows)
        obeys: Flags = self._able(r) & (self.frames["kind"][r] == l.COPTER)
        obeying = r[obeys]
        self._enter(obeying, mode)
        self.state["target_until"][obeying] = self.now + valid
        return obeys, obeying

    def face(self, rows: ArrayLike, heading: ArrayLike) -> None:
        """Keep this heading (rad, NaN: along the way) in the present mode."""
        self.state["target_heading"][self._rows(rows)] = heading

    def set_speed(self, rows: ArrayLike, speed: ArrayLike) -> None:
        """Horizontal m/s from now on; 0: the vehicle's own."""
        self.state["speed"][self._rows(rows)] = speed

    def set_mission(self, row: int, waypoints: Sequence[Waypoint]) -> None:
        """Give a vehicle a mission, from its first waypoint on; it starts with `start_mission`."""
        new = np.array([(w.x, w.y, w.z, w.hold, w.speed, w.radius, w.turns, WHAT[w.what]) for w in waypoints], l.ITEM)
        self.replace_items(row, new)
        s = self.state[row]
        s["item"], s["reached"], s["done"] = 0, -1, 0

    def replace_items(self, row: int, new: Records) -> None:
        """Give a vehicle the mission `new` (n,) ITEM and leave it where it is in it."""
        s = self.state[row]
        first, count = int(s["first_item"]), int(s["items"])
        shared = int(((self.state["first_item"] == first) & (self.state["items"] == count)).sum()) > 1
        if len(new) == count and not shared:
            self._items[first : first + count] = new
        else:
            kept = self._items if shared else np.delete(self._items, slice(first, first + count))
            self._items = np.concatenate([kept, new])
            if not shared:
                self.state["first_item"][self.state["first_item"] > first] -= count
            s["first_item"], s["items"] = len(self._items) - len(new), len(new)

    def share_mission(self, rows: ArrayLike, waypoints: Sequence[Waypoint]) -> None:
        """Give many vehicles the same mission, kept once; otherwise as `set_mission`."""
        r = self._rows(rows)
        self.set_mission(int(r[0]), waypoints)
        for name in ("first_item", "items", "item", "reached", "done"):
            self.state[name][r] = self.state[name][r[0]]

    def start_mission(self, rows: ArrayLike, item: int = -1) -> Flags:
        """Go on with the mission, or from `item` on. Refused when not armed or without a mission."""
        r = self._rows(rows)
        s = self.state
        obeys: Flags = (s["armed"][r] != 0) & (s["items"][r] > 0) & (s["failsafe"][r] != l.EMPTY)
        obeys &= item < s["items"][r]
        obeying = r[obeys]
        self._enter(obeying, int(l.MISSION))
        s["item"][obeying] = item if item >= 0 else np.where(s["done"][obeying] != 0, 0, s["item"][obeying])
        s["done"][obeying] = 0
        return obeys

    def hold(self, rows: ArrayLike) -> None:
        """Stop and stay."""
        self._enter(self._rows(rows), int(l.HOLD))

    def go_home(self, rows: ArrayLike) -> Flags:
        """Return to home; copters land there. Refused as `go` is."""
        r = self._rows(rows)
        obeys = self._able(r)
        self._enter(r[obeys], int(l.RETURN))
        return obeys

    def land(self, rows: ArrayLike) -> Flags:
        """Land here. Refused by rovers and on the ground."""
        r = self._rows(rows)
        obeys: Flags = self._able(r) & (self.frames["kind"][r] == l.COPTER)
        self._enter(r[obeys], int(l.LAND))
        return obeys

    def set_fence(self, rows: ArrayLike, radius: ArrayLike = 0.0, top: ArrayLike = 0.0) -> None:
        """Return when farther than `radius` m from home or higher than `top` m above it; 0: no such limit."""
        r = self._rows(rows)
        self.state["fence_radius"][r], self.state["fence_top"][r] = radius, top

    def recharge(self, rows: ArrayLike, charge: ArrayLike = 1.0) -> Flags:
        """Give vehicles that are not armed a battery at `charge` 0..1 of its capacity."""
        r = self._rows(rows)
        obeys: Flags = self.state["armed"][r] == 0
        obeying = r[obeys]
        level = np.broadcast_to(np.asarray(charge, np.float64), r.shape)[obeys]
        self.state["charge"][obeying] = level * self.frames["capacity"][obeying]
        self.state["failsafe"][obeying] = np.where(level > 0.0, l.NONE, l.EMPTY)
        return obeys

    def charge(self) -> Floats:
        """(n,) 0..1 of the capacity."""
        left: Floats = self.state["charge"] / self.frames["capacity"]
        return left

    def _rows(self, rows: ArrayLike) -> Ints:
        return np.atleast_1d(np.asarray(rows, np.int64))

    def _able(self, r: Ints) -> Flags:
        s = self.state
        flying = (self.frames["kind"][r] != l.COPTER) | (s["landed"][r] == 0)
        able: Flags = (s["armed"][r] != 0) & flying & (s["failsafe"][r] != l.EMPTY)
        return able

    def _enter(self, rows: Ints, mode: int) -> None:
        """What `pilot.enter` does, for many rows."""
        s = self.state
        s["mode"][rows] = mode
        for name, value in _ENTERED.items():
            s[name][rows] = value
        for axis in "xyz":
            s[f"target_{axis}"][rows] = s[axis][rows]
            s[f"target_v{axis}"][rows] = 0.0
