"""A field with weeds and crop rows, and a detector that finds some of the weeds.

The field is a raster of weeds per m^2; the weeds in each cell are drawn once, by a Poisson law. A
detector is given by its recall and precision by ground sample distance and light, as its maker measured them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.geo import LocalFrame
from cosim.contract.reading.geojson import features
from cosim.contract.records import Flags, Floats, Ints
from cosim.physics.vehicles.maps import lines_of, polygons_of, read_grid, shaped, within

_MOST_PLANTS = 5_000_000
_CELL = 1.0  # m of a GeoJSON field that states none
_GEOJSON = (".geojson", ".json")
SPACING = 0.2  # m between two plants of a crop row; a choice
WEED_RADIUS = (0.02, 0.05)  # m; as of weeds with two to eight leaves, a choice
CROP_RADIUS = (0.05, 0.09)  # m


@dataclass(frozen=True, slots=True, eq=False)
class WeedField:
    """Weeds per m^2 in square cells; row 0 is the southernmost. Crop rows are straight lines."""

    west: float  # m
    south: float  # m
    cell: float  # m
    density: Floats  # (rows, columns)
    crop: Floats = field(default_factory=lambda: np.empty((0, 4)))  # (k, 4) m: from x, y to x, y

    def grown(self, seed: int | np.random.SeedSequence) -> Ints:
        """How many weeds (rows, columns) there are, drawn by a Poisson law."""
        drawn: Ints = np.random.default_rng(seed).poisson(self.density * self.cell**2)
        return drawn

    def inside(self, corners: Floats) -> tuple[slice, slice, Flags]:
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


def growth(seed: Sequence[int]) -> np.random.SeedSequence:
    """The stream of what grows on the field of an adapter whose own stream has the entropy `seed`."""
    return np.random.SeedSequence([*seed, 7]).spawn(1)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Plants:
    """All plants of a field, weeds first."""

    x: Floats  # (n,) m
    y: Floats
    radius: Floats  # m
    weeds: int  # of the n

    @classmethod
    def of(cls, weeds: WeedField, seed: np.random.SeedSequence) -> Plants:
        """Weeds anywhere in their cell, as many as `weeds.grown(seed)`; crop every `SPACING` m of its rows.

        Raises `ValueError` for more than five million.
        """
        count = weeds.grown(seed).ravel()
        along = np.hypot(*(weeds.crop[:, 2:] - weeds.crop[:, :2]).T)
        planted = np.floor(along / SPACING).astype(np.int64) + 1
        if count.sum() + planted.sum() > _MOST_PLANTS:
            raise ValueError(f"{count.sum() + planted.sum()} plants are too many to be shown; most are {_MOST_PLANTS}")
        draw = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1)))
        row, column = np.divmod(np.repeat(np.arange(len(count)), count), weeds.density.shape[1])
        weed = np.column_stack([column, row]) + draw.random((len(row), 2))
        places = (weeds.west, weeds.south) + weeds.cell * weed
        line = np.repeat(np.arange(len(planted)), planted)
        number = np.arange(len(line)) - np.repeat(np.cumsum(planted) - planted, planted)
        part = np.minimum(number * SPACING / np.maximum(along[line], 1e-9), 1.0)[:, None]
        ends = weeds.crop[line]
        crop = ends[:, :2] + part * (ends[:, 2:] - ends[:, :2]) + draw.normal(0.0, 0.01, (len(line), 2))
        radius = [draw.uniform(*WEED_RADIUS, len(places)), draw.uniform(*CROP_RADIUS, len(crop))]
        x, y = np.concatenate([places, crop]).T
        return cls(np.ascontiguousarray(x), np.ascontiguousarray(y), np.concatenate(radius), len(places))

    def near(self, x: float, y: float, reach: float) -> Ints:
        """Numbers of those within a square of half the side `reach` m around a place."""
        return np.flatnonzero((np.abs(self.x - x) <= reach) & (np.abs(self.y - y) <= reach))


def read_weeds(path: str | Path, frame: LocalFrame | None = None) -> WeedField:
    """The field of an ESRI ASCII grid or a GeoJSON file (`.geojson`, `.json`). Raises `ValueError` and `OSError`.

    A grid has `xllcorner` and `yllcorner` in m east and north of the scenario's origin, rows from the north; cells
    without data have no weeds, and there are no crop rows. GeoJSON is in degrees (RFC 7946) and needs the `frame` of
    the origin: polygons with the property `weeds` (per m^2), of which the last one that holds the middle of a cell
    counts; lines with the property `crop` are crop rows; the member `cell` of the collection is the cells' side in m.
    """
    path = Path(path)
    if path.suffix.lower() in _GEOJSON:
        if frame is None:
            raise ValueError("it is in degrees, but the scenario has no 'geo: {origin: [lat, lon]}'")
        return _of_geojson(json.loads(path.read_text(encoding="utf-8")), frame)
    return _of_grid(path.read_text(encoding="ascii", errors="strict"))


def _of_grid(text: str) -> WeedField:
    grid = read_grid(text)
    values = np.where(grid.known, grid.values, 0.0)
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise ValueError("weeds per m^2 are 0 or more")
    return WeedField(grid.west, grid.south, grid.cell, values)


def _of_geojson(data: Any, frame: LocalFrame) -> WeedField:  # noqa: ANN401 - JSON
    if not isinstance(data, dict) or data.get("type") != "FeatureCollection":
        raise ValueError("a field in GeoJSON is a FeatureCollection")
    cell = data.get("cell", _CELL)
    if isinstance(cell, bool) or not isinstance(cell, int | float) or not 0.0 < cell < math.inf:
        raise ValueError(f"'cell' is {cell!r}; it is the side of a cell in m")
    patches: list[tuple[float, list[Floats]]] = []
    crop: list[Floats] = []
    for number, feature in enumerate(features(data)):
        try:
            properties, geometry = feature["properties"], feature["geometry"]
            if "weeds" in properties:
                patches += [(_weeds(properties["weeds"]), rings) for rings in polygons_of(geometry, frame)]
            elif "crop" in properties:
                crop += [np.column_stack([line[:-1], line[1:]]) for line in lines_of(geometry, "LineString", frame)]
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise ValueError(f"feature {number} cannot be read: {error}") from error
    if not patches:
        raise ValueError("no feature has the property 'weeds', a number of weeds per m^2")
    outlines = np.concatenate([rings[0] for _, rings in patches])
    (west, south), (east, north) = outlines.min(axis=0), outlines.max(axis=0)
    shape = math.ceil((north - south) / cell - 1e-9), math.ceil((east - west) / cell - 1e-9)
    shaped(*shape, cell)
    density = np.zeros(shape)
    x = west + (np.arange(shape[1]) + 0.5) * cell
    y = south + (np.arange(shape[0]) + 0.5) * cell
    for weeds, rings in patches:
        density[within(rings, x, y)] = weeds
    lines = np.concatenate(crop) if crop else np.empty((0, 4))
    return WeedField(float(west), float(south), float(cell), density, lines)


def _weeds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise ValueError(f"'weeds' is {value!r}; weeds per m^2 are 0 or more")
    return float(value)


Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class WeedDetector:
    """Recall and precision, each by ground sample distance in m; between the points by straight lines.

    `lights` are further pairs of curves, each for an illuminance in lx; `light` is that of the first pair. Between them
    the logarithm of the illuminance decides, and beyond them the nearest holds. Raises `ValueError` for shares out
    of range, distances that do not grow, lights that are the same, and a precision of 0.
    """

    recall: Curve
    precision: Curve
    light: float = 1e4  # lx
    lights: Sequence[tuple[float, Curve, Curve]] = ()  # lx, recall, precision

    def __post_init__(self) -> None:
        every = [light for light, _, _ in self._sheets()]
        if any(not light > 0.0 for light in every) or len(set(every)) < len(every):
            raise ValueError("each pair of curves needs a light of its own, above 0")
        for _, recall, precision in self._sheets():
            for name, points, least in (("recall", recall, 0.0), ("precision", precision, 1e-3)):
                at = [distance for distance, _ in points]
                if not points or any(b <= a for a, b in pairwise(at)):
                    raise ValueError(f"the '{name}' needs points with growing ground sample distances")
                if not all(least <= share <= 1.0 for _, share in points):
                    raise ValueError(f"the '{name}' lies between {least:g} and 1")

    def _sheets(self) -> list[tuple[float, Curve, Curve]]:
        return sorted([(self.light, self.recall, self.precision), *self.lights], key=lambda sheet: sheet[0])

    def at(self, pixel: float, light: float = 1e4) -> tuple[float, float]:
        """Recall and precision at a ground sample distance of `pixel` m and `light` lx; beyond the points as there."""
        sheets = self._sheets()
        logs = [math.log(sheet[0]) for sheet in sheets]
        shares = [[float(np.interp(pixel, *np.array(curve).T)) for curve in sheet[1:]] for sheet in sheets]
        now = math.log(max(light, 1e-9))
        recall, precision = (float(np.interp(now, logs, column)) for column in zip(*shares, strict=True))
        return recall, precision

    def found(self, weeds: int, pixel: float, draw: np.random.Generator, light: float = 1e4) -> tuple[int, int]:
        """Weeds that are found among `weeds`, and things found that are none.

        Hits are binomial; false alarms are Poisson with the mean that the precision needs.
        """
        recall, precision = self.at(pixel, light)
        hits = int(draw.binomial(weeds, recall))
        return hits, int(draw.poisson(weeds * recall * (1.0 - precision) / precision))
