"""WGS84 <-> local east-north-up, three-dimensional and without a flat-earth approximation.

Both ways go through earth-centred, earth-fixed coordinates (ECEF), so that heights and distances of
hundreds of kilometres come out right. Everything works on arrays of any one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Flags, Floats, Ints

SEMI_MAJOR = 6_378_137.0  # m, NIMA TR8350.2, defining parameter of WGS84
FLATTENING = 1 / 298.257223563  # 1, the same
_E2 = FLATTENING * (2 - FLATTENING)  # first eccentricity squared
_SEMI_MINOR = SEMI_MAJOR * (1 - FLATTENING)
_EP2 = _E2 / (1 - _E2)  # second eccentricity squared

_TOUCH = 1e-7  # deg, the last decimal of maps: 1 cm


def crossing(rings: Sequence[Floats]) -> str:
    """Which two edges of a polygon cross, by the numbers of their corners from 1; "" where none do.

    `rings` are the outline and holes, (k, 2) deg each, closed or not: edges are straight there (RFC 7946, 3.1.1).
    Those that only touch, to 1e-7 deg, do not cross.
    """
    none = np.empty((0, 2))
    begin = np.concatenate([none, *rings])
    way = np.concatenate([none, *(np.roll(ring, -1, axis=0) for ring in rings)]) - begin
    unit = way / np.maximum(np.hypot(*way.T), 1e-15)[:, None]

    def apart(line: Ints, edge: Ints) -> Flags:
        """Whether the ends of `edge` lie on different sides of `line`."""
        off = begin[edge] - begin[line]
        side = unit[line, 0] * off[..., 1] - unit[line, 1] * off[..., 0]  # deg
        other = side + unit[line, 0] * way[edge, 1] - unit[line, 1] * way[edge, 0]
        return np.asarray((np.minimum(side, other) < -_TOUCH) & (np.maximum(side, other) > _TOUCH))

    edges = np.arange(len(begin))[None]
    for rows in np.array_split(edges.T, edges.size**2 // 1_000_000 + 1):  # so that pairs fit into the memory
        for i, j in np.argwhere(apart(rows, edges) & apart(edges, rows))[:1]:
            corners = [f"{k + 1} to {(k + 1) % len(ring) + 1}" for ring in rings for k in range(len(ring))]
            return f"the edge from corner {corners[int(rows[i, 0])]} crosses that from {corners[j]}"
    return ""


def to_ecef(latitude: ArrayLike, longitude: ArrayLike, height: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Earth-centred x, y, z (m) of geodetic coordinates (deg, deg, m above the ellipsoid)."""
    phi, lam = np.radians(np.asarray(latitude, float)), np.radians(np.asarray(longitude, float))
    h = np.asarray(height, float)
    n = SEMI_MAJOR / np.sqrt(1 - _E2 * np.sin(phi) ** 2)
    return (
        (n + h) * np.cos(phi) * np.cos(lam),
        (n + h) * np.cos(phi) * np.sin(lam),
        (n * (1 - _E2) + h) * np.sin(phi),
    )


def from_ecef(x: ArrayLike, y: ArrayLike, z: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Geodetic latitude, longitude (deg) and height (m) of earth-centred coordinates (m).

    Bowring's iteration (Survey Review 23, 1976) on the reduced latitude; three rounds are exact to
    the last digits from 5,000 km below the surface to beyond geostationary orbits.
    """
    x, y, z = (np.asarray(part, float) for part in (x, y, z))
    p = np.hypot(x, y)
    beta = np.arctan2(z * SEMI_MAJOR, p * _SEMI_MINOR)
    phi = beta
    for _ in range(3):
        phi = np.arctan2(z + _EP2 * _SEMI_MINOR * np.sin(beta) ** 3, p - _E2 * SEMI_MAJOR * np.cos(beta) ** 3)
        beta = np.arctan2((1 - FLATTENING) * np.sin(phi), np.cos(phi))
    n = SEMI_MAJOR / np.sqrt(1 - _E2 * np.sin(phi) ** 2)
    # p / cos fails at the poles and z / sin at the equator; this form has neither weakness
    height = p * np.cos(phi) + z * np.sin(phi) - SEMI_MAJOR**2 / n
    return np.degrees(phi), np.degrees(np.arctan2(y, x)), height


@dataclass(frozen=True)
class LocalFrame:
    """East-north-up axes at an origin on WGS84."""

    latitude: float  # deg
    longitude: float  # deg
    height: float = 0.0  # m above the ellipsoid

    @cached_property
    def _origin(self) -> Floats:  # (3,) m
        return np.array([float(part) for part in to_ecef(self.latitude, self.longitude, self.height)])

    @cached_property
    def _axes(self) -> Floats:  # (3, 3): rows are east, north, up in ECEF
        phi, lam = np.radians(self.latitude), np.radians(self.longitude)
        return np.array([
            [-np.sin(lam), np.cos(lam), 0.0],
            [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)],
            [np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)],
        ])  # fmt: skip

    def to_local(
        self, latitude: ArrayLike, longitude: ArrayLike, height: ArrayLike = 0.0
    ) -> tuple[Floats, Floats, Floats]:
        """East, north, up (m) of points given in degrees and metres above the ellipsoid."""
        x, y, z = np.broadcast_arrays(*to_ecef(latitude, longitude, height))
        dx, dy, dz = x - self._origin[0], y - self._origin[1], z - self._origin[2]
        east, north, up = (axis[0] * dx + axis[1] * dy + axis[2] * dz for axis in self._axes)
        return east, north, up

    def to_wgs84(self, east: ArrayLike, north: ArrayLike, up: ArrayLike = 0.0) -> tuple[Floats, Floats, Floats]:
        """Latitude, longitude (deg) and height (m) of local points (m)."""
        e, n, u = np.broadcast_arrays(*(np.asarray(part, float) for part in (east, north, up)))
        x, y, z = (
            start + axis[0] * e + axis[1] * n + axis[2] * u
            for start, axis in zip(self._origin, self._axes.T, strict=True)
        )
        return from_ecef(x, y, z)
