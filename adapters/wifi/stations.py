"""Stations and their access points: association, airtime, and the rows of `link` and `cell`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cosim.adapters.wifi.scenery import Interfaces
from cosim.contract.faults import Faults
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Flags, Floats, Ints
from cosim.physics.radio import sharing
from cosim.physics.radio.wifi_pairs import Pairs


class WifiStations:
    """The s stations and a access points of the scene; station arrays are (s,), rates (s,) bit/s."""

    def __init__(self, interfaces: Interfaces, hysteresis: float) -> None:
        self._hysteresis = hysteresis  # dB
        self._interfaces = interfaces
        self._mine = np.flatnonzero(interfaces.station)  # interface of each station
        self._points = np.flatnonzero(interfaces.access)
        self._station = np.full(len(interfaces), -1, np.int64)
        self._station[self._mine] = np.arange(len(self._mine))
        self._point = np.full(len(interfaces), -1, np.int64)
        self._point[self._points] = np.arange(len(self._points))
        count = len(self._mine)
        self.serving = np.full(count, -1, np.int64)  # access point
        self._last = np.full(count, -1, np.int64)  # latest one that there was
        self.handovers = np.zeros(count, np.int32)
        self._moved = np.zeros((count, 2))  # B sent and received
        self._time = -np.inf  # s, of the traffic
        self._alone = np.zeros((count, 2))  # bit/s up and down when no other station sends
        self.utilisation = np.zeros(len(self._points))

    def __len__(self) -> int:
        return len(self._mine)

    def forget(self, interfaces: Ints) -> None:
        """Reset these interfaces, which belong to other nodes now."""
        which = self._station[interfaces]
        which = which[which >= 0]
        self.serving[which] = self._last[which] = -1
        self.handovers[which] = 0
        self._moved[which] = self._alone[which] = 0.0

    def frames(
        self, time: float, pairs: Pairs, there: Flags, faults: Faults, traffic: Sequence[Frame], floor: Floats
    ) -> tuple[Frame, Frame]:
        """The `link` rows of the stations that are `there` (n,), and the `cell` rows of all access points.

        `floor` (n,) dBm is what the interfaces hear besides.
        """
        up, down = self._matrix(pairs, to_point=True), self._matrix(pairs, to_point=False)
        self._associate(down["rssi"])
        transfers, moved = self._traffic(time, traffic)
        here = np.flatnonzero(there[self._mine] | self._failed(faults))
        point = self.serving[here]
        served = point >= 0
        own = np.where(served, point, 0)

        def of(which: Mapping[str, Floats], name: str, otherwise: float) -> Floats:
            if not len(self._points):
                return np.full(len(here), otherwise)
            return np.where(served, which[name][here, own], otherwise)

        alone = np.column_stack([of(up, "rate", 0.0), of(down, "rate", 0.0)])
        self._use(moved)
        self._alone[:] = 0.0
        self._alone[here] = alone
        # uploads and downloads take turns in one medium
        both = np.concatenate([point, point])
        share = sharing.shares(both, np.concatenate([transfers[here, 0], transfers[here, 1]]), len(self._points))
        rates = alone[:, 0] * share[: len(here)], alone[:, 1] * share[len(here) :]
        delay = np.maximum(of(up, "delay", 0.0), of(down, "delay", 0.0))
        loss = np.maximum(of(up, "loss", 1.0), of(down, "loss", 1.0))
        level = of(down, "rssi", -200.0)
        slots = self._interfaces.slots
        cell = np.where(served, slots[self._points][own] if len(self._points) else -1, -1).astype(np.int32)
        columns: dict[str, Array] = {
            "cell": cell,
            "rsrp": level,
            "snr": level - floor[self._mine[here]],
            "uplink_rate": rates[0],
            "downlink_rate": rates[1],
            "delay": delay,
            "loss": loss,
            "handovers": self.handovers[here],
            **self._levels(here, np.where(served, self._points[own] if len(self._points) else -1, -1), level),
        }
        link = Frame("link", time, slots[self._mine[here]], columns)
        return link, self._cells(time, here, point, transfers, rates)

    def _levels(self, here: Ints, point: Ints, level: Floats) -> dict[str, Array]:
        """Distance and path loss of the stations `here` (s,) to the interface `point` (s,), -1 for none."""
        interfaces, mine = self._interfaces, self._mine[here]
        antenna = interfaces.place + np.column_stack([np.zeros((len(interfaces), 2)), interfaces.height])
        distance = np.linalg.norm(antenna[mine] - antenna[point], axis=1)
        loss = interfaces.antennas.emitted[point] + interfaces.antennas.gain[mine] - level
        return {"distance": np.where(point >= 0, distance, np.nan), "pathloss": np.where(point >= 0, loss, np.nan)}

    def _failed(self, faults: Faults) -> Flags:
        """Stations that have failed are still somewhere; they have a row without a cell."""
        return np.asarray(faults.failed[self._interfaces.slots[self._mine]] & self._interfaces.fixed[self._mine])

    def _matrix(self, pairs: Pairs, *, to_point: bool) -> dict[str, Floats]:
        """Figures (s, a) of the links between stations and access points in one direction."""
        station, point = (pairs.sender, pairs.receiver) if to_point else (pairs.receiver, pairs.sender)
        s, a = self._station[station], self._point[point]
        mine = (s >= 0) & (a >= 0)
        shape = (len(self._mine), len(self._points))
        made = {name: np.zeros(shape) for name in ("rate", "delay")}
        made["loss"], made["rssi"] = np.ones(shape), np.full(shape, -np.inf)
        for name, figures in made.items():
            figures[s[mine], a[mine]] = getattr(pairs, name)[mine]
        return made

    def _associate(self, level: Floats) -> None:
        """Stay until another access point is stronger by the hysteresis; `level` (s, a) dBm."""
        if not level.size:
            return
        row = np.arange(len(level))
        best = np.argmax(level, axis=1)
        heard = level[row, best] > -np.inf
        held = np.where(self.serving >= 0, level[row, self.serving], -np.inf)
        change = heard & (level[row, best] > held + np.where(held > -np.inf, self._hysteresis, 0.0))
        self.serving = np.where(change, best, np.where(held > -np.inf, self.serving, -1))
        other = (self.serving >= 0) & (self._last >= 0) & (self.serving != self._last)
        self.handovers = self.handovers + other.astype(np.int32)
        self._last = np.where(self.serving >= 0, self.serving, self._last)

    def _traffic(self, time: float, frames: Sequence[Frame]) -> tuple[Ints, tuple[Floats, float] | None]:
        """Transfers under way (s, 2), up and down; bytes (s, 2) since the last frame and the s that took."""
        transfers = np.zeros((len(self._mine), 2), np.int64)
        moved, moment = self._moved.copy(), -np.inf
        for frame in frames:
            number = self._interfaces.number[frame.slot]
            which = np.where(number >= 0, self._station[number], -1)
            known = which >= 0
            for column, (name, under_way) in enumerate((("sent", "uploads"), ("received", "downloads"))):
                moved[which[known], column] = frame[name][known]
                transfers[which[known], column] = frame[under_way][known]
            moment = max(moment, frame.time)
        if not moment > self._time:
            return transfers, None
        fresh = np.maximum(moved - self._moved, 0.0)
        period = moment - self._time
        self._moved, self._time = moved, moment
        return transfers, (fresh, period) if np.isfinite(period) else None

    def _use(self, moved: tuple[Floats, float] | None) -> None:
        """Airtime that the bytes took at the rates of the step before."""
        if moved is None:
            return
        bits, period = 8.0 * moved[0], moved[1]
        parts = [
            sharing.utilisation(self._last, bits[:, way], self._alone[:, way], period, len(self._points))
            for way in (0, 1)
        ]
        self.utilisation = np.minimum(parts[0] + parts[1], 1.0)

    def _cells(self, time: float, here: Ints, point: Ints, transfers: Ints, rates: tuple[Floats, Floats]) -> Frame:
        count = len(self._points)
        active = transfers[here] > 0
        handed = rates[0] * active[:, 0] + rates[1] * active[:, 1]
        columns: dict[str, Array] = {
            "attached": sharing.per_cell(point, np.ones(len(here)), count).astype(np.int32),
            "active": sharing.per_cell(point, active[:, 0] | active[:, 1], count).astype(np.int32),
            "utilisation": self.utilisation.copy(),
            "rate": sharing.per_cell(point, handed, count),
        }
        return Frame("cell", time, self._interfaces.slots[self._points], columns)
