"""Reading trajectory files: SUMO's floating car data in its three formats, and plain tables."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from xml.parsers import expat

import numpy as np

from cosim.adapters.replay.trajectories import Indices, TrajectorySamples
from cosim.contract import delimited
from cosim.contract.errors import ScenarioError
from cosim.contract.hints import no_file
from cosim.contract.reading import packed
from cosim.contract.reading.columns import Head, clock_of, head, past_midnight, plain_name, stamps
from cosim.contract.records import Floats
from cosim.contract.units import DIMENSIONS

if TYPE_CHECKING:
    import pyarrow as pa

# quantity -> what files call it; SUMO's own names first
NAMES: Mapping[str, tuple[str, ...]] = {
    "time": ("timestep_time", "time", "t", "timestamp"),
    "id": ("vehicle_id", "id", "vehicle", "node"),
    "x": ("vehicle_x", "x"),
    "y": ("vehicle_y", "y"),
    "z": ("vehicle_z", "z"),
    "speed": ("vehicle_speed", "speed"),
    "heading": ("vehicle_angle", "angle", "heading"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "longitude"),
    "height": ("height", "altitude", "alt"),
}
_DIMENSIONS = {
    "time": "time", "x": "length", "y": "length", "z": "length", "height": "length", "speed": "speed",
    "heading": "angle", "lat": "angle", "lon": "angle",
}  # fmt: skip
_BESIDE = ("vehicle_lane", "vehicle_edge", "vehicle_type", "person_id", "container_id")  # of SUMO: who a row is of
_WALKING = ("DEFAULT_PEDTYPE", "DEFAULT_CONTAINERTYPE")
BYTES_PER_SAMPLE = 160  # of memory at the peak: the raw columns and their sorted copies
FLIGHTS = (".ulg", ".tlog", ".bin")  # logs of autopilots
_EXACT = 16  # digits of a name up to which it is a number of its own
_CHUNK = 1 << 20  # bytes of XML handed to the parser at once


class UnreadableError(Exception):
    """A file cannot be replayed; `line` (from 1) where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


def read(path: Path, columns: Mapping[str, str], memory: float) -> TrajectorySamples:
    """All samples of `path`; the file's name determines the format. Raises `UnreadableError` with the reason.

    `columns` gives the file's own names for quantities, `memory` (B) bounds what may be read.
    """
    if no_file(path) is not None:
        raise UnreadableError("there is no such file")
    most = int(memory / BYTES_PER_SAMPLE)
    kind = kind_of(path)
    if kind == ".xml":
        return _read_xml(path, columns, most)
    if kind in (".csv", ".txt"):
        return _read_table(_csv_batches(path, columns), most, path)
    if kind in (".parquet", ".pq"):
        return _read_table(_parquet_batches(path, columns), most)
    if kind in FLIGHTS:
        from cosim.adapters.replay import flight, mavlog

        try:
            found = flight.read_px4(path, int(memory / 8)) if kind == ".ulg" else mavlog.read_mavlink(path, most)
            return flight.samples(found)
        except ValueError as error:
            raise UnreadableError(str(error)) from error
    raise UnreadableError(f"'{path.name}' is neither .xml, .csv, .ulg, .parquet, .tlog nor .bin (all also packed)")


def kind_of(path: Path) -> str:
    """The format by the file's name: ".csv" for cars.csv.gz."""
    return Path(packed.plain_name(path)).suffix


def _too_many(most: int) -> UnreadableError:
    return UnreadableError(
        f"it holds more than {most} samples, which is what 'memory' allows at {BYTES_PER_SAMPLE} B each; "
        "raise 'memory', or write fewer samples (SUMO: --fcd-output.period, --fcd-output.attributes)"
    )


def _read_xml(path: Path, columns: Mapping[str, str], most: int) -> TrajectorySamples:
    """FCD as XML, streamed: nothing but the columns is kept."""
    parser = expat.ParserCreate()
    codes: dict[str, int] = {}
    member, now = array("q"), array("d")
    values: dict[str, array[float]] = {}
    attributes: dict[str, str] = {}  # quantity -> attribute, known from the first vehicle on
    clock, walking = [float("-inf")], [0]

    def number(text: str | None, what: str) -> float:
        try:
            return float(cast(str, text))
        except (TypeError, ValueError):
            found = "missing" if text is None else f"'{text}', not a number"
            raise UnreadableError(f"{what} is {found}", parser.CurrentLineNumber) from None

    def begin(name: str, found: dict[str, str]) -> None:
        if name == "timestep":
            clock_time = clock_of(found.get("time", ""))  # as of --human-readable-time
            time = number(found.get("time"), "the time of a timestep") if math.isnan(clock_time) else clock_time
            if not time > clock[0]:
                raise UnreadableError(f"time {time:g} s comes after {clock[0]:g} s", parser.CurrentLineNumber)
            clock[0] = time
        elif name in ("person", "container"):
            walking[0] += 1
        elif name == "vehicle":
            if clock[0] == float("-inf"):
                raise UnreadableError("a vehicle stands outside of any timestep", parser.CurrentLineNumber)
            if not attributes:
                chosen = _choose(tuple(found), {**columns, "time": ""}, parser.CurrentLineNumber)
                attributes.update(chosen)
                values.update({name: array("d") for name in chosen if name != "id"})
            who = found.get(attributes["id"], "")
            if not who:
                raise UnreadableError("a vehicle has no id", parser.CurrentLineNumber)
            member.append(codes.setdefault(who, len(codes)))
            now.append(clock[0])
            for quantity, column in values.items():
                column.append(number(found.get(attributes[quantity]), f"{quantity} of '{who}'"))
            if len(member) > most:
                raise _too_many(most)

    parser.StartElementHandler = begin
    try:
        with packed.open_unpacked(path) as stream:
            while chunk := stream.read(_CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UnreadableError(f"it is not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from error
    except (OSError, zlib.error, *packed.FAULTS) as error:
        raise UnreadableError(f"it cannot be read: {error}") from error
    read = {quantity: np.frombuffer(column, np.float64) for quantity, column in values.items()}
    doubts = (f"{walking[0]} rows are of persons or containers: they are left out",) if walking[0] else ()
    columns_read = {"time": np.frombuffer(now, np.float64), **read}
    return TrajectorySamples(tuple(codes), np.frombuffer(member, np.int64), columns_read, doubts=doubts)


def _choose(found: tuple[str, ...], columns: Mapping[str, str], line: int | None = None) -> dict[str, str]:
    """Which column of the file holds which quantity; raises `UnreadableError` when a needed one is missing."""
    chosen: dict[str, str] = {}
    for quantity, names in NAMES.items():
        if quantity in columns:
            if columns[quantity] and columns[quantity] not in found:
                raise UnreadableError(f"there is no column '{columns[quantity]}'; it has {', '.join(found)}", line)
            if columns[quantity]:
                chosen[quantity] = columns[quantity]
        else:
            words = [_head(quantity, name).word for name in found]
            word = next((name for name in names if name in words), None)
            if word is not None:
                chosen[quantity], *others = (name for name, other in zip(found, words, strict=True) if other == word)
                if {*others} - {chosen[quantity]}:
                    text = f"'{chosen[quantity]}' and '{others[0]}' are both {quantity}; write which of them counts"
                    raise UnreadableError(f"{text}: columns: {{{quantity}: '{others[0]}'}}", line)
        if quantity in chosen and math.isnan((taken := _head(quantity, chosen[quantity])).factor):
            known = ", ".join(DIMENSIONS[_DIMENSIONS[quantity]])
            message = f"the unit '{taken.unit}' of column '{chosen[quantity]}' is none of {_DIMENSIONS[quantity]}"
            raise UnreadableError(f"{message} that is known ({known}, ...); name the column without it", line)
    needed = ("lat", "lon") if "lat" in chosen or "lon" in chosen else ("x", "y")
    for quantity in ("time", "id", *needed):
        if quantity not in chosen and columns.get(quantity) != "":
            expected = " or ".join(f"'{name}'" for name in NAMES[quantity])
            raise UnreadableError(f"there is no column for {quantity} ({expected}); it has {', '.join(found)}", line)
    return chosen


def _head(quantity: str, column: str) -> Head:
    """What the head of a column says, when it is that of a quantity."""
    if quantity not in _DIMENSIONS:
        return Head(plain_name(column))
    return head(column, _DIMENSIONS[quantity], frozenset(NAMES[quantity]))


def _csv_batches(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[dict[str, str], pa.RecordBatch]]:
    import pyarrow as pa

    try:
        line = delimited.first_line(path)
        if not line.strip():
            raise UnreadableError("it is empty")
        mark = delimited.mark_of(line)
        found = tuple(delimited.header(path, mark))
        chosen = _choose(found, columns, 1)
        types = {name: pa.string() if quantity in ("id", "time") else pa.float64() for quantity, name in chosen.items()}
        types |= {name: pa.string() for name in _BESIDE if name in found}
        for batch in delimited.batches(path, types, names=found, mark=mark, strings_can_be_null=True):
            yield chosen, batch
    except delimited.CellsError as error:
        raise UnreadableError(f"it {error.problems[0].message}", error.problems[0].line) from error


def _parquet_batches(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[dict[str, str], pa.RecordBatch]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            chosen = _choose(tuple(file.schema_arrow.names), columns)
            more = [name for name in _BESIDE if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=[*dict.fromkeys((*chosen.values(), *more))]):
                yield chosen, batch
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableError(f"it cannot be read as Parquet: {error}") from error


def _line(path: Path | None, rows: Indices, number: int) -> int | None:
    return None if path is None else delimited.line_of(path, int(rows[number]), 1)


def _read_table(
    batches: Iterator[tuple[dict[str, str], pa.RecordBatch]], most: int, path: Path | None = None
) -> TrajectorySamples:
    """Samples from record batches; rows without an id (a timestep without vehicles) are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes: dict[str, int] = {}
    members: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    parts: dict[str, list[Floats]] = {}
    count = unnamed = seen = walking = zoneless = 0
    dated = False
    chosen: dict[str, str] = {}
    for chosen, batch in batches:
        ids = batch.column(chosen["id"])
        if not pa.types.is_string(ids.type):
            ids = ids.cast(pa.string())
        ids = pc.utf8_trim_whitespace(ids)
        named = pc.fill_null(pc.not_equal(ids, ""), False)
        place = batch.column(chosen["lat" if "lat" in chosen else "x"])
        unnamed += pc.sum(pc.and_(pc.invert(named), pc.is_valid(place))).as_py() or 0
        walkers = _walkers(batch, named)
        walking += pc.sum(walkers).as_py() or 0
        named = pc.and_(named, pc.invert(walkers))
        batch, ids = batch.filter(named), ids.filter(named)
        count += len(ids)
        if count > most:
            raise _too_many(most)
        encoded = ids.dictionary_encode()
        local = np.array([codes.setdefault(name, len(codes)) for name in encoded.dictionary.to_pylist()], np.int64)
        members.append(local[encoded.indices.to_numpy(zero_copy_only=False)])
        for quantity, name in chosen.items():
            if quantity == "id":
                continue
            column = batch.column(name)
            try:
                values = _values(column, name)
            except UnreadableError:
                if quantity != "time":
                    raise
                dated, rows = True, np.flatnonzero(named.to_numpy(zero_copy_only=False)) + seen
                values, spelt = _dates(column, name, partial(_line, path, rows))
                zoneless += spelt
            parts.setdefault(quantity, []).append(values)
        seen += len(named)
    if not count:
        raise UnreadableError("there is no sample in it")
    read = {quantity: np.concatenate(part) for quantity, part in parts.items()}
    member, midnights = np.concatenate(members), 0
    taken, begin = [], 0.0
    for quantity, name in chosen.items():
        said = _head(quantity, name)
        if quantity == "time":
            found = stamps(read["time"], "time", None if dated else said.unit or None)
            if found.wrong:
                raise UnreadableError(f"'{name}' has {found.wrong} times of another size, the first {found.example}")
            if found.absolute:  # a run begins at time 0
                begin = float(np.nanmin(found.seconds))
                taken.append(f"time counts from {np.datetime64(round(begin * 1e3), 'ms')}Z")
            elif dated:
                seconds, midnights = past_midnight(found.seconds, member)
                found = found._replace(seconds=seconds)
            read["time"] = found.seconds - begin
        elif quantity != "id":
            read[quantity] = read[quantity] * said.factor
        if said.unit:
            taken.append(f"{quantity} is taken from '{name}' in {said.unit}")
    doubts = [f"{unnamed} rows have a place and no {chosen['id']}: they are left out"] if unnamed else []
    doubts += [f"{walking} rows are of persons or containers: they are left out"] if walking else []
    if 0 < zoneless < count:
        doubts.append(f"{zoneless} times name no time zone, and others do: they are taken as UTC")
    doubts += [f"{midnights} times of day pass midnight: the rows behind are of the next day"] if midnights else []
    doubts += _spellings(codes)
    declared = chosen["time"] == NAMES["time"][0]  # SUMO's
    return TrajectorySamples(
        tuple(codes), member, read, begin=begin, declared=declared, taken=tuple(taken), doubts=tuple(doubts)
    )


def _spellings(names: Iterable[str]) -> Iterator[str]:
    """A doubt where members have one number in several spellings, as programs write `1` and `1.0` for one column."""
    known: dict[float, str] = {}
    for name in names:
        with suppress(ValueError):
            if len(name) < _EXACT and (other := known.setdefault(float(name), name)) != name:
                yield f"'{other}' and '{name}' are one number and two members: is it one, in two spellings?"
                return


def _walkers(batch: pa.RecordBatch, named: pa.Array) -> pa.Array:
    """Which rows are of persons or containers, as SUMO writes them among the vehicles, or beside them (xml2csv)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = set(batch.schema.names)

    def filled(column: str) -> pa.Array:
        if column not in there:
            return pa.array(np.zeros(batch.num_rows, np.bool_))
        return pc.fill_null(pc.not_equal(batch.column(column).cast(pa.string()), ""), False)

    found = pc.and_(pc.invert(named), pc.or_(filled("person_id"), filled("container_id")))
    if "vehicle_type" in there:
        kinds = batch.column("vehicle_type").cast(pa.string())
        found = pc.or_(found, pc.fill_null(pc.is_in(kinds, pa.array(_WALKING)), False))
    if {"vehicle_lane", "vehicle_edge"} <= there and pc.any(filled("vehicle_lane")).as_py():  # else none has a lane
        found = pc.or_(found, pc.and_(filled("vehicle_edge"), pc.invert(filled("vehicle_lane"))))
    return found


def _values(column: pa.Array, name: str) -> Floats:
    """(rows,) numbers of a column. Raises `UnreadableError`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        plain = pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column
        return cast("Floats", plain.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnreadableError(f"column '{name}' does not hold numbers: {error}") from error


def _dates(column: pa.Array, name: str, line_of: Callable[[int], int | None]) -> tuple[Floats, int]:
    """(rows,) s of dates or times of day, and how many dates have no time zone. Raises `UnreadableError`."""
    try:
        found = stamps(column.to_numpy(zero_copy_only=False), name)
    except ScenarioError as error:
        raise UnreadableError(f"{error.problems[0]}", line_of(0)) from error
    if found.wrong:
        row = int(np.argmax(np.isnan(found.seconds)))
        raise UnreadableError(f"column '{name}' holds '{found.example[:40]}', which is no time", line_of(row))
    return found.seconds, found.local
