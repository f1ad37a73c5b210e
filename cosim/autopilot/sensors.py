"""What a vehicle's sensors read from the state that its dynamics have: without noise, but for satellite positions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cosim.autopilot.geodesy import Place, Vector
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.power import relative_density

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

_TROPOPAUSE = 11_000.0  # m above which it gets no colder (ICAO Doc 7488)


def rates(a: Autopilot) -> Vector:
    """Rad/s of the body about forward, right, down."""
    v = a.pilot.view
    if a.pilot.persona.frame == "rover":
        return 0.0, 0.0, v.turn
    return (0.0, 0.0, 0.0) if v.landed else (v.p, -v.q, -v.r)


def quaternion(v: Any) -> tuple[float, float, float, float]:  # noqa: ANN401 - a view of the state
    """From north, east, down to forward, right, down."""
    cr, sr = math.cos(0.5 * v.roll), math.sin(0.5 * v.roll)
    cp, sp = math.cos(0.5 * v.pitch), math.sin(0.5 * v.pitch)
    cy, sy = math.cos(0.5 * v.heading), math.sin(0.5 * v.heading)
    w, x = cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy
    y, z = cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy
    return w, x, y, z


def body(v: Any, north: float, east: float, down: float) -> Vector:  # noqa: ANN401
    """A vector's parts forward, right and down."""
    w, x, y, z = quaternion(v)
    return (
        (1 - 2 * (y * y + z * z)) * north + 2 * (x * y + w * z) * east + 2 * (x * z - w * y) * down,
        2 * (x * y - w * z) * north + (1 - 2 * (x * x + z * z)) * east + 2 * (y * z + w * x) * down,
        2 * (x * z + w * y) * north + 2 * (y * z - w * x) * east + (1 - 2 * (x * x + y * y)) * down,
    )


def force(a: Autopilot) -> Vector:
    """Specific force (m/s^2) forward, right and down: all that moves the vehicle but its weight."""
    v, frame = a.pilot.view, a.pilot.fleet.frames[a.pilot.row]
    if not v.armed or (v.landed and a.pilot.persona.frame == "copter"):
        return body(v, 0.0, 0.0, -GRAVITY)
    if a.pilot.persona.frame == "rover":
        return v.ax, math.hypot(v.vx, v.vy) * v.turn, -GRAVITY
    east, north, up = a.pilot.fleet.wind[a.pilot.row].tolist()
    ux, uy, uz = v.vx - east, v.vy - north, v.vz - up
    thin = relative_density(float(frame["altitude"]), float(frame["temperature"]), v.z)
    drag = thin * (float(frame["drag"]) + float(frame["drag2"]) * math.sqrt(ux * ux + uy * uy + uz * uz))
    return body(v, v.ay - drag * uy, v.ax - drag * ux, drag * uz - v.az - GRAVITY)


def imu(a: Autopilot) -> tuple[int, ...]:
    """Without noise: specific force in mg, rates in mrad/s, a field of 0.5 G pointing down by 60 degrees in mG."""
    parts = [*(part / GRAVITY for part in force(a)), *rates(a)]
    whole = [max(-32768, min(32767, round(1000.0 * part))) for part in parts]
    return *whole, *(round(part) for part in body(a.pilot.view, 250.0, 0.0, 433.0))


def fix(a: Autopilot) -> tuple[Place, int, int]:
    """Where its receiver has it, and how far that is off, across and up, in mm: the root mean square of the errors.

    They are those of the fleet's `receivers`; without any it shows what receivers do in the open.
    """  # fmt: skip
    v, errors = a.pilot.view, a.pilot.fleet.receivers
    if errors is None:
        return a.place, 300, 500
    east, north, up = (float(error) for error in errors.now[a.pilot.row])
    level, height = math.hypot(*errors.spread[:2]), float(errors.spread[2])
    return a.pilot.ground.place(v.x + east, v.y + north, v.z + up), round(1e3 * level), round(1e3 * height)


def motors(a: Autopilot) -> list[float]:
    """Part of its greatest thrust that each rotor gives, in ArduPilot's order; a tenth to idle on the ground."""
    v, frame = a.pilot.view, a.pilot.fleet.frames[a.pilot.row]
    if not v.armed or v.landed:
        return [0.1 * v.armed] * 4
    most = float(frame["thrust_ratio"]) * float(frame["mass"]) * GRAVITY / 4.0
    return [min(part / most, 1.0) for part in (v.t0, v.t1, v.t2, v.t3)]


def servos(a: Autopilot) -> list[int]:
    """us to the rotors, or to the steering of a rover, nothing, its motor, nothing."""
    v, frame = a.pilot.view, a.pilot.fleet.frames[a.pilot.row]
    if a.pilot.persona.frame == "copter":
        return [1000 + round(1000.0 * part) for part in motors(a)]
    turn = max(-1.0, min(1.0, v.turn / frame["yaw_rate"])) if v.armed and frame["yaw_rate"] > 0.0 else 0.0
    return [round(1500 + 400 * turn), 0, 1500 + 4 * throttle(a), 0]


def vibration(a: Autopilot) -> float:
    """0.2 m/s^2 in a hover, as a real ArduCopter shows in simulation; what is out of balance pulls as rotors lift."""
    lift = 0.0 if a.pilot.view.landed else sum(motors(a)) / 4.0
    return 0.2 * lift * float(a.pilot.fleet.frames["thrust_ratio"][a.pilot.row])


def throttle(a: Autopilot) -> int:
    """% of the most thrust or speed."""
    v = a.pilot.view
    if a.pilot.persona.frame == "copter":
        return round(25.0 * sum(motors(a)))
    top = float(a.pilot.fleet.frames["speed"][a.pilot.row])
    return min(round(100.0 * math.hypot(v.vx, v.vy) / top), 100) if v.armed else 0


def air(a: Autopilot) -> int:
    """Temperature in 0.01 deg C where the vehicle is: by the scene's ground or the standard atmosphere."""
    ground = float(a.pilot.fleet.frames[a.pilot.row]["temperature"])
    if ground > 0.0:
        return round(100.0 * (ground - 273.15 - 0.0065 * min(float(a.pilot.view.z), _TROPOPAUSE)))
    return round(100.0 * (15.0 - 0.0065 * min(a.place.altitude, _TROPOPAUSE)))


def pressure(altitude: float) -> float:
    """hPa by the ICAO standard atmosphere."""
    return float(1013.25 * max(1.0 - 2.25577e-5 * altitude, 0.0) ** 5.25588)
