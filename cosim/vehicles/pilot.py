"""What an autopilot decides: modes, missions, fail-safes; it sets the wanted velocity and heading."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiling import part
from cosim.vehicles.layout import (
    COPTER,
    CRITICAL,
    DESCEND,
    EMPTY,
    FENCE,
    GO,
    HOLD,
    HOME,
    LAND,
    LOW,
    MISSION,
    NONE,
    RETURN,
    RISE,
    TAKE_OFF,
    VELOCITY,
)
from cosim.vehicles.motion import approach, drive, fly, wrap
from cosim.vehicles.rigid import fly_rigid

Record = Any
_LOW_HEIGHT = 10.0  # m above ground below which it lands slowly


@part
def enter(s: Record, mode: int) -> None:
    """Change to `mode`; what the old one still had in mind is forgotten."""
    s.mode = mode
    s.stage = 0
    s.hold_until = -1.0
    s.target_x, s.target_y, s.target_z = s.x, s.y, s.z
    s.target_vx = s.target_vy = s.target_vz = 0.0
    s.target_heading = math.nan
    s.target_until = -1.0


@part
def protect(s: Record, a: Record) -> None:
    """Fail-safes: an empty battery, a battery that is critical or low, and the fence, in this order."""
    if s.armed == 0 or s.failsafe == EMPTY:
        return
    left = s.charge / a.capacity
    if left <= a.critical:
        if s.failsafe != CRITICAL:
            s.failsafe = CRITICAL
            enter(s, LAND if a.kind == COPTER else HOLD)
    elif left <= a.low:
        if s.failsafe != LOW:
            s.failsafe = LOW
            if a.low_action >= 0 and s.mode != LAND:
                enter(s, a.low_action if a.kind == COPTER or a.low_action == RETURN else HOLD)
    elif s.failsafe == NONE:
        out = s.fence_radius > 0.0 and math.hypot(s.x - s.home_x, s.y - s.home_y) > s.fence_radius
        out = out or (s.fence_top > 0.0 and s.z - s.home_z > s.fence_top)
        if out and s.mode != RETURN and s.mode != LAND:
            s.failsafe = FENCE
            enter(s, RETURN)


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
    rise = approach(abs(dz), a.gain, 0.5 * a.accel, a.climb if dz > 0.0 else a.descent)
    s.target_vz = min(max((rise if dz > 0.0 else -rise) + fz, -a.descent), a.climb)
    return math.sqrt(flat * flat + dz * dz)


@part
def _still(s: Record) -> None:
    s.target_vx = s.target_vy = s.target_vz = 0.0


@part
def _sink(s: Record, a: Record) -> None:
    """Go down here, slowly near the ground."""
    _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
    s.target_vz = -(a.descent if s.z - a.ground > _LOW_HEIGHT else a.land_speed)


@part
def _return(s: Record, a: Record) -> None:
    """Rise to the return height, fly home, land."""
    if s.stage == 0:
        height = max(s.z, s.home_z + a.return_height)
        if math.hypot(s.x - s.home_x, s.y - s.home_y) < a.radius:
            height = s.z  # at home already
        s.target_z, s.stage = height, 1
    if s.stage == 1:
        _seek(s, a, s.target_x, s.target_y, s.target_z, 0.0, 0.0, 0.0, 0.0)
        if s.z > s.target_z - 1.0:
            s.target_x, s.target_y, s.stage = s.home_x, s.home_y, 2
    if s.stage == 2:
        _seek(s, a, s.home_x, s.home_y, s.target_z, 0.0, 0.0, 0.0, 0.0)
        if math.hypot(s.x - s.home_x, s.y - s.home_y) < 0.5 * a.radius:
            s.stage = 3
    if s.stage == 3:
        _sink(s, a)


@part
def proceed(s: Record) -> None:
    """The present item of the mission is reached: on to the next one."""
    s.reached = s.item
    s.item += 1
    s.hold_until = -1.0
    s.stage = 0
    s.target_x, s.target_y = s.x, s.y
    if s.item >= s.items:
        s.done = 1


@part
def _leg(s: Record, a: Record, items: NDArray[np.void]) -> float:
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
def _fly_mission(s: Record, a: Record, items: NDArray[np.void], now: float) -> None:
    if s.done != 0:
        _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
        s.target_vz = 0.0
        return
    item = items[s.first_item + s.item]
    if item.speed > 0.0:
        s.speed = item.speed
    if item.what == HOME:
        enter(s, RETURN)
        s.item += 1
        s.done = 1 if s.item >= s.items else 0
        _return(s, a)
    elif item.what == DESCEND:
        if item.z > 0.0:  # a place of its own, else here
            s.target_x, s.target_y = item.x, item.y
        _sink(s, a)
    elif item.what == RISE:
        _seek(s, a, s.target_x, s.target_y, item.z, 0.0, 0.0, 0.0, 0.0)
        if abs(s.z - item.z) < 0.5:
            proceed(s)
    else:
        far = _seek(s, a, item.x, item.y, item.z, 0.0, 0.0, 0.0, _leg(s, a, items))
        if far < a.radius:
            if s.hold_until < 0.0:
                s.hold_until = now + item.hold
            if now >= s.hold_until:
                proceed(s)


@part
def pilot_copter(
    s: Record, a: Record, items: NDArray[np.void], wind: NDArray[np.float64], now: float, dt: float
) -> None:
    """One step of an armed copter with a battery that is not empty."""
    mode = s.mode
    if mode == TAKE_OFF:
        _seek(s, a, s.target_x, s.target_y, s.target_z, 0.0, 0.0, 0.0, 0.0)
        if s.z > s.target_z - 0.3:
            x, y, z = s.target_x, s.target_y, s.target_z
            enter(s, GO)
            s.target_x, s.target_y, s.target_z = x, y, z
    elif mode == GO:
        if now < s.target_until:  # the point moves on as it did when last heard of
            s.target_x += s.lead_x * dt
            s.target_y += s.lead_y * dt
            s.target_z += s.lead_z * dt
            _seek(s, a, s.target_x, s.target_y, s.target_z, s.lead_x, s.lead_y, s.lead_z, 0.0)
        else:
            _seek(s, a, s.target_x, s.target_y, s.target_z, 0.0, 0.0, 0.0, 0.0)
    elif mode == VELOCITY:
        if now >= s.target_until:
            enter(s, HOLD)
            _still(s)
    elif mode == MISSION:
        _fly_mission(s, a, items, now)
    elif mode == RETURN:
        _return(s, a)
    elif mode == LAND:
        _sink(s, a)
    else:
        _still(s)
    heading = s.target_heading
    if math.isnan(heading) and math.hypot(s.target_vx, s.target_vy) > 0.5:
        heading = math.atan2(s.target_vx, s.target_vy)
    if math.isnan(heading):
        heading = s.kept
    s.kept = heading
    if a.rigid != 0:
        fly_rigid(s, a, wind[0], wind[1], wind[2], heading, dt)
    else:
        fly(s, a, wind[0], wind[1], wind[2], heading, dt)


@part
def pilot_rover(s: Record, a: Record, items: NDArray[np.void], now: float, dt: float) -> None:
    """One step of an armed rover with a battery that is not empty."""
    mode = s.mode
    v, bearing = 0.0, math.nan
    if mode in (GO, RETURN):
        if mode == RETURN:
            s.target_x, s.target_y = s.home_x, s.home_y
        far = _seek(s, a, s.target_x, s.target_y, s.z, 0.0, 0.0, 0.0, 0.0)
        if far > 0.3 * a.radius:
            v, bearing = math.hypot(s.target_vx, s.target_vy), math.atan2(s.target_x - s.x, s.target_y - s.y)
    elif mode == VELOCITY:
        if now < s.target_until:
            v = math.hypot(s.target_vx, s.target_vy)
            if v > 1e-6:
                bearing = math.atan2(s.target_vx, s.target_vy)
        else:
            enter(s, HOLD)
    elif mode == MISSION and s.done == 0:
        item = items[s.first_item + s.item]
        if item.speed > 0.0:
            s.speed = item.speed
        if item.what == HOME:
            enter(s, RETURN)
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
