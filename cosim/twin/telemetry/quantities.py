"""From rows of signals, measured or simulated, to the values that are compared.

Rows come from a recorded run, from a table, from a run on the bus or from a batch; here they are flat
columns, with nodes and workloads as numbers that `Codes` gives out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosim.scenario.calibrate import SPACING, TASK_DURATIONS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST = 4000  # values of a signal that is compared as a distribution


def spacings(created: Floats, durations: Floats) -> Floats:
    """(m,) s since the task before ended, for tasks that end next while others are under way; else NaN.

    Where one server serves in turn this is how long a task takes it, whatever the way there and back adds to
    responses. `durations` (m,) are from creation to the end; NaN for what did not end.
    """
    found = np.full(len(created), np.nan)
    known = np.flatnonzero(np.isfinite(durations))
    ends = created[known] + durations[known]
    order = np.argsort(ends, kind="stable")
    ends, begun = ends[order], np.sort(created[known])
    under_way = np.searchsorted(begun, ends, side="right") - np.arange(1, len(ends) + 1)
    found[known[order[1:]]] = np.where(under_way[:-1] > 0, np.diff(ends), np.nan)
    return found


class Codes:
    """Numbers of names; the first ones are the slots of static nodes or the positions of workloads."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}

    def __call__(self, names: Sequence[object] | NDArray[np.object_]) -> Ints:
        """(n,) numbers of names; a name that is new gets the next one."""
        known = self._numbers
        return np.fromiter((known.setdefault(str(name), len(known)) for name in names), np.int64, len(names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def name(self, number: int) -> str:
        """The name behind a number."""
        return next(name for name, known in self._numbers.items() if known == number)


@dataclass(frozen=True, slots=True)
class Rows:
    """Values of one quantity. `times` are creations of tasks, or when a value was read."""

    values: Floats  # (m,) SI
    times: Floats  # (m,) s
    nodes: Ints  # (m,) of tasks their devices
    workloads: Ints  # (m,), -1 for what is no task

    def only(self, kept: NDArray[np.bool_] | Ints) -> Rows:
        return Rows(self.values[kept], self.times[kept], self.nodes[kept], self.workloads[kept])


@dataclass(frozen=True, slots=True)
class Quantity:
    """What of the simulation a measured signal is compared with."""

    table: str  # name of the signal
    column: str
    nodes: tuple[int, ...] | None = None  # only these
    workloads: tuple[int, ...] | None = None
    since: float = -np.inf  # s
    until: float = np.inf  # s
    columns: tuple[str, ...] = field(init=False)  # of the table, as it is read

    def __post_init__(self) -> None:
        columns = TASK_DURATIONS[self.column] if self.duration else (self.column,)
        object.__setattr__(self, "columns", columns)

    @property
    def of_tasks(self) -> bool:
        return self.table == "task"

    @property
    def duration(self) -> bool:
        """Whether it is the time between two columns of a task."""
        return self.of_tasks and self.column in TASK_DURATIONS

    def of(self, table: Mapping[str, NDArray[np.generic]]) -> Rows:
        """The quantity in rows with `node`, `time` (of tasks `created`), `workload` and its own columns.

        Rows of all times; a duration of a task that did not complete is NaN.
        """
        nodes = np.asarray(table["node"], np.int64)
        times = np.asarray(table["created" if self.of_tasks else "time"], np.float64)
        loads = np.asarray(table["workload"], np.int64) if self.of_tasks else np.full(len(nodes), -1, np.int64)
        if self.duration:
            begin, finish = (np.asarray(table[name], np.float64) for name in self.columns)
            values = np.where(np.asarray(table["completed"], np.bool_), finish - begin, np.nan)
            if self.column == SPACING:
                values = spacings(begin, values)
        else:
            values = np.asarray(table[self.column], np.float64)
        kept = np.ones(len(nodes), np.bool_)
        for numbers, chosen in ((nodes, self.nodes), (loads, self.workloads)):
            if chosen is not None:
                kept &= np.isin(numbers, chosen)
        return Rows(values, times, nodes, loads).only(kept)

    def within(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows lie in the window."""
        return np.asarray((rows.times >= self.since) & (rows.times < self.until))


def task_keys(rows: Rows) -> list[tuple[int, int, int]]:
    """(device, workload, k) of each row: the k-th task of that device and workload by creation."""
    order = np.lexsort((rows.times, rows.workloads, rows.nodes))
    nodes, loads = rows.nodes[order], rows.workloads[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (nodes[1:] != nodes[:-1]) | (loads[1:] != loads[:-1])
    place = np.arange(len(order))
    number = place - np.maximum.accumulate(np.where(new, place, 0))
    keys = np.empty((len(order), 3), np.int64)
    keys[order] = np.stack([nodes, loads, number], axis=1)
    return [(a, b, c) for a, b, c in keys.tolist()]


class ValuePairing:
    """Finds in simulated rows the values that stand opposite the measured ones of a window."""

    def __init__(self, quantity: Quantity, measured: Rows, *, paired: bool, ordered: bool = False) -> None:
        """`measured` are rows of all times: tasks are counted from the first one on.

        An `ordered` one of a distribution answers with the values in order of time, instead of quantiles.
        """
        self._quantity, self.paired, self.ordered = quantity, paired, ordered
        inside = quantity.within(measured)
        self.measured = measured.only(inside)
        self._keys: list[tuple[int, int, int]] = []
        self.met = 0  # of the measured values, those that a simulation had a counterpart for; the most of all so far
        whole = self.measured.values[np.isfinite(self.measured.values)]
        self._longest = float(whole.max()) if len(whole) else 0.0
        if paired and quantity.of_tasks:
            self._keys = [key for key, kept in zip(task_keys(measured), inside.tolist(), strict=True) if kept]

    @property
    def count(self) -> int:
        """Values per simulated run."""
        return len(self.measured.values) if self.paired else min(len(self.measured.values), MOST)

    def values(self, simulated: Rows, end: float) -> Floats:
        """(count,) simulated values, from rows of all times up to `end` (s); NaN for missing values.

        A distribution is represented by its quantiles. In a pair, the duration of a task that failed is the longest
        measured one. That of a task that has not ended at `end` is the time up to there, if that is longer.
        """
        if not self.paired:
            inside = self._quantity.within(simulated) & np.isfinite(simulated.values)
            found = simulated.values[inside]
            self.met = max(self.met, len(found))
            if self.ordered:
                found = found[np.argsort(simulated.times[inside], kind="stable")]  # tasks come in order of their ends
                return np.concatenate([found[: self.count], np.full(max(self.count - len(found), 0), np.nan)])
            if not len(found):
                return np.full(self.count, np.nan)
            return np.asarray(np.quantile(found, (np.arange(self.count) + 0.5) / self.count))
        found = np.full(self.count, np.nan)
        if self._quantity.of_tasks:
            if self._quantity.duration:
                known = np.where(np.isfinite(simulated.values), simulated.values, self._longest)
                missing = np.maximum(end - self.measured.times, self._longest)
            else:
                known, missing = simulated.values, found
            values = dict(zip(task_keys(simulated), known.tolist(), strict=True))
            self.met = max(self.met, sum(key in values for key in self._keys))
            return np.array([values.get(key, late) for key, late in zip(self._keys, missing.tolist(), strict=True)])
        for node in np.unique(self.measured.nodes):
            mine, theirs = self.measured.nodes == node, simulated.nodes == node
            if theirs.any():
                found[mine] = np.interp(self.measured.times[mine], simulated.times[theirs], simulated.values[theirs])
        self.met = max(self.met, int(np.isfinite(found).sum()))
        return found
