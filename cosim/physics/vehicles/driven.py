"""A vehicle whose motors and wheels are driven from outside: the physics without the autopilot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats, Records
from cosim.physics.vehicles.airframe import GRAVITY, Copter, Rover
from cosim.physics.vehicles.battery import open_circuit
from cosim.physics.vehicles.contact import touch
from cosim.physics.vehicles.impact import strike
from cosim.physics.vehicles.layout import COPTER, EMPTY, GROUND, STATE
from cosim.physics.vehicles.motion import density, discharge, draw, ride, wrap
from cosim.physics.vehicles.power import wheel_power
from cosim.physics.vehicles.rigid import push, show
from cosim.physics.vehicles.terrain import FLAT, Terrain, ground_at

_OFF = 0.3  # m above the ground: in the air, and not only sprung off it


@entry()
def _drive(
    states: Records, frames: Records, outputs: Floats, wind: Floats, force: Floats, land: tuple[Floats, Floats],
    now: float, dt: float, steps: int,
) -> None:  # fmt: skip
    """`steps` times `dt` s with outputs 0..1 (thrust of four rotors; or steering -1..1 and throttle -1..1)."""
    s, a = states[0], frames[0]
    heights, box = land
    hilly = len(heights) > 0
    for k in range(steps):
        vx, vy, vz = s.vx, s.vy, s.vz
        if hilly:
            a.ground = ground_at(heights, box, s.x, s.y)
        power = s.failsafe != EMPTY and s.crashed == 0
        if a.kind == COPTER:
            most = a.thrust_ratio * a.mass * GRAVITY / 4.0 if power else 0.0
            thrust = (most * outputs[0], most * outputs[1], most * outputs[2], most * outputs[3])
            borne = touch(s, a, wind[0], wind[1], dt)
            push(s, a, thrust, (wind[0], wind[1], wind[2]), dt)
            if borne > 0.0 and s.landed == 0:
                s.impact = -vz
                s.landed = 1
                if s.impact > a.bears:
                    strike(s, a, GROUND, -1, s.impact, s.impact, now + k * dt)
            elif borne <= 0.0 and s.z > a.ground + _OFF:
                s.landed = 0
            show(s)
            draw(s, a, s.vx - wind[0], s.vy - wind[1], s.vz - wind[2], density(s, a))
        else:
            v = s.vx * math.sin(s.heading) + s.vy * math.cos(s.heading)
            wish = a.speed * outputs[1] if power else 0.0
            before = v
            v += min(max(wish - v, -2.0 * a.accel * dt), a.accel * dt)
            s.turn = v * math.tan(a.steer * outputs[0]) / a.wheelbase if a.steer > 0.0 and a.wheelbase > 0.0 else 0.0
            if a.yaw_rate > 0.0:
                s.turn = a.yaw_rate * outputs[0]
            s.heading = wrap(s.heading + s.turn * dt)
            s.vx, s.vy = v * math.sin(s.heading), v * math.cos(s.heading)
            s.x += s.vx * dt
            s.y += s.vy * dt
            drawn = wheel_power(abs(v), (v - before) / dt, a.mass, a.rolling, GRAVITY * a.mass)
            s.power = drawn / a.wheel_efficiency + a.idle
            if hilly:
                a.ground = ground_at(heights, box, s.x, s.y)
                ride(s, a, before, dt)
            s.p = s.q = 0.0
            s.r = -s.turn
        if not power:
            s.power = 0.0
        discharge(s, a, dt)
        force[0], force[1], force[2] = (s.vx - vx) / dt, (s.vy - vy) / dt, (s.vz - vz) / dt


class Driven:
    """One vehicle at rest at a place, to be driven output by output.

    A copter is a rigid quadrotor with thrusts 0..1 of its four rotors: front right, rear left, front
    left, rear right. A rover takes steering and throttle, both -1..1. `state` is a row of
    `cosim.physics.vehicles.layout.STATE`.
    """

    def __init__(
        self,
        vehicle: Copter | Rover | Records,
        home: tuple[float, float, float] = (0.0, 0.0, 0.0),
        heading: float = 0.0,
        terrain: Terrain | None = None,
    ) -> None:
        """`vehicle`: or its (1,) AIRFRAME; `home`: m east, north, up, on the ground of `terrain` if there is one;
        `heading`: rad. Raises `ValueError` for a copter without rigid dynamics.
        """  # fmt: skip
        self._frame = vehicle.row() if isinstance(vehicle, Copter | Rover) else vehicle.copy()
        if self._frame["kind"][0] == COPTER and not self._frame["rigid"][0]:
            raise ValueError('a copter whose rotors are driven needs dynamics="rigid"')
        self._frame["ground"] = home[2]
        self._land = FLAT if terrain is None else terrain
        self._states = np.zeros(1, STATE)
        self._home, self._heading = home, heading
        self.wind = np.zeros(3)  # m/s east, north, up
        self.force = np.zeros(3)  # m/s^2 east, north, up: change of velocity in the last step
        self.now = 0.0  # s
        self.reset()

    @property
    def state(self) -> Any:  # noqa: ANN401 - a record
        """The vehicle's row of STATE."""
        return self._states[0]

    @property
    def frame(self) -> Any:  # noqa: ANN401 - a record
        """The vehicle's row of AIRFRAME."""
        return self._frame[0]

    def reset(self) -> None:
        """Back home with a full battery, at time 0."""
        s, a = self._states, self._frame[0]
        s[0] = np.zeros((), STATE)
        for axis, value in zip("xyz", self._home, strict=True):
            s[axis] = s[f"home_{axis}"] = value
        s["heading"] = self._heading
        s["qw"] = math.cos(0.25 * math.pi - 0.5 * self._heading)
        s["qz"] = math.sin(0.25 * math.pi - 0.5 * self._heading)
        s["charge"], s["landed"], s["armed"] = a["capacity"], 1, 1
        s["voltage"] = a["cells"] * open_circuit(1.0)
        self.force[:] = 0.0
        self.now = 0.0

    def step(self, outputs: Floats, dt: float, steps: int = 1) -> None:
        """Let `steps` times `dt` s pass; `dt` of 2.5 ms or less for copters."""
        land = self._land
        _drive(self._states, self._frame, outputs, self.wind, self.force, (land.heights, land.box), self.now, dt, steps)
        self.now += steps * dt
