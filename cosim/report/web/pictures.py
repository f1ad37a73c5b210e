"""What a camera took last, rendered from the field that its run has left in its folder."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from cosim.physics.vehicles.tiles import Shot, png, render
from cosim.physics.vehicles.weeds import FILE, Plants, read_kept

SIDE = 480  # pixels of a picture that is shown, at most
_FINEST = 0.02  # m: plants are a few pixels wide at this size
LATEST = 0.1  # s between two looks whether there is another
BOUNDARY = "picture"  # between the parts of a stream
_WANTED = ("taken", "x", "y", "heading", "pixel", "light")


class Pictures:
    """The fields in the folder of a run (None: not known where that is). May be called from any thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._fields: list[tuple[Plants, dict[str, tuple[int, int]]]] | None = None
        self._last: dict[str, tuple[list[object], bytes]] = {}  # by node: what was reported, and the picture

    def png(self, name: str, reported: Mapping[str, Any]) -> bytes | None:
        """The latest picture of node `name`, whose signal `picture` has the values `reported`; None if it has none."""
        values = [reported.get(key) for key in _WANTED]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            return None
        with self._lock:
            if name not in self._last or self._last[name][0] != values:
                plants, cameras = next((one for one in self._known() if name in one[1]), (None, {}))
                if plants is None:
                    return None
                _, x, y, heading, pixel, light = (float(value) for value in values if value is not None)
                view = Shot(x, y, math.radians(heading), pixel, *cameras[name], light).smaller(SIDE)
                self._last[name] = values, png(render(plants, view, finest=_FINEST))
            return self._last[name][1]

    def _known(self) -> list[tuple[Plants, dict[str, tuple[int, int]]]]:
        if self._fields is None:
            files = [] if self._folder is None else sorted(self._folder.glob(f"logs/*/{FILE}"))
            self._fields = []
            for file in files:
                try:
                    self._fields.append(read_kept(file))
                except (OSError, ValueError):
                    continue  # a picture is no result
        return self._fields


async def parts(look: Callable[[], bytes | None], lasts: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The parts of a stream `multipart/x-mixed-replace`: each picture (PNG) that `look` gives, while `lasts`.

    https://html.spec.whatwg.org/multipage/document-lifecycle.html#read-multipart-x-mixed-replace
    """
    last: bytes | None = None
    while True:
        data = await asyncio.to_thread(look)
        if data is not None and data is not last:
            last = data
            head = f"--{BOUNDARY}\r\nContent-Type: image/png\r\nContent-Length: {len(data)}\r\n\r\n"
            yield head.encode() + data + b"\r\n"
        if not lasts():
            yield f"--{BOUNDARY}--\r\n".encode()
            return
        await asyncio.sleep(LATEST)
