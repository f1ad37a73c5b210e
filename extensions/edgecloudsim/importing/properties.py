"""Java property files, as `java.util.Properties.load` reads them, with line numbers.

Comments start with # or !; key and value are parted by =, : or white space; a line that ends with an
odd number of backslashes goes on in the next one; \\t \\n \\r \\f and \\uXXXX are escapes, and a
backslash before any other character is dropped. Of a key given twice the later value holds.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from cosim.contract.delimited import text_of
from cosim.contract.errors import Problem, ScenarioError
from cosim.sources.importing.values import read_bytes

_BLANK = " \t\f"
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as editors write; Java takes them for a key
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """A value and where it stands."""

    value: str
    line: int  # 1-based, of the key
    earlier: tuple[int, ...] = ()  # lines whose value for the same key this one replaces


def read_properties(file: Path) -> dict[str, Property]:
    """The properties in `file` by key. Raises `ScenarioError` when it cannot be read or is malformed."""
    raw = read_bytes(file)
    return parse_properties(text_of(raw, file) if raw.startswith(_MARKS) else raw.decode("latin-1"), file)


def parse_properties(text: str, file: Path | None = None) -> dict[str, Property]:
    """The properties in `text` by key. Raises `ScenarioError` for a malformed \\uXXXX."""
    found: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        at = 0
        while at < len(line) and line[at] not in "=:" + _BLANK:
            at += 2 if line[at] == "\\" else 1
        key, rest = line[:at], line[at:].lstrip(_BLANK)
        if rest[:1] and rest[0] in "=:":
            rest = rest[1:].lstrip(_BLANK)
        try:
            name, value = _unescape(key), _unescape(rest)
        except ValueError as error:
            raise ScenarioError(
                Problem(str(error), file=file, line=number, hint="write four hexadecimal digits after \\u")
            ) from None
        before = found.pop(name, None)
        found[name] = Property(value, number, (*before.earlier, before.line) if before else ())
    return found


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Number of the first line, and the text of every line with its continuations; no comments and blanks."""
    lines = re.split(r"\r\n|\n|\r", text)
    found = []
    at = 0
    while at < len(lines):
        first, line = at + 1, lines[at].lstrip(_BLANK)
        at += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1]
            if at == len(lines):
                break
            line += lines[at].lstrip(_BLANK)
            at += 1
        if line:
            found.append((first, line))
    return found


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            parts.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ValueError(f"'\\u{digits}' is not a character")
            parts.append(chr(int(digits, 16)))
            at += 6
        else:
            parts.append(_ESCAPES.get(text[at + 1 : at + 2], text[at + 1 : at + 2]))
            at += 2
    return "".join(parts)
