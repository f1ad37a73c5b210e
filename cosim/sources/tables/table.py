"""Tables as they were written: CSV, Parquet, exports of monitoring systems.

table = read("power.csv.gz")                            # or Parquet, JSON of Prometheus and OTLP
times = stamps(table.column("ts"), "ts")                # numbers, s/ms/us/ns since 1970, ISO dates
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.sources.tables import exports

Floats = NDArray[np.float64]
TIMES = ("time", "t", "ts", "timestamp", "datetime", "date", "created", "arrived", "arrival", "start", "at")
ENDINGS = (".csv", ".tsv", ".parquet")  # of names of files that are tables; the first two also with .gz
NOTHING = frozenset({"", "-", "n/a", "na", "nan", "null", "none"})  # cells that stand for no value
_COMMA = re.compile(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][-+]?\d+)?\s*$")  # 1.234,5
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$")  # 1.234, where a comma is the mark of decimals
_MARKS = ",;\t|"  # between cells
_FOREIGN = {  # first bytes of files that hold tables, but are none
    b"PK\x03\x04": ("an archive or a workbook (.zip, .xlsx, .ods)", "unpack it, or save the sheet as CSV"),
    b"\xd0\xcf\x11\xe0": ("a workbook of Excel (.xls)", "save the sheet as CSV"),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "unpack it: zstd -d"),
    b"BZh": ("packed with bzip2", "unpack it: bunzip2"),
    b"\xfd7zXZ": ("packed with xz", "unpack it: unxz"),
}
# Numbers this large are times since 1970: their unit by the power of ten.
_EPOCHS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e-3), (1e14, 1e17, 1e-6), (1e17, 1e20, 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length as they were read, and where they come from."""

    columns: Mapping[str, NDArray[Any]]  # numbers, or text
    path: Path
    digest: str = ""  # SHA-256 of the file
    sparse: bool = False  # a row holds one of several quantities, and the cells of the others are empty

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def source(self) -> str:
        """What data this is, for the provenance of a calibration."""
        return f"{self.path.name}: {len(self)} rows, sha256 {self.digest[:16]}"

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column. Raises `ScenarioError` that names the nearest one there is."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, otherwise="columns")
            raise ScenarioError(Problem(f"{self.path.name} has no column '{name}'", file=self.path, hint=hint))
        return self.columns[name]


def is_table(path: Path) -> bool:
    """Whether the file name is that of a table."""
    name = path.name.lower()
    return name.removesuffix(".gz").endswith(ENDINGS[:2]) or name.endswith(ENDINGS)


def read(path: str | Path, *, header: Sequence[str] | None = None) -> Table:
    """The table in a CSV or Parquet file (CSV also packed by gzip), or an export of a monitoring system.

    The first bytes of a file determine its format. `header` names the columns of a CSV file without a header line.
    Raises `ScenarioError` for files that cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, sorted(there), otherwise="files there")
        raise ScenarioError(Problem("there is no such file", file=path, hint=hint))
    try:
        raw = path.read_bytes()
        for begin, (what, hint) in _FOREIGN.items():
            if raw.startswith(begin):
                raise ScenarioError(Problem(f"is {what}, no table", file=path, hint=hint))
        if path.suffix.lower() == ".parquet" or raw.startswith(b"PAR1"):
            import pyarrow as pa
            import pyarrow.parquet as parquet

            data = parquet.read_table(pa.BufferReader(raw))
            columns = {name: np.asarray(data[name].to_numpy()) for name in data.column_names}
        else:
            packed = path.suffix.lower() == ".gz" or raw.startswith(b"\x1f\x8b")
            plain = gzip.decompress(raw) if packed else raw
            wide = plain.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # Excel's "Unicode text"
            text = plain.decode("utf-16" if wide else "utf-8-sig")
            if header is None and exports.is_export(text):
                return Table(exports.columns(text), path, hashlib.sha256(raw).hexdigest(), sparse=True)
            columns = _csv(text, header)
    except UnicodeDecodeError:
        hint = "save it as UTF-8: iconv -f LATIN1 -t UTF-8"
        raise ScenarioError(Problem("is not text in UTF-8", file=path, hint=hint)) from None
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        raise ScenarioError(Problem(f"cannot be read: {error}", file=path)) from None
    return Table(columns, path, hashlib.sha256(raw).hexdigest())


def _csv(text: str, header: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    lines = [line for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    mark = max(_MARKS, key=first.count)
    if re.fullmatch(rf"sep=[{_MARKS}]", first.strip()):  # a line of Excel's own
        mark, lines = first.strip()[-1], lines[1:]
    rows = [row for row in csv.reader(lines, delimiter=mark) if row]
    if header is None:
        if not rows:
            raise ValueError("it is empty")
        header, rows = [name.strip() for name in rows[0]], rows[1:]
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise ValueError(f"two columns are called '{twice[0]}'")
    for line, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"data row {line} has {len(row)} cells, and there are {len(header)} columns")
    columns = [[row[k] for row in rows] for k in range(len(header))]
    if mark != "," and any(_COMMA.match(cell) for cells in columns for cell in cells):
        columns = [_with_points(cells) for cells in columns]
    return {name: np.array(cells, dtype=str) for name, cells in zip(header, columns, strict=True)}


def _with_points(cells: Sequence[str]) -> list[str]:
    """The cells of a table in which a comma is the mark of decimals, as in much of Europe, with a point instead.

    Points are marks of thousands where every cell of the column with one has it where thousands end.
    """
    grouped = all(_COMMA.match(cell) or _GROUPED.match(cell) for cell in cells if "." in cell)
    return [
        cell.replace(".", "").replace(",", ".") if _COMMA.match(cell) or (grouped and _GROUPED.match(cell)) else cell
        for cell in cells
    ]


class NumericCells(NamedTuple):
    """What the cells of a column hold."""

    values: Floats  # (m,) NaN where a cell holds something else, or nothing
    wrong: int  # cells that hold something else
    example: str  # the first of them


class Stamps(NamedTuple):
    """Times of rows."""

    seconds: Floats  # (m,) s; NaN where a cell is no time
    absolute: bool  # since 1970, or as the table counts them
    wrong: int  # cells that are no times
    example: str  # the first of them
    local: int = 0  # dates without a time zone, which are taken as UTC


def numbers(column: NDArray[Any]) -> NumericCells:
    """The numbers of a column."""
    if column.dtype.kind in "iufb":
        return NumericCells(column.astype(np.float64), 0, "")
    if column.dtype.kind == "m":  # durations, in s
        return NumericCells(column / np.timedelta64(1, "s"), 0, "")
    texts = ["" if cell is None else str(cell).strip() for cell in column.tolist()]
    try:
        return NumericCells(np.array([text or "nan" for text in texts]).astype(np.float64), 0, "")
    except ValueError:
        values, wrong = np.full(len(texts), np.nan), list[str]()
    for row, text in enumerate(texts):
        try:
            values[row] = float(text) if text else np.nan
        except ValueError:
            wrong.append(text)
    return NumericCells(values, len(wrong), wrong[0])


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def time_column(table: Table, named: str | None) -> str | None:
    """The column of times: `named`, or the first of `TIMES` that the table has; None without one.

    Raises `ScenarioError` if there is no column `named`.
    """
    if named is not None:
        table.column(named)
        return named
    lower = {name.lower(): name for name in reversed(list(table.columns))}
    return next((lower[name] for name in TIMES if name in lower), None)


def stamps(column: NDArray[Any], name: str, unit: str | None = None) -> Stamps:
    """Times in s of a column in any usual form; `unit` is that of its numbers, where it is known.

    Numbers above 1e8 are s, ms, us or ns since 1970, by their size. Raises `ScenarioError` for a unit of
    no time, and when most cells are no times at all.
    """
    if unit is not None and unit not in units.DIMENSIONS["time"]:
        hint = f"known units: {', '.join(units.DIMENSIONS['time'])}"
        raise ScenarioError(Problem(f"'{unit}' is not a unit of time", hint=hint))
    if column.dtype.kind == "M":
        whole = column.astype("datetime64[ns]").astype(np.int64) * 1e-9
        return _stamps(column, name, np.where(np.isnat(column), np.nan, whole), absolute=True)
    values = numbers(column).values
    if column.dtype.kind in "UO" and np.isnan(values).any():
        dates = [_date(str(cell)) for cell in column]
        found = [date for date in dates if date is not None]
        if len(found) >= np.isfinite(values).sum():
            local = sum(date.tzinfo is None for date in found)
            utc = [np.nan if date is None else date.replace(tzinfo=date.tzinfo or UTC).timestamp() for date in dates]
            return _stamps(column, name, np.array(utc), absolute=True)._replace(local=local)
    known = values[np.isfinite(values)]
    usual = float(np.median(known)) if len(known) else 0.0
    if unit is None:
        for low, high, factor in _EPOCHS:
            if low <= usual < high:  # a value of another size is in another unit, or stands for no time
                seconds = np.where((values >= low) & (values < high), values * factor, np.nan)
                return _stamps(column, name, seconds, absolute=True)
    factor = units.DIMENSIONS["time"][unit or "s"]
    # In a unit that is known they may count from 1970 as well: no run begins years after its own start.
    return _stamps(column, name, values * factor, absolute=bool(usual * factor >= _EPOCHS[0][0]))


def _stamps(column: NDArray[Any], name: str, seconds: Floats, *, absolute: bool) -> Stamps:
    lost = np.isnan(seconds)
    count = int(lost.sum())
    example = str(column[lost][0]) if count else ""
    if count > 0.5 * len(column):
        hint = "write seconds, s, ms, us or ns since 1970, or ISO dates as 2030-01-31T12:00:00Z"
        raise ScenarioError(Problem(f"column '{name}' holds no times: '{example[:40]}'", hint=hint))
    return Stamps(seconds, absolute, count, example)


def _date(text: str) -> datetime | None:
    """The ISO date that a text is."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None
