"""WGS84 positions in the scenario's local east-north-up frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.plan.entities import Geo

Floats = NDArray[np.float64]

_A = 6_378_137.0  # m, semi-major axis of WGS84
_E2 = 6.694379990141316e-3  # first eccentricity squared of WGS84


def to_local(geo: Geo, lat: Floats, lon: Floats, height: Floats) -> tuple[Floats, Floats, Floats]:
    """East, north and up in m (n,) of points at `lat`, `lon` (deg) and `height` (m), as seen from the origin.

    Exact for the ellipsoid: through earth-centred coordinates and a rotation into the tangent plane.
    """
    there = _earth_centred(np.radians(lat), np.radians(lon), height)
    phi, lam = np.radians(geo.latitude), np.radians(geo.longitude)
    here = _earth_centred(phi, lam, np.float64(geo.height))
    dx, dy, dz = (a - b for a, b in zip(there, here, strict=True))
    outward = np.cos(lam) * dx + np.sin(lam) * dy
    return (
        -np.sin(lam) * dx + np.cos(lam) * dy,
        -np.sin(phi) * outward + np.cos(phi) * dz,
        np.cos(phi) * outward + np.sin(phi) * dz,
    )


def _earth_centred(
    phi: Floats | np.float64, lam: Floats | np.float64, height: Floats | np.float64
) -> tuple[Floats, Floats, Floats]:
    normal = _A / np.sqrt(1.0 - _E2 * np.sin(phi) ** 2)
    flat = (normal + height) * np.cos(phi)
    return (
        np.asarray(flat * np.cos(lam)),
        np.asarray(flat * np.sin(lam)),
        np.asarray((normal * (1.0 - _E2) + height) * np.sin(phi)),
    )
