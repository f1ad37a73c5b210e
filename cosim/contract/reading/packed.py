"""Files as their bytes say: packed by gzip, bzip2, xz, zstd or zip, or not, whatever their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
FAULTS = (EOFError, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError)
"""What a packed file raises besides `OSError` and zlib's error: cut off, damaged, encrypted, packed in another way."""


def _zstd(source: IO[bytes]) -> IO[bytes]:
    import pyarrow as pa

    return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(source, "zstd")))


def _zip(source: IO[bytes]) -> IO[bytes]:
    try:
        archive = zipfile.ZipFile(source)
        names = [one.filename for one in archive.infolist() if not one.is_dir() and "__MACOSX/" not in one.filename]
        if "[Content_Types].xml" in names or "mimetype" in names:
            raise OSError("it is a workbook (.xlsx, .ods): save the sheet as CSV")
        if len(names) != 1:
            raise OSError(f"it is an archive of {len(names)} files: unpack it ({', '.join(names[:4])})")
        return archive.open(names[0])
    except (ValueError, struct.error) as error:  # of a damaged directory
        raise zipfile.BadZipFile(str(error)) from error


_WAYS: Mapping[bytes, Callable[[Any], Any]] = {
    GZIP: gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _zstd,
    ZIP: _zip,
}
_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".zip")
LONGEST = max(map(len, _WAYS))  # bytes that determine how a file is packed
_ROOM, _TIMES = 1 << 28, 100  # B, and of the packed bytes: a file that grows beyond both is no data, but a bomb


def plain_name(path: Path) -> str:
    """The name of a file in lower case without the ending that its packer gave it: cars.csv of Cars.csv.gz."""
    name = path.name.lower()
    return name.removesuffix(next((ending for ending in _ENDINGS if name.endswith(ending)), ""))


def is_packed(begin: bytes) -> bool:
    """Whether a file that begins so is packed in a way that is known."""
    return begin.startswith(tuple(_WAYS))


def unpacking(source: IO[bytes], begin: bytes) -> IO[bytes]:
    """What a binary stream, at its start, holds when it begins so. Raises `OSError`, `FAULTS` and zlib's error."""
    way = next((way for mark, way in _WAYS.items() if begin.startswith(mark)), None)
    return source if way is None else cast("IO[bytes]", way(source))


def open_unpacked(path: Path) -> io.BufferedReader:
    """The file for reading, unpacked. Raises as `unpacking`."""
    source = path.open("rb")
    try:
        found = unpacking(source, source.peek(LONGEST)[:LONGEST])
        return source if found is source else _Chained(found, source)
    except BaseException:
        source.close()
        raise


class _Chained(io.BufferedReader):
    """A stream that closes the file below it too."""

    def __init__(self, stream: IO[bytes], below: IO[bytes]) -> None:
        super().__init__(cast("Any", stream))
        self._below = below

    def close(self) -> None:
        super().close()
        self._below.close()


def unpacked(raw: bytes) -> bytes:
    """The bytes in a packed file. Raises as `unpacking`."""
    if not is_packed(raw[:LONGEST]):
        return raw
    with unpacking(io.BytesIO(raw), raw[:LONGEST]) as stream:
        most = max(_ROOM, _TIMES * len(raw))
        found = bytes(stream.read(most + 1))
    if len(found) > most:
        raise OSError(f"it unpacks to more than {most:,} B from {len(raw):,} B: unpack it, if it is meant so")
    return found
