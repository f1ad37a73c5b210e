"""Recorded trajectories on the bus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.replay.backend import FLIGHTS, UnreadableError, kind_of, read
from adapters.replay.config import ReplayConfig
from adapters.replay.trajectories import COLUMNS, HELD, Floats, Indices, Samples, Trajectories
from cosim.bus.adapter import Context, Inputs, Summary
from cosim.bus.frame import Array, Frame
from cosim.bus.slots import SlotBook
from cosim.errors import Problem, ScenarioError
from cosim.plan.entities import Geo
from cosim.plan.geo import LocalFrame
from cosim.telemetry.signals import VEHICLE


class ReplayAdapter:
    """Brings the members of one fleet to where the file says they were."""

    def __init__(self, config: ReplayConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        """Read the file. Raises `ScenarioError` when it cannot be replayed or no fleet takes its members."""
        fleets = [fleet for fleet in context.scene.fleets if fleet.adapter == context.name]
        if len(fleets) != 1:
            raise ScenarioError(
                Problem(
                    f"'{context.name}' needs exactly one fleet, the scenario has {len(fleets)}",
                    path="nodes",
                    hint=f"write one node with  fleet: {context.name}",
                )
            )
        path = context.path(self._config.file)
        try:
            samples = self._located(
                read(path, dict[str, str](self._config.columns.items()), self._config.memory), context.scene.geo
            )
            self._trajectories = Trajectories(samples)
        except (UnreadableError, ValueError) as error:
            raise ScenarioError(self._problem(context.name, path, error)) from error
        fleet = fleets[0]
        self._book = SlotBook(fleet.first, fleet.capacity, fleet.name)
        self._flights = kind_of(path) in FLIGHTS
        self._ids = np.array(self._trajectories.ids, dtype=object)
        self._shown = self._ids
        self._lap = 0
        self._there: Indices = np.empty(0, np.int64)
        self._slots: NDArray[np.int32] = np.empty(0, np.int32)
        self._most = 0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Everybody who is on the way at `time`, in the order of their ids."""
        moment, lap = self._file_time(time)
        gap = None if self._config.gap is None else round(self._config.gap * 1e9)
        there, columns = self._trajectories.at(moment, interpolate=self._config.interpolate, gap=gap)
        if lap != self._lap:
            # whoever comes round again is another member: its path does not go on from where it ended
            self._shown = np.array([f"{name}#{lap + 1}" for name in self._trajectories.ids], dtype=object)
        if lap != self._lap or not np.array_equal(there, self._there):
            self._slots = self._book.assign(self._shown[there].tolist())
            self._there, self._lap = there, lap
        self._most = max(self._most, len(there))
        place = {name: columns[name] for name in COLUMNS}
        frames = [Frame("mobility", time, self._slots.copy(), place, self._book.table())]
        if self._flights:
            frames.append(Frame("vehicle", time, self._slots.copy(), self._vehicle(columns), self._book.table()))
        return frames

    def _vehicle(self, columns: dict[str, Floats]) -> dict[str, Array]:
        """The columns of the signal `vehicle`; what a log does not have is NaN, or the first of its words."""
        found: dict[str, Array] = {}
        for column in VEHICLE.columns:
            values = columns.get(column.name, np.full(len(self._slots), np.nan))
            if column.name in HELD:
                values = np.nan_to_num(values)
            found[column.name] = values.astype(column.dtype)
        return found

    def finish(self) -> Summary:
        """What was read, and how many members there were at once."""
        first, last = self._trajectories.span
        return {
            "file": Path(self._config.file).name,
            "samples": len(self._trajectories),
            "members": len(self._ids),
            "most_at_once": self._most,
            "first": first * 1e-9,
            "last": last * 1e-9,
            "laps": self._lap + 1,
        }

    def close(self) -> None:
        """The file was closed when it had been read."""

    def _file_time(self, time: float) -> tuple[int, int]:
        """The moment in the file (ns) at simulated `time` (s), and how often the file was gone through before."""
        moment = round((self._config.offset + time * self._config.speed_up) * 1e9)
        _, last = self._trajectories.span
        begin = round(self._config.offset * 1e9)
        length = last - begin + max(self._trajectories.spacing, 1)
        if not self._config.loop or last < begin:
            return moment, 0
        lap, rest = divmod(moment - begin, length)
        return begin + rest, lap

    def _located(self, samples: Samples, geo: Geo | None) -> Samples:
        """The same samples with x, y, z in the scenario's frame."""
        columns = dict(samples.columns)
        if self._config.coordinates == "lon-lat" and "x" in columns:
            columns["lon"], columns["lat"] = columns.pop("x"), columns.pop("y")
        if "lat" not in columns:
            return samples
        if geo is None:
            raise ValueError("positions are in degrees, but the scenario has no 'geo: {origin: [lat, lon]}'")
        lat, lon = columns.pop("lat"), columns.pop("lon")
        wrong = np.flatnonzero((np.abs(lat) > 90.0) | (np.abs(lon) > 180.0))
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(f"latitude {lat[row]:g}, longitude {lon[row]:g} is no place on earth, sample {row + 1}")
        height = columns.pop("height", columns.pop("z", None))
        known = np.full(len(lat), geo.height) if height is None else height
        frame = LocalFrame(geo.latitude, geo.longitude, geo.height)
        columns["x"], columns["y"], columns["z"] = frame.to_local(lat, lon, known)
        return replace(samples, columns=columns)

    def _problem(self, name: str, path: Path, error: Exception) -> Problem:
        line = error.line if isinstance(error, UnreadableError) else None
        hint = "relative paths start at the scenario's folder" if not path.exists() else ""
        return Problem(
            f"'{self._config.file}' cannot be replayed: {error}",
            path=f"adapters.{name}.file",
            file=path,
            line=line,
            hint=hint,
        )
