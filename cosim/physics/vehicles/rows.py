"""The way of a tractor over a field: parallel rows, joined by turns on the headland."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.physics.vehicles.fleet import Waypoint

_ARC = math.radians(30.0)  # greatest angle between two waypoints of a turn


@dataclass(frozen=True, slots=True)
class FieldRows:
    """Rows of a field; the first begins at the corner, the next ones lie to the right of it."""

    corner: tuple[float, float] = (0.0, 0.0)  # m
    rows: int = 8
    pitch: float = 6.0  # m between two rows
    length: float = 200.0  # m
    heading: float = 0.0  # rad clockwise from north, of the first row
    headland: float = 0.0  # m to drive straight on beyond a row's end before turning
    turn: float = 0.0  # m, radius of the turns; 0: two corners, for vehicles that turn on the spot
    speeds: tuple[float, ...] = ()  # m/s of the rows in turn; none: the vehicle's own
    stop: float = 0.0  # s to stand at the end of every row

    def __post_init__(self) -> None:
        if not (self.rows >= 1 and self.pitch > 0.0 and self.length > 0.0):
            raise ValueError("a field needs one row or more, and a pitch and a length above 0")
        if self.headland < 0.0 or self.turn < 0.0 or self.stop < 0.0 or any(speed <= 0.0 for speed in self.speeds):
            raise ValueError("headland, turn and stop cannot be below 0, and speeds must be above 0")

    def course(self) -> tuple[list[Waypoint], NDArray[np.int64]]:
        """The waypoints (w,), and for each the row that is worked on the way to it, -1: none."""
        points: list[Waypoint] = []
        row_of: list[int] = []
        for k in range(self.rows):
            speed = self.speeds[k % len(self.speeds)] if self.speeds else 0.0
            begin, end = self._ends(k)
            points += [Waypoint(*begin), Waypoint(*end, hold=self.stop, speed=speed)]
            row_of += [-1, k]
            if k + 1 < self.rows:
                turn = [Waypoint(*point) for point in self._turn(k)]
                points += turn
                row_of += [-1] * len(turn)
        return points, np.array(row_of, np.int64)

    def on_row(self, row: int, part: float) -> tuple[float, float, float]:
        """m east and north at `part` 0..1 of a row, and the heading there in rad."""
        (x, y), (to_x, to_y) = self._ends(row)
        along = math.atan2(to_x - x, to_y - y)
        return x + part * (to_x - x), y + part * (to_y - y), along

    def box(self, margin: float = 0.0) -> tuple[float, float, float, float]:
        """West, south, east, north of the rows, half a pitch beside them included, in m."""
        forth, right = self._axes()
        corners = [
            np.array(self.corner) + along * forth + aside * right
            for along in (0.0, self.length)
            for aside in (-0.5 * self.pitch, (self.rows - 0.5) * self.pitch)
        ]
        (west, south), (east, north) = np.min(corners, axis=0), np.max(corners, axis=0)
        return float(west) - margin, float(south) - margin, float(east) + margin, float(north) + margin

    def _axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        sine, cosine = math.sin(self.heading), math.cos(self.heading)
        return np.array([sine, cosine]), np.array([cosine, -sine])

    def _ends(self, k: int) -> tuple[tuple[float, float], tuple[float, float]]:
        forth, right = self._axes()
        near = np.array(self.corner) + k * self.pitch * right
        far = near + self.length * forth
        begin, end = (near, far) if k % 2 == 0 else (far, near)
        return (float(begin[0]), float(begin[1])), (float(end[0]), float(end[1]))

    def _turn(self, k: int) -> list[tuple[float, float]]:
        """Waypoints from the end of row k to the beginning of the next, without both."""
        forth, right = self._axes()
        ahead = forth if k % 2 == 0 else -forth
        end = np.array(self._ends(k)[1])
        local = [(aside, along + self.headland) for aside, along in _bend(self.pitch, self.turn)]
        if self.headland > 0.0 and self.turn > 0.0:
            local = [(0.0, self.headland), *local, (self.pitch, self.headland)]
        if self.headland == 0.0 and self.turn == 0.0:
            return []
        return [(float(p[0]), float(p[1])) for p in (end + along * ahead + aside * right for aside, along in local)]


def _bend(pitch: float, radius: float) -> list[tuple[float, float]]:
    """(aside, ahead) m of a turn from (0, 0) to (`pitch`, 0) in the opposite direction.

    Two quarter circles when the rows lie two radii apart or more. Nearer rows need the pear-shaped turn
    of three arcs: away from the next row, around, and back.
    """
    if radius <= 0.0:
        return [(0.0, 0.0), (pitch, 0.0)]
    if pitch >= 2.0 * radius:
        first = _arc(radius, 0.0, radius, math.pi, 0.5 * math.pi)
        return [*first, (pitch - radius, radius), *_arc(pitch - radius, 0.0, radius, 0.5 * math.pi, 0.0)]
    away = math.acos((radius + 0.5 * pitch) / (2.0 * radius))
    centre = math.sqrt(4.0 * radius**2 - (radius + 0.5 * pitch) ** 2)
    return [
        *_arc(-radius, 0.0, radius, 0.0, away),
        *_arc(0.5 * pitch, centre, radius, math.pi + away, -away),
        *_arc(pitch + radius, 0.0, radius, math.pi - away, math.pi),
    ]


def _arc(x: float, y: float, radius: float, begin: float, end: float) -> list[tuple[float, float]]:
    count = max(math.ceil(abs(end - begin) / _ARC), 1)
    angles = [begin + (end - begin) * k / count for k in range(1, count + 1)]
    return [(x + radius * math.cos(angle), y + radius * math.sin(angle)) for angle in angles]
