"""One browser's stream of frames: it asks, it gets the newest, and nothing queues up.

The browser sends `{after, at, watch}`: the serial number of the frame that it has, the moment that
it wants of a finished run, the node that it wants everything of. A newer request replaces one that
has not been answered.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from fastapi import WebSocket, WebSocketDisconnect

from cosim.report.web.source import RunSource

INTERVAL = 0.1  # s at least between two frames of a live run


@dataclass(frozen=True, slots=True)
class Want:
    """What a browser asked for."""

    after: int = 0
    at: float | None = None  # s
    watch: int = -1

    @staticmethod
    def parse(text: str) -> Want:
        """Raises `ValueError` for what is no request."""
        data = json.loads(text)
        if not isinstance(data, dict):
            raise ValueError("a request is an object")
        after, at, watch = data.get("after", 0), data.get("at"), data.get("watch", -1)
        if type(after) is not int or type(watch) is not int or not isinstance(at, (int, float, type(None))):
            raise ValueError("a request has an integer 'after', a number or null 'at' and an integer 'watch'")
        if at is not None and not math.isfinite(at):
            raise ValueError("'at' is not finite")
        return Want(after, None if at is None else float(at), watch)


class Feed:
    """Serves one WebSocket from `source` until the browser leaves."""

    def __init__(self, source: RunSource, socket: WebSocket) -> None:
        self._source, self._socket = source, socket
        self._want: Want | None = None
        self._bell = asyncio.Event()

    async def serve(self) -> None:
        """Answer until either end closes."""
        loop = asyncio.get_running_loop()

        def ring() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._bell.set)

        quiet = self._source.listen(ring)
        try:
            async with anyio.create_task_group() as group:

                async def until_end(part: Callable[[], Awaitable[None]]) -> None:
                    await part()
                    group.cancel_scope.cancel()

                group.start_soon(until_end, self._answer)
                group.start_soon(until_end, self._listen)
        finally:
            quiet()

    async def _listen(self) -> None:
        while True:
            try:
                self._want = Want.parse(await self._socket.receive_text())
            except (WebSocketDisconnect, RuntimeError):
                return
            except (ValueError, KeyError, RecursionError):
                await self._socket.close(1003)
                return
            self._bell.set()

    async def _answer(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            want = self._want
            if want is None or (self._source.live and self._source.serial <= want.after):
                continue
            self._want = None
            packed = await asyncio.to_thread(self._source.frame, want.at, want.watch)
            try:
                await self._socket.send_bytes(packed)
            except (WebSocketDisconnect, RuntimeError):
                return
            if self._source.live:
                await asyncio.sleep(INTERVAL)
