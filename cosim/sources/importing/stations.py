"""Base stations from a table of sites: CSV, or JSON with a list of objects.

Columns are found by usual names, whatever their case: latitude and longitude (deg), height, carrier, bandwidth,
power, gain, azimuth, name. Quantities have their unit in the cell ("3.5 GHz") or in the head
(`height_m`, `carrier (MHz)`).
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.geo import LocalFrame
from cosim.contract.units import parse
from cosim.sources.importing.imported import Imported, Notice
from cosim.sources.importing.properties import read_bytes

MOST = 5_000
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
_HEAD = re.compile(r"\s*(.*?)(?:[_\s]*[\[(](?P<a>[^)\]]+)[)\]]|_(?P<b>m|km|mhz|ghz|hz|khz|dbm|db|dbi|deg))?\s*", re.I)
_UNITS = {"mhz": "MHz", "ghz": "GHz", "hz": "Hz", "khz": "kHz", "dbm": "dBm", "db": "dB", "dbi": "dBi"}


@dataclass(frozen=True, slots=True)
class StationSite:
    """A site: its position, and what its file states about the cell, as text with units."""

    name: str
    latitude: float  # deg
    longitude: float  # deg
    keys: Mapping[str, str] = field(default_factory=dict)  # of `cell`, only those in the file


def read_stations(file: Path) -> tuple[list[StationSite], list[Notice]]:
    """The stations of `file`, in its order. Raises `ScenarioError` with every mistake in it."""
    text = read_bytes(file).decode("utf-8-sig", errors="replace")
    rows = _json_rows(text, file) if file.suffix == ".json" else _csv_rows(text, file)
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
    for line, row in rows:
        station = _station(row, heads, file, line, problems)
        if station is not None:
            name, number = station.name, 2
            while name in seen:
                name, number = f"{station.name}-{number}", number + 1
            seen.add(name)
            found.append(StationSite(name, station.latitude, station.longitude, station.keys))
    if problems:
        raise ScenarioError(problems)
    notices = []
    if "azimuth" in heads:
        text = "cells radiate alike in all directions; the sectors of a site are cells of their own at one place"
        notices.append(Notice("ignored", file, 1, heads["azimuth"][0], text))
    return found, notices


def read(file: Path, *, users: int = 100, seed: int = 1) -> Imported:
    """A scenario with the stations of `file` and `users` devices that stand around them, drawn under `seed`."""
    stations, notices = read_stations(file)
    middle = center(stations)
    frame = LocalFrame(*middle)
    places = positions(stations, frame)
    rng = np.random.default_rng(seed)
    near = rng.integers(len(places), size=users)
    around = np.array(places)[near, :2] + rng.normal(0.0, 100.0, (users, 2))
    nodes = [f"  user-{k}: {{kind: user, at: [{x:.1f} m, {y:.1f} m, 0 m]}}" for k, (x, y) in enumerate(around, 1)]
    text = _TEXT.format(
        name=re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:60] or "stations",
        title=f"{len(stations)} base stations of {file.name}",
        latitude=middle[0],
        longitude=middle[1],
        nodes="\n".join([*lines(stations, places), *nodes]),
    )
    return Imported(text, tuple(notices), facts={"stations": len(stations), "users": users})


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


def _csv_rows(text: str, file: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        dialect = csv.Sniffer().sniff(text[:4096], ",;\t")
    except csv.Error:
        dialect = csv.excel
    reader = csv.DictReader(io.StringIO(text), dialect=dialect)
    try:
        return [(reader.line_num, {str(k): str(v or "") for k, v in row.items() if k is not None}) for row in reader]
    except csv.Error as error:
        raise ScenarioError(Problem(f"is no table: {error}", file=file, line=reader.line_num)) from None


def _json_rows(text: str, file: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(Problem(f"is no JSON: {error}", file=file)) from None
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
    for column in row:
        match = _HEAD.fullmatch(column)
        word = re.sub(r"[^a-z0-9]+", "_", (match[1] if match else column).lower()).strip("_")
        unit = (match["a"] or match["b"] or "") if match else ""
        for key, names in _NAMES.items():
            if word in names and (key not in found or names.index(word) < names.index(_word(found[key][0]))):
                found[key] = (column, _UNITS.get(unit.lower(), unit))
    return found


def _word(column: str) -> str:
    match = _HEAD.fullmatch(column)
    return re.sub(r"[^a-z0-9]+", "_", (match[1] if match else column).lower()).strip("_")


def _station(
    row: Mapping[str, str], heads: Mapping[str, tuple[str, str]], file: Path, line: int, problems: list[Problem]
) -> StationSite | None:
    def wrong(column: str, message: str, hint: str = "") -> None:
        problems.append(Problem(message, column, file, line, hint=hint))

    place = []
    for key, most in (("latitude", 90.0), ("longitude", 180.0)):
        column = heads[key][0]
        try:
            value = float(row.get(column, ""))
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
        text = f"{text} {unit}" if unit and re.fullmatch(r"[-+.\deE]+", text) else text
        try:
            parse(text, dimension)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            wrong(column, message, hint + ", or name the unit in the head: height_m" if "no unit" in message else hint)
            return None
        keys[key] = text
    named = row.get(heads["name"][0], "") if "name" in heads else ""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "-", named).strip("-.") or str(line)
    return StationSite(f"station-{clean}"[:56], place[0], place[1], keys)


_TEXT = """\
apiVersion: cosim/v1
kind: Scenario
name: {name}
title: {title}
run: {{duration: 1 min, step: 1 s}}
geo: {{origin: [{latitude}, {longitude}, 0 m]}}
adapters:
  radio: {{model: umi}}
  continuum: {{scheduler: least-loaded}}
kinds:
  user: {{tier: device, radio: {{power: 23 dBm, height: 1.5 m}}}}
  station: {{kind: base-station, cpu: 4 x 2.1 GHz, cell: {{power: 33 dBm, height: 10 m, carrier: 3.5 GHz}}}}
nodes:
{nodes}
  cloud: {{kind: cloud, cpu: 64 x 2.2 GHz}}
links:
  - {{between: ["kind:station", cloud], rate: 1 Gbit/s, delay: 15 ms}}
workloads:
  navigation:
    {{from: user-*, arrivals: poisson 20 /min, input: 20 kB, output: 20 kB, work: 160 Mcycles, deadline: 500 ms}}
"""
