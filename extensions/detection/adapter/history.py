"""The rows of the last window, so that features on line are those that the detector was trained with."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.contract.frame import Frame
from cosim.extensions.detection.dataset.windows import features

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]


class SignalHistory:
    """Keeps k columns, each a (signal, column), of what nodes wrote within `window` s, and their last row before."""

    def __init__(self, columns: Sequence[tuple[str, str]], window: float, capacity: int) -> None:
        self._columns, self._window = columns, window
        self._steps: deque[tuple[float, Slots, Floats]] = deque()
        self._last = np.full((capacity, len(columns)), np.nan)  # row that left the window
        self._when = np.full(capacity, -np.inf)  # s, of that row
        self._place = np.full(capacity, -1, np.int64)

    def add(self, time: float, base: Frame, others: Mapping[str, Frame]) -> tuple[Slots, Floats]:
        """The slots (n,) of `base` in ascending order, and the features (n, 4 k + 1) of their windows at `time`.

        `others` are the frames by signal; a node without a row there has NaN.
        """
        slots = np.sort(base.slot.astype(np.int64))
        rows = np.full((len(slots), len(self._columns)), np.nan)
        for k, (signal, column) in enumerate(self._columns):
            frame = others.get(signal)
            if frame is None:
                continue
            self._place[frame.slot] = np.arange(len(frame))
            at = self._place[slots]
            found = at >= 0
            values = np.asarray(frame[column], np.float64)
            rows[found, k] = np.where(np.isfinite(values[at[found]]), values[at[found]], np.nan)
            self._place[frame.slot] = -1
        self._steps.append((time, slots, rows))
        while self._steps[0][0] <= time - self._window + 1e-9 * self._window:
            when, gone, values = self._steps.popleft()
            self._last[gone], self._when[gone] = values, when
        before = slots[np.isfinite(self._when[slots])]
        node = np.concatenate([before, *(step[1] for step in self._steps)])
        times = np.concatenate([self._when[before], *(np.full(len(step[1]), step[0]) for step in self._steps)])
        values = np.concatenate([self._last[before], *(step[2] for step in self._steps)])
        order = np.lexsort((times, node))
        table = {str(k): values[order, k] for k in range(len(self._columns))}
        made = features(node[order], times[order], table, self._window)
        now = np.flatnonzero((times[order] == time) & np.isin(node[order], slots))
        return slots, made[now]

    def forget(self, slots: Slots) -> None:
        """Reset these slots, which belong to other nodes now."""
        self._when[slots] = -np.inf
        for k, (time, there, rows) in enumerate(self._steps):
            kept = ~np.isin(there, slots)
            self._steps[k] = (time, there[kept], rows[kept])


class Past:
    """The last `lags` rows of k columns of each slot, newest first; memory grows with the highest slot."""

    def __init__(self, lags: int, width: int) -> None:
        self._rows = np.full((0, lags, width), np.nan, np.float32)

    def add(self, slots: Slots, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Take in the `rows` (n, k) of `slots` (n,); what there is of them now, (n, lags k)."""
        count, lags, width = self._rows.shape
        if lags == 1:
            return rows
        top = int(slots.max(initial=-1)) + 1
        if top > count:
            more = np.full((max(top, 2 * count) - count, lags, width), np.nan, np.float32)
            self._rows = np.concatenate([self._rows, more])
        self._rows[slots, 1:] = self._rows[slots, :-1]
        self._rows[slots, 0] = rows
        return self._rows[slots].reshape(len(slots), lags * width)

    def forget(self, slots: Slots) -> None:
        """Reset these slots, which belong to other nodes now."""
        self._rows[slots[slots < len(self._rows)]] = np.nan
