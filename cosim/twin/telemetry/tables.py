"""Tables of telemetry as they were written: CSV, Parquet, exports of monitoring systems, tables of runs.

table = read("power.csv.gz")                            # or Parquet, JSON of Prometheus and OTLP
table = read("runs/field", "host")                      # or a signal's table of a run folder
times = stamps(table.column("ts"), "ts")                # numbers, s/ms/us/ns since 1970, ISO dates
"""

from __future__ import annotations

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
from cosim.twin.problem import Floats
from cosim.twin.telemetry import exports
from cosim.twin.telemetry.hygiene import Finding

TIMES = ("time", "t", "ts", "timestamp", "datetime", "date", "created", "arrived", "arrival", "start", "at")
_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*$")
# Numbers this large are times since 1970: their unit by the power of ten.
_EPOCHS = ((1e8, 1e11, 1.0), (1e11, 1e14, 1e-3), (1e14, 1e17, 1e-6), (1e17, 1e20, 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length as they were read, and where they come from."""

    columns: Mapping[str, NDArray[Any]]  # numbers, or text
    path: Path
    name: str = ""  # of the table in a run folder
    digest: str = ""  # SHA-256 of the file, or of the run's manifest
    sparse: bool = False  # a row holds one of several quantities, and the cells of the others are empty

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def source(self) -> str:
        """What data this is, for the provenance of a calibration."""
        name = f"{self.path.name} table {self.name}" if self.name else self.path.name
        return f"{name}: {len(self)} rows, sha256 {self.digest[:16]}"

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column. Raises `ScenarioError` that names the nearest one there is."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, otherwise="columns")
            raise ScenarioError(Problem(f"{self.path.name} has no column '{name}'", "calibrate", self.path, hint=hint))
        return self.columns[name]


def read(path: str | Path, table: str = "", *, header: Sequence[str] | None = None) -> Table:
    """The table in a CSV or Parquet file (also .gz), or table `table` of a run folder.

    `header` names the columns of a CSV file that has no line of names. Raises `ScenarioError` for what
    cannot be read, `SetupError` for a folder that is no run.
    """
    path = Path(path)
    if path.is_dir():
        from cosim.results.load import load

        run = load(path)
        if table not in run.signals:
            hint = did_you_mean(table, run.signals, otherwise="tables")
            raise ScenarioError(Problem(f"the run has no table '{table}'", "calibrate", path, hint=hint))
        found = run.table(table).fetchnumpy()
        columns = {name: np.ma.filled(_floats_if_masked(values), np.nan) for name, values in found.items()}
        return Table(columns, path, table, _digest(path / "manifest.json"))
    if not path.is_file():
        there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = did_you_mean(path.name, sorted(there), otherwise="files there")
        raise ScenarioError(Problem("there is no such file", "calibrate", path, hint=hint))
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            data = parquet.read_table(path)
            columns = {name: np.asarray(data[name].to_numpy()) for name in data.column_names}
        else:
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = raw.decode("utf-8-sig")
            if header is None and exports.is_export(text):
                return Table(exports.columns(text), path, "", _digest(path), sparse=True)
            columns = _csv(text, header)
    except (OSError, EOFError, zlib.error, csv.Error, ValueError) as error:
        raise ScenarioError(Problem(f"cannot be read: {error}", "calibrate", path)) from None
    return Table(columns, path, "", _digest(path))


def _csv(text: str, header: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    mark = max(",;\t", key=first.count)
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
    if mark == ";":  # where a comma is the mark of decimals, as in much of Europe
        rows = [[cell.replace(",", ".") if _COMMA.match(cell) else cell for cell in row] for row in rows]
    return {name: np.array([row[k] for row in rows], dtype=str) for k, name in enumerate(header)}


class Stamps(NamedTuple):
    """Times of rows."""

    seconds: Floats  # (m,) s; NaN where a cell is no time
    absolute: bool  # since 1970, or as the table counts them


def numbers(column: NDArray[Any], name: str, findings: list[Finding]) -> Floats:
    """(m,) numbers of a column; NaN, with a finding, where it holds something else."""
    if column.dtype.kind in "iufb":
        return column.astype(np.float64)
    values = np.full(len(column), np.nan)
    wrong: list[str] = []
    for row, cell in enumerate(column):
        text = "" if cell is None else str(cell).strip()
        try:
            values[row] = float(text) if text else np.nan
        except ValueError:
            wrong.append(text)
    if wrong:
        findings.append(
            Finding(
                "missing values", name, f"{len(wrong)} cells are not numbers, such as '{wrong[0][:40]}'", len(wrong)
            )
        )
    return values


def _floats_if_masked(values: Any) -> Any:  # noqa: ANN401 - duckdb's arrays, masked where null
    masked = isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values)
    return values.astype(np.float64) if masked and values.dtype.kind in "iub" else values


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def time_column(table: Table, named: str | None) -> str | None:
    """The column of times: `named`, or the first one whose name says so; None without one.

    Raises `ScenarioError` for a name that is not there.
    """
    if named is not None:
        table.column(named)
        return named
    lower = {name.lower(): name for name in reversed(list(table.columns))}
    return next((lower[name] for name in TIMES if name in lower), None)


def stamps(column: NDArray[Any], name: str, unit: str | None = None, findings: list[Finding] | None = None) -> Stamps:
    """Times in s of a column in any usual form; `unit` is that of numbers that count from a start of their own.

    Numbers above 1e8 are s, ms, us or ns since 1970, by their size. Raises `ScenarioError` for a unit of
    no time, and when most cells are no times at all.
    """
    if unit is not None and unit not in units.DIMENSIONS["time"]:
        hint = f"known units: {', '.join(units.DIMENSIONS['time'])}"
        raise ScenarioError(Problem(f"'{unit}' is not a unit of time", "calibrate", hint=hint))
    if column.dtype.kind == "M":
        whole = column.astype("datetime64[ns]").astype(np.int64) * 1e-9
        return Stamps(np.where(np.isnat(column), np.nan, whole), True)
    texts = column.dtype.kind in "UO"
    own: list[Finding] = []
    values = numbers(column, name, own)
    lost = np.isnan(values)
    if texts and lost.any():
        dates = np.array([_date(str(cell)) for cell in column], np.float64)
        if np.isfinite(dates).sum() >= np.isfinite(values).sum():
            lost = np.isnan(dates)
            _lost(column, lost, name, findings)
            return Stamps(dates, True)
    _lost(column, lost, name, findings)
    known = values[np.isfinite(values)]
    usual = float(np.median(known)) if len(known) else 0.0
    if unit is None:
        for low, high, factor in _EPOCHS:
            if low <= usual < high:
                return Stamps(values * factor, True)
    return Stamps(values * units.DIMENSIONS["time"][unit or "s"], False)


def _lost(column: NDArray[Any], lost: NDArray[np.bool_], name: str, findings: list[Finding] | None) -> None:
    count = int(lost.sum())
    if count > 0.5 * len(column) and len(column):
        some = str(column[lost][0])[:40]
        hint = "write seconds, s, ms, us or ns since 1970, or ISO dates as 2030-01-31T12:00:00Z"
        raise ScenarioError(Problem(f"column '{name}' holds no times: '{some}'", "calibrate", hint=hint))
    if count and findings is not None:
        findings.append(
            Finding("missing values", name, f"{count} cells are no times, such as '{column[lost][0]}'", count)
        )


def _date(text: str) -> float:
    """s since 1970 of an ISO date; NaN if it is none. A date without a zone is taken as UTC."""
    try:
        date = datetime.fromisoformat(text.strip())
    except ValueError:
        return float("nan")
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
