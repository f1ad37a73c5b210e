"""Which part of a field a camera has seen."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats, Ints


@entry()
def _paint(
    seen: NDArray[np.int32], area: Floats, which: Ints, looks: Floats, number: Ints, cell: float, fresh: Ints
) -> None:
    """Mark what is in view; `fresh` (m,) becomes the number of cells that `number` (m,) had not marked yet."""
    west, south = area[0], area[1]
    height, width = seen.shape[1], seen.shape[2]
    for m in range(len(which)):
        x, y, heading, across, along = looks[m, 0], looks[m, 1], looks[m, 2], looks[m, 3], looks[m, 4]
        sine, cosine = math.sin(heading), math.cos(heading)
        far = math.hypot(across, along)
        left, right = int(max((x - far - west) / cell, 0.0)), int(min((x + far - west) / cell + 1.0, float(width)))
        low, high = int(max((y - far - south) / cell, 0.0)), int(min((y + far - south) / cell + 1.0, float(height)))
        fresh[m] = 0
        for row in range(low, high):
            for column in range(left, right):
                dx, dy = west + (column + 0.5) * cell - x, south + (row + 0.5) * cell - y
                inside = abs(dx * sine + dy * cosine) <= along and abs(dx * cosine - dy * sine) <= across
                if inside and seen[which[m], row, column] != number[m]:
                    seen[which[m], row, column] = number[m]
                    fresh[m] += 1


_MOST = 1e8  # cells of all followers together, 400 MB


class FieldCoverage:
    """Fields of `count` followers as cells of `cell` m, or larger ones where these would be more than memory holds.

    `area` is west, south, east, north in m.
    """

    def __init__(self, count: int, area: tuple[float, float, float, float], cell: float = 1.0) -> None:
        west, south, east, north = area
        length, width = max(north - south, cell), max(east - west, cell)
        most = _MOST / max(count, 1)
        cell = max(cell, math.sqrt(length * width / most), max(length, width) / most)
        shape = max(math.ceil((north - south) / cell), 1), max(math.ceil((east - west) / cell), 1)
        self._area, self._cell = np.array(area), cell
        self._seen = np.zeros((count, *shape), np.int32)  # number of the flight that saw it last, 0: none

    def look(self, which: Ints, looks: Floats, number: Ints) -> Floats:
        """m^2 (m,) that the flights `number` (m,) of the followers `which` (m,) see for the first time.

        `looks` (m, 5): x, y in m, heading in rad, half the footprint across and along in m.
        """
        fresh = np.zeros(len(which), np.int64)
        _paint(self._seen, self._area, which, looks, number, self._cell, fresh)
        return np.asarray(fresh * self._cell**2)

    def total(self) -> float:
        """m^2 seen by anybody at any time."""
        return float((self._seen > 0).any(axis=0).sum() * self._cell**2)
