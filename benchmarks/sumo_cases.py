"""One way to drive SUMO, in a process of its own: python -m benchmarks.sumo_cases CASE NETWORK ROUTES WARM STEPS.

Prints the CPU seconds of SUMO and the driver for STEPS steps after WARM ones, and the vehicles at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import sumo_grid
from cosim.adapters.sumo import install

POSITION, SPEED, ANGLE = 0x39, 0x40, 0x43  # TraCI's numbers of the three values that the adapter reads


def getters(sumo: Any) -> Callable[[], None]:
    """What most scripts do: the list of vehicles, then three calls for each."""

    def read() -> None:
        ids = sumo.vehicle.getIDList()
        rows = np.empty((len(ids), 5))
        for i, name in enumerate(ids):
            rows[i] = (*sumo.vehicle.getPosition3D(name), sumo.vehicle.getSpeed(name), sumo.vehicle.getAngle(name))

    return read


def subscriptions(sumo: Any) -> Callable[[], None]:
    """Subscriptions of every vehicle: no call per vehicle in a step."""
    for name in sumo.vehicle.getIDList():
        sumo.vehicle.subscribe(name, (POSITION, SPEED, ANGLE))

    def read() -> None:
        results = sumo.vehicle.getAllSubscriptionResults()
        rows = np.empty((len(results), 5))
        for i, values in enumerate(results.values()):
            rows[i] = (*values[POSITION], values[SPEED], values[ANGLE])

    return read


def nothing(sumo: Any) -> Callable[[], None]:  # noqa: ARG001
    """Steps only."""
    return lambda: None


READS = {"step": nothing, "getters": getters, "subscriptions": subscriptions}


def main(case: str, network: str, routes: str, warm: int, steps: int) -> None:
    interface, _, read_name = case.partition("-")
    options = sumo_grid.options(Path(network), Path(routes))
    sumo: Any
    if interface == "libsumo":
        os.environ["LIBSUMO_AS_TRACI"] = "quiet"  # nothing but the result on the output
        import libsumo as sumo

        sumo.start(["sumo", *options])
        process = None
    else:
        import traci

        os.environ.update(install.environment())
        traci.start([str(install.binary("sumo")), *options], numRetries=60, stdout=open(os.devnull, "w"))  # noqa: SIM115, PTH123
        sumo = traci.getConnection("default")
        process = sumo._process.pid
    sumo.simulationStep(float(warm))
    read = READS[read_name](sumo)
    begun = _cpu(process)
    for _ in range(steps):
        sumo.simulationStep()
        read()
    used = _cpu(process) - begun
    print(json.dumps({"cpu": used, "vehicles": sumo.vehicle.getIDCount()}))
    sumo.close()


def _cpu(process: int | None) -> float:
    """CPU seconds of this process, and of SUMO's where that is another."""
    used = time.process_time()
    if process is not None:
        for task in Path(f"/proc/{process}/task").iterdir():
            used += int((task / "schedstat").read_text().split()[0]) * 1e-9
    return used


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))
