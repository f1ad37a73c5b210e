"""What a camera on a vehicle or a mast sees of the ground: the footprint of a picture and the size of its pixels.

A pinhole camera that looks down its body's vertical axis, or tilted from it. The body is turned by heading, pitch and
roll in that order (the convention of aircraft, Rz Ry Rx); each corner of the picture is a ray that is followed to the
ground, which is flat or a terrain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cosim.contract.records import Floats
from cosim.physics.vehicles.terrain import Terrain

_LOOK, _MOST_LOOKS = 0.25, 20_000  # of a cell, from one look along a ray to the next; looks at most
_TRIES = 8  # of false position, within a quarter of a cell
_LEAST = math.cos(math.radians(85.0))  # downward part of a ray: flatter ones are taken to miss the ground


@dataclass(frozen=True, slots=True)
class Camera:
    """Raises `ValueError` for a picture without pixels or without a width."""

    across: float  # rad, whole angle of view to the sides
    along: float  # rad, whole angle of view forward and back
    columns: int  # pixels across
    lines: int  # pixels along
    gimbal: bool = True  # it looks the same way whatever the attitude
    tilt: float = 0.0  # rad, of its axis from straight down, forward
    turn: float = 0.0  # rad, of its view from the body's nose, clockwise
    mount: float = 0.0  # m above the feet of what carries it

    def __post_init__(self) -> None:
        if not (0.0 < self.across < math.pi and 0.0 < self.along < math.pi):
            raise ValueError("a camera's angles of view are between 0 and 180 degrees")
        if self.columns < 1 or self.lines < 1:
            raise ValueError("a picture has at least one pixel across and along")

    def footprint(
        self, x: float, y: float, above: float, heading: float, pitch: float = 0.0, roll: float = 0.0,
        land: Terrain | None = None,
    ) -> Floats | None:  # fmt: skip
        """Corners (4, 2) on the ground in m, east and north, in turn round; None: it sees the horizon, or lies on it.

        `x`, `y` m east and north, `above` m over the ground; angles in rad, heading clockwise from north,
        pitch nose up, roll right side down. Without `land` the ground is a level plane.
        """
        if not above > 0.0:
            return None
        corners = self.rays(np.array([0.0, self.lines]), np.array([0.0, self.columns])).reshape(4, 3)[[0, 1, 3, 2]]
        turned = corners @ self.axes(heading, pitch, roll).T
        if (turned[:, 2] < _LEAST * np.linalg.norm(turned, axis=1)).any():
            return None
        reach = above / turned[:, 2] if land is None else _reach(land, x, y, above, turned)
        return np.column_stack([x + reach * turned[:, 1], y + reach * turned[:, 0]])

    def axes(self, heading: float, pitch: float, roll: float) -> Floats:
        """(3, 3), from the picture's front and right and its axis to north, east and down, in an attitude as above."""
        pitch, roll = (0.0, 0.0) if self.gimbal else (pitch, roll)
        return np.asarray(_turn(heading, pitch, roll) @ _turn(self.turn, self.tilt, 0.0))

    def rays(self, lines: Floats, columns: Floats) -> Floats:
        """(lines, columns, 3) along front, right and axis (1), through these places in pixels from the first corner."""
        front, right = self.slopes()
        ahead, aside = (1.0 - 2.0 * lines / self.lines) * front, (2.0 * columns / self.columns - 1.0) * right
        return np.stack(np.broadcast_arrays(ahead[:, None], aside[None, :], 1.0), axis=-1)

    def places(self, points: Floats) -> tuple[Floats, Floats]:
        """Column and line (k, 2) of `points` (k, 3) m along front, right and axis (> 0); and pixels of 1 m (k,)."""
        front, right = self.slopes()
        part = points[:, [1, 0]] / points[:, 2:] * (1.0 / right, -1.0 / front)
        return 0.5 * (1.0 + part) * (self.columns, self.lines), 0.5 * self.columns / right / points[:, 2]

    def slopes(self) -> tuple[float, float]:
        """Tangents of half the angles of view, to the front and to the right."""
        return math.tan(0.5 * self.along), math.tan(0.5 * self.across)

    def smaller(self, most: int) -> Camera:
        """The same view in a picture of at most `most` pixels a side."""
        part = min(most / max(self.columns, self.lines), 1.0)
        return replace(self, columns=max(round(self.columns * part), 1), lines=max(round(self.lines * part), 1))

    def pixel(self, area: float) -> float:
        """Ground sample distance in m: the side of a square of `area` m^2 over the number of pixels."""
        return math.sqrt(area / (self.columns * self.lines))


def _reach(land: Terrain, x: float, y: float, above: float, rays: Floats) -> Floats:
    """How often each of the `rays` (k, 3: north, east, down in m) leads from `above` m over a place to the ground.

    The first of several times counts. A ray is looked at every quarter of a cell, then by false position.
    """
    top = above + float(land.height(x, y))

    def gap(times: Floats) -> Floats:
        ground = land.height(x + times * rays[:, 1], y + times * rays[:, 0])
        return np.asarray(top - times * rays[:, 2] - ground)

    last = (top - float(land.heights.min())) / rays[:, 2]
    count = int((last * np.hypot(rays[:, 0], rays[:, 1])).max() / (_LOOK * float(land.box[2]))) + 1
    times = np.linspace(0.0, 1.0, min(count, _MOST_LOOKS) + 1)[:, None] * last
    gaps = gap(times)
    gaps[-1] = np.minimum(gaps[-1], 0.0)  # there it is below all ground, but for rounding
    k, each = np.argmax(gaps <= 0.0, axis=0), np.arange(len(rays))
    low, high, before, after = times[k - 1, each], times[k, each], gaps[k - 1, each], gaps[k, each]
    found = high
    for _ in range(_TRIES):
        found = low + (high - low) * before / (before - after)
        now = gap(found)
        under = now <= 0.0
        low, high = np.where(under, low, found), np.where(under, found, high)
        before, after = np.where(under, before, now), np.where(under, now, after)
    return np.asarray(found)


def _turn(heading: float, pitch: float, roll: float) -> Floats:
    """From the body's forward, right and down to north, east and down."""
    (ch, cp, cr), (sh, sp, sr) = ((f(heading), f(pitch), f(roll)) for f in (math.cos, math.sin))
    return np.array([
        [ch * cp, ch * sp * sr - sh * cr, ch * sp * cr + sh * sr],
        [sh * cp, sh * sp * sr + ch * cr, sh * sp * cr - ch * sr],
        [-sp, cp * sr, cp * cr],
    ])  # fmt: skip


def area(corners: Floats) -> float:
    """m^2 of a polygon with `corners` (k, 2) m, by the shoelace formula."""
    x, y = corners[:, 0], corners[:, 1]
    return float(0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))
