"""Reading trajectory files: SUMO's floating car data in its three formats, and plain tables."""

from __future__ import annotations

import gzip
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from xml.parsers import expat

import numpy as np

from cosim.adapters.replay.trajectories import Floats, Samples

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
BYTES_PER_SAMPLE = 160  # of memory at the peak: the raw columns and their sorted copies
FLIGHTS = (".ulg", ".tlog", ".bin")  # logs of autopilots
_CHUNK = 1 << 20  # bytes of XML handed to the parser at once


class UnreadableError(Exception):
    """A file cannot be replayed; `line` (from 1) where that is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


def read(path: Path, columns: Mapping[str, str], memory: float) -> Samples:
    """All samples of `path`; the file's name determines the format. Raises `UnreadableError` with the reason.

    `columns` gives the file's own names for quantities, `memory` (B) bounds what may be read.
    """
    if not path.is_file():
        raise UnreadableError("there is no such file")
    most = int(memory / BYTES_PER_SAMPLE)
    kind = kind_of(path)
    if kind == ".xml":
        return _read_xml(path, columns, most)
    if kind in (".csv", ".txt"):
        return _read_table(_csv_batches(path, columns), most)
    if kind in (".parquet", ".pq"):
        return _read_table(_parquet_batches(path, columns), most)
    if kind in FLIGHTS:
        from cosim.adapters.replay import flight, mavlog

        try:
            found = flight.read_px4(path, int(memory / 8)) if kind == ".ulg" else mavlog.read_mavlink(path, most)
            return flight.samples(found)
        except ValueError as error:
            raise UnreadableError(str(error)) from error
    raise UnreadableError(f"'{path.name}' is neither .xml, .csv, .ulg (all also .gz), .parquet, .tlog nor .bin")


def kind_of(path: Path) -> str:
    """The format by the file's name: ".csv" for cars.csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes or [""])[-1]


def _too_many(most: int) -> UnreadableError:
    return UnreadableError(
        f"it holds more than {most} samples, which is what 'memory' allows at {BYTES_PER_SAMPLE} B each; "
        "raise 'memory', or write fewer samples (SUMO: --fcd-output.period, --fcd-output.attributes)"
    )


def _read_xml(path: Path, columns: Mapping[str, str], most: int) -> Samples:
    """FCD as XML, streamed: nothing but the columns is kept."""
    parser = expat.ParserCreate()
    codes: dict[str, int] = {}
    member, now = array("q"), array("d")
    values: dict[str, array[float]] = {}
    attributes: dict[str, str] = {}  # quantity -> attribute, known from the first vehicle on
    clock = [float("-inf")]

    def number(text: str | None, what: str) -> float:
        try:
            return float(cast(str, text))
        except (TypeError, ValueError):
            found = "missing" if text is None else f"'{text}', not a number"
            raise UnreadableError(f"{what} is {found}", parser.CurrentLineNumber) from None

    def begin(name: str, found: dict[str, str]) -> None:
        if name == "timestep":
            time = number(found.get("time"), "the time of a timestep")
            if not time > clock[0]:
                raise UnreadableError(f"time {time:g} s comes after {clock[0]:g} s", parser.CurrentLineNumber)
            clock[0] = time
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
        with _open(path) as stream:
            while chunk := stream.read(_CHUNK):
                parser.Parse(chunk, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise UnreadableError(f"it is not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from error
    except (OSError, EOFError) as error:
        raise UnreadableError(f"it cannot be read: {error}") from error
    read = {quantity: np.frombuffer(column, np.float64) for quantity, column in values.items()}
    return Samples(tuple(codes), np.frombuffer(member, np.int64), {"time": np.frombuffer(now, np.float64), **read})


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


def _choose(found: tuple[str, ...], columns: Mapping[str, str], line: int | None = None) -> dict[str, str]:
    """Which column of the file holds which quantity; raises `UnreadableError` when a needed one is missing."""
    chosen: dict[str, str] = {}
    lower = {name.lower(): name for name in reversed(found)}
    for quantity, names in NAMES.items():
        if quantity in columns:
            if columns[quantity] and columns[quantity] not in found:
                raise UnreadableError(f"there is no column '{columns[quantity]}'; it has {', '.join(found)}", line)
            if columns[quantity]:
                chosen[quantity] = columns[quantity]
        else:
            match = next((lower[name] for name in names if name in lower), None)
            if match is not None:
                chosen[quantity] = match
    needed = ("lat", "lon") if "lat" in chosen or "lon" in chosen else ("x", "y")
    for quantity in ("time", "id", *needed):
        if quantity not in chosen and columns.get(quantity) != "":
            expected = " or ".join(f"'{name}'" for name in NAMES[quantity])
            raise UnreadableError(f"there is no column for {quantity} ({expected}); it has {', '.join(found)}", line)
    return chosen


def _csv_batches(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[dict[str, str], pa.RecordBatch]]:
    import pyarrow as pa
    from pyarrow import csv

    try:
        with _open(path) as stream:
            header = stream.readline(1 << 16).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UnreadableError(f"it cannot be read: {error}") from error
    if not header.strip():
        raise UnreadableError("it is empty")
    separator = max(";,\t", key=header.count)
    found = tuple(name.strip().strip('"') for name in header.strip("\r\n").split(separator))
    chosen = _choose(found, columns, 1)
    types = {name: pa.string() if quantity == "id" else pa.float64() for quantity, name in chosen.items()}
    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(use_threads=False, column_names=list(found), skip_rows=1, block_size=_CHUNK),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=types, strings_can_be_null=True
            ),
        )
        for batch in reader:
            yield chosen, batch
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            raise UnreadableError("it holds a header and nothing else") from error
        raise UnreadableError(str(error)) from error
    except (OSError, EOFError) as error:
        raise UnreadableError(f"it cannot be read: {error}") from error


def _parquet_batches(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[dict[str, str], pa.RecordBatch]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            chosen = _choose(tuple(file.schema_arrow.names), columns)
            for batch in file.iter_batches(columns=list(chosen.values())):
                yield chosen, batch
    except (pa.ArrowInvalid, OSError) as error:
        raise UnreadableError(f"it cannot be read as Parquet: {error}") from error


def _read_table(batches: Iterator[tuple[dict[str, str], pa.RecordBatch]], most: int) -> Samples:
    """Samples from record batches; rows without an id (a timestep without vehicles) are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes: dict[str, int] = {}
    members: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    parts: dict[str, list[Floats]] = {}
    count = 0
    for chosen, batch in batches:
        ids = batch.column(chosen["id"])
        if not pa.types.is_string(ids.type):
            ids = ids.cast(pa.string())
        named = pc.and_(pc.is_valid(ids), pc.not_equal(ids, ""))
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
            try:
                column = batch.column(name).cast(pa.float64())
            except pa.ArrowInvalid as error:
                raise UnreadableError(f"column '{name}' does not hold numbers: {error}") from error
            parts.setdefault(quantity, []).append(column.to_numpy(zero_copy_only=False))
    if not count:
        raise UnreadableError("there is no sample in it")
    return Samples(
        tuple(codes), np.concatenate(members), {quantity: np.concatenate(part) for quantity, part in parts.items()}
    )
