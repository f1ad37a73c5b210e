"""Recorded trajectories on the bus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.replay.backend import FLIGHTS, kind_of
from cosim.adapters.replay.check import fleets
from cosim.adapters.replay.config import ReplayConfig
from cosim.adapters.replay.reading import moment, trajectories
from cosim.adapters.replay.trajectories import COLUMNS, HELD, Indices
from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Floats
from cosim.contract.signals import VEHICLE
from cosim.contract.slots import SlotBook


class ReplayAdapter(InMemory[ReplayConfig]):
    """Places the members of one fleet where the file records them."""

    def start(self, context: Context) -> None:
        """Read the file. Raises `ScenarioError` for what `check` finds."""
        refuse(fleets(context))
        self._trajectories = trajectories(self._config, context)
        fleet = next(fleet for fleet in context.scene.fleets if fleet.adapter == context.name)
        self._book = SlotBook(fleet.first, fleet.capacity, fleet.name)
        self._flights = kind_of(context.path(self._config.file)) in FLIGHTS
        self._ids = np.array(self._trajectories.ids, dtype=object)
        self._shown = self._ids
        self._lap = 0
        self._there: Indices = np.empty(0, np.int64)
        self._slots: NDArray[np.int32] = np.empty(0, np.int32)
        self._most = 0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Everybody who is on the way at `time`, in the order of their ids."""
        now, lap = moment(self._config, self._trajectories, time)
        gap = None if self._config.gap is None else round(self._config.gap * 1e9)
        there, columns = self._trajectories.at(now, interpolate=self._config.interpolate, gap=gap)
        if lap != self._lap:
            # a member that starts another lap is a new one: its path does not continue from where it ended
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
            "begin": self._trajectories.begin,  # s since 1970; 0 where the file has no dates
            "taken": list(self._trajectories.taken),
            "doubts": list(self._trajectories.doubts),
        }
