"""What choosing the scheduler anew in each interval is worth; part of `benchmarks.schedulers`, `--job metanet`.

MetaNet's claim on its own fleet of 100 machines, intervals of 10 s: its cost is below those of each of the seven
policies, of a bandit and of a DQN that choose among them. Cost is the paper's: USD of busy hosts and of the functions
that decide, per task that ended. As in the paper, MetaNet and the DQN learn from 100 intervals of each policy on this
fleet, under another seed. Beside them stands what all of the catalogue minimise: the mean of energy and response time
against `least-loaded`, and the choosers shipped for it.

The regret is that of intervals: what MetaNet's decision costs over the least that any of the seven would cost in the
same state, all tried by `branch`. `rollout` takes that least in each interval.

Beside it stands the static choice: one policy of the pool for the whole run, which costs least under the other seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cosim.schedulers
from benchmarks.measure import Table, notify, verdict
from cosim.contract.errors import SetupError
from cosim.contract.records import Floats
from cosim.extensions.cosco import interval
from cosim.extensions.metanet import catalogue, claims
from cosim.extensions.metanet.bench import suite
from cosim.extensions.metanet.catalogue.pool import CALL, MILLISECONDS, POOL, TARIFF, Chooser
from cosim.extensions.metanet.rollout import Rollout, decisions
from cosim.extensions.reproduce.kept import resumed
from cosim.results import student
from cosim.schedulers import scheduler
from cosim.schedulers.objective import Scale, costs
from cosim.schedulers.state import State, decides

LEARNING = 100  # intervals of each policy to learn from: the paper's
SEED = claims.SEED  # of these
REGRET, SHARE, USED = 0.25, 0.05, 3  # asked
_SCHEDULERS = Path(cosim.schedulers.__file__).parent
CODE = (
    Path(__file__), Path(suite.__file__), Path(interval.__file__).parent, *_SCHEDULERS.glob("*.py"),
    Path(catalogue.__file__).parent, Path(claims.__file__),
)  # fmt: skip
PRICED = ("metanet", "ucb", "dqn-selector", "rollout")  # made for USD per task; with * for energy and response
ALWAYS = ("metanet", "least-loaded")
NAMES = (*ALWAYS, *POOL, "ucb", "dqn-selector", "rollout", *(f"{one}*" for one in PRICED))


@decides("interval")
class Regretted:
    """A policy, and what its decisions cost more than the best of the pool's in the same states."""

    def __init__(self, inner: Chooser, measure: str) -> None:
        self.inner, self.measure = inner, measure
        self._all, self._scale = Chooser(), Scale()
        self.paid = self.least = 0.0
        self.best = np.zeros(len(POOL), np.int64)  # intervals in which each policy's decision was the least

    def __call__(self, state: State) -> NDArray[np.int64]:
        self._scale.see(state)
        said = np.asarray(self.inner(state))
        if len(said):
            assert state.branch is not None
            value = self._cost(state, np.vstack([decisions(self._all, state), said]))
            self.paid += float(value[-1])
            self.least += float(value.min())
            self.best[int(value[:-1].argmin())] += 1
        return said

    def _cost(self, state: State, rows: NDArray[np.int64]) -> Floats:
        assert state.branch is not None
        figures = state.branch(rows)
        found: Floats = costs(figures, state, self._scale)
        if self.measure == "dollars":
            found = figures["cost"] / np.maximum(figures["completed"], 1.0)
        return found


def made(name: str, weights: Sequence[dict[str, Floats]]) -> Any:
    """A policy of the comparison; those with * are as shipped."""
    if name == "rollout":
        return Rollout(priced=True)
    return claims.made(name, list(weights)) if name in PRICED else scheduler(name.removesuffix("*")).policy("interval")


def ran(name: str, seed: int, intervals: int, weights: Sequence[dict[str, Floats]]) -> dict[str, Any]:
    """One run: USD per task that ended, energy (kWh), response (s), and how often each policy was chosen."""
    policy: Any = name if name == "least-loaded" else made(name, weights)
    watched = Regretted(policy, "dollars" if name == "metanet" else "objective") if "metanet" in name else None
    found = suite.run(claims.fleet(), watched or policy, seed, intervals)
    calls = np.asarray(getattr(policy, "counts", np.zeros(len(POOL))), float)
    if "rollout" in name:  # all decide in each interval
        function = calls.sum() * sum(TARIFF * MILLISECONDS[one] + CALL for one in POOL)
    else:
        function = claims.function_cost(policy, name, intervals + suite.ENDING)
    ended = found.tasks * (1.0 - found.unfinished)
    return {
        "policy": name, "seed": seed, "dollars": (found.cost + function) / ended, "function": function / ended,
        "energy": found.energy, "response": found.response, "late": found.late, "cpu_ms": found.cpu,
        "shares": (calls / max(calls.sum(), 1.0)).tolist(),
        "regret": watched.paid / watched.least - 1.0 if watched else None,
        "best": (watched.best / watched.best.sum()).tolist() if watched else None,
    }  # fmt: skip


def ahead(mine: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """The ratio of two costs, paired by seed, its upper one-sided 95 % limit, and whether that is at most 1."""
    logs = np.log(mine) - np.log(other)
    value, half = student.interval(logs.tolist(), 0.90)  # 5 % above
    return {"ratio": float(np.exp(value)), "upper": float(np.exp(value + half)), "holds": bool(value + half <= 0.0)}


def compare(
    seeds: int, intervals: int, workers: int, file: Path | None = None, policies: Sequence[str] | None = None
) -> tuple[dict[str, Any], list[Table]]:
    """The claim, its regret, and the same for ours; of `policies` alone where there are some; those of
    `ALWAYS` are. What `file` holds is not made again. Raises `SetupError` for a policy that is not there.
    """
    strange = sorted(set(policies or ()) - set(NAMES))
    if strange:
        raise SetupError(f"--policies: there is no {', '.join(strange)}; there are {', '.join(NAMES)}")
    names = [name for name in NAMES if not policies or name in (*ALWAYS, *policies)]
    (both,) = resumed(
        claims.learned,
        {f"weights, {LEARNING} intervals, seed {SEED}": (claims.fleet(), LEARNING, SEED)},
        file,
        CODE,
        notify=notify,
    )
    weights = [{name: np.array(value, np.float64) for name, value in one.items()} for one in both]
    calls = {
        f"{name}, seed {seed}, {intervals} intervals": (name, seed, intervals, weights)
        for seed in suite.SEEDS[:seeds] for name in names
    }  # fmt: skip
    rows = resumed(ran, calls, file, CODE, workers=workers, notify=notify)
    by = {(row["policy"], row["seed"]): row for row in rows}
    used = suite.SEEDS[:seeds]

    def values(name: str, figure: str) -> list[float]:
        if figure == "objective":
            base = [by["least-loaded", seed] for seed in used]
            pairs = zip((by[name, seed] for seed in used), base, strict=True)
            return [0.5 * (a["energy"] / b["energy"] + a["response"] / b["response"]) for a, b in pairs]
        return [float(by[name, seed][figure]) for seed in used]

    board = Table(
        f"{intervals} intervals, {seeds} seeds; * made for energy and response, else for USD per task",
        ["policy", "USD per 1000 tasks", "energy kWh", "response s", "objective", "late", "CPU ms"],
    )
    for name in sorted(names, key=lambda one: float(np.mean(values(one, "dollars")))):
        mean, half = student.interval(values(name, "dollars"))
        whole = [float(np.mean(values(name, figure))) for figure in ("energy", "response", "objective", "late")]
        spent = float(np.mean(values(name, "cpu_ms")))
        board.add([
            name, f"{1e3 * mean:.3f} +- {1e3 * half:.3f}", f"{whole[0]:.3f}", f"{whole[1]:.2f}", f"{whole[2]:.3f}",
            f"{whole[3]:.1%}", f"{spent:.1f}",
        ])  # fmt: skip
    found: list[dict[str, Any]] = []
    asked = Table(
        "asked: cost over that of each other (upper one-sided 95 % limit at most 1)",
        ["against", "metanet, USD", "rollout, USD", "metanet*, objective", "rollout*, objective"],
    )
    for other in (*POOL, "ucb", "dqn-selector"):
        cells: list[str] = []
        for figure, mark in (("dollars", ""), ("objective", "*")):
            rival = other if other in POOL else other + mark
            for mine in ("metanet" + mark, "rollout" + mark):
                if mine not in names or rival not in names:
                    cells.append("")
                    continue
                one = ahead(values(mine, figure), values(rival, figure))
                found.append({"of": mine, "to": rival, "figure": figure, **one})
                cells.append(f"{one['ratio']:.3f} ({one['upper']:.3f}){'' if one['holds'] else ' no'}")
        asked.add([other, *cells])
    used_by = Table("share of the intervals", ["policy", *POOL, "used", "regret"])
    choices = []
    for name in names:
        if name.removesuffix("*") not in PRICED:
            continue
        shares = np.mean([by[name, seed]["shares"] for seed in used], axis=0)
        often = int((shares >= SHARE).sum())
        regret = [by[name, seed]["regret"] for seed in used]
        mean = None if regret[0] is None else float(np.mean(regret))
        choices.append({"policy": name, "shares": dict(zip(POOL, shares.tolist(), strict=True)), "used": often,
                        "regret": mean})  # fmt: skip
        said = "" if mean is None else f"{mean:.1%}{verdict(mean, REGRET)}"
        used_by.add([
            name, *(f"{share:.0%}" for share in shares), f"{often}{verdict(often, USED, at_least=True)}", said
        ])  # fmt: skip
    fixed, line = static_choice({name: values(name, "dollars") for name in names})
    data = {"intervals": intervals, "rows": rows, "claims": found, "choices": choices, "static": line}
    return data, [board, asked, used_by, *fixed]


def static_choice(dollars_of: Mapping[str, Sequence[float]]) -> tuple[list[Table], dict[str, Any] | None]:
    """The static choice beside MetaNet, from USD per task by policy and seed; none where no policy of the pool was run.

    It is the policy of the pool that costs least under the other seeds, so that no seed chooses for itself.
    """
    there = [name for name in POOL if name in dollars_of]
    if not there:
        return [], None
    seeds = range(len(dollars_of["metanet"]))

    def without(name: str, seed: int) -> float:
        return float(np.mean([dollars_of[name][k] for k in seeds if k != seed or len(seeds) == 1]))

    chosen = [min(there, key=lambda name, seed=seed: without(name, seed)) for seed in seeds]  # type: ignore[misc]
    cost = [dollars_of[name][seed] for seed, name in enumerate(chosen)]
    mean, half = student.interval(cost)
    ratio, spread = student.interval((np.log(dollars_of["metanet"]) - np.log(cost)).tolist())
    low, high = float(np.exp(ratio - spread)), float(np.exp(ratio + spread))
    take = "the static choice" if low > 1.0 else "metanet" if high < 1.0 else "either, not distinguishable"
    policies = ", ".join(dict.fromkeys(chosen))
    table = Table(
        "static choice: the policy of the pool that costs least under the other seeds",
        ["policy", "USD per 1000 tasks", "metanet over it (95 %)", "take"],
    )
    table.add([
        policies, f"{1e3 * mean:.3f} +- {1e3 * half:.3f}", f"{np.exp(ratio):.3f} ({low:.3f}-{high:.3f})", take
    ])  # fmt: skip
    found = {"policies": chosen, "dollars": [mean, half], "ratio": float(np.exp(ratio)), "low": low, "high": high}
    return [table], found | {"take": take}
