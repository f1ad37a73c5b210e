"""Branches of a run: `python -m benchmarks.whatif [--json] [--scenario hello] [--now 30] [--questions 40]`.

Candidates are failures of a node each, `--gap` s apart. Wall and CPU seconds of all of them (workers of adapters
included), apart from the run up to `--now`; they are branched twice, and so many as `--verify` says are compared with
ordinary runs whose scenario has the same event, bit by bit.

`--questions` asks, in the middle of as many runs of a queue, what the next `--horizon` s bring, and counts how many of
the answers' bands of 90 % hold what the run then did. Its load is not that of the scenario, but has to be measured.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.bus.branch import branch
from cosim.results.again import made_again
from cosim.results.load import load as load_run
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan
from cosim.twin.prediction.coupled import quantities_of, with_events
from cosim.twin.prediction.reported import PublishedTables
from cosim.twin.prediction.whatif import what_if


def course(scenario: Path, changes: list[str], now: float, end: float) -> Plan:
    """The plan of a scenario with changes at `now` (s) that lasts until `end` (s) at least."""
    loaded = load(scenario)
    longer = [f"run.duration={end} s"] if end > loaded.scenario.run.duration else []
    return compile_plan(load(scenario, [*longer, *with_events(changes, now, loaded.data.get("events") or [])]))


def of_run(folder: Path, since: float, until: float) -> dict[str, float]:
    """The figures of a recorded run from `since` to `until` (s), made from its tables."""
    run, found = load_run(folder), dict[str, float]()
    try:
        if "task" in run.signals:
            query = "SELECT ended - created, status::VARCHAR = 'completed' FROM task WHERE created >= ? AND ended <= ?"
            rows = np.array(run.execute(query, [since, until]).fetchall(), np.float64).reshape(-1, 2)
            known = rows[rows[:, 1] != 0.0, 0]
            found |= {"completed": len(known), "failed": len(rows) - len(known)}
            found |= {"response": known.mean(), "response_p95": np.quantile(known, 0.95)}
        query = "SELECT time, power, utilisation FROM host WHERE time >= ? AND time <= ?"
        hosts = np.array(run.execute(query, [since, until]).fetchall(), np.float64).reshape(-1, 3)
        for column, name in ((1, "power"), (2, "utilisation")):
            values = hosts[:, column]
            found[name] = values[np.isfinite(values)].sum() / len(np.unique(hosts[:, 0]))
    finally:
        run.close()
    return found


QUEUE = """
apiVersion: cosim/v1
kind: Scenario
name: queue
run: {duration: DURATION s, step: 1 s}
adapters: {continuum: {scheduler: nearest}}
nodes:
  client-[1..4]: {kind: device}
  worker: {kind: edge, cpu: 1 x 1 GHz}
links:
  - {between: ["client-*", worker], rate: 1 Gbit/s, delay: 2 ms}
workloads:
  ask: {from: "client-*", arrivals: poisson RATE Hz, work: exponential 60 Mcycles}
"""


def covered(rate: float, now: float, horizon: float, questions: int) -> dict[str, int]:
    """How many answers hold what then happened, by figure; tasks come at `rate` (Hz) from each of four devices."""
    held: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        files = {}
        for name, hz in (("real", rate), ("thought", 2.0)):
            files[name] = folder / f"{name}.cosim.yaml"
            asked = QUEUE.replace("DURATION", f"{now + horizon:g}").replace("RATE", f"{hz:g}")
            files[name].write_text(asked, encoding="utf-8")
        for k in range(questions):
            run = run_plan(compile_plan(load(files["real"], [f"run.seed={k + 1}"])), folder, driver="loop").folder
            happened = of_run(run, now, now + horizon)
            (answer,) = what_if(
                files["thought"], run, {}, folder=folder / "work", now=now, horizon=horizon, seed=k, workers=1
            )
            for name, band in answer.bands.items():
                held[name] = held.get(name, 0) + int(band.low <= happened[name] <= band.high)
    return held


def spent() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def measure(
    scenario: Path, candidates: Mapping[str, list[str]], now: float, horizon: float, verify: int
) -> dict[str, Any]:
    """Seconds and equalities."""
    plan = course(scenario, [], now, now + horizon)
    plans = [course(scenario, changes, now, now + horizon) for changes in candidates.values()]
    events, chosen = [one.events for one in plans], quantities_of(plan, now, hosts=True)
    begun = time.monotonic()
    with made_again(plan, now, {one.table for one in chosen.values()}) as runtime:
        again = time.monotonic() - begun
        wall, cpu = time.monotonic(), spent() + workers(runtime)
        first = branch(runtime, events, horizon, measure=lambda: PublishedTables(chosen))
        wall, cpu = time.monotonic() - wall, spent() + workers(runtime) - cpu
        second = branch(runtime, events, horizon, measure=lambda: PublishedTables(chosen))
    same = all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)
    equal = 0
    for k in np.linspace(0, len(plans) - 1, verify).round().astype(int) if verify else ():
        with tempfile.TemporaryDirectory() as folder:
            found = of_run(run_plan(plans[k], Path(folder), driver="loop").folder, now, now + horizon)
        equal += found == {name: first[name][k] for name in first}
    return {
        "candidates": len(plans), "now_s": now, "horizon_s": horizon, "again_s": again, "wall_s": wall, "cpu_s": cpu,
        "repeats": same, "verified": verify, "equal_bits": equal,
        "responses": first["response"].tolist() if "response" in first else [],
    }  # fmt: skip


def workers(runtime: Any) -> float:
    """CPU seconds of adapters in processes of their own so far."""
    shared = (getattr(station.adapter, "adapter", None) for station in runtime.stations)
    return sum(getattr(one, "cpu_seconds", 0.0) for one in shared)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--scenario", nargs="+", default=["hello", "city-edge"])
    arguments.add_argument("--now", type=float, default=30.0)
    arguments.add_argument("--horizon", type=float, default=60.0)
    arguments.add_argument("--candidates", type=int, default=10)
    arguments.add_argument("--gap", type=float, default=2.0)
    arguments.add_argument("--verify", type=int, default=2)
    arguments.add_argument("--questions", type=int, default=0)
    options = arguments.parse_args()
    if options.questions:
        bands = {
            f"{rate:g} Hz": covered(rate, 2 * options.now, options.horizon, options.questions) for rate in (1.0, 3.0)
        }
        table = Table(f"of {options.questions} answers, those that held", ["load", *next(iter(bands.values()))])
        for load_, held in bands.items():
            table.add([load_, *held.values()])
        print_result("whatif", {"questions": options.questions, "held": bands}, [table], as_json=options.json)
        return
    found: dict[str, dict[str, Any]] = {}
    for name in options.scenario:
        computers = [node.id for _, node in compile_plan(load(name)).scene.computers() if node.tier != "device"]
        candidates = {
            f"{k}": [
                "do=fail", f"node={computers[k % len(computers)]}", f"at={options.now + k * options.gap} s", "for=10 s"
            ]
            for k in range(options.candidates)
        }  # fmt: skip
        found[name] = measure(name, candidates, options.now, options.horizon, options.verify)
    columns = ("candidates", "again_s", "wall_s", "cpu_s", "repeats", "verified", "equal_bits")
    table = Table("candidates of a coupled run", ["scenario", *columns])
    for name, figures in found.items():
        table.add([name, *(f"{one:.2f}" if isinstance(one := figures[key], float) else one for key in columns)])
    print_result("whatif", {"scenarios": found}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
