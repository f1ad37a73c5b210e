"""`deciding`: from the scenario to rows, ledgers and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cosim
from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.keys import SetScheduler
from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: decides
run: {duration: 30 s, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: least-loaded, discipline: fcfs, deciding: {on: edge-1, as: 5 ms}, trace: {nodes: []}}
nodes:
  edge-1: {kind: edge, cpu: 1 x 1 GHz}
  edge-2: {kind: edge, cpu: 2 x 1 GHz, sleep: {after: 1 s, power: 1 W}, power: {idle: 2 W, max: 3 W}}
  camera-[1..2]: {kind: device}
links:
  - {between: ["camera-*", "edge-*"], rate: 1 Gbit/s, delay: 1 ms}
workloads:
  look: {from: "camera-*", arrivals: poisson 20 Hz, input: 1 kB, work: exponential 10 Mcycles}
"""


def ran(tmp_path, text=SCENARIO):
    file = tmp_path / "decides.cosim.yaml"
    file.write_text(text)
    run = cosim.load(cosim.run(file, out=tmp_path / "runs").folder)
    events = "SELECT a.at - c.at AS took FROM task_event a JOIN task_event c USING (task)"
    took = run.sql(f"{events} WHERE a.event = 'assigned' AND c.event = 'created'").fetchnumpy()["took"]
    return run, np.asarray(took)


def test_tasks_leave_after_their_decisions_which_the_ledger_counts(tmp_path):
    run, took = ran(tmp_path)
    assert len(took) > 900
    assert took.min() == pytest.approx(0.005, rel=1e-6)
    assert took.max() > 0.01  # behind others, and tasks that are computed there
    book = run.manifest["adapters"][0]["summary"]
    assert book["deciding"]["on"] == "edge-1"
    assert book["deciding"]["core_seconds"] == pytest.approx(0.005 * book["tasks"]["created"])
    assert book["deciding"]["decisions"] == len(took)
    assert book["deciding"]["delay"] == pytest.approx(took.mean(), rel=1e-6)
    assert run.metrics["figures"]["deciding_delay"]["value"] == book["deciding"]["delay"]
    assert book["utilisation"]["edge-1"] > book["deciding"]["core_seconds"] / 30.0
    assert run.manifest["signals"]["task"]["origin"] == "simulated"
    again, _ = ran(tmp_path)
    assert again.metrics["figures"]["response_mean"] == run.metrics["figures"]["response_mean"]


def test_without_it_tasks_leave_at_once(tmp_path):
    run, took = ran(tmp_path, SCENARIO.replace(", deciding: {on: edge-1, as: 5 ms}", ""))
    assert (took == 0.0).all()
    assert "deciding" not in run.manifest["adapters"][0]["summary"]
    assert "deciding_delay" not in run.metrics["figures"]


def test_measured_times_are_marked_and_cannot_be_made_again(tmp_path):
    text = SCENARIO.replace("5 ms", "measured").replace("least-loaded", "edf")
    run, took = ran(tmp_path, text)
    assert took.max() > 0.0
    book = run.manifest["adapters"][0]["summary"]
    assert book["deciding"]["core_seconds"] > 0.0
    assert run.manifest["signals"]["task"]["origin"] == "measured/simulated"
    plan = json.loads((run.path / "plan.json").read_text())
    config = ContinuumConfig.model_validate(plan["adapters"][0]["config"])
    assert ADAPTER.outside(config, None).startswith("its decisions take the CPU time")
    order = SetScheduler.model_validate({"at": "0 s", "do": "set-scheduler", "scheduler": "cloud"})
    assert order.refusal(config, ["edge-1"]).startswith("the time of a scheduler that is a part of the engine")


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("on: edge-1", "on: edge-9", "on", r"no node 'edge-9' with a cpu .did you mean 'edge-2'"),
        ("on: edge-1", "on: camera-1", "on", "no node 'camera-1' with a cpu"),
        ("on: edge-1", "on: edge-2", "on", "'edge-2' sleeps"),
        ("5 ms", "-5 ms", "as", "-5 ms"),
        ("5 ms", "5 kB", "as", "5 kB"),
        ("5 ms", "0 ms", "as", "0 ms"),
        ("5 ms", "guessed", "as", "guessed"),
        ("5 ms", "measured", "as", "part of the engine, cannot be measured"),
        ("least-loaded", "edf, decide: 1 s", "", "decides by the clock"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(tmp_path, old, new, path, words):
    file = tmp_path / "decides.cosim.yaml"
    file.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError, match=words) as wrong:
        compile_plan(load(file))
    assert [problem.path for problem in wrong.value.problems] == [f"adapters.continuum.deciding.{path}".rstrip(".")]
