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
from cosim.contract.records import Floats
from cosim.extensions.mail_mmsg import population
from cosim.extensions.mail_mmsg.claims import drifted, over_the_day
from cosim.extensions.mail_mmsg.model import NAMES
from cosim.extensions.mail_mmsg.world import DRIFT, history, run

MOST_KL, KEPT, AHEAD = 0.02, 0.40, 0.8  # asked


def drift(seeds: int, length: float, workers: int = 1) -> list[dict[str, Any]]:
    """A row per seed, day and policy: ratio, in time, mean response (s) of the days `seed + 1000`."""
    found = mapped(drifted, range(1, seeds + 1), repeat(length), workers=workers)
    return [row for rows in found for row in rows]


def compare(seeds: int, length: float, days: int, workers: int = 1) -> tuple[dict[str, Any], list[Table]]:
    """All three, and what is asked of them."""
    logs = [run(0, seed, history(0)) for seed in range(1, 2 * days + 1)]
    real, made, groups = population.populations(logs[:days], logs[days:], 1)
    kl = {name: population.divergences(real, bins, groups) for name, bins in made.items()}
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
