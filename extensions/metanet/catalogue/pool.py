"""Policies that choose which policy decides: what they choose from, what they see, and what an interval cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosim.contract.plugins import load
from cosim.contract.records import Floats, Ints
from cosim.extensions.metanet.catalogue.features import HOST_COLUMNS, TASK_COLUMNS, features
from cosim.schedulers.objective import WEIGHT, Scale
from cosim.schedulers.state import Policy, State

POOL = ("aco", "decision-nn", "semi-direct", "graf", "gobi", "gosh", "a3c")  # MetaNet's kinds: seven policies
# ms of a decision at 24 hosts, as measured once; a constant, so that choices repeat
MILLISECONDS = {
    "aco": 1.6, "decision-nn": 2.0, "semi-direct": 5.0, "graf": 5.0, "gobi": 4.0, "gosh": 7.0, "a3c": 0.5
}  # fmt: skip
TARIFF = 1.67e-5 * 0.128 / 1e3  # USD per ms of a function with 128 MB: the price per GB s of public clouds
CALL = 2e-7  # USD per call
SEEN = 3 * len(HOST_COLUMNS) + 2 * len(TASK_COLUMNS) + 9


def pool() -> list[Policy]:
    """The policies, made anew."""
    return [load("schedulers", name)() for name in POOL]


def summary(state: State, scale: Scale) -> Floats:
    """(SEEN,) workload, hosts and present decision, whatever their numbers: means, deviations, greatest values."""
    f = features(state, scale)
    hosts = state.hosts
    load = hosts["demand"] / hosts["speed"]
    tasks = f.tasks if len(f.tasks) else np.zeros((1, len(TASK_COLUMNS)))
    whole = (
        load.mean(), load.std(), load.max(), hosts["utilisation"].mean(), (hosts["tasks"] > 0.0).mean(),
        np.log1p(len(state.tasks) / len(hosts)), float((state.tasks["host"] < 0.0).mean()) if len(f.tasks) else 0.0,
        np.log(max(len(state.tasks), 1) / scale.tasks), np.log(len(hosts) / 30.0),
    )  # fmt: skip
    of_hosts = f.hosts.mean(axis=0), f.hosts.std(axis=0), f.hosts.max(axis=0)
    return np.concatenate([*of_hosts, np.log1p(tasks.mean(axis=0)), tasks.std(axis=0), np.array(whole)])


def spent(before: State, after: State, scale: Scale, policy: int) -> float:
    """The cost of the interval between two states, the policy's own included.

    Energy and tasks in the system against their running means, by the weights of `objective`; what the function that
    decided costs is set against the price of the hosts.
    """
    power = np.nansum(after.hosts["power"])
    price = np.nansum(np.where(after.hosts["power"] > 0.0, after.hosts["price"], 0.0)) * before.interval / 3600.0
    own = TARIFF * MILLISECONDS[POOL[policy]] + CALL
    cost = WEIGHT * power / scale.power + (1.0 - WEIGHT) * max(len(after.tasks), 1) / scale.tasks
    return float(cost + (own / price if price > 0.0 else 0.0))


def dollars(before: State, after: State, scale: Scale, policy: int) -> float:  # noqa: ARG001 - in the place of `spent`
    """MetaNet's own cost of the interval between two states: what busy hosts and the function take, USD per task ended.

    As if one task had ended where none has.
    """
    price = np.nansum(np.where(after.hosts["power"] > 0.0, after.hosts["price"], 0.0)) * before.interval / 3600.0
    ended = len(before.tasks) - int(np.isin(before.tasks["task"], after.tasks["task"]).sum())
    return float(price + TARIFF * MILLISECONDS[POOL[policy]] + CALL) / max(ended, 1)


class Chooser:
    """Lets one of the pool decide in each interval, and hears afterwards what it cost, as `cost` counts it."""

    def __init__(self, cost: Callable[[State, State, Scale, int], float] = spent) -> None:
        self.pool, self.scale, self.cost = pool(), Scale(), cost
        self.counts = np.zeros(len(POOL), np.int64)  # intervals that each decided
        self._last: tuple[State, Floats, int, Scale] | None = None

    def choose(self, seen: Floats) -> int:
        """The number of the policy that is to decide."""
        raise NotImplementedError

    def heard(self, seen: Floats, policy: int, cost: float, following: Floats) -> None:
        """What an interval cost under a policy."""

    def __call__(self, state: State) -> Ints:
        """(T,) destinations, of the policy chosen."""
        if not len(state.tasks):
            return np.empty(0, np.int64)
        if self._last is not None:
            before, seen, policy, scale = self._last
            now = summary(state, self.scale)
            self.heard(seen, policy, self.cost(before, state, scale, policy), now)
        self.scale.see(state)
        seen = summary(state, self.scale)
        policy = self.choose(seen)
        self.counts[policy] += 1
        held = Scale()
        held.power, held.tasks = self.scale.power, self.scale.tasks
        self._last = state._replace(branch=None), seen, policy, held
        return np.asarray(self.pool[policy](state), np.int64)
