"""Intervals on queues of a simulator that is not ours: each holds the truth as often as it states."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.twin_sound import in_turn
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import Floats
from cosim.twin.scenario.study import study
from cosim.twin.search.meter import Budget

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
CONSTANT: tuple[str, Drawn] = ("{:g} Mcycles", lambda random, n: np.ones(n))
LOG_NORMAL: tuple[str, Drawn] = (
    "log-normal {:g} Mcycles +- 60 %", lambda random, n: np.exp(SIGMA * random.standard_normal(n) - SIGMA**2 / 2.0)
)  # fmt: skip
QUEUES = {
    "M/M/1": (1, [(5.0, (0.05, 0.16), *EXPONENTIAL)]),
    "M/D/1": (1, [(5.0, (0.05, 0.16), *CONSTANT)]),
    "two kinds of work": (2, [(6.0, (0.03, 0.08), *EXPONENTIAL), (2.5, (0.12, 0.3), *LOG_NORMAL)]),
}


def held(folder: Path, queue: str, number: int, runs: int = 1200) -> list[bool]:
    """Whether the interval of each kind of work holds the mean that the tables were made with."""
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
        assert one.low is not None
        assert one.high is not None
        assert one.low <= float(one.value) <= one.high  # whatever else, the value lies in its interval
        inside.append(one.low <= 1e3 * truth <= one.high)
    return inside


@pytest.mark.slow
def test_an_interval_holds_its_value(tmp_path):
    assert len(held(tmp_path, "two kinds of work", 0, runs=700)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
def test_intervals_hold_the_truth_as_often_as_stated(tmp_path, queue):
    """Of 6 or 12 intervals of 90 % at least as many as chance leaves in 98 of 100 cases (binomial: 4, 8)."""
    inside = [one for number in range(6) for one in held(tmp_path, queue, number)]
    assert sum(inside) >= {6: 4, 12: 8}[len(inside)]
