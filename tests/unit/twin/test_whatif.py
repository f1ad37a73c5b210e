"""What if, from now: candidates meet the same arrivals, and draws are written as the scenario has them."""

from __future__ import annotations

import json

import pytest

from cosim.contract.errors import ScenarioError
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.prediction import draws
from cosim.twin.prediction.whatif import AS_IT_IS, what_if

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: queue
run: {duration: 30 s, step: 1 s, seed: 5}
adapters:
  continuum: {scheduler: nearest}
nodes:
  client: {kind: device}
  worker: {kind: edge, cpu: 1 x 1 GHz}
links:
  - {between: [client, worker], rate: 1 Gbit/s, delay: 2 ms}
workloads:
  ask: {from: client, arrivals: poisson 5 Hz, work: exponential 60 Mcycles}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whatif")
    file = folder / "scenario.cosim.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file, run_plan(compile_plan(load(file)), folder / "runs").folder


def test_candidates_are_answered_with_bands_and_differences(recorded, tmp_path):
    scenario, run = recorded
    candidates = {
        "nothing": ["nodes.client.kind=device"],
        "twice the load": ["workloads.ask.arrivals=poisson 10 Hz"],
        "faster": ["nodes.worker.cpu=1 x 2 GHz"],
    }

    def answers():
        return what_if(scenario, run, candidates, folder=tmp_path, horizon=20.0, warm=10.0, count=8, workers=1)

    found = {one.name: one for one in answers()}
    assert list(found) == [AS_IT_IS, *candidates]
    for band in found["nothing"].differences.values():
        assert band.low == band.high == 0.0  # the same arrivals and works
    assert found["faster"].differences["response"].high < 0.0
    assert found["twice the load"].differences["response"].low > 0.0
    usual = found[AS_IT_IS].bands["completed"]
    assert 60 < usual.middle < 140  # 20 s at about 5 Hz
    assert found["twice the load"].bands["completed"].middle == pytest.approx(200, rel=0.2)
    assert [one.bands for one in answers()] == [one.bands for one in found.values()]
    with pytest.raises(ScenarioError, match=r"change 'typo'.*nodes\.wrker\.cpu: there is no node 'wrker'"):
        what_if(
            scenario, run, {"typo": ["nodes.wrker.cpu=1 x 2 GHz"]}, folder=tmp_path, horizon=20.0, warm=10.0, count=5
        )


def test_a_scenario_that_no_batch_can_run_is_refused(recorded, tmp_path):
    _, run = recorded
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(SCENARIO.replace("adapters:", "adapters:\n  telemetry: {}"), encoding="utf-8")
    with pytest.raises(ScenarioError, match="'as it is' cannot be made in batches: it has 2 adapters"):
        what_if(file, run, {}, folder=tmp_path, horizon=20.0, warm=10.0, count=8, workers=1)


def test_a_twin_of_values_that_the_scenario_does_not_free_is_refused(recorded, tmp_path):
    scenario, run = recorded
    with pytest.raises(ScenarioError, match="frees none of the values that were calibrated: speed"):
        what_if(scenario, run, {}, folder=tmp_path, horizon=20.0, warm=10.0, draws=[{"speed": 1.0}], workers=1)


def test_draws_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(ScenarioError, match="no draws of a posterior"):
        draws.read(tmp_path)
    (tmp_path / "x.draws.json").write_text(json.dumps({"draws": [{"nodes.worker.cpu": "1 x 2 GHz"}]}), encoding="utf-8")
    (settings,) = draws.read(tmp_path)
    assert draws.overrides(settings) == ['nodes.worker.cpu="1 x 2 GHz"']
