"""Tables 1 and 2, Fig. 3 and 4 of MAIL-MMSG's paper, made again: `claims.toml` has its numbers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.mail_mmsg import imitation, population
from cosim.extensions.mail_mmsg.model import VirtualPlatform, engine
from cosim.extensions.mail_mmsg.platform import OWN, masks
from cosim.extensions.mail_mmsg.train import ITERATIONS
from cosim.extensions.mail_mmsg.world import DRIFT, PART, PARTS, TRIVIAL, Act, RequestLog, at_random, history, run

Rows = dict[str, dict[str, float]]
DAYS = {0: "0 day", 1: "1 day", 7: "1 week", 28: "1 month"}  # columns of the paper's Table 2


def acting(weights: imitation.Weights) -> Act:
    """The policy of these weights."""
    held = {name: np.asarray(value, np.float64) for name, value in weights.items() if name != "windows"}

    def act(seen: Floats, rng: np.random.Generator) -> Floats:  # noqa: ARG001 - as policies are called
        found: Floats = engine(held, seen[None])[0]
        return found

    return act


def trained(seed: int) -> dict[str, Act]:
    """The policies of one seed, each from the log of one day only, and the trivial ones."""
    log = run(0, seed, history(seed))
    base = imitation.platform(log, *population.features(log), seed)

    def inside(clients: imitation.Weights) -> Act:
        whole = base | {name: value.astype(np.float64) for name, value in clients.items()}
        return acting(whole | imitation.reinforced(whole, seed, ITERATIONS[1]))

    return {
        "BC": acting(base | imitation.cloned_engine(base, log, seed)),
        "BC + norm": acting(base | imitation.cloned_engine(base, log, seed, imitation.NORM)),
        "PPO in cloned clients": inside(imitation.cloned_clients(base, log, seed)),
        "MAIL": inside(imitation.imitated(base, log, seed, ITERATIONS[0])),
        **TRIVIAL,
    }


def drifted(seed: int, length: float, only: Collection[str] = ()) -> list[dict[str, Any]]:
    """The rows of one seed, of all policies or of some."""
    rows = []
    for name, act in trained(seed).items():
        for day in DRIFT if name in only or not only else ():
            log = run(day, 1000 + seed, act, length)
            rows.append({
                "seed": seed, "policy": name, "day": day, "ratio": log.ratio,
                "in_time": float((log.level < 4).mean()), "response": float(np.nanmean(log.seconds)),
            })  # fmt: skip
    return rows


def virtual_ratio(weights: imitation.Weights, rng: np.random.Generator, count: int = 1000) -> float:
    """The ratio of a random engine in a virtual platform."""
    env = VirtualPlatform(weights, count)
    seen, total, over = env.reset(rng), 0.0, False
    while not over:
        scene = seen[:, OWN : OWN + 3].argmax(axis=1)
        seen, done, over = env.step(rng.uniform(-1.0, 1.0, (count, 10)) * masks()[scene], rng)
        total += float(done.mean())
    return total / int(env.windows.shape[1])


def over_the_day(seed: int, iterations: int = 40) -> dict[str, Any]:
    """Ratios of the 12 parts, virtual and real, their correlation and mean absolute difference."""
    log, other = run(0, seed, at_random), run(0, seed + 1000, at_random)
    rows, keys = population.features(log)
    rng = np.random.default_rng(seed)
    pairs = []
    for part in range(PARTS):
        mine, mine_rows = _part(log, part), keys[:, 1] == part
        base = imitation.platform(mine, rows[mine_rows], keys[mine_rows], seed, steps=100, length=4)
        clients = imitation.imitated(base, mine, seed, iterations)
        whole = base | {name: value.astype(np.float64) for name, value in clients.items()}
        pairs.append((virtual_ratio(whole, rng), _part(other, part).ratio))
    virtual, real = np.array(pairs).T
    return {
        "virtual": virtual.tolist(), "real": real.tolist(), "correlation": float(np.corrcoef(virtual, real)[0, 1]),
        "error": float(np.abs(virtual - real).mean()),
    }  # fmt: skip


def _part(log: RequestLog, part: int) -> RequestLog:
    mine = (log.time // PART).astype(int) == part
    kept = {name: getattr(log, name)[mine] for name in RequestLog._fields if name != "changes"}
    return RequestLog(**kept, changes=log.changes)


def generators(_: str, seed: int, __: None, *, days: int) -> Rows:
    """KL of generated clients from those of days that were not learned from, `days` of each, and points apart."""
    real, found, groups = population.populations(*_days(seed, days), seed)
    return {
        name: {f"KL {column}": value for column, value in population.divergences(real, bins, groups).items()}
        | {f"points {column}": value for column, value in population.differences(real, bins, groups).items()}
        for name, bins in found.items()
    }


def _days(seed: int, days: int) -> tuple[list[RequestLog], list[RequestLog]]:
    first = 1 + 2 * days * (seed - 1)
    logs = [run(0, k, history(0)) for k in range(first, first + 2 * days)]
    return logs[:days], logs[days:]


def figure4(_: str, seed: int, __: None, *, iterations: int) -> Rows:
    """Correlation of the virtual and the real ratios of 12 parts of a day, and their mean absolute difference."""
    found = over_the_day(seed, iterations)
    return {
        "virtual against real": {"correlation": found["correlation"], "mean absolute difference": found["error"]},
        "stated": {"correlation": 0.9},  # "can mirror the temporal trends"
    }


def table2(_: str, seed: int, __: None, *, length: float) -> Rows:
    """Points of the offloading ratio above random, by days since the log."""
    names = {"BC": "BC", "MAIL": "MAIL-MMSG", "PPO in cloned clients": "PPO in cloned clients"}
    rows = {(row["policy"], row["day"]): row["ratio"] for row in drifted(seed, length, {*names, "random"})}
    return {
        paper: {column: 100.0 * (rows[name, day] - rows["random", day]) for day, column in DAYS.items()}
        for name, paper in names.items()
    }
