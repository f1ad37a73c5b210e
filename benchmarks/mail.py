"""MAIL-MMSG: what of the paper holds on a continuum that drifts; part of `benchmarks.schedulers`, `--job mail`.

Table 1: KL divergence of generated clients from those of days that were not learned from. Figure 4: the offloading
ratio of a random engine over the 12 parts of a day, in a platform learned from each part and in the continuum on
another day. Table 2: the ratio of policies from the log of day 0 less that of random, in the continuum after 0, 1, 7
and 28 days. A request counts as offloaded when it ended in time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np

from benchmarks.measure import Table, mapped, verdict
from cosim.extensions.mail_mmsg import imitation, population
from cosim.extensions.mail_mmsg.model import NAMES, VirtualPlatform, engine
from cosim.extensions.mail_mmsg.platform import OWN, masks
from cosim.extensions.mail_mmsg.train import ITERATIONS
from cosim.extensions.mail_mmsg.world import DRIFT, PART, PARTS, TRIVIAL, Act, RequestLog, at_random, history, run
from cosim.schedulers.state import Floats

MOST_KL, KEPT, AHEAD = 0.02, 0.40, 0.8  # asked


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


def drift(seeds: int, length: float, workers: int = 1) -> list[dict[str, Any]]:
    """A row per seed, day and policy: ratio, in time, mean response (s) of the days `seed + 1000`."""
    found = mapped(drifted, range(1, seeds + 1), repeat(length), workers=workers)
    return [row for rows in found for row in rows]


def drifted(seed: int, length: float) -> list[dict[str, Any]]:
    """The rows of one seed."""
    rows = []
    for name, act in trained(seed).items():
        for day in DRIFT:
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


def compare(seeds: int, length: float, days: int, workers: int = 1) -> tuple[dict[str, Any], list[Table]]:
    """All three, and what is asked of them."""
    logs = [run(0, seed, history(0)) for seed in range(1, 2 * days + 1)]
    kl = population.table(logs[:days], logs[days:], 1)
    first = Table("KL(held-out days || generated)", ["", *NAMES])
    for name, line in kl.items():
        marks: Callable[[float], str] = (lambda v: verdict(v, MOST_KL)) if name == "GAN-SMMSG" else (lambda _: "")
        first.add([name, *(f"{line[f]:.4f}{marks(line[f])}" for f in NAMES)])
    figure = over_the_day(1)
    second = Table("random engine over 12 parts of a day", ["", "found"])
    second.add(["correlation", f"{figure['correlation']:.3f}{verdict(figure['correlation'], 0.95, at_least=True)}"])
    second.add(["mean absolute difference", f"{figure['error']:.3f}{verdict(figure['error'], 0.02)}"])
    rows = drift(seeds, length, workers)
    third, ahead, kept = gains(rows)
    fourth = Table("asked of MAIL", ["", "found"])
    fourth.add(["seeds ahead of BC from day 1 on", f"{ahead:.0%}{verdict(ahead, AHEAD, at_least=True)}"])
    fourth.add(["gain kept after 28 days", f"{kept:.0%}{verdict(kept, KEPT, at_least=True)}"])
    data = {"kl": kl, "parts": figure, "drift": rows, "ahead": ahead, "kept": kept}
    return data, [first, second, third, fourth]


def gains(rows: list[dict[str, Any]]) -> tuple[Table, float, float]:
    """Table 2 in points above random; in how many seeds MAIL is ahead of BC on all later days; the gain it keeps."""
    of = {(row["policy"], row["day"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    table = Table(
        "offloaded and in time, points above random (mean in time, s of response on the last day)",
        ["policy", *(f"day {d}" for d in DRIFT), "in time", "response s"],
    )

    def gain(name: str, day: int) -> Floats:
        return 100.0 * np.array([of[name, day, s]["ratio"] - of["random", day, s]["ratio"] for s in seeds])

    for name in dict.fromkeys(row["policy"] for row in rows):
        spread = [gain(name, d).std(ddof=1) if len(seeds) > 1 else 0.0 for d in DRIFT]
        cells = [f"{gain(name, d).mean():.2f} ± {one:.2f}" for d, one in zip(DRIFT, spread, strict=True)]
        last = [of[name, DRIFT[-1], s] for s in seeds]
        mean = [float(np.mean([row[figure] for row in last])) for figure in ("in_time", "response")]
        table.add([name, *cells, f"{mean[0]:.1%}", f"{mean[1]:.2f}"])
    ahead = np.all([gain("MAIL", d) > gain("BC", d) for d in DRIFT[1:]], axis=0).mean()
    kept = gain("MAIL", DRIFT[-1]).mean() / gain("MAIL", 0).mean()
    return table, float(ahead), float(kept)
