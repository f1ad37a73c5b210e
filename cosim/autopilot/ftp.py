"""MAVLink FTP, as far as ground stations need it to read all parameters at once.

https://mavlink.io/en/services/ftp.html. There is one file, ArduPilot's @PARAM/param.pck; every other
request is refused at once, so that no client waits for a time-out.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

PACKED = "@PARAM/param.pck"
_HEAD = struct.Struct("<HBBBBBBI")  # sequence, session, opcode, size, request, burst complete, padding, offset
_ROOM = 239  # B of data in a payload
TERMINATE, RESET, LIST, OPEN, READ, CRC, BURST = 1, 2, 3, 4, 5, 14, 15
ACK, NAK = 128, 129
_FAIL, _BAD_SIZE, _BAD_SESSION, _END, _UNKNOWN, _NOT_FOUND = 1, 3, 4, 6, 7, 10


@dataclass(slots=True)
class _Burst:
    sequence: int
    session: int
    size: int
    offset: int


class Files:
    """The server for one client; `read` gives the content of a file, or None."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._content: bytes | None = None
        self._burst: _Burst | None = None

    def answer(self, payload: bytes) -> bytes | None:
        """The payload (251 B) that answers one; None when `more` will."""
        sequence, session, opcode, size, _, _, _, offset = _HEAD.unpack_from(payload)
        data = payload[_HEAD.size : _HEAD.size + size]
        sequence = (sequence + 1) & 0xFFFF
        if opcode in (TERMINATE, RESET):
            self._content = self._burst = None
            return _pack(sequence, session, ACK, opcode, offset)
        if opcode in (OPEN, CRC):
            content = self._read(data.split(b"\0")[0].decode("utf-8", "replace"))
            if content is None:
                return _pack(sequence, session, NAK, opcode, 0, bytes([_NOT_FOUND]))
            if opcode == CRC:  # CRC-32 that begins with 0 and is not inverted, unlike zlib's
                return _pack(
                    sequence, 0, ACK, opcode, 0, struct.pack("<I", ~zlib.crc32(content, 0xFFFFFFFF) & 0xFFFFFFFF)
                )
            self._content = content
            return _pack(sequence, 0, ACK, opcode, 0, struct.pack("<I", len(self._content)))
        if opcode in (READ, BURST):
            if self._content is None:
                return _pack(sequence, session, NAK, opcode, offset, bytes([_BAD_SESSION]))
            if offset >= len(self._content):
                return _pack(sequence, session, NAK, opcode, offset, bytes([_END]))
            size = min(size or _ROOM, _ROOM)
            if opcode == READ:
                return _pack(sequence, session, ACK, opcode, offset, self._content[offset : offset + size])
            self._burst = _Burst(sequence, session, size, offset)
            return None
        # a list of folders is asked for by some clients: there are none
        code = _END if opcode == LIST and offset else _NOT_FOUND if opcode == LIST else _UNKNOWN
        return _pack(sequence, session, NAK, opcode, offset, bytes([code]))

    def more(self) -> bytes | None:
        """The next payload of a burst under way."""
        burst, content = self._burst, self._content
        if burst is None or content is None:
            return None
        data = content[burst.offset : burst.offset + burst.size]
        end = burst.offset + len(data) >= len(content)
        payload = _pack(burst.sequence, burst.session, ACK, BURST, burst.offset, data, end)
        burst.offset += len(data)
        burst.sequence = (burst.sequence + 1) & 0xFFFF
        if end:
            self._burst = None
        return payload


def _pack(
    sequence: int, session: int, opcode: int, request: int, offset: int, data: bytes = b"", end: bool = False
) -> bytes:
    head = _HEAD.pack(sequence, session, opcode, len(data), request, int(end), 0, offset)
    return (head + data).ljust(251, b"\0")
