"""What a scheduler outside the kernel is asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum.layout import KernelState
from cosim.engine.continuum.numbering import processor
from cosim.engine.continuum.schedulers import Request


def question(s: KernelState) -> tuple[Request, NDArray[np.float64], Records]:
    """The arguments of a scheduler for the task at which the kernel has stopped."""
    meta = s.meta[0]
    task = s.tasks[meta["undecided"]]
    device = int(task["device"])
    node = s.nodes[device]
    kind = s.kinds[node["kind"]]
    own = s.stations[processor(device)]
    load = s.workloads[task["workload"]]
    stage = task["stage"] - load["first_stage"] if task["job"] >= 0 else -1
    may = bool(not meta["bound"] or s.allowed[task["workload"], device])
    request = Request(
        time=float(meta["now"]), device=device, serving=int(meta["serving"]), workload=int(task["workload"]),
        input=float(task["input"]), output=float(task["output"]), work=float(task["work"]),
        deadline=float(task["deadline"]), own_speed=float(kind["clock"] * kind["cores"]) * may,
        own_tasks=int(own["active"] + own["queued"]), chance=float(task["chance"]), turn=int(meta["turn"]),
        threshold=float(meta["threshold"]), stage=int(stage), operations=float(task["operations"]),
        memory=float(load["memory"]), storage=float(load["storage"]),
    )  # fmt: skip
    return request, s.scratch, s.hosts
