"""CPU time of a step of the radio adapter: devices that all move and send, 30 cells on one carrier, by path loss model.

python -m benchmarks.radio [--devices 1000 10000 100000] [--steps 20] [--full] [--json]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from benchmarks.measure import Table, print_result
from cosim.adapters.radio import ADAPTER
from cosim.adapters.radio.config import RadioConfig
from cosim.contract.adapter import Adapter, Context, Inputs
from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.node_keys import Cell, Radio

CELLS = 30
SIDE = 3000.0  # m
WARM_UP = 3  # steps that are not counted


FULL = {
    "fading": "rician", "link_adaptation": "outer-loop", "cqi_delay": "1 s", "harq": "combining", "link_failure": {},
    "log": True,
}  # fmt: skip
FADING = {"fading": "rician"}
JAMMERS = 5  # in both, with a quarter of the band each


def started(devices: int, model: str, more: Mapping[str, Any] = MappingProxyType({})) -> Adapter:
    """A radio adapter with cells at random places and room for `devices`; with keys `more`, also with jammers."""
    places = np.random.default_rng(1).uniform(0.0, SIDE, (CELLS, 2))
    cell = Cell()
    stations = [Node(f"bs-{i}", "station", "edge", (*place, 0.0), cell=cell) for i, place in enumerate(places.tolist())]
    radio = Radio()
    jammer = (("jammer", '{"power":"20 dBm","bandwidth":"5 MHz"}'),)
    spots = np.random.default_rng(3).uniform(0.0, SIDE, (JAMMERS if more else 0, 2)).tolist()
    stations += [Node(f"jammer-{i}", "jammer", "device", (*p, 0.0), keys=jammer) for i, p in enumerate(spots)]
    fleet = Fleet("cars", "benchmark", len(stations), devices, Node("cars", "vehicle", "device", radio=radio))
    adapter = ADAPTER.build(RadioConfig.model_validate({"model": model, **more}))
    adapter.start(Context("radio", Scene.build(tuple(stations), (fleet,)), 1.0, 1e3, (1, 2, 3), ".", "."))
    return adapter


def inputs(devices: int, step: int, first: int = CELLS) -> Inputs:
    """Positions and traffic at second `step`: straight ways at up to 14 m/s, a third of the devices sends."""
    rng = np.random.default_rng(2)
    place = rng.uniform(0.0, SIDE, (2, devices)) + step * rng.uniform(-14.0, 14.0, (2, devices))
    slot = np.arange(first, first + devices, dtype=np.int32)
    still = np.zeros(devices)
    moves = {"x": place[0], "y": place[1], "z": still, "speed": still, "heading": still}
    busy = (np.arange(devices) % 3 == 0).astype(np.int32)
    sent = np.full(devices, 1e4 * step)
    carried = {"uploads": busy, "downloads": busy, "sent": sent, "received": 10.0 * sent}
    frames = {"mobility": moves, "traffic": carried}
    return Inputs({name: [Frame(name, float(step), slot, columns)] for name, columns in frames.items()})


def measure(devices: int, model: str, steps: int, more: Mapping[str, Any] = MappingProxyType({})) -> float:
    """CPU seconds of the fastest of `steps` steps; others on the machine only make it slower."""
    adapter = started(devices, model, more)
    best = float("inf")
    for step in range(WARM_UP + steps):
        given = inputs(devices, step, CELLS + (JAMMERS if more else 0))
        begun = time.process_time()
        adapter.step(float(step), given)
        spent = time.process_time() - begun
        best = min(best, spent) if step >= WARM_UP else best
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--devices", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--full", action="store_true", help="also with fading and jammers, and with outer loop and logs"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    arguments = parser.parse_args()
    kinds = {"": {}, **({", fading and jammers": FADING, ", everything": FULL} if arguments.full else {})}
    models = {f"{model}{name}": (model, more) for name, more in kinds.items() for model in ("ci", "umi")}
    figures = {
        n: {name: measure(n, model, arguments.steps, more) for name, (model, more) in models.items()}
        for n in arguments.devices
    }
    table = Table(f"ms of CPU per step, {CELLS} cells", ["devices", *models])
    for devices, row in figures.items():
        table.add([f"{devices:,}", *(f"{1e3 * seconds:.1f}" for seconds in row.values())])
    print_result("radio", {"cells": CELLS, "unit": "s", "cpu_per_step": figures}, [table], as_json=arguments.json)


if __name__ == "__main__":
    main()
