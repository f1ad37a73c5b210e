"""Where an agent's machine is: a fixed place, gpsd, or the MAVLink messages of its autopilot.

Positions are latitude and longitude (deg) and height (m) in WGS84. One that is older than `FRESH` is none.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

from cosim.contract.errors import SetupError

FRESH = 10.0  # s
_AGAIN = 5.0  # s between attempts to reach gpsd
_GLOBAL_POSITION_INT = 33
_CRC_EXTRA = 104
_LENGTH = 28  # B of a whole GLOBAL_POSITION_INT; MAVLink 2 leaves zeros at the end out

Place = list[float]  # deg, deg, m


class Position(Protocol):
    """A source of the machine's position."""

    def place(self) -> Place | None:
        """The latest position, None when there is no fresh one."""

    def close(self) -> None:
        """Stop listening."""


class Fixed:
    """A machine that does not move."""

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def place(self) -> Place | None:
        return self._place

    def close(self) -> None:
        """Nothing to release."""


class Listening:
    """Keeps the latest of the positions that `source` yields in a thread of its own."""

    def __init__(self, source: Callable[[threading.Event], Iterator[Place]]) -> None:
        self._stop = threading.Event()
        self._latest: tuple[float, Place] | None = None
        self._thread = threading.Thread(target=self._listen, args=(source,), name="position", daemon=True)
        self._thread.start()

    def place(self) -> Place | None:
        latest = self._latest
        return latest[1] if latest is not None and time.monotonic() - latest[0] < FRESH else None

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)

    def _listen(self, source: Callable[[threading.Event], Iterator[Place]]) -> None:
        for place in source(self._stop):
            self._latest = (time.monotonic(), place)


def position(text: str) -> Position:
    """`fixed:lat,lon,alt`, `gpsd`, `gpsd:HOST:PORT`, `mavlink:udp://HOST:PORT`, or "" for none. Raises `SetupError`."""
    if not text:
        return Fixed(None)
    kind, _, rest = text.partition(":")
    if kind == "fixed":
        with suppress(ValueError):
            place = [float(part) for part in rest.split(",")]
            if len(place) == 3 and abs(place[0]) <= 90 and abs(place[1]) <= 180 and abs(place[2]) < 1e6:
                return Fixed(place)
        raise SetupError(f"'{text}' is no place: write fixed:LATITUDE,LONGITUDE,HEIGHT in degrees and metres")
    if kind == "gpsd":
        host, port = _endpoint(text, f"tcp://{rest or '127.0.0.1:2947'}")
        return Listening(lambda stop: gpsd(host, port, stop))
    if kind == "mavlink" and rest.startswith("udp://"):
        host, port = _endpoint(text, rest)
        return Listening(mavlink(host, port))
    raise SetupError(f"'{text}' is no position: fixed:LAT,LON,ALT, gpsd[:HOST:PORT] or mavlink:udp://HOST:PORT")


def _endpoint(text: str, url: str) -> tuple[str, int]:
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    raise SetupError(f"'{text}' names no host and port")


def gpsd(host: str, port: int, stop: threading.Event) -> Iterator[Place]:
    """The fixes (TPV reports) of a gpsd, sought again when it is gone."""
    while not stop.is_set():
        try:
            with socket.create_connection((host, port), timeout=2.0) as connection:
                connection.settimeout(0.5)
                connection.sendall(b'?WATCH={"enable":true,"json":true};\n')
                yield from _reports(connection, stop)
        except OSError:
            stop.wait(_AGAIN)


def _reports(connection: socket.socket, stop: threading.Event) -> Iterator[Place]:
    rest = b""
    while not stop.is_set():
        try:
            data = connection.recv(65536)
        except TimeoutError:
            continue
        if not data:
            raise ConnectionResetError
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[-65536:]
        for line in lines:
            place = tpv(line)
            if place is not None:
                yield place


def tpv(line: bytes) -> Place | None:
    """The place in a line of gpsd, if it is a fix."""
    try:
        report = json.loads(line)
        if report.get("class") != "TPV" or report.get("mode", 0) < 2:
            return None
        height = next((report[name] for name in ("altHAE", "alt", "altMSL") if name in report), 0.0)
        return _checked([float(report["lat"]), float(report["lon"]), float(height)])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def mavlink(host: str, port: int) -> Callable[[threading.Event], Iterator[Place]]:
    """Listens for GLOBAL_POSITION_INT at a UDP address. Raises `SetupError` when it is in use."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SetupError(f"MAVLink cannot be awaited at udp://{host}:{port}: {error}") from error
    listener.settimeout(0.5)

    def listen(stop: threading.Event) -> Iterator[Place]:
        with listener:
            while not stop.is_set():
                try:
                    data = listener.recv(65536)
                except OSError:
                    continue
                yield from places(data)

    return listen


def places(data: bytes) -> Iterator[Place]:
    """The positions in the MAVLink 1 and 2 frames of a datagram; frames with a wrong checksum are passed over."""
    at = 0
    while at + 8 <= len(data):
        magic, length = data[at], data[at + 1]
        if magic == 0xFD and at + 12 + length <= len(data):
            number = int.from_bytes(data[at + 7 : at + 10], "little")
            head, size = 10, 12 + length + (13 if data[at + 2] & 1 else 0)
        elif magic == 0xFE and at + 8 + length <= len(data):
            number, head, size = data[at + 5], 6, 8 + length
        else:
            at += 1
            continue
        end = at + head + length
        reported = int.from_bytes(data[end : end + 2], "little")
        if number != _GLOBAL_POSITION_INT:
            at += size
            continue
        if reported != crc(data[at + 1 : end] + bytes([_CRC_EXTRA])):
            at += 1
            continue
        body = data[at + head : end].ljust(_LENGTH, b"\0")
        latitude, longitude, height = (int.from_bytes(body[k : k + 4], "little", signed=True) for k in (4, 8, 12))
        place = _checked([latitude / 1e7, longitude / 1e7, height / 1e3])
        if place is not None:
            yield place
        at += size


def crc(data: bytes) -> int:
    """CRC-16/MCRF4XX, the checksum of MAVLink."""
    value = 0xFFFF
    for byte in data:
        byte ^= value & 0xFF
        byte = (byte ^ (byte << 4)) & 0xFF
        value = (value >> 8) ^ (byte << 8) ^ (byte << 3) ^ (byte >> 4)
    return value


def _checked(place: Place) -> Place | None:
    good = abs(place[0]) <= 90 and abs(place[1]) <= 180 and -20_000 <= place[2] <= 1e7
    return place if good else None
