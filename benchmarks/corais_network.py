"""CoRaiS' network against its ablations and plain rules; part of `benchmarks.schedulers`, `--job network`.

Fresh instances of one family and scale. Every method's makespan is divided by that of `search`, and the network's by
that of each other method with the same number of draws on the same instance: geometric means with 95 % intervals. The
network is ahead where the upper limit is below 1.
"""

from __future__ import annotations

from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, mapped
from cosim.results import student
from cosim.schedulers.corais import baselines, families, network, search
from cosim.schedulers.corais.families import Scale
from cosim.schedulers.corais.problem import Instance, makespan

DRAWS = {"greedy": 0, "100": 100, "1k": 1000, "4k": 4000}
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
        from cosim.schedulers.corais import train

        held = network.stored(weights, MINE)
        own = train.descend(found, [network.chances(one, held) for one in found], descend, seed)
    rows = mapped(values, found, range(count), repeat(seed), repeat(weights), own, workers=workers)
    logs = {name: np.log([row[name] for row in rows]) for name in rows[0]}
    where = f"{family}, {'x'.join(map(str, scale))}, {count} instances"
    over, ahead = Table(f"makespan over search: {where}", ["method", "ratio", "95 %"]), _pairs(logs)
    ratios = {name: _ratio(one - logs["search"]) for name, one in logs.items()}
    for name, line in ratios.items():
        over.add([name, f"{line['ratio']:.4f}", f"{line['low']:.4f}-{line['high']:.4f}"])
    paired = Table(f"the network over others, by instance: {where}", ["draws", "over", "ratio", "95 %", "ahead"])
    for line in ahead:
        band = f"{line['low']:.4f}-{line['high']:.4f}"
        said = "yes" if line["high"] < 1.0 else "no" if line["low"] > 1.0 else "not shown"
        paired.add([line["draws"], line["over"], f"{line['ratio']:.4f}", band, said])
    data = {"family": family, "scale": list(scale), "instances": count, "over_search": ratios, "network_over": ahead}
    return data, [over, paired]


def values(instance: Instance, number: int, seed: int, weights: Path, own: Any) -> dict[str, float]:
    """The makespan of each method, s; `own` are chances of this instance's own, or None."""
    rng = np.random.default_rng([seed, number])
    decisions = {
        "search": search.solve(instance),
        "local": baselines.local(instance),
        "predicted": baselines.predicted(instance),
        **{f"random, {name}": baselines.random(instance, n, rng) for name, n in DRAWS.items() if n},
    }
    for variant in network.VARIANTS:
        if not (weights / f"{variant}.npz").is_file():
            continue
        held = network.stored(weights, variant)
        for name, n in DRAWS.items():
            decisions[f"{variant}, {name}"] = network.solve(instance, held, count=n, seed=number)
    if own is not None:
        decisions |= {f"on its own, {name}": network.drawn(instance, own, n, number) for name, n in DRAWS.items()}
    return {name: makespan(instance, decision) for name, decision in decisions.items()}


def _pairs(logs: dict[str, Any]) -> list[dict[str, Any]]:
    """The network over all others that have as many draws, or none to draw."""
    found = []
    for draws in DRAWS:
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
