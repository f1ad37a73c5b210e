"""PX4's ULog: a header, definitions and data, in messages that state their length and kind.

Source of the format: https://docs.px4.io/main/en/dev_log/ulog_file_format.html (version 1). Formats, subscriptions
and the data of chosen topics are read; parameters, texts and drop-outs are skipped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"ULog\x01\x12\x35"
_HEADER = struct.Struct("<7sBQ")  # magic, version, µs since boot
_MESSAGE = struct.Struct("<HB")  # length, kind
_FLAGS = struct.Struct("<8s8s3Q")  # compatible, incompatible, where appended data begin
_APPENDED = 1  # of the first incompatible byte: the only one that this version knows
_PLAIN: Mapping[str, str] = {
    "int8_t": "<i1", "uint8_t": "<u1", "int16_t": "<i2", "uint16_t": "<u2", "int32_t": "<i4", "uint32_t": "<u4",
    "int64_t": "<i8", "uint64_t": "<u8", "float": "<f4", "double": "<f8", "bool": "?", "char": "S1",
}  # fmt: skip
_FIELD = re.compile(r"(\w+)(?:\[(\d{1,5})\])? (\w+)", re.ASCII)
_DEEPEST = 8  # formats inside formats
_LARGEST = 65_535  # B of a message

Rows = NDArray[Any]


class ULogError(ValueError):
    """A file is no ULog, or breaks its own rules."""


@dataclass(frozen=True, slots=True)
class ULog:
    """What was read: by topic and instance the rows, structured arrays with a field for each of the format."""

    start: int  # µs since boot
    topics: Mapping[tuple[str, int], Rows]
    cut: bool  # the last message is not whole: the power went, or the copy did not end

    def rows(self, topic: str) -> Rows | None:
        """The rows of a topic's first instance that has any."""
        found = [(instance, rows) for (name, instance), rows in self.topics.items() if name == topic and len(rows)]
        return min(found, key=lambda one: one[0])[1] if found else None


@dataclass(slots=True)
class _Reader:
    data: bytes
    wanted: Collection[str]
    formats: dict[str, str] = field(default_factory=dict)
    subscribed: dict[int, tuple[str, int, np.dtype[Any]]] = field(default_factory=dict)  # of the wanted topics
    skipped: set[int] = field(default_factory=set)  # subscriptions of others
    parts: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    kinds: dict[tuple[str, int], np.dtype[Any]] = field(default_factory=dict)
    appended: list[int] = field(default_factory=list)  # offsets at which writing began anew

    def run(self) -> ULog:
        if len(self.data) < _HEADER.size or self.data[:7] != MAGIC:
            raise ULogError("it does not begin as a ULog does")
        _, version, start = _HEADER.unpack_from(self.data)
        if version > 1:
            raise ULogError(f"it is a ULog of version {version}; 1 is known")
        at, cut = _HEADER.size, False
        while at < len(self.data):
            anew = next((offset for offset in self.appended if offset > at), len(self.data))
            if at + _MESSAGE.size > anew:
                cut, at = True, anew
                continue
            length, kind = _MESSAGE.unpack_from(self.data, at)
            end = at + _MESSAGE.size + length
            if end > anew:
                cut, at = True, anew
                continue
            self._take(chr(kind), self.data[at + _MESSAGE.size : end], at)
            at = end
        topics = {key: np.frombuffer(b"".join(parts), self.kinds[key]) for key, parts in self.parts.items()}
        return ULog(start, topics, cut)

    def _take(self, kind: str, body: bytes, at: int) -> None:
        try:
            if kind == "D":
                self._data(body)
            elif kind == "F":
                name, colon, fields = body.decode("ascii").partition(":")
                if not colon:
                    raise ULogError("a format without fields")
                self.formats[name] = fields
            elif kind == "A":
                self._subscribe(body)
            elif kind == "B":
                self._flags(body)
            elif not kind.isalpha():
                raise ULogError(f"no message has the kind {ord(kind)}")
        except (ULogError, UnicodeDecodeError, struct.error) as error:
            raise ULogError(f"at byte {at}: {error}") from error

    def _flags(self, body: bytes) -> None:
        _, incompatible, *offsets = _FLAGS.unpack_from(body)
        if incompatible[0] & ~_APPENDED or any(incompatible[1:]):
            raise ULogError("it uses a form of ULog that is not known")
        if incompatible[0] & _APPENDED:
            self.appended = sorted(offset for offset in offsets if offset)

    def _subscribe(self, body: bytes) -> None:
        instance, number = struct.unpack_from("<BH", body)
        topic = body[3:].decode("ascii")
        self.subscribed.pop(number, None)
        if topic in self.wanted:
            found = self._dtype(topic, 0)
            self.subscribed[number] = (topic, instance, found)
            self.kinds[topic, instance] = found
            self.parts.setdefault((topic, instance), [])
        else:
            self.skipped.add(number)

    def _data(self, body: bytes) -> None:
        (number,) = struct.unpack_from("<H", body)
        known = self.subscribed.get(number)
        if known is None:
            if number not in self.skipped:
                raise ULogError(f"data of the subscription {number}, which there is not")
            return
        topic, instance, kind = known
        if len(body) - 2 < kind.itemsize:
            raise ULogError(f"{len(body) - 2} B of {topic}, whose format has {kind.itemsize} B")
        if self.kinds[topic, instance] != kind:
            raise ULogError(f"{topic} has two formats")
        self.parts[topic, instance].append(body[2 : 2 + kind.itemsize])

    def _dtype(self, name: str, depth: int) -> np.dtype[Any]:
        """The fields of a format; padding at its end is not in the data."""
        if name not in self.formats:
            raise ULogError(f"there is no format '{name}'")
        if depth > _DEEPEST:
            raise ULogError(f"format '{name}' holds itself")
        fields: list[tuple[Any, ...]] = []
        size = 0
        for text in filter(None, self.formats[name].split(";")):
            match = _FIELD.fullmatch(text)
            if match is None:
                raise ULogError(f"format '{name}': '{text[:40]}' is no field")
            kind, count, field_name = match.groups()
            element = np.dtype(_PLAIN[kind]) if kind in _PLAIN else self._dtype(kind, depth + 1)
            if any(field_name == known for known, *_ in fields):
                raise ULogError(f"format '{name}' has two fields '{field_name}'")
            fields.append((field_name, element, (int(count),)) if count else (field_name, element))
            size += element.itemsize * int(count or 1)
            if size > _LARGEST:
                raise ULogError(f"format '{name}' is larger than a message can be")
        while fields and depth == 0 and str(fields[-1][0]).startswith("_padding"):
            fields.pop()
        if not fields:
            raise ULogError(f"format '{name}' has no field")
        return np.dtype(fields)


def read_ulog(data: bytes, wanted: Collection[str]) -> ULog:
    """The rows of the topics `wanted`. Raises `ULogError` with the place of the fault if `data` is no ULog."""
    return _Reader(data, wanted).run()
