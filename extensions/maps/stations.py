"""Base stations from a table of sites: CSV, JSON with a list of objects, or points of GeoJSON.

Columns are found by usual names, whatever their case: latitude and longitude (deg), height, carrier, bandwidth,
power, gain, azimuth, name. Quantities have their unit in the cell ("3.5 GHz") or in the head
(`height_m`, `carrier (MHz)`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np

from cosim.contract.delimited import CellsError, content, opened, records, refuse_twice
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.geo import LocalFrame
from cosim.contract.reading.columns import NOTHING, Head, amount, head, plain_name
from cosim.contract.reading.geojson import features, raised
from cosim.contract.units import parse, show
from cosim.sources.importing.imported import Imported, Notice

MOST = 5_000
ROADS = "roads.net.xml"
_FAR = 300e3  # m from the others, beyond which a station is of another area
_NAMES = {
    "latitude": ("latitude", "lat", "y_wgs84"),
    "longitude": ("longitude", "lon", "lng", "long"),
    "height": ("height", "antenna_height", "hoehe"),
    "carrier": ("carrier", "frequency", "freq"),
    "bandwidth": ("bandwidth", "bw"),
    "power": ("power", "tx_power", "eirp"),
    "gain": ("gain", "antenna_gain"),
    "azimuth": ("azimuth", "bearing"),
    "name": ("site_id", "id", "station", "name"),
}
_DIMENSIONS = {"height": "length", "carrier": "frequency", "bandwidth": "frequency", "power": "level", "gain": "gain"}
_ANGLES = {"latitude": "angle", "longitude": "angle", "azimuth": "angle"}
_OPENCELLID = (  # https://wiki.opencellid.org/wiki/Menu_map_view#database; its downloads have no header
    "radio", "mcc", "net", "area", "cell", "unit", "lon", "lat", "range", "samples", "changeable", "created", "updated",
    "averageSignal",
)  # fmt: skip
_RADIOS = frozenset({"GSM", "CDMA", "UMTS", "LTE", "NR"})


@dataclass(frozen=True, slots=True)
class StationSite:
    """A site: its position, and what its file states about the cell, as text with units."""

    name: str
    latitude: float  # deg
    longitude: float  # deg
    keys: Mapping[str, str] = field(default_factory=dict)  # of `cell`, only those in the file


def read_stations(file: Path) -> tuple[list[StationSite], list[Notice]]:
    """The stations of `file`, in its order. Raises `ScenarioError` with every mistake in it."""
    notices: list[Notice] = []
    text = _text(file, notices)
    rows = _json_rows(text, file, notices) if text.lstrip()[:1] in ("{", "[") else _csv_rows(text, file, notices)
    problems: list[Problem] = []
    if not rows:
        raise ScenarioError(Problem("holds no station", file=file, hint="a row per station below the names"))
    heads = _heads(rows[0][1])
    for need in ("latitude", "longitude"):
        if need not in heads:
            hint = f"columns: {', '.join(rows[0][1])}"
            problems.append(Problem(f"has no column '{need}'", file=file, line=1, hint=hint))
    if problems:
        raise ScenarioError(problems)
    if len(rows) > MOST:
        raise ScenarioError(Problem(f"has {len(rows):,} stations, more than {MOST:,}", file=file, hint="cut it down"))
    found, seen = [], set[str]()
    place = [heads[key][0] for key in ("latitude", "longitude")]
    placed = [(line, row) for line, row in rows if any(row.get(c, "").strip().lower() not in NOTHING for c in place)]
    if lost := len(rows) - len(placed):
        notices.append(Notice("note", file, None, place[0], f"{lost} rows without a place are left out"))
    somewhere = [(line, row) for line, row in placed if not all(_is_zero(row.get(c, "")) for c in place)]
    if lost := len(placed) - len(somewhere):
        text = f"{lost} rows at latitude 0, longitude 0, which stands for no place, are left out"
        notices.append(Notice("note", file, None, place[0], text))
    placed = somewhere
    if not placed:
        raise ScenarioError(Problem("holds no station with a place", file=file))
    for line, row in placed:
        station = _station(row, heads, file, line, problems)
        if station is not None:
            name, number = station.name, 2
            while name in seen:
                name, number = f"{station.name}-{number}", number + 1
            seen.add(name)
            found.append(StationSite(name, station.latitude, station.longitude, station.keys))
    if problems:
        raise ScenarioError(problems)
    notices += _doubts(found, placed, heads, file)
    if "azimuth" in heads:
        text = "cells radiate alike in all directions; the sectors of a site are cells of their own at one place"
        notices.append(Notice("ignored", file, 1, heads["azimuth"][0], text))
    return found, notices


def _doubts(
    stations: Sequence[StationSite],
    rows: Sequence[tuple[int, Mapping[str, str]]],
    heads: Mapping[str, tuple[str, str]],
    file: Path,
) -> Iterator[Notice]:
    """What is not read, what is there twice, and stations too far from the others to be of one area."""
    known = {column for column, _ in heads.values()}
    if unread := [column for column in rows[0][1] if column not in known]:
        yield Notice("note", file, 1, unread[0], f"columns that are not read: {', '.join(unread[:12])}")
    if again := len(rows) - len({tuple(row.values()) for _, row in rows}):
        yield Notice("note", file, None, "name", f"{again} rows are equal to others in every cell, and count")
    spots = np.array([(one.latitude, one.longitude) for one in stations])
    middle = spots[np.argsort(spots[:, 0])[len(spots) // 2]]
    frame = LocalFrame(float(middle[0]), float(middle[1]))
    away, turned = (np.linalg.norm(frame.to_local(one, other), axis=0) for one, other in (spots.T, spots.T[::-1]))
    if (far := away > _FAR).any():
        text = f"{int(far.sum())} stations are up to {away.max() / 1e3:,.0f} km from the others"
        if count := int((far & (turned < _FAR)).sum()):
            text += f"; {count} of them would not be with latitude and longitude exchanged"
        yield Notice("note", file, None, heads["latitude"][0], text)


def read(file: Path, *, users: int = 100, seed: int = 1, network: Path | None = None) -> Imported:
    """A scenario with the stations of `file` and `users` devices that stand around them, drawn under `seed`.

    With `network`, a network of SUMO with a projection, they are cars that drive on it. Raises `ScenarioError`.
    """
    stations, notices = read_stations(file)
    middle = center(stations)
    frame = LocalFrame(*middle)
    places = positions(stations, frame)
    if network is not None:
        with opened(network) as stream:
            net = stream.read()
        known = re.search(rb'<location[^>]* projParameter="([^"]+)"', net)
        if known is None or known[1] in (b"!", b"-"):
            raise ScenarioError(Problem("has no projection, so stations have no place on it", file=network))
        text = city(
            file.stem, f"Cars on {network.name} and {len(stations)} base stations of {file.name}", middle=middle,
            stations=lines(stations, places), vehicles=users,
        )  # fmt: skip
        beside = {ROADS: lambda target: target.write_bytes(net)}
        return Imported(text, tuple(notices), beside, {"stations": len(stations), "vehicles": users})
    rng = np.random.default_rng(seed)
    near = rng.integers(len(places), size=users)
    around = np.array(places)[near, :2] + rng.normal(0.0, 100.0, (users, 2))
    nodes = [f"  user-{k}: {{kind: user, at: [{x:.1f} m, {y:.1f} m, 0 m]}}" for k, (x, y) in enumerate(around, 1)]
    text = scenario(
        file.stem, "stations", title=f"{len(stations)} base stations of {file.name}", middle=middle, duration=1,
        nodes=[*lines(stations, places), *nodes], who="user", what="tier: device", source="user-*",
    )  # fmt: skip
    return Imported(text, tuple(notices), facts={"stations": len(stations), "users": users})


def city(
    name: str, title: str, *, middle: tuple[float, float], stations: Sequence[str], vehicles: int, about: str = "",
    distance: float = 1000.0, routes: str = "",
) -> str:  # fmt: skip
    """The text of a scenario with cars on the network `ROADS`, on `routes` or trips of `distance` (m)."""
    traffic = f"demand: {{vehicles: {vehicles}, over: 3 min, distance: {distance:g} m, seed: 1}}"
    traffic = f"routes: {routes}" if routes else traffic
    return scenario(
        name, "city", title=title, about=about, middle=middle, duration=5,
        movement=f"  sumo:\n    network: {ROADS}\n    {traffic}\n    teleport: 90 s\n",
        nodes=[f"  cars: {{kind: car, fleet: sumo, capacity: {max(100, vehicles)}}}", *stations],
        who="car", what="kind: vehicle", source="cars",
    )  # fmt: skip


def scenario(
    name: str, otherwise: str, *, middle: tuple[float, float], nodes: Sequence[str], about: str = "",
    movement: str = "", **words: object,
) -> str:  # fmt: skip
    """The text of a scenario around `middle` (latitude and longitude, deg), with the lines `nodes` and a cloud."""
    clean = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or otherwise
    text = (Path(__file__).parent / "scenario.yaml.in").read_text(encoding="utf-8")
    return text.format(name=clean, middle=middle, nodes="\n".join(nodes), about=about, movement=movement, **words)


def center(stations: Sequence[StationSite]) -> tuple[float, float]:
    """Latitude and longitude of the middle of all stations, to a metre (deg)."""
    spots = [(one.latitude, one.longitude) for one in stations]
    low, high = np.min(spots, axis=0), np.max(spots, axis=0)
    return round(float(low[0] + high[0]) / 2, 5), round(float(low[1] + high[1]) / 2, 5)


def positions(stations: Sequence[StationSite], frame: LocalFrame) -> list[tuple[float, float]]:
    """East and north (m) of each station in `frame`."""
    east, north, _ = frame.to_local([s.latitude for s in stations], [s.longitude for s in stations], frame.height)
    return [(float(x), float(y)) for x, y in zip(east, north, strict=True)]


def lines(stations: Sequence[StationSite], places: Sequence[tuple[float, float]]) -> list[str]:
    """The stations as lines of a block `nodes`, with the kind `station`."""
    out = []
    for one, (x, y) in zip(stations, places, strict=True):
        cell = ", ".join(f"{key}: {text}" for key, text in one.keys.items())
        out.append(
            f"  {one.name}: {{kind: station, at: [{x:.1f} m, {y:.1f} m, 0 m]{f', cell: {{{cell}}}' if cell else ''}}}"
        )
    return out


def _is_quantity(text: str, dimension: str) -> bool:
    """Whether a scenario takes a text as it is."""
    try:
        parse(text, dimension)
    except ValueError:
        return False
    return True


def _is_zero(text: str) -> bool:
    try:
        return float(text.replace(",", ".")) == 0.0
    except ValueError:
        return False


def _text(file: Path, notices: list[Notice]) -> str:
    """The text of a file; what is no UTF-8 is taken as Windows' Latin letters."""
    try:
        return content(file)
    except CellsError:
        with opened(file) as stream:
            raw = stream.read()
    notices.append(Notice("note", file, None, "", "is no text in UTF-8, and is read as Windows-1252"))
    return raw.decode("cp1252", errors="replace")


def _csv_rows(text: str, file: Path, notices: list[Notice]) -> list[tuple[int, dict[str, str]]]:
    found = list(records(text, file, spaced=True))
    names = found[0][1] if found else []
    if len(names) == len(_OPENCELLID) and names[0].strip() in _RADIOS:
        names = list(_OPENCELLID)
        notices.append(Notice("note", file, 1, "", "has no header: its columns are those of OpenCelliD's downloads"))
    else:
        refuse_twice(file, [name.strip() for name in names])
        found = found[1:]
    return [(line, dict(zip_longest(names, cells[: len(names)], fillvalue=""))) for line, cells in found]


def _json_rows(text: str, file: Path, notices: list[Notice]) -> list[tuple[int, dict[str, str]]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(Problem(f"is no JSON: {error}", file=file)) from None
    if isinstance(data, dict) and data.get("type") in ("FeatureCollection", "Feature"):
        try:
            whole = features(data)
            points = [one for one in whole if one["geometry"].get("type") == "Point"]
        except (ValueError, AttributeError) as error:
            raise ScenarioError(Problem(f"is no map of stations: {error}", file=file)) from None
        data = [
            {**one["properties"], "longitude": one["geometry"]["coordinates"][0],
             "latitude": one["geometry"]["coordinates"][1]}
            for one in points
        ]  # fmt: skip
        if lost := len(whole) - len(points):
            notices.append(Notice("note", file, None, "geometry", f"{lost} features that are no points are left out"))
        if high := raised(points):
            text = f"of {high} points the third coordinate, a height above the sea or the ellipsoid, has no effect"
            notices.append(Notice("ignored", file, None, "coordinates", text))
    if isinstance(data, dict):  # the first list in it
        data = next((value for value in data.values() if isinstance(value, list)), [])
    return [
        (1, {str(k): str(v) for k, v in one.items() if isinstance(v, (str, int, float))})
        for one in (data if isinstance(data, list) else [])
        if isinstance(one, dict)
    ]


def _heads(row: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is known -> the column's name and the unit in it."""
    found: dict[str, tuple[str, str]] = {}
    for key, names in _NAMES.items():
        dimension = (_DIMENSIONS | _ANGLES).get(key)
        plain = {column: head(column, dimension) if dimension else Head(plain_name(column)) for column in row}
        known = [(names.index(one.word), column, one.unit) for column, one in plain.items() if one.word in names]
        if known:
            _, column, unit = min(known, key=lambda one: one[0])
            found[key] = (column, unit)
    return found


def _station(
    row: Mapping[str, str], heads: Mapping[str, tuple[str, str]], file: Path, line: int, problems: list[Problem]
) -> StationSite | None:
    def wrong(column: str, message: str, hint: str = "") -> None:
        problems.append(Problem(message, column, file, line, hint=hint))

    place = []
    for key, most in (("latitude", 90.0), ("longitude", 180.0)):
        column, unit = heads[key]
        try:
            value = amount(row.get(column, ""), "angle", unit or "deg")
        except ValueError:
            value = float("nan")
        if not abs(value) <= most:
            wrong(column, f"'{row.get(column, '')[:30]}' is no {key} in degrees", "for example 45.0598")
            return None
        place.append(value)
    keys = {}
    for key, dimension in _DIMENSIONS.items():
        if key not in heads or not row.get(heads[key][0], "").strip():
            continue
        column, unit = heads[key]
        text = row[column].strip()
        try:
            value = amount(text, dimension, unit)
            text = f"{text} {unit}" if unit and re.fullmatch(r"[-+.\deE]+", text) else text
            keys[key] = text if _is_quantity(text, dimension) else show(value, dimension)
        except ValueError as error:
            hint = "name the unit in the cell (30 m) or in the head: height_m"
            wrong(column, str(error), hint if "unit" in str(error) else "")
            return None
    named = row.get(heads["name"][0], "") if "name" in heads else ""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", named).strip("-.") or str(line)
    return StationSite(f"station-{clean}"[:56], place[0], place[1], keys)
