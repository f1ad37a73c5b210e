"""An open load: requests leave at their times, whether or not earlier ones have been answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

LATE = 30.0  # s after which an answer is given up
FRESH = 2.0  # s that a connection may have been idle: the service ends it after 5
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """One request to be made `time` s after the start."""

    time: float
    service: str
    size: int  # of the picture, pixels a side


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of it. Times in s after the start, by one clock; NaN for what has not been."""

    request: LoadRequest
    status: int  # of HTTP; 0: no answer
    assigned: float  # sent
    uploaded: float  # all of the input was at the node
    started: float
    computed: float
    ended: float  # the answer was here


@cache
def picture(size: int) -> bytes:
    """The bytes of a picture that is sent: one of eight of what it holds, as when it is compressed."""
    return np.random.default_rng(size).integers(0, 256, max(3 * size * size // 8, 1), np.uint8).tobytes()


def poisson(rate: float, seconds: float, services: Sequence[tuple[str, int]], seed: Sequence[int]) -> list[LoadRequest]:
    """Requests at `rate` 1/s for `seconds`; each asks for one of the (service, size), all equally likely."""
    random = np.random.default_rng(np.random.SeedSequence(list(seed)))
    gaps = random.exponential(1.0 / rate, int(rate * seconds + 20.0 * (rate * seconds) ** 0.5 + 20))
    times = np.cumsum(gaps)
    times = times[times < seconds]
    chosen = random.integers(0, len(services), len(times))
    return [LoadRequest(float(t), *services[k]) for t, k in zip(times, chosen, strict=True)]


class Caller:
    """Connections to one node that are used again and again."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: list[tuple[float, Ends]] = []  # since when, by the monotonic clock

    @property
    def port_here(self) -> int | None:
        """The port, if it is one of this machine."""
        return self._port if self._host in ("127.0.0.1", "localhost", "::1", "[::1]") else None

    async def ask(self, request: LoadRequest, origin: float) -> Answered:
        """Send it now; `origin` is the start by the monotonic clock."""
        data, nan = picture(request.size), float("nan")
        head = f"POST /run/{request.service}?size={request.size} HTTP/1.1\r\nHost: {self._host}\r\n"
        sent, writer = time.monotonic(), None
        try:
            async with asyncio.timeout(LATE):
                reader, writer = ends = await self._connection()
                writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
                top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                status = int(top.split(" ", 2)[1])
                length = int(top.partition("content-length:")[2].split("\r\n", 1)[0])
                answer = json.loads(await reader.readexactly(length))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            if writer is not None:
                writer.close()
            return Answered(request, 0, sent - origin, nan, nan, nan, nan)
        ended = time.monotonic() - origin
        self._idle.append((time.monotonic(), ends))
        if status != 200:
            return Answered(request, status, sent - origin, nan, nan, nan, ended)
        came = answer["came"] - origin
        started = came + answer["queued"]
        return Answered(request, status, sent - origin, came, started, started + answer["computed"], ended)

    async def _connection(self) -> Ends:
        """The connection that was used last, or a new one."""
        while self._idle:
            since, ends = self._idle.pop()
            if time.monotonic() - since < FRESH:
                return ends
            ends[1].close()
        return await asyncio.open_connection(self._host, self._port)

    async def open_loop(self, requests: Sequence[LoadRequest]) -> tuple[float, list[Answered]]:
        """The start by the monotonic clock, and all answers in the order of the requests."""
        origin = time.monotonic() + 0.05
        pending = []
        for request in requests:
            await asyncio.sleep(max(0.0, origin + request.time - time.monotonic()))
            pending.append(asyncio.create_task(self.ask(request, origin)))
        return origin, list(await asyncio.gather(*pending))

    async def closed_loop(self, requests: Sequence[LoadRequest], workers: int) -> tuple[float, list[Answered]]:
        """Every worker sends one after another; the seconds that all took, and the answers in any order."""
        origin, found, left = time.monotonic(), list[Answered](), list(reversed(requests))

        async def work() -> None:
            while left:
                request = left.pop()
                now = time.monotonic() - origin
                found.append(await self.ask(LoadRequest(now, request.service, request.size), origin))

        await asyncio.gather(*(work() for _ in range(workers)))
        return time.monotonic() - origin, found

    def close(self) -> None:
        """End the connections."""
        for _, (_, writer) in self._idle:
            writer.close()
        self._idle.clear()


class PageCaller(Caller):
    """Asks for one page of any HTTP service, over a new connection each time: a service may have one thread only."""

    def __init__(self, host: str, port: int, path: str) -> None:
        super().__init__(host, port)
        self._path = path

    async def ask(self, request: LoadRequest, origin: float) -> Answered:
        """Send it now; `origin` is the start by the monotonic clock. When it was served is not known."""
        nan, writer, sent = float("nan"), None, time.monotonic()
        head = f"GET {self._path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nConnection: close\r\n\r\n"
        try:
            async with asyncio.timeout(LATE):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(head.encode())
                answer = await reader.read()
            status = int(answer.split(b" ", 2)[1])
        except (OSError, TimeoutError, ValueError, IndexError):
            return Answered(request, 0, sent - origin, nan, nan, nan, nan)
        finally:
            if writer is not None:
                writer.close()
        return Answered(request, status, sent - origin, nan, nan, nan, time.monotonic() - origin)
