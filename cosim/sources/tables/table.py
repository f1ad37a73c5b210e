"""Tables as they were written: CSV, Parquet, exports of monitoring systems.

table = read("power.csv.gz")                            # or Parquet, JSON of Prometheus and OTLP
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract import delimited
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean, no_file
from cosim.contract.reading import packed
from cosim.contract.reading.columns import head
from cosim.sources.tables import exports

TIMES = ("time", "t", "ts", "timestamp", "datetime", "date", "created", "arrived", "arrival", "start", "at")
ENDINGS = (".csv", ".tsv", ".parquet")  # of names of files that are tables, also packed
_XLS = b"\xd0\xcf\x11\xe0"
_COMMA = re.compile(r"\s*[-+]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][-+]?\d+)?\s*$")  # 1.234,5
_GROUPED = re.compile(r"\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$")  # 1.234, where a comma is the mark of decimals


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length as they were read, and where they come from."""

    columns: Mapping[str, NDArray[Any]]  # numbers, or text
    path: Path
    digest: str = ""  # SHA-256 of the file
    sparse: bool = False  # a row holds one of several quantities, and the cells of the others are empty
    units: Mapping[str, str] = field(default_factory=dict)  # of columns, where the file itself says them
    left_out: tuple[str, ...] = ()  # what of the file is not in it, and why

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
    return packed.plain_name(path).endswith(ENDINGS)


def read(path: str | Path, *, header: Sequence[str] | None = None) -> Table:
    """The table in a CSV or Parquet file, packed or not, or an export of a monitoring system.

    The first bytes of a file determine its format. `header` names the columns of a CSV file without a header line.
    Raises `ScenarioError` for files that cannot be read.
    """
    path = Path(path)
    hint = no_file(path)
    if hint is not None:
        raise ScenarioError(Problem("there is no such file", file=path, hint=hint))
    try:
        raw = path.read_bytes()
        digest = hashlib.sha256(raw).hexdigest()
        if raw.startswith(_XLS):
            raise ScenarioError(Problem("is a workbook of Excel (.xls), no table", file=path, hint="save it as CSV"))
        raw = delimited.plain_of(raw, path)
        if path.suffix.lower() == ".parquet" or raw.startswith(b"PAR1"):
            import pyarrow as pa
            import pyarrow.parquet as parquet

            data = parquet.read_table(pa.BufferReader(raw))
            return Table({name: np.asarray(data[name].to_numpy()) for name in data.column_names}, path, digest)
        text = delimited.text_of(raw, path)
        if header is None and exports.is_export(text):
            found = exports.columns(text)
            return Table(found.columns, path, digest, sparse=True, left_out=found.left_out, units=found.units)
        if text.lstrip().startswith("<"):
            hint = "JMeter writes a table with -Jjmeter.save.saveservice.output_format=csv"
            raise ScenarioError(Problem("is XML, no table", file=path, hint=hint))
        columns, left_out = exports.without_sums(_csv(text, path, header))
        return Table(columns, path, digest, left_out=left_out)
    except ScenarioError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ScenarioError(Problem(f"cannot be read: {error}", file=path)) from None


def _csv(text: str, path: Path, names: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    mark = delimited.mark_of(text)
    found = delimited.sheet(text, path, names=names, mark=mark)
    if names is None:
        delimited.refuse_twice(path, found.names)
    columns = found.columns()
    if mark != "," and any(_COMMA.match(cell) for cells in columns.values() for cell in cells):
        columns = {name: _with_points(cells) for name, cells in columns.items()}
    return {name: np.array(cells, dtype=str) for name, cells in columns.items()}


def _with_points(cells: Sequence[str]) -> list[str]:
    """The cells of a table in which a comma is the mark of decimals, as in much of Europe, with a point instead.

    Points are marks of thousands where every cell of the column with one has it where thousands end.
    """
    grouped = all(_COMMA.match(cell) or _GROUPED.match(cell) for cell in cells if "." in cell)
    return [
        cell.replace(".", "").replace(",", ".") if _COMMA.match(cell) or (grouped and _GROUPED.match(cell)) else cell
        for cell in cells
    ]


def time_column(table: Table, named: str | None) -> str | None:
    """The column of times: `named`, or the first of `TIMES` that the table has; None without one.

    Raises `ScenarioError` if there is no column `named`.
    """
    if named is not None:
        table.column(named)
        return named
    known = frozenset(TIMES)
    words = {head(name, "time", known).word: name for name in reversed(list(table.columns))}
    return next((words[name] for name in TIMES if name in words), None)
