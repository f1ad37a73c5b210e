"""Where the nodes of a range are: drawn from a law, on a grid, or read from a file of points.

    at: uniform in 2 km x 1 km                          # around the origin of the scene
    at: uniform in circle of 500 m around 200 m; 0 m; 1.5 m
    at: grid in 2 km x 1 km around 0 m; 0 m; 10 m
    at: poisson 40 /km2 in 2 km x 1 km
    at: points data/masts.csv

Places depend on `run.seed`, the name under `nodes` and a node's number in its range only: a longer range
leaves the nodes that were there where they were, a grid apart. A comma does as well as a semicolon where the
text is in quotes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cosim.contract import units
from cosim.contract.delimited import CellsError, content, records
from cosim.contract.trust import DataFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Position = Annotated[list[units.Length], Field(min_length=2, max_length=3)]

_FORMS = "'uniform in 2 km x 1 km', 'grid in ...', 'poisson 40 /km2 in ...' or 'points FILE.csv'"
_WORDS = re.compile(r"(uniform|grid|poisson\s+(?P<density>\S.*?))\s+in\s+(?P<area>\S.*)", re.ASCII)
_LOCAL, _GLOBAL = ("east", "north", "up"), ("latitude", "longitude", "height")


@dataclass(frozen=True, slots=True)
class Placement:
    """A law of places: over a rectangle, or over a circle when `radius` is not 0; or a file of points."""

    law: Literal["uniform", "grid", "poisson", "points"]
    width: float = 0.0  # m, west to east
    height: float = 0.0  # m, south to north
    radius: float = 0.0  # m
    centre: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m: east, north, up
    density: float = 0.0  # 1/m2, of a Poisson process
    file: str = ""

    @property
    def area(self) -> float:
        """m2."""
        return math.pi * self.radius**2 if self.radius else self.width * self.height


class PlaceForm:
    """Pydantic marker: a list of coordinates, or the text of a `Placement`."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            lambda found, inner: (
                found if isinstance(found, Placement) else read(found) if isinstance(found, str) else inner(found)
            ),
            handler.generate_schema(Position),
            serialization=core_schema.plain_serializer_function_ser_schema(_plain),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        pattern = r"^\s*((uniform|grid|poisson\s.+)\s+in|points)\s+\S.*$"
        return {"anyOf": [handler(schema), {"type": "string", "pattern": pattern}]}


Place = Annotated[list[float] | Placement, PlaceForm(), DataFile("points")]


def read(text: str) -> Placement:
    """The placement that `text` describes. Raises `ValueError`."""
    words = text.strip()
    if words.startswith("points ") and (file := words[7:].strip()):
        return Placement("points", file=file)
    match = _WORDS.fullmatch(words)
    if match is None:
        raise ValueError(f"'{text[:64]}' is no place; write coordinates as [40 m, 20 m], {_FORMS}")
    area, _, around = match["area"].partition(" around ")
    centre = [units.parse(part, "length") for part in re.split("[,;]", around)] if around else [0.0, 0.0]
    if len(centre) not in (2, 3):
        raise ValueError(f"'{around}' is no centre; write east; north[; up], as '200 m; 0 m; 1.5 m'")
    law: Any = match[1].split()[0]
    density = units.parse(match["density"], "density") if law == "poisson" else 0.0
    centre = [*centre, 0.0][:3]
    whole = Placement(law, centre=(centre[0], centre[1], centre[2]), density=density)
    if law == "poisson" and density <= 0.0:
        raise ValueError(f"the density of '{text}' must be above 0")
    word, _, size = area.strip().partition(" of ")
    if word == "circle":
        if law == "grid":
            raise ValueError(f"'{text}': a grid needs a rectangle, as '2 km x 1 km'")
        return replace(whole, radius=_size(size))
    sides = area.split(" x ")
    if len(sides) != 2:
        raise ValueError(f"'{area}' is no area; write '2 km x 1 km' (east by north) or 'circle of 500 m'")
    return replace(whole, width=_size(sides[0]), height=_size(sides[1]))


def _size(text: str) -> float:
    value = units.parse(text.strip(), "length")
    if value <= 0.0:
        raise ValueError(f"'{text}' must be above 0")
    return value


def _plain(place: list[float] | Placement) -> list[str] | str:
    if not isinstance(place, Placement):
        return [units.show(part, "length") for part in place]
    if place.law == "points":
        return f"points {place.file}"

    def shown(value: float) -> str:
        return units.show(value, "length")

    law = f"poisson {units.show(place.density, 'density')}" if place.law == "poisson" else place.law
    area = f"circle of {shown(place.radius)}" if place.radius else f"{shown(place.width)} x {shown(place.height)}"
    return f"{law} in {area} around {'; '.join(map(shown, place.centre))}"


def places(
    placement: Placement,
    count: int,
    entropy: tuple[int, ...],
    folder: Path,
    origin: tuple[float, float, float] | None = None,
) -> NDArray[np.float64]:
    """(count, 3) m: places of `count` nodes; of a Poisson process fewer, as many as it has points.

    `entropy` is a stream of `cosim.contract.seeds`, `folder` that of the scenario, `origin` latitude,
    longitude (deg) and height (m) of its axes. Raises `ValueError` when there are not enough points for all
    nodes, or not enough nodes for all points of a Poisson process.
    """
    import numpy as np  # a check of a scenario without placements needs no arrays

    if placement.law == "points":
        return _from_file(folder / placement.file, count, origin)
    if placement.law == "grid":
        columns = min(count, max(1, math.ceil(math.sqrt(count * placement.width / placement.height))))
        rows = -(-count // columns)
        number = np.arange(count)
        share = np.stack([(number % columns + 0.5) / columns, (number // columns + 0.5) / rows], axis=1)
    else:
        size, spots = np.random.SeedSequence(entropy).spawn(2)
        if placement.law == "poisson":
            drawn = int(np.random.Generator(np.random.PCG64(size)).poisson(placement.density * placement.area))
            if drawn > count:
                names = f"the range has {count} names" if count > 1 else "it is one node"
                raise ValueError(f"has {drawn} points with this seed, and {names} only")
            count = drawn
        share = np.random.Generator(np.random.PCG64(spots)).random((count, 2))
    if placement.radius:
        distance, angle = placement.radius * np.sqrt(share[:, 0]), 2.0 * np.pi * share[:, 1]
        plane = np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)
    else:
        plane = (share - 0.5) * [placement.width, placement.height]
    return np.hstack([plane, np.zeros((count, 1))]) + placement.centre


def _from_file(path: Path, count: int, origin: tuple[float, float, float] | None) -> NDArray[np.float64]:
    import numpy as np

    try:
        lines = records(content(path), path)
        header = tuple(word.strip() for word in next(lines, (1, []))[1])
        if header not in (_LOCAL, _LOCAL[:2], _GLOBAL, _GLOBAL[:2]):
            wanted = f"'{','.join(_LOCAL)}' (m) or '{','.join(_GLOBAL)}' (deg, m)"
            raise ValueError(f"{path.name} must begin with the line {wanted}, the last column is optional")
        found = [_point(cells, header, path, line) for line, cells in islice(lines, count)]
    except CellsError as error:
        raise ValueError(f"{path.name} {error.problems[0].message}") from error
    if len(found) < count:
        have, need = (f"{n} {noun}{'s' * (n != 1)}" for n, noun in ((len(found), "point"), (count, "node")))
        raise ValueError(f"{path.name} has {have} for {need}")
    points = np.array(found, np.float64).reshape(count, 3)
    if header[0] == _LOCAL[0]:
        return points
    if origin is None:
        raise ValueError(f"{path.name} has latitudes; say where the scene is with 'geo: {{origin: ...}}'")
    from cosim.contract.geo import LocalFrame

    height = points[:, 2] if len(header) == 3 else np.full(count, origin[2])
    return np.stack(LocalFrame(*origin).to_local(points[:, 0], points[:, 1], height), axis=1)


def _point(line: list[str], header: tuple[str, ...], path: Path, number: int) -> list[float]:
    try:
        point = [float(word) for word in line]
    except ValueError:
        point = []
    where = f"{path.name}, line {number}: '{','.join(line)[:64]}'"
    if len(point) != len(header) or not all(map(math.isfinite, point)):
        raise ValueError(f"{where} is no point of {len(header)} numbers")
    if header[0] == _GLOBAL[0] and not (abs(point[0]) <= 90.0 and abs(point[1]) <= 180.0):
        raise ValueError(f"{where} is no latitude (-90 to 90) and longitude (-180 to 180) in degrees")
    return [*point, 0.0][:3]
