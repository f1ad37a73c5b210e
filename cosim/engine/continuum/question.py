"""What a scheduler outside the kernel is asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum.layout import State
from cosim.engine.continuum.numbering import processor
from cosim.engine.continuum.schedulers import Request


def question(s: State) -> tuple[Request, NDArray[np.float64], Records]:
    """The arguments of a scheduler for the task at which the kernel has stopped."""
    meta = s.meta[0]
    task = s.tasks[meta["undecided"]]
    device = int(task["device"])
    node = s.nodes[device]
    kind = s.kinds[node["kind"]]
    own = s.stations[processor(device)]
    load = s.workloads[task["workload"]]
    stage = task["stage"] - load["first_stage"] if task["job"] >= 0 else -1
    request = Request(
        float(meta["now"]), device, int(meta["serving"]), int(task["workload"]),
        float(task["input"]), float(task["output"]), float(task["work"]), float(task["deadline"]),
        float(kind["clock"] * kind["cores"]), int(own["active"] + own["queued"]), float(task["chance"]),
        int(meta["turn"]), float(meta["threshold"]), int(stage),
        float(task["operations"]), float(load["memory"]), float(load["storage"]),
    )  # fmt: skip
    return request, s.scratch, s.hosts
