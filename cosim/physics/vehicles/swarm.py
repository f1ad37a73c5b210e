"""Groups of copters that fly by one policy and keep apart.

A policy places the members: in a formation, in a chain of relays, or on lanes over a field. Separation
is kept by a limit on how fast two may close: with a the braking deceleration, t the time until it acts and D the
distance to keep, a speed w towards a neighbour at distance d is allowed for which w t + w^2 / (2 a) <= (d - D) / 2.
Both then stop in their half of the gap (reciprocal avoidance, as of van den Berg et al. 2011, by braking
distances). Wanted velocities are cut to these limits; the part cut off makes both swerve to their right. No copter gets
a change of velocity beyond its acceleration; where that is too small, keeping apart has all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats, Ints
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.layout import LAND, RETURN, TAKE_OFF

Policy = Callable[[float, int], Floats]  # (time in s, members) -> points (members, 3) m

_GAIN = 0.5  # 1/s, speed per distance from the point
_VELOCITY_GAIN = 3.0  # 1/s, of the velocity controllers of `cosim.physics.vehicles.motion`, the greater one
_OWN = (TAKE_OFF, LAND, RETURN)  # what a copter does that is not led: fail-safes come first
_SWERVE = 0.6  # of what is cut off, to the right


@dataclass(frozen=True, slots=True)
class Formation:
    """Points around a leader's place that goes along `course` (k, 3) m at `speed`, turned by the way's heading.

    `shape` is line (abreast), column, vee, grid or ring; neighbours are `spacing` m apart.
    """

    course: Sequence[tuple[float, float, float]]
    shape: str = "line"
    spacing: float = 6.0
    speed: float = 4.0

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"there is no formation '{self.shape}'; there are {', '.join(SHAPES)}")
        if not self.course or not self.spacing > 0.0 or not self.speed > 0.0:
            raise ValueError("a formation needs a course, and a spacing and a speed above 0")

    def __call__(self, time: float, members: int) -> Floats:
        """Where they should be (members, 3) at `time` s."""
        course = np.array(self.course, np.float64)
        legs = np.diff(course, axis=0)
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(legs, axis=1))])
        at = min(self.speed * time, float(along[-1]))
        leader = np.array([np.interp(at, along, course[:, k]) for k in range(3)])
        leg = min(int(np.searchsorted(along, at, "right")) - 1, len(legs) - 1)
        east, north = (legs[leg, :2] if len(legs) else (0.0, 1.0)) if leg >= 0 else (0.0, 1.0)
        heading = math.atan2(east, north) if east or north else 0.0
        right, ahead = SHAPES[self.shape](members).T * self.spacing
        sine, cosine = math.sin(heading), math.cos(heading)
        offset = np.column_stack([ahead * sine + right * cosine, ahead * cosine - right * sine, np.zeros(members)])
        return np.asarray(leader + offset)


def _line(n: int) -> Floats:
    return np.column_stack([np.arange(n) - 0.5 * (n - 1), np.zeros(n)])


def _vee(n: int) -> Floats:
    rank = (np.arange(n) + 1) // 2
    side = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return np.column_stack([side * rank, -rank]) * math.sqrt(0.5)


def _grid(n: int) -> Floats:
    wide = math.ceil(math.sqrt(n))
    row, column = np.divmod(np.arange(n), wide)
    return np.column_stack([column - 0.5 * (wide - 1), -row.astype(np.float64)])


def _ring(n: int) -> Floats:
    angle = 2.0 * math.pi * np.arange(n) / n
    radius = 0.5 / math.sin(math.pi / n) if n > 1 else 0.0
    return np.column_stack([radius * np.sin(angle), radius * np.cos(angle)])


# (right, ahead) of the leader's place in spacings, by number of members
SHAPES: dict[str, Callable[[int], Floats]] = {
    "line": _line, "column": lambda n: _line(n)[:, ::-1] * (1.0, -1.0), "vee": _vee, "grid": _grid, "ring": _ring,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RelayChain:
    """Members evenly between two places (m): every hop of the chain is as short as it can be."""

    begin: tuple[float, float, float]
    end: tuple[float, float, float]

    def __call__(self, time: float, members: int) -> Floats:
        """Where they should be (members, 3)."""
        part = (np.arange(members) + 1.0)[:, None] / (members + 1.0)
        return np.asarray(np.array(self.begin) + part * (np.array(self.end) - np.array(self.begin)))

    def needed(self, hop: float) -> int:
        """The fewest members with which no hop is longer than `hop` m."""
        return max(math.ceil(math.dist(self.begin, self.end) / hop - 1e-9) - 1, 0)


@dataclass(frozen=True, slots=True)
class LaneSweep:
    """Lanes `lane` m apart to and fro over an area (west, south, east, north in m), split among the members."""

    area: tuple[float, float, float, float]
    height: float
    lane: float = 6.0
    speed: float = 4.0

    def __post_init__(self) -> None:
        west, south, east, north = self.area
        if not (east > west and north > south and self.lane > 0.0 and self.speed > 0.0):
            raise ValueError("an area has west < east and south < north; lane and speed are above 0")

    @property
    def lanes(self) -> int:
        """How many there are."""
        return math.ceil((self.area[2] - self.area[0]) / self.lane - 1e-9)

    def __call__(self, time: float, members: int) -> Floats:
        """Where they should be (members, 3) at `time` s; those without a lane of their own wait south of the area."""
        west, south, _, north = self.area
        shares = np.array_split(np.arange(self.lanes), members)
        length = north - south
        places = np.empty((members, 3))
        for k, mine in enumerate(shares):
            if not len(mine):
                places[k] = west + (k + 0.5) * self.lane, south - 2.0 * self.lane, self.height
                continue
            way = min(self.speed * time, len(mine) * length + (len(mine) - 1) * self.lane)
            lane = min(int(way // (length + self.lane)), len(mine) - 1)
            on = way - lane * (length + self.lane)
            aside = max(on - length, 0.0)
            forth = min(on, length) if lane % 2 == 0 else length - min(on, length)
            places[k] = west + (mine[lane] + 0.5) * self.lane + aside, south + forth, self.height
        return places


@part
def _projected(x: float, y: float, z: float, near: Floats, count: int, swerve: float) -> tuple[float, float, float]:
    """A velocity near x, y, z with no component above its limit, for each row (direction, limit) of `near`."""
    for sweep in range(12):
        worst = 0.0
        for k in range(count):
            nx, ny, nz = near[k, 0], near[k, 1], near[k, 2]
            over = x * nx + y * ny + z * nz - near[k, 3]
            if over > 0.0:
                x, y, z = x - over * nx, y - over * ny, z - over * nz
                if sweep == 0 and near[k, 3] > 0.0:
                    x, y = x + swerve * over * ny, y - swerve * over * nx
                worst = max(worst, over)
        if worst < 1e-3:
            break
    share = 1.0
    for k in range(count):
        closing = x * near[k, 0] + y * near[k, 1] + z * near[k, 2]
        if closing > near[k, 3] + 1e-3:
            share = min(share, max(near[k, 3], 0.0) / closing)
    return share * x, share * y, share * z


@entry()
def _limit(
    places: Floats, moving: Floats, wanted: Floats, change: Floats, apart: float, braking: float, delay: float,
    most: float,
) -> None:  # fmt: skip
    """Cut `wanted` (groups, members, 3) to what keeps the members of each group `apart` m from each other.

    `moving` are their velocities, `change` (groups, members) m/s the largest change of velocity to be ordered.
    """
    groups, members = places.shape[0], places.shape[1]
    near = np.empty((members, 4))
    reach = apart + 2.0 * (most * delay + most * most / (2.0 * braking))
    for g in range(groups):
        for i in range(members):
            count = 0
            for j in range(members):
                dx, dy = places[g, j, 0] - places[g, i, 0], places[g, j, 1] - places[g, i, 1]
                if j == i or abs(dx) > reach or abs(dy) > reach:
                    continue
                dz = places[g, j, 2] - places[g, i, 2]
                d = math.sqrt(dx * dx + dy * dy + dz * dz)
                if d > reach or d < 1e-9:
                    continue
                room = d - apart
                if room > 0.0:
                    limit = -braking * delay + math.sqrt((braking * delay) ** 2 + braking * room)
                else:
                    limit = max(room, -1.0)  # m/s, apart again
                near[count, 0], near[count, 1], near[count, 2], near[count, 3] = dx / d, dy / d, dz / d, limit
                count += 1
            vx, vy, vz = moving[g, i, 0], moving[g, i, 1], moving[g, i, 2]
            x, y, z = wanted[g, i, 0] - vx, wanted[g, i, 1] - vy, wanted[g, i, 2] - vz
            share = min(change[g, i] / max(math.sqrt(x * x + y * y + z * z), 1e-9), 1.0)
            x, y, z = _projected(vx + share * x, vy + share * y, vz + share * z, near, count, _SWERVE)
            if (x - vx) ** 2 + (y - vy) ** 2 + (z - vz) ** 2 > change[g, i] ** 2:
                # more than it can do: what keeps apart comes before what was wanted
                x, y, z = _projected(vx, vy, vz, near, count, 0.0)
                x, y, z = x - vx, y - vy, z - vz
                share = min(change[g, i] / max(math.sqrt(x * x + y * y + z * z), 1e-9), 1.0)
                x, y, z = vx + share * x, vy + share * y, vz + share * z
            wanted[g, i, 0], wanted[g, i, 1], wanted[g, i, 2] = x, y, z


@entry()
def _nearest(before: Floats, after: Floats, least: Floats) -> None:
    """The least distance of two members (groups,) m, moving straight from `before` to `after` (groups, members, 3)."""
    groups, members = before.shape[0], before.shape[1]
    for g in range(groups):
        best = least[g] * least[g]
        for i in range(members):
            for j in range(i):
                x, y = before[g, j, 0] - before[g, i, 0], before[g, j, 1] - before[g, i, 1]
                u = after[g, j, 0] - after[g, i, 0] - x
                v = after[g, j, 1] - after[g, i, 1] - y
                if abs(x) > 50.0 or abs(y) > 50.0:
                    continue
                z = before[g, j, 2] - before[g, i, 2]
                w = after[g, j, 2] - after[g, i, 2] - z
                moved = u * u + v * v + w * w
                part = 0.0
                if moved > 1e-12:
                    part = min(max(-(x * u + y * v + z * w) / moved, 0.0), 1.0)
                x, y, z = x + part * u, y + part * v, z + part * w
                best = min(best, x * x + y * y + z * z)
        least[g] = math.sqrt(best)


class SwarmGroups:
    """`rows` (groups, members) of `fleet` that follow `policies`, one for each group, and keep `separation` m apart.

    Groups do not see each other. `margin` m is kept besides, for what gusts and the lag of attitudes do; `braking`
    m/s^2 is what they can rely on, `delay` s until it acts. Members that stand, take off, land or return are left
    alone, and are neighbours all the same.
    """

    def __init__(
        self,
        fleet: VehicleFleet,
        rows: ArrayLike,
        policies: Sequence[Policy],
        separation: float = 2.0,
        *,
        margin: float = 1.5,
        braking: float = 1.2,
        delay: float = 0.5,
        speed: float = 5.0,
    ) -> None:
        self.fleet = fleet
        self.rows = np.atleast_2d(np.asarray(rows, np.int64))
        if len(policies) != len(self.rows):
            raise ValueError(f"{len(self.rows)} groups have {len(policies)} policies")
        if not (separation > 0.0 and margin >= 0.0 and braking > 0.0 and delay >= 0.0 and speed > 0.0):
            raise ValueError("separation, braking and speed must be above 0, margin and delay not below")
        self.policies = list(policies)
        self._limits = separation + margin, braking, delay, speed
        # a greater change saturates the velocity controller axis by axis, and what comes out has another direction
        self._change = fleet.frames["accel"][self.rows] / _VELOCITY_GAIN
        self._began = fleet.now
        self._seen = self.places()
        self.nearest = np.full(len(self.rows), np.inf)  # m, the least distance so far of two members of each group

    def places(self) -> Floats:
        """Positions of all members (groups, members, 3) m."""
        state = self.fleet.state[self.rows]
        return np.stack([state["x"], state["y"], state["z"]], axis=-1)

    def points(self) -> Floats:
        """Wanted positions of all members (groups, members, 3) m."""
        time, members = self.fleet.now - self._began, self.rows.shape[1]
        return np.stack([policy(time, members) for policy in self.policies])

    def tick(self) -> None:
        """Check how near they came since the last time, and steer them; to be called at 5 Hz or more often."""
        state, here = self.fleet.state[self.rows], self.places()
        self.watch()
        apart, braking, delay, most = self._limits
        away = self.points() - here
        far = np.linalg.norm(away, axis=-1, keepdims=True)
        # as fast as lets them stop at the point, and no faster than they may
        wanted = away * np.minimum(_GAIN, most / np.maximum(far, 1e-9))
        moving = np.stack([state["vx"], state["vy"], state["vz"]], axis=-1)
        _limit(here, moving, wanted, self._change, apart, braking, delay, most)
        flies = ((state["landed"] == 0) & ~np.isin(state["mode"], _OWN)).ravel()
        self.fleet.steer(self.rows.ravel()[flies], wanted.reshape(-1, 3)[flies], valid=1.0)

    def watch(self) -> None:
        """Only look how near they came since the last time."""
        here = self.places()
        _nearest(self._seen, here, self.nearest)
        self._seen = here


def assigned(places: Floats, points: Floats) -> Ints:
    """For each of the `places` (n, 3) one of the `points` (n, 3): the nearest pairs first, so that few ways cross."""
    order = np.argsort(np.linalg.norm(places[:, None] - points[None], axis=-1), axis=None, kind="stable")
    found = np.full(len(places), -1, np.int64)
    free = np.ones(len(points), np.bool_)
    for place, point in zip(*np.divmod(order, len(points)), strict=True):
        if found[place] < 0 and free[point]:
            found[place], free[point] = point, False
    return found
