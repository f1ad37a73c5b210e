"""WGS84 for single points in plain Python: a message has one position, and numpy would cost ten times as much."""

from __future__ import annotations

import math
from typing import NamedTuple

Vector = tuple[float, float, float]

SEMI_MAJOR = 6_378_137.0  # m, NIMA TR8350.2
_F = 1 / 298.257223563
_E2 = _F * (2 - _F)
_SEMI_MINOR = SEMI_MAJOR * (1 - _F)
_EP2 = _E2 / (1 - _E2)


# m above the sea that vehicles can reach: from below the shore of the Dead Sea (-430 m) to the Karman line (FAI).
LOWEST, HIGHEST = -500.0, 100e3


class Place(NamedTuple):
    """A geodetic position."""

    latitude: float  # deg
    longitude: float  # deg
    altitude: float  # m; mean sea level and ellipsoid are taken as one

    @property
    def possible(self) -> bool:
        """Whether a vehicle can be there."""
        return abs(self.latitude) <= 90.0 and abs(self.longitude) <= 180.0 and LOWEST <= self.altitude <= HIGHEST


def ecef(place: Place) -> Vector:
    """Earth-centred, earth-fixed x, y, z in m."""
    phi, lam = math.radians(place.latitude), math.radians(place.longitude)
    sine, cosine = math.sin(phi), math.cos(phi)
    n = SEMI_MAJOR / math.sqrt(1 - _E2 * sine * sine)
    h = place.altitude
    return (n + h) * cosine * math.cos(lam), (n + h) * cosine * math.sin(lam), (n * (1 - _E2) + h) * sine


class Ground:
    """East, north and up in m of an origin, and geodetic places: there and back through ECEF."""

    def __init__(self, origin: tuple[float, float, float]) -> None:
        """`origin`: deg, deg, m."""
        self.origin = Place(*origin)
        if not (abs(self.origin.latitude) <= 90 and abs(self.origin.longitude) <= 180):
            raise ValueError(f"latitude {origin[0]}, longitude {origin[1]}: expected -90..90 and -180..180 degrees")
        self._centre = ecef(self.origin)
        phi, lam = math.radians(self.origin.latitude), math.radians(self.origin.longitude)
        self._axes = (math.sin(phi), math.cos(phi), math.sin(lam), math.cos(lam))

    def place(self, x: float, y: float, z: float) -> Place:
        """Where a local position (m) is. Bowring's formula (Survey Review 23, 1976), twice: exact to 1e-9 m."""
        sp, cp, sl, cl = self._axes
        across = cp * z - sp * y
        ex = self._centre[0] - sl * x + cl * across
        ey = self._centre[1] + cl * x + sl * across
        ez = self._centre[2] + cp * y + sp * z
        p = math.hypot(ex, ey)
        beta = math.atan2(ez * SEMI_MAJOR, p * _SEMI_MINOR)
        phi = beta
        for _ in range(2):
            phi = math.atan2(ez + _EP2 * _SEMI_MINOR * math.sin(beta) ** 3, p - _E2 * SEMI_MAJOR * math.cos(beta) ** 3)
            beta = math.atan2((1 - _F) * math.sin(phi), math.cos(phi))
        sine, cosine = math.sin(phi), math.cos(phi)
        height = p * cosine + ez * sine - SEMI_MAJOR * math.sqrt(1 - _E2 * sine * sine)
        return Place(math.degrees(phi), math.degrees(math.atan2(ey, ex)), height)

    def local(self, place: Place) -> Vector:
        """East, north, up (m) of a place."""
        sp, cp, sl, cl = self._axes
        dx, dy, dz = (a - b for a, b in zip(ecef(place), self._centre, strict=True))
        inward = cl * dx + sl * dy
        return cl * dy - sl * dx, cp * dz - sp * inward, cp * inward + sp * dz
