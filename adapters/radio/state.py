"""What the radio remembers between two steps: per slot, per device-cell pair, per cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.contract.frame import Frame
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import sharing
from cosim.physics.radio.shadowing import device_keys

Ints = NDArray[np.int32]


class RadioRows:
    """One row per slot. Pair arrays grow with the highest slot seen, because fleets may reserve millions."""

    def __init__(self, capacity: int, cells: int, seed: np.uint64, *, sights: bool) -> None:
        self._seed, self._cells, self._sights = seed, cells, sights
        self._step = 0
        self._seen = np.full(capacity, -2, np.int64)  # number of the step in which it was last present
        self._known = np.full(capacity, -1, np.int64)  # generation that the state belongs to
        self._place = np.zeros((capacity, 3))  # m, at the last step
        self.generation = np.zeros(capacity, np.int32)
        self.moved = np.empty(0)  # (n,) m, of the rows that entered last
        self.key = np.zeros(capacity, np.uint64)
        self.draw = np.zeros(capacity, np.uint64)
        self.serving = np.full(capacity, -1, np.int32)  # cell index
        self.previous = np.full(capacity, -1, np.int32)
        self.target = np.full(capacity, -1, np.int32)
        self.strongest = np.full(capacity, -1, np.int32)
        self.since = np.zeros(capacity)  # s
        self.handovers = np.zeros(capacity, np.int32)
        self.alone = np.zeros((capacity, 2))  # bit/s up and down with the cell for oneself, at the last step
        self.shadow = np.empty((0, cells))
        self.sight = np.empty((0, cells))
        self.power = np.empty((0, cells))  # mW

    def enter(self, rows: Ints, position: Floats, cells_moved: bool) -> Flags:
        """Note that exactly `rows` (n,) are present at `position` (n, 3); return which of them are new.

        A row is new when its slot's generation changed or was never seen; all of its state starts
        afresh. One that was absent for a while keeps its shadowing but has no cell.
        """
        self._grow(int(rows[-1]) + 1 if len(rows) else 0)
        new: Flags = self._known[rows] != self.generation[rows]
        fresh = rows[new]
        self._known[fresh] = self.generation[fresh]
        self.key[fresh] = device_keys(self._seed, fresh, self.generation)
        self.draw[fresh] = 0
        self.handovers[fresh] = 0
        self.previous[fresh] = -1
        self.shadow[fresh] = np.nan
        if self._sights:
            self.sight[fresh] = np.nan
        self.alone[fresh] = 0.0
        back = rows[new | (self._seen[rows] != self._step - 1)]
        self.serving[back] = -1
        self.target[back] = -1
        step = position - self._place[rows]
        self.moved = np.sqrt(np.einsum("ij,ij->i", step, step))
        self.moved[new] = np.inf
        if cells_moved:
            self.moved[self.moved == 0.0] = -1.0
        self.draw[rows] += (self.moved != 0.0).astype(np.uint64)
        self._place[rows] = position
        self._seen[rows] = self._step
        self._step += 1
        return new

    def _grow(self, rows: int) -> None:
        have = len(self.power)
        if rows <= have:
            return
        want = min(max(rows, 2 * have), len(self._seen))
        for name, value in (("shadow", np.nan), ("power", 0.0), *((("sight", np.nan),) if self._sights else ())):
            grown = np.full((want, self._cells), value)
            grown[:have] = getattr(self, name)
            setattr(self, name, grown)
        if not self._sights:
            self.sight = np.empty((1, self._cells))


class Traffic:
    """What the devices did over the air before this step. Device arrays are (n,), cell arrays (m,)."""

    def __init__(self, capacity: int, cells: int) -> None:
        self._cells = cells
        self._moved = np.zeros((capacity, 2))  # B sent and received, at the last reading
        self._time = -np.inf  # s, of the last reading
        self._airtime = np.zeros(capacity)
        self.uploads = np.empty(0, np.int64)  # under way
        self.downloads = np.empty(0, np.int64)
        self.airtime = np.empty(0)  # part of the time that the device sent
        self.up = np.zeros(cells)  # part of the uplink's airtime in use
        self.down = np.zeros(cells)
        self.granted = np.zeros(cells)  # bit/s, sum of the rates of active devices

    def read(self, frames: Sequence[Frame], rows: Ints, new: Flags, cell: Ints, alone: Floats) -> None:
        """Take in the latest traffic of `rows`; `cell` served them since and `alone` (n, 2) was their rate.

        Utilisation is airtime: the bits that moved since the last reading over what the cell could
        have moved for that device. It holds until there is a newer frame.
        """
        capacity = len(self._airtime)
        under_way = np.zeros((capacity, 2), np.int64)
        moved = self._moved.copy()
        moment = -np.inf
        for frame in frames:
            under_way[frame.slot, 0] = frame["uploads"]
            under_way[frame.slot, 1] = frame["downloads"]
            moved[frame.slot, 0] = frame["sent"]
            moved[frame.slot, 1] = frame["received"]
            moment = max(moment, frame.time)
        self.uploads, self.downloads = under_way[rows, 0], under_way[rows, 1]
        if moment > self._time:
            if np.isfinite(self._time):
                period = moment - self._time
                bits = 8.0 * np.maximum(moved[rows] - self._moved[rows], 0.0)
                bits[new] = 0.0
                self.up = sharing.utilisation(cell, bits[:, 0], alone[:, 0], period, self._cells)
                self.down = sharing.utilisation(cell, bits[:, 1], alone[:, 1], period, self._cells)
                used = np.divide(bits[:, 0], alone[:, 0] * period, out=np.zeros(len(rows)), where=alone[:, 0] > 0)
                self._airtime[rows] = np.minimum(used, 1.0)
            self._moved, self._time = moved, moment
        self.airtime = np.where(new, 0.0, self._airtime[rows])

    def grant(self, cell: Ints, up: Floats, down: Floats) -> None:
        """Note the rates (n,) bit/s that the devices of each `cell` (n,) got, for those that are active."""
        handed = up * (self.uploads > 0) + down * (self.downloads > 0)
        self.granted = sharing.per_cell(cell, handed, self._cells)
