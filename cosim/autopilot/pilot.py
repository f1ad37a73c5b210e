"""What an autopilot does with its vehicle: modes, arming, targets, fail-safes. No MAVLink in here."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cosim.autopilot.failsafes import CRITICAL, INFO, WARNING, Failsafes
from cosim.autopilot.fence import Fence
from cosim.autopilot.flight import Mission, MissionItem
from cosim.autopilot.geodesy import HIGHEST, Ground, Place, Vector
from cosim.autopilot.parameters import Parameters
from cosim.autopilot.personas import BATTERY, STATION, UNKNOWN, Behaviour, Persona
from cosim.autopilot.tuning import show_vehicle, tune_vehicle
from cosim.physics.vehicles import VehicleFleet, layout

_FIELDS = tuple(layout.STATE.names or ())
View: Any = namedtuple("View", _FIELDS)  # type: ignore[misc]  # mypy wants the names spelt out

# Modes of the fleet that fit the autopilot's behaviour. Any other mode was ordered from elsewhere, or by
# a fail-safe.
_FITTING: dict[Behaviour, frozenset[int]] = {
    "hold": frozenset({layout.HOLD, layout.MANUAL, layout.VELOCITY, layout.ATTITUDE}),  # the latter by sticks
    "guided": frozenset(
        {layout.HOLD, layout.GO, layout.VELOCITY, layout.TAKE_OFF, layout.ATTITUDE, layout.ACCELERATION}
    ),
    "circle": frozenset({layout.CIRCLE, layout.HOLD}),
    "take-off": frozenset({layout.TAKE_OFF, layout.GO, layout.HOLD}),
    "mission": frozenset({layout.MISSION, layout.HOLD, layout.TAKE_OFF}),
    "return": frozenset({layout.RETURN}),
    "land": frozenset({layout.LAND}),
    "follow": frozenset({layout.GO, layout.HOLD}),
}
_SHOWN: dict[int, Behaviour] = {
    **dict.fromkeys(map(int, (layout.GO, layout.VELOCITY, layout.TAKE_OFF)), "guided"),
    int(layout.MISSION): "mission", int(layout.RETURN): "return", int(layout.LAND): "land",
}  # fmt: skip


@dataclass(slots=True)
class _Swing:
    heading: float  # rad, from which it turns
    turn: float  # rad
    rate: float  # rad/s
    since: float  # s
    commanded: float = math.nan  # rad, the heading that was asked for last; NaN: none yet


class Pilot:
    """Flies one row of a fleet the way a persona does.

    Orders answer with None when they are obeyed, else with the reason why not.
    """

    def __init__(
        self, fleet: VehicleFleet, row: int, persona: Persona, ground: Ground,
        parameters: Parameters, ready_after: float,
        timed: bool,
    ) -> None:  # fmt: skip
        """`ready_after`: s from now until sensors and estimator are ready. `timed`: see `Autopilot`."""
        self.fleet, self.row, self.persona, self.ground, self.parameters = fleet, row, persona, ground, parameters
        self.boot = fleet.now
        self.ready_at = fleet.now + ready_after
        self.mode = persona.first
        self.view = self.look()
        self._seen = (self.view.armed, self.view.failsafe)  # by the last `update`
        self.home = (self.view.x, self.view.y, self.view.z)  # m, local
        self.said: list[tuple[int, str]] = []  # MAV_SEVERITY, text
        self.log: Callable[[str], None] = lambda _: None  # notes what it says
        self.reason = UNKNOWN  # why the mode is what it is
        self.ordered = self.forced = False  # whether the last change of arming was ordered to disarm, and was forced
        self.perform: Callable[[MissionItem], None] = lambda _: None  # carries out a command of a mission
        self.mission = Mission(self)
        self.fence = Fence()
        self.failsafes = Failsafes()
        self.rally: list[Place] = []
        self.changed = True  # whether mode or arming changed since this was last set to False
        self._rise = math.nan  # m above home, PX4's take-off ordered before arming
        self._setpoint = -math.inf  # s, when OFFBOARD last got a setpoint
        self.safe = False  # whether the safety switch keeps the motors off
        self._steered = (0.0, 0.0, 0.0)  # m/s, the velocity that was asked for last
        self._paused: Vector | None = None  # m, where it goes on to in a guided mode
        self._nose_in = True  # whether it looks at the centre of a circle that it flies
        self._swing: _Swing | None = None  # a turn at a rate that was asked for, under way
        show_vehicle(self, timed)

    @property
    def behaviour(self) -> Behaviour:
        """What the present mode does."""
        return self.persona.modes[self.mode].behaviour

    @property
    def ready(self) -> bool:
        """Whether position and attitude are known."""
        return self.fleet.now >= self.ready_at

    def look(self) -> Any:  # noqa: ANN401 - a named tuple of STATE's fields
        """The vehicle's state now."""
        return View._make(self.fleet.state[self.row].item())

    def say(self, severity: int, text: str) -> None:
        """Announce `text`."""
        self.said.append((severity, text))
        self.log(text)

    def place(self) -> Place:
        """Where the vehicle is."""
        return self.ground.place(self.view.x, self.view.y, self.view.z)

    def home_place(self) -> Place:
        """Where its home is."""
        return self.ground.place(*self.home)

    def objections(self) -> list[str]:
        """What speaks against arming, in the words of the autopilot."""
        v, found = self.view, []
        if v.crashed:
            found.append("Vehicle has crashed")
        if self.safe:
            found.append("Hardware safety switch")
        if v.failsafe == layout.EMPTY or v.voltage < self.parameters.get("BATT_ARM_VOLT"):
            found.append("Battery 1 below minimum arming voltage")
        elif v.failsafe in (layout.LOW, layout.CRITICAL):
            found.append("Battery failsafe")
        if not self.ready:
            found += (["GPS 1: Bad fix", "EKF attitude is bad"], ["ekf2 missing data", "GPS fix too low"])[
                self.persona.px4
            ]
        if self.fence.on(self.parameters, self.persona.px4) and self.fence.breach(self):
            found.append("Vehicle breaching fence")
        return found

    def arm(self, force: bool = False) -> str | None:
        """Arm; `force` passes the checks, but cannot mend a broken vehicle."""
        self.view = self.look()
        if self.view.armed:
            return None
        checked = not force and (self.persona.px4 or self.parameters.get("ARMING_CHECK") != 0)
        if not self.persona.modes[self.mode].arms and not force:
            return f"{self.mode} mode not armable"
        found = self.objections() if checked else []
        if found:
            return found[0]
        self.fleet.hold([self.row])
        if not self.fleet.arm([self.row])[0]:
            return "Vehicle has crashed" if self.view.crashed else "Battery 1 below minimum arming voltage"
        self.view = self.look()
        self.home = (self.view.x, self.view.y, self.view.z)
        self.changed, self.ordered, self.forced = True, False, force
        self.say(INFO, "Armed by external command" if self.persona.px4 else "Arming motors")
        if self.behaviour == "mission":
            self.mission.start()
        elif not math.isnan(self._rise):
            self.take_off(self._rise)
        return None

    def disarm(self, force: bool = False) -> str | None:
        """Disarm; refused in flight unless with `force`: then the motors stop, and a copter falls."""
        if force:
            self.fleet.cut([self.row])
        elif not self.fleet.arm([self.row], on=False)[0]:
            return "not landed"
        self.changed, self.ordered, self.forced = True, True, force
        return None

    def set_mode(self, name: str, why: int = STATION) -> str | None:
        """Change the mode and do what it stands for. `why`: ArduPilot's ModeReason."""
        v = self.view = self.look()
        behaviour = self.persona.modes[name].behaviour
        if behaviour != "hold" and not self.ready:
            return f"Mode change to {name} failed: requires position"
        if behaviour == "mission":
            reason = self.mission.refusal(landed=bool(v.landed))
            if reason:
                return f"Mode change to {name} failed: {reason}"
        if behaviour == "follow" and not self.parameters.get("FOLL_ENABLE", 1.0):
            return f"Mode change to {name} failed: FOLL_ENABLE is 0"
        if name == "OFFBOARD" and self.fleet.now - self._setpoint > self.parameters["COM_OF_LOSS_T"]:
            return "Offboard mode rejected: no setpoints"
        if name == self.mode and not (v.armed and behaviour in ("return", "land")):
            return None
        self.mode, self._rise, self._paused, self.changed, self.reason = name, math.nan, None, True, why
        self._restore_home()
        if v.armed:
            self._enact(behaviour)
        return None

    def _enact(self, behaviour: Behaviour) -> None:
        rows = [self.row]
        if behaviour == "return":
            speed = self.parameters.get("RTL_SPEED") / 100.0
            if speed > 0.0:
                self.fleet.set_speed(rows, speed)
            self._choose_rally()
            if not self.fleet.go_home(rows)[0]:
                self.fleet.arm(rows, on=False)  # on the ground already
        elif behaviour == "land":
            if not self.fleet.land(rows)[0] and self.persona.frame == "copter":
                self.fleet.arm(rows, on=False)
        elif behaviour == "mission":
            self.mission.start()
        elif behaviour == "circle":
            v = self.look()
            self._nose_in = not int(self.parameters.get("CIRCLE_OPTIONS")) & 2
            if self.persona.px4:
                self.orbit((v.x, v.y, v.z), math.nan, math.nan)
                return
            radius = self.parameters.get("CIRCLE_RADIUS", 1000.0) / 100.0
            rate = math.radians(self.parameters.get("CIRCLE_RATE", 20.0))
            limit = math.sqrt(0.5 * float(self.fleet.frames["accel"][self.row]) * max(radius, 0.01))  # AC_Circle
            centre = (v.x + radius * math.sin(v.heading), v.y + radius * math.cos(v.heading), v.z)
            speed = math.copysign(min(abs(rate) * radius, limit), rate)
            if not self.fleet.circle(rows, [centre], radius, speed)[0]:
                self.fleet.hold(rows)
        elif behaviour == "take-off":
            self.take_off(self.parameters["MIS_TAKEOFF_ALT"])
        else:
            self.fleet.hold(rows)

    def orbit(self, centre: Vector, radius: float, speed: float, *, nose_in: bool = True) -> str | None:
        """PX4's ORBIT round `centre` (m, local) at `radius` m, below 0 anticlockwise, with `speed` m/s.

        NaN: 1 m, 1 m/s. The radius is 1 to 1000 m, the speed 10 m/s and what 2 m/s^2 allow at most (FlightTaskOrbit).
        """
        far = 1.0 if math.isnan(radius) else max(1.0, min(abs(radius), 1000.0))
        fast = 1.0 if math.isnan(speed) else min(abs(speed), 10.0, math.sqrt(2.0 * far))
        if not self.ground.place(*centre).possible:
            return "beyond air and ground"
        if not self.fleet.circle([self.row], [centre], far, math.copysign(fast, radius))[0]:
            return "not flying"
        self.mode, self._nose_in, self.changed = self.persona.doing("circle"), nose_in, True
        return None

    def _face_centre(self, v: Any) -> None:  # noqa: ANN401
        """Round a circle the nose points to its centre."""
        if (v.mode == layout.CIRCLE and self._nose_in) or (v.mode == layout.MISSION and self.mission.turning):
            self.fleet.face([self.row], math.atan2(v.circle_x - v.x, v.circle_y - v.y))

    def take_off(self, height: float) -> str | None:
        """Rise to `height` m above home. PX4 changes its mode for it, ArduPilot has to be in GUIDED."""
        v = self.view = self.look()
        if self.persona.frame == "rover":
            return "cannot fly"
        if not (math.isfinite(height) and height > 0.0):
            return "height must be above 0"
        if height + self.home_place().altitude > HIGHEST:
            return "beyond the air"
        if self.persona.px4:
            self.mode, self.changed = "TAKEOFF", True
            self._rise = math.nan if v.armed else height
            if not v.armed:
                return None
        elif self.behaviour != "guided":
            return "Takeoff: not in GUIDED"
        if not self.fleet.take_off([self.row], height)[0]:
            return "Takeoff: not armed" if not v.armed else "Takeoff: not landed"
        return None

    def setpoint(self) -> None:
        """Note that a client sends a setpoint now: PX4 stays in OFFBOARD only while one does."""
        self._setpoint = self.fleet.now

    def go(self, point: Vector, velocity: Vector | None = None, heading: float | None = None) -> str | None:
        """Fly or drive to `point` (m, local), which moves at `velocity` (m/s). Only in guided modes."""
        if self.behaviour != "guided":
            return "not in guided mode"
        if not all(math.isfinite(part) for part in (*point, *(velocity or ()))):
            return "not a position"
        if not self.ground.place(*point).possible:
            return "beyond air and ground"
        if not self.persona.px4 and self.fence.on(self.parameters, False) and self.fence.forbids(self, point):
            return "target is outside the fence"
        if self.fleet.obstacles is not None and self.fleet.obstacles.hit(point, point):
            return "target is inside an obstacle"
        if not self.fleet.go([self.row], [point], None if velocity is None else [velocity])[0]:
            return "not flying" if self.persona.frame == "copter" else "not armed"
        self.fleet.face([self.row], math.nan if heading is None else heading)
        return None

    def steer(self, velocity: Vector, heading: float | None = None) -> str | None:
        """Keep a velocity (m/s, local) for a while. Only in guided modes."""
        if self.behaviour != "guided":
            return "not in guided mode"
        if not all(math.isfinite(part) for part in velocity):
            return "not a velocity"
        self._steered = velocity
        if not self.fleet.steer([self.row], [self.fence.slow(self, velocity)], self._valid)[0]:
            return "not flying" if self.persona.frame == "copter" else "not armed"
        if heading is not None:
            self.fleet.face([self.row], heading)
        return None

    def _guided_order(self, values: tuple[float, ...]) -> str | None:
        if self.behaviour != "guided":
            return "not in guided mode"
        if not all(math.isfinite(value) for value in values):
            return "not a number"
        if self.persona.frame == "rover":
            return "a rover cannot do that"
        return None

    @property
    def _valid(self) -> float:
        """s that a target holds."""
        name, usual = ("COM_OF_LOSS_T", 1.0) if self.persona.px4 else ("GUID_TIMEOUT", 3.0)
        return max(self.parameters.get(name, usual), 0.1)

    def accelerate(self, acceleration: Vector, heading: float | None = None) -> str | None:
        """Keep an acceleration (m/s^2, local) for a while. Only in guided modes."""
        reason = self._guided_order(acceleration)
        if reason is None and not self.fleet.accelerate([self.row], [acceleration], self._valid)[0]:
            reason = "not flying"
        if reason is None and heading is not None:
            self.fleet.face([self.row], heading)
        return reason

    def lean(
        self, roll: float, pitch: float, climb: float, heading: float | None = None, rate: float | None = None
    ) -> str | None:
        """Keep an attitude (rad) and a rate of climb (m/s) for a while. Only in guided modes."""
        reason = self._guided_order((roll, pitch, climb))
        if reason is None and not self.fleet.lean([self.row], roll, pitch, climb, self._valid)[0]:
            reason = "not flying"
        if reason is None and heading is not None:
            self.fleet.face([self.row], heading)
        if reason is None and rate is not None:
            self.turn(rate)
        return reason

    def face(self, heading: float | None) -> str | None:
        """Turn to a heading (rad) in the present place. Only in guided modes."""
        reason = self._guided_order(())
        if reason is None and heading is not None:
            self.fleet.face([self.row], heading)
        return reason

    def stop(self) -> None:
        """Stay here in a guided mode, whatever the target was."""
        v = self.look()
        if v.armed and not v.landed:
            self.fleet.hold([self.row])

    def pause(self) -> bool:
        """Stop on the way until `resume`, in the same mode; False when nothing is under way."""
        v = self.look()
        if not v.armed or v.landed or self.persona.frame == "rover":
            return False
        if self.behaviour == "guided":
            self._paused = (v.target_x, v.target_y, v.target_z) if v.mode == layout.GO else (v.x, v.y, v.z)
            self.fleet.hold([self.row])
            return True
        return self.behaviour == "mission" and self.mission.halt()

    def resume(self) -> bool:
        """Go on after `pause`; False when it was not paused and cannot go on."""
        v = self.look()
        if not v.armed or v.landed:
            return False
        if self.behaviour == "guided":
            if self._paused is not None:
                self.fleet.go([self.row], [self._paused])
                self._paused = None
            return True
        return self.behaviour == "mission" and self.mission.proceed()

    def swing(self, heading: float, turn: float, rate: float) -> None:
        """Turn from `heading` (rad) by `turn` rad at `rate` rad/s, and keep the heading then."""
        self._swing = _Swing(heading, turn, rate, self.fleet.now)
        self._go_on_turning(self.look())

    def _go_on_turning(self, v: Any) -> None:  # noqa: ANN401
        swing = self._swing
        if swing is None:
            return
        if not math.isnan(swing.commanded) and v.target_heading != swing.commanded:
            self._swing = None  # another order has come
            return
        gone = min(swing.rate * (self.fleet.now - swing.since), abs(swing.turn))
        swing.commanded = swing.heading + math.copysign(gone, swing.turn)
        self.fleet.face([self.row], swing.commanded)
        if gone >= abs(swing.turn):
            self._swing = None

    def turn(self, rate: float) -> None:
        """Turn at `rate` rad/s as long as the present order holds."""
        self.fleet.turn([self.row], rate)

    def cut(self) -> None:
        """Stop the motors, also in the air."""
        self.fleet.cut([self.row])
        self.changed, self.ordered, self.forced = True, True, True

    def set_home(self, point: Vector) -> None:
        """Make `point` (m, local) home."""
        self.home = point
        self._restore_home()

    def tune(self, name: str) -> None:
        """A parameter was changed: let the vehicle follow it."""
        tune_vehicle(self, name)

    def update(self) -> None:
        """Take notice of what the vehicle did since the last call."""
        (armed, failsafe), v = self._seen, self.look()
        self.view, self._seen = v, (v.armed, v.failsafe)
        if v.armed != armed:
            self.changed = True
            if not v.armed:
                self.say(CRITICAL if v.crashed else INFO, "Crash: Disarming" if v.crashed else "Disarming motors")
        if v.failsafe != failsafe:
            self.failsafes.report(self, v)
        if not v.armed:
            self.mission.end()
            if armed and self.persona.px4 and self.behaviour in ("take-off", "mission", "return", "land"):
                self.mode = "HOLD"  # so that it can be armed again
            return
        self.mission.update()
        v = self.view = self.look()  # it may have given orders
        self._go_on_turning(v)
        self._face_centre(v)
        if v.mode not in _FITTING[self.behaviour] and not self.mission.flies(v.mode):
            behaviour = _SHOWN.get(v.mode, "hold")
            if behaviour == "return":
                self._choose_rally()
            self.mode, self.changed = self.persona.doing(behaviour), True
            self.reason = BATTERY if v.failsafe in (layout.LOW, layout.CRITICAL) else UNKNOWN
        if self.mode == "TAKEOFF" and v.mode != layout.TAKE_OFF and not v.landed:
            self.mode, self.changed = "HOLD", True
        if self.mode == "OFFBOARD" and self.fleet.now - self._setpoint > self.parameters["COM_OF_LOSS_T"]:
            self.say(WARNING, "Offboard control lost")
            self.set_mode("HOLD")
        self.failsafes.watch(self, v)
        if self.fence.on(self.parameters, self.persona.px4):
            if v.mode == layout.VELOCITY and self.behaviour == "guided":
                for axis, speed in zip("xyz", self.fence.slow(self, self._steered), strict=True):
                    self.fleet.state[f"target_v{axis}"][self.row] = speed
            self.fence.watch(self)

    def _choose_rally(self) -> None:
        """Return to the nearest rally point, if there is one nearer than home (AP_Rally)."""
        v, limit = self.view, 1000.0 * self.parameters.get("RALLY_LIMIT_KM")
        best, point = math.inf, None
        for place in self.rally:
            x, y, z = self.ground.local(place)
            far = math.hypot(x - v.x, y - v.y)
            if far < best and (limit <= 0.0 or far <= limit):
                best, point = far, (x, y, z)
        if point is None:
            return
        if self.parameters.get("RALLY_INCL_HOME", 1.0) and math.hypot(self.home[0] - v.x, self.home[1] - v.y) < best:
            return
        self._set_return(point)

    def _restore_home(self) -> None:
        self._set_return(self.home)

    def _set_return(self, point: Vector) -> None:
        for axis, value in zip("xyz", point, strict=True):
            self.fleet.state[f"home_{axis}"][self.row] = value
