"""Digests that show whether results are what was written.

One chain for all kinds: a JSON document holds the digests of the files beside it, and one of itself; a line of a list
has its own; so has a text (an overlay) and a zip (a detector, a package of a study) at its end. What was written by a
version without digests is taken as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cosim.contract.errors import RunError, SetupError

DIGEST = "digest"  # key of a sealed document
_NONE = "0" * 64  # where a digest is going to be
_ZIP = b"cosim sha256 "
_SEALED = "# The digest in the last line shows that this file is as it was written.\n"
_LAST = re.compile(r"# sha256 [0-9a-f]{64}")
_WHOLE = re.compile(rb'": "[0-9a-f]{64}"}')  # at the end of a whole line
_PART = 1 << 20  # B that are read at a time
_NAMED = 5  # damaged files that are named
_PLAIN = (str, int, bool, type(None))  # written as they are


class DamagedError(SetupError):
    """Files of results are not what was written, so their content cannot be relied on."""

    exit_code = 1


# -- JSON ------------------------------------------------------------------------------------------


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with the digest of everything else in it, as it reads back."""
    return {**{key: value for key, value in data.items() if key != DIGEST}, DIGEST: digest_of(data)}


def digest_of(data: Mapping[str, Any]) -> str:
    """SHA-256 of everything but the digest in `data`, as it reads back."""
    rest = {key: value for key, value in data.items() if key != DIGEST}
    text = json.dumps(strict(rest), sort_keys=True, separators=(",", ":"), default=scalar)
    return hashlib.sha256(text.encode()).hexdigest()


def unsealed(path: Path, *, must: str = "") -> dict[str, Any]:
    """The document in the JSON file `path`.

    Raises `DamagedError` when it is not as it was written, or has the key `must` and no digest; `FileNotFoundError`.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        data = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise DamagedError(f"{path} is damaged: it holds no mapping")
    if must and DIGEST in data and must not in data:
        raise DamagedError(f"{path} is not what was written: it is another document")
    if (must in data or DIGEST in data) and (data.get(DIGEST) != digest_of(data) or text != json_text(data)):
        raise DamagedError(f"{path} is not as it was written: its digest differs")
    return data


def json_text(data: object, indent: int | None = 1) -> str:
    """`data` as strict JSON; infinities and NaN become null."""
    return json.dumps(strict(data), indent=indent, allow_nan=False, ensure_ascii=False, default=scalar) + "\n"


def strict(value: object) -> object:
    """`value` with null for numbers that JSON does not have, and with texts as keys."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if not isinstance(value, float) and isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    return value


def scalar(value: object) -> object:
    """numpy scalars and arrays as plain values, anything else as text."""
    if hasattr(value, "tolist"):
        return strict(value.tolist())
    return str(value)


class SealedLines:
    """A list that results are only ever added to, a JSON document a line, whose digest stands for the lines before too.

    A last line that was cut off by a crash is passed over, and replaced by the next one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last: str | None = None  # digest of the last line, "" without one, None: not read
        self._end, self._lacking = 0, b""  # B of its whole lines; what the last one lacks

    def read(self) -> list[tuple[dict[str, Any], bool]]:
        """The documents so far, and whether they are sealed.

        Raises `DamagedError` for lines that are not as they were written, or one of which is gone before others.
        """
        found, before = [], ""
        for number, line in enumerate(self._lines(), 1):
            try:
                data = json.loads(line)
                digest = data.pop(DIGEST, "")
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise self.damaged(number) from error
            if (before or digest or _WHOLE.search(line)) and line != self._line(before, data, digest):
                raise self.damaged(number, ", or one before it is gone")
            before = digest
            found.append((data, bool(digest)))
        self.last = before
        return found

    def append(self, data: Mapping[str, Any]) -> None:
        """Add a document, after those that other processes have added, so that it survives whatever happens next."""
        try:
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if self.last is None or self._end != file.tell():
                    self.read()
                line = self._line(self.last or "", json.loads(json.dumps(data, default=str)))
                file.truncate(self._end)  # a line that was cut off
                self._end += file.write(self._lacking + line + b"\n")
                self._lacking = b""
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(
                f"the result of a run could not be added to {self.path}: {error.strerror or error}; "
                "what was added before is whole, and the same command makes the rest"
            ) from error
        self.last = json.loads(line)[DIGEST]

    def damaged(self, number: int, more: str = "") -> DamagedError:
        """That a line is not what was written."""
        return DamagedError(f"{self.path} is damaged: line {number} is not as it was written{more}")

    def _line(self, before: str, data: Mapping[str, Any], digest: str | None = None) -> bytes:
        made = digest_of({**data, "before": before})
        return json.dumps({**data, DIGEST: made}).encode() if digest in (None, made) else b""

    def _lines(self) -> list[bytes]:
        """The lines that are whole. Raises `DamagedError` for a last one that does not end."""
        try:
            raw = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._lacking, self._end = b"", 0
            return []
        except OSError as error:
            raise SetupError(f"{self.path} cannot be read: {error.strerror or error}") from error
        *lines, rest = raw.split(b"\n")
        found = _WHOLE.search(rest)
        whole = found is not None and found.end() == len(rest)  # only the end of the line is missing
        if found and not whole:
            raise DamagedError(f"{self.path} is damaged: its last line does not end")
        self._lacking, self._end = (b"\n", len(raw)) if whole else (b"", len(raw) - len(rest))
        return [*lines, rest] if whole else lines


# -- files beside one another ------------------------------------------------------------------------


def digests(folder: Path, names: Iterable[str]) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of the files `names` in `folder`."""
    return {name: _digest(folder / name) for name in names}


def differences(folder: Path, kept: Mapping[str, object], present: Iterable[str], *, more: str = "") -> list[str]:
    """How the files `present` in `folder` differ from those whose `digests` were `kept`, in words.

    `more` says what a file is that was not kept; "" where such a file is no difference.
    """
    there = set(present)
    wrong = [f"{name} is missing" for name in kept if name not in there]
    for name in sorted(there):
        if name not in kept:
            wrong += [f"{name} {more}"] if more else []
        elif kept[name] != _digest(folder / name):
            wrong.append(f"{name} is not what was written")
    return wrong


def refuse(folder: Path, wrong: list[str]) -> None:
    """Raise `DamagedError` that names what is `wrong` with the results in `folder`, if anything is."""
    if wrong:
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        raise DamagedError(f"the results in {folder} are damaged: {'; '.join(wrong[:_NAMED])}{more}")


def _digest(file: Path) -> dict[str, object]:
    try:
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            return {"bytes": opened.tell(), "sha256": digest}
    except IsADirectoryError:
        return {}


# -- texts and zips, which end with a digest of what is before ---------------------------------------


def seal_text(text: str) -> str:
    """`text`, of comments and YAML, with a digest in its last line."""
    text = _SEALED + text
    return f"{text}# sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


def check_text(text: str, path: Path) -> None:
    """Raise `DamagedError` for a text that was sealed and is not as it was written."""
    body, _, last = text.removesuffix("\n").rpartition("\n")
    if not text.startswith(_SEALED) and not _LAST.fullmatch(last):
        return
    if seal_text(f"{body}\n".removeprefix(_SEALED)) != text:
        hint = "write values of your own into a file that is included after it"
        raise DamagedError(f"{path} is not as it was written: its digest differs; {hint}")


def seal_zip(path: Path) -> None:
    """Add a digest to the end of a zip."""
    with zipfile.ZipFile(path, "a") as packed:
        packed.comment = _ZIP + _NONE.encode()
    digest, _ = _before_end(path)
    with path.open("r+b") as file:
        file.seek(-len(_NONE), os.SEEK_END)
        file.write(digest)


def check_zip(path: Path, *, must: bool = False) -> bool:
    """Whether a zip has a digest. Raises `DamagedError` when it differs, or is not there although it `must`."""
    digest, end = _before_end(path)
    if end == _ZIP + digest:
        return True
    try:
        with zipfile.ZipFile(path) as packed:
            known = bool(packed.comment) or not end.endswith(b"\0\0")  # without a comment its length, 0, is last
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if must or known:
        raise DamagedError(f"{path} is not as it was written: its digest differs")
    return False


def _before_end(path: Path) -> tuple[bytes, bytes]:
    """SHA-256 of a file up to where its own digest is, and its end from the word before that."""
    digest, left = hashlib.sha256(), max(path.stat().st_size - len(_NONE), 0)
    with path.open("rb") as file:
        while part := file.read(min(left, _PART)):
            digest.update(part)
            left -= len(part)
        file.seek(-min(path.stat().st_size, len(_ZIP) + len(_NONE)), os.SEEK_END)
        return digest.hexdigest().encode(), file.read()
