"""Do intervals of 90 % hold the truth on queues of a simulator that is not ours (`--job queues`)?

Five kinds of queue, two of them with two kinds of work on one host; 200 s of tasks in order of arrival, without their
arrivals replayed. Each truth is drawn anew and calibrated with 1,200 runs, as `cosim calibrate` does.
"""

from __future__ import annotations

import csv
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
from scipy.stats import binom

from benchmarks.measure import mapped
from benchmarks.twin_sound import in_turn
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import Floats
from cosim.twin.scenario.study import study
from cosim.twin.search.meter import Budget

SEED, TRUTHS = 100, 30  # number of the first truth; truths of each kind
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: own
run: {{duration: 200 s, step: 1 s, seed: 1}}
adapters:
  continuum: {{scheduler: nearest, discipline: fcfs}}
nodes:
  client: {{kind: device}}
  worker: {{kind: edge, cpu: {servers} x 1 GHz}}
links:
  - {{between: [client, worker], rate: 100 Gbit/s, delay: 0.01 ms}}
"""
Drawn = Callable[[np.random.Generator, int], Floats]
# Queue -> servers, and of each kind of work its rate (1/s), the ends of its mean (s), its law, services of mean 1.
SIGMA = math.sqrt(math.log1p(0.6**2))
EXPONENTIAL: tuple[str, Drawn] = ("exponential {:g} Mcycles", lambda random, n: random.exponential(1.0, n))
CONSTANT: tuple[str, Drawn] = ("{:g} Mcycles", lambda _, n: np.ones(n))
LOG_NORMAL: tuple[str, Drawn] = (
    "log-normal {:g} Mcycles +- 60 %", lambda random, n: np.exp(SIGMA * random.standard_normal(n) - SIGMA**2 / 2.0)
)  # fmt: skip
QUEUES = {
    "M/M/1": (1, [(5.0, (0.05, 0.16), *EXPONENTIAL)]),
    "M/D/1": (1, [(5.0, (0.05, 0.16), *CONSTANT)]),
    "M/LN/3": (3, [(20.0, (0.05, 0.13), *LOG_NORMAL)]),
    "two kinds, one server": (1, [(3.0, (0.03, 0.1), *LOG_NORMAL), (1.0, (0.15, 0.4), *CONSTANT)]),
    "two kinds of work": (2, [(6.0, (0.03, 0.08), *EXPONENTIAL), (2.5, (0.12, 0.3), *LOG_NORMAL)]),
}


def held(folder: Path, queue: str, number: int, runs: int = 1200) -> list[bool]:
    """Whether the interval of each kind of work holds the mean that the tables were made with; not if there is none."""
    random = np.random.default_rng([number, len(queue)])
    servers, kinds = QUEUES[queue]
    truths = [random.uniform(*ends) for _, ends, *_ in kinds]
    times = [np.sort(random.uniform(0.0, 200.0, random.poisson(200.0 * rate))) for rate, *_ in kinds]
    works = [mean * drawn(random, len(t)) for mean, t, (*_, drawn) in zip(truths, times, kinds, strict=True)]
    names = np.concatenate([np.full(len(t), f"w{k}") for k, t in enumerate(times)])
    order = np.argsort(np.concatenate(times), kind="stable")
    came, took = np.concatenate(times)[order], np.concatenate(works)[order]
    ends = in_turn(came, took, servers)
    with (folder / "tasks.csv").open("w", newline="", encoding="utf-8") as stream:
        rows = [(n, repr(float(a)), repr(float(b - a))) for n, a, b in zip(names[order], came, ends, strict=True)]
        csv.writer(stream).writerows(
            [("workload", "created", "response"), *(r for r, b in zip(rows, ends, strict=True) if b < 200)]
        )
    text, free = SCENARIO.format(servers=servers) + "workloads:\n", ""
    observed = ""
    for k, (rate, (low, high), law, _) in enumerate(kinds):
        bounds = ", ".join(f'"{law.format(1e3 * end)}"' for end in (0.6 * low, 1.5 * high))
        text += f'  w{k}: {{from: client, arrivals: poisson {rate} Hz, work: "{law.format(500.0 * (low + high))}"}}\n'
        of = f"column: response, time: created, workloads: [w{k}]"
        observed += f"    r{k}: {{file: tasks.csv, signal: task.response, {of}}}\n"
        free += f"    workloads.w{k}.work: {{bounds: [{bounds}], scale: log}}\n"
    path = folder / "scenario.cosim.yaml"
    path.write_text(f"{text}calibrate:\n  observed:\n{observed}  free:\n{free}", encoding="utf-8")
    found = calibrate(study(path, folder=folder / "work", workers=1).problem, budget=Budget(runs), seed=number + 1)
    inside = []
    for one, truth in zip(found.estimates, truths, strict=True):
        if one.low is None or one.high is None:
            inside.append(False)  # no interval holds nothing
            continue
        if not one.low <= float(one.value) <= one.high:  # whatever else, the value lies in its interval
            raise RuntimeError(f"{queue} {number}: {one.value} is not in [{one.low}, {one.high}]")
        inside.append(one.low <= 1e3 * truth <= one.high)
    return inside


def of(queue: str, number: int) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        return held(Path(folder), queue, number)


def run(
    data: Path | None, held_back: Path | None, quick: bool, seed: int = SEED, workers: int = 1
) -> dict[str, object]:
    """The coverage of each kind, and between which shares chance leaves nine of ten counts of intervals that hold."""
    del data, held_back
    begun, truths = process_time(), 2 if quick else TRUTHS
    cases = [(queue, seed + k) for k in range(truths) for queue in QUEUES]
    found = mapped(of, *zip(*cases, strict=True), workers=workers)
    table = []
    for queue in QUEUES:
        inside = [one for (name, _), some in zip(cases, found, strict=True) if name == queue for one in some]
        low, high = binom.interval(0.9, len(inside), 0.9)
        table.append({"queue": queue, "intervals": len(inside), "held": sum(inside), "coverage": float(np.mean(inside)),
                      "by chance": f"{low / len(inside):.0%} to {high / len(inside):.0%}"})  # fmt: skip
    return {"queues": table, "seed": seed, "CPU s": process_time() - begun}
