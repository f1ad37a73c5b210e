"""Containers on the bus."""

import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.continuum.tests.specialities import SPECIAL
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Fleet, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, fault
from cosim.contract.laws import Law
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.extensions.cosco.adapter import ADAPTER
from cosim.extensions.cosco.adapter.config import POLICIES, IntervalConfig
from cosim.extensions.cosco.interval import QUIRKS, layout
from cosim.results.ledgers import ledger_faults

EDGE = Node(
    "edge",
    "edge",
    "edge",
    cores=2,
    clock=2e9,
    memory=4e9,
    power=Power((50.0, 100.0)),
    price_cpu=1e-5,
    price_energy=1e-7,
)
CLOUD = Node("cloud", "cloud", "cloud", cores=16, clock=2e9, power=Power((100.0, 300.0)))
CAMERA = Node("camera", "device", "device")
PERIOD = 60.0


def load(*sources, **options):
    settings = {
        "name": "jobs", "sources": sources, "arrivals": "poisson", "rate": 1 / 60, "input": Law("fixed", 5e8),
        "output": Law("fixed", 0.0), "work": Law("exponential", 1e11), "deadline": 120.0, "share": 1.0, "active": 0.0,
        "idle": 0.0, "start": 0.0, "stop": float("inf"),
    }  # fmt: skip
    return Workload(**(settings | options))


def scene(*nodes, workloads=None, fleets=()):
    nodes = nodes or (EDGE, CLOUD, CAMERA, replace(CAMERA, id="camera-2"))
    workloads = (load(SlotRange(2, 2)),) if workloads is None else workloads
    return Scene.build(nodes, fleets, (), workloads)


def begin(world, seed=(1, 2, 3), **config):
    adapter = ADAPTER.build(ADAPTER.load_config()(**config))
    adapter.start(Context("interval", world, PERIOD, duration=6000.0, seed=seed, root=".", scratch="."))
    return adapter


def run(adapter, world, steps, frames=lambda time: {}, events=()):
    tasks, hosts = [], []
    for number in range(steps + 1):
        time = number * PERIOD
        due = [event for event in events if time - PERIOD < event.at <= time]
        out = adapter.step(time, Inputs(frames(time), due))
        assert [frame.signal for frame in out] == ["task", "host"]
        for frame in out:
            assert fault(frame, CATALOGUE[frame.signal], world.capacity) == ""
        tasks.append(out[0])
        hosts.append(out[1])
    columns = {name: np.concatenate([frame[name] for frame in tasks]) for name in tasks[0].columns}
    columns["device"] = np.concatenate([frame.slot for frame in tasks])
    return columns, hosts


def test_jobs_run_and_the_books_close():
    world = scene()
    adapter = begin(world)
    tasks, hosts = run(adapter, world, 100)
    books = adapter.finish()
    adapter.close()
    assert ledger_faults(books) == []
    assert books["tasks"]["created"] == pytest.approx(200, abs=60)
    assert books["tasks"]["completed"] == len(tasks["task"]) > 100
    assert books["tasks"]["late"] == tasks["late"].sum() > 0
    assert np.all(np.diff(np.sort(tasks["task"])) == 1)
    assert set(tasks["device"]) == {2, 3}
    assert set(tasks["host"]) == {0, 1}
    assert np.all(tasks["created"] % PERIOD == 0.0)
    for before, after in (("created", "uploaded"), ("started", "computed"), ("computed", "ended")):
        assert np.all(tasks[before] <= tasks[after])
    late = tasks["ended"] - tasks["created"] > tasks["deadline"]
    np.testing.assert_array_equal(late, tasks["late"])
    assert hosts[0]["power"].tolist() == [50.0, 100.0]
    assert books["energy"]["by_node"]["edge"] == pytest.approx(hosts[-1]["energy"][0])
    assert sum(frame["power"][0] for frame in hosts[1:]) * PERIOD == pytest.approx(hosts[-1]["energy"][0])
    assert books["cost"]["cpu"] == pytest.approx(2 * 1e-5 * 6000.0)
    assert books["intervals"] == 100


@pytest.mark.parametrize("events", [(), (Event(1200.0, "fail", (SlotRange(0),)),)])
def test_ages_of_what_is_left_are_those_that_a_longer_run_shows(events):
    world = scene(workloads=(load(SlotRange(2)), load(SlotRange(3), name="more", rate=1 / 20, stop=1200.0)))
    cut, whole = begin(world), begin(world)
    run(cut, world, 20, events=events)
    tasks, _ = run(whole, world, 400, events=events)
    books = cut.finish()
    assert whole.finish()["workloads"]["more"]["ages"] == []
    end = 20 * PERIOD
    for number, name in enumerate(("jobs", "more")):
        left = (tasks["workload"] == number) & (tasks["created"] <= end) & (tasks["ended"] > end)
        entry = books["workloads"][name]
        assert entry["in_flight"] >= left.sum() > 0
        assert entry["ages"] == sorted((end - tasks["created"][left]).tolist())
    assert books["tasks"]["ages"] == sorted(books["workloads"]["jobs"]["ages"] + books["workloads"]["more"]["ages"])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("physics", ["corrected", "compatible"])
def test_every_policy_under_both_physics(policy, physics):
    world = scene()
    adapter = begin(world, policy=policy, physics=physics)
    tasks, _ = run(adapter, world, 40)
    assert ledger_faults(adapter.finish()) == []
    assert len(tasks["task"]) > 20


def test_the_policies_are_the_models():
    assert layout.POLICIES[1:] == POLICIES


def test_two_runs_are_equal_to_the_bit_and_another_seed_is_not():
    world = scene()
    runs = [run(begin(world, seed), world, 40)[0] for seed in ((1,), (1,), (2,))]
    assert all(runs[0][name].tobytes() == runs[1][name].tobytes() for name in runs[0])
    assert runs[0]["ended"].tobytes() != runs[2]["ended"].tobytes()


def test_a_host_that_fails_for_a_while():
    world = scene(EDGE, CAMERA, workloads=(load(SlotRange(1), work=Law("fixed", 3e11)),))
    events = [Event(20 * PERIOD, "fail", (SlotRange(0),)), Event(30 * PERIOD, "recover", (SlotRange(0),))]
    adapter = begin(world, slots=3)
    tasks, hosts = run(adapter, world, 60, events=events)
    names = np.array(TASK_STATUS)[tasks["status"]]
    assert set(names) == {"completed", "node-failed"}
    assert np.all(tasks["ended"][names == "node-failed"] == 20 * PERIOD)
    assert np.isnan(tasks["computed"][names == "node-failed"]).all()
    assert [frame["up"][0] for frame in hosts].count(False) == 10
    assert not np.any((tasks["ended"] > 20 * PERIOD) & (tasks["ended"] < 30 * PERIOD))
    assert ledger_faults(adapter.finish()) == []


def test_members_of_a_fleet_make_jobs_while_they_are_there():
    fleet = Fleet("cars", "sumo", 0, 3, CAMERA)
    world = scene(EDGE, CLOUD, workloads=(load(SlotRange(2, 3), arrivals="every"),), fleets=(fleet,))

    def frames(time):
        slots = np.array([2, 4] if 10 * PERIOD <= time < 20 * PERIOD else [], np.int32)
        columns = dict.fromkeys(("x", "y", "z", "speed", "heading"), np.zeros(len(slots)))
        return {"mobility": [Frame("mobility", time, slots, columns)]}

    tasks, _ = run(begin(world), world, 40, frames)
    assert set(tasks["device"]) == {2, 4}
    assert len(tasks["task"]) == 20
    assert tasks["created"].min() == 10 * PERIOD
    assert tasks["created"].max() == 19 * PERIOD


def test_start_stop_share_and_phases():
    loads = (
        load(SlotRange(2), name="a", arrivals="every", rate=1 / 20, start=90.0, stop=300.0),
        load(SlotRange(2, 2), name="b", share=0.0),
        load(SlotRange(2), name="c", arrivals="every", rate=1 / 20, active=10.0, idle=20.0),
    )
    world = scene(workloads=loads)
    adapter = begin(world, slots=20)
    run(adapter, world, 50)
    created = {name: entry["created"] for name, entry in adapter.finish()["workloads"].items()}
    assert created == {"a": 10, "b": 0, "c": 50}


def test_demands_of_workloads_and_quirks_one_by_one():
    world = scene()
    fast = begin(world, containers={"jobs": {"peak": "1 GHz"}})
    slow, _ = run(fast, world, 30)
    quick, _ = run(begin(world, peak="8 GHz"), world, 30)
    assert slow["computed"].mean() - slow["started"].mean() > quick["computed"].mean() - quick["started"].mean()
    odd = begin(world, physics="compatible", quirks={"constant-cost": False})
    run(odd, world, 10)
    assert odd.finish()["quirks"] == sorted(set(QUIRKS) - {"first-task-load", "deadline-twice", "constant-cost"})
    constant = begin(world, quirks={"constant-cost": True, "latency-by-index": True, "swapped-bandwidth": True})
    run(constant, world, 10)
    assert constant.finish()["cost"]["total"] == pytest.approx(782.4)
    assert ledger_faults(constant.finish()) == []


@pytest.mark.parametrize(
    ("world", "config", "said"),
    [
        (scene(CAMERA, workloads=()), {}, "no edge or cloud node has a cpu"),
        (scene(), {"quirks": {"x": True}}, "there is no quirk 'x'"),
        (scene(), {"containers": {"y": {}}}, "there is no workload 'y'"),
        (scene(), {"policy": "no.module:f"}, "cannot be imported"),
        (scene(), {"policy": "math:pi"}, "is a float, not a function"),
        (scene(), {"boot": "2 min"}, "longer than an interval"),
    ],
)
def test_mistakes_are_said_at_the_start(world, config, said):
    with pytest.raises(ScenarioError, match=said):
        begin(world, **config)


@pytest.mark.parametrize(("key", "changes"), SPECIAL)
def test_what_the_model_does_not_know_of_a_workload_is_refused(key, changes):
    with pytest.raises(ScenarioError, match="the model knows no") as caught:
        begin(scene(workloads=(load(SlotRange(2, 2)), load(SlotRange(2, 2), name="other", **changes))))
    assert [problem.path for problem in caught.value.problems] == [f"workloads.other.{key}"]
    assert caught.value.problems[0].hint


def test_a_misspelt_policy_is_said_when_the_scenario_is_read():
    with pytest.raises(ValidationError, match="did you mean 'least-loaded'"):
        IntervalConfig(policy="least-loadet")


def test_the_policy_in_the_readme_works(monkeypatch):
    text = (Path(__file__).parents[1] / "adapter" / "README.md").read_text()
    module = types.ModuleType("readme_policy")
    exec(text.split("```python\n")[1].split("```")[0], module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    world = scene()
    tasks, _ = run(begin(world, policy="readme_policy:decide"), world, 30)
    assert len(tasks["task"]) > 10
