"""One file in two worlds: the tasks of a run with real nodes, paired with those of the same run in one process.

    python -m benchmarks.worlds [--nodes netns|containers] [--scenarios hello convoy ...] [--seconds 60]
        [--set KEY=VALUE] [--json]
    python -m benchmarks.worlds --policies edf bandit ... [--scenarios FILE] [--seconds 60]

Every scenario is simulated, then run with real nodes in real time, and their tasks are paired by workload, source and
instant (as `cosim compare` does). A run with real nodes ends before tasks that are late, so the last few seconds have
fewer pairs. Targets: instants and sizes equal, and the same host for at least 95 % of the tasks at low load. Namespaces
need root and /dev/net/tun, containers an engine.

With `--policies` one scenario (`benchmarks/unequal.cosim.yaml`) runs under each scheduler in both worlds, and what is
told is whether they come in the same order: Spearman's and Kendall's rank correlation of their mean response times,
of which Spearman's is to be 0.9. A task that did not complete counts with `LOST` s.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import cosim
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.results.pairing import Pairing, pair
from cosim.scenario.gather import scenario_file

ROOT = Path(__file__).resolve().parents[1]
SCENARIOS = ("hello", "smart-farm", "convoy", "edge-inference")
SAME_HOST = 0.95
"""Of the tasks that both runs made."""

RANKED = ROOT / "benchmarks" / "unequal.cosim.yaml"
POLICIES = ("edf", "bandit", "least-loaded", "round-robin", "hybrid", "cloud", "nearest")
RANKS = 0.9
LOST = 10.0  # s that a task counts with which did not complete: no policy gains by losing tasks


def compared(scenario: Path, nodes: str, seconds: float, folder: Path, values: Sequence[str] = ()) -> Pairing | None:
    """The tasks of a scenario simulated and with real nodes, with KEY=VALUE overridden; None where it has none."""
    return pair(*(ran(scenario, world, seconds, folder / world, values) for world in ("process", nodes)))


def ran(scenario: Path, world: str, seconds: float, folder: Path, values: Sequence[str] = ()) -> Path:
    """The folder of a run of the scenario."""
    words = ["run", str(scenario), "--nodes", world, "--out", str(folder)]
    words += [word for value in (f"run.duration={seconds:g} s", *values) for word in ("--set", value)]
    command = [sys.executable, "-m", "cosim", *words, "--no-report", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{scenario.name} did not run with nodes in {world}: {(done.stderr or done.stdout)[-2000:]}")
    return Path(json.loads(done.stdout)["folder"])


def response(folder: Path) -> tuple[int, float]:
    """Tasks that ended, and their mean response time (s)."""
    query = "SELECT count(*), avg(CASE WHEN status = 'completed' THEN ended - created ELSE ? END) FROM task"
    with closing(cosim.load(folder)) as run:
        count, mean = run.execute(query, [LOST]).fetchall()[0]
    return int(count), float(mean)


def spearman(first: Sequence[float], other: Sequence[float]) -> float:
    """The correlation of ranks; equal values share the mean of theirs."""
    a, b = (_ranks(values) for values in (first, other))
    return float(np.corrcoef(a, b)[0, 1])


def kendall(first: Sequence[float], other: Sequence[float]) -> float:
    """The share of pairs in the same order less that of pairs in another one (tau a)."""
    pairs = list(combinations(range(len(first)), 2))
    return float(np.mean([np.sign((first[i] - first[j]) * (other[i] - other[j])) for i, j in pairs]))


def _ranks(values: Sequence[float]) -> list[float]:
    return [float(np.mean([(v > w) + 0.5 * (v == w) for w in values])) for v in values]


def ranked(
    scenario: Path, policies: Sequence[str], nodes: str, seconds: float, values: Sequence[str] = ()
) -> tuple[dict[str, Any], Table]:
    """Mean responses of each policy in both worlds, and how their orders correlate."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as spare:
        for policy in policies:
            row: dict[str, Any] = {"policy": policy}
            for world in ("process", nodes):
                chosen = [*values, f"adapters.continuum.scheduler={policy}"]
                folder = ran(scenario, world, seconds, Path(spare) / policy / world, chosen)
                count, mean = response(folder)
                row["process" if world == "process" else "real"] = {"tasks": count, "response": mean}
            rows.append(row)
    first, other = ([row[world]["response"] for row in rows] for world in ("process", "real"))
    found = {"scenario": scenario.name, "policies": rows, "spearman": spearman(first, other)}
    found["kendall"] = kendall(first, other)
    correlation = f"Spearman {found['spearman']:.3f}{verdict(found['spearman'], RANKS, at_least=True)}"
    table = Table(
        f"{scenario.name}, {seconds:g} s, process and {nodes}: {correlation}, Kendall {found['kendall']:.3f}",
        ["scheduler", "tasks", "real", "response s", "real"],
    )
    for row in sorted(rows, key=lambda one: one["process"]["response"]):
        a, b = row["process"], row["real"]
        table.add([row["policy"], a["tasks"], b["tasks"], f"{a['response']:.3f}", f"{b['response']:.3f}"])
    return found, table


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--nodes", choices=["netns", "containers"], default="netns", help="where real nodes are")
    arguments.add_argument("--scenarios", nargs="+", default=None, help="shipped ones, or folders")
    arguments.add_argument("--policies", nargs="*", help="schedulers whose order is compared; named nowhere: seven")
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the scenarios")
    arguments.add_argument("--seconds", type=float, default=60.0, help="that each run takes")
    options = arguments.parse_args()
    if options.policies is not None:
        scenario = Path(options.scenarios[0]).absolute() if options.scenarios else RANKED
        policies = options.policies or POLICIES
        ranks, table = ranked(scenario, policies, options.nodes, options.seconds, options.set)
        result = {"nodes": options.nodes, "seconds": options.seconds, "ranks": ranks}
        print_result("worlds", result, [table], as_json=options.json)
        return
    table = Table(
        f"tasks in process and in {options.nodes}, {options.seconds:g} s",
        ["scenario", "tasks", "real", "paired", "same size", "same host", "response, ms more"],
    )
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as spare:
        for name in options.scenarios or SCENARIOS:
            folder = scenario_file(name).parent
            one = compared(folder, options.nodes, options.seconds, Path(spare), options.set)
            if one is None or not one.paired:
                table.add([name, "no tasks of both", "", "", "", "", ""])
                continue
            host = one.same_host / one.paired
            found[name] = asdict(one)
            table.add(
                [
                    name, one.tasks[0], one.tasks[1], one.paired, f"{one.same_size / one.paired:.1%}",
                    f"{host:.1%}{verdict(host, SAME_HOST, at_least=True)}", f"{1e3 * one.difference:.1f}",
                ]
            )  # fmt: skip
    result = {"nodes": options.nodes, "seconds": options.seconds, "pairs": found}
    print_result("worlds", result, [table], as_json=options.json)


if __name__ == "__main__":
    main()
