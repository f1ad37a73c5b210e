"""A run that publishes its frames: the newest of everything, and its history since we look."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from cosim.contract.errors import ProtocolError, SetupError
from cosim.contract.frame import Frame
from cosim.report.web.figures import FOLLOWED, figures_of, split
from cosim.report.web.history import ChartHistory
from cosim.report.web.message import pack, pack_columns
from cosim.report.web.pictures import SEEN, Pictures
from cosim.report.web.source import columns_of
from cosim.results.layers import file_lines, flat
from cosim.talk.publish import Subscriber, TickSnapshot

log = logging.getLogger("cosim.report.web")

_LOOK = 0.2  # s between two looks at whether to end
DOUBTS = 20  # seconds of doubtful emulation that are named, the last ones
_SAMPLE = 0.2  # s of wall clock between two points of the history


class LiveSource:
    """Observes the publication at `address` in a thread, over lines of GeoJSON files.

    `folder` is the run's folder if it is on this machine: pictures of cameras are rendered from its content.
    Raises `SetupError` when `address` is no address. A file that cannot be used is reported in the log.
    """

    live = True

    def __init__(self, address: str, maps: Sequence[Path] = (), folder: Path | None = None, token: str = "") -> None:
        self.address = address
        self._maps = tuple(maps)
        self.serial = 0
        self._subscriber = Subscriber(address, token)
        self._lock = threading.Lock()
        self._pictures = Pictures(folder)
        self._rings: set[Callable[[], None]] = set()
        self._snapshot = TickSnapshot(0, 0.0, ())  # the newest; of no run as long as none publishes
        self._scene: dict[str, Any] = {}
        self._frames: dict[str, dict[str, Frame]] = {}  # signal -> writer -> its newest frame
        self._history = ChartHistory({})
        self._doubts: list[float] = []  # s, when the emulated links were not what was asked
        self._followed: dict[str, str] = {}  # figure of a single node -> the node's name
        self._sampled = (-math.inf, math.nan)  # wall and simulated s of the last point of the history
        self._packed: tuple[int, tuple[list[list[Any]], bytes]] = (-1, ([], b""))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cosim-view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop observing."""
        self._ending.set()
        self._thread.join()

    @property
    def control(self) -> str:
        """Where the run takes commands, or ""."""
        with self._lock:
            return str(self._snapshot.state.get("control", ""))

    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Have `ring` called for every new frame."""
        self._rings.add(ring)
        return lambda: self._rings.discard(ring)

    def scene(self) -> dict[str, Any]:
        """The scene of the run that publishes now; `{}` and `waiting` as long as none does."""
        with self._lock:
            run = self._snapshot.run
            return {**self._scene, "live": True, "run": run.hex(), "waiting": not run, "address": self.address}

    def frame(self, at: float | None, watch: int) -> bytes:
        """The newest frame; `at` is ignored."""
        with self._lock:
            snapshot = self._snapshot
            if not snapshot.run:
                return pack({"serial": 0, "run": "", "time": 0.0, "state": {}, "detail": None}, ([], b""))
            if self._packed[0] != self.serial:
                self._packed = (self.serial, pack_columns(columns_of(self._frames)))
            state = {key: value for key, value in snapshot.state.items() if key not in ("events", "writers")}
            if doubt := self._doubt():
                state["emulation"] = doubt
            header = {
                "serial": self.serial,
                "run": snapshot.run.hex(),
                "time": snapshot.time,
                "state": state,
                "events": snapshot.state.get("events", {}).get("count", 0),
                "detail": self._detail(watch) if watch >= 0 else None,
            }
            return pack(header, self._packed[1])

    def series(self, figures: Sequence[str], since: float) -> dict[str, Any]:
        """What has been seen of `figures` after `since` s."""
        with self._lock:
            units = {figure["name"]: figure["unit"] for figure in self._scene.get("figures", ())}
            found: dict[str, Any] = {}
            for name in figures:
                figure = name.partition("@")[0]
                if figure in units:
                    if figure != name and len(self._followed) < FOLLOWED:
                        self._followed.setdefault(name, self._snapshot.name(split(name)[2]))
                    times, lines = self._history.read(name, since)
                    found[name] = {"unit": units[figure], "times": times, "lines": lines}
            return {"run": self._snapshot.run.hex(), "figures": found}

    def events(self) -> list[list[Any]]:
        """The newest events of the run."""
        with self._lock:
            return list(self._snapshot.state.get("events", {}).get("recent", ()))

    def picture(self, number: int, at: float | None) -> bytes | None:
        """What the node's camera sees; needs the run's folder on this machine."""
        with self._lock:
            columns, nodes = columns_of(self._frames, SEEN), self._scene.get("nodes", ())
        return self._pictures.png(number, nodes, columns)

    def find(self, text: str) -> list[list[Any]]:
        """Nodes whose name holds `text`, static ones first."""
        wanted = text.lower()
        with self._lock:
            present = np.unique(columns_of(self._frames).get("m.node", ())).tolist()
            numbers = dict.fromkeys([*range(len(self._scene.get("nodes", ()))), *present])
            names = [(int(number), self._snapshot.name(int(number))) for number in numbers]
        return [[number, name] for number, name in names if wanted in name.lower()][:20]

    def _watch(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    snapshot = self._subscriber.latest(_LOOK)
                except ProtocolError as error:
                    log.warning("%s sent something else than a publication: %s", self.address, error)
                    self._ending.wait(_LOOK)
                    continue
                if snapshot is not None:
                    with self._lock:
                        self._take(snapshot)
                    for ring in tuple(self._rings):
                        ring()
        finally:
            self._subscriber.close()

    def _own_lines(self) -> list[list[float]]:
        geo = self._scene.get("geo")
        found = []
        for file in self._maps:
            try:
                found += flat(file_lines(file, geo and (geo[0], geo[1])))
            except SetupError as error:
                log.warning("%s", error)
        return found

    def _take(self, snapshot: TickSnapshot) -> None:
        if snapshot.run != self._snapshot.run:
            self._frames = {}
            self._scene = {**snapshot.scene}
            if self._scene:
                kinds = [kind["name"] for kind in self._scene["kinds"]]
                fleets = self._scene["fleets"]
                self._scene["members"] = [[f["first"], f["count"], kinds.index(f["kind"])] for f in fleets]
                self._scene["lines"] = [*self._scene.get("lines", ()), *self._own_lines()]
                self._scene["figures"] = figures_of(self._scene["signals"], live=True)
            self._history = ChartHistory(self._scene)
            self._followed, self._doubts = {}, []
            self._sampled = (-math.inf, math.nan)
        writers = snapshot.state.get("writers") or [""] * len(snapshot.frames)  # the adapters, one per frame
        for writer, frame in zip(writers, snapshot.frames, strict=False):
            self._frames.setdefault(frame.signal, {})[writer] = frame
        at = self._emulation().get("doubtful_at", math.nan)
        if math.isfinite(at) and at not in self._doubts[-1:]:
            self._doubts = [*self._doubts, at][-DOUBTS:]
        self._snapshot = snapshot
        self.serial += 1
        wall, time = self._sampled
        now = monotonic()
        if now - wall >= _SAMPLE or snapshot.state.get("ended"):
            pace = (snapshot.time - time) / (now - wall)
            held = {signal: tuple(frames.values()) for signal, frames in self._frames.items()}
            self._history.add(snapshot.time, held, snapshot.state, pace, self._single())
            self._sampled = (now, snapshot.time)

    def _emulation(self) -> dict[str, float]:
        """The newest report of the network service; empty for a run without real nodes."""
        frames = [frame for frame in self._frames.get("emulation", {}).values() if len(frame)]
        return {name: column[-1].item() for name, column in frames[-1].columns.items()} if frames else {}

    def _doubt(self) -> dict[str, Any]:
        """How many seconds' emulation is in doubt, why, and the last of them; empty: none is."""
        now = self._emulation()
        return {**now, "at": self._doubts} if now.get("doubtful") else {}

    def _single(self) -> dict[tuple[str, str], float]:
        """The values of the nodes that are followed, as long as the same ones are at their slots."""
        values = {}
        for figure, name in self._followed.items():
            signal, column, number = split(figure)
            for frame in self._frames.get(signal, {}).values():
                rows = np.flatnonzero(frame.slot == number)
                if len(rows) and self._snapshot.name(number) == name:
                    values[figure, name] = float(frame[column][rows[-1]])
        return values

    def _detail(self, number: int) -> dict[str, Any]:
        """All values of node `number` in the newest frames."""
        found: dict[str, Any] = {}
        about = self._scene.get("signals", {})
        for signal, frames in self._frames.items():
            if about.get(signal, {}).get("rows") != "node":
                continue
            for frame in frames.values():
                rows = np.flatnonzero(frame.slot == number)
                if len(rows):
                    last = self._snapshot.values(frame, slice(rows[-1], rows[-1] + 1))
                    found[signal] = {name: value for name, (value,) in last.items()}
        return {"node": number, "name": self._snapshot.name(number), "signals": found}
