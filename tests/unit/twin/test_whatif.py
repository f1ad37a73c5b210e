"""What if, from now: candidates meet the same arrivals, and draws are written as the scenario has them."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import closing
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.whatif import course, of_run
from cosim.contract.errors import RunError, ScenarioError
from cosim.results.folder import RunFolder, digests
from cosim.results.load import load as load_run
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


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """How many threads this process seems to have: those of pytest-xdist only wait, and with more than one each answer
    comes from a fresh interpreter."""
    count = [1]
    monkeypatch.setattr(threading, "active_count", lambda: count[0])
    return count


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whatif")
    file = folder / "scenario.cosim.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file, run_plan(compile_plan(load(file)), folder / "runs", driver="loop").folder


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


def test_bands_are_as_wide_as_the_count_of_arrivals_leaves_the_rate_open(recorded, tmp_path):
    scenario, run = recorded
    with closing(load_run(run)) as tables:
        (n,) = tables.execute("SELECT count(*) FROM task WHERE created >= 10").fetchone()
    (found,) = what_if(scenario, run, {}, folder=tmp_path, horizon=20.0, warm=20.0, count=300, workers=1)
    band = found.bands["completed"]
    # Poisson over 20 s at a rate that is Gamma(n + 1/2, 20 s): mean n + 1/2, variance 2 (n + 1/2); 90 % of a normal
    assert band.middle == pytest.approx(n + 0.5, rel=0.05)
    assert band.high - band.low == pytest.approx(2 * 1.645 * (2 * (n + 0.5)) ** 0.5, rel=0.15)


def test_tasks_that_come_every_so_often_go_on_at_their_period(tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    text = SCENARIO.replace("poisson 5 Hz", "every 700 ms").replace("exponential 60 Mcycles", "60 Mcycles")
    file.write_text(text, encoding="utf-8")
    longer = run_plan(compile_plan(load(file, ["run.duration=60 s"])), tmp_path / "longer", driver="loop").folder
    run = run_plan(compile_plan(load(file)), tmp_path / "runs", driver="loop").folder
    (found,) = what_if(file, run, {}, folder=tmp_path / "work", horizon=30.0, warm=10.0, count=3, workers=1)
    then = of_run(longer, 30.0, 60.0)
    for name in ("completed", "response"):
        band = found.bands[name]
        assert band.low == band.high == pytest.approx(then[name], rel=1e-9), name


def test_events_are_changes_of_a_batch_as_well(recorded, tmp_path):
    scenario, run = recorded
    candidates = {
        "fails": ["do=fail", "node=worker"],
        "later": ["do=fail", "node=worker", "at=45 s", "for=20 s"],
        "twice": ["do=fail", "node=worker", "for=2 s", "do=fail", "node=worker", "at=31 s", "for=1 s"],
        "link": ["do=degrade", "link=client/worker", "delay=50 ms"],
    }
    answers = what_if(scenario, run, candidates, folder=tmp_path, horizon=20.0, warm=10.0, count=5, workers=1)
    found = {one.name: {name: band.middle for name, band in one.bands.items()} for one in answers}
    assert found["fails"]["completed"] == 0
    usual = found[AS_IT_IS]["completed"]
    assert 0.6 * usual < found["later"]["completed"] < 0.9 * usual  # 5 s of 20 s
    assert 0.8 * usual < found["twice"]["completed"] < usual
    assert found["link"]["response"] - found[AS_IT_IS]["response"] == pytest.approx(0.1, rel=0.05)  # both ways


def test_a_run_of_the_continuum_alone_is_branched_when_exact_answers_are_asked_for(recorded, tmp_path):
    scenario, run = recorded
    changes = ["do=fail", "node=worker", "for=2 s"]
    _, found = what_if(scenario, run, {"it": changes}, folder=tmp_path, now=20.0, horizon=10.0, hosts=True, exact=True)
    ordinary = run_plan(course(scenario, changes, 20.0, 30.0), tmp_path / "runs", driver="loop").folder
    assert {name: band.middle for name, band in found.bands.items()} == of_run(ordinary, 20.0, 30.0)


COUPLED = """\
apiVersion: cosim/v1
kind: Scenario
name: coupled
run: {duration: 20 s, step: 500 ms, seed: 5}
adapters:
  radio: {model: ci, exponent: 3}
  continuum: {}
kinds:
  mast:
    kind: edge
    cpu: 2 x 1 GHz
    power: {idle: 2 W, max: 5 W}
    cell: {power: 33 dBm, carrier: 3.5 GHz, bandwidth: 20 MHz}
nodes:
  phone-[1..3]: {kind: device, at: [0 m, 0 m, 0 m]}
  near: {kind: mast, at: [50 m, 0 m, 0 m]}
  far: {kind: mast, at: [0 m, 200 m, 0 m]}
links:
  - {between: [near, far], rate: 100 Mbit/s, delay: 10 ms}
workloads:
  ask: {from: phone-*, arrivals: poisson 5 Hz, input: 20 kB, output: 2 kB, work: exponential 60 Mcycles}
events:
  - {at: 8 s, do: fail, node: far, for: 1 s}
  - {at: 13 s, do: fail, node: near, for: 2 s}
"""
EVENTS = {
    "near": ["do=fail", "node=near", "for=3 s"],
    "both": ["do=fail", "node=near", "do=fail", "node=far", "at=11.3 s", "for=2 s"],
    "slow": ["do=degrade", "link=near/far", "rate=1 %", "for=5 s"],
}


@pytest.fixture(scope="module")
def coupled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coupled")
    file = folder / "scenario.cosim.yaml"
    file.write_text(COUPLED, encoding="utf-8")
    return file, run_plan(compile_plan(load(file)), folder / "runs", driver="loop").folder


@pytest.mark.slow
@pytest.mark.parametrize(("end", "seen"), [(16.0, 2), (25.0, 1)])  # s; the scenario's run ends at 20
def test_candidates_of_a_coupled_run_are_runs_with_their_events(coupled, threads, tmp_path, end, seen):
    scenario, run = coupled
    threads[0] = seen
    found = what_if(scenario, run, EVENTS, folder=tmp_path, now=10.0, horizon=end - 10.0, hosts=True)
    for answer, changes in zip(found, [[], *EVENTS.values()], strict=True):
        ordinary = run_plan(course(scenario, changes, 10.0, end), tmp_path / "runs", driver="loop").folder
        assert {name: band.middle for name, band in answer.bands.items()} == of_run(ordinary, 10.0, end)
        assert all(band.low == band.high and band.runs == 1 for band in answer.bands.values())
    assert found == what_if(scenario, run, EVENTS, folder=tmp_path, now=10.0, horizon=end - 10.0, hosts=True, workers=1)
    answers = {one.name: one for one in found}
    assert answers["both"].differences["completed"].middle < 0.0
    assert answers["near"].differences["power"].middle < 0.0


def test_an_event_to_come_can_be_dropped(coupled, tmp_path):
    changes = {"no failure of near": ['events=[{"at": "8 s", "do": "fail", "node": "far", "for": "1 s"}]']}
    _, dropped = what_if(*coupled, changes, folder=tmp_path, now=10.0, horizon=5.0)
    assert dropped.differences["completed"].middle > 0.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["nodes.near.cpu=4 x 1 GHz"], r"change 'it': only events can be added while a coupled run goes on"),
        (["do=fail", "node=near", "at=3 s"], r"change 'it': it changes what has happened before 10 s"),
        (["events=[]"], r"change 'it': it changes what has happened before 10 s"),
        (["do=fail", "node=nar"], r"change 'it': events\.2\.node: 'nar' selects no node"),
        (["do=fall", "node=near"], r"change 'it': events\.2\.do"),
        (["node=near"], r"'node' is no path of a scenario"),
    ],
)
def test_changes_that_are_no_events_from_now_on_are_refused(coupled, tmp_path, changes, reason):
    with pytest.raises(ScenarioError, match=reason):
        what_if(*coupled, {"it": changes}, folder=tmp_path, now=10.0, horizon=5.0)


def test_runs_that_cannot_be_made_again_are_refused(coupled, tmp_path):
    scenario, run = coupled
    with pytest.raises(ScenarioError, match="its plan is another one"):
        what_if(scenario, run, {}, folder=tmp_path, now=10.0, horizon=5.0, overrides=["run.seed=6"])
    with pytest.raises(ScenarioError, match="values of a posterior need runs in batches"):
        what_if(scenario, run, {}, folder=tmp_path, now=10.0, horizon=5.0, draws=[{"speed": 1.0}])
    apart = ["adapters.radio.isolated=true"]
    other = run_plan(compile_plan(load(scenario, apart)), tmp_path / "runs", driver="loop").folder
    with pytest.raises(ScenarioError, match=r"adapters\.radio: cannot be branched: it runs in a process of its own"):
        what_if(scenario, other, {}, folder=tmp_path, now=10.0, horizon=5.0, overrides=apart)


def test_a_run_with_other_tasks_than_the_recorded_one_is_refused(coupled, tmp_path):
    scenario, run = coupled
    copied = Path(shutil.copytree(run, tmp_path / "copied"))
    file = copied / "tasks.parquet"
    table = pq.read_table(file)
    late = pc.add(table["created"], 1e-9)
    pq.write_table(table.set_column(table.schema.get_field_index("created"), "created", late), file)
    folder = RunFolder.open(copied)
    folder.update(files={**folder.manifest["files"], **digests(copied, file.name)})
    with pytest.raises(RunError, match="cannot be made again: its tasks up to"):
        what_if(scenario, copied, {}, folder=tmp_path, now=10.0, horizon=5.0)


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
