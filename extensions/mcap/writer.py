"""Runs as MCAP files (mcap.dev), which Foxglove, PlotJuggler and other robotics tools open.

Log times are simulated times in ns. Topics:

- `/tf`: `foxglove.FrameTransforms`, where nodes are in the local frame `map` (east, north, up), m;
- `/location/NAME`: `foxglove.LocationFix`, where they are in WGS84, if the scenario has an origin;
- `/events`: `foxglove.Log`, what the scenario made happen;
- `/SIGNAL/NAME`: every recorded signal, a message per row with the columns of results and a JSON schema of its own.

NAME is a node of the scenario, or a fleet, whose members share a topic and are distinguished by `node`. With more
than `MOST_NODES` nodes and fleets, each signal has one topic, `/SIGNAL`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.geo import LocalFrame
from cosim.contract.signals import CATALOGUE
from cosim.results.load import Run

if TYPE_CHECKING:
    from mcap.writer import Writer

MOST_NODES = 1000
_AT_ONCE = 200_000  # rows that are sorted at a time
_FRAME = "map"
_TYPES = {"BOOLEAN": "boolean", "VARCHAR": "string", "TINYINT": "integer", "SMALLINT": "integer",
          "INTEGER": "integer", "BIGINT": "integer"}  # fmt: skip
_LEVEL_INFO, _LEVEL_WARNING = 2, 3  # of foxglove.Log

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class McapFile:
    """What was written."""

    path: Path
    messages: int
    topics: Mapping[str, int]  # topic -> messages


def write_mcap(run: Run, out: Path, *, force: bool = False) -> McapFile:
    """Write `run` to `out`, all of it or nothing.

    Raises `SetupError` when `out` is there already, unless `force`, and where the package mcap is not installed.
    """
    try:
        from mcap.writer import Writer
    except ImportError:
        raise SetupError(f"module 'mcap' is not installed: {how_to_install('mcap')}") from None
    if out.exists() and not force:
        raise SetupError(f"{out} is there already; name another file with --out, or replace it with --force")
    if not out.parent.is_dir():
        raise SetupError(f"there is no folder {out.parent}")
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("wb") as file:
            writer = Writer(file)
            writer.start(library="continuum-cosim")
            topics = _Topics(writer)
            _describe(writer, run)
            for time, topic, schema, document in _messages(run):
                topics.write(round(time * 1e9), topic, schema, document)
            writer.finish()  # type: ignore[no-untyped-call]
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return McapFile(out, topics.counts.total(), dict(sorted(topics.counts.items())))


class _Topics:
    """Channels by topic, made when they are first written to."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self.counts: Counter[str] = Counter()

    def write(self, time: int, topic: str, schema: Document, document: Document) -> None:
        """One message, `time` in ns."""
        if topic not in self._channels:
            name = schema["title"]
            if name not in self._schemas:
                self._schemas[name] = self._writer.register_schema(name, "jsonschema", _json(schema))
            self._channels[topic] = self._writer.register_channel(topic, "json", self._schemas[name])
        self._writer.add_message(self._channels[topic], time, _json(document), time, self.counts[topic] % 2**32)
        self.counts[topic] += 1


def _describe(writer: Writer, run: Run) -> None:
    """What the run was, and its scenario."""
    words = ("scenario", "title", "seed", "status", "started", "digest")
    writer.add_metadata(
        "cosim", {word: str(run.manifest[word]) for word in words if run.manifest.get(word) is not None}
    )
    scenario = run.path / "scenario.resolved.yaml"
    if scenario.is_file():
        writer.add_attachment(0, 0, scenario.name, "application/yaml", scenario.read_bytes())


def _messages(run: Run) -> Iterator[tuple[float, str, Document, Document]]:
    """(s, topic, schema, message) of everything, by time."""
    known = run.sql("SELECT node, fleet, x, y, z, first_seen FROM nodes ORDER BY slot, generation").fetchall()
    fleets = {node: fleet for node, fleet, *_ in known}
    apart = len({fleet or node for node, fleet in fleets.items()}) <= MOST_NODES
    geo = run.plan["scene"]["geo"]
    places = _Places(LocalFrame(**geo) if geo else None)

    def topic(word: str, node: str) -> str:
        return f"/{word}/{fleets.get(node) or node}" if apart else f"/{word}"

    moving = set[str]()
    if "mobility" in run.signals:
        moving.update(row[0] for row in run.sql("SELECT DISTINCT node FROM mobility").fetchall())
    still = [(node, x, y, z, 0.0, 90.0) for node, _, x, y, z, _ in known if node not in moving and x is not None]
    if still:
        yield 0.0, "/tf", TRANSFORMS, places.transforms(0.0, still)
        for row in still:
            for fix in places.fixes(0.0, row):
                yield 0.0, topic("location", row[0]), FIX, fix
    schemas = {name: _schema(run, name) for name in run.signals}
    for first, last in _windows(run):
        rows: list[tuple[float, str, tuple[Any, ...]]] = []
        for name in [*run.signals, "events"]:
            cursor = run.execute(f'SELECT * FROM "{name}" WHERE time >= ? AND time < ? ORDER BY ALL', [first, last])
            rows += [(row[0], name, row) for row in cursor.fetchall()]
        rows.sort(key=lambda row: row[0])  # stable: signals by name, rows by their columns
        for time, group in groupby(rows, key=lambda row: row[0]):
            now = [(name, row) for _, name, row in group]
            here = [row[1:7] for name, row in now if name == "mobility"]
            if here:
                yield time, "/tf", TRANSFORMS, places.transforms(time, here)
            for place in here:
                for fix in places.fixes(time, place):
                    yield time, topic("location", place[0]), FIX, fix
            for name, row in now:
                if name == "events":
                    yield time, "/events", LOG, _log(time, *row[1:4])
                    continue
                document = dict(zip(schemas[name]["properties"], map(_plain, row), strict=True))
                yield time, topic(name, row[1]), schemas[name], document


def _windows(run: Run) -> Iterator[tuple[float, float]]:
    """Spans of time with not too many rows each."""
    reported = [run.sql(f'SELECT count(*), max(time) FROM "{name}"').fetchall()[0] for name in run.signals]
    rows, end = sum(int(count) for count, _ in reported), max((last or 0.0 for _, last in reported), default=0.0)
    count = max(1, math.ceil(rows / _AT_ONCE))
    edges = [k * end / count for k in range(count)]
    yield from zip(edges, [*edges[1:], math.inf], strict=True)


class _Places:
    """Where nodes are, in the words of Foxglove."""

    def __init__(self, frame: LocalFrame | None) -> None:
        self._frame = frame

    def transforms(self, time: float, places: list[tuple[Any, ...]]) -> Document:
        """Rows (node, x, y, z, speed, heading) as transforms from the local frame; x points ahead."""
        found = []
        for node, x, y, z, _, heading in places:
            half = math.radians(90.0 - heading) / 2.0  # counterclockwise from east
            found.append({
                "timestamp": _stamp(time), "parent_frame_id": _FRAME, "child_frame_id": node,
                "translation": {"x": x, "y": y, "z": z},
                "rotation": {"x": 0.0, "y": 0.0, "z": math.sin(half), "w": math.cos(half)},
            })  # fmt: skip
        return {"transforms": found}

    def fixes(self, time: float, place: tuple[Any, ...]) -> Iterator[Document]:
        """The place in WGS84, if the local frame has an origin."""
        if self._frame is None:
            return
        node, x, y, z = place[:4]
        latitude, longitude, height = (float(part) for part in self._frame.to_wgs84(x, y, z))
        yield {
            "timestamp": _stamp(time), "frame_id": node, "latitude": latitude, "longitude": longitude,
            "altitude": height, "position_covariance": [0.0] * 9, "position_covariance_type": 0,
        }  # fmt: skip


def _log(time: float, kind: str, node: str | None, detail: str | None) -> Document:
    return {
        "timestamp": _stamp(time), "level": _LEVEL_WARNING if kind == "fail" else _LEVEL_INFO,
        "message": " ".join(filter(None, (kind, node, detail))), "name": node or "", "file": "", "line": 0,
    }  # fmt: skip


def _stamp(time: float) -> Document:
    return dict(zip(("sec", "nsec"), divmod(round(time * 1e9), 1_000_000_000), strict=True))


def _plain(value: object) -> object:
    """What JSON has: null for numbers that are not known or infinite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _schema(run: Run, signal: str) -> Document:
    """The JSON schema of a signal's rows: type, meaning and unit of each column."""
    table = run.table(signal)
    units = run.manifest.get("signals", {}).get(signal, {}).get("columns", {})
    catalogued = CATALOGUE.get(signal)
    meanings = {column.name: column.meaning for column in catalogued.columns} if catalogued else {}
    properties = {
        name: {
            "type": [_TYPES.get(str(kind), "number" if str(kind) in ("DOUBLE", "FLOAT") else "string"), "null"],
            "description": ", ".join(filter(None, (meanings.get(name, ""), _unit(name, units)))),
        }
        for name, kind in zip(table.columns, table.types, strict=True)
    }  # fmt: skip
    return {"title": f"cosim.{signal}", "type": "object", "properties": properties}


def _unit(column: str, units: Mapping[str, str]) -> str:
    return "simulated time, s" if column == "time" else units.get(column, "")


def export(folder: Path, out: Path | None, *, force: bool = False) -> McapFile:
    """The run in `folder` as an MCAP file, by default NAME.mcap here."""
    from cosim.results.load import load

    with closing(load(folder)) as run:
        return write_mcap(run, out or Path(f"{run.path.name}.mcap"), force=force)


# The parts of Foxglove's own schemas (foxglove.dev/docs/sdk/schemas) that are written; tools know them by their titles.

_NUMBER = {"type": "number"}
_STAMP = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}


def _numbers(*names: str) -> Document:
    return {"type": "object", "properties": dict.fromkeys(names, _NUMBER)}


TRANSFORMS: Document = {
    "title": "foxglove.FrameTransforms", "type": "object",
    "properties": {"transforms": {"type": "array", "items": {
        "title": "foxglove.FrameTransform", "type": "object",
        "properties": {
            "timestamp": _STAMP, "parent_frame_id": {"type": "string"}, "child_frame_id": {"type": "string"},
            "translation": {"title": "foxglove.Vector3", **_numbers("x", "y", "z")},
            "rotation": {"title": "foxglove.Quaternion", **_numbers("x", "y", "z", "w")},
        },
    }}},
}  # fmt: skip
FIX: Document = {
    "title": "foxglove.LocationFix", "type": "object",
    "properties": {
        "timestamp": _STAMP, "frame_id": {"type": "string"}, "latitude": _NUMBER, "longitude": _NUMBER,
        "altitude": _NUMBER, "position_covariance": {"type": "array", "items": _NUMBER, "minItems": 9, "maxItems": 9},
        "position_covariance_type": {"type": "integer"},
    },
}  # fmt: skip
LOG: Document = {
    "title": "foxglove.Log", "type": "object",
    "properties": {
        "timestamp": _STAMP, "level": {"type": "integer"}, "message": {"type": "string"},
        "name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "integer"},
    },
}  # fmt: skip
