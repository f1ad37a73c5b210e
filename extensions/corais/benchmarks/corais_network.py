"""CoRaiS' network against its ablations and plain rules; part of `benchmarks.schedulers`, `--job network`.

Fresh instances of one family and scale. Every method's makespan is divided by that of `search`, and the network's by
that of each other method with the same number of draws on the same instance: geometric means with 95 % intervals. The
network is ahead where the upper limit is below 1. `moved` are decisions that the moves and swaps of `search` have
improved until none helps. CPU times are those of this thread, means over instances but the first, which may compile.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np

from benchmarks.measure import Table, mapped
from cosim.compiled.compiling import entry
from cosim.extensions.corais import baselines, families, network, search
from cosim.extensions.corais.families import Scale
from cosim.extensions.corais.problem import Decision, Instance, makespan
from cosim.results import student

DRAWS = {"greedy": 0, "100": 100, "1k": 1000, "4k": 4000}
MOVED = ", moved"
SEARCHED = (2000, 15_000)  # budgets of `search` beside its own
MINE = network.VARIANTS[0]


def compare(
    family: str, scale: Scale, count: int, seed: int, weights: Path, workers: int, descend: int = 0
) -> tuple[Any, list[Table]]:
    """Every method over `search`, and the network over every other one, with the data of both tables.

    With `descend` the network's chances after so many steps on each instance itself stand beside it; needs torch.
    """
    found = list(families.instances(family, scale, count, seed))
    own: list[Any] = [None] * count
    if descend:
        from cosim.extensions.corais import train

        held = network.stored(weights, MINE)
        own = train.descend(found, [network.chances(one, held) for one in found], descend, seed)
    both = mapped(values, found, range(count), repeat(seed), repeat(weights), own, workers=workers)
    rows = [row for row, _ in both]
    spent = {name: float(np.mean([ms[name] for _, ms in both[min(1, count - 1) :]])) for name in both[0][1]}
    logs = {name: np.log([row[name] for row in rows]) for name in rows[0]}
    where = f"{family}, {'x'.join(map(str, scale))}, {count} instances"
    over, ahead = Table(f"makespan over search: {where}", ["method", "ratio", "95 %", "CPU ms"]), _pairs(logs)
    ratios = {name: _ratio(one - logs["search"]) for name, one in logs.items()}
    for name, line in ratios.items():
        over.add([name, f"{line['ratio']:.4f}", f"{line['low']:.4f}-{line['high']:.4f}", f"{spent[name]:.3f}"])
    paired = Table(f"the network over others, by instance: {where}", ["draws", "over", "ratio", "95 %", "ahead"])
    for line in ahead:
        band = f"{line['low']:.4f}-{line['high']:.4f}"
        said = "yes" if line["high"] < 1.0 else "no" if line["low"] > 1.0 else "not shown"
        paired.add([line["draws"], line["over"], f"{line['ratio']:.4f}", band, said])
    data = {"family": family, "scale": list(scale), "instances": count, "over_search": ratios, "network_over": ahead,
            "cpu_ms": spent}  # fmt: skip
    return data, [over, paired]


def values(
    instance: Instance, number: int, seed: int, weights: Path, own: Any
) -> tuple[dict[str, float], dict[str, float]]:
    """The makespan of each method, s, and its CPU ms; `own` are chances of this instance's own, or None."""
    rng = np.random.default_rng([seed, number])
    found, spent = dict[str, float](), dict[str, float]()

    def decided(name: str, how: Callable[[], Decision]) -> Decision:
        begun = thread_time()
        decision = how()
        spent[name] = 1e3 * (thread_time() - begun)
        found[name] = makespan(instance, decision)
        return decision

    def drawn(name: str, how: Callable[[], Decision]) -> None:
        first = decided(name, how)
        decided(name + MOVED, lambda: moved(instance, first))
        spent[name + MOVED] += spent[name]

    decided("search", lambda: search.solve(instance))
    for budget in SEARCHED:
        decided(f"search of {budget}", lambda n=budget: search.solve(instance, budget=n))  # type: ignore[misc]
    decided("local", lambda: baselines.local(instance))
    decided("predicted", lambda: baselines.predicted(instance))
    for name, n in DRAWS.items():
        if n:
            drawn(f"random, {name}", lambda n=n: baselines.random(instance, n, rng))  # type: ignore[misc]
    for variant in network.VARIANTS:
        if not (weights / f"{variant}.npz").is_file():
            continue
        held = network.stored(weights, variant)
        for name, n in DRAWS.items():
            drawn(
                f"{variant}, {name}",
                lambda held=held, n=n: network.solve(instance, held, count=n, seed=number),  # type: ignore[misc]
            )
    if own is not None:
        for name, n in DRAWS.items():
            decided(f"on its own, {name}", lambda n=n: network.drawn(instance, own, n, number))  # type: ignore[misc]
    return found, spent


def moved(instance: Instance, decision: Decision) -> Decision:
    """`decision` after moves and swaps that lower the worst edge, until there is none."""
    found: Decision = _moved(decision.copy(), search.BUDGET, instance)
    return found


@entry()
def _moved(decision: Decision, budget: int, p: Instance) -> Decision:
    times, rows = search._times(p), np.empty((len(p.slope), 9))
    for q in range(len(p.slope)):
        search._sum(q, decision, times, rows)
    search._descend(decision, rows, times, budget)
    return decision


def _pairs(logs: dict[str, Any]) -> list[dict[str, Any]]:
    """The network over all others that have as many draws, or none to draw."""
    found = []
    for draws in [*DRAWS, *(name + MOVED for name in DRAWS)]:
        mine = logs[f"{MINE}, {draws}"]
        for other, theirs in logs.items():
            name, _, theirs_of = other.partition(", ")
            if name != MINE and theirs_of in ("", draws):
                found.append({"draws": draws, "over": name, **_ratio(mine - theirs)})
    return found


def _ratio(logs: Any) -> dict[str, float]:  # (instances,)
    """The geometric mean and its 95 % interval."""
    value, half = student.interval(logs.tolist())
    return {"ratio": float(np.exp(value)), "low": float(np.exp(value - half)), "high": float(np.exp(value + half))}
