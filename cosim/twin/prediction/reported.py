"""The figures of a what-if analysis: what the tasks and hosts of a run come to from a time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cosim.contract.frame import Frame
from cosim.engine.continuum.layout import COMPLETED
from cosim.twin.problem import Floats
from cosim.twin.telemetry.quantities import Quantity, Rows

_FIGURES = ("response", "response_p95", "completed", "failed")
_HOSTS = ("power", "utilisation")
_COLUMNS = {"task": ("created", "ended", "workload", "status"), "host": _HOSTS}


def quantities(since: float, *, tasks: bool = True, hosts: bool) -> dict[str, Quantity]:
    """What is reported of the tasks created from `since` (s) on, and of the hosts."""
    found = {"tasks": Quantity("task", "response", since=since)} if tasks else {}
    return found | {name: Quantity("host", name, since=since) for name in (_HOSTS if hosts else ())}


class Reported:
    """Stands where a `ValuePairing` does: the figures of one table from the beginning of its quantity on."""

    def __init__(self, quantity: Quantity) -> None:
        self._quantity = quantity

    def values(self, simulated: Rows, end: float) -> Floats:
        """Of tasks: mean and 95th percentile of the response (s), how many were completed, how many failed; of hosts
        the sum over nodes, averaged over time."""
        later = simulated.only(simulated.times >= self._quantity.since)
        known = later.values[np.isfinite(later.values)]
        if self._quantity.of_tasks:
            mean, tail = (known.mean(), np.quantile(known, 0.95)) if len(known) else (np.nan, np.nan)
            return np.array([mean, tail, len(known), len(later.values) - len(known)], np.float64)
        times = len(np.unique(later.times)) or 1
        return np.array([known.sum() / times])


def named(found: Mapping[str, Floats]) -> dict[str, float]:
    """Figure -> value, from the values of every quantity."""
    tasks = dict(zip(_FIGURES, found["tasks"].tolist(), strict=True)) if "tasks" in found else {}
    return tasks | {name: float(values[0]) for name, values in found.items() if name != "tasks"}


class PublishedTables:
    """Observes a run: the rows of tasks and hosts that it publishes, as `Quantity.of` takes them."""

    def __init__(self, chosen: Mapping[str, Quantity]) -> None:
        self._chosen = chosen
        self._parts: dict[str, dict[str, list[dict[str, np.ndarray]]]] = {one.table: {} for one in chosen.values()}

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        for adapter, frame in frames:
            if frame.signal in self._parts and len(frame.slot):
                columns = {name: frame[name].copy() for name in _COLUMNS[frame.signal]}
                rows = {"node": frame.slot.copy(), "time": np.full(len(frame.slot), frame.time), **columns}
                self._parts[frame.signal].setdefault(adapter, []).append(rows)

    def table(self, name: str) -> dict[str, np.ndarray]:
        """The rows so far, adapter by adapter."""
        parts = [part for some in self._parts[name].values() for part in some]
        columns = ("node", "time", *_COLUMNS[name])
        found = {column: np.concatenate([np.empty(0), *(part[column] for part in parts)]) for column in columns}
        return found | ({"completed": found["status"] == COMPLETED} if name == "task" else {})

    def figures(self) -> dict[str, float]:
        """The figures so far."""
        tables = {name: self.table(name) for name in self._parts}
        return named({n: Reported(one).values(one.of(tables[one.table]), np.inf) for n, one in self._chosen.items()})
