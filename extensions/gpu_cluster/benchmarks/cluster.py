"""What a GPU cluster behind optical circuit switches must show, measured.

Call it as `python -m benchmarks.cluster [--philly FILE] [--quick] [--json]`.

FILE is a table of Philly jobs (timestamp, duration, num_gpus; .gz too); without it the rows about Philly
are left out. --quick takes fewer seeds and the speed of a tenth. CPU seconds are of this process, after
compiling. Exit code 1 when a target is missed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.extensions.gpu_cluster.cluster import order, timeline, topology
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, plain
from cosim.extensions.gpu_cluster.cluster.fitted import philly_like
from cosim.extensions.gpu_cluster.cluster.generate import Phase, phases, uniform
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.order import all_orders, better
from cosim.extensions.gpu_cluster.cluster.rank import Ranker, shipped
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation, Fault, simulate

MONTH = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A target and what was measured."""

    name: str
    value: float
    target: str
    met: bool
    note: str = ""


def interval(values: Any) -> tuple[float, float]:
    """Mean and half width of the 95 % interval (Student)."""
    from scipy.stats import t

    found = np.asarray(values, float)
    if len(found) < 2:
        return float(found.mean()), float("nan")
    return float(found.mean()), float(t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))


def shortest(jobs: Sequence[int], simulation: ClusterSimulation) -> Sequence[int]:
    """The shortest first."""
    return sorted(jobs, key=lambda job: (float(simulation.jobs.duration[job]), job))


def largest(jobs: Sequence[int], simulation: ClusterSimulation) -> Sequence[int]:
    """That of the most GPUs first."""
    return sorted(jobs, key=lambda job: (-int(simulation.jobs.gpus[job]), job))


def random(seed: int) -> order.Order:
    """By chance."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 7])))

    def order(jobs: Sequence[int], _: ClusterSimulation) -> Sequence[int]:
        return [int(job) for job in rng.permutation(sorted(jobs))]

    return order


def with_queries(
    simulation: ClusterSimulation,
    chosen: order.Order,
    size: int = order.WINDOW,
    *,
    anew: bool = False,
) -> None:
    """Run on, asking before each start which job in line is next; a plan is kept until its jobs have started.

    `anew`: no plan is kept, `chosen` is asked about the rest of the window each time.
    """
    simulation.asking()
    plan: list[int] = []
    while not simulation.advance():
        if not plan:
            plan = list(chosen(simulation.line(size), simulation))
        elif anew and len(plan) > 1:
            plan = list(chosen(sorted(plan), simulation))
        simulation.decide(plan.pop(0))


def courses(simulation: ClusterSimulation) -> dict[str, Any]:
    """Columns over the event times that were logged: `time` (s), and values that hold from then on."""
    rows, fabric = simulation.rows(), simulation.fabric
    busy = rows["busy"] / float(l.WHOLE)
    return {
        "time": rows["time"].copy(), "utilisation": busy / fabric.gpus, "busy": busy,
        **{name: rows[name].astype(np.float64) for name in ("down", "waiting", "running", "circuits")},
        "power": fabric.watts(busy, rows["active"]),
    }  # fmt: skip


def exhaustive(clusters: int) -> list[Figure]:
    """Small clusters against the oracle in plain Python: what fits, and the best makespan of all orders."""
    try:
        from cosim.extensions.gpu_cluster.tests.cluster import reference
        from cosim.extensions.gpu_cluster.tests.cluster.test_kernel import of, small
    except ImportError:
        return []
    same, best = 0, 0
    for seed in range(1000, 1000 + clusters):
        fabric, jobs, settings, theirs = small(seed)
        listed = of(jobs)
        reference.run(theirs, listed)
        ours = simulate(fabric, jobs, settings)
        same += bool(np.allclose(ours.state.job["start"], [job.start for job in listed], rtol=0, atol=1e-9))
        few = jobs.take(slice(0, 4))
        makespans = []
        for one in all_orders(len(few)):
            simulation = ClusterSimulation(fabric, few, settings)
            simulation.state.job["key"][one] = np.arange(len(few))
            simulation.advance()
            cluster = reference.Cluster(theirs.room, theirs.leaves, theirs.uplinks, theirs.switches, 0.125)
            makespans.append((simulation.outcome().makespan, reference.run(cluster, of(few, one))))
        ours_best, theirs_best = np.min(makespans, axis=0)
        best += bool(abs(ours_best - theirs_best) < 1e-9)
    return [
        Figure("small clusters with the oracle's starts", same, f"= {clusters}", same == clusters),
        Figure("small clusters with the oracle's best makespan", best, f"= {clusters}", best == clusters, "all orders"),
    ]


def events(count: int) -> list[Figure]:
    """Random events: arrivals, ends, faults and repairs, with ports checked after every one."""
    seen, wrong, opened = 0, 0, 0
    for seed in itertools.count(1):
        rng = np.random.default_rng(seed)
        fabric = plain(8, 2, 8, 4)
        jobs = uniform(
            seed, 4000, {"llm": 1, "dlrm": 1, "tree": 1, "pipeline": 1, "experts": 1}, (1, 60), (5.0, 200.0), 12.0
        )
        ports = len(fabric.port_leaf)
        faults = tuple(
            Fault(float(at), kind, int(rng.integers(size)), 60.0)
            for kind, size in (("gpu", fabric.gpus), ("leaf", 8), ("port", ports))
            for at in rng.uniform(0, 48_000, 200)
        )
        s = ClusterSimulation(fabric, jobs, ClusterSettings("circuits", "uplinks", faults=faults, backfill=4))
        while not s.over and seen < count:
            due = [float(s.state.due.min())] if s["running"] else []
            if s["arrived"] < len(jobs):
                due.append(float(jobs.arrival[s["arrived"]]))
            if s["faults"] < len(s.state.fault):
                due.append(float(s.state.fault["at"][s["faults"]]))
            before = s["arrived"] + s["done"] + s["faults"]
            s.advance(min(due), log=False)
            seen += s["arrived"] + s["done"] + s["faults"] - before
            wrong += _violated(s)
        opened += len(s.ledger().faults())
        if seen >= count:
            break
    return [
        Figure("random events", seen, f">= {count}", seen >= count),
        Figure("events after which a port was in two circuits or over its uplinks", wrong, "= 0", wrong == 0),
        Figure("ledgers of GPU seconds that do not close", opened, "= 0", opened == 0),
    ]


def _violated(s: ClusterSimulation) -> bool:
    port = s.state.port
    mate, holder = port["mate"], port["holder"]
    joined = np.flatnonzero(mate >= 0)
    held = np.flatnonzero(holder >= 0)
    return bool(
        (mate[mate[joined]] != joined).any()
        or (port["ocs"][joined] != port["ocs"][mate[joined]]).any()
        or (mate[held] < 0).any()
        or (holder[mate[held]] != holder[held]).any()
        or (s.state.leaf["up"] < 0).any()
        or s["free"] < 0
    )


def integral() -> list[Figure]:
    """The interpolated timeline against the events."""
    s = simulate(plain(32), uniform(5, 200), ClusterSettings("circuits", "exhaustive"))
    rows = courses(s)
    end = float(np.ceil(s.now / 60.0)) * 60.0
    exact = float(rows["utilisation"] @ np.diff(np.append(rows["time"], end)))
    found = timeline.interpolated(rows, 60.0, 15.0, end)
    error = abs(float(found["utilisation"].sum() * 60.0) / exact - 1.0)
    return [Figure("integral of the interpolated utilisation, relative error", error, "<= 1e-9", error <= 1e-9)]


def utilisation(seeds: int) -> list[Figure]:
    """Optical circuits against a spine that never binds, on the generator's defaults, in pairs by seed."""
    jobs = [uniform(k, 200) for k in range(seeds)]
    spine = np.array(
        [simulate(plain(32, ocs=0), j, ClusterSettings("packet", "best-fit")).outcome().utilisation for j in jobs]
    )
    found, means = [], []
    for up in (16, 24, 32, 40, 48):
        used = [simulate(plain(32, up=up), j, ClusterSettings("circuits", "exhaustive")).outcome() for j in jobs]
        values = np.array([one.utilisation for one in used])
        means.append(values.mean())
        gap, half = interval(100.0 * (spine - values))
        blocked = np.mean([one.blocked for one in used])
        refused = sum(one.refused for one in used)
        note = f"+- {half:.2f}; utilisation {values.mean():.4f}, fat tree {spine.mean():.4f}; "
        note += f"{blocked:.1f} refused starts, {refused} refused jobs"
        target, met = ("<= 1", gap <= 1.0) if up == 32 else ("(shown)", True)
        found.append(Figure(f"points of utilisation lost to the fat tree, {up} uplinks", gap, target, met, note))
    rising = all(b >= a - 1e-4 for a, b in itertools.pairwise(means))
    found.append(
        Figure("utilisation is monotone in uplinks", float(rising), "= 1", rising, " ".join(f"{m:.4f}" for m in means))
    )
    return found


def switching(seeds: int) -> list[Figure]:
    """A topology for the present mix against each fixed one, useful utilisation in pairs by seed."""
    names = ("dragonfly", "rings")
    fabric = plain(16, 4, 16, 8)
    rows: dict[str, list[float]] = {name: [] for name in (*names, "switched")}
    for seed in range(seeds):
        parts = [Phase(30, {"llm": 1.0}), Phase(30, {"dlrm": 1.0}), Phase(30, {"llm": 1.0}), Phase(30, {"dlrm": 1.0})]
        jobs = phases(seed, parts)
        for name in names:
            run = simulate(fabric, jobs, ClusterSettings("routed", "pack", strict=False, topologies=(name,)))
            rows[name].append(run.outcome().utilisation)
        both = ClusterSimulation(fabric, jobs, ClusterSettings("routed", "pack", strict=False, topologies=names))
        while not both.over:
            both.advance(both.now + 1800.0)
            topology.choose(both)
        rows["switched"].append(both.outcome().utilisation)
    found = []
    for name in names:
        gain, half = interval(100.0 * (np.array(rows["switched"]) - np.array(rows[name])))
        note = (
            f"+- {half:.2f}; switched {np.mean(rows['switched']):.4f}, {name} {np.mean(rows[name]):.4f}, {seeds} seeds"
        )
        found.append(Figure(f"points that switching per mix gains over {name}", gain, ">= 0", gain >= 0.0, note))
    return found


def _quality(
    ranker: Ranker, fabric: Fabric, jobs: Jobs, settings: ClusterSettings, most: int
) -> list[tuple[float, ...]]:
    """Per window s from now: makespan by arrival, by the ranker, by its score alone, the best of all; CPU s."""
    s = ClusterSimulation(fabric, jobs, settings)
    s.asking()
    found: list[tuple[float, ...]] = []
    while len(found) < most and not s.advance(log=False):
        line = s.line(order.WINDOW)
        if len(line) < order.WINDOW:
            if s["arrived"] == len(jobs):
                break
            for job in reversed(line):
                s.decide(job)
            continue
        began = time.process_time()
        chosen = ranker.order(line, s)
        spent = time.process_time() - began
        orders = np.asarray(line)[all_orders(len(line))]
        figures = s.try_orders(orders)
        mine, alone = (
            figures[int(np.flatnonzero((orders == one).all(1))[0]), 0] for one in (chosen, ranker.order(line, s, 0))
        )
        found.append((figures[0, 0] - s.now, mine - s.now, alone - s.now, figures[:, 0].min() - s.now, spent))
        for job in reversed(orders[better(figures)[0]]):
            s.decide(int(job))
    return found


def _gains(rows: list[tuple[float, ...]]) -> tuple[float, float, int]:
    """Part of the possible gain over arrival that the ranker and its score alone make; windows where any is possible.

    nan where no window has any.
    """
    table = np.array(rows)
    possible = table[:, 0] - table[:, 3]
    some = possible > 0.0
    if not some.any():
        return float("nan"), float("nan"), 0
    whole = possible[some].sum()
    ranked, alone = ((table[some, 0] - table[some, k]).sum() / whole for k in (1, 2))
    return float(ranked), float(alone), int(some.sum())


def ranking(seeds: int, philly: Path | None) -> list[Figure]:
    """The shipped ranker on windows that it was not trained on."""
    ranker = shipped()
    settings = ClusterSettings("circuits", "exhaustive")
    rows = []
    for seed in range(7000, 7000 + seeds):
        rows += _quality(ranker, plain(32), uniform(seed, 100), settings, 8)
    table = np.array(rows)
    gain, alone, some = _gains(rows)
    ratio, raw = ((table[:, k] / table[:, 3]).mean() for k in (1, 2))
    spent, slow = np.median(table[:, 4]), np.quantile(table[:, 4], 0.95)
    note = f"{len(rows)} windows; by the score alone {raw:.4f}"
    found = [
        Figure("ranker: makespan by that of the best of 120", ratio, "<= 1.01", ratio <= 1.01, note),
        Figure(
            "ranker: part of the gain over arrival order", gain, ">= 0.6", gain >= 0.6,
            f"{some} windows where a gain is possible, {len(rows) - some} left out; by the score alone {alone:.3f}",
        ),
        Figure(
            "ranker: CPU ms per window, median", 1e3 * spent, "<= 1", spent <= 1e-3, f"95 % within {1e3 * slow:.2f}"
        ),
    ]  # fmt: skip
    if philly is not None:
        found += _on_philly(ranker, philly, seeds)
    return found


def _on_philly(ranker: Ranker, philly: Path, samples: int) -> list[Figure]:
    """The same on Philly's jobs week by week, those of several GPUs on a few small clusters."""
    from cosim.extensions.gpu_cluster import traces as gpu

    trace = gpu.read("philly", philly)
    gpus, week = trace.extra["gpus"].astype(np.int64), (trace.arrival // 604_800.0).astype(np.int64)
    clusters = {
        "16 GPUs": (plain(2, 1, 4, 4), "circuits"), "32 GPUs": (plain(4, 1, 4, 4), "circuits"),
        "64 GPUs": (plain(4, 2, 16, 8), "circuits"), "32 GPUs, a spine": (plain(4, 1, 4, 0), "packet"),
    }  # fmt: skip
    pooled: list[tuple[float, ...]] = []
    least, where, none = np.inf, "", 0
    for one in range(int(0.5 * week[-1]) + 1, int(week[-1]) + 1):
        for name, (fabric, network) in clusters.items():
            rows = []
            for sample in range(max(2, samples // 3)):
                rng = np.random.default_rng([one, sample, fabric.gpus])
                fit = np.flatnonzero((week == one) & (gpus >= 2) & (gpus <= fabric.gpus))
                chosen = np.sort(rng.choice(fit, min(60, len(fit)), replace=False))
                pattern = np.where(rng.random(len(chosen)) < 0.5, l.RING, l.ALL_TO_ALL)
                jobs = Jobs(np.zeros(len(chosen)), gpus[chosen], trace.duration[chosen], pattern)
                rows += _quality(ranker, fabric, jobs, ClusterSettings(network, "exhaustive"), 8)
            gain, alone, some = _gains(rows)
            none += len(rows) - some
            pooled += rows
            if some and gain < least:
                least, where = gain, f"week {one}, {name}: {some} windows, by the score alone {alone:.3f}"
    gain, alone, some = _gains(pooled)
    note = f"{some} windows where a gain is possible, {none} left out; by the score alone {alone:.3f}"
    return [
        Figure("ranker: part of the gain on Philly's later weeks", gain, ">= 0.4", gain >= 0.4, note),
        Figure("ranker: the same in the worst week and cluster", least, ">= 0.4", least >= 0.4, where),
    ]


def same_outcome(seeds: int) -> list[Figure]:
    """An order per window, and a query before each start, which keeps its plan or is asked about the rest anew."""
    fabric, kept, makespans = plain(32), 0, []
    for seed in range(31, 31 + seeds):
        runs = [
            ClusterSimulation(fabric, uniform(seed, 60), ClusterSettings("circuits", "exhaustive")) for _ in range(3)
        ]
        order.in_windows(runs[0], order.best)
        with_queries(runs[1], order.best)
        with_queries(runs[2], order.best, anew=True)
        kept += bool((runs[0].state.job["start"] == runs[1].state.job["start"]).all())
        makespans.append(runs[2].outcome().makespan / runs[0].outcome().makespan)
    return [
        Figure("windows and queries give the same starts", kept, f"= {seeds}", kept == seeds, "best of 120"),
        Figure(
            "makespan of queries without a plan by that of windows", float(np.mean(makespans)), "<= 1.001",
            float(np.mean(makespans)) <= 1.001, f"{min(makespans):.4f} to {max(makespans):.4f}: choices among equals",
        ),
    ]  # fmt: skip


def goals(seeds: int) -> list[Figure]:
    """What each placement is for, beside the others, on jobs of 1 to 32 GPUs that come one by one."""
    names = ("best-fit", "first-fit", "balanced", "pcie", "power", "exhaustive")
    figures: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for seed in range(seeds):
        jobs = uniform(seed, 400, sizes=(1, 32), gap=1200.0)
        for name in names:
            s = simulate(plain(8, 4, 32, 8), jobs, ClusterSettings("circuits", name))
            job, few = s.state.job, (jobs.gpus > 1) & (jobs.gpus <= 4)
            one = figures[name]
            one.setdefault("pcie", []).append(float((job["domains"][few] == 1).mean()))
            one.setdefault("power", []).append(s["server_time"] / 3600.0)
            one.setdefault("exhaustive", []).append(s["port_time"] / 2.0 / s.now)
    found = []
    for name, what, most in (
        ("pcie", "jobs of 2 to 4 GPUs within one PCIe domain", True),
        ("power", "hours of servers with work", False),
        ("exhaustive", "circuits held, mean", False),
    ):
        means = {other: float(np.mean(figures[other][name])) for other in names}
        mine = means.pop(name)
        met = mine >= max(means.values()) if most else mine <= min(means.values())
        note = ", ".join(f"{other} {value:.4g}" for other, value in means.items())
        found.append(Figure(f"placement {name}: {what}", mine, "best of all", met, note))
    return found


def topologies(seeds: int) -> list[Figure]:
    """Mean utilisation by topology on one mix: what Figure 10 of the source is about; ours."""
    found = []
    jobs = [uniform(seed, 120, {"llm": 1.0, "dlrm": 1.0}) for seed in range(seeds)]
    for name in ("fat-tree", "dragonfly", "rail", "torus", "rings"):
        runs = [
            simulate(
                plain(16, 4, 32, 8, spines=16), one, ClusterSettings("routed", "pack", strict=False, topologies=(name,))
            )
            for one in jobs
        ]
        mean, half = interval([run.outcome().utilisation for run in runs])
        found.append(Figure(f"utilisation, {name} on 512 GPUs", mean, "(shown)", True, f"+- {half:.4f}, {seeds} seeds"))
    runs = [simulate(plain(16), one, ClusterSettings("circuits", "exhaustive")) for one in jobs]
    mean, half = interval([run.outcome().utilisation for run in runs])
    note = f"+- {half:.4f}, {seeds} seeds"
    return [*found, Figure("utilisation, circuits for each job on 512 GPUs", mean, "(shown)", True, note)]


def baselines(seeds: int) -> list[Figure]:
    """Mean makespan by how windows are ordered, relative to arrival."""
    policies: dict[str, Callable[[], order.Order]] = {
        "shortest": lambda: shortest, "largest": lambda: largest, "random": lambda: random(1),
        "beam": lambda: order.beam(8), "ranked": lambda: shipped().order, "best of 120": lambda: order.best,
    }  # fmt: skip
    found = []
    for name, policy in policies.items():
        ratio = []
        for seed in range(7500, 7500 + seeds):
            spans = []
            for chosen in (order.arrival, policy()):
                s = ClusterSimulation(plain(32), uniform(seed, 60), ClusterSettings("circuits", "exhaustive"))
                order.in_windows(s, chosen)
                spans.append(s.outcome().makespan)
            ratio.append(spans[1] / spans[0])
        mean, half = interval(ratio)
        found.append(
            Figure(f"makespan by that of arrival order: {name}", mean, "(shown)", True, f"+- {half:.4f}, {seeds} seeds")
        )
    return found


def speed(part: int) -> list[Figure]:
    """1,000 runs of 200 jobs, and 100,000 GPUs over a month."""
    fabric = plain(32)
    found = []
    for network, placement, ocs in (
        ("circuits", "exhaustive", 8),
        ("circuits", "uplinks", 8),
        ("packet", "best-fit", 0),
    ):
        runs, target = 1000 // part, 3.0
        fabric = plain(32, ocs=ocs)
        began = time.process_time()
        for seed in range(runs):
            simulate(fabric, uniform(seed, 200), ClusterSettings(network, placement)).outcome()
        spent = (time.process_time() - began) * 1000 / runs
        found.append(Figure(f"CPU s of 1,000 runs of 200 jobs, {network}, {placement}", spent, "<= 3", spent <= target))
    count = 1_800_000 // part
    jobs = philly_like(1, count, MONTH / part)
    began = time.process_time()
    s = ClusterSimulation(plain(3125, ocs=0), jobs, ClusterSettings("packet", "best-fit", rows=1000))
    s.advance(log=False)
    outcome = s.outcome()
    spent = (time.process_time() - began) * part
    note = (
        f"{count:,} jobs in a {part}th of a month"
        if part > 1
        else f"{count:,} jobs; mean use {outcome.ledger.useful / (100_000 * MONTH):.3f}"
    )
    found.append(
        Figure("CPU s of 100,000 GPUs and a month of Philly-like arrivals", spent, "<= 10", spent <= 10.0, note)
    )
    return found


def power() -> list[Figure]:
    """What the network draws with a spine and with optical switches (inputs, not facts)."""
    spine, optical = plain(32, ocs=0), plain(32)
    saved = spine.spine_power - float(optical.ocs_power.sum())
    whole = float(spine.watts(np.array(0.9 * spine.gpus), np.array(128.0)))
    note = f"{100.0 * saved / whole:.1f} % of {whole / 1e3:.0f} kW at 90 % use; "
    note += f"{saved * 8.766 * 0.1:,.0f} a year at 0.10 /kWh"
    return [Figure("W saved by 8 optical switches in place of 32 spines", saved, "(shown)", True, note)]


def main() -> None:
    """Measure and print, with a word for each target."""
    arguments = parser(__doc__)
    arguments.add_argument("--philly", type=Path, help="table of Philly jobs")
    arguments.add_argument("--quick", action="store_true", help="fewer seeds, a tenth of the long runs")
    given = arguments.parse_args()
    few = given.quick
    warm = ClusterSimulation(plain(4, 1, 8, 2), uniform(1, 8, sizes=(2, 16)), ClusterSettings("circuits", "exhaustive"))
    order.in_windows(warm, shipped().order)
    figures = [
        *exhaustive(20 if few else 200), *events(10_000 if few else 100_000), *integral(),
        *same_outcome(2 if few else 10),
        *utilisation(4 if few else 20), *switching(3 if few else 10), *ranking(3 if few else 12, given.philly),
        *baselines(2 if few else 5), *goals(2 if few else 5), *topologies(2 if few else 10),
        *speed(10 if few else 1), *power(),
    ]  # fmt: skip
    table = Table("GPU cluster", ["figure", "measured", "target", "met", "note"])
    for one in figures:
        table.add([one.name, f"{one.value:.6g}", one.target, "yes" if one.met else "NO", one.note])
    rows = [
        {"name": one.name, "value": float(one.value), "target": one.target, "met": bool(one.met), "note": one.note}
        for one in figures
    ]
    print_result("cluster", {"figures": rows}, [table], as_json=given.json)


if __name__ == "__main__":
    main()
