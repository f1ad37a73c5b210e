"""Schedulers against each other and against published figures: `python -m benchmarks.schedulers --job JOB [--json]`.

`table`: all schedulers on the frozen suite of `cosim bench schedulers`, from the folder `--out` where it holds
results already; the order of the papers; whether `search` is with the best in each world at 50 ms per decision. With
`--seed` under seeds from that one on, which nothing was developed on; with `--worlds` on scenario files of one model,
and with `--only` of these entries.

`corais`: mean and largest makespan over that of HiGHS within `--limit` s (10), and CPU time of a decision, for ours,
plain rules and, with `--weights`, the network and its ablations, by family and scale; for large instances the makespan
over the floor, and, in the family without backlogs, over what the longest request takes alone.

`network`: CoRaiS' network, as shipped or from the folder `--weights`, against its ablations, as far as they are there,
and plain rules, see `benchmarks.corais_network`; `--instances` of `--family` and `--scale`.

`edges`: the prototype with five real edges, see `benchmarks.five_edges`; `--rounds` of each cell.

`metanet`: choosing the scheduler anew in each of `--intervals`, see `benchmarks.metanet`.

`tuned`: SimTune's tables, its Algorithm 1 around six schedulers, see `benchmarks.tuned`; `--intervals`, by default 40.

`mail`: MAIL-MMSG, see `benchmarks.mail`; `--length` s of each day that policies are judged on, `--days` of logs to
learn clients from and as many to judge them on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, mapped, parser, print_result, verdict
from cosim.extensions.corais import baselines, exact, families, network, search
from cosim.extensions.corais.problem import Decision, Instance, makespan
from cosim.extensions.metanet.bench import scenarios, suite
from cosim.extensions.metanet.bench import table as comparison
from cosim.results import student

SCALES = {
    "corais": [(10, 5, 50), (10, 5, 100), (20, 10, 100)],
    "corais-tight": [(10, 5, 50), (20, 10, 100)],
}
LARGE = (2000, 1000, 15000)
TARGETS = {"corais": ("ours, 1 ms", 1.005, 1.0), "corais-tight": ("ours", 1.02, 5.0)}  # method, mean gap, CPU ms
LARGE_TARGETS = {
    "corais": ("floor", 1.0, 50.0),
    "corais-tight": ("longest first", 0.9, 1000.0),
}  # of what, ratio, CPU ms


def longest_first(instance: Instance) -> Decision:
    """Each request, long ones first, where the response of the edge stays least; in numpy, independent of `search`."""
    place, region = instance.place, slice(instance.edges)
    own, other = instance.own_work.copy(), instance.coming_work.copy()
    arrival, last = instance.coming.copy(), instance.leaving.copy()
    found = np.empty(instance.requests, np.int64)
    for z in np.argsort(-instance.input, kind="stable"):
        source, target = instance.source[z], instance.target[z]
        work = (instance.slope * instance.input[z] + instance.offset) / instance.replicas
        way, back = (
            instance.transfer * size * np.hypot(*(place[region] - place[end]).T)
            for size, end in ((instance.input[z], source), (instance.output[z], target))
        )
        after = np.maximum(own, np.maximum(arrival, way)) + other + work + np.maximum(last, back)
        here = max(own[source] + work[source], arrival[source]) + other[source]
        after[source] = here + max(last[source], back[source])
        q = found[z] = int(after.argmin())
        if q == source:
            own[q] += work[q]
        else:
            other[q] += work[q]
            arrival[q] = max(arrival[q], way[q])
        last[q] = max(last[q], back[q])
    return found


def alone(instance: Instance) -> float:
    """s that the longest request takes where it is answered first, with all edges free: no decision comes below."""
    place, most = instance.place[: instance.edges], 0.0
    for z in range(instance.requests):
        source, target = instance.source[z], instance.target[z]
        way, back = (
            instance.transfer * size * np.hypot(*(place - instance.place[end]).T)
            for size, end in ((instance.input[z], source), (instance.output[z], target))
        )
        work = (instance.slope * instance.input[z] + instance.offset) / instance.replicas
        most = max(most, float((way + work + back).min()))
    return most


def methods(seed: int, weights: Path | None = None) -> dict[str, Callable[[Instance], Decision]]:
    """Ours, plain rules, and the network with its ablations as far as their weights are there."""
    rng = np.random.default_rng(seed)
    found: dict[str, Callable[[Instance], Decision]] = {
        "ours": search.solve,
        "ours, 1 ms": lambda one: search.solve(one, budget=15_000),
        "longest first": longest_first,
        "placed only": lambda one: search.solve(one, budget=0),
        "local": baselines.local,
        "predicted": baselines.predicted,
        "random (1k)": lambda one: baselines.random(one, 1000, rng),
    }
    for variant in network.VARIANTS:
        if weights is None or not (weights / f"{variant}.npz").is_file():
            continue
        held = network.stored(weights, variant)
        for count in (0, 100, 1000):
            name = f"{variant} ({'1k' if count == 1000 else count})" if count else f"{variant}, greedy"
            found[name] = lambda one, held=held, count=count: network.solve(one, held, count=count)
    return found


def small(
    count: int, limits: dict[str, float], seed: int, workers: int = 1, weights: Path | None = None
) -> list[dict[str, Any]]:
    """One row per family, scale and method; `limits` (s) of HiGHS by family, on whose solutions `workers` work."""
    rows = []
    for family, scales in SCALES.items():
        for scale in scales:
            found = list(families.instances(family, scale, count, seed))
            search.solve(found[0])  # its machine code
            solved = mapped(exact.solve, found, repeat(limits[family]), workers=workers)
            for name, rule in methods(seed, weights).items():
                values, spent = [], []
                for one in found:
                    begun = time.process_time()
                    decision = rule(one)
                    spent.append(time.process_time() - begun)
                    values.append(makespan(one, decision))
                gaps = np.array(values) / [one.makespan for one in solved]
                rows.append({
                    "family": family, "scale": list(scale), "method": name, "gap": float(np.mean(gaps)),
                    "worst": float(np.max(gaps)), "cpu_ms": 1e3 * float(np.mean(spent)), "limit": limits[family],
                    "solver_gap": float(np.mean([one.gap for one in solved])),
                })  # fmt: skip
    return rows


def large(count: int, seed: int) -> list[dict[str, Any]]:
    """The makespan at (2000, 1000, 15000), s, that of `longest_first`, two bounds of any, and CPU ms."""
    rows = []
    for family in SCALES:
        for one in families.instances(family, LARGE, count, seed):
            search.solve(one)
            begun = time.process_time()
            value = makespan(one, search.solve(one))
            spent = 1e3 * (time.process_time() - begun)
            greedy = makespan(one, longest_first(one))
            rows.append({
                "family": family, "makespan": value, "longest first": greedy, "alone": alone(one), "floor": one.floor,
                "cpu_ms": spent,
            })  # fmt: skip
    return rows


ORDER = (("gosh",), ("gobi",), ("a3c", "dqn"), ("ga", "pso"))  # of the papers, best first
MOST = 50.0  # ms per decision at 50 hosts


def compare(
    folder: Path, seeds: int, workers: int, first: int = 0, worlds: Sequence[str] = (), only: Sequence[str] = ()
) -> tuple[dict[str, Any], list[Table]]:  # fmt: skip
    """The whole comparison, and what is asked of it; under seeds from `first` on instead of those of the suite."""
    used = tuple(range(first, first + seeds)) if first else suite.SEEDS[:seeds]
    model = scenarios.model(worlds[0]) if worlds else "interval"
    entries = [comparison.entry(name, model=model) for name in only or comparison.entries_of(model)]
    worlds = worlds or suite.names()
    rows = comparison.fill(folder, entries, worlds, used, workers=workers)
    found = comparison.compared(rows, entries)
    by = {(row.entry, row.world, row.seed): row for row in rows}
    order = []
    for better, worse in pairwise(ORDER) if model == "interval" and not only else ():
        for a in better:
            for b in worse:
                for figure in ("energy", "response"):
                    ratios = [[by[a, w, s].figures[figure] / by[b, w, s].figures[figure] for w in worlds] for s in used]
                    value, half = student.interval([float(np.mean(np.log(row))) for row in ratios])
                    order.append({
                        "of": a, "to": b, "figure": figure, "ratio": float(np.exp(value)),
                        "low": float(np.exp(value - half)), "high": float(np.exp(value + half)),
                        "clear": bool(abs(value) > half),
                    })  # fmt: skip
    ours = {world: found["worlds"][world]["search"] for world in worlds}
    best = sum(cell["with_best"] for cell in ours.values())
    slowest = max(cell["cpu"] for cell in ours.values())
    board = Table(
        "score: sqrt(energy x response) against least-loaded", ["entry", "score", "95 %", "with best", "CPU ms"]
    )
    for line in found["board"]:
        band = f"{line['low']:.3f}-{line['high']:.3f}"
        board.add(
            [line["entry"], f"{line['score']:.3f}", band, f"{line['with_best']}/{len(worlds)}", f"{line['cpu']:.2f}"]
        )
    asked = Table("asked", ["what", "found"])
    asked.add(["search with the best, worlds", f"{best}{verdict(best, len(worlds), at_least=True)}"])
    asked.add(["search, CPU ms per decision, slowest world", f"{slowest:.1f}{verdict(slowest, MOST)}"])
    papers = Table("order of the papers", ["", "figure", "ratio", "95 %", ""])
    for line in order:
        said = ("holds" if line["ratio"] <= 1.0 else "does not hold") if line["clear"] else "not distinguishable"
        pair = f"{line['of']} / {line['to']}"
        papers.add([pair, line["figure"], f"{line['ratio']:.3f}", f"{line['low']:.3f}-{line['high']:.3f}", said])
    return {"table": found, "order": order, "search_with_best": best, "search_cpu_ms": slowest}, [board, asked, papers]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--job", choices=["corais", "edges", "mail", "metanet", "network", "table", "tuned"], default="corais"
    )
    arguments.add_argument(
        "--out",
        type=Path,
        default=Path("bench/schedulers"),
        help="folder of results of table, metanet and tuned: what is there is not run again",
    )
    arguments.add_argument("--seeds", type=int, default=5, help="of all jobs but corais")
    arguments.add_argument("--workers", type=int, default=1, help="processes")
    arguments.add_argument("--instances", type=int, default=30, help="per family and scale")
    arguments.add_argument(
        "--limit", type=float, default=10.0, help="s of HiGHS per instance; 6 times that of corais-tight"
    )
    arguments.add_argument("--worlds", nargs="+", default=(), help="of table: scenarios, as `cosim bench` names them")
    arguments.add_argument("--only", nargs="+", default=(), help="of table: entries")
    arguments.add_argument("--large", type=int, default=3, help="large instances per family")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--length", type=float, default=1200.0, help="s of a day, of mail")
    arguments.add_argument("--days", type=int, default=6, help="of mail")
    arguments.add_argument("--intervals", type=int, help="of metanet (1000) and tuned (40)")
    arguments.add_argument("--policies", nargs="+", help="of metanet (those beside it) and tuned; default: all")
    arguments.add_argument("--tuners", nargs="+", help="of tuned, beside values set by hand; default: all")
    arguments.add_argument("--hosts", type=int, nargs="+", default=(), help="of tuned: sizes of fleets, by 6")
    arguments.add_argument(
        "--weights", type=Path, help="of corais and network: folder with the network's and ablations'"
    )
    arguments.add_argument("--family", choices=sorted(families.FAMILIES), default="corais", help="of network")
    arguments.add_argument("--scale", type=int, nargs=3, default=(10, 5, 50), help="edges, of the region, requests")
    arguments.add_argument("--descend", type=int, default=0, help="of network: steps on each instance, beside it")
    arguments.add_argument("--nodes", choices=["process", "containers"], default="process", help="of edges")
    arguments.add_argument("--rounds", type=int, default=1, help="of edges")
    arguments.add_argument("--first-round", type=int, default=0, help="of edges")
    arguments.add_argument(
        "--links", action="store_true", help="emulated ones between edges, in namespaces or containers"
    )
    arguments.add_argument("--requests", type=int, nargs="+", default=[50, 100, 200, 500, 1000], help="of edges")
    options = arguments.parse_args()
    if options.job == "table":
        data, tables = compare(options.out, options.seeds, options.workers, options.seed, options.worlds, options.only)
        print_result("schedulers", {"job": "table", **data}, tables, as_json=options.json)
        return
    if options.job == "edges":
        from benchmarks import five_edges

        data, tables = five_edges.compare(
            options.nodes, options.rounds, tuple(options.requests), links=options.links, first=options.first_round
        )
        print_result("schedulers", {"job": "edges", **data}, tables, as_json=options.json)
        return
    if options.job == "metanet":
        from benchmarks import metanet  # needs torch

        data, tables = metanet.compare(
            options.seeds, options.intervals or 1000, options.workers, options.out / "metanet.jsonl", options.policies
        )
        print_result("schedulers", {"job": "metanet", **data}, tables, as_json=options.json)
        return
    if options.job == "tuned":
        from benchmarks import tuned  # needs torch

        data, tables = tuned.compare(
            options.seeds, options.intervals or 40, options.workers, options.out / "tuned.jsonl", hosts=options.hosts,
            schedulers=options.policies, tuners=options.tuners,
        )  # fmt: skip
        print_result("schedulers", {"job": "tuned", **data}, tables, as_json=options.json)
        return
    if options.job == "mail":
        from benchmarks import mail  # needs torch

        data, tables = mail.compare(options.seeds, options.length, options.days, options.workers)
        print_result("schedulers", {"job": "mail", **data}, tables, as_json=options.json)
        return
    if options.job == "network":
        from benchmarks import corais_network

        data, tables = corais_network.compare(
            options.family,
            tuple(options.scale),
            options.instances,
            options.seed,
            options.weights or network.SHIPPED,
            options.workers,
            options.descend,
        )
        print_result("schedulers", {"job": "network", **data}, tables, as_json=options.json)
        return
    limits = {"corais": options.limit, "corais-tight": 6.0 * options.limit}
    rows = small(options.instances, limits, options.seed, options.workers, options.weights)
    big = large(options.large, options.seed)
    table = Table("makespan over HiGHS", ["family", "scale", "method", "mean", "worst", "CPU ms", "HiGHS' own gap"])
    for row in rows:
        scale = "x".join(map(str, row["scale"]))
        method, gap, most = TARGETS[row["family"]]
        asked = (gap, most) if row["method"] == method else (None, None)
        figures = f"{row['gap']:.4f}{verdict(row['gap'], asked[0])}", f"{row['worst']:.3f}"
        spent = f"{row['cpu_ms']:.2f}{verdict(row['cpu_ms'], asked[1])}"
        table.add([row["family"], scale, row["method"], *figures, spent, f"{row['solver_gap']:.2%}"])
    other = Table(
        "large instances", ["family", "makespan s", "floor s", "alone s", "longest first s", "ratio", "CPU ms"]
    )
    for row in big:
        of, most, ms = LARGE_TARGETS[row["family"]]
        ratio = row["makespan"] / row[of]
        figures = [f"{row[name]:.4f}" for name in ("makespan", "floor", "alone", "longest first")]
        verdicts = f"{ratio:.4f} of {of}{verdict(ratio, most)}", f"{row['cpu_ms']:.1f}{verdict(row['cpu_ms'], ms)}"
        other.add([row["family"], *figures, *verdicts])
    print_result("schedulers", {"job": options.job, "small": rows, "large": big, "targets": TARGETS}, [table, other],
                 as_json=options.json)  # fmt: skip


if __name__ == "__main__":
    main()
