"""Microseconds of CPU per interval of the interval model: `python -m benchmarks.cosco [--json]`.

Fleets of 50 and 500 hosts with an arrival per ten hosts and interval, policy `shuffle` (every other
container moves in every interval), with all statistics of an interval. The peer's rules first, then
the corrected physics. Beside: many seeds at once on all cores, and how far energies, completions and
response times lie from a second model of the same rules in plain Python, step by step (max relative
difference, and whether completions are equal in every interval), and how far they lie from the recorded
runs of the peer itself in `../shared/data/cosco`. With `--peer DIR`, a copy of the peer that you have,
`--drawn` fresh configurations are run by it and repeated here. Getting ready stands apart: it
loads the compiled code, or compiles it when `was_compiled` is false (cold).
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.interval_rules import Rules

from benchmarks import cosco_runs
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.extensions.cosco.interval import (
    ContainerArrivals,
    ContainerWorkload,
    Interval,
    azure_fog,
    batch,
    compatible,
    compiled,
    static,
)

LENGTH = 300.0
TARGETS = {50: 5.0, 500: 60.0}  # us per interval
BRANCH_TARGET = 5.0  # ms
BATCH_TARGET = 100_000.0  # intervals/s of wall time on two cores


def workload(hosts: int) -> ContainerWorkload:
    return static(LENGTH, ContainerArrivals("normal", hosts / 10.0, 1.5))


def simulation(hosts: int, quirks: frozenset[str], **options: Any) -> Interval:
    fleet = azure_fog(hosts, quirks)
    return Interval(fleet, workload(hosts), 7, quirks=quirks, length=LENGTH, **{"policy": "shuffle", **options})


def speed(hosts: int, quirks: frozenset[str], intervals: int, rounds: int) -> float:
    """CPU us per interval, best of the rounds, once as many containers run as will."""
    one = simulation(hosts, quirks, keep=False)
    one.run(100)
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        one.run(intervals)
        best = min(best, time.process_time() - begun)
    return best / intervals * 1e6


def many(seeds: int, intervals: int) -> dict[str, float]:
    """Intervals per second of wall and of CPU time, all cores, and whether the number of threads changes a bit."""
    options: dict[str, Any] = {"policy": "least-loaded", "quirks": compatible(), "length": LENGTH}
    fleet, load = azure_fog(50, compatible()), workload(50)
    cpu, wall = time.process_time(), time.perf_counter()
    found = batch(fleet, load, range(seeds), intervals, **options)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    few = min(seeds, 8)
    again = batch(fleet, load, range(few), intervals, workers=1, **options)
    return {
        "seeds": seeds, "intervals": intervals, "intervals_per_s": seeds * intervals / wall,
        "intervals_per_cpu_s": seeds * intervals / cpu, "wall_s": wall, "cpu_s": cpu,
        "threads": len(os.sched_getaffinity(0)),
        "equal_bits": found.figures[:, :few].tobytes() == again.figures.tobytes(),
    }  # fmt: skip


def branching(hosts: int, candidates: int, rounds: int) -> dict[str, float]:
    """CPU ms to try `candidates` one interval ahead, a tenth or all of the containers moved, best of the rounds."""
    found = {}
    for name, quirks in (("compatible", compatible()), ("corrected", frozenset[str]())):
        one = simulation(hosts, quirks, policy="least-loaded", keep=False)
        one.run(100)
        chance, count = np.random.Generator(np.random.PCG64(1)), len(one.state().slot)
        for moved in (0.1, 1.0):
            tried = np.where(
                chance.random((candidates, count)) < moved, chance.integers(0, hosts, (candidates, count)), -1
            )
            one.branch(tried[:1])
            best = float("inf")
            for _ in range(rounds):
                begun = time.process_time()
                one.branch(tried)
                best = min(best, time.process_time() - begun)
            found[f"{name}, {moved:.0%} moved"] = best * 1e3
    return found


def agreement(hosts: int, intervals: int) -> dict[str, Any]:
    """Both models under the same containers and random decisions, by the peer's rules."""
    chance = np.random.Generator(np.random.PCG64(hosts))
    count = hosts * intervals // 10
    k = chance.integers(0, 4, count)
    base = workload(hosts)
    work = (base.work if base.work is not None else np.ones(4))[k] * chance.uniform(0.3, 1.7, count)
    rows = np.stack([np.sort(chance.integers(0, intervals, count)), k, work, 3.0 * (k + 1)], axis=1)
    fleet, load = azure_fog(hosts, compatible()), base.replay(rows)
    one = Interval(fleet, load, 7, policy=None, quirks=compatible(), length=LENGTH)
    plain = Rules(fleet, load, LENGTH)
    energy, response, completions, total = 0.0, 0.0, True, 0
    begun, spent = time.process_time(), 0.0
    for _ in range(intervals):
        view = one.state()
        chosen = view.slot[(view.host < 0) | (chance.random(len(view.slot)) < 0.3)]
        decisions = np.stack([chosen, chance.integers(0, hosts, len(chosen))], axis=1)
        row = one.step(decisions)
        begun = time.process_time()
        theirs = plain.step(decisions.tolist())
        spent += time.process_time() - begun
        energy = max(energy, _apart(row["energy"], theirs.energy))
        response = max(response, _apart(row["response"], theirs.response))
        completions &= row["completed"] == theirs.completed
        total += theirs.completed
    return {
        "intervals": intervals, "completed": total, "completions_equal": bool(completions),
        "energy_max_relative_difference": energy, "response_max_relative_difference": response,
        "plain_python_cpu_us": spent / intervals * 1e6,
    }  # fmt: skip


def against_peer(peer: Path | None, drawn: int, first: int) -> dict[str, dict[str, Any]]:
    """Distances from the recorded runs, and from fresh runs of the peer in `peer`, with the CPU seconds of both."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(cosco_runs.RECORDED.glob("*.json.gz")):
        found[path.name.removesuffix(".json.gz")] = asdict(cosco_runs.replay(cosco_runs.load(path)))
    if peer is not None:
        for number in range(first, first + drawn):
            run = cosco_runs.run_peer(peer, cosco_runs.draw(number))
            begun = time.process_time()
            distance = asdict(cosco_runs.replay(run))
            cpu = {"peer_cpu_s": run["cpu_s"], "cpu_s": time.process_time() - begun}
            found[f"drawn {number}: {run['fleet']} {run['hosts']}"] = distance | cpu
    return found


def _apart(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), 1e-300)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--hosts", type=int, nargs="+", default=[50, 500])
    arguments.add_argument("--intervals", type=int, default=2000, help="per round (default: %(default)s)")
    arguments.add_argument("--rounds", type=int, default=5, help="of which the best counts (default: %(default)s)")
    arguments.add_argument("--seeds", type=int, default=2000, help="of the batch (default: %(default)s)")
    arguments.add_argument("--compared", type=int, default=100, help="intervals compared (default: %(default)s)")
    arguments.add_argument("--peer", type=Path, metavar="DIR", help="a copy of COSCO to run fresh configurations with")
    arguments.add_argument("--drawn", type=int, default=5, help="fresh configurations (default: %(default)s)")
    arguments.add_argument("--first", type=int, default=1, help="number of the first one (default: %(default)s)")
    options = arguments.parse_args()
    warm = compiled()
    begun = time.process_time()
    simulation(10, compatible()).run(1)
    ready = time.process_time() - begun
    speeds = {
        hosts: {
            name: speed(hosts, quirks, options.intervals, options.rounds)
            for name, quirks in (("compatible", compatible()), ("corrected", frozenset[str]()))
        }
        for hosts in options.hosts
    }
    together = many(options.seeds, 100)
    equal = {hosts: agreement(hosts, options.compared) for hosts in options.hosts}
    tried = branching(50, 1000, 4 * options.rounds)
    runs = against_peer(options.peer, options.drawn, options.first)
    table = Table("CPU us per interval, with statistics", ["hosts", "compatible", "corrected", "plain Python"])
    for hosts, found in speeds.items():
        cells = [f"{value:.2f}{verdict(value, TARGETS.get(hosts))}" for value in found.values()]
        table.add([hosts, *cells, f"{equal[hosts]['plain_python_cpu_us']:,.0f}"])
    batched = Table("50 hosts, many seeds at once", ["figure", "value"])
    for name, value in together.items():
        batched.add([name, f"{value:,.2f}" if isinstance(value, float) else value])
    rate = together["intervals_per_s"]
    batched.add(["target", verdict(rate, BATCH_TARGET, at_least=True).strip(" ()")])
    ahead = Table("1,000 candidates, one interval, 50 hosts, one core", ["case", "CPU ms"])
    for name, value in tried.items():
        ahead.add([name, f"{value:.2f}{verdict(value, BRANCH_TARGET)}"])
    same = Table("against the plain Python model", ["hosts", *next(iter(equal.values()))])
    for hosts, figures in equal.items():
        same.add([hosts, *(f"{v:.3g}" if isinstance(v, float) else v for v in figures.values())])
    peers = Table("against runs of the peer", ["run", *next(iter(runs.values()), {}), "CPU s theirs", "ours"])
    for name, figures in runs.items():
        peers.add([name, *(f"{v:.3g}" if isinstance(v, float) else v for v in figures.values())])
        peers.rows[-1] += [""] * (len(peers.columns) - len(peers.rows[-1]))
    start = Table("getting ready", ["was_compiled", "CPU s"])
    start.add([warm, f"{ready:.2f}"])
    data = {
        "was_compiled": warm, "ready_cpu_s": ready, "cpu_us_per_interval": speeds, "batch": together,
        "agreement": equal, "branch_cpu_ms": tried, "against_peer": runs,
    }  # fmt: skip
    print_result("cosco", data, [table, batched, ahead, same, peers, start], as_json=options.json)


if __name__ == "__main__":
    main()
