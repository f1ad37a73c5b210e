"""Successive halving: many candidates under few seeds, then fewer under more.

K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
AISTATS 2016, in brackets as in Hyperband (L. Li et al., JMLR 18, 2018). The first bracket's candidates
fill the cube, those of later ones lie around the survivors so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cosim.twin.search.cma import reflect
from cosim.twin.search.meter import CONVERGED, RUNS, Floats, Found, Meter

# (points (n, d), first, last) -> losses (n,), the mean over seeds number `first` to `last` - 1
Seeded = Callable[[Floats, int, int], Floats]


def halving(
    seeded: Seeded,
    meter_of: Callable[[Callable[[Floats], Floats]], Meter],
    sample: Callable[[int], Floats],
    random: np.random.Generator,
    *,
    candidates: int = 81,
    factor: int = 3,
    seeds: int = 27,
    brackets: int = 8,
) -> tuple[Found, Meter]:
    """The candidate with the least loss over `seeds` seeds.

    `sample(n)` draws candidates of the first bracket; `meter_of` makes the meter, one run per point and
    seed. Each rung keeps 1 of `factor` and gives those `factor` times the seeds. Ends when a bracket
    finds nothing better by 1 part in 1000.
    """
    span = [0, 1]

    def total(units: Floats) -> Floats:
        return seeded(units, span[0], span[1])

    meter = meter_of(total)
    best: tuple[float, Floats] | None = None
    spread = np.full(sample(1).shape[1], 0.25)
    pool = sample(candidates)
    for _ in range(max(1, brackets)):
        losses, done, points = np.zeros(len(pool)), 0, pool
        while True:
            more = max(1, done * (factor - 1))
            span[:] = [done, min(done + more, seeds)]
            meter.runs_per_point = span[1] - span[0]
            if meter.room < len(points):
                if best is None:
                    first = int(np.argmin(losses))
                    best = (float(losses[first]) if done else np.inf), points[first]
                return Found(best[1], best[0], meter.over or RUNS), meter
            losses = (losses * done + meter(points) * meter.runs_per_point) / span[1]
            done = span[1]
            order = np.argsort(losses, kind="stable")
            if done >= seeds or len(points) == 1:
                break
            keep = order[: max(1, len(points) // factor)]
            points, losses = points[keep], losses[keep]
        order = np.argsort(losses, kind="stable")
        points, losses = points[order], losses[order]
        leader = float(losses[0]), points[0]
        improved = best is None or leader[0] < best[0] * (1 - 1e-3)
        best = leader if best is None or leader[0] < best[0] else best
        if not improved and spread.max() < 0.02:
            break
        spread = spread * (0.7 if improved else 0.5)
        around = best[1] + spread * random.standard_normal((candidates - 1, len(spread)))
        pool = np.concatenate([best[1][None], reflect(around)])
    assert best is not None  # there is one bracket or more
    return Found(best[1], best[0], CONVERGED), meter
