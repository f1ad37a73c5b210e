"""Runs the adapter in a process of its own, as libsumo wants it: python -m cosim.adapters.sumo.tests.drive <
job.json."""

from __future__ import annotations

import json
import logging
import math
import sys
from pathlib import Path

import numpy as np

from cosim.adapters.sumo import ADAPTER
from cosim.adapters.sumo.adapter import SumoAdapter
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Fleet, Geo, Node, Scene
from cosim.contract.errors import CosimError
from cosim.contract.frame import fault
from cosim.contract.signals import MOBILITY

EARTH = 6_371_000.0  # m


def context(job: dict, scratch: str) -> Context:
    gate, cars = Node("gate", "edge", "edge"), Node("cars", "car", "device")
    fleets = (Fleet("cars", "traffic", 0, job.get("capacity", 5000), cars),)
    geo = Geo(*job["geo"]) if "geo" in job else None
    return Context(
        "traffic", Scene.build((gate,), fleets, geo=geo), job.get("period", 1.0), job.get("steps", 0),
        tuple(job.get("seed", (1, 2, 3))), job.get("root", "."), scratch,
    )  # fmt: skip


def run(job: dict, out: Path) -> dict:
    """All frames into out/<k>.npz; what the test needs beside them as the answer."""
    adapter = ADAPTER.build(ADAPTER.load_config().model_validate(job["config"]))
    assert isinstance(adapter, SumoAdapter)
    reported = context(job, str(out / "scratch"))
    tables = []
    try:
        adapter.start(reported)
        for k in range(job["steps"] + 1):
            if k == job.get("crash"):
                adapter._backend._process.kill()
            (frame,) = adapter.step(k * reported.period, Inputs())
            complaint = fault(frame, MOBILITY, reported.scene.capacity)
            assert not complaint, complaint
            np.savez(out / f"{k}.npz", slot=frame.slot, **frame.columns)
            ids = {str(frame.table.first + i): name for i, name in enumerate(frame.table.ids)}
            tables.append({"ids": ids, "generation": frame.table.generation.tolist(), "epoch": frame.table.epoch})
        answer = {"summary": adapter.finish(), "tables": tables}
        if "geo" in job:
            answer["places"] = places(job["geo"])
        if job.get("twice"):
            second = ADAPTER.build(ADAPTER.load_config().model_validate(job["config"]))
            second.start(context(job, str(out / "second")))
    finally:
        adapter.close()
        adapter.close()
    answer["loaded"] = [name for name in ("pyarrow", "pandas") if name in sys.modules]
    return answer


def places(geo: list[float]) -> dict[str, tuple[float, float]]:
    """Every vehicle's east and north, by way of SUMO's own longitude and latitude on a sphere."""
    import libsumo

    found = {}
    for name in libsumo.vehicle.getIDList():
        longitude, latitude = libsumo.simulation.convertGeo(*libsumo.vehicle.getPosition(name))
        east = math.radians(longitude - geo[1]) * EARTH * math.cos(math.radians(geo[0]))
        found[name] = (east, math.radians(latitude - geo[0]) * EARTH)
    return found


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="LOG %(message)s")
    job = json.load(sys.stdin)
    out = Path(job["out"])
    try:
        answer = run(job, out)
    except CosimError as error:
        answer = {"error": type(error).__name__, "message": str(error)}
    (out / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
