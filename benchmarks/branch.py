"""Candidates per CPU second: `python -m benchmarks.branch [--json] [--hosts 50] [--candidates 1000]`.

A continuum of that many hosts and twice as many devices, whose tasks of one interval wait for a
decision; every candidate places all of them and runs one interval (0.1 s) further.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.engine.continuum import INTERVAL, Decisions, Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.branch import Brancher
from cosim.engine.continuum.layout import DEVICE, EDGE, EXPONENTIAL

SPAN = 0.1  # s


def world(hosts: int) -> System:
    """Hosts in a star around the first one; two devices at each."""
    law = int(EXPONENTIAL)
    place = np.array([0] * hosts + [1] * (2 * hosts))
    return System(
        kinds=(Kind(cores=4, clock=2e9, power=(50.0, 100.0)), Kind()),
        kind=place,
        tier=np.array([EDGE, DEVICE])[place],
        present=np.ones(len(place), np.bool_),
        workloads=(WorkloadStream(rate=5.0, work=(law, 2e8, 0.0), input=(law, 2e4, 0.0), output=(law, 2e3, 0.0)),),
        source_node=np.arange(hosts, 3 * hosts),
        source_workload=np.zeros(2 * hosts, np.int64),
        link_a=np.arange(1, hosts),
        link_b=np.zeros(hosts - 1, np.int64),
        link_rate=np.full(hosts - 1, 1e9),
        link_delay=np.full(hosts - 1, 0.001),
        link_loss=np.zeros(hosts - 1),
        link_energy=np.zeros(hosts - 1),
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--hosts", type=int, default=50)
    arguments.add_argument("--candidates", type=int, default=1000)
    options = arguments.parse_args()
    engine = Engine(world(options.hosts), seed=7, scheduler=INTERVAL)
    slots, ones = np.arange(options.hosts, 3 * options.hosts), np.ones(2 * options.hosts)
    engine.set_radio(slots, (slots - options.hosts) // 2, 3e7 * ones, 6e7 * ones, 0.002 * ones, 0.0 * ones)
    chance = np.random.Generator(np.random.PCG64(1))
    view = engine.step(SPAN)
    for _ in range(20):
        serial = view.pending["serial"]
        view = engine.step(SPAN, Decisions(serial, chance.integers(0, options.hosts, len(serial))))
    serial = view.pending["serial"]
    candidates = [Decisions(serial, chance.integers(0, options.hosts, len(serial))) for _ in range(options.candidates)]
    brancher = Brancher(engine)
    spent = []
    for _ in range(4):
        begun = time.process_time()
        found = brancher.run(candidates, SPAN)
        spent.append(time.process_time() - begun)
    figures = {
        "hosts": options.hosts, "candidates": options.candidates, "tasks_placed": len(serial),
        "events": float(found["events"].mean()), "cpu_us_per_candidate": 1e6 * min(spent) / options.candidates,
    }  # fmt: skip
    table = Table("one interval per candidate", ["figure", "value"])
    for name, value in figures.items():
        table.add([name, f"{value:,.1f}"])
    print_result("branch", figures, [table], as_json=options.json)


if __name__ == "__main__":
    main()
