"""The services of `--job service` as exact queues, without a machine that disturbs (`--job service-exact`).

What a prediction is off by has three causes: that the station found is not the service, that a recording is
short, and that the machine is not the same at two times. Here the third is absent: arrivals are drawn, responses follow
from the queue of each kind (Lindley's recursion, shared processors), and the same calibration predicts the
two loads that it has not seen. `again` is another recording of the same arrivals.
"""

from __future__ import annotations

import csv
import heapq
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import mapped
from benchmarks.predictive import predictive
from benchmarks.twin_service import DRAWS, HELD_BACK, LOADS, RUNS, judged
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.scenario.requests import scenario_of
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget

Floats = NDArray[np.float64]
Served = Callable[[Floats, np.random.Generator], Floats]  # arrivals (n,) s -> ends (n,) s
SECONDS, SEED = 20.0, 2
_JITTER, _WAY = 0.05, 0.0005  # of a computation; s there, and back


def in_turn(arrivals: Floats, works: Floats, servers: int = 1) -> Floats:
    """(n,) s when requests end that are served in order of arrival."""
    free, ends = [0.0] * servers, np.empty(len(arrivals))
    for k, (came, work) in enumerate(zip(arrivals.tolist(), works.tolist(), strict=True)):
        ends[k] = max(came, heapq.heappop(free)) + work
        heapq.heappush(free, float(ends[k]))
    return ends


def at_once(arrivals: Floats, works: Floats) -> Floats:
    """(n,) s when requests end that share one processor equally."""
    ends, left, now, come = np.empty(len(arrivals)), dict[int, float](), 0.0, 0
    while come < len(arrivals) or left:
        first = min(left, key=left.__getitem__) if left else -1
        end = now + left[first] * len(left) if left else np.inf
        until = min(end, float(arrivals[come])) if come < len(arrivals) else end
        for k in left:
            left[k] -= (until - now) / len(left)
        now = until
        if now == end:
            ends[first] = end
            del left[first]
        else:
            left[come] = float(works[come])
            come += 1
    return ends


def _scattered(random: np.random.Generator, count: int) -> Floats:
    return random.lognormal(0.0, _JITTER, count)


def _coroutines(arrivals: Floats, random: np.random.Generator) -> Floats:
    waited = arrivals + 0.01 * random.exponential(size=len(arrivals))
    order, ends = np.argsort(waited), np.empty(len(arrivals))
    ends[order] = in_turn(waited[order], 0.01 * _scattered(random, len(arrivals)))
    return ends


def _locked(arrivals: Floats, random: np.random.Generator) -> Floats:
    under = in_turn(arrivals, 0.0125 * (0.5 + random.random(len(arrivals))))
    return under + 0.0125 * (0.5 + random.random(len(arrivals)))


# Kind -> requests per s that it can serve, and how it serves them.
SERVICES: dict[str, tuple[float, Served]] = {
    "fixed": (66.0, lambda a, r: in_turn(a, 0.015 * _scattered(r, len(a)))),
    "exponential": (48.0, lambda a, r: in_turn(a, 0.0008 + 0.02 * r.exponential(size=len(a)))),
    "two": (66.0, lambda a, r: in_turn(a, 0.03 * (0.5 + r.random(len(a))), 2)),
    "threads": (83.0, lambda a, r: at_once(a, 0.012 * (0.5 + r.random(len(a))))),
    "mixed": (50.0, lambda a, r: in_turn(a, 0.01 * (r.exponential(size=len(a)) + _scattered(r, len(a))))),
    "modes": (66.0, lambda a, r: in_turn(a, 0.00625 * np.where(r.random(len(a)) < 0.2, 8.0, 1.0))),
    "locked": (80.0, _locked),
    "async": (98.0, _coroutines),
}


def recorded(kind: str, arrivals: Floats, random: np.random.Generator) -> Floats:
    """(n,) s when the answers to requests are there that leave at `arrivals` (n,)."""
    there, back = _WAY * random.lognormal(0.0, 0.3, (2, len(arrivals)))
    come = arrivals + there
    order, ends = np.argsort(come), np.empty(len(arrivals))
    ends[order] = SERVICES[kind][1](come[order], random)
    return np.asarray(ends + back, np.float64)


def one(kind: str, seed: int = SEED, seconds: float = SECONDS) -> list[dict[str, object]]:
    """Rows of the figures of one service."""
    random = np.random.default_rng([seed, list(SERVICES).index(kind)])
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, again = Path(name), dict[int, tuple[float, float]]()
        for load in LOADS:
            rate = load * SERVICES[kind][0]
            arrivals = np.cumsum(random.exponential(1.0 / rate, int(2.0 * rate * seconds + 50.0)))
            arrivals = arrivals[arrivals < seconds]
            with (folder / f"load-{round(100 * load)}.csv").open("w", newline="", encoding="utf-8") as stream:
                out = csv.writer(stream)
                out.writerow(["created", "ended"])
                out.writerows(zip(arrivals.tolist(), recorded(kind, arrivals, random).tolist(), strict=True))
            second = recorded(kind, arrivals, random) - arrivals
            again[round(100 * load)] = float(second.mean()), float(np.quantile(second, 0.95))
        files = [folder / f"load-{round(100 * load)}.csv" for load in LOADS]
        problem = study(
            scenario_of(folder, files, held_back=HELD_BACK).scenario, folder=folder / "work", workers=1
        ).problem
        answer = calibrate(problem, budget=Budget(RUNS), seed=seed)
        for row in predictive(problem.held_back, answer, count=DRAWS) if problem.held_back is not None else ():
            for load in LOADS:
                if row["signal"] == f"load-{round(100 * load)} response":
                    figure = again[round(100 * load)][row["figure"] == "p95"]
                    inside = float(str(row["low"])) <= figure <= float(str(row["high"]))
                    apart = figure / float(str(row["measured"])) - 1.0
                    predicted = {"apart": apart, "again inside": inside, "load": load, "fitted": False}
                    rows.append({"service": kind, **row, **predicted})
    return rows


def run(
    data: Path | None, held_back: Path | None, quick: bool, seed: int = SEED, workers: int = 1
) -> dict[str, object]:
    """A row per service, load that was not fitted and figure. Needs no data."""
    del data, held_back
    kinds = ["fixed"] if quick else list(SERVICES)
    seconds = 8.0 if quick else SECONDS
    found = mapped(one, kinds, [seed] * len(kinds), [seconds] * len(kinds), workers=workers)
    rows = [row for some in found for row in some]
    return {"figures": rows, "seed": seed, **judged(rows)}
