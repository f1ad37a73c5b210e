"""What an autopilot decides: modes, missions, fail-safes; it sets the wanted velocity and heading."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import part
from cosim.contract.records import Records
from cosim.physics.vehicles import layout as l
from cosim.physics.vehicles.legs import corner, fly_leg, lead, seconds
from cosim.physics.vehicles.motion import approach, drive, fly, wrap
from cosim.physics.vehicles.rigid import fly_rigid

Record = Any
_LOW_HEIGHT = 10.0  # m above ground below which it lands slowly
_PAUSE = 1.5  # s of a leg of some centimetres with a jerk of 1 m/s^3: what a return begins with at its height


@part
def enter(s: Record, mode: int) -> None:
    """Change to `mode`; what the old one still had in mind is forgotten."""
    s.mode = mode
    s.stage = 0
    s.hold_until = -1.0
    s.target_x, s.target_y, s.target_z = s.x, s.y, s.z
    s.target_vx = s.target_vy = s.target_vz = 0.0
    s.target_heading = s.target_turn = math.nan
    s.target_until = s.leg_began = s.next_began = -1.0
    s.leg_top = 0.0
    s.feed_x = s.feed_y = s.feed_z = 0.0


@part
def protect(s: Record, a: Record) -> None:
    """Fail-safes: an empty battery, a battery that is critical or low, and the fence, in this order."""
    if s.armed == 0 or s.failsafe == l.EMPTY:
        return
    left = s.charge / a.capacity
    if left <= a.critical:
        if s.failsafe != l.CRITICAL:
            s.failsafe = l.CRITICAL
            enter(s, l.LAND if a.kind == l.COPTER else l.HOLD)
    elif left <= a.low:
        if s.failsafe != l.LOW:
            s.failsafe = l.LOW
            if a.low_action >= 0 and s.mode != l.LAND:
                enter(s, a.low_action if a.kind == l.COPTER or a.low_action == l.RETURN else l.HOLD)
    elif s.failsafe == l.NONE:
        out = s.fence_radius > 0.0 and math.hypot(s.x - s.home_x, s.y - s.home_y) > s.fence_radius
        out = out or (s.fence_top > 0.0 and s.z - s.home_z > s.fence_top)
        if out and s.mode != l.RETURN and s.mode != l.LAND:
            s.failsafe = l.FENCE
            enter(s, l.RETURN)


@part
def _seek(s: Record, a: Record, x: float, y: float, z: float, fx: float, fy: float, fz: float, end: float) -> float:
    """Wanted velocity towards a point that itself moves at f*; `end` m/s are left on arrival. The distance."""
    dx, dy, dz = x - s.x, y - s.y, z - s.z
    flat = math.hypot(dx, dy)
    top = s.speed if s.speed > 0.0 else a.speed
    v = max(approach(flat, a.gain, 0.8 * a.accel, top), min(end, top))
    if flat > 1e-9:
        s.target_vx, s.target_vy = v * dx / flat + fx, v * dy / flat + fy
    else:
        s.target_vx, s.target_vy = fx, fy
    fast = math.hypot(s.target_vx, s.target_vy)
    if fast > top:
        s.target_vx, s.target_vy = s.target_vx * top / fast, s.target_vy * top / fast
    rise = approach(abs(dz), a.gain, a.climb_accel, a.climb if dz > 0.0 else a.descent)
    s.target_vz = min(max((rise if dz > 0.0 else -rise) + fz, -a.descent), a.climb)
    s.feed_x = s.feed_y = s.feed_z = 0.0
    return math.sqrt(flat * flat + dz * dz)


@part
def _top(s: Record, a: Record) -> float:
    """m/s that it flies horizontally."""
    return float(s.speed) if s.speed > 0.0 else float(a.speed)


@part
def _reach(s: Record, a: Record, x: float, y: float, z: float, now: float) -> float:
    """Fly to a point, with limited jerk where the airframe has such a limit; the distance."""
    if a.jerk > 0.0 and not math.isnan(fly_leg(s, a, x, y, z, _top(s, a), now)):
        return math.sqrt((x - s.x) ** 2 + (y - s.y) ** 2 + (z - s.z) ** 2)
    return _seek(s, a, x, y, z, 0.0, 0.0, 0.0, 0.0)


@part
def _rise(s: Record, a: Record, z: float, now: float) -> None:
    """Take off to a height; with limited jerk it also begins gently."""
    _seek(s, a, s.target_x, s.target_y, z, 0.0, 0.0, 0.0, 0.0)
    if a.jerk > 0.0 and s.hold_until >= 0.0:
        s.target_vz = min(s.target_vz, a.climb_accel * (now - s.hold_until))


@part
def _still(s: Record) -> None:
    s.target_vx = s.target_vy = s.target_vz = 0.0


@part
def _sink(s: Record, a: Record) -> None:
    """Go down here, slowly near the ground."""
    _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
    above = s.z - a.ground - _LOW_HEIGHT
    if a.jerk > 0.0:  # it slows down in good time
        s.target_vz = -max(a.land_speed, approach(max(above, 0.0), a.gain, a.climb_accel, a.descent))
    else:
        s.target_vz = -(a.descent if above > 0.0 else a.land_speed)


@part
def _return(s: Record, a: Record, now: float) -> None:
    """Rise to the return height, fly home, stay there for a while, land."""
    if s.stage == 0:
        height = max(s.z, s.home_z + a.return_height)
        if math.hypot(s.x - s.home_x, s.y - s.home_y) < a.radius:
            height = s.z  # at home already
        s.target_z, s.stage = height, 1
        s.hold_until = now + (_PAUSE if a.jerk > 0.0 else 0.0)
    if s.stage == 1:
        _seek(s, a, s.target_x, s.target_y, s.target_z, 0.0, 0.0, 0.0, 0.0)
        if s.z > s.target_z - 1.0 and now >= s.hold_until:
            s.target_x, s.target_y, s.stage = s.home_x, s.home_y, 2
            s.hold_until, s.leg_began, s.leg_top = -1.0, -1.0, 0.0
    if s.stage == 2:
        _reach(s, a, s.home_x, s.home_y, s.target_z, now)
        near = math.hypot(s.x - s.home_x, s.y - s.home_y) < 0.5 * a.radius
        if a.jerk > 0.0 and s.leg_top > 0.0:
            gone = s.home_x - s.from_x, s.home_y - s.from_y, s.target_z - s.from_z
            near = near and now - s.leg_began >= seconds(a, gone[0], gone[1], gone[2], s.leg_top)[0]
        if near and s.hold_until < 0.0:
            s.hold_until = now + a.return_hover
        if s.hold_until >= 0.0 and now >= s.hold_until:
            s.stage, s.leg_began = 3, -1.0
    if s.stage == 3:
        _sink(s, a)


@part
def proceed(s: Record) -> None:
    """The present item of the mission is reached: on to the next one."""
    s.reached = s.item
    s.item += 1
    s.hold_until = s.leg_began = -1.0
    s.leg_top = s.turned = 0.0
    s.stage = 0
    s.target_x, s.target_y = s.x, s.y
    if s.item >= s.items:
        s.done = 1


@part
def _leg(s: Record, a: Record, items: Records) -> float:
    """m/s to have at the present waypoint so as to go on in the direction of the next one."""
    here = items[s.first_item + s.item]
    if here.hold > 0.0 or s.item + 1 >= s.items:
        return 0.0
    there = items[s.first_item + s.item + 1]
    if there.what != here.what:
        return 0.0
    ax, ay = here.x - s.x, here.y - s.y
    bx, by = there.x - here.x, there.y - here.y
    lengths = math.hypot(ax, ay) * math.hypot(bx, by)
    if lengths < 1e-9:
        return 0.0
    top = s.speed if s.speed > 0.0 else a.speed
    return float(top * max((ax * bx + ay * by) / lengths, 0.0) ** 2)


@part
def _overlap(s: Record, a: Record, items: Records, left: float, now: float) -> None:
    """Begin the next leg while this one, with `left` s to go, slows down: as soon as the corner is cut by no more than
    the radius of a waypoint. The next leg's part of the reference is added.
    """
    here = items[s.first_item + s.item]
    if here.hold > 0.0 or s.item + 1 >= s.items:
        return
    there = items[s.first_item + s.item + 1]
    if there.what != l.FLY or (there.speed > 0.0 and there.speed != s.leg_top):
        return
    bx, by, bz = there.x - here.x, there.y - here.y, there.z - here.z
    if s.next_began < 0.0:
        if s.old_began >= 0.0:
            return
        cx, cy, cz = here.x - s.from_x, here.y - s.from_y, here.z - s.from_z
        if left > min(seconds(a, cx, cy, cz, s.leg_top)[1], seconds(a, bx, by, bz, s.leg_top)[1]):
            return
        if corner(a, cx, cy, cz, bx, by, bz, s.leg_top, 0.5 * left) > a.radius:
            return
        s.next_began = now
    lead(s, a, bx, by, bz, now - s.next_began)


@part
def _turn_round(s: Record, a: Record, z: float, dt: float) -> None:
    """Fly round the centre of the circle at its speed; above 0 clockwise."""
    dx, dy = s.x - s.circle_x, s.y - s.circle_y
    far = math.hypot(dx, dy)
    if far > 1e-3:
        ex, ey = dx / far, dy / far
    else:
        ex, ey = math.sin(s.heading), math.cos(s.heading)
    _seek(s, a, s.x, s.y, z, 0.0, 0.0, 0.0, 0.0)
    off = s.circle_radius - far
    out = math.copysign(approach(abs(off), a.gain, 0.8 * a.accel, _top(s, a)), off)
    round_it = s.circle_speed if far > 0.3 * s.circle_radius else 0.0
    s.target_vx, s.target_vy = out * ex + round_it * ey, out * ey - round_it * ex
    if far > 0.7 * s.circle_radius and s.circle_radius > 0.0:
        inward = round_it * round_it / s.circle_radius
        s.feed_x, s.feed_y = -inward * ex, -inward * ey
        s.turned += (s.vx * ey - s.vy * ex) * dt / far


@part
def _round_speed(a: Record, radius: float, top: float) -> float:
    """m/s round a circle: 20 deg/s, and half of the acceleration at most (AC_Circle)."""
    return min(min(math.radians(20.0) * radius, math.sqrt(0.5 * a.accel * radius)), top)


@part
def _fly_mission(s: Record, a: Record, items: Records, now: float, dt: float) -> None:
    if s.done != 0:
        _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
        s.target_vz = 0.0
        return
    item = items[s.first_item + s.item]
    if item.speed > 0.0 and s.leg_began < 0.0:
        s.speed = item.speed
    if item.what == l.HOME:
        enter(s, l.RETURN)
        s.item += 1
        s.done = 1 if s.item >= s.items else 0
        _return(s, a, now)
    elif item.what == l.DESCEND:
        if item.z > 0.0:  # a place of its own, else here
            s.target_x, s.target_y = item.x, item.y
        _sink(s, a)
    elif item.what == l.RISE:
        _rise(s, a, item.z, now)
        if abs(s.z - item.z) < 0.5:
            proceed(s)
    elif item.what == l.TURNS:
        if s.stage == 0:
            s.circle_x, s.circle_y, s.circle_radius, s.turned, s.stage = item.x, item.y, abs(item.radius), 0.0, 1
            s.circle_speed = math.copysign(_round_speed(a, abs(item.radius), _top(s, a)), item.radius)
        _turn_round(s, a, item.z, dt)
        if abs(s.turned) >= 2.0 * math.pi * item.turns:
            proceed(s)
    else:
        _fly_item(s, a, items, now)


@part
def _fly_item(s: Record, a: Record, items: Records, now: float) -> None:
    """Fly to the present waypoint, and on to the next one when it is reached."""
    item = items[s.first_item + s.item]
    left = fly_leg(s, a, item.x, item.y, item.z, _top(s, a), now) if a.jerk > 0.0 else math.nan
    if math.isnan(left):
        s.next_began = -1.0
        far = _seek(s, a, item.x, item.y, item.z, 0.0, 0.0, 0.0, _leg(s, a, items))
        if far < a.radius:
            if s.hold_until < 0.0:
                s.hold_until = now + item.hold
            if now >= s.hold_until:
                proceed(s)
        return
    _overlap(s, a, items, left, now)
    if s.next_began >= 0.0:
        if left <= now - s.next_began:  # half way round the corner
            s.old_x, s.old_y, s.old_z, s.old_began = s.from_x, s.from_y, s.from_z, s.leg_began
            began, top = s.next_began, s.leg_top
            proceed(s)
            s.from_x, s.from_y, s.from_z = item.x, item.y, item.z
            s.leg_began, s.leg_top, s.next_began = began, top, -1.0
        return
    far = math.sqrt((item.x - s.x) ** 2 + (item.y - s.y) ** 2 + (item.z - s.z) ** 2)
    if left > 0.0 or far >= a.radius:
        return
    if s.hold_until < 0.0:
        s.hold_until = now + item.hold
    if now >= s.hold_until:
        proceed(s)


@part
def pilot_copter(s: Record, a: Record, items: Records, wind: NDArray[np.float64], now: float, dt: float) -> None:
    """One step of an armed copter with a battery that is not empty."""
    mode = s.mode
    if mode == l.TAKE_OFF:
        _rise(s, a, s.target_z, now)
        if s.z > s.target_z - 0.3:
            x, y, z = s.target_x, s.target_y, s.target_z
            enter(s, l.GO)
            s.target_x, s.target_y, s.target_z = x, y, z
            s.leg_top = -1.0
    elif mode == l.GO:
        if now < s.target_until:  # the point moves on as it did when last heard of
            s.target_x += s.lead_x * dt
            s.target_y += s.lead_y * dt
            s.target_z += s.lead_z * dt
            s.leg_top = -1.0
            _seek(s, a, s.target_x, s.target_y, s.target_z, s.lead_x, s.lead_y, s.lead_z, 0.0)
        else:
            _reach(s, a, s.target_x, s.target_y, s.target_z, now)
    elif mode in (l.VELOCITY, l.ATTITUDE, l.ACCELERATION):
        if now >= s.target_until:
            enter(s, l.HOLD)
            _still(s)
    elif mode == l.MISSION:
        _fly_mission(s, a, items, now, dt)
    elif mode == l.CIRCLE:
        _turn_round(s, a, s.target_z, dt)
    elif mode == l.RETURN:
        _return(s, a, now)
    elif mode == l.LAND:
        _sink(s, a)
    else:
        _still(s)
    heading = s.target_heading
    if not math.isnan(s.target_turn):
        s.kept = wrap(s.kept + s.target_turn * dt)
        heading = s.kept
    if math.isnan(heading) and math.hypot(s.target_vx, s.target_vy) > 0.5 and mode != l.ATTITUDE:
        # a rigid body swings about its target, and does not turn round for that
        settled = a.rigid != 0 and mode == l.GO and now >= s.target_until
        if not (settled and math.hypot(s.target_x - s.x, s.target_y - s.y) < a.radius):
            heading = math.atan2(s.target_vx, s.target_vy)
    if math.isnan(heading):
        heading = s.kept
    s.kept = heading
    if a.rigid != 0:
        fly_rigid(s, a, wind[0], wind[1], wind[2], heading, dt)
    else:
        fly(s, a, wind[0], wind[1], wind[2], heading, dt)


@part
def pilot_rover(s: Record, a: Record, items: Records, now: float, dt: float) -> None:
    """One step of an armed rover with a battery that is not empty."""
    mode = s.mode
    v, bearing = 0.0, math.nan
    if mode in (l.GO, l.RETURN):
        if mode == l.RETURN:
            s.target_x, s.target_y = s.home_x, s.home_y
        far = _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
        if far > 0.3 * a.radius:
            v, bearing = math.hypot(s.target_vx, s.target_vy), math.atan2(s.target_x - s.x, s.target_y - s.y)
    elif mode == l.VELOCITY:
        if now < s.target_until:
            v = math.hypot(s.target_vx, s.target_vy)
            if v > 1e-6:
                bearing = math.atan2(s.target_vx, s.target_vy)
        else:
            enter(s, l.HOLD)
    elif mode == l.MISSION and s.done == 0:
        item = items[s.first_item + s.item]
        if item.speed > 0.0:
            s.speed = item.speed
        if item.what == l.HOME:
            enter(s, l.RETURN)
            s.item += 1
            s.done = 1 if s.item >= s.items else 0
        else:
            far = _seek(s, a, item.x, item.y, s.z, 0.0, 0.0, 0.0, _leg(s, a, items))
            v, bearing = math.hypot(s.target_vx, s.target_vy), math.atan2(item.x - s.x, item.y - s.y)
            # a point inside the turning circle beside the vehicle can only be passed
            passed = far < 2.0 * a.radius and abs(wrap(bearing - s.heading)) > 0.5 * math.pi
            if far < a.radius or passed:
                if s.hold_until < 0.0:
                    s.hold_until = now + item.hold
                v = 0.0 if item.hold > 0.0 else v
                if now >= s.hold_until:
                    proceed(s)
    drive(s, a, v, bearing, dt)
