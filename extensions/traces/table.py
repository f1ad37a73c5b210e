"""Delimited text as blocks of checked arrays, with bounded memory and errors that name file and line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from cosim.contract import delimited
from cosim.contract.delimited import StrPath, fault, header, line_of

LATEST = 1e11  # s since 1970, in the year 5138: later times are in ms or less
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


def blocks(
    path: StrPath,
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
    wanted = {column.name: types[column.kind] for column in columns}
    nulls = ["", "NULL", "null", "Null", "NA", "N/A", "None", "none", "NaN", "nan", "-"]
    first = 0
    for batch in delimited.batches(path, wanted, names=given, skip=skip, mark=delimiter, null_values=nulls):
        if batch.num_rows:
            yield _block(path, batch, columns, first, skip)
            first += batch.num_rows
    if not first:
        raise fault(path, "has no rows")


def whole(path: StrPath, columns: Sequence[TraceColumn], **given: Any) -> dict[str, Any]:  # noqa: ANN401 - as of `blocks`
    """All rows of the wanted columns: an array of numbers, or a list of words, for each."""
    read = list(blocks(path, columns, **given))
    return {
        column.name: [block.words[column.name][i] for block in read for i in block.columns[column.name]]
        if column.kind == "text"
        else np.concatenate([block.columns[column.name] for block in read])
        for column in columns
    }


def _block(path: StrPath, batch: pa.RecordBatch, columns: Sequence[TraceColumn], first: int, skip: int) -> RowBlock:
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
