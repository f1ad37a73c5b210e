"""What policies of the MLSysOps framework are told of nodes and components, from what the continuum writes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.schedulers.mlsysops.descriptors import metric_of
from cosim.telemetry.export import NODE_LOAD, load_average, samples

_COMPLETED = TASK_STATUS.index("completed")


class PolicyMonitor:
    """Measures what policies see, from the frames and ended tasks of each step."""

    def __init__(self, scene: Scene) -> None:
        self._names = [node.id for node in scene.nodes]
        self._loads = [load.name for load in scene.workloads]
        self._average = dict.fromkeys(self._names, 0.0)
        self._last = 0.0

    def metrics(self, time: float, hosts: Frame, ended: dict[str, NDArray[Any]]) -> dict[str, dict[str, float]]:
        """Metrics by node; those of components under "", of the tasks that ended since the last call."""
        passed, self._last = time - self._last, time
        found: dict[str, dict[str, float]] = {"": self._of_loads(ended, passed)}
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

    def _of_loads(self, ended: dict[str, NDArray[Any]], passed: float) -> dict[str, float]:
        found = {}
        for number, name in enumerate(self._loads):
            mine = (ended["workload"] == number) & (ended["stage"] < 0)
            count, done = int(mine.sum()), mine & (ended["status"] == _COMPLETED)
            if passed > 0.0:
                found[metric_of(name, "rate")] = count / passed
            if count:
                found[metric_of(name, "failed")] = 1.0 - float(done.sum()) / count
            if done.any():
                found[metric_of(name, "seconds")] = float(np.mean(ended["ended"][done] - ended["created"][done]))
                found[metric_of(name, "late")] = float(np.mean(ended["late"][done] != 0))
        return found
