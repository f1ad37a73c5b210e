"""A leg from point to point with limited speed, acceleration and jerk: seven phases of constant jerk.

Two legs may overlap: the second begins while the first one slows down, which rounds the corner. Both
references are added, so that neither has to know of the other.
"""

from __future__ import annotations

import math
from typing import Any

from cosim.compiled.compiling import part

Record = Any


@part
def shape(length: float, top: float, accel: float, jerk: float) -> tuple[float, float, float, float]:
    """Speed reached (m/s), s of one ramp of acceleration, s of speeding up, s in all, from rest to rest.

    Speeding up to v takes v / a + a / j and half of v times that in m; what is too short for it
    reaches less speed, and what is shorter still less acceleration.
    """
    if top * jerk >= accel * accel:
        ramp = accel / jerk
        rise = top / accel + ramp
    else:
        ramp = math.sqrt(top / jerk)
        rise = 2.0 * ramp
    if top * rise > length:
        top = 0.5 * accel * (math.sqrt(accel * accel / (jerk * jerk) + 4.0 * length / accel) - accel / jerk)
        if top * jerk >= accel * accel:
            ramp = accel / jerk
            rise = top / accel + ramp
        else:
            top = (0.25 * length * length * jerk) ** (1.0 / 3.0)
            ramp = math.sqrt(top / jerk)
            rise = 2.0 * ramp
    return top, ramp, rise, 2.0 * rise + (length - top * rise) / top


@part
def _rising(t: float, top: float, ramp: float, rise: float, jerk: float) -> tuple[float, float, float]:
    """m, m/s, m/s^2 after `t` s of speeding up."""
    if t < ramp:
        return jerk * t**3 / 6.0, 0.5 * jerk * t * t, jerk * t
    if t > rise - ramp:
        left = rise - t
        return 0.5 * top * rise - (top * left - jerk * left**3 / 6.0), top - 0.5 * jerk * left * left, jerk * left
    u = t - ramp
    v, a = 0.5 * jerk * ramp * ramp, jerk * ramp
    return jerk * ramp**3 / 6.0 + v * u + 0.5 * a * u * u, v + a * u, a


@part
def along(
    t: float, length: float, top: float, ramp: float, rise: float, total: float, jerk: float
) -> tuple[float, float, float]:
    """m, m/s and m/s^2 along a leg at `t` s; the other arguments are those and the results of `shape`."""
    if t <= 0.0:
        return 0.0, 0.0, 0.0
    if t >= total:
        return length, 0.0, 0.0
    if t < rise:
        return _rising(t, top, ramp, rise, jerk)
    if t > total - rise:
        p, v, a = _rising(total - t, top, ramp, rise, jerk)
        return length - p, v, -a
    return 0.5 * top * rise + top * (t - rise), top, 0.0


@part
def limits(a: Record, dx: float, dy: float, dz: float, top: float) -> tuple[float, float, float]:
    """Length (m), speed and acceleration that horizontal and vertical limits allow in this direction."""
    flat, up = math.hypot(dx, dy), abs(dz)
    length = math.sqrt(flat * flat + up * up)
    speed, accel = 1e9, 1e9
    if flat > 1e-9:
        speed, accel = top * length / flat, a.accel * length / flat
    if up > 1e-9:
        speed = min(speed, (a.climb if dz > 0.0 else a.descent) * length / up)
        accel = min(accel, a.climb_accel * length / up)
    return length, speed, accel


@part
def seconds(a: Record, dx: float, dy: float, dz: float, top: float) -> tuple[float, float]:
    """s that a leg takes, and s of its braking."""
    length, speed, accel = limits(a, dx, dy, dz, top)
    if length < 1e-6:
        return 0.0, 0.0
    _, _, rise, total = shape(length, speed, accel, a.jerk)
    return total, rise


@part
def corner(a: Record, cx: float, cy: float, cz: float, bx: float, by: float, bz: float, top: float, t: float) -> float:
    """m from the corner of two legs (c, then b) that overlap, half way: `t` s before the end of one, after the
    beginning of the other.
    """
    before, speed, accel = limits(a, cx, cy, cz, top)
    after, speed2, accel2 = limits(a, bx, by, bz, top)
    if before < 1e-6 or after < 1e-6:
        return 0.0
    v, ramp, rise, total = shape(before, speed, accel, a.jerk)
    short = (along(total - t, before, v, ramp, rise, total, a.jerk)[0] - before) / before
    v, ramp, rise, total = shape(after, speed2, accel2, a.jerk)
    on = along(t, after, v, ramp, rise, total, a.jerk)[0] / after
    return math.sqrt((short * cx + on * bx) ** 2 + (short * cy + on * by) ** 2 + (short * cz + on * bz) ** 2)


@part
def lead(s: Record, a: Record, dx: float, dy: float, dz: float, t: float) -> None:
    """Add to the wanted velocity and acceleration what a leg by (dx, dy, dz) gives after `t` s.

    The wanted velocity is the leg's, and what leads back to where it should be by now.
    """
    length, speed, accel = limits(a, dx, dy, dz, s.leg_top)
    if length < 1e-6:
        return
    top, ramp, rise, total = shape(length, speed, accel, a.jerk)
    p, v, b = along(t, length, top, ramp, rise, total, a.jerk)
    pace = (v + a.gain * p) / length
    b /= length
    s.target_vx += pace * dx
    s.target_vy += pace * dy
    s.target_vz += pace * dz
    s.feed_x += b * dx
    s.feed_y += b * dy
    s.feed_z += b * dz


@part
def fly_leg(s: Record, a: Record, x: float, y: float, z: float, top: float, now: float) -> float:
    """Fly to a point with limited jerk; the s left, NaN: it is too fast to begin such a leg, or has other orders.

    A leg begins where the vehicle is, nearly at rest.
    """
    if s.leg_began < 0.0:
        if s.leg_top < 0.0 or s.vx * s.vx + s.vy * s.vy + s.vz * s.vz > 1.0:
            s.leg_top = -1.0
            return math.nan
        s.from_x, s.from_y, s.from_z, s.leg_began, s.leg_top = s.x, s.y, s.z, now, top
        s.old_began = -1.0
    elif s.leg_top != top:
        s.leg_began = s.leg_top = -1.0  # another speed from here on
        return math.nan
    dx, dy, dz = x - s.from_x, y - s.from_y, z - s.from_z
    s.feed_x = s.feed_y = s.feed_z = 0.0
    cx, cy, cz = s.from_x - s.old_x, s.from_y - s.old_y, s.from_z - s.old_z
    if s.old_began >= 0.0 and now - s.old_began >= seconds(a, cx, cy, cz, top)[0]:
        s.old_began = -1.0
    if s.old_began >= 0.0:
        s.target_vx, s.target_vy = a.gain * (s.old_x - s.x), a.gain * (s.old_y - s.y)
        s.target_vz = a.gain * (s.old_z - s.z)
        lead(s, a, cx, cy, cz, now - s.old_began)
    else:
        s.target_vx, s.target_vy = a.gain * (s.from_x - s.x), a.gain * (s.from_y - s.y)
        s.target_vz = a.gain * (s.from_z - s.z)
    lead(s, a, dx, dy, dz, now - s.leg_began)
    total, _ = seconds(a, dx, dy, dz, top)
    return float(s.leg_began + total - now)
