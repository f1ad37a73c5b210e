"""Tables from other programs, CSV or Parquet, as sources of rows: recordings of real networks and machines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.errors import SetupError
from cosim.contract.reading.columns import NOTHING, numbers, past_midnight, stamps
from cosim.sources.tables.table import read

_MARK = re.compile(r"%$|/.*$")
_FEW = 20  # rows from which on a column that only grows is no chance


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a table with the `value` in the column `by` ("" for all); of `blocks` parts of them one."""

    file: str
    node: str  # column, "" for one node
    at: str  # column, "" for a row per second
    by: str = ""
    value: str = ""
    block: int = 0
    blocks: int = 1

    def rows(self) -> pa.Table:
        """Those rows in the order of the file, with the columns `node` and `time` in s before the others."""
        return _part(self)


def parts(file: Path, node: str, at: str, by: str, blocks: int) -> Iterator[tuple[str, str, TablePart]]:
    """Name, group and rows of each part of a table that a split keeps together.

    Raises `ScenarioError` for a file that cannot be read, `SetupError` for columns that it does not have.
    """
    whole, digest = _read(str(file))
    for option, column in (("node", node), ("at", at), ("by", by)):
        if column and column not in whole.column_names:
            raise SetupError(f"--{option}: {file} has no column '{column}'; it has {', '.join(whole.column_names)}")
    stem = file.name.partition(".")[0]
    values = sorted(set(pc.fill_null(whole[by].cast(pa.string()), "").to_pylist())) if by else [""]
    if len(values) > 1 and 2 * len(values) > len(whole):
        text = f"the column '{by}' of {file} has {len(values)} values in {len(whole)} rows, which would split by row"
        raise SetupError(f"--by: {text}; name a column of scenes or settings")
    if blocks > 1 and 2 * blocks * len(values) > len(whole):
        text = f"{file} has {len(whole)} rows, which cannot be cut into {blocks * len(values)} parts"
        raise SetupError(f"--blocks: {text} of two rows or more; a split by row would know its test")
    for value in values:
        for block in range(blocks):
            group = f"{by}={value}" if by else file.name
            name = hashlib.sha256(f"{digest} {by} {value} {block} {blocks}".encode()).hexdigest()[:16]
            cut = f" part {block + 1} of {blocks}" if blocks > 1 else ""
            yield f"{stem}-{name}", group + cut, TablePart(str(file), node, at, by, value, block, blocks)


@lru_cache(maxsize=2)
def _part(part: TablePart) -> pa.Table:
    rows, _ = _read(part.file)
    if part.by:
        rows = rows.filter(pc.equal(pc.fill_null(rows[part.by].cast(pa.string()), ""), part.value))
    time = _seconds(rows, part.at) if part.at else np.arange(len(rows), dtype=np.float64)
    order = np.argsort(time, kind="stable") if part.at else np.arange(len(rows))
    first, last = (len(rows) * k // part.blocks for k in (part.block, part.block + 1))
    node = rows[part.node].cast(pa.string()) if part.node else pa.array(["-"] * len(rows))
    columns = [name for name in rows.column_names if name not in ("node", "time")]
    others = {name: rows[name] for name in columns}
    found = pa.table({"node": pc.fill_null(node, "-"), "time": time, **others})
    return found.take(order[first:last])


@lru_cache(maxsize=2)
def _read(file: str) -> tuple[pa.Table, str]:
    """The rows of a file, with numbers where all cells are some, and its SHA-256.

    Raises `ScenarioError`, `SetupError`.
    """
    path = Path(file)
    found = read(path)
    if not len(found):
        raise SetupError(f"{path} has no rows")
    names = [re.sub(r"\W+", "_", name.strip()).strip("_") or f"column_{k}" for k, name in enumerate(found.columns)]
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise SetupError(f"{path} has two columns '{twice[0]}'")
    return pa.table([_column(values) for values in found.columns.values()], names=names), found.digest


def remarks(file: Path, known: Collection[str]) -> Iterator[str]:
    """Remarks about columns easily taken for features, or lost as features; the recipe names the `known` columns.

    Columns of words are no features. A column that only grows gives the position of a row, not its state.
    """
    whole, _ = _read(str(file))
    for name in whole.column_names:
        column = whole[name]
        if name in known or column.null_count == len(column):
            continue
        if pa.types.is_string(column.type):
            cells = numbers(column.drop_null().to_numpy(zero_copy_only=False))
            count = len(cells.values) - cells.wrong
            if count:
                text = f"'{cells.example}' and {cells.wrong - 1} more" if cells.wrong > 1 else f"'{cells.example}'"
                yield f"'{name}' of {file} is no feature: {count} numbers, and {text}, which are none"
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            values = column.cast(pa.float64()).drop_null().to_numpy()
            if len(values) >= _FEW and (np.diff(values) > 0.0).all():
                yield f"'{name}' of {file} only grows: name it with --at if it is the time, or --drop it"


def _column(values: NDArray[Any]) -> pa.Array:
    """Cells that are numbers, "5%" (5), "13/0" (13, the first of two code words) or truths as such; others as text."""
    if values.dtype.kind not in "UO":
        return pa.array(values)
    found = numbers(values)
    if not found.wrong:
        return pa.array(found.values, from_pandas=True)
    cells = ["" if value is None else str(value).strip() for value in values.tolist()]
    cells = ["" if cell.lower() in NOTHING else cell for cell in cells]
    if set(map(str.lower, cells)) <= {"true", "false", ""}:
        return pa.array([None if cell == "" else cell.lower() == "true" for cell in cells], pa.bool_())
    found = numbers(np.array([_MARK.sub("", cell) for cell in cells]))
    if not found.wrong:
        return pa.array(found.values, from_pandas=True)
    return pa.array([cell or None for cell in cells], pa.string())


def _seconds(rows: pa.Table, name: str) -> NDArray[np.float64]:
    """Times (n,) in s of a column, since the first where they are dates; a unit may end its name, as in `time_ms`."""
    values = np.asarray(rows[name].to_numpy(zero_copy_only=False))
    end = name.rpartition("_")[2]
    found = stamps(values, name, end if end in units.DIMENSIONS["time"] else None)
    if found.wrong:
        raise SetupError(f"--at: the column '{name}' has {found.wrong} rows without a time, such as '{found.example}'")
    if found.clocks and past_midnight(found.seconds)[1]:
        raise SetupError(f"--at: the times of day in '{name}' pass midnight; write dates")
    return found.seconds - found.seconds.min() if found.absolute else found.seconds
