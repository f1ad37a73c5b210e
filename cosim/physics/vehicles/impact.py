"""What vehicles run into: walls, roofs, the ground and each other stop them, and break them above an impact speed.

An obstacle is a prism of `Obstacles`; against it a vehicle is a disc, against another vehicle a ball. Impacts are
inelastic and without friction: the velocity along the normal is lost, or shared by momentum, and what is left
deflects the vehicle along the surface. So the energy of motion cannot grow. How hard an impact is follows from the
change of velocity: a wall takes all of what is at right angles to it, a heavy vehicle changes less than a light one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.physics.vehicles.layout import COPTER, ELSEWHERE, EMPTY, GROUND, OBSTACLE, VEHICLE
from cosim.physics.vehicles.obstacles import Obstacles

Record = Any  # one row of a record array
_FELT = 0.5  # m/s, a copter's landing speed: a softer touch is not noted
_TINY = 1e-6  # m
_PUSH = 20.0  # m/s^2 of which no vehicle is capable, to see in time what it may run into


class Walls(NamedTuple):
    """Obstacles, as `Obstacles` has them."""

    edges: Floats
    first: Ints
    tops: Floats
    bounds: Floats


@part
def strike(s: Record, a: Record, what: int, other: int, speed: float, change: float, now: float) -> None:
    """Note an impact at `speed` m/s that changes the velocity by `change` m/s; what is broken counts no more."""
    if s.crashed != 0:
        return
    s.hits += 1
    s.hit_what, s.hit_other, s.hit_speed, s.hit_at = what, other, speed, now
    if change > a.bears:
        s.crashed = 1
        if a.kind == COPTER and s.landed == 0:
            s.stopped = 1  # it falls
        else:
            s.armed = 0


@part
def touch_down(s: Record, a: Record, impact: float, now: float, under: int) -> None:
    """Let a copter stand on the ground, or on the roof of the obstacle `under` (-1: none)."""
    s.impact = impact
    s.vx = s.vy = s.vz = s.ax = s.ay = s.az = 0.0
    s.landed, s.landed_at = 1, now
    if impact > a.bears:
        strike(s, a, OBSTACLE if under >= 0 else GROUND, under, impact, impact, now)
        s.armed = 0
    elif s.failsafe == EMPTY or s.stopped != 0:
        s.armed = 0


@part
def _gap(x: float, y: float, edges: Floats, first: int, last: int) -> tuple[float, float, float]:
    """m of a place from a polygon, below 0 inside, and the direction (east, north) that leads off it."""
    odd = False
    least, ex, ey = math.inf, 0.0, 0.0
    for k in range(first, last):
        ax, ay, ux, uy = edges[k, 0], edges[k, 1], edges[k, 2] - edges[k, 0], edges[k, 3] - edges[k, 1]
        if (ay > y) != (ay + uy > y) and x < ax + (y - ay) / uy * ux:
            odd = not odd
        length = ux * ux + uy * uy
        on = min(max(((x - ax) * ux + (y - ay) * uy) / length, 0.0), 1.0) if length > 0.0 else 0.0
        dx, dy = x - ax - on * ux, y - ay - on * uy
        if dx * dx + dy * dy < least:
            least, ex, ey = dx * dx + dy * dy, dx, dy
    far = math.sqrt(least)
    sign = -1.0 if odd else 1.0
    off = sign / far if far > 0.0 else 0.0
    return sign * far, off * ex, off * ey


@part
def _until(
    x: float, y: float, dx: float, dy: float, body: float, edges: Floats, first: int, last: int
) -> tuple[float, float, float]:
    """Share 0..1 of a straight way until a disc touches a polygon that it nears, 2: never; direction off the polygon.

    By sphere tracing (Hart 1996): a step as long as the gap cannot jump over a wall. The last of many counts.
    """
    length, at, ex, ey = math.hypot(dx, dy), 0.0, 0.0, 0.0
    for _ in range(200):
        far, ex, ey = _gap(x + at * dx, y + at * dy, edges, first, last)
        if far - body < _TINY:
            break
        at += (far - body) / length if length > 0.0 else 2.0
        if at > 1.0:
            return 2.0, ex, ey
    return (at if dx * ex + dy * ey < 0.0 else 2.0), ex, ey


@part
def _bump(s: Record, a: Record, x: float, y: float, z: float, walls: Walls, now: float) -> None:
    """Hold up a vehicle that has come from x, y, z by what stands in its way."""
    edges, first, tops, bounds = walls.edges, walls.first, walls.tops, walls.bounds
    dx, dy, dz = s.x - x, s.y - y, s.z - z
    for turn in range(4):  # along one wall it may come to another
        share, wall, nx, ny = 2.0, -1, 0.0, 0.0
        for k in range(len(tops)):
            if min(x, x + dx) - a.body > bounds[k, 2] or max(x, x + dx) + a.body < bounds[k, 0]:
                continue
            if min(y, y + dy) - a.body > bounds[k, 3] or max(y, y + dy) + a.body < bounds[k, 1]:
                continue
            if z >= tops[k] - _TINY:  # it comes from above
                if a.kind == COPTER and s.landed == 0 and z + dz < tops[k]:
                    on = min(max((tops[k] - z) / dz, 0.0), 1.0)
                    if _gap(x + on * dx, y + on * dy, edges, first[k], first[k + 1])[0] <= 0.0:
                        s.x, s.y, s.z = x + on * dx, y + on * dy, tops[k]
                        touch_down(s, a, -s.vz, now, k)
                        return
                continue
            at, ex, ey = _until(x, y, dx, dy, a.body, edges, first[k], first[k + 1])
            if at < share:
                share, wall, nx, ny = at, k, ex, ey
        if wall < 0:
            if turn > 0:
                s.x, s.y = x + dx, y + dy
            return
        x, y = x + share * dx, y + share * dy
        s.x, s.y = x, y
        speed = -(s.vx * nx + s.vy * ny)
        if speed > 0.0:
            if speed > _FELT:
                strike(s, a, OBSTACLE, wall, speed, speed, now)
            s.vx += speed * nx
            s.vy += speed * ny
        into = dx * nx + dy * ny
        dx, dy = (1.0 - share) * (dx - into * nx), (1.0 - share) * (dy - into * ny)


@part
def _moves(s: Record, a: Record) -> bool:
    """Whether a vehicle is under way, and by our physics."""
    return bool(s.armed != 0 and (a.kind != COPTER or (s.landed == 0 and a.rigid != ELSEWHERE)))


@part
def _shift(s: Record, nx: float, ny: float, nz: float, far: float, speed: float) -> None:
    """Move a vehicle by `far` m along a direction, and change its velocity by `speed` m/s."""
    s.x, s.y, s.z = s.x + far * nx, s.y + far * ny, s.z + far * nz
    s.vx, s.vy, s.vz = s.vx + speed * nx, s.vy + speed * ny, s.vz + speed * nz


@part
def _meet(states: Records, frames: Records, before: Floats, i: int, j: int, now: float) -> None:
    """Part two vehicles that met on their straight ways from `before` (n, 3) m to where they are."""
    s, a, o, b = states[i], frames[i], states[j], frames[j]
    px, py, pz = before[j, 0] - before[i, 0], before[j, 1] - before[i, 1], before[j, 2] - before[i, 2]
    ux, uy, uz = o.x - s.x - px, o.y - s.y - py, o.z - s.z - pz
    if a.kind != COPTER and b.kind != COPTER:
        pz = uz = 0.0  # both keep to the ground
    reach = a.body + b.body
    moved, nearing, apart = ux * ux + uy * uy + uz * uz, px * ux + py * uy + pz * uz, px * px + py * py + pz * pz
    room = nearing * nearing - moved * (apart - reach * reach)
    if nearing >= 0.0 or room < 0.0 or apart < 0.98 * reach * reach:  # those that begin within each other come apart
        return
    at = max((-nearing - math.sqrt(room)) / moved, 0.0)
    if at > 1.0:
        return
    nx, ny, nz = px + at * ux, py + at * uy, pz + at * uz
    size = math.sqrt(nx * nx + ny * ny + nz * nz)
    nx, ny, nz = nx / size, ny / size, nz / size
    speed = (s.vx - o.vx) * nx + (s.vy - o.vy) * ny + (s.vz - o.vz) * nz
    if speed <= 0.0:
        return
    mine = b.mass / (a.mass + b.mass)  # of the change, by momentum
    if speed > _FELT:
        strike(s, a, VEHICLE, j, speed, speed * mine, now)
        strike(o, b, VEHICLE, i, speed, speed * (1.0 - mine), now)
    if (a.kind == COPTER) != (b.kind == COPTER):  # what flies gives way to what stands on the ground
        mine = 1.0 if a.kind == COPTER else 0.0
    elif not _moves(o, b) and b.mass >= a.mass:  # what is parked stands firm
        mine = 1.0
    elif not _moves(s, a) and a.mass >= b.mass:
        mine = 0.0
    back = (1.0 - at) * (ux * nx + uy * ny + uz * nz)  # m, below 0: how far they went into each other
    _shift(s, nx, ny, nz, back * mine, -speed * mine)
    _shift(o, nx, ny, nz, -back * (1.0 - mine), speed * (1.0 - mine))


@part
def _extent(s: Record, a: Record, span: float) -> float:
    """m from its place that a vehicle may fill within `span` s."""
    speed = math.sqrt(s.vx * s.vx + s.vy * s.vy + s.vz * s.vz)
    return float(a.body + (speed + _PUSH * span) * span)


@part
def _near(states: Records, frames: Records, order: Ints, tops: Floats, bounds: Floats, span: float) -> bool:
    """Whether a vehicle may run into something within `span` s; `order` (n,): rows by their place to the east."""
    most = 0.0
    for i in range(len(states)):
        s, a = states[i], frames[i]
        far = _extent(s, a, span)
        most = max(most, far)
        if not _moves(s, a):
            continue
        for k in range(len(tops)):
            aside = max(bounds[k, 0] - s.x, s.x - bounds[k, 2], bounds[k, 1] - s.y, s.y - bounds[k, 3])
            if aside <= far and s.z - far <= tops[k]:
                return True
    for m in range(len(order)):
        s, a = states[order[m]], frames[order[m]]
        far = _extent(s, a, span)
        for n in range(m + 1, len(order)):
            o, b = states[order[n]], frames[order[n]]
            if o.x - s.x > far + most:
                break
            reach = far + _extent(o, b, span)
            close = abs(o.x - s.x) <= reach and abs(o.y - s.y) <= reach and abs(o.z - s.z) <= reach
            if close and (_moves(s, a) or _moves(o, b)):
                return True
    return False


@part
def _settle(
    states: Records, frames: Records, before: Floats, moved: Flags, order: Ints, walls: Walls, now: float
) -> None:
    """Hold up the vehicles `moved` (n,) that have come on straight ways from `before` (n, 3) m, at `now` s."""
    most = 0.0
    for i in range(len(states)):
        s, a = states[i], frames[i]
        far = math.sqrt((s.x - before[i, 0]) ** 2 + (s.y - before[i, 1]) ** 2 + (s.z - before[i, 2]) ** 2)
        most = max(most, a.body + far)
        if moved[i] and _moves(s, a):
            _bump(s, a, before[i, 0], before[i, 1], before[i, 2], walls, now)
    for m in range(len(order)):
        i = order[m]
        for n in range(m + 1, len(order)):
            j = order[n]
            if states[j].x - states[i].x > 4.0 * most:  # bodies and ways of both, and what walls have shifted
                break
            if (moved[i] and _moves(states[i], frames[i])) or (moved[j] and _moves(states[j], frames[j])):
                _meet(states, frames, before, i, j, now)


@entry()
def touch(
    states: Records, frames: Records, before: Floats, moved: Flags, order: Ints, walls: Walls, now: float,
    span: float,
) -> bool:  # fmt: skip
    """`_near` where `span` is above 0, else `_settle`: one entry point, so that none is compiled during a flight."""
    if span > 0.0:
        return _near(states, frames, order, walls.tops, walls.bounds, span)
    _settle(states, frames, before, moved, order, walls, now)
    return False


class Contacts:
    """Vehicles of a fleet that are solid, among `obstacles`."""

    def __init__(self, obstacles: Obstacles | None = None) -> None:
        w = obstacles
        self._walls = NOTHING if w is None else Walls(w.edges, w.first, w.tops, w.bounds)

    def near(self, states: Records, frames: Records, span: float) -> bool:
        """Whether one may run into something within `span` s."""
        return bool(touch(states, frames, _NOWHERE, _NONE, np.argsort(states["x"]), self._walls, 0.0, span))

    def settle(self, states: Records, frames: Records, before: Floats, now: float, moved: Flags | None = None) -> None:
        """Let what stood in their way since `before` (n, 3) m act on all, or on those that have `moved` (n,)."""
        which = np.ones(len(states), np.bool_) if moved is None else moved
        touch(states, frames, before, which, np.argsort(states["x"], kind="stable"), self._walls, now, 0.0)


NOTHING = Walls(np.zeros((0, 4)), np.zeros(1, np.int64), np.zeros(0), np.zeros((0, 4)))
_NOWHERE, _NONE = np.zeros((0, 3)), np.zeros(0, np.bool_)
