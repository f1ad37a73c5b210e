"""The statistics of a signal's nodes, measured and simulated at the same times."""

from __future__ import annotations

import numpy as np

from cosim.scenario.calibrate import SPACING
from cosim.twin.judgement.course import LEAST, Course, Floats, decimal_step, rounded, scale_of
from cosim.twin.judgement.subject import Subject
from cosim.twin.judgement.table import SHAPE, TABLE, figures
from cosim.twin.telemetry.quantities import MOST, Codes, Quantity, Rows, ValuePairing

NODES = 24  # that are judged one by one: a rack; with more there is a row for all together


class JudgedPairing(ValuePairing):
    """Stands opposite measured rows with statistics of every node instead of values.

    Nodes with fewer than 30 values have none; tasks are looked at by device and all together, as their servers may be
    the same. With `load` values are loads of nodes.
    """

    def __init__(
        self, quantity: Quantity, measured: Rows, names: Codes, label: str, recording: str, *, timed: bool, load: bool
    ) -> None:
        super().__init__(quantity, measured, paired=False)
        rows = self.measured = self.measured.only(np.isfinite(self.measured.values))
        self._load, self._sampled = load, timed and not quantity.of_tasks
        numbers, counts = np.unique(rows.nodes, return_counts=True)
        single = [k for k, n in zip(numbers.tolist(), counts.tolist(), strict=True) if n >= LEAST]
        single = single if len(numbers) <= NODES and (len(numbers) > 1 or not quantity.of_tasks) else []
        every = [-1] if len(rows.values) >= LEAST and (quantity.of_tasks or not single) else []
        self._nodes = [*(k for k in single if k >= 0), *every]
        self._names = {k: names.name(k) for k in self._nodes if k >= 0}
        step = decimal_step(rows.values)
        wide = np.ptp(np.quantile(rows.values, [0.25, 0.75])) if len(rows.values) else 0.0
        # What a table has not the digits for is no matter of the model, unless so few digits hide how values differ.
        self._step = 0.0 if 0.0 < 3.0 * SHAPE * wide < step else step
        self._at = {k: np.sort(self._of(rows, k).times) for k in numbers.tolist()}
        # Values of several nodes one after the other are no course, nor are those that only a busy server has.
        self._timed = timed and quantity.column != SPACING and (quantity.of_tasks or not every or len(numbers) < 2)
        scale = scale_of(rows.values) if len(rows.values) else 1.0
        self.subjects = tuple(Subject(label, recording, self._names.get(k, ""), scale) for k in self._nodes)
        self.known = self._figures(rows, simulated=False)

    @property
    def count(self) -> int:
        return len(self._nodes) * len(TABLE)

    def values(self, simulated: Rows, end: float) -> Floats:
        """(count,) statistics of the simulated rows of the window."""
        inside = self._quantity.within(simulated) & np.isfinite(simulated.values)
        return self._figures(simulated.only(inside), simulated=True).ravel()

    @staticmethod
    def _of(rows: Rows, node: int) -> Rows:
        return rows if node < 0 else rows.only(rows.nodes == node)

    def _course(self, rows: Rows, node: int, *, simulated: bool) -> tuple[Floats, Floats]:
        """Values and times of a node in order of time; simulated ones as a meter shows them at the measured times."""
        if node < 0 and self._sampled and simulated:
            some = [self._course(rows, k, simulated=True) for k in self._at]
            return np.concatenate([one for one, _ in some])[:MOST], np.concatenate([one for _, one in some])[:MOST]
        mine = self._of(rows, node)
        order = np.argsort(mine.times, kind="stable")
        values, times = mine.values[order], mine.times[order]
        if simulated and self._sampled and len(times):
            at = self._at[node]
            values, times = values[np.maximum(np.searchsorted(times, at, side="right") - 1, 0)], at
        return rounded(values, self._step)[:MOST], times[:MOST]

    def _figures(self, rows: Rows, *, simulated: bool) -> Floats:
        """(nodes, statistics)."""
        tasks = self._quantity.of_tasks
        parts = {k: self._course(rows, k, simulated=simulated) for k in self._nodes}
        alike = self._timed and not tasks and not self._load and len(self._names) > 1
        found = [
            figures(Course(
                values, times if self._timed else None, tasks=tasks and self._timed and self._quantity.duration,
                load=self._load, scale=subject.scale,
                others={name: np.interp(times, *parts[j][::-1]) for j, name in self._names.items()
                        if j != k and len(parts[j][0])} if alike else None,
            ))
            for subject, (k, (values, times)) in zip(self.subjects, parts.items(), strict=True)
        ]  # fmt: skip
        return np.array(found, np.float64).reshape(len(self._nodes), len(TABLE))
