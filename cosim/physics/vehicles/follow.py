"""How a drone follows a target: the point where it should be."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats


def stand_off(place: Floats, heading: Floats, behind: Floats, aside: Floats, height: Floats) -> Floats:
    """(n, 3) m: the point at these m behind, to the right of and above targets at `place` (n, 3)."""
    sine, cosine = np.sin(heading), np.cos(heading)
    return np.column_stack(
        [
            place[:, 0] - behind * sine + aside * cosine,
            place[:, 1] - behind * cosine - aside * sine,
            place[:, 2] + height,
        ]
    )


def fenced(point: Floats, home: Floats, radius: Floats, ceiling: Floats) -> Floats:
    """`point` (n, 3), or the nearest one that keeps 5 % away from the fence around `home` (n, 3)."""
    inside = point.copy()
    away = point[:, :2] - home[:, :2]
    far = np.hypot(away[:, 0], away[:, 1])
    limit = np.where(radius > 0.0, 0.95 * radius, np.inf)
    out = far > limit
    inside[out, :2] = home[out, :2] + away[out] * (limit[out] / far[out])[:, None]
    top = np.where(ceiling > 0.0, home[:, 2] + 0.95 * ceiling, np.inf)
    inside[:, 2] = np.minimum(inside[:, 2], top)
    return inside


def apart(point: Floats, drone: Floats, target: Floats, separation: Floats) -> Floats:
    """`point` (n, 3), or, for drones nearer to the target than `separation`, straight away from it."""
    away = drone - target
    near = np.sqrt(np.einsum("ij,ij->i", away, away))
    close = near < separation
    if not close.any():
        return point
    kept = point.copy()
    flat = np.hypot(away[:, 0], away[:, 1])
    # right above or on it: to the east, which is as good as anywhere
    direction = np.where(flat[:, None] > 1e-6, away[:, :2] / np.maximum(flat, 1e-6)[:, None], [1.0, 0.0])
    kept[close, :2] = target[close, :2] + 2.0 * separation[close, None] * direction[close]
    kept[close, 2] = np.maximum(drone[close, 2], point[close, 2])
    return kept
