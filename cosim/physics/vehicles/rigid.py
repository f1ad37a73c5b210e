"""A quadrotor as a rigid body: four rotors with a lag, quaternion attitude, air drag, and its controller.

Body axes are forward, left, up. Rotors stand in an X: 0 front right and 1 rear left turn one way
(counter-clockwise), 2 front left and 3 rear right the other. Euler's equations with a diagonal
inertia; semi-implicit Euler steps of at most 2.5 ms, of first order: halving the step halves the error.
"""

from __future__ import annotations

import math
from typing import Any

from cosim.compiled.compiling import part
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.layout import ELSEWHERE
from cosim.physics.vehicles.motion import density, draw, mix, wish

Record = Any  # one row of a record array
Wind = tuple[float, float, float]  # m/s east, north, up
STEP = 0.0025  # s
_ROLL_GAIN, _YAW_GAIN = 8.0, 3.0  # 1/s, from angle to rate
_RATE_GAIN, _YAW_RATE_GAIN = 20.0, 8.0  # 1/s, from rate to angular acceleration


@part
def push(s: Record, a: Record, thrust: tuple[float, float, float, float], wind: Wind, dt: float) -> None:
    """Move the body for `dt` s while the rotors go towards the thrusts (N), in the wind (m/s)."""
    t0, t1, t2, t3 = thrust
    wx, wy, wz = wind
    keep = math.exp(-dt / a.rotor_lag)
    s.t0 = t0 + (s.t0 - t0) * keep
    s.t1 = t1 + (s.t1 - t1) * keep
    s.t2 = t2 + (s.t2 - t2) * keep
    s.t3 = t3 + (s.t3 - t3) * keep
    total = s.t0 + s.t1 + s.t2 + s.t3
    roll = a.arm * (s.t1 + s.t2 - s.t0 - s.t3)  # left minus right, about forward
    pitch = a.arm * (s.t1 + s.t3 - s.t0 - s.t2)  # rear minus front, about left: nose down
    yaw = a.torque * (s.t2 + s.t3 - s.t0 - s.t1)  # the body turns against the rotors
    s.p += dt * (roll - (a.inertia_z - a.inertia_y) * s.q * s.r) / a.inertia_x
    s.q += dt * (pitch - (a.inertia_x - a.inertia_z) * s.p * s.r) / a.inertia_y
    s.r += dt * (yaw - (a.inertia_y - a.inertia_x) * s.p * s.q) / a.inertia_z
    w, x, y, z = s.qw, s.qx, s.qy, s.qz
    h = 0.5 * dt
    s.qw = w - h * (x * s.p + y * s.q + z * s.r)
    s.qx = x + h * (w * s.p + y * s.r - z * s.q)
    s.qy = y + h * (w * s.q + z * s.p - x * s.r)
    s.qz = z + h * (w * s.r + x * s.q - y * s.p)
    size = 1.0 / math.sqrt(s.qw * s.qw + s.qx * s.qx + s.qy * s.qy + s.qz * s.qz)
    s.qw, s.qx, s.qy, s.qz = s.qw * size, s.qx * size, s.qy * size, s.qz * size
    ux, uy, uz = s.vx - wx, s.vy - wy, s.vz - wz
    drag = (a.drag + a.drag2 * math.sqrt(ux * ux + uy * uy + uz * uz)) * density(s, a)
    lift = total / a.mass
    s.ax = 2.0 * (s.qx * s.qz + s.qw * s.qy) * lift
    s.ay = 2.0 * (s.qy * s.qz - s.qw * s.qx) * lift
    s.az = (1.0 - 2.0 * (s.qx * s.qx + s.qy * s.qy)) * lift - GRAVITY
    s.vx += dt * (s.ax - drag * ux)
    s.vy += dt * (s.ay - drag * uy)
    s.vz += dt * (s.az - drag * uz)
    s.x += dt * s.vx
    s.y += dt * s.vy
    s.z += dt * s.vz


@part
def show(s: Record) -> None:
    """Attitude angles from the quaternion, and the heading's rate."""
    fx = 1.0 - 2.0 * (s.qy * s.qy + s.qz * s.qz)
    fy = 2.0 * (s.qx * s.qy + s.qw * s.qz)
    fz = 2.0 * (s.qx * s.qz - s.qw * s.qy)
    s.heading = math.atan2(fx, fy)
    s.pitch = math.asin(min(max(fz, -1.0), 1.0))
    s.roll = math.atan2(2.0 * (s.qy * s.qz + s.qw * s.qx), 1.0 - 2.0 * (s.qx * s.qx + s.qy * s.qy))
    s.turn = -s.r


@part
def stand(s: Record, a: Record) -> None:
    """Upright at the present heading, at rest, with the rotors at a thrust of weight and `az`."""
    s.qw, s.qz = math.cos(0.25 * math.pi - 0.5 * s.heading), math.sin(0.25 * math.pi - 0.5 * s.heading)
    s.qx = s.qy = s.p = s.q = s.r = 0.0
    s.t0 = s.t1 = s.t2 = s.t3 = 0.25 * a.mass * (GRAVITY + s.az)


@part
def rotors(s: Record, a: Record, wx: float, wy: float, wz: float, heading: float) -> tuple[float, float, float, float]:
    """Thrusts (N) of the four rotors: a velocity controller over an attitude controller.

    The wanted acceleration gives the direction and size of the thrust. The body is tilted to it by
    the shortest way, whatever its heading (the reduced attitude of Brescianini and D'Andrea, Mechatronics 55,
    2018), and turned about its own axis by the remaining angle: so an error of half a turn is no
    equilibrium. Moments are bounded by what the rotors can give.
    """
    ux, uy, uz = s.vx - wx, s.vy - wy, s.vz - wz
    drag = (a.drag + a.drag2 * math.sqrt(ux * ux + uy * uy + uz * uz)) * density(s, a)
    gx, gy, gz = wish(s, a, 2.0, drag, ux, uy, uz)
    gz += GRAVITY
    size = math.sqrt(gx * gx + gy * gy + gz * gz)
    zx, zy, zz = gx / size, gy / size, gz / size
    # wanted axes: up along the thrust, forward as near to the heading as that leaves
    hx, hy = math.sin(heading), math.cos(heading)
    ahead = hx * zx + hy * zy
    fx, fy, fz = hx - ahead * zx, hy - ahead * zy, -ahead * zz
    f_size = math.sqrt(fx * fx + fy * fy + fz * fz)
    fx, fy, fz = fx / f_size, fy / f_size, fz / f_size
    lx, ly, lz = zy * fz - zz * fy, zz * fx - zx * fz, zx * fy - zy * fx
    w, x, y, z = s.qw, s.qx, s.qy, s.qz
    bfx, bfy, bfz = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    blx, bly, blz = 2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)
    bzx, bzy, bzz = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    e_roll = -(zx * blx + zy * bly + zz * blz)
    e_pitch = zx * bfx + zy * bfy + zz * bfz
    e_yaw = math.atan2(
        (fx * blx + fy * bly + fz * blz) - (lx * bfx + ly * bfy + lz * bfz),
        (fx * bfx + fy * bfy + fz * bfz) + (lx * blx + ly * bly + lz * blz),
    )
    rate = min(max(_YAW_GAIN * e_yaw, -a.yaw_rate), a.yaw_rate)
    roll = a.inertia_x * _RATE_GAIN * (_ROLL_GAIN * e_roll - s.p)
    pitch = a.inertia_y * _RATE_GAIN * (_ROLL_GAIN * e_pitch - s.q)
    yaw = a.inertia_z * _YAW_RATE_GAIN * (rate - s.r)
    thrust = a.mass * size * max(zx * bzx + zy * bzy + zz * bzz, 0.2)
    return mix(a, thrust, roll, pitch, yaw)


@part
def fly_rigid(s: Record, a: Record, wx: float, wy: float, wz: float, heading: float, dt: float) -> None:
    """`motion.fly` for a rigid body, by `rotors`; a body that is moved elsewhere only gets its rotors' thrusts."""
    if a.rigid == ELSEWHERE:
        s.t0, s.t1, s.t2, s.t3 = rotors(s, a, wx, wy, wz, heading)
        lift = (s.t0 + s.t1 + s.t2 + s.t3) / a.mass
        s.ax = 2.0 * (s.qx * s.qz + s.qw * s.qy) * lift
        s.ay = 2.0 * (s.qy * s.qz - s.qw * s.qx) * lift
        s.az = (1.0 - 2.0 * (s.qx * s.qx + s.qy * s.qy)) * lift - GRAVITY
        draw(s, a, s.vx - wx, s.vy - wy, s.vz - wz, density(s, a))
        return
    steps = max(math.ceil(dt / STEP - 1e-9), 1)
    h = dt / steps
    for _ in range(steps):
        push(s, a, rotors(s, a, wx, wy, wz, heading), (wx, wy, wz), h)
    show(s)
    draw(s, a, s.vx - wx, s.vy - wy, s.vz - wz, density(s, a))
