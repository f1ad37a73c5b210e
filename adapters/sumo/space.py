"""Where vehicles are: SUMO's plane against the scenario's, and the region that the fleet lives in."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.sumo.config import Region
from cosim.contract.entities import Geo
from cosim.contract.map_lines import write_lines
from cosim.contract.records import Floats

Project = Callable[[float, float], tuple[float, float] | None]

FASTEST = 100.0  # m/s, no vehicle in SUMO's default classes comes near it (rail: 83 m/s)
_NORTH = 0.01  # deg, about 1.1 km: long enough for the direction, short against the projection's bend


@dataclass(frozen=True, slots=True)
class Alignment:
    """Turns SUMO's network coordinates into the scenario's local east-north-up frame.

    Without a geo origin, or without a projection of the network, they are the same. Otherwise the
    origin's place in the network is subtracted and the plane turned so that north is true north:
    the grid north of a projection differs from it by the meridian convergence (1.2 deg in Berlin,
    60 m at 3 km). The projection's scale (UTM: 0.04 %) stays.
    """

    x: float = 0.0  # m, the origin in the network's coordinates
    y: float = 0.0
    z: float = 0.0
    convergence: float = 0.0  # deg, direction of true north in the network, clockwise from its y axis

    @staticmethod
    def between(geo: Geo | None, project: Project, elevated: Callable[[], bool]) -> Alignment:
        """The alignment of a network with the scenario's origin.

        Heights of a flat network are above ground, so the origin's height is subtracted only from
        those of a network that has heights.
        """
        if geo is None:
            return Alignment()
        origin = project(geo.longitude, geo.latitude)
        ahead = project(geo.longitude, geo.latitude + _NORTH)
        if origin is None or ahead is None:
            return Alignment()
        convergence = math.degrees(math.atan2(ahead[0] - origin[0], ahead[1] - origin[1]))
        return Alignment(*origin, geo.height if geo.height and elevated() else 0.0, convergence)

    @property
    def identity(self) -> bool:
        return self == Alignment()

    def apply(self, x: Floats, y: Floats, z: Floats, heading: Floats) -> None:
        """Turn columns (n,) into the local frame, in place."""
        x -= self.x
        y -= self.y
        z -= self.z
        sine, cosine = math.sin(math.radians(self.convergence)), math.cos(math.radians(self.convergence))
        east = x * cosine - y * sine
        y *= cosine
        y += x * sine
        x[:] = east
        heading -= self.convergence
        np.mod(heading, 360.0, out=heading)

    def point(self, x: float, y: float) -> tuple[float, float]:
        """One point in the local frame."""
        sine, cosine = math.sin(math.radians(self.convergence)), math.cos(math.radians(self.convergence))
        x, y = x - self.x, y - self.y
        return x * cosine - y * sine, y * cosine + x * sine


class RegionFence:
    """Which vehicles are inside the region, without asking every vehicle at every step.

    A vehicle outside sleeps for as long as it needs at least to get to the border at `FASTEST`, so
    that far ones cost nothing; the members at each step are the same as if all were asked.
    """

    def __init__(self, region: Region, period: float) -> None:
        self._region = region
        self._period = period  # s between two steps
        self._sleeping: dict[str, int] = {}  # vehicle -> step at which it is asked again
        self._waking: dict[int, list[str]] = {}  # step -> vehicles, some of which may be gone or moved on

    def distance(self, x: float, y: float) -> float:
        """Metres from the region, 0 inside and on the border."""
        region = self._region
        if region.box is not None:
            west, south, east, north = region.box
            return math.hypot(max(west - x, 0.0, x - east), max(south - y, 0.0, y - north))
        assert region.center is not None
        assert region.radius is not None
        return max(math.hypot(x - region.center[0], y - region.center[1]) - region.radius, 0.0)

    def outside(self, x: Floats, y: Floats) -> NDArray[np.intp]:
        """Rows of the columns that are not in the region."""
        region = self._region
        if region.box is not None:
            west, south, east, north = region.box
            return np.flatnonzero((x < west) | (x > east) | (y < south) | (y > north))
        assert region.center is not None
        assert region.radius is not None
        return np.flatnonzero(np.hypot(x - region.center[0], y - region.center[1]) > region.radius)

    def sleep(self, vehicle: str, distance: float, step: int) -> None:
        """`vehicle` is `distance` m outside at `step`."""
        until = step + max(1, int(distance / (FASTEST * self._period)))
        self._sleeping[vehicle] = until
        self._waking.setdefault(until, []).append(vehicle)

    def forget(self, vehicle: str) -> bool:
        """Drop a vehicle that is gone; true when it was asleep."""
        return self._sleeping.pop(vehicle, None) is not None

    def due(self, step: int, landed: Iterable[str]) -> list[str]:
        """The sleepers to ask at `step`: those whose time has come, and those that were teleported."""
        found = [name for name in self._waking.pop(step, ()) if self._sleeping.get(name) == step]
        found += [name for name in landed if name in self._sleeping and name not in found]
        for name in found:
            del self._sleeping[name]
        return found


LARGEST = 256 << 20  # B of a network without compression; larger ones are not read
_NOT_STREETS = frozenset({"internal", "crossing", "walkingarea", "connector"})


def write_streets(network: Path, alignment: Alignment, folder: Path) -> None:
    """Write the streets for the map: lines in m east and north of the scenario's origin, one per edge of the network.

    Does nothing for a network that cannot be read; SUMO reports that better.
    """
    try:
        lines = [[alignment.point(x, y) for x, y in line] for line in streets(network)]
    except (OSError, ValueError, ElementTree.ParseError):
        return
    write_lines(folder, lines)


def streets(network: Path) -> Iterator[list[tuple[float, float]]]:
    """The first lane of every edge (m, the network's own coordinates); of a two-way street one direction."""
    packed = network.suffix == ".gz"
    if network.stat().st_size > (LARGEST // 10 if packed else LARGEST):
        return
    seen: set[tuple[str, str]] = set()
    with gzip.open(network) if packed else network.open("rb") as stream:
        for _, element in ElementTree.iterparse(stream):
            if element.tag == "edge":
                ends = (element.get("from", ""), element.get("to", ""))
                street = element.get("function", "normal") not in _NOT_STREETS and ends[::-1] not in seen
                lane = element.find("lane")
                if street and lane is not None:
                    seen.add(ends)
                    yield [_point(pair) for pair in lane.get("shape", "").split()]
            if element.tag not in ("lane", "param"):
                element.clear()


def _point(pair: str) -> tuple[float, float]:
    x, y = pair.split(",")[:2]
    return float(x), float(y)
