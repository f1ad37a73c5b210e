"""What a camera sees, rendered from the field that its run has left in its folder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.frame import Array, Frame
from cosim.physics.vehicles.tiles import png
from cosim.physics.vehicles.views import FILE, Scenery, read_scenery
from cosim.report.web.source import columns_of
from cosim.talk.publish import TickSnapshot

SIDE = 400  # pixels of a picture that is shown, at most
LATEST = 0.1  # s between two looks whether there is another
BOUNDARY = "picture"  # between the parts of a stream
# What has to be known of nodes, as the parts of a frame; see `source`.
SEEN = {
    "m": ("mobility", {name: name for name in ("x", "y", "z", "heading")}),
    "v": ("vehicle", {"pitch": "pitch", "roll": "roll"}),
    "c": ("picture", {"light": "light"}),
}
_DEGREE = np.pi / 180.0
_LIGHT = 1e4  # lx, before there is a report: an overcast day


class Pictures:
    """The fields in the folder of a run (None: not known where that is). May be called from any thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._fields: list[Scenery] | None = None
        self._last: dict[int, tuple[object, bytes]] = {}  # by node: what it depends on, and the picture

    def png(self, node: int, nodes: Sequence[Mapping[str, Any]], columns: Mapping[str, Array]) -> bytes | None:
        """What the camera of number `node` sees; None if it has none. `nodes` of the scene; `columns` by `SEEN`."""
        poses = {number: np.array([*one["at"], 0.0, 0.0, 0.0]) for number, one in enumerate(nodes) if one["at"]}
        for part, first, scale in (("m", 0, (1.0, 1.0, 1.0, _DEGREE)), ("v", 4, (_DEGREE, _DEGREE))):
            rows = [columns.get(f"{part}.{key}", ()) for key in ("node", *SEEN[part][1])]
            for number, *values in zip(*rows, strict=True):
                poses.setdefault(int(number), np.zeros(6))[first : first + len(values)] = np.multiply(values, scale)
        lights = dict(zip(columns.get("c.node", ()), columns.get("c.light", ()), strict=True))
        light = float(lights.get(node, np.nan))
        with self._lock:
            field = next((one for one in self._known() if node in one.cameras), None)
            if field is None or not np.isfinite(poses.get(node, np.nan)).all():
                return None
            values = [light, {number: poses[number].tolist() for number in (node, *field.bodies) if number in poses}]
            if node not in self._last or self._last[node][0] != str(values):
                picture = field.picture(node, poses, light if light > 0.0 else _LIGHT, SIDE)
                self._last[node] = str(values), png(picture)
            return self._last[node][1]

    def _known(self) -> list[Scenery]:
        if self._fields is None:
            self._fields = []
            for file in [] if self._folder is None else sorted(self._folder.glob(f"logs/*/{FILE}")):
                try:
                    self._fields.append(read_scenery(file))
                except (OSError, ValueError):
                    continue  # a picture is no result
        return self._fields


class LivePictures:
    """What cameras of a run under way see, by its snapshots and by what it has left in `folder`."""

    def __init__(self, folder: Path | None) -> None:
        self._pictures = Pictures(folder)
        self._frames: dict[str, dict[str, Frame]] = {}  # the newest, by signal and adapter
        self._nodes: Sequence[Mapping[str, Any]] = ()

    def take(self, snapshot: TickSnapshot) -> None:
        """Go on to what was published."""
        self._nodes = snapshot.scene.get("nodes", ())
        writers = snapshot.state.get("writers") or [""] * len(snapshot.frames)
        for writer, frame in zip(writers, snapshot.frames, strict=False):
            self._frames.setdefault(frame.signal, {})[writer] = frame

    def png(self, node: str) -> bytes | None:
        """What the camera of `node` sees; None if it has none, or its field is not known."""
        names = [one["id"] for one in self._nodes]
        if node not in names:
            return None
        return self._pictures.png(names.index(node), self._nodes, columns_of(self._frames, SEEN))


async def parts(look: Callable[[], bytes | None], lasts: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The parts of a stream `multipart/x-mixed-replace`: each picture (PNG) that `look` gives, while `lasts`.

    https://html.spec.whatwg.org/multipage/document-lifecycle.html#read-multipart-x-mixed-replace
    """
    last: bytes | None = None
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LATEST
        data = await asyncio.to_thread(look)
        if data is not None and data is not last:
            last = data
            head = f"--{BOUNDARY}\r\nContent-Type: image/png\r\nContent-Length: {len(data)}\r\n\r\n"
            yield head.encode() + data + b"\r\n"
        if not lasts():
            yield f"--{BOUNDARY}--\r\n".encode()
            return
        await asyncio.sleep(due - clock())
