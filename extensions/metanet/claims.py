"""Table 1 and Fig. 3 of MetaNet's paper, made again: `claims.toml` has its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.cosco.interval import ContainerArrivals
from cosim.extensions.cosco.state import per_interval
from cosim.extensions.metanet.bench import suite
from cosim.extensions.metanet.catalogue.dqn_selector import train as selector
from cosim.extensions.metanet.catalogue.dqn_selector.decide import DqnSelector
from cosim.extensions.metanet.catalogue.metanet import train as meta
from cosim.extensions.metanet.catalogue.metanet.decide import MetaNet
from cosim.extensions.metanet.catalogue.metanet.model import costs
from cosim.extensions.metanet.catalogue.pool import CALL, MILLISECONDS, POOL, TARIFF, Chooser, dollars
from cosim.extensions.metanet.catalogue.ucb.decide import Ucb
from cosim.schedulers import scheduler
from cosim.schedulers.state import State, decides

SEED = 900  # of what is learned from
LONG = 1000.0  # intervals of the paper's totals
FIFTHS = 5
NAMES = {
    "ARIMA+ACO": "aco", "LSTM+ACO": "aco-lstm", "Decision-NN": "decision-nn", "Semi-Direct": "semi-direct",
    "GRAF": "graf", "GOBI": "gobi", "GOSH": "gosh", "MAB": "ucb", "DQN": "dqn-selector", "MetaNet": "metanet",
}  # fmt: skip
Weights = list[dict[str, Floats]]


def fleet(tasks: float | None = None) -> suite.World:
    """The suite's world of MetaNet's 100 hosts, with so many new tasks per interval."""
    world = next(one for one in suite.worlds() if one.name == "fleet")
    if tasks is None:
        return world
    return replace(world, workload=replace(world.workload, arrivals=ContainerArrivals("poisson", tasks)))


@decides("interval")
class _Alone(Chooser):
    """One policy of the pool, with what it costs written down."""

    def __init__(self, policy: int) -> None:
        super().__init__(dollars)
        self.policy, self.rows = policy, list[meta.IntervalRecord]()

    def choose(self, seen: Floats) -> int:
        return self.policy

    def heard(self, seen: Floats, policy: int, cost: float, following: Floats) -> None:
        self.rows.append(meta.IntervalRecord(seen, policy, cost, following))


def learned(world: suite.World, intervals: int, seed: int) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Weights of MetaNet and of the DQN for a world and USD per task, as lists of their rows."""
    rows: list[meta.IntervalRecord] = []
    for k in range(len(POOL)):
        one, policy = world.begin(seed), _Alone(k)
        decided: Any = policy
        one.decide_by(per_interval(decided, one))
        one.run(intervals)
        rows += policy.rows
    both = meta.fitted(rows, seed, 60)[0], selector.fitted(rows, seed, 6, 12)[0]
    first, second = ({name: value.tolist() for name, value in one.items()} for one in both)
    return first, second


def prepared(*, learning: int, tasks: float, **_: float) -> list[dict[str, list[Any]]]:
    """What MetaNet and the DQN learn from `learning` intervals of each policy."""
    return list(learned(fleet(tasks), learning, SEED))


def made(name: str, weights: Weights) -> Any:  # noqa: ANN401 - a policy, which knows its own kinds of state
    """A policy by its name; those that choose among others do so by USD per task."""
    priced: dict[str, Callable[[], Chooser]] = {
        "metanet": lambda: MetaNet(weights=weights[0], cost=dollars),
        "dqn-selector": lambda: DqnSelector(weights[1], cost=dollars),
        "ucb": lambda: Ucb(cost=dollars),
    }
    return priced[name]() if name in priced else scheduler(name).policy("interval")


def function_cost(policy: Any, name: str, decisions: int) -> float:  # noqa: ANN401 - of `made`
    """USD of the functions that decided: those that a policy chose, or its own."""
    counts = np.asarray(getattr(policy, "counts", np.zeros(len(POOL))), float)
    if counts.any():
        return float(sum(n * (TARIFF * MILLISECONDS[one] + CALL) for n, one in zip(counts, POOL, strict=True)))
    own = MILLISECONDS.get(name, MILLISECONDS["aco"] if name == "aco-lstm" else 0.0)
    return decisions * (TARIFF * own + CALL) if own else 0.0


@decides("interval")
class _Watched:
    """A policy, and the mean CPU use of hosts in use that it saw (%)."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - of `made`
        self.inner, self.used = inner, list[float]()

    def __call__(self, state: State) -> Ints:
        busy = state.hosts["utilisation"][state.hosts["utilisation"] > 0.0]
        if len(busy):
            self.used.append(100.0 * float(busy.mean()))
        return np.asarray(self.inner(state))


def table1(
    case: str, seed: int, weights: Weights, *, intervals: int, tasks: float, **_: float
) -> dict[str, dict[str, float]]:
    """One row of Table 1: totals in USD and kWh, scaled to 1000 intervals, s, and shares."""
    name = NAMES[case]
    policy = made(name, weights)
    watched: Any = _Watched(policy)
    found = suite.run(fleet(tasks), watched, seed, intervals)
    long = LONG / intervals
    spent = found.cost + function_cost(policy, name, intervals + suite.ENDING)
    return {case: {
        "cost, USD": long * spent, "energy, kWh": long * found.energy, "response, s": found.response,
        "violations": found.late, "CPU, %": float(np.mean(watched.used)),
    }}  # fmt: skip


class _Chosen(MetaNet):
    """MetaNet, with the predicted costs of every policy and the choice of each interval."""

    def __init__(self, weights: dict[str, Floats]) -> None:
        super().__init__(weights=weights, cost=dollars)
        self.predicted = list[Floats]()

    def choose(self, seen: Floats) -> int:
        self.predicted.append(costs(np, self._weights, seen[None, :])[0])
        return int(self.predicted[-1].argmin())


def figure3(
    _: str, seed: int, weights: Weights, *, intervals: int, tasks: float, **_rest: float
) -> dict[str, dict[str, float]]:
    """How often MetaNet chooses each policy, whole and by fifths of the run, and the mean predicted cost, mUSD."""
    policy: Any = _Chosen(weights[0])
    suite.run(fleet(tasks), policy, seed, intervals)
    names = {name: paper for paper, name in NAMES.items()} | {"a3c": "A3C"}
    rows: dict[str, dict[str, float]] = {names[name]: {} for name in POOL}
    whole: Floats = np.array(policy.predicted)  # (intervals, policies)
    for k, part in enumerate([whole, *np.array_split(whole, FIFTHS)]):
        place = f"fifth {k}" if k else "whole"
        chosen = np.bincount(np.argmin(part, axis=1), minlength=len(POOL)) / len(part)
        for name, share, cost in zip(POOL, chosen, np.mean(part, axis=0), strict=True):
            rows[names[name]] |= {f"chosen, {place}": float(share), f"predicted mUSD, {place}": 1e3 * float(cost)}
    return rows
