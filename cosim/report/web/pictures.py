"""What a drone took last, rendered from the field that its run has left in its folder."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosim.physics.vehicles.tiles import Shot, png, render
from cosim.physics.vehicles.weeds import FILE, Plants, read_kept

SIDE = 480  # pixels of a picture that is shown, at most
_FINEST = 0.02  # m: plants are a few pixels wide at this size
_WANTED = ("taken", "x", "y", "heading", "pixel", "light")


class Pictures:
    """The fields in the folder of a run (None: not known where that is). May be called from any thread."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._fields: list[tuple[Plants, dict[str, tuple[int, int]]]] | None = None
        self._last: tuple[tuple[object, ...], bytes] = ((), b"")

    def png(self, name: str, reported: Mapping[str, Any]) -> bytes | None:
        """The latest picture of node `name`, whose signal `picture` has the values `reported`; None if it has none."""
        values = [reported.get(key) for key in _WANTED]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
            return None
        with self._lock:
            key = (name, *values)
            if self._last[0] != key:
                plants, cameras = next((one for one in self._known() if name in one[1]), (None, {}))
                if plants is None:
                    return None
                _, x, y, heading, pixel, light = (float(value) for value in values if value is not None)
                view = Shot(x, y, math.radians(heading), pixel, *cameras[name], light).smaller(SIDE)
                self._last = key, png(render(plants, view, finest=_FINEST))
            return self._last[1]

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
