"""What a camera on a vehicle sees of flat ground: the footprint of a picture and the size of its pixels.

A pinhole camera that looks down its body's vertical axis. The body is turned by heading, pitch and roll in that order
(the convention of aircraft, Rz Ry Rx); each corner of the picture is a ray that is followed to the ground.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAST = math.cos(math.radians(85.0))  # downward part of a ray: flatter ones are taken to miss the ground


@dataclass(frozen=True, slots=True)
class Camera:
    """Raises `ValueError` for a picture without pixels or without a width."""

    across: float  # rad, whole angle of view to the sides
    along: float  # rad, whole angle of view forward and back
    columns: int  # pixels across
    lines: int  # pixels along
    gimbal: bool = True  # it looks straight down whatever the attitude

    def __post_init__(self) -> None:
        if not (0.0 < self.across < math.pi and 0.0 < self.along < math.pi):
            raise ValueError("a camera's angles of view are between 0 and 180 degrees")
        if self.columns < 1 or self.lines < 1:
            raise ValueError("a picture has at least one pixel across and along")

    def footprint(
        self, x: float, y: float, above: float, heading: float, pitch: float = 0.0, roll: float = 0.0
    ) -> Floats | None:
        """Corners (4, 2) on the ground in m, east and north, in turn round; None: it sees the horizon, or lies on it.

        `x`, `y` m east and north, `above` m over the ground; angles in rad, heading clockwise from north,
        pitch nose up, roll right side down.
        """
        if not above > 0.0:
            return None
        pitch, roll = (0.0, 0.0) if self.gimbal else (pitch, roll)
        side, front = math.tan(0.5 * self.across), math.tan(0.5 * self.along)
        rays = np.array([[front, -side, 1.0], [front, side, 1.0], [-front, side, 1.0], [-front, -side, 1.0]])
        turned = rays @ _turn(heading, pitch, roll).T  # north, east, down
        if (turned[:, 2] < _LEAST * np.linalg.norm(turned, axis=1)).any():
            return None
        reach = above / turned[:, 2]
        return np.column_stack([x + reach * turned[:, 1], y + reach * turned[:, 0]])

    def pixel(self, area: float) -> float:
        """Ground sample distance in m: the side of a square of `area` m^2 over the number of pixels."""
        return math.sqrt(area / (self.columns * self.lines))


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
