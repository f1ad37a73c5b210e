"""Cells of text: the reader of CSV for all rooms.

for line, cells in records(content(path), path): ...    # small tables: rows of any length, with their lines
for batch in batches(path, {"load": pa.float64()}): ... # large ones, block by block, with bounded memory

A file is what its bytes say: packed (`reading.packed`) or not, in UTF-8 or UTF-16, with cells between commas,
semicolons, tabs or bars. Small tables are read by `csv`: pyarrow knows no lines, and ends at the first row of another
length.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.reading import packed

if TYPE_CHECKING:
    import pyarrow as pa

StrPath = str | Path
BLOCK = 1 << 22  # B of text that `batches` reads at a time
_LONGEST = 1 << 20  # B of the names of columns
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # how Excel's "Unicode text" begins
_MARKS = ",;\t|"  # between cells
_FIRST = re.compile(r"[^\r\n]*[^\s][^\r\n]*")
_MARK = re.compile(rf"\s*sep=([{_MARKS}])\s*")  # a line of Excel's own


class CellsError(ScenarioError, ValueError):
    """A file is not the table expected; a `ValueError` too, for those who name what refers to the file."""


class Sheet(NamedTuple):
    """Cells of rows that are all as long as the header."""

    names: list[str]
    rows: list[list[str]]
    lines: list[int]  # 1-based, where each row ends in the file

    def columns(self) -> dict[str, list[str]]:
        """The cells of each column; of two with one name the last."""
        return {name: [row[k] for row in self.rows] for k, name in enumerate(self.names)}


def fault(path: StrPath | None, message: str, *, line: int | None = None, hint: str = "") -> CellsError:
    """The error for a bad file."""
    return CellsError(Problem(message, file=None if path is None else Path(path), line=line, hint=hint))


@contextmanager
def _refused(path: StrPath) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise fault(path, "cannot be read: there is no such file") from None
    except IsADirectoryError:
        raise fault(path, "cannot be read: this is a folder, a file is needed") from None
    except UnicodeDecodeError:
        raise fault(path, "is not text in UTF-8", hint="save it as UTF-8: iconv -f LATIN1 -t UTF-8") from None
    except (OSError, zlib.error, *packed.FAULTS) as error:
        raise fault(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def opened(path: StrPath) -> IO[bytes]:
    """The file for reading, unpacked by its content, whatever its name. Raises `CellsError`."""
    with _refused(path):
        stream = packed.open_unpacked(Path(path))
        try:
            if stream.peek(2)[:2] in _WIDE:
                stream.close()
                return io.BytesIO(content(path).encode())
        except BaseException:
            stream.close()
            raise
        return stream


def content(path: StrPath, errors: str = "strict") -> str:
    """The text of a file; `errors` as in `bytes.decode`. Raises `CellsError`."""
    with _refused(path):
        raw = Path(path).read_bytes()
    return text_of(raw, path, errors)


def plain_of(raw: bytes, path: StrPath) -> bytes:
    """The bytes of the file at `path`, unpacked. Raises `CellsError`."""
    with _refused(path):
        return packed.unpacked(raw)


def text_of(raw: bytes, path: StrPath, errors: str = "strict") -> str:
    """The text of the file at `path` by its bytes, as `content` reads it. Raises `CellsError`."""
    plain = plain_of(raw, path)
    with _refused(path):
        text = plain.decode("utf-16" if plain.startswith(_WIDE) else "utf-8-sig", errors)
    if errors == "strict" and "\0" in text:
        raise fault(path, "is no text that can be read: it holds NUL characters", hint="save it as UTF-8")
    return text


def first_line(path: StrPath) -> str:
    """The first line of a file, without its end. Raises `CellsError`."""
    with opened(path) as file, _refused(path):
        line = file.readline(_LONGEST)
    if len(line) == _LONGEST:
        raise fault(path, f"is no table: its first line is longer than {_LONGEST:,} B", line=1)
    with _refused(path):
        return line.decode("utf-8-sig").rstrip("\r\n")


def mark_of(text: str) -> str:
    """What stands between cells, by the first line that is not empty."""
    found = _FIRST.search(text)
    first = found[0] if found else ""
    named = _MARK.fullmatch(first)
    return named[1] if named else max(_MARKS, key=first.count)


def header(path: StrPath, mark: str = ",") -> list[str]:
    """The cells of the first line. Raises `CellsError`."""
    for _, cells in records(first_line(path), path, mark):
        return [cell.strip() for cell in cells]
    return [""]


def records(
    text: str, file: StrPath | None = None, mark: str = "", *, spaced: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The line, from 1, and the cells of each row that is not empty. Raises `CellsError`.

    Blanks before a cell belong to it, unless the cells are `spaced`.
    """
    lines = (line if line.strip() else "\n" for line in io.StringIO(text, newline=""))
    rows = csv.reader(lines, delimiter=mark or mark_of(text), skipinitialspace=spaced)
    named = _MARK.fullmatch((_FIRST.search(text) or [""])[0])
    try:
        for cells in rows:
            if cells and not named:
                yield rows.line_num, cells
            named = named if not cells else None
    except csv.Error as error:
        raise fault(file, f"cannot be read: {error}", line=rows.line_num) from None


def sheet(text: str, file: StrPath | None = None, *, names: Sequence[str] | None = None, mark: str = "") -> Sheet:
    """The rows below a header; `names` are those of the columns of a file without one.

    Raises `CellsError` for a file without a row, and for a row of another length.
    """
    found = list(records(text, file, mark))
    if names is None:
        if not found:
            raise fault(file, "cannot be read: it is empty")
        names, found = [name.strip() for name in found[0][1]], found[1:]
    for number, (line, row) in enumerate(found, 1):
        if len(row) != len(names):
            message = f"cannot be read: data row {number} has {len(row)} cells, and there are {len(names)} columns"
            raise fault(file, message, line=line)
    return Sheet(list(names), [row for _, row in found], [line for line, _ in found])


def batches(
    path: StrPath,
    types: Mapping[str, pa.DataType],
    *,
    names: Sequence[str],
    skip: int = 1,
    mark: str = ",",
    **convert: Any,  # noqa: ANN401 - whatever pyarrow takes
) -> Iterator[pa.RecordBatch]:
    """The columns in `types`, block after block; `convert` are options of pyarrow's `ConvertOptions`.

    `names` are those of all columns; `skip` lines are passed over before the first row. Raises `CellsError`.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    refuse_twice(path, [name for name in names if name in types])
    try:
        with opened(path) as file, _refused(path):
            yield from arrow_csv.open_csv(
                file,
                read_options=arrow_csv.ReadOptions(
                    column_names=list(names), skip_rows=skip, use_threads=False, block_size=BLOCK
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=mark),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict(types), include_columns=list(types), **convert
                ),
            )
    except pa.ArrowInvalid as error:
        raise _explained(path, str(error), skip) from None


def refuse_twice(path: StrPath | None, names: Sequence[str]) -> None:
    """Raise `CellsError` where two columns have one name: which one is meant?"""
    if twice := next((name for name in names if name and names.count(name) > 1), None):
        raise fault(path, f"cannot be read: two columns are called '{twice}'", line=1, hint="rename or remove one")


def line_of(path: StrPath, row: int, skip: int) -> int:
    """The 1-based line of a 0-based row: empty lines are no rows."""
    seen = -skip
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            seen += bool(line.strip())
            if seen > row:
                return number
    return row + skip + 1


def _explained(path: StrPath, message: str, skip: int) -> CellsError:
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
