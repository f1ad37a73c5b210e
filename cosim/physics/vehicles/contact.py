"""A rigid copter on the ground: four feet, each with a spring, a damper and friction."""

from __future__ import annotations

import math
from typing import Any

from cosim.compiled.compiling import part
from cosim.physics.vehicles.airframe import GRAVITY

Record = Any
_FREQUENCY = 30.0  # rad/s of the vehicle on its feet: it sinks by g / 900 = 11 mm at rest, 10 mm more from 0.5 m/s
_DAMPING = 0.5  # of the critical one: 1.5 g when it comes down at 0.5 m/s
_FRICTION = 0.6  # rubber on dry grass or earth
# What earth gives the feet besides, however light they stand, of the weight: 4 kPa of cohesion (clay; Wong, Theory of
# Ground Vehicles) under 26 cm2 of a copter of 1.5 kg. Without, wind drags off what has just touched down.
_COHESION = 0.7
_DEEPEST = 0.045  # m at which the feet are pushed in as far as they go


@part
def touch(s: Record, a: Record, wx: float, wy: float, dt: float) -> float:
    """Let the ground act for `dt` s on a body that is about to move; N of its push upwards.

    The feet stand under the rotors, `arm` from the axes. At rest with its weight on the feet the vehicle is at the
    height `ground`. Friction is an impulse of the Mohr-Coulomb law: at most what stops the motion, so that it holds.
    """
    rest = a.ground + GRAVITY / (_FREQUENCY * _FREQUENCY)
    if s.z > rest + 2.0 * a.arm:
        return 0.0
    fz = 2.0 * (s.qx * s.qz - s.qw * s.qy)
    lz = 2.0 * (s.qy * s.qz + s.qw * s.qx)
    stiff, damp = 0.25 * a.mass * _FREQUENCY * _FREQUENCY, 0.5 * a.mass * _DAMPING * _FREQUENCY
    total = roll = pitch = stuck = 0.0
    for k in range(4):
        ahead, left = (a.arm if k < 2 else -a.arm), (a.arm if k % 2 else -a.arm)
        depth = rest - (s.z + ahead * fz + left * lz)
        if depth <= 0.0:
            continue
        rising = s.vz + left * s.p - ahead * s.q
        force = max(stiff * depth - damp * rising, 0.0)
        total += force
        stuck += 0.25 * _COHESION * a.mass * GRAVITY
        roll += left * force
        pitch -= ahead * force
    if total <= 0.0:
        return 0.0
    s.vz += total / a.mass * dt
    s.p += roll / a.inertia_x * dt
    s.q += pitch / a.inertia_y * dt
    grip = (_FRICTION * total + stuck) / a.mass * dt  # m/s that friction can take
    # it acts on the velocity that thrust and wind would leave, so that what stands does not creep
    drag = a.drag + a.drag2 * math.hypot(s.vx - wx, s.vy - wy)
    push_x, push_y = dt * (s.ax - drag * (s.vx - wx)), dt * (s.ay - drag * (s.vy - wy))
    free_x, free_y = s.vx + push_x, s.vy + push_y
    flat = math.hypot(free_x, free_y)
    keep = 1.0 - min(grip / flat, 1.0) if flat > 0.0 else 0.0
    s.vx, s.vy = free_x * keep - push_x, free_y * keep - push_y
    spin = (_FRICTION * total + stuck) * a.arm / a.inertia_z * dt
    s.r -= math.copysign(min(spin, abs(s.r)), s.r)
    if s.z < a.ground - _DEEPEST:
        s.z = a.ground - _DEEPEST
        s.vz = max(s.vz, 0.0)
    return total
