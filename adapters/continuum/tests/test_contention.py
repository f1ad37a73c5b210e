"""Busy cores that slow one another down, and that take tasks up, from the scenario to the rows."""

import numpy as np
import pytest

from cosim.adapters.continuum.tests.test_continuum_adapter import begin, run
from cosim.adapters.continuum.tests.test_equipment import plan_of
from cosim.contract.errors import ScenarioError
from tests.plans import through_text

TWINS = """\
apiVersion: cosim/v1
kind: Scenario
name: pair
run: {duration: 10 s, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: least-loaded, discipline: fcfs}
nodes:
  edge-1: {kind: edge, cpu: 2 x 1 GHz, contention: 0.5}
  camera: {kind: device}
links:
  - {between: [camera, edge-1], rate: 1 Gbit/s, delay: 0 s}
workloads:
  look: {from: camera, arrivals: bag 2 every 1 s, input: 0 B, work: 100 Mcycles}
"""


@pytest.mark.parametrize(("text", "seconds"), [(TWINS, 0.15), (TWINS.replace(", contention: 0.5", ""), 0.1)])
def test_two_tasks_at_once_take_longer_than_one(tmp_path, text, seconds):
    plan = plan_of(tmp_path, text)
    assert through_text(plan, tmp_path) == plan
    tasks, _, _ = run(begin(plan.scene, scheduler="least-loaded", discipline="fcfs"), plan.scene, 10)
    assert len(tasks["ended"]) >= 16
    np.testing.assert_allclose(tasks["computed"] - tasks["started"], seconds, rtol=1e-9)


def test_a_core_is_busy_with_each_task_before_its_work(tmp_path):
    plan = plan_of(tmp_path, TWINS.replace("contention: 0.5", "dispatch: 20 ms"))
    tasks, _, _ = run(begin(plan.scene, scheduler="least-loaded", discipline="fcfs"), plan.scene, 10)
    np.testing.assert_allclose(tasks["computed"] - tasks["started"], 0.12, rtol=1e-9)


@pytest.mark.parametrize("key", ["contention: 0.1", "dispatch: 2 ms"])
def test_both_need_a_processor(tmp_path, key):
    with pytest.raises(ScenarioError, match="means nothing without a 'cpu'"):
        plan_of(tmp_path, TWINS.replace("kind: device", f"kind: device, {key}"))
