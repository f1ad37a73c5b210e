"""The height of the ground: a raster in the scenario's axes, bilinear between the middles of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cosim.compiled.compiling import part
from cosim.contract.records import Floats
from cosim.physics.vehicles.maps import read_grid

MOST_CELLS = 4_000_000  # of a terrain that programs of vehicles are sent
Record = Any  # one row of a record array


@part
def _between(at: float, first: float, cell: float, count: int) -> tuple[int, int, float, bool]:
    """Two neighbouring cells, how far on from the first to the second a place is (0..1), and whether within the grid.

    Beyond the middle of the outermost cell, as of a place that is not known (NaN), it is as at that middle.
    """
    on = (at - first) / cell
    if not on > 0.0:
        return 0, min(1, count - 1), 0.0, False
    if on >= count - 1.0:
        return max(count - 2, 0), count - 1, 1.0, False
    k = int(on)
    return k, k + 1, on - k, True


@part
def ground_at(heights: Floats, box: Floats, x: float, y: float) -> float:
    """m of the ground at a place; `box` has x and y of the middle of the south-west cell, and the cells' side."""
    k, k1, u, _ = _between(x, box[0], box[2], heights.shape[1])
    m, m1, v, _ = _between(y, box[1], box[2], heights.shape[0])
    low = heights[m, k] + u * (heights[m, k1] - heights[m, k])
    high = heights[m1, k] + u * (heights[m1, k1] - heights[m1, k])
    height: float = low + v * (high - low)
    return height


@part
def slope_at(heights: Floats, box: Floats, x: float, y: float) -> tuple[float, float]:
    """m/m by which the ground rises to the east and to the north."""
    k, k1, u, wide = _between(x, box[0], box[2], heights.shape[1])
    m, m1, v, deep = _between(y, box[1], box[2], heights.shape[0])
    east = heights[m, k1] - heights[m, k] + v * (heights[m1, k1] - heights[m1, k] - heights[m, k1] + heights[m, k])
    north = heights[m1, k] - heights[m, k] + u * (heights[m1, k1] - heights[m, k1] - heights[m1, k] + heights[m, k])
    return (east / box[2] if wide else 0.0), (north / box[2] if deep else 0.0)


@part
def closing(s: Record, heights: Floats, box: Floats) -> float:
    """m/s at which a vehicle nears the ground under it, at right angles to it."""
    east, north = slope_at(heights, box, s.x, s.y)
    speed: float = (east * s.vx + north * s.vy - s.vz) / np.sqrt(1.0 + east * east + north * north)
    return speed


@dataclass(frozen=True, slots=True, eq=False)
class Terrain:
    """Heights in m of the middles of square cells; row 0 is the southernmost."""

    box: Floats  # (3,) m: x and y of the middle of the south-west cell, side of a cell
    heights: Floats  # (rows, columns) m

    def height(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """m of the ground at places (m) of any one shape."""
        x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        rows, columns = self.heights.shape
        east = np.clip((x - self.box[0]) / self.box[2], 0.0, columns - 1.0)
        north = np.clip((y - self.box[1]) / self.box[2], 0.0, rows - 1.0)
        k, m = (np.clip(on.astype(np.int64), 0, max(n - 2, 0)) for on, n in ((east, columns), (north, rows)))
        k1, m1 = np.minimum(k + 1, columns - 1), np.minimum(m + 1, rows - 1)
        u, v, h = east - k, north - m, self.heights
        low, high = h[m, k] + u * (h[m, k1] - h[m, k]), h[m1, k] + u * (h[m1, k1] - h[m1, k])
        return np.asarray(low + v * (high - low))

    def covers(self, x: float, y: float) -> bool:
        """Whether a place lies in one of the cells."""
        rows, columns = self.heights.shape
        half = 0.5 * self.box[2]
        east, north = x - self.box[0] + half, y - self.box[1] + half
        return bool(0.0 <= east <= columns * self.box[2] and 0.0 <= north <= rows * self.box[2])

    def extent(self) -> str:
        """The area of the cells in words."""
        rows, columns = self.heights.shape
        (x, y), cell = self.box[:2] - 0.5 * self.box[2], self.box[2]
        return f"{x:g} to {x + columns * cell:g} m east and {y:g} to {y + rows * cell:g} m north"

    def seen_from(self, place: Sequence[float]) -> Terrain:
        """The same in axes whose origin is at `place` (x, y, z in m)."""
        x, y, z = place
        return Terrain(self.box - (x, y, 0.0), self.heights - z)

    def lowest(self, begin: Sequence[float], end: Sequence[float]) -> tuple[float, tuple[float, float]]:
        """The least height (m) above the ground on the straight way between two places (x, y, z in m), and where.

        Looked at every quarter of a cell.
        """
        a, b = np.asarray(begin, np.float64), np.asarray(end, np.float64)
        count = max(int(np.hypot(*(b - a)[:2]) / (0.25 * self.box[2])), 1) + 1
        way = a + np.linspace(0.0, 1.0, min(count, 100_000))[:, None] * (b - a)
        above = way[:, 2] - self.height(way[:, 0], way[:, 1])
        k = int(np.argmin(above))
        return float(above[k]), (float(way[k, 0]), float(way[k, 1]))


FLAT = Terrain(np.zeros(3), np.zeros((0, 0)))  # what kernels are given where there is no terrain


def read_terrain(path: str | Path) -> Terrain:
    """The ground of an ESRI ASCII grid in m of the scenario's axes, heights included.

    Raises `ValueError` for what is no such grid or has cells without data, and `OSError`.
    """
    grid = read_grid(Path(path).read_text(encoding="ascii", errors="strict"))
    holes = np.argwhere(~(grid.known & np.isfinite(grid.values)))
    if len(holes):
        line, column = len(grid.values) - int(holes[0, 0]), int(holes[0, 1]) + 1
        raise ValueError(
            f"{len(holes)} of {grid.values.size} cells have no height, one in row {line} from the north, column "
            f"{column}; fill them first, as gdal_fillnodata does"
        )
    return Terrain(np.array([grid.west + 0.5 * grid.cell, grid.south + 0.5 * grid.cell, grid.cell]), grid.values)
