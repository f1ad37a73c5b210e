"""Schedulers against the published figures of others: `python -m benchmarks.schedulers --job corais [--json]`.

`corais`: mean and largest makespan over that of HiGHS within `--limit` s, and CPU time of a decision, for ours,
local, predicted and random decisions, by family and scale; for large instances the makespan over the floor, and, in
the family without backlogs, over that of longest-first placement.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.schedulers.corais import baselines, exact, families, search
from cosim.schedulers.corais.problem import Decision, Instance, makespan

SCALES = {
    "corais": [(10, 5, 50), (10, 5, 100), (20, 10, 100)],
    "corais-tight": [(10, 5, 50), (20, 10, 100)],
}
LARGE = (2000, 1000, 15000)
TARGETS = {"corais": (1.005, 1.0), "corais-tight": (1.02, 5.0)}  # mean gap, ms


def longest_first(instance: Instance) -> Decision:
    """Each request, long ones first, where the response of the edge stays least."""
    return search.solve(instance, budget=0)


def methods(seed: int) -> dict[str, Callable[[Instance], Decision]]:
    rng = np.random.default_rng(seed)
    return {
        "ours": search.solve,
        "ours, 1 ms": lambda one: search.solve(one, budget=15_000),
        "placed only": longest_first,
        "local": baselines.local,
        "predicted": baselines.predicted,
        "random (1k)": lambda one: baselines.random(one, 1000, rng),
    }


def small(count: int, limit: float, seed: int) -> list[dict[str, Any]]:
    """One row per family, scale and method."""
    rows = []
    for family, scales in SCALES.items():
        for scale in scales:
            found = list(families.instances(family, scale, count, seed))
            search.solve(found[0])  # its machine code
            solved = [exact.solve(one, limit) for one in found]
            for name, rule in methods(seed).items():
                values, spent = [], []
                for one in found:
                    begun = time.process_time()
                    decision = rule(one)
                    spent.append(time.process_time() - begun)
                    values.append(makespan(one, decision))
                gaps = np.array(values) / [one.makespan for one in solved]
                rows.append({
                    "family": family, "scale": list(scale), "method": name, "gap": float(np.mean(gaps)),
                    "worst": float(np.max(gaps)), "cpu_ms": 1e3 * float(np.mean(spent)),
                    "solver_gap": float(np.mean([one.gap for one in solved])),
                })  # fmt: skip
    return rows


def large(count: int, seed: int) -> list[dict[str, Any]]:
    """The makespan at (2000, 1000, 15000), s, the floor, and CPU ms."""
    rows = []
    for family in SCALES:
        for one in families.instances(family, LARGE, count, seed):
            search.solve(one)
            begun = time.process_time()
            value = makespan(one, search.solve(one))
            spent = 1e3 * (time.process_time() - begun)
            rows.append({"family": family, "makespan": value, "floor": one.floor, "cpu_ms": spent})
    return rows


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--job", choices=["corais"], default="corais")
    arguments.add_argument("--instances", type=int, default=30, help="per family and scale")
    arguments.add_argument("--limit", type=float, default=10.0, help="s of HiGHS per instance")
    arguments.add_argument("--large", type=int, default=3, help="large instances per family")
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    rows, big = small(options.instances, options.limit, options.seed), large(options.large, options.seed)
    table = Table("makespan over HiGHS", ["family", "scale", "method", "mean", "worst", "CPU ms", "HiGHS' own gap"])
    for row in rows:
        scale = "x".join(map(str, row["scale"]))
        figures = f"{row['gap']:.4f}", f"{row['worst']:.3f}", f"{row['cpu_ms']:.2f}", f"{row['solver_gap']:.2%}"
        table.add([row["family"], scale, row["method"], *figures])
    other = Table("large instances", ["family", "makespan s", "floor s", "CPU ms"])
    for row in big:
        other.add([row["family"], f"{row['makespan']:.4f}", f"{row['floor']:.4f}", f"{row['cpu_ms']:.1f}"])
    print_result("schedulers", {"job": options.job, "small": rows, "large": big, "targets": TARGETS}, [table, other],
                 as_json=options.json)  # fmt: skip


if __name__ == "__main__":
    main()
