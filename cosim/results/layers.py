"""What lies under the map of a run: lines that adapters have left in their scratch folders, and files of users.

Coordinates are m east and north of the scenario's origin. Lines, polygons, features and collections
of them are read; anything else is skipped.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.geo import LocalFrame
from cosim.contract.map_lines import FILE, write_lines
from cosim.results.convert import read_plan

POINTS = 100_000  # drawn at most
FEW = 20_000  # points that travel with every message of a run that is observed
EVERYWHERE = (-math.inf, -math.inf, math.inf, math.inf)
LARGEST = 64 << 20  # B of a file
Line = list[tuple[float, float]]
Box = tuple[float, float, float, float]  # west, south, east, north


def map_lines(folder: Path, box: Box = EVERYWHERE, most: int = POINTS) -> list[Line]:
    """The lines of the run in `folder` of which a part is in `box` (m), at most `most` points: the longest first."""
    found = []
    for path in sorted(folder.glob(f"logs/*/{FILE}")):
        try:
            if path.stat().st_size <= LARGEST:
                found += [line for line in _lines(json.loads(path.read_text(encoding="utf-8"))) if _meets(line, box)]
        except (OSError, ValueError, TypeError, RecursionError):
            continue  # a map is no result
    found.sort(key=_length, reverse=True)
    kept, points = [], 0
    for line in found:
        points += len(line)
        if points > most:
            break
        kept.append(line)
    return kept


def streets(folder: Path) -> list[list[float]]:
    """What adapters of a run that has started have left under its map, for observers: the longest lines."""
    return flat(map_lines(folder, most=FEW))


def add_lines(folder: Path, file: Path) -> int:
    """Put the lines of a GeoJSON file (RFC 7946: longitude and latitude in deg) under the map of a run; how many.

    Raises `SetupError` for a file that holds none, and for a run whose scenario has no origin on the Earth.
    """
    geo = read_plan(folder)["scene"]["geo"]
    origin = None if geo is None else (geo["latitude"], geo["longitude"])
    return write_lines(folder / "logs" / f"map-{file.stem}", file_lines(file, origin))


def file_lines(file: Path, origin: tuple[float, float] | None) -> list[Line]:
    """The lines of a GeoJSON file (RFC 7946) in m east and north of `origin`, latitude and longitude in deg.

    Raises `SetupError` for a file that holds none, and without an origin.
    """
    if origin is None:
        raise SetupError("the scenario has no 'geo: {origin: [latitude, longitude]}' to place a map by")
    try:
        lines = list(_lines(json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise SetupError(f"{file} cannot be read as GeoJSON: {error}") from error
    if not lines:
        raise SetupError(f"{file} holds no line and no polygon")
    if any(abs(x) > 360.0 or abs(y) > 90.0 for line in lines for x, y in line):
        raise SetupError(f"{file} is not in degrees of longitude and latitude (RFC 7946)")
    frame = LocalFrame(*origin)
    placed = []
    for line in lines:
        east, north, _ = frame.to_local([y for _, y in line], [x for x, _ in line])
        placed.append([(round(float(e), 1), round(float(n), 1)) for e, n in zip(east, north, strict=True)])
    return placed


def flat(lines: Sequence[Line]) -> list[list[float]]:
    """Lines as x, y, x, y, ... each, which is how pages get them."""
    return [[value for at in line for value in at] for line in lines]


def _lines(shape: Any) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if not isinstance(shape, dict):
        return
    for part in (*shape.get("features", ()), *shape.get("geometries", ()), shape.get("geometry")):
        yield from _lines(part)
    depth = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}.get(str(shape.get("type")))
    if depth is not None:
        yield from _nested(shape.get("coordinates", ()), depth)


def _nested(coordinates: Any, depth: int) -> Iterator[Line]:  # noqa: ANN401 - JSON
    if depth:
        for part in coordinates:
            yield from _nested(part, depth - 1)
        return
    line = [(float(at[0]), float(at[1])) for at in coordinates]
    if len(line) > 1 and all(math.isfinite(x) and math.isfinite(y) for x, y in line):
        yield line


def _meets(line: Line, box: Box) -> bool:
    west, south, east, north = box
    xs, ys = [x for x, _ in line], [y for _, y in line]
    return min(xs) <= east and max(xs) >= west and min(ys) <= north and max(ys) >= south


def _length(line: Line) -> float:
    return sum(math.dist(a, b) for a, b in itertools.pairwise(line))
