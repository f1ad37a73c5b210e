"""A second mode of work is chosen where data have one, and nowhere else; the queue is computed beside the engine."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

from cosim.cli.whatif import posterior
from cosim.scenario.load import load
from cosim.twin.scenario.work import carry_out, works
from cosim.twin.search import Budget
from tests.overlays import read

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: cache
run: {duration: 40 s, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: nearest, discipline: fcfs}
nodes:
  client: {kind: device}
  worker: {kind: edge, cpu: 1 x 1 GHz}
links:
  - {between: [client, worker], rate: 100 Gbit/s, delay: 1 ms}
workloads:
  ask: {from: client, arrivals: poisson 10 Hz, work: log-normal 30 Mcycles +- 40 %}
calibrate:
  observed:
    response: {file: tasks.csv, signal: task.response, time: created}
  free:
    workloads.ask.work: {bounds: [log-normal 15 Mcycles +- 40 %, log-normal 80 Mcycles +- 40 %]}
"""


def calibrated(folder, times, works_of):
    """What is said, the answer and its files, for a server that takes `works_of` (n,) s of tasks at `times` (n,)."""
    free = itertools.accumulate(
        zip(times.tolist(), works_of.tolist(), strict=True), lambda end, one: max(end, one[0]) + one[1], initial=0.0
    )
    ends = np.array(list(free)[1:])
    with (folder / "tasks.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(
            [["created", "response"], *([a, b - a + 0.002] for a, b in zip(times, ends, strict=True) if b < 40.0)]
        )
    (folder / "cache.yaml").write_text(SCENARIO, encoding="utf-8")
    loaded, said = load(folder / "cache.yaml"), list[str]()
    (work,) = works(loaded, folder=folder / "out", workers=1)
    found, files = carry_out(work, loaded, folder / "out", budget=Budget(800), say=said.append)
    return said, found, files


@pytest.fixture
def times():
    times = np.cumsum(np.random.default_rng(8).exponential(0.1, 600))
    return times[times < 40.0]


@pytest.mark.slow
def test_a_second_mode_is_chosen_and_stated(tmp_path, times):
    random = np.random.default_rng(9)
    slow = random.random(len(times)) < 0.25
    usual = random.lognormal(-0.02, 0.2, len(times)) * 0.015
    said, found, files = calibrated(tmp_path, times, usual * np.where(slow, 6.0, 1.0))
    assert "has two modes" in said[0]
    assert said[0] in found.assumptions
    overlay = read(files["overlay"])
    law = overlay.fields["workloads"]["ask"]["work"]
    share, _, factor = law.partition(", ")[2].partition(" % x ")
    assert abs(float(share) / 25.0 - 1.0) < 0.3
    assert abs(float(factor) / 6.0 - 1.0) < 0.2
    (block,) = overlay.calibrated.values()
    assert said[0] in block.assumptions
    assert [tuple(one.values()) for one in posterior(tmp_path / "out")] == list(found.draws) != []
    both = load(tmp_path / "cache.yaml", [f"workloads.ask.work={law}", "calibrate=null"]).scenario.workloads["ask"].work
    assert both is not None
    assert abs(both.mean / (1e9 * 0.015 * 2.25) - 1.0) < 0.15


@pytest.mark.slow
def test_a_wide_law_of_one_mode_stays_one(tmp_path, times):
    said, found, _ = calibrated(tmp_path, times, np.random.default_rng(10).exponential(0.035, len(times)))
    assert not said
    assert found.figures["law_unexplained"] > 0.0  # the scenario's law is another one
