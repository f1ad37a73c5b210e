"""Tasks per CPU second of the continuum engine: devices, 20 edge hosts, a cloud, radio told every second.

python -m benchmarks.continuum [--devices 1000] [--seconds 100] [--json]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from cosim.continuum import Engine, Kind, Stream, System, compiled
from cosim.continuum.layout import CLOUD, DEVICE, EDGE, EXPONENTIAL

EDGES = 20


def world(devices: int) -> System:
    """Edge hosts 0..19 with a link to the cloud each, then the devices with two workloads each."""
    law = int(EXPONENTIAL)
    place = np.array([0] * EDGES + [1] + [2] * devices)
    return System(
        kinds=(
            Kind(cores=8, clock=2e9, power=(50.0, 80.0, 100.0)),
            Kind(cores=64, clock=3e9, power=(200.0, 500.0)),
            Kind(),
        ),
        kind=place,
        tier=np.array([EDGE, CLOUD, DEVICE])[place],
        present=np.ones(len(place), np.bool_),
        workloads=(
            Stream(rate=1.0, work=(law, 50e6, 0.0), input=(law, 20e3, 0.0), output=(law, 5e3, 0.0)),
            Stream(rate=1.0, work=(law, 100e6, 0.0), input=(law, 50e3, 0.0), output=(law, 2e3, 0.0)),
        ),
        source_node=np.repeat(np.arange(EDGES + 1, len(place)), 2),
        source_workload=np.tile([0, 1], devices),
        link_a=np.arange(EDGES),
        link_b=np.full(EDGES, EDGES),
        link_rate=np.full(EDGES, 1e9),
        link_delay=np.full(EDGES, 0.01),
        link_loss=np.zeros(EDGES),
        link_energy=np.zeros(EDGES),
    )


def measure(devices: int, seconds: int) -> dict[str, float]:
    """CPU seconds to get ready and to run, and what was done in them."""
    warm = compiled()
    begun = time.process_time()
    engine = Engine(world(devices), seed=7)
    engine.advance(0.0)
    ready = time.process_time()
    chance = np.random.Generator(np.random.PCG64(1))
    slots = np.arange(EDGES + 1, EDGES + 1 + devices)
    cell = chance.integers(0, EDGES, devices)
    tasks = 0
    for second in range(1, seconds + 1):
        if second % 10 == 0:
            cell = chance.integers(0, EDGES, devices)
        rate = chance.uniform(5e6, 50e6, devices)
        engine.set_radio(slots, cell, rate, 2 * rate, np.full(devices, 0.004), np.full(devices, 0.01))
        engine.advance(float(second))
        tasks += len(engine.drain()["ended"])
    spent = time.process_time() - ready
    events = int(engine.state.meta["events"][0])
    return {
        "devices": devices, "was_compiled": warm, "ready_cpu_s": ready - begun, "run_cpu_s": spent, "tasks": tasks,
        "tasks_per_cpu_s": tasks / spent, "events_per_cpu_s": events / spent,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.devices, arguments.seconds)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:>20} {value:,.3f}" if isinstance(value, float) else f"{name:>20} {value:,}")


if __name__ == "__main__":
    main()
