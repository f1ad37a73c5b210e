"""What fields, terrain and obstacles are read from: ESRI ASCII grids, and polygons and lines of GeoJSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.contract.geo import LocalFrame, crossing
from cosim.contract.records import Flags, Floats

FAR = 50e3  # m from the origin, as of the nets of SUMO: nothing of a map there has an effect
_MOST = 25_000_000  # cells of a raster
_SIZE = ("ncols", "nrows", "cellsize")
_PLACE = ("llcorner", "llcenter")
_NONE = "nodata_value"
_HEAD = (*_SIZE, *(axis + place for axis in "xy" for place in _PLACE), _NONE)


@dataclass(frozen=True, slots=True, eq=False)
class AsciiGrid:
    """Square cells; row 0 is the southernmost, unlike in the file."""

    west: float  # m, of the outer edge
    south: float  # m
    cell: float  # m, side of a cell
    values: Floats  # (rows, columns)
    known: Flags  # (rows, columns), whether there are data


def read_grid(text: str) -> AsciiGrid:
    """An ESRI ASCII grid (Esri, ArcGIS: "Esri ASCII raster format"). Raises `ValueError` with what is wrong where.

    The head has `ncols`, `nrows`, `cellsize`, the south-west corner of the grid (`xllcorner`, `yllcorner`) or the
    middle of its south-west cell (`xllcenter`, `yllcenter`), and perhaps `NODATA_value` (-9999). Rows follow from the
    north.
    """
    lines = text.splitlines()
    head: dict[str, float] = {}
    while lines and (lines[0].lower().split() or [""])[0] in _HEAD:
        key, *value = lines.pop(0).lower().split()
        if len(value) != 1:
            raise ValueError(f"the line of '{key}' in the head has {len(value)} values")
        try:
            head[key] = float(value[0])
        except ValueError:
            raise ValueError(f"'{key}' in the head is '{value[0][:20]}', not a number") from None
    missing = [key for key in _SIZE if key not in head]
    missing += [f"{axis}llcorner" for axis in "xy" if not any(axis + place in head for place in _PLACE)]
    if missing:
        wanted = "ncols, nrows, xllcorner, yllcorner, cellsize"
        raise ValueError(f"the head of an ESRI ASCII grid has {wanted}; {missing[0]} is missing")
    cell = head["cellsize"]
    if not all(np.isfinite(value) for key, value in head.items() if key != _NONE):
        raise ValueError("the head has numbers that are not finite")
    shape = shaped(int(head["nrows"]), int(head["ncols"]), cell)
    words = [line.split() for line in lines]
    try:
        values = np.array([word for row in words for word in row], np.float64)
    except ValueError:
        number, word = next((n, w) for n, row in enumerate(words, len(head) + 1) for w in row if not _number(w))
        raise ValueError(f"line {number}: '{word[:20]}' is not a number") from None
    if len(values) != shape[0] * shape[1]:
        raise ValueError(f"a grid of {shape[0]} x {shape[1]} cells has {len(values)} values")
    values = np.ascontiguousarray(values.reshape(shape)[::-1])
    west, south = (
        head[f"{axis}llcorner"] if f"{axis}llcorner" in head else head[f"{axis}llcenter"] - 0.5 * cell for axis in "xy"
    )
    return AsciiGrid(west, south, cell, values, values != head.get(_NONE, -9999.0))


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def shaped(rows: int, columns: int, cell: float) -> tuple[int, int]:
    """Rows and columns of a raster that can be. Raises `ValueError`."""
    if min(rows, columns) < 1 or rows * columns > _MOST or not 0.0 < cell < np.inf:
        raise ValueError(f"a grid of {rows} x {columns} cells of {cell:g} m cannot be")
    return rows, columns


def lines_of(geometry: Any, kind: str, frame: LocalFrame) -> Iterator[Floats]:  # noqa: ANN401 - JSON
    """The lines, or rings of a polygon, of a geometry as (k, 2) m."""
    if geometry["type"] not in (kind, f"Multi{kind}"):
        raise ValueError(f"it is a {geometry['type']}, not a {kind}")
    coordinates = geometry["coordinates"]
    for line in [coordinates] if geometry["type"] == "LineString" else coordinates:
        degrees = np.array([point[:2] for point in line], np.float64)
        if len(degrees) < 2 or not np.isfinite(degrees).all():
            raise ValueError("a line has two points or more")
        east, north, _ = frame.to_local(degrees[:, 1], degrees[:, 0], np.full(len(degrees), frame.height))
        if (away := float(np.hypot(east, north).min())) > FAR:
            raise ValueError(f"it is {away / 1e3:,.0f} km from the scenario's origin; longitude comes first in GeoJSON")
        yield np.column_stack([east, north])


def polygons_of(geometry: Any, frame: LocalFrame) -> Iterator[list[Floats]]:  # noqa: ANN401 - JSON
    """Outline and holes of each polygon as (k, 2) m. Raises `ValueError` for one whose edges cross."""
    several = geometry["coordinates"] if geometry["type"] == "MultiPolygon" else [geometry["coordinates"]]
    for rings in several:
        kind = {"type": geometry["type"].removeprefix("Multi"), "coordinates": rings}
        polygon = list(lines_of(kind, "Polygon", frame))
        if crossed := crossing([np.array([point[:2] for point in ring], np.float64) for ring in rings]):
            raise ValueError(
                f"a polygon crosses itself: {crossed} (ogr2ogr -makevalid OUT.geojson IN.geojson mends it)"
            )
        yield polygon


def within(rings: Sequence[Floats], x: Floats, y: Floats) -> Flags:
    """Which of the places (len(y), len(x)) lie inside, by the even-odd rule."""
    inside = np.zeros((len(y), len(x)), np.bool_)
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            if ay == by:
                continue
            crosses = (ay > y) != (by > y)  # (len(y),)
            at = ax + (y[crosses] - ay) / (by - ay) * (bx - ax)
            inside[crosses] ^= x[None, :] < at[:, None]
    return inside
