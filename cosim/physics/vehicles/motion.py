"""One short step of motion: what a vehicle wants, bounded by what it can do."""

from __future__ import annotations

import math
from typing import Any

from cosim.compiled.compiling import part
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.battery import current, open_circuit
from cosim.physics.vehicles.layout import ACCELERATION, ACKERMANN, ATTITUDE, EMPTY
from cosim.physics.vehicles.power import relative_density, rotor_power, wheel_power

Record = Any  # one row of a record array


@part
def wrap(angle: float) -> float:
    """The same angle in (-pi, pi]."""
    return angle - 2.0 * math.pi * math.ceil((angle - math.pi) / (2.0 * math.pi))


@part
def approach(distance: float, gain: float, accel: float, top: float) -> float:
    """m/s at which to near a point `distance` m away: proportional when close, else such that `accel` stops in time.

    The square-root law joins the line v = gain d where both have the same slope, at d = accel / gain^2.
    """
    knee = accel / (gain * gain)
    v = gain * distance if distance <= knee else math.sqrt(2.0 * accel * (distance - 0.5 * knee))
    return min(v, top)


@part
def wish(s: Record, a: Record, gain: float, drag: float, ux: float, uy: float, uz: float) -> tuple[float, float, float]:
    """m/s^2 that thrust less weight should give: to the wanted velocity, attitude or acceleration, and against the air.

    `u*` is the velocity against the air, `drag` 1/s; `gain` 1/s of the horizontal velocity.
    """
    top = GRAVITY * math.tan(a.tilt)
    held = 3.0 * (s.target_vz - s.vz) if s.mode != ACCELERATION else 0.0
    up = min(max(held + s.feed_z, -a.accel), a.accel) + drag * uz
    up = max(up, -0.7 * GRAVITY)  # rotors push one way only and keep some thrust to steer
    if s.mode == ATTITUDE:
        ahead, right = -math.tan(s.target_pitch) * (GRAVITY + up), math.tan(s.target_roll) * (GRAVITY + up)
        sine, cosine = math.sin(s.heading), math.cos(s.heading)
        x, y = ahead * sine + right * cosine, ahead * cosine - right * sine
    elif s.mode == ACCELERATION:
        x, y = s.feed_x + drag * ux, s.feed_y + drag * uy
    else:
        most = a.accel if s.leg_began < 0.0 else 1.5 * a.accel  # what leads back to a leg comes on top
        x = min(max(gain * (s.target_vx - s.vx) + s.feed_x, -most), most) + drag * ux
        y = min(max(gain * (s.target_vy - s.vy) + s.feed_y, -most), most) + drag * uy
    flat = math.hypot(x, y)
    if flat > top:
        x, y = x * top / flat, y * top / flat
    return x, y, up


@part
def density(s: Record, a: Record) -> float:
    """Of the air where the vehicle is, over the standard's at sea level."""
    return relative_density(a.altitude, a.temperature, s.z)


@part
def draw(s: Record, a: Record, ux: float, uy: float, uz: float, thin: float) -> None:
    """Set what rotors and electronics draw, from the thrust s.a* + g and the velocity `u*` against the air."""
    lift = GRAVITY + s.az
    thrust = math.sqrt(s.ax * s.ax + s.ay * s.ay + lift * lift)
    along = (ux * s.ax + uy * s.ay + uz * lift) / max(thrust, 1e-9)
    across = math.sqrt(max(ux * ux + uy * uy + uz * uz - along * along, 0.0))
    weight = a.mass * GRAVITY
    mechanical = rotor_power(across, along, thrust / GRAVITY, thin, weight, a.profile, a.inflow, a.tip)
    s.power = mechanical / a.efficiency + a.idle


@part
def mix(a: Record, thrust: float, roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Thrusts (N) of four rotors in an X that together give `thrust` N and these moments (N m) about forward, left, up.

    They stay between 0 and what a rotor can give; the moment about up is the first that is given up.
    """
    most = a.thrust_ratio * a.mass * GRAVITY / 4.0
    each, r4, p4 = 0.25 * thrust, 0.25 * roll / a.arm, 0.25 * pitch / a.arm
    y4 = min(max(0.25 * yaw / a.torque, -0.2 * each), 0.2 * each)  # tilt before heading
    return (
        min(max(each - r4 - p4 - y4, 0.0), most),
        min(max(each + r4 + p4 - y4, 0.0), most),
        min(max(each + r4 - p4 + y4, 0.0), most),
        min(max(each - r4 + p4 + y4, 0.0), most),
    )


@part
def _turn_body(s: Record, a: Record, ahead: float, right: float, lift: float, dt: float) -> None:
    """Tilt a point mass to its thrust (m/s^2 ahead, right, up) in `dt` s: body rates, and the thrusts of four rotors.

    Kinematics of Euler's angles (Beard and McLain, Small Unmanned Aircraft, 2012, equation 3.3).
    """
    level = math.sqrt(ahead * ahead + lift * lift)
    thrust = math.sqrt(level * level + right * right)
    roll, pitch = math.atan2(right, level), -math.atan2(ahead, lift)
    up_roll, up_pitch = (roll - s.roll) / dt, (pitch - s.pitch) / dt
    s.roll, s.pitch = roll, pitch
    sp, cp, sr, cr = -ahead / level, lift / level, right / thrust, level / thrust  # lift is above 0: `wish` sees to it
    p, q, r = up_roll - s.turn * sp, -(up_pitch * cr + s.turn * sr * cp), up_pitch * sr - s.turn * cr * cp
    s.t0, s.t1, s.t2, s.t3 = mix(
        a, a.mass * thrust, a.inertia_x * (p - s.p) / dt, a.inertia_y * (q - s.q) / dt, a.inertia_z * (r - s.r) / dt
    )
    s.p, s.q, s.r = p, q, r


@part
def fly(s: Record, a: Record, wx: float, wy: float, wz: float, heading: float, dt: float) -> None:
    """Move a copter for `dt` s: target_v* is the wanted velocity over ground, w* the wind (m/s).

    Thrust and attitude follow with a lag of first order, a semi-implicit Euler step. Air slows it by
    its speed against the air.
    """
    ux, uy, uz = s.vx - wx, s.vy - wy, s.vz - wz
    thin = density(s, a)
    drag = (a.drag + a.drag2 * math.sqrt(ux * ux + uy * uy + uz * uz)) * thin
    wish_x, wish_y, wish_z = wish(s, a, 3.0, drag, ux, uy, uz)
    part_of = 1.0 - math.exp(-dt / a.lag) if a.lag > 0.0 else 1.0
    s.ax += part_of * (wish_x - s.ax)
    s.ay += part_of * (wish_y - s.ay)
    s.az += part_of * (wish_z - s.az)
    draw(s, a, ux, uy, uz, thin)
    s.vx += (s.ax - drag * ux) * dt
    s.vy += (s.ay - drag * uy) * dt
    s.vz += (s.az - drag * uz) * dt
    s.x += s.vx * dt
    s.y += s.vy * dt
    s.z += s.vz * dt
    s.turn = min(max(2.0 * wrap(heading - s.heading), -a.yaw_rate), a.yaw_rate)
    if not math.isnan(s.target_turn):
        s.turn = min(max(s.target_turn, -a.yaw_rate), a.yaw_rate)
    s.heading = wrap(s.heading + s.turn * dt)
    ahead = s.ax * math.sin(s.heading) + s.ay * math.cos(s.heading)
    right = s.ax * math.cos(s.heading) - s.ay * math.sin(s.heading)
    _turn_body(s, a, ahead, right, GRAVITY + s.az, dt)


@part
def fall(s: Record, a: Record, wx: float, wy: float, wz: float, dt: float) -> None:
    """A copter whose motors have stopped."""
    ux, uy, uz = s.vx - wx, s.vy - wy, s.vz - wz
    drag = (a.drag + a.drag2 * math.sqrt(ux * ux + uy * uy + uz * uz)) * density(s, a)
    s.ax = s.ay = 0.0
    s.az = -GRAVITY
    s.vx -= drag * ux * dt
    s.vy -= drag * uy * dt
    s.vz -= (GRAVITY + drag * uz) * dt
    s.x += s.vx * dt
    s.y += s.vy * dt
    s.z += s.vz * dt
    s.power = s.p = s.q = s.r = s.t0 = s.t1 = s.t2 = s.t3 = 0.0


@part
def drive(s: Record, a: Record, wish: float, bearing: float, dt: float) -> None:
    """Move a rover for `dt` s towards `bearing` (rad) at `wish` m/s; it goes forwards only.

    Skid steering turns on the spot when the point lies more than 60 degrees aside. With Ackermann
    steering the rate of turn is v tan(steer) / wheelbase, so that it has to move to turn.
    """
    v = s.vx * math.sin(s.heading) + s.vy * math.cos(s.heading)
    off = 0.0 if math.isnan(bearing) else wrap(bearing - s.heading)
    if a.kind == ACKERMANN:
        wish = min(wish, max(0.3 * a.speed, wish * math.cos(min(abs(off), 1.4))))  # slower in bends
    elif abs(off) > math.pi / 3.0:
        wish = 0.0
    else:
        wish *= math.cos(off)
    part_of = 1.0 - math.exp(-dt / a.lag) if a.lag > 0.0 else 1.0
    s.ax += part_of * (min(max(2.0 * (wish - v), -2.0 * a.accel), a.accel) - s.ax)
    before = v
    v = max(v + s.ax * dt, 0.0)
    if a.kind == ACKERMANN:
        steer = min(max(1.5 * off, -a.steer), a.steer)
        s.turn = v * math.tan(steer) / a.wheelbase
    else:
        s.turn = min(max(2.0 * off, -a.yaw_rate), a.yaw_rate)
    s.heading = wrap(s.heading + s.turn * dt)
    s.vx, s.vy, s.vz = v * math.sin(s.heading), v * math.cos(s.heading), 0.0
    s.x += s.vx * dt
    s.y += s.vy * dt
    s.power = wheel_power(v, (v - before) / dt, a.mass, a.rolling, GRAVITY * a.mass) / a.wheel_efficiency + a.idle


@part
def ride(s: Record, a: Record, before: float, dt: float) -> None:
    """Put a rover that `drive` has moved for `dt` s on the ground; going up takes its weight times the rise besides.

    `before`: m/s that it had. Its speed is that over the map, whatever the slope.
    """
    v = s.vx * math.sin(s.heading) + s.vy * math.cos(s.heading)
    rise = (a.ground - s.z) / dt
    if v > 1e-6:
        pull = (v - before) / dt + GRAVITY * rise / v
        s.power = wheel_power(v, pull, a.mass, a.rolling, GRAVITY * a.mass) / a.wheel_efficiency + a.idle
    s.z, s.vz = a.ground, rise


@part
def discharge(s: Record, a: Record, dt: float) -> None:
    """Take the step's energy out of the battery."""
    emf = a.cells * open_circuit(s.charge / a.capacity)
    s.current = min(current(s.power, emf, a.resistance), s.charge / dt)
    s.voltage = emf - a.resistance * s.current
    s.charge -= s.current * dt
    s.energy += s.voltage * s.current * dt
    if s.charge <= 1e-9 * a.capacity:
        s.charge = 0.0
        s.failsafe = EMPTY
