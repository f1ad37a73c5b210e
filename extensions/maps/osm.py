"""A city from OpenStreetMap: roads by SUMO's netconvert, buildings, places for base stations, traffic.

Works without a network, from a file (.osm, .osm.xml, also packed) as openstreetmap.org, Overpass and JOSM write it,
or from an extract in PBF (https://wiki.openstreetmap.org/wiki/PBF_Format), which osmium turns into XML.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.sumo import install
from cosim.adapters.sumo.config import Demand
from cosim.adapters.sumo.demand import largest_component, read_roads, route, write_trips
from cosim.contract.delimited import opened
from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.geo import LocalFrame, crossing
from cosim.contract.reading import packed
from cosim.contract.reading.columns import amount
from cosim.extensions.maps.stations import ROADS, StationSite, city, lines, positions, read_stations
from cosim.sources.importing.imported import Imported, Notice

BUILDINGS, ROUTES = "buildings.geojson", "routes.rou.xml"
_DRIVEN = frozenset({
    "motorway", "trunk", "primary", "secondary", "tertiary", "unclassified", "residential", "living_street", "road",
    "motorway_link", "trunk_link", "primary_link", "secondary_link", "tertiary_link",
})  # fmt: skip
_LANELET = frozenset({
    "line_thin", "line_thick", "curbstone", "virtual", "road_border", "stop_line", "guard_rail",
})  # fmt: skip
_LEVELS = re.compile(r"\s*\d+(?:[.,]\d+)?(?:\s*;\s*\d+(?:[.,]\d+)?)*\s*").fullmatch  # of parts of a building
_SPACING = 20.0  # m between the points of roads that stations are to cover
_FLOOR = 3.0  # m, building:levels has no heights; the usual height of a storey
_LOW = 10.0  # m, of a building without height and levels
_MAST = 3.0  # m, of an antenna above the roof
_PLACES = ("amenity", "shop", "office", "tourism", "leisure")
_PBF = b"\n\tOSMHeader"  # after the length of the first block, the field 1 of its head: text of 9 B
_LIMIT = 600.0  # s for netconvert
_FAR = 5_000.0  # m, beyond which a station has nothing to do with a road
_MOST_SITES = 4_000  # candidates, more are thinned out


@dataclass
class City:
    """What of an OSM file matters here."""

    nodes: dict[str, tuple[float, float]] = field(default_factory=dict)  # id -> latitude, longitude
    roads: list[list[str]] = field(default_factory=list)
    buildings: list[tuple[list[str], float]] = field(default_factory=list)  # outline, height in m
    unknown: Counter[str] = field(default_factory=Counter)  # texts of heights that are none
    edited: bool = False  # some elements are deleted in it


def read(
    file: Path,
    *,
    stations: Path | None = None,
    count: int = 64,
    radius: float = 250.0,
    vehicles: int | None = None,
    places: bool = False,
) -> Imported:
    """A scenario on the roads of `file`.

    Base stations are those of the table `stations`, or at most `count` on roofs (on streets where there are
    no buildings), chosen greedily until 95 % of the roads lie within `radius` (m) of one. `vehicles` is the
    number of trips in three minutes; by default four per kilometre of road. With `places` they end where the map has
    shops, offices, amenities, sights and places of leisure.
    """
    reader = _read(file)
    found = reader.city
    ways = [[found.nodes[n] for n in way if n in found.nodes] for way in found.roads]
    ways = [way for way in ways if len(way) > 1]
    if not ways:
        raise reader.no_road()
    spots = np.array([point for way in ways for point in way])
    low, high = spots.min(axis=0), spots.max(axis=0)
    origin = (round(float(low[0] + high[0]) / 2, 5), round(float(low[1] + high[1]) / 2, 5))
    frame = LocalFrame(*origin)
    samples, length = _samples(ways, frame)
    _left_out(reader)
    notices = _notices(file, reader)
    if stations is not None:
        sites, more = read_stations(stations)
        notices += more
        covered = math.nan
    else:
        sites, covered = _sites(found, ways, frame, samples, count, radius)
    masts = positions(sites, frame)
    if stations is not None:
        away = [float(np.hypot(samples[:, 0] - x, samples[:, 1] - y).min()) for x, y in masts]
        far = [site.name for site, distance in zip(sites, away, strict=True) if distance > _FAR]
        if len(far) == len(sites):
            hint = f"the map is around {origin[0]}, {origin[1]} (latitude, longitude)"
            what = f"has no station within {_FAR / 1e3:g} km of a road of {file.name}"
            raise ScenarioError(Problem(what, file=stations, hint=hint))
        if far:
            reported = f"over {_FAR / 1e3:g} km from any road: {', '.join(far[:3])}{' and more' * (len(far) > 3)}"
            notices.append(Notice("note", stations, None, "stations", reported))
    trips = vehicles or max(20, round(4 * length / 1000))
    reach = math.dist(*(np.ptp(samples, axis=0), (0.0, 0.0)))
    demand = Demand.model_validate(
        {"vehicles": trips, "over": "3 min", "distance": f"{round(min(1000.0, reach / 3))} m"}
    )
    text = city(
        file.name.partition(".")[0], f"Cars and {len(sites)} base stations on the roads of {file.name}",
        about="description: The roads are (c) OpenStreetMap contributors, ODbL.\n", middle=origin,
        stations=lines(sites, masts), vehicles=trips, distance=demand.distance, routes=ROUTES if places else "",
    )  # fmt: skip
    facts: dict[str, Any] = {
        "roads_km": round(length / 1000, 2), "buildings": len(found.buildings), "stations": len(sites),
        "vehicles": trips,
    }  # fmt: skip
    if math.isfinite(covered):
        facts["covered"], number = round(covered, 4), f"{len(sites)} station{'s' * (len(sites) != 1)}"
        reported = f"{number}; {covered:.1%} of the roads lie within {radius:g} m of one"
        notices.append(Notice("note", None, None, "stations", reported))
    return Imported(
        text,
        tuple(notices),
        beside={
            ROADS: lambda target: _netconvert(file, target, edited=found.edited),
            BUILDINGS: lambda target: _geojson(found, target),
            **({ROUTES: lambda target: _trips(file, target, demand, edited=found.edited)} if places else {}),
        },
        facts=facts,
    )


class _Reader:
    """Takes the elements of an OSM file one after the other; `city` is what matters of them."""

    def __init__(self, file: Path) -> None:
        self.file, self.city = file, City()
        self.kinds = Counter[str]()  # of ways, and what of them is left out
        self._root = ""
        self._element = ""
        self._left = False  # whether the present element does not exist any more
        self._tags: dict[str, str] = {}
        self._refs: list[str] = []
        self._members: list[tuple[str, str]] = []  # of a relation: way, role
        self._ways: dict[str, list[str]] = {}
        self._areas: list[tuple[list[tuple[str, str]], dict[str, str]]] = []

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._root = self._root or name
        if self._root != "osm":
            raise ScenarioError(Problem(f"is no OSM file: it begins with <{self._root}>", file=self.file))
        if name in ("node", "way", "relation"):
            self._element, self._id = name, attributes["id"]
            self._left = attributes.get("action") == "delete" or attributes.get("visible") == "false"
            self.city.edited |= self._left
            self.kinds["deleted"] += self._left and name != "node"
            self._tags, self._refs, self._members = {}, [], []
            if name == "node" and not self._left:
                self.city.nodes[self._id] = float(attributes["lat"]), float(attributes["lon"])
        elif name == "nd":
            self._refs.append(attributes["ref"])
            self.kinds["points without nodes"] += "lat" in attributes
        elif name == "member" and attributes.get("type") == "way":
            self._members.append((attributes["ref"], attributes.get("role", "")))
        elif name == "tag":
            self._tags[attributes["k"]] = attributes["v"]

    def end(self, name: str) -> None:
        if name != self._element or self._left:
            return
        tags, self._element = self._tags, ""
        if name == "way" and self._id in self._ways:
            self.kinds["again"] += 1
        elif name == "way":
            self._ways[self._id] = self._refs
            self.kinds["ways"] += 1
            self.kinds["Lanelet2's"] += tags.get("type") in _LANELET
            self.kinds[f"highway={tags['highway']}" if "highway" in tags else "others"] += 1
            if tags.get("highway") in _DRIVEN:
                self.city.roads.append(self._refs)
            elif tags.get("building", "no") != "no" and len(self._refs) > 3 and self._refs[0] == self._refs[-1]:
                self.city.buildings.append((self._refs, self._height(tags)))
        elif name == "relation":
            self.kinds["Lanelet2's"] += tags.get("type") == "lanelet"
            if tags.get("building", "no") != "no" and tags.get("type") == "multipolygon":
                self._areas.append((self._members, tags))

    def close(self) -> None:
        """Join the ways of multipolygons to their outer rings."""
        for members, tags in self._areas:
            parts = [list(self._ways[ref]) for ref, role in members if role in ("outer", "") and ref in self._ways]
            rings = []
            while parts:
                ring = parts.pop()
                while ring and ring[0] != ring[-1]:
                    found = next((part for part in parts if ring[-1] in (part[0], part[-1])), None)
                    if found is None:
                        break
                    parts.remove(found)
                    ring += found[1:] if found[0] == ring[-1] else found[-2::-1]
                if len(ring) > 3 and ring[0] == ring[-1]:
                    rings.append(ring)
            self.kinds["open outlines"] += not rings
            self.city.buildings += [(ring, self._height(tags)) for ring in rings]

    def _height(self, tags: Mapping[str, str]) -> float:
        """Height of a building (m): `height`, else its levels, else that of a low one."""
        for key, unit in (("height", "m"), ("building:height", "m"), ("building:levels", "")):
            text = tags.get(key, "").strip()
            if not text:
                continue
            levels = [amount(part, "length", "m") for part in text.split(";")] if not unit and _LEVELS(text) else []
            try:
                found = amount(text, "length", unit) if unit else max(levels, default=math.nan) * _FLOOR
            except ValueError:
                found = math.nan
            if 0.0 < found < 1000.0:
                return found
            self.city.unknown[f"{key}={text[:20]}"] += 1
        return _LOW

    def no_road(self) -> ScenarioError:
        """The error for a map without a road for cars, by what it is instead."""
        kinds, what, hint = self.kinds, "has no road for cars", "export an area with streets"
        if kinds["Lanelet2's"]:
            what = "is a map of Lanelet2: its ways are borders of lanes, not roads"
            hint = "take the export of openstreetmap.org"
        elif (kinds["ways"] and not self.city.nodes) or kinds["points without nodes"]:
            what = "has ways without their nodes (Overpass: out geom)"
            hint = "ask Overpass for: out body; >; out skel qt;"
        elif roads := sorted(kind for kind in kinds if kind.startswith("highway=")):
            what = f"has no road for cars: its ways are {', '.join(roads[:6])}"
        elif kinds["deleted"]:
            what = f"has no road for cars: {kinds['deleted']} ways are deleted in it"
        return ScenarioError(Problem(what, file=self.file, hint=hint))


def _read(file: Path) -> _Reader:
    """What matters of `file`. Raises `ScenarioError` when it is no OSM file."""

    def entity(*_: object) -> None:
        raise ScenarioError(Problem("defines XML entities, which no OSM file does", file=file))

    reader, parser = _Reader(file), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.EntityDeclHandler = entity
    try:
        with _xml(file) as stream:
            parser.ParseFile(stream)
    except (OSError, zlib.error, *packed.FAULTS) as error:
        raise ScenarioError(
            Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file)
        ) from None
    except (expat.ExpatError, KeyError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        line = parser.CurrentLineNumber
        raise ScenarioError(Problem(f"is no OSM file: {error}", file=file, line=line)) from None
    reader.close()
    return reader


@contextmanager
def _xml(file: Path) -> Iterator[IO[bytes]]:
    """The map as XML. Raises `ScenarioError` for PBF that is damaged, `SetupError` for PBF without osmium."""
    with opened(file) as stream:
        begin = stream.read(len(_PBF) + 4)
    if begin[4:] != _PBF:
        with opened(file) as stream:
            yield stream
        return
    try:
        import osmium
    except ImportError:
        raise SetupError(f"{file} is PBF, which osmium reads: {how_to_install('osm')}") from None
    with tempfile.TemporaryDirectory(prefix="cosim-osm-") as scratch:
        xml = Path(scratch) / "map.osm"
        try:
            with opened(file) as stream, osmium.SimpleWriter(str(xml)) as writer:
                for element in osmium.FileProcessor(osmium.io.FileBuffer(stream.read(), "pbf")):
                    writer.add(element)
        except RuntimeError as error:
            raise ScenarioError(Problem(f"is no OSM file: {error}", file=file)) from None
        with xml.open("rb") as stream:
            yield stream


def _left_out(reader: _Reader) -> None:
    """Leave out buildings whose outlines no scenario takes, and count them."""
    nodes, buildings = reader.city.nodes, reader.city.buildings
    outlines = ([nodes[node] for node in outline if node in nodes] for outline, _ in buildings)
    whole = [len(outline) > 3 and not crossing([np.array(outline)]) for outline in outlines]
    reader.kinds["open outlines"] += whole.count(False)
    buildings[:] = compress(buildings, whole)


def _notices(file: Path, reader: _Reader) -> list[Notice]:
    """What of a map is left out, and which heights are not known."""
    city, found = reader.city, []
    if count := reader.kinds["deleted"]:
        found.append(Notice("note", file, None, "action", f"{count} ways and relations are deleted: they are left out"))
    if count := reader.kinds["again"]:
        found.append(Notice("note", file, None, "id", f"{count} ways are in it more than once: each is taken once"))
    if city.unknown:
        some = ", ".join(f"{text} ({count})" for text, count in city.unknown.most_common(6))
        count = city.unknown.total()
        found.append(Notice("note", file, None, "height", f"{count} heights are not known, and not taken: {some}"))
    if count := reader.kinds["open outlines"]:
        found.append(
            Notice(
                "note", file, None, "building", f"{count} outlines are not whole or cross themselves: they are left out"
            )
        )
    lost = sum(node not in city.nodes for way in city.roads for node in way)
    if lost:
        found.append(Notice("note", file, None, "nd", f"{lost} points of roads are not in the file"))
    return found


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


def _netconvert(file: Path, target: Path, *, edited: bool) -> None:
    options = (
        "--geometry.remove", "--ramps.guess", "--junctions.join", "--tls.guess-signals", "--tls.discard-simple",
        "--roundabouts.guess", "--keep-edges.by-vclass", "passenger", "--no-warnings", "--proj.utm",
    )  # fmt: skip
    _converted("netconvert", file, target, *options, edited=edited)


def _trips(file: Path, target: Path, demand: Demand, *, edited: bool) -> None:
    """Routes on the net beside `target` that end on the road whose middle is nearest to a place, drawn by `demand`."""
    network = target.with_name(ROADS)
    with tempfile.TemporaryDirectory(prefix="cosim-osm-") as scratch:
        found, trips = Path(scratch) / "places.xml", Path(scratch) / "trips.xml"
        types = (install.home() or Path()) / "data" / "typemap" / "osmPolyconvert.typ.xml"
        options = ("--net-file", str(network), "--osm.keep-full-type", "--type-file", str(types))
        _converted("polyconvert", file, found, *options, edited=edited)
        spots = [
            one.get("shape", f"{one.get('x')},{one.get('y')}").split()[0].split(",")
            for one in ElementTree.parse(found).getroot()
            if one.get("type", "").startswith(_PLACES)
        ]
        if not spots:
            raise ScenarioError(Problem("has no shop, office, amenity or sight near its roads", file=file))
        roads = read_roads(network)
        edges = largest_component(roads.onward)
        middle = np.array([roads.middle[edge] for edge in edges])
        ends = [edges[int(np.linalg.norm(middle - np.array(spot[:2], float), axis=1).argmin())] for spot in spots]
        rng = np.random.default_rng(demand.seed)
        text = re.sub(r' to="[^"]*"', lambda _: f' to="{rng.choice(ends)}"', write_trips(roads, demand, 0.0))
        trips.write_text(text, encoding="utf-8")
        route(network, trips, target, demand.seed)


def _converted(program: str, file: Path, target: Path, *options: str, edited: bool) -> None:
    """Write `target` from a map by a program of SUMO."""
    with tempfile.TemporaryDirectory(prefix="cosim-osm-") as scratch:
        plain = Path(scratch) / "map.osm"  # SUMO unpacks nothing but gzip
        with _xml(file) as stream, plain.open("wb") as copy:
            if edited:
                copy.write(_without_deleted(stream))
            else:
                shutil.copyfileobj(stream, copy)
        command = [str(install.binary(program)), "--osm-files", str(plain), "--output-file", str(target), *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_LIMIT, check=False, env=install.environment()
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SetupError(f"{program} did not make {target.name} of {file}: {error}") from None
    if done.returncode != 0 or not target.is_file():
        raise SetupError(f"{program} cannot make {target.name} of {file}: {done.stderr.strip()[-400:]}")


def _without_deleted(stream: IO[bytes]) -> bytes:
    """The same map without the elements that an editor has marked as deleted."""
    root = ElementTree.parse(stream).getroot()
    for one in list(root):
        if one.get("action") == "delete" or one.get("visible") == "false":
            root.remove(one)
    return ElementTree.tostring(root)


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
