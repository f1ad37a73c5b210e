"""Delimited text as blocks of arrays, plain or gzipped, with bounded memory and errors that name file and line."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from cosim.contract.errors import Problem, ScenarioError

BLOCK = 1 << 22  # B of text read at a time

Kind = Literal["number", "whole", "text"]


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """One column that a reader wants; empty cells of a number are NaN where `optional`."""

    name: str
    kind: Kind = "number"
    optional: bool = False
    at_least: float = -np.inf
    at_most: float = np.inf


def percent(name: str) -> TraceColumn:
    """A column of numbers in 0..100."""
    return TraceColumn(name, at_least=0.0, at_most=100.0)


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Some consecutive rows: numbers as float64, whole numbers as int64, text dictionary-encoded."""

    columns: dict[str, np.ndarray[Any, np.dtype[Any]]]  # (rows,) numbers, or indices into `words[name]`
    words: dict[str, list[str]]
    first: int  # number of the first row, 0-based, without header

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def fault(path: Path, message: str, *, line: int | None = None, hint: str = "") -> ScenarioError:
    """The error for a bad file."""
    return ScenarioError(Problem(message, file=path, line=line, hint=hint))


def opened(path: Path) -> IO[bytes]:
    """The file for reading, unpacked when its content is gzip, whatever its name."""
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], gzip.open(path, "rb")) if packed else path.open("rb")
    except FileNotFoundError:
        raise fault(path, "there is no such file") from None
    except IsADirectoryError:
        raise fault(path, "this is a folder, a file is needed") from None
    except OSError as error:
        raise fault(path, f"cannot be read: {error.strerror}") from error


def header(path: Path, delimiter: str = ",") -> list[str]:
    """The cells of the first line."""
    try:
        with opened(path) as file:
            line = file.readline(1 << 20)
        return [cell.strip() for cell in line.decode("utf-8-sig").rstrip("\r\n").split(delimiter)]
    except (OSError, EOFError, zlib.error) as error:
        raise fault(path, f"cannot be unpacked: {error}") from error
    except UnicodeDecodeError:
        raise fault(path, "is not text in UTF-8", line=1) from None


def blocks(
    path: Path,
    columns: Sequence[TraceColumn],
    *,
    names: Sequence[str] | None = None,
    skip: int | None = None,
    delimiter: str = ",",
) -> Iterator[RowBlock]:
    """The wanted columns, block after block.

    `names` are those of all columns of a file without header; without them the first line is the header.
    `skip` lines are passed over before the first row: by default 1 where there is a header, else 0.
    """
    given = list(names) if names is not None else header(path, delimiter)
    missing = [column.name for column in columns if column.name not in given]
    if missing:
        found = ", ".join(given[:12])[:300]
        raise fault(path, f"has no column '{missing[0]}'", line=1, hint=f"columns found: {found}")
    skip = (0 if names is not None else 1) if skip is None else skip
    types = {"number": pa.float64(), "whole": pa.int64(), "text": pa.dictionary(pa.int32(), pa.string())}
    first = 0
    try:
        with opened(path) as file:
            reader = arrow_csv.open_csv(
                file,
                read_options=arrow_csv.ReadOptions(
                    column_names=given, skip_rows=skip, use_threads=False, block_size=BLOCK
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={column.name: types[column.kind] for column in columns},
                    include_columns=[column.name for column in columns],
                    null_values=["", "NULL", "null", "NA"],
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    yield _block(path, batch, columns, first, skip)
                    first += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _explained(path, str(error), skip) from None
    except (OSError, EOFError, zlib.error) as error:
        raise fault(path, f"cannot be unpacked: {error}") from error
    if not first:
        raise fault(path, "has no rows")


def line_of(path: Path, row: int, skip: int) -> int:
    """The 1-based line of a 0-based row: empty lines are no rows."""
    seen = -skip
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            seen += bool(line.strip())
            if seen > row:
                return number
    return row + skip + 1


def _block(path: Path, batch: pa.RecordBatch, columns: Sequence[TraceColumn], first: int, skip: int) -> RowBlock:
    arrays: dict[str, np.ndarray[Any, np.dtype[Any]]] = {}
    words: dict[str, list[str]] = {}
    for column in columns:
        data = batch.column(column.name)
        if data.null_count and not (column.optional and column.kind == "number"):
            row = int(np.argmax(data.is_null().to_numpy(zero_copy_only=False)))
            line = line_of(path, first + row, skip)
            raise fault(path, f"has no value in column '{column.name}'", line=line)
        if column.kind == "text":
            words[column.name] = data.dictionary.to_pylist()
            arrays[column.name] = data.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            continue
        values = data.to_numpy(zero_copy_only=False)
        wrong = ~((values >= column.at_least) & (values <= column.at_most))
        if column.kind == "number":
            empty = data.is_null().to_numpy(zero_copy_only=False) if data.null_count else False
            wrong = (wrong | ~np.isfinite(values)) & ~np.asarray(empty)
        if wrong.any():
            row = int(np.argmax(wrong))
            message = f"column '{column.name}' is {values[row]:g}, not in {column.at_least:g}..{column.at_most:g}"
            raise fault(path, message, line=line_of(path, first + row, skip))
        arrays[column.name] = values
    return RowBlock(arrays, words, first)


def _explained(path: Path, message: str, skip: int) -> ScenarioError:
    """pyarrow's complaint with the line in the file, which it counts without header and empty lines."""
    if "Empty CSV" in message:
        return fault(path, "has no rows")
    found = re.search(r"Row #(\d+): ", message)
    # Rows that cannot be split are counted with the lines skipped, values that cannot be converted without.
    counted = 0 if message.startswith("CSV parse error") else skip
    line = line_of(path, int(found[1]) - 1, counted) if found else None
    text = message[found.end() :] if found else message
    text = re.sub(r"^CSV (conversion|parse) error( to [\w<>=, ]+)?: ", "", text)
    return fault(path, f"is not the table expected: {text[:200]}", line=line)
