"""A city from OpenStreetMap: roads by SUMO's netconvert, buildings, places for base stations, traffic.

Works without a network, from a file (.osm, .osm.xml, .osm.gz) as openstreetmap.org and Overpass export it.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.geo import LocalFrame
from cosim.sources.importing.imported import Imported, Notice
from cosim.sources.importing.stations import StationSite, lines, positions, read_stations

ROADS, BUILDINGS = "roads.net.xml", "buildings.geojson"
_DRIVEN = frozenset({
    "motorway", "trunk", "primary", "secondary", "tertiary", "unclassified", "residential", "living_street", "road",
    "motorway_link", "trunk_link", "primary_link", "secondary_link", "tertiary_link",
})  # fmt: skip
_SPACING = 20.0  # m between the points of roads that stations are to cover
_FLOOR = 3.0  # m, building:levels has no heights; the usual height of a storey
_LOW = 10.0  # m, of a building without height and levels
_MAST = 3.0  # m, of an antenna above the roof
_LIMIT = 600.0  # s for netconvert
_FAR = 5_000.0  # m, beyond which a station has nothing to do with a road
_MOST_SITES = 4_000  # candidates, more are thinned out


@dataclass
class City:
    """What of an OSM file matters here."""

    nodes: dict[str, tuple[float, float]] = field(default_factory=dict)  # id -> latitude, longitude
    roads: list[list[str]] = field(default_factory=list)
    buildings: list[tuple[list[str], float]] = field(default_factory=list)  # outline, height in m


def read(
    file: Path,
    *,
    stations: Path | None = None,
    count: int = 64,
    radius: float = 250.0,
    vehicles: int | None = None,
) -> Imported:
    """A scenario on the roads of `file`.

    Base stations are those of the table `stations`, or at most `count` on roofs (on streets where there are
    no buildings), chosen greedily until 95 % of the roads lie within `radius` (m) of one. `vehicles` is the
    number of trips in three minutes; by default four per kilometre of road.
    """
    if file.suffix == ".pbf":
        hint = f"osmium cat {file.name} -o {file.name.removesuffix('.pbf').removesuffix('.osm')}.osm"
        raise ScenarioError(Problem("is compressed as PBF, which netconvert does not read", file=file, hint=hint))
    city = _city(file)
    ways = [[city.nodes[n] for n in way if n in city.nodes] for way in city.roads]
    ways = [way for way in ways if len(way) > 1]
    if not ways:
        raise ScenarioError(Problem("has no road for cars", file=file, hint="export an area with streets"))
    spots = np.array([point for way in ways for point in way])
    low, high = spots.min(axis=0), spots.max(axis=0)
    origin = (round(float(low[0] + high[0]) / 2, 5), round(float(low[1] + high[1]) / 2, 5))
    frame = LocalFrame(*origin)
    samples, length = _samples(ways, frame)
    notices: list[Notice] = []
    if stations is not None:
        sites, notices = read_stations(stations)
        covered = math.nan
    else:
        sites, covered = _sites(city, ways, frame, samples, count, radius)
    places = positions(sites, frame)
    if stations is not None:
        away = [float(np.hypot(samples[:, 0] - x, samples[:, 1] - y).min()) for x, y in places]
        far = [site.name for site, distance in zip(sites, away, strict=True) if distance > _FAR]
        if len(far) == len(sites):
            hint = f"the map is around {origin[0]}, {origin[1]} (latitude, longitude)"
            what = f"has no station within {_FAR / 1e3:g} km of a road of {file.name}"
            raise ScenarioError(Problem(what, file=stations, hint=hint))
        if far:
            told = f"over {_FAR / 1e3:g} km from any road: {', '.join(far[:3])}{' and more' * (len(far) > 3)}"
            notices.append(Notice("note", stations, None, "stations", told))
    trips = vehicles or max(20, round(4 * length / 1000))
    reach = math.dist(*(np.ptp(samples, axis=0), (0.0, 0.0)))
    text = _TEXT.format(
        name=re.sub(r"[^a-z0-9]+", "-", file.name.partition(".")[0].lower()).strip("-")[:60] or "city",
        title=f"Cars and {len(sites)} base stations on the roads of {file.name}",
        latitude=origin[0],
        longitude=origin[1],
        roads=ROADS,
        vehicles=trips,
        distance=round(min(1000.0, reach / 3)),
        capacity=max(100, trips),
        nodes="\n".join(lines(sites, places)),
    )
    facts: dict[str, Any] = {
        "roads_km": round(length / 1000, 2), "buildings": len(city.buildings), "stations": len(sites),
        "vehicles": trips,
    }  # fmt: skip
    if math.isfinite(covered):
        facts["covered"] = round(covered, 4)
        told = (
            f"{len(sites)} station{'s' * (len(sites) != 1)}; {covered:.1%} of the roads lie within {radius:g} m of one"
        )
        notices.append(Notice("note", None, None, "stations", told))
    return Imported(
        text,
        tuple(notices),
        beside={ROADS: lambda target: _netconvert(file, target), BUILDINGS: lambda target: _geojson(city, target)},
        facts=facts,
    )


def _city(file: Path) -> City:
    """Nodes, roads for cars and buildings of `file`. Raises `ScenarioError` when it is no OSM file."""
    city = City()
    way: list[str] | None = None
    tags: dict[str, str] = {}
    root = ""

    def start(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal way, root
        root = root or name
        if root != "osm":
            raise ScenarioError(Problem(f"is no OSM file: it begins with <{root}>", file=file))
        if name == "node":
            city.nodes[attributes["id"]] = float(attributes["lat"]), float(attributes["lon"])
        elif name == "way":
            way = []
            tags.clear()
        elif name == "nd" and way is not None:
            way.append(attributes["ref"])
        elif name == "tag" and way is not None:
            tags[attributes["k"]] = attributes["v"]

    def end(name: str) -> None:
        nonlocal way
        if name != "way" or way is None:
            return
        if tags.get("highway") in _DRIVEN:
            city.roads.append(way)
        elif tags.get("building", "no") != "no" and len(way) > 3 and way[0] == way[-1]:
            city.buildings.append((way, _height(tags)))
        way = None

    def entity(*_: object) -> None:
        raise ScenarioError(Problem("defines XML entities, which no OSM file does", file=file))

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            parser.ParseFile(opened)
    except OSError as error:
        raise ScenarioError(Problem(f"cannot be read: {error.strerror or error}", file=file)) from None
    except (expat.ExpatError, KeyError, ValueError) as error:
        line = parser.CurrentLineNumber
        raise ScenarioError(Problem(f"is no OSM file: {error}", file=file, line=line)) from None
    return city


def _height(tags: Mapping[str, str]) -> float:
    """Height of a building (m): `height`, else its levels, else that of a low one."""
    for key, factor in (("height", 1.0), ("building:levels", _FLOOR)):
        match = re.match(r"\s*(\d+(?:\.\d+)?)", tags.get(key, ""))
        if match and 0.0 < float(match[1]) * factor < 1000.0:
            return float(match[1]) * factor
    return _LOW


def _samples(ways: list[list[tuple[float, float]]], frame: LocalFrame) -> tuple[NDArray[np.float64], float]:
    """Points (n, 2) every 20 m of the roads, east and north (m), and the length of all roads (m)."""
    found, length = [], 0.0
    for way in ways:
        east, north, _ = frame.to_local([p[0] for p in way], [p[1] for p in way])
        steps = np.hypot(np.diff(east), np.diff(north))
        along = np.concatenate([[0.0], np.cumsum(steps)])
        length += float(along[-1])
        at = np.arange(0.0, along[-1] + 1e-9, _SPACING)
        found.append(np.column_stack([np.interp(at, along, east), np.interp(at, along, north)]))
    return np.concatenate(found), length


def _sites(
    city: City,
    ways: list[list[tuple[float, float]]],
    frame: LocalFrame,
    samples: NDArray[np.float64],
    count: int,
    radius: float,
) -> tuple[list[StationSite], float]:
    """Stations on roofs, or on streets where there are none, each where it covers most that is open; the share."""
    candidates: list[tuple[float, float, float]] = []  # latitude, longitude, height in m
    for outline, height in city.buildings:
        points = np.array([city.nodes[n] for n in outline[:-1] if n in city.nodes])
        if len(points):
            latitude, longitude = points.mean(axis=0)
            candidates.append((float(latitude), float(longitude), height + _MAST))
    if not candidates:
        candidates = [(*point, _LOW) for way in ways for point in way]
    candidates = sorted(set(candidates))
    candidates = candidates[:: max(1, math.ceil(len(candidates) / _MOST_SITES))]
    east, north, _ = frame.to_local([c[0] for c in candidates], [c[1] for c in candidates])
    covers = np.hypot(east[:, None] - samples[None, :, 0], north[:, None] - samples[None, :, 1]) <= radius
    left = np.ones(len(samples), bool)
    found: list[StationSite] = []
    while len(found) < count and left.mean() > 0.05:
        gain = (covers & left).sum(axis=1)
        best = int(gain.argmax())
        if gain[best] == 0:
            break
        left &= ~covers[best]
        latitude, longitude, height = candidates[best]
        found.append(StationSite(f"station-{len(found) + 1}", latitude, longitude, {"height": f"{height:g} m"}))
    if not found:
        raise SetupError(f"no place for a station is within {radius:g} m of a road; give a larger --radius")
    return found, 1.0 - float(left.mean())


def _netconvert(file: Path, target: Path) -> None:
    program = _program()
    command = [
        program, "--osm-files", str(file), "--output-file", str(target), "--geometry.remove", "--ramps.guess",
        "--junctions.join", "--tls.guess-signals", "--tls.discard-simple", "--roundabouts.guess",
        "--keep-edges.by-vclass", "passenger", "--remove-edges.isolated", "--no-warnings", "--proj.utm",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"netconvert did not make a net of {file}: {error}") from None
    if done.returncode != 0 or not target.is_file():
        raise SetupError(f"netconvert cannot make a net of {file}: {done.stderr.strip()[-400:]}")


def _program() -> str:
    try:
        import sumo

        return str(Path(sumo.SUMO_HOME) / "bin" / "netconvert")
    except ImportError:
        found = shutil.which("netconvert")
    if found is None:
        raise SetupError(f"SUMO's netconvert is not installed: {how_to_install('sumo')}")
    return found


def _geojson(city: City, target: Path) -> None:
    """The buildings as GeoJSON polygons with `height` in metres."""
    features = [
        {
            "type": "Feature",
            "properties": {"height": height},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[city.nodes[n][1], city.nodes[n][0]] for n in outline if n in city.nodes]],
            },
        }
        for outline, height in city.buildings
    ]
    target.write_text(json.dumps({"type": "FeatureCollection", "features": features}) + "\n", encoding="utf-8")


_TEXT = """\
apiVersion: cosim/v1
kind: Scenario
name: {name}
title: {title}
description: The roads are (c) OpenStreetMap contributors, ODbL.
run: {{duration: 5 min, step: 1 s}}
geo: {{origin: [{latitude}, {longitude}, 0 m]}}
adapters:
  sumo:
    network: {roads}
    demand: {{vehicles: {vehicles}, over: 3 min, distance: {distance} m, seed: 1}}
    teleport: 90 s
  radio: {{model: umi}}
  continuum: {{scheduler: least-loaded}}
kinds:
  car: {{kind: vehicle, radio: {{power: 23 dBm, height: 1.5 m}}}}
  station: {{kind: base-station, cpu: 4 x 2.1 GHz, cell: {{power: 33 dBm, height: 10 m, carrier: 3.5 GHz}}}}
nodes:
  cars: {{kind: car, fleet: sumo, capacity: {capacity}}}
{nodes}
  cloud: {{kind: cloud, cpu: 64 x 2.2 GHz}}
links:
  - {{between: ["kind:station", cloud], rate: 1 Gbit/s, delay: 15 ms}}
workloads:
  navigation:
    {{from: cars, arrivals: poisson 20 /min, input: 20 kB, output: 20 kB, work: 160 Mcycles, deadline: 500 ms}}
"""
