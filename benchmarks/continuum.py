"""Tasks per CPU second of the continuum engine: `python -m benchmarks.continuum [--json] [--devices 1000]`.

Devices with two workloads each; per 1,000 of them 20 edge hosts and a cloud, all joined by one core;
the radio's figures are told every simulated second. Getting ready stands apart: it loads the compiled
code, or compiles it when `was_compiled` is false (cold).

`--threads 1 2` runs the same system with so many threads each, asserts that the results are equal bit by bit, and
compares wall and CPU seconds, and those of the busiest thread: of the first one, which also does what is not divided,
or the mean of the others if that is more. Where others keep the machine busy, these tell what the wall clock would
without them. `--edges` is the access points per 1,000 devices, which share the same number of cores.

`--scale` compares us per task at the first and the last of the sizes, for every policy of `continuum`
and of the offloading model. Each case runs in a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.engine.continuum import Engine, Kind, System, WorkloadStream, compiled, ledger, regions
from cosim.engine.continuum.layout import CLOUD, DEVICE, EDGE, EXPONENTIAL

UNIT = 1000  # devices
EDGES = 20  # per unit
RATIO = 1.5  # us per task at the largest size over that at the smallest
POLICIES = ("nearest", "least-loaded", "cloud", "local", "random", "round-robin", "hybrid")
OFFLOADING = {
    "app1": ("random-fit", "worst-fit", "best-fit", "first-fit", "next-fit"),
    "app4": ("network-based", "utilization-based", "hybrid", "fuzzy-based", "fuzzy-competitor"),
}


def world(devices: int, own: bool = False, per_unit: int = EDGES) -> System:
    """`per_unit` edge hosts per unit and clouds, each linked to the core, the core, then devices with two workloads."""
    units = max(1, devices // UNIT)
    edges = per_unit * units
    law = int(EXPONENTIAL)
    place = np.array([0] * edges + [1] * units + [2] + [3] * devices)
    return System(
        kinds=(
            Kind(cores=8 * EDGES // per_unit, clock=2e9, power=(50.0, 80.0, 100.0)),
            Kind(cores=64, clock=3e9, power=(200.0, 500.0)),
            Kind(),
            Kind(cores=1, clock=1e9) if own else Kind(),
        ),
        kind=place,
        tier=np.array([EDGE, CLOUD, CLOUD, DEVICE])[place],
        present=np.ones(len(place), np.bool_),
        workloads=(
            WorkloadStream(rate=1.0, work=(law, 50e6, 0.0), input=(law, 20e3, 0.0), output=(law, 5e3, 0.0)),
            WorkloadStream(rate=1.0, work=(law, 100e6, 0.0), input=(law, 50e3, 0.0), output=(law, 2e3, 0.0)),
        ),
        source_node=np.repeat(np.arange(edges + units + 1, len(place)), 2),
        source_workload=np.tile([0, 1], devices),
        link_a=np.arange(edges + units),
        link_b=np.full(edges + units, edges + units),
        link_rate=np.array([1e9] * edges + [20e9] * units),
        link_delay=np.full(edges + units, 0.005),
        link_loss=np.zeros(edges + units),
        link_energy=np.zeros(edges + units),
    )


def load() -> None:
    """Load the compiled code that only large systems need, by a small one that is taken for a large one."""
    before = regions.LARGE, ledger._MANY
    regions.LARGE, ledger._MANY = 1, 1
    try:
        engine = Engine(world(10, own=True), seed=1, scheduler=POLICIES.index("local"))
        engine.advance(0.0)
        engine.advance(2.0)
        engine.drain()
        engine.snapshot()
    finally:
        regions.LARGE, ledger._MANY = before


def measure(
    devices: int, seconds: int, policy: str = "least-loaded", threads: int = 1, per_unit: int = EDGES
) -> dict[str, Any]:
    """CPU seconds to get ready and to run, and what was done in them."""
    warm = compiled()
    begun = time.process_time()
    load()
    made = world(devices, policy == "local", per_unit)
    engine = Engine(made, seed=7, scheduler=POLICIES.index(policy), threads=threads)
    engine.advance(0.0)
    ready, start, first = time.process_time(), time.perf_counter(), time.thread_time()
    chance = np.random.Generator(np.random.PCG64(1))
    edges = per_unit * max(1, devices // UNIT)
    slots = np.arange(len(made.kind) - devices, len(made.kind))
    cell = chance.integers(0, edges, devices)
    tasks, digest, apart_s, apart_wall = 0, hashlib.sha256(), 0.0, 0.0
    for second in range(1, seconds + 1):
        if second % 10 == 0:
            cell = chance.integers(0, edges, devices)
        rate = chance.uniform(5e6, 50e6, devices)
        engine.set_radio(slots, cell, rate, 2 * rate, np.full(devices, 0.004), np.full(devices, 0.01))
        engine.advance(float(second))
        ended = engine.drain()
        tasks += len(ended["ended"])
        paused, paused_wall = time.process_time(), time.perf_counter()
        for column in ended.values():
            digest.update(column.tobytes())
        apart_s += time.process_time() - paused
        apart_wall += time.perf_counter() - paused_wall
    first = time.thread_time() - first - apart_s
    spent, wall = time.process_time() - ready - apart_s, time.perf_counter() - start - apart_wall
    books = engine.ledger()
    digest.update(repr((books.input, books.output, books.energy.sum(), books.tally.tolist())).encode())
    events = int(engine.state.meta["events"][0])
    return {
        "model": "continuum", "policy": policy, "threads": threads, "wall_s": wall,
        "busiest_thread_cpu_s": max(first, (spent - first) / max(1, threads - 1)), "digest": digest.hexdigest(),
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "devices": devices, "was_compiled": warm, "ready_cpu_s": ready - begun, "run_cpu_s": spent, "tasks": tasks,
        "tasks_per_cpu_s": tasks / spent, "events_per_cpu_s": events / spent,
    }  # fmt: skip


def offload(model: str, devices: int, seconds: float, policy: str) -> dict[str, Any]:
    """The same figures of an offloading model."""
    from benchmarks.offloading import study_of
    from cosim.extensions.edgecloudsim.offloading import Simulation

    Simulation(study_of(model, 10, 1.0, policy), 1).advance(1.0)
    run = Simulation(study_of(model, devices, seconds, policy), seed=7)
    run.advance(0.0)
    ready = time.process_time()
    run.advance(seconds)
    outcome = run.outcome()
    spent = time.process_time() - ready
    return {
        "model": model, "policy": policy, "devices": devices, "run_cpu_s": spent, "tasks": outcome.created,
        "tasks_per_cpu_s": outcome.created / spent, "failed_pct": outcome.metrics()["failed_pct"],
    }  # fmt: skip


def apart(model: str, devices: int, tasks: int, policy: str, *more: int) -> dict[str, Any]:
    """One case with about that many tasks in a process of its own; of `threads`, so many seconds."""
    command = [sys.executable, "-m", "benchmarks.continuum", "--case", model, str(devices), str(tasks), policy]
    command += map(str, more)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def scale(sizes: list[int], rounds: int, models: list[str], policies: list[str], as_json: bool) -> None:
    """us per task at the first and the last size, for every policy."""
    table = Table(
        f"us per task, best of {rounds}", ["model", "policy", *(f"{size:,} devices" for size in sizes), "ratio"]
    )
    cases = []
    for model in models:
        for policy in POLICIES if model == "continuum" else OFFLOADING[model]:
            if policies and policy not in policies:
                continue
            best = [
                min((apart(model, n, 400_000 if n < 50_000 else 1_000_000, policy) for _ in range(rounds)),
                    key=lambda one: 1.0 / one["tasks_per_cpu_s"])
                for n in sizes
            ]  # fmt: skip
            each = [1e6 / one["tasks_per_cpu_s"] for one in best]
            cases += best
            ratio = each[-1] / each[0]
            table.add([model, policy, *(f"{us:.2f}" for us in each), f"{ratio:.2f}{verdict(ratio, RATIO)}"])
    print_result("continuum-scale", {"cases": cases}, [table], as_json=as_json)


def share(
    devices: int, seconds: int, policy: str, threads: list[int], rounds: int, per_unit: int, as_json: bool
) -> None:
    """Wall and CPU seconds by the number of threads, in rounds that take turns; raises for results that differ."""
    cases = [apart("threads", devices, seconds, policy, count, per_unit) for _ in range(rounds) for count in threads]
    if len({case["digest"] for case in cases}) > 1:
        raise AssertionError("the results depend on the number of threads")
    best = [
        min((case for case in cases if case["threads"] == count), key=lambda case: case["wall_s"]) for count in threads
    ]
    table = Table(
        f"{policy}, {devices:,} devices, {seconds} simulated seconds, best of {rounds}; results equal bit by bit",
        [
            "threads",
            "wall s",
            "CPU s",
            "times as fast",
            "CPU s of the busiest thread",
            "times less",
            "us per task",
            "tasks per CPU s",
            "peak MB",
        ],
    )
    for case in best:
        table.add([
            case["threads"], f"{case['wall_s']:.2f}", f"{case['run_cpu_s']:.2f}",
            f"{best[0]['wall_s'] / case['wall_s']:.2f}", f"{case['busiest_thread_cpu_s']:.2f}",
            f"{best[0]['busiest_thread_cpu_s'] / case['busiest_thread_cpu_s']:.2f}",
            f"{1e6 / case['tasks_per_cpu_s']:.2f}", f"{case['tasks_per_cpu_s']:,.0f}", f"{case['peak_MB']:,.0f}",
        ])  # fmt: skip
    print_result("continuum-threads", {"cases": cases}, [table], as_json=as_json)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--devices", type=int, default=1000)
    arguments.add_argument("--policy", choices=POLICIES, default="least-loaded")
    arguments.add_argument("--seconds", type=int, default=100, help="simulated (default: %(default)s)")
    arguments.add_argument("--rounds", type=int, default=3, help="of which the best counts (default: %(default)s)")
    arguments.add_argument("--scale", action="store_true", help="compare sizes, for every policy")
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1000, 100_000], help="of --scale")
    arguments.add_argument("--models", nargs="+", default=["continuum", *OFFLOADING], help="of --scale")
    arguments.add_argument("--policies", nargs="+", default=[], help="of --scale; all of them without")
    arguments.add_argument("--threads", type=int, nargs="+", default=[], help="compare these numbers of threads")
    arguments.add_argument("--edges", type=int, default=EDGES, help="access points per 1,000 devices (%(default)s)")
    arguments.add_argument("--case", nargs="+", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.case:
        model, devices, tasks, policy = options.case[0], int(options.case[1]), int(options.case[2]), options.case[3]
        if model == "threads":
            print(json.dumps(measure(devices, tasks, policy, *map(int, options.case[4:]))))
        elif model == "continuum":
            print(json.dumps(measure(devices, max(2, tasks // (2 * devices)), policy)))
        else:
            print(json.dumps(offload(model, devices, max(100.0, 20.0 * tasks / devices), policy)))
        return
    if options.threads:
        share(options.devices, options.seconds, options.policy, options.threads, options.rounds, options.edges,
              options.json)  # fmt: skip
        return
    if options.scale:
        scale(options.sizes, options.rounds, options.models, options.policies, options.json)
        return
    found = [measure(options.devices, options.seconds, options.policy) for _ in range(options.rounds)]
    figures = min(found, key=lambda one: one["run_cpu_s"]) | {
        key: found[0][key] for key in ("was_compiled", "ready_cpu_s")
    }
    table = Table(f"{options.devices} devices, {options.seconds} simulated seconds", ["figure", "value"])
    for name, value in figures.items():
        table.add(
            [name, value if isinstance(value, str) else f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"]
        )
    print_result("continuum", figures, [table], as_json=options.json)


if __name__ == "__main__":
    main()
