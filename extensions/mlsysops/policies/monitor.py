"""Metrics of nodes and components for policies of the MLSysOps framework, from what the continuum writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.extensions.mlsysops.policies.descriptors import metric_of
from cosim.talk.telemetry.export import NODE_LOAD, load_average, samples

WINDOW = 5.0  # s, the framework's default period for scraping metrics
_COMPLETED = TASK_STATUS.index("completed")


class PolicyMonitor:
    """Measures what policies see, from the frames and ended tasks of each step."""

    def __init__(self, scene: Scene) -> None:
        self._names = [node.id for node in scene.nodes]
        self._loads = [load.name for load in scene.workloads]
        self._average = dict.fromkeys(self._names, 0.0)
        self._last = 0.0
        self._recent: deque[tuple[float, NDArray[np.float64]]] = deque()  # time, sums by what and workload
        self._known: dict[str, float] = {}

    def metrics(
        self, time: float, hosts: Frame, ended: Sequence[Mapping[str, NDArray[Any]]]
    ) -> dict[str, dict[str, float]]:
        """Metrics by node; those of components under "". `ended`: columns of tasks, simulated and real."""
        passed, self._last = time - self._last, time
        found: dict[str, dict[str, float]] = {"": self._of_loads(time, ended)}
        for row, slot in enumerate(hosts.slot.tolist()):
            if slot < len(self._names):
                name = self._names[slot]
                values = {column: array[row] for column, array in hosts.columns.items()}
                running = float(values["running"])
                self._average[name] = load_average(self._average[name], running, passed)
                measured = {one.name: one.value for one in samples(CATALOGUE["host"], values) if not one.labels}
                found[name] = {**measured, NODE_LOAD: self._average[name]}
        return found

    def up(self, hosts: Frame) -> dict[str, bool]:
        """Which nodes work."""
        rows = zip(hosts.slot.tolist(), hosts.columns["up"].tolist(), strict=True)
        return {self._names[slot]: bool(up) for slot, up in rows if slot < len(self._names)}

    def _of_loads(self, time: float, ended: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, float]:
        """Metrics of tasks that ended in the last `WINDOW`; without a new task one keeps its value, like a gauge."""
        sums = np.sum([self._sums(one) for one in ended], axis=0)
        self._recent.append((time, sums))
        while len(self._recent) > 1 and self._recent[0][0] <= time - WINDOW + 1e-9:
            self._recent.popleft()
        totals, span = np.sum([rows for _, rows in self._recent], axis=0), min(time, WINDOW)
        for number, name in enumerate(self._loads):
            count, completed, spent, late = totals[:, number]
            if span > 0.0:
                self._known[metric_of(name, "rate")] = float(count / span)
            if count:
                self._known[metric_of(name, "failed")] = float(1.0 - completed / count)
            if completed:
                self._known[metric_of(name, "seconds")] = float(spent / completed)
                self._known[metric_of(name, "late")] = float(late / completed)
        return dict(self._known)

    def _sums(self, ended: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """(4, workloads) tasks, completed ones, their seconds, and late ones; stages of a job do not count."""
        whole = ended["stage"] < 0 if "stage" in ended else np.ones(len(ended["workload"]), np.bool_)
        done = whole & (ended["status"] == _COMPLETED)
        reported = (whole, done, np.where(done, ended["ended"] - ended["created"], 0.0), done & (ended["late"] != 0))
        return np.array([np.bincount(ended["workload"], one, len(self._loads)) for one in reported])
