"""Samples of many machines in any order, averaged by machine and period as they are read."""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.traces.model import Shares

LARGEST = 1 << 29  # cells of one table; 2 GiB of sums


class Grid:
    """Sums of samples by machine and period; it grows as machines and times come.

    `vms` limits how many different machines are kept, the first that occur; `periods` how many periods.
    """

    def __init__(
        self, period: float, *, vms: int | None = None, periods: int | None = None, start: float = 0.0
    ) -> None:
        self.period, self.start = period, start
        self.most_vms, self.most_periods = vms, periods
        self.index: dict[str, int] = {}
        self._sum = np.zeros((0, 0), np.float32)
        self._peak = np.zeros((0, 0), np.float32)
        self._weight = np.zeros((0, 0), np.float32)
        self._periods = 0

    def rows(self, words: list[str], member: Ints) -> Ints:
        """The row of each sample's machine, -1 for those beyond the limit; new machines get the next row."""
        known = np.full(len(words), -1, np.int64)
        used, first = np.unique(member, return_index=True)
        for word in used[np.argsort(first)]:
            name = words[word]
            row = self.index.get(name)
            if row is None and (self.most_vms is None or len(self.index) < self.most_vms):
                row = self.index[name] = len(self.index)
            known[word] = -1 if row is None else row
        return known[member]

    def add(
        self,
        row: Ints,
        time: Floats,
        value: Floats,
        *,
        peak: Floats | None = None,
        weight: Floats | None = None,
    ) -> None:
        """Samples of machines `row` at `time` (s); each counts `weight` (1) in the mean of its period."""
        at = np.floor((time - self.start) / self.period)
        keep = (row >= 0) & (at >= 0) & ~np.isnan(value)
        if self.most_periods is not None:
            keep &= at < self.most_periods
        if not keep.any():
            return
        row, column = row[keep], at[keep].astype(np.int64)
        self._reserve(int(column.max()) + 1)
        flat = row * self._sum.shape[1] + column
        counts = np.ones(len(flat)) if weight is None else weight[keep]
        # Samples of one cell lie together more often than not; sum those first, in double precision.
        cell, inverse = np.unique(flat, return_inverse=True)
        self._sum.ravel()[cell] += np.bincount(inverse, value[keep] * counts).astype(np.float32)
        self._weight.ravel()[cell] += np.bincount(inverse, counts).astype(np.float32)
        np.maximum.at(self._peak.ravel(), flat, (value if peak is None else peak)[keep].astype(np.float32))

    @property
    def empty(self) -> bool:
        """Whether no sample was kept."""
        return self._periods == 0

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.index)

    def mean(self) -> Shares:
        """Mean of each cell, NaN where there was no sample: (machines, periods)."""
        self._reserve(self._periods)
        shape = (len(self.index), self._periods)
        weight = self._weight[: shape[0], : shape[1]]
        made: Shares = np.full(shape, np.nan, np.float32)
        np.divide(self._sum[: shape[0], : shape[1]], weight, out=made, where=weight > 0)
        return made

    def peak(self) -> Shares:
        """Largest sample of each cell, NaN where there was none: (machines, periods)."""
        self._reserve(self._periods)
        shape = (len(self.index), self._periods)
        weight = self._weight[: shape[0], : shape[1]]
        return np.where(weight > 0, self._peak[: shape[0], : shape[1]], np.float32(np.nan))

    def _reserve(self, periods: int) -> None:
        self._periods = max(self._periods, periods)
        rows, columns = self._sum.shape
        need = (len(self.index), self._periods)
        if need[0] * need[1] > LARGEST:
            raise ValueError(
                f"{need[0]} machines x {need[1]} periods are too many for memory; limit machines or periods"
            )
        if need[0] <= rows and need[1] <= columns:
            return
        shape = (
            max(rows, need[0]) if need[0] <= rows else max(need[0], rows * 3 // 2),
            max(columns, need[1]) if need[1] <= columns else max(need[1], columns * 3 // 2),
        )
        for name in ("_sum", "_weight", "_peak"):
            grown = np.zeros(shape, np.float32)
            old = getattr(self, name)
            grown[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, grown)
