"""A field with weeds, and a detector that finds some of them.

The field is a raster of weeds per m^2; what grows in each cell is drawn once, by a Poisson law. A
detector is its recall and precision by ground sample distance, as measured by whoever made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST = 25_000_000  # cells of a raster
_HEAD = ("ncols", "nrows", "xllcorner", "yllcorner", "cellsize")
_NONE = "nodata_value"


@dataclass(frozen=True, slots=True, eq=False)
class WeedField:
    """Weeds per m^2 in square cells; row 0 is the southernmost."""

    west: float  # m
    south: float  # m
    cell: float  # m
    density: Floats  # (rows, columns)

    def grown(self, seed: int | np.random.SeedSequence) -> Ints:
        """How many weeds (rows, columns) there are, drawn by a Poisson law."""
        drawn: Ints = np.random.default_rng(seed).poisson(self.density * self.cell**2)
        return drawn

    def inside(self, corners: Floats) -> tuple[slice, slice, NDArray[np.bool_]]:
        """The cells whose middle lies in the convex polygon with `corners` (k, 2) m: a window, and which of it."""
        rows, columns = self.density.shape
        low, high = corners.min(axis=0), corners.max(axis=0)
        first = np.floor((low - (self.west, self.south)) / self.cell).astype(np.int64)
        last = np.ceil((high - (self.west, self.south)) / self.cell).astype(np.int64)
        left, right = np.clip((first[0], last[0]), 0, columns)
        bottom, top = np.clip((first[1], last[1]), 0, rows)
        x = self.west + (np.arange(left, right) + 0.5) * self.cell
        y = self.south + (np.arange(bottom, top) + 0.5) * self.cell
        after = np.roll(corners, -1, axis=0)
        sides = [
            (bx - ax) * (y[:, None] - ay) - (by - ay) * (x[None, :] - ax)
            for (ax, ay), (bx, by) in zip(corners, after, strict=True)
        ]
        turns = np.array(sides)
        within = np.asarray((turns >= 0.0).all(axis=0) | (turns <= 0.0).all(axis=0))
        return slice(bottom, top), slice(left, right), within


def read_weeds(path: Path) -> WeedField:
    """The field of an ESRI ASCII grid: a head, then rows from the north; cells without data have no weeds.

    `xllcorner` and `yllcorner` are m east and north of the scenario's origin. Raises `ValueError` and `OSError`.
    """
    lines = path.read_text(encoding="ascii", errors="strict").splitlines()
    head: dict[str, float] = {}
    while lines and (lines[0].lower().split() or [""])[0] in (*_HEAD, _NONE):
        key, *value = lines.pop(0).lower().split()
        if len(value) != 1:
            raise ValueError(f"the line of '{key}' in the head has {len(value)} values")
        head[key] = float(value[0])
    missing = [key for key in _HEAD if key not in head]
    if missing:
        raise ValueError(f"the head of an ESRI ASCII grid has {', '.join(_HEAD)}; {missing[0]} is missing")
    shape = int(head["nrows"]), int(head["ncols"])
    if min(shape) < 1 or shape[0] * shape[1] > _MOST or not 0.0 < head["cellsize"] < np.inf:
        raise ValueError(f"a grid of {shape[0]} x {shape[1]} cells of {head['cellsize']:g} m cannot be")
    values = np.array(" ".join(lines).split(), np.float64)
    if len(values) != shape[0] * shape[1]:
        raise ValueError(f"a grid of {shape[0]} x {shape[1]} cells has {len(values)} values")
    values[values == head.get(_NONE, -9999.0)] = 0.0
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise ValueError("weeds per m^2 are 0 or more")
    return WeedField(
        head["xllcorner"], head["yllcorner"], head["cellsize"], np.ascontiguousarray(values.reshape(shape)[::-1])
    )


@dataclass(frozen=True, slots=True)
class WeedDetector:
    """Recall and precision, each by ground sample distance in m; between the points by straight lines.

    Raises `ValueError` for shares out of range, distances that do not grow, and a precision of 0.
    """

    recall: Sequence[tuple[float, float]]
    precision: Sequence[tuple[float, float]]

    def __post_init__(self) -> None:
        for name, points, least in (("recall", self.recall, 0.0), ("precision", self.precision, 1e-3)):
            at = [distance for distance, _ in points]
            if not points or any(b <= a for a, b in pairwise(at)):
                raise ValueError(f"the '{name}' needs points with growing ground sample distances")
            if not all(least <= share <= 1.0 for _, share in points):
                raise ValueError(f"the '{name}' lies between {least:g} and 1")

    def at(self, pixel: float) -> tuple[float, float]:
        """Recall and precision at a ground sample distance of `pixel` m; beyond the points as at the last."""
        curves = (np.array(self.recall), np.array(self.precision))
        recall, precision = (float(np.interp(pixel, curve[:, 0], curve[:, 1])) for curve in curves)
        return recall, precision

    def found(self, weeds: int, pixel: float, draw: np.random.Generator) -> tuple[int, int]:
        """Weeds that are found among `weeds`, and things found that are none.

        Hits are binomial; false alarms are Poisson with the mean that the precision needs.
        """
        recall, precision = self.at(pixel)
        hits = int(draw.binomial(weeds, recall))
        return hits, int(draw.poisson(weeds * recall * (1.0 - precision) / precision))
