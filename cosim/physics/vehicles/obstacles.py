"""Obstacles: polygons with a height, and how near to them vehicles come.

In 2.5 dimensions: an obstacle is as wide at its top as on the ground, and a vehicle above its top is not near it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from cosim.compiled.compiling import entry, part
from cosim.contract.geo import LocalFrame
from cosim.contract.reading.geojson import features
from cosim.contract.records import Floats, Ints
from cosim.physics.vehicles.maps import polygons_of
from cosim.physics.vehicles.terrain import Terrain


@part
def _square(px: float, py: float, ax: float, ay: float, bx: float, by: float) -> float:
    """m^2 of the distance of a point from the line from a to b."""
    ux, uy = bx - ax, by - ay
    length = ux * ux + uy * uy
    on = min(max(((px - ax) * ux + (py - ay) * uy) / length, 0.0), 1.0) if length > 0.0 else 0.0
    dx, dy = ax + on * ux - px, ay + on * uy - py
    square: float = dx * dx + dy * dy
    return square


@part
def _side(ax: float, ay: float, bx: float, by: float, px: float, py: float) -> float:
    """Above 0 where p lies to the left of the way from a to b."""
    side: float = (bx - ax) * (py - ay) - (by - ay) * (px - ax)
    return side


@part
def _distance(ax: float, ay: float, bx: float, by: float, edges: Floats, first: int, last: int) -> float:
    """m of the straight way from a to b from the polygon with the edges `first` to `last`; 0 inside."""
    odd = False
    least = math.inf
    for k in range(first, last):
        cx, cy, dx, dy = edges[k, 0], edges[k, 1], edges[k, 2], edges[k, 3]
        if (cy > ay) != (dy > ay) and ax < cx + (ay - cy) / (dy - cy) * (dx - cx):
            odd = not odd
        apart = _side(ax, ay, bx, by, cx, cy) * _side(ax, ay, bx, by, dx, dy) < 0.0
        if apart and _side(cx, cy, dx, dy, ax, ay) * _side(cx, cy, dx, dy, bx, by) < 0.0:
            return 0.0
        least = min(least, _square(ax, ay, cx, cy, dx, dy), _square(bx, by, cx, cy, dx, dy))
        least = min(least, _square(cx, cy, ax, ay, bx, by), _square(dx, dy, ax, ay, bx, by))
    return 0.0 if odd else math.sqrt(least)


@entry()
def _look(
    before: Floats, after: Floats, edges: Floats, first: Ints, tops: Floats, bounds: Floats, reach: float, found: Floats
) -> None:
    """Set `found` (n, k): m of the straight ways `before` to `after` (n, 3) from the obstacles, below their tops.

    Infinity: farther than `reach`, or above.
    """
    for i in range(len(before)):
        x, y, z = before[i, 0], before[i, 1], before[i, 2]
        u, v, w = after[i, 0] - x, after[i, 1] - y, after[i, 2] - z
        for k in range(len(tops)):
            found[i, k] = math.inf
            if min(x, x + u) - reach > bounds[k, 2] or max(x, x + u) + reach < bounds[k, 0]:
                continue
            if min(y, y + v) - reach > bounds[k, 3] or max(y, y + v) + reach < bounds[k, 1]:
                continue
            begin, end = 0.0, 1.0  # the part of the way that is below the top
            if z >= tops[k]:
                if not z + w < tops[k]:
                    continue
                begin = (tops[k] - z) / w
            elif z + w > tops[k]:
                end = (tops[k] - z) / w
            far = _distance(x + begin * u, y + begin * v, x + end * u, y + end * v, edges, first[k], first[k + 1])
            if far <= reach:
                found[i, k] = far


@dataclass(frozen=True, slots=True, eq=False)
class Obstacles:
    """k polygons, whose edges stand one after another."""

    names: tuple[str, ...]
    edges: Floats  # (m, 4) m: from x, y to x, y
    first: Ints  # (k + 1,) where the edges of each begin, and the last end
    tops: Floats  # (k,) m up
    bounds: Floats  # (k, 4) m: west, south, east, north

    @classmethod
    def of(cls, outlines: Sequence[tuple[str, Sequence[Floats], float]]) -> Obstacles:
        """From name, rings (outline and holes, (j, 2) m each) and top (m up) of each."""
        edges = [
            np.concatenate([np.column_stack([r, np.roll(r, -1, axis=0)]) for r in rings]) for _, rings, _ in outlines
        ]
        return cls(
            tuple(name for name, _, _ in outlines),
            np.ascontiguousarray(np.concatenate(edges)),
            np.cumsum([0, *(len(part) for part in edges)]).astype(np.int64),
            np.array([top for _, _, top in outlines], np.float64),
            np.array([[*part[:, :2].min(axis=0), *part[:, :2].max(axis=0)] for part in edges]),
        )

    def distances(self, before: Floats, after: Floats, reach: float) -> Floats:
        """Distances (n, k) m of straight ways from `before` to `after` (n, 3), below the tops; 0: through it.

        Infinity stands for more than `reach` m, and for ways that stay above the top.
        """
        found = np.empty((len(before), len(self.tops)))
        begin, end = (np.ascontiguousarray(places, np.float64) for places in (before, after))
        _look(begin, end, self.edges, self.first, self.tops, self.bounds, reach, found)
        return found

    def hit(self, begin: ArrayLike, end: ArrayLike) -> list[int]:
        """Numbers of the obstacles that the straight way between two places (x, y, z in m) leads through."""
        a, b = (np.asarray(place, np.float64).reshape(1, 3) for place in (begin, end))
        return [int(k) for k in np.flatnonzero(self.distances(a, b, 0.0)[0] == 0.0)]


def read_obstacles(path: Path, frame: LocalFrame | None, terrain: Terrain | None = None) -> Obstacles:
    """The polygons of a GeoJSON file that have the property `height`, m above the ground; `name` is a text.

    On a `terrain` that is the highest ground under the corners, else that of the origin. Degrees (RFC 7946) need the
    `frame` of the origin. Raises `ValueError` with the number of the feature, and `OSError`.
    """
    if frame is None:
        raise ValueError("it is in degrees, but the scenario has no 'geo: {origin: [lat, lon]}'")
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or data.get("type") != "FeatureCollection":
        raise ValueError("obstacles in GeoJSON are a FeatureCollection")
    found: list[tuple[str, Sequence[Floats], float]] = []
    for number, feature in enumerate(features(data)):
        try:
            properties = feature["properties"]
            if "height" not in properties:
                continue
            height = properties["height"]
            if isinstance(height, bool) or not isinstance(height, int | float) or not 0.0 < height < math.inf:
                raise ValueError(f"'height' is {height!r}; it is in m above the ground, more than 0")
            name = str(properties.get("name") or f"obstacle {len(found)}")
            for rings in polygons_of(feature["geometry"], frame):
                if len(rings[0]) < 4:
                    raise ValueError("a polygon has three corners or more, and the first again")
                ground = 0.0 if terrain is None else float(terrain.height(*rings[0].T).max())
                found.append((name, rings, ground + float(height)))
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"feature {number} cannot be read: {error}") from error
    if not found:
        raise ValueError("no polygon has the property 'height', in m above the ground")
    return Obstacles.of(found)
