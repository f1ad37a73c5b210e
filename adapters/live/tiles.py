"""Tiles of the pictures that drones take of a field: rendered for tasks, and what was found judged by the truth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from cosim.adapters.live.config import LiveConfig
from cosim.contract.adapter import Context
from cosim.contract.frame import Array, Frame
from cosim.contract.geo import LocalFrame
from cosim.contract.signals import Column, Signal
from cosim.physics.vehicles.tiles import Shot, judged, ppm, render
from cosim.physics.vehicles.weeds import Plants, growth, read_weeds

TILE = Signal("tile", "part of a picture that a real node has looked at; the row's slot is the drone", (
    Column("task", "int64", "", "serial number of the task"),
    Column("host", "int32", "", "slot of the node that looked at it", "slot"),
    Column("x", "float64", "m", "east, of its middle on the ground"),
    Column("y", "float64", "m", "north of it"),
    Column("pixel", "float64", "m", "ground sample distance", low=0.0),
    Column("light", "float64", "lx", "on the ground", low=0.0),
    Column("found", "int32", "1", "weeds that the node says there are", low=0.0),
    Column("weeds", "int32", "1", "truth: weeds in it", low=0.0),
    Column("hits", "int32", "1", "of those, found", low=0.0),
    Column("false_alarms", "int32", "1", "found, and none", low=0.0),
), rows="event")  # fmt: skip
Painted = tuple[Shot | None, bytes]  # what a tile shows, if anything, and its pixmap
_SUMS = ("found", "weeds", "hits", "false_alarms")


class Tiles:
    """The fields and the latest pictures of the adapters that offloaded workloads name."""

    def __init__(self, config: LiveConfig, context: Context) -> None:
        geo = context.scene.geo
        frame = None if geo is None else LocalFrame(geo.latitude, geo.longitude, geo.height)
        self._plants: dict[str, Plants] = {}
        self._pixels: dict[int, list[int]] = {}  # of the camera of the device in a slot
        slots = {node.id: slot for slot, node in enumerate(context.scene.nodes)}
        for name in {block.pictures for block in config.offload.values() if block.pictures}:
            given = context.offered[name]
            field = read_weeds(context.path(str(given["weeds"])), frame)
            self._plants[name] = Plants.of(field, growth(context.seed_of(name)))
            self._pixels |= {slots[node]: list(pixels) for node, pixels in given["pictures"].items()}
        self._pictures: dict[int, Shot] = {}
        self._next: dict[int, int] = {}
        self._shown: dict[int, tuple[Shot, str]] = {}  # task -> what it is about, and whose field that is
        self._painter = ThreadPoolExecutor(1, thread_name_prefix="cosim-tiles")
        self._rows: list[tuple[Any, ...]] = []
        self._sums = dict.fromkeys(_SUMS, 0)
        self._looked = 0

    def take(self, frames: Sequence[Frame]) -> None:
        """The latest pictures, as the bus last carried them."""
        for frame in frames:
            for k, slot in enumerate(frame.slot.tolist()):
                if slot in self._pixels and math.isfinite(float(frame["taken"][k])):
                    x, y, pixel, light = (float(frame[name][k]) for name in ("x", "y", "pixel", "light"))
                    turned = math.radians(float(frame["heading"][k]))
                    self._pictures[slot] = Shot(
                        x, y, turned, pixel, self._pixels[slot][0], self._pixels[slot][1], light
                    )

    def ahead(self, device: int, adapter: str, size: int) -> Future[Painted]:
        """The next tile of the device's latest picture, rendered in a thread of its own: that takes some 20 ms."""
        picture = self._pictures.get(device)
        if picture is None:
            return self._painter.submit(_black, size)
        number = self._next.get(device, 0)
        self._next[device] = number + 1
        # neighbours are about the same: go through the picture in steps that meet every tile
        view = picture.tile(number * _stride(picture.tiles(size)), size)
        return self._painter.submit(_paint, self._plants[adapter], view, number)

    def send(self, task: int, adapter: str, painted: Painted) -> bytes:
        """The tile as a pixmap, from now on that of `task`; black before the first picture."""
        view, pixmap = painted
        if view is not None:
            self._shown[task] = view, adapter
        return pixmap

    def close(self) -> None:
        """Render no more."""
        self._painter.shutdown(wait=False, cancel_futures=True)

    def judge(self, task: int, device: int, host: int, answer: bytes) -> None:
        """Book what the service has found for `task`; an answer that cannot be read is none."""
        shown = self._shown.pop(task, None)
        if shown is None:
            return
        try:
            found = [(float(column), float(line)) for column, line in json.loads(answer)["result"]]
        except (ValueError, KeyError, TypeError):
            return
        view, field = shown
        weeds, hits, wrong = judged(view, self._plants[field], found)
        self._rows.append((device, task, host, view.x, view.y, view.pixel, view.light, len(found), weeds, hits, wrong))
        for name, value in zip(_SUMS, (len(found), weeds, hits, wrong), strict=True):
            self._sums[name] += value
        self._looked += 1

    def forget(self, task: int) -> None:
        """Drop the tile of `task`, which will not be judged."""
        self._shown.pop(task, None)

    def frame(self, time: float) -> Frame:
        """The tiles that were looked at since the last call."""
        rows, self._rows = self._rows, []
        columns: dict[str, Array] = {
            column.name: np.array([row[1 + k] for row in rows], column.dtype) for k, column in enumerate(TILE.columns)
        }
        return Frame("tile", time, np.array([row[0] for row in rows], np.int32), columns)

    def summary(self) -> Mapping[str, object]:
        """Sums over all tiles that were looked at."""
        hits, wrong, weeds = (self._sums[name] for name in ("hits", "false_alarms", "weeds"))
        return {
            "looked_at": self._looked, **self._sums, "recall": hits / weeds if weeds else None,
            "precision": hits / (hits + wrong) if hits + wrong else None,
        }  # fmt: skip


def _paint(plants: Plants, view: Shot, seed: int) -> Painted:
    return view, ppm(render(plants, view, seed))


def _black(size: int) -> Painted:
    return None, ppm(np.zeros((size, size, 3), np.uint8))


def _stride(count: int) -> int:
    """A step of about 0.4 of `count` that meets all numbers below it."""
    step = max(1, round(0.38 * count))
    while math.gcd(step, count) != 1:
        step += 1
    return step
