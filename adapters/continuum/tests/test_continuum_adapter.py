"""The continuum on the bus."""

import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.batch import prepare
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.keys import SetScheduler
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Fleet, Link, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, SlotTable, fault
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Radio
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.scenario.plan.scene import happenings

RADIO = Radio()
EDGE = Node(
    "edge-1",
    "edge",
    "edge",
    cores=4,
    clock=2e9,
    power=Power((20.0, 40.0)),
    price_cpu=0.01,
    price_transfer=1e-9,
    price_energy=1e-7,
)
CLOUD = Node("cloud", "cloud", "cloud", cores=16, clock=3e9, power=Power((100.0, 300.0)))
UAV = Node("uav-1", "uav", "device", radio=RADIO, radio_energy_sent=1e-8)
CAR = Node("cars", "car", "device", radio=RADIO)
BACKHAUL = Link((SlotRange(0),), (SlotRange(1),), LinkState(100e6, 0.02), energy=1e-9)
CARS = SlotRange(3, 4)


def load(*sources, **options):
    settings = {
        "name": "detect", "sources": sources, "arrivals": "every", "rate": 2.0, "input": Law("fixed", 1e5),
        "output": Law("fixed", 1e4), "work": Law("exponential", 2e8), "deadline": 0.4, "share": 1.0, "active": 0.0,
        "idle": 0.0, "start": 0.0, "stop": float("inf"),
    }  # fmt: skip
    return Workload(**(settings | options))


def scene(*nodes, links=(BACKHAUL,), workloads=None, fleets=()):
    workloads = (load(SlotRange(2)),) if workloads is None else workloads
    return Scene.build(nodes or (EDGE, CLOUD, UAV), fleets, links, workloads)


def begin(world, **config):
    adapter = ADAPTER.build(ADAPTER.load_config()(**config))
    context = Context("continuum", world, period=1.0, duration=100.0, seed=(1, 2, 3), root=".", scratch=".")
    adapter.start(context)
    return adapter


def link(time, rows):
    """A radio frame from rows of (slot, cell, bit/s)."""
    slot, cell, rate = (np.array(column) for column in zip(*rows, strict=True))
    none = np.zeros(len(slot))
    columns = {
        "cell": cell.astype(np.int32), "rsrp": none, "snr": none, "uplink_rate": rate.astype(np.float64),
        "downlink_rate": rate.astype(np.float64), "delay": none + 0.001, "loss": none,
        "handovers": none.astype(np.int32),
    }  # fmt: skip
    return Frame("link", time, slot.astype(np.int32), columns)


def cars(time, slots, generation):
    none = np.zeros(len(slots))
    table = SlotTable(3, tuple(f"car-{g}" for g in generation), np.array(generation, np.int32), int(time))
    columns = dict.fromkeys(("x", "y", "z", "speed", "heading"), none)
    return Frame("mobility", time, np.array(slots, np.int32), columns, table)


def run(adapter, world, until, frames=lambda time: {}, events=()):
    """Step from 0 s to `until`; the last host and traffic frames, and all tasks."""
    tasks = []
    for time in range(until + 1):
        due = [event for event in events if time - 1 < event.at <= time]
        out = adapter.step(float(time), Inputs(frames(float(time)), due))
        assert [frame.signal for frame in out][:3] == ["task", "host", "traffic"]
        for frame in out:
            assert fault(frame, CATALOGUE[frame.signal], world.capacity) == ""
        tasks.append(out[0])
    columns = {name: np.concatenate([frame[name] for frame in tasks]) for name in tasks[0].columns}
    columns["device"] = np.concatenate([frame.slot for frame in tasks])
    return columns, out[1], out[2]


def served(time):
    return {"link": [link(time, [(2, 0, 10e6)])]}


def test_a_drone_its_edge_host_and_the_books():
    world = scene()
    adapter = begin(world, scheduler="nearest")
    tasks, host, traffic = run(adapter, world, 60, served)
    books = adapter.finish()
    adapter.close()
    assert len(tasks["task"]) == books["tasks"]["completed"] >= 118
    assert set(tasks["host"]) == {0}
    assert books["tasks"]["created"] == books["tasks"]["completed"] + books["tasks"]["in_flight"] == 120
    assert books["tasks"]["late"] == tasks["late"].sum() > 0
    assert host.slot.tolist() == [0, 1]
    assert host["energy"][1] == pytest.approx(100.0 * 60)
    assert 20.0 <= host["power"][0] <= 40.0
    assert host["completed"][0] == books["tasks"]["completed"]
    assert traffic.slot.tolist() == [2]
    assert traffic["sent"][0] == pytest.approx(books["bytes"]["input"]["delivered"], rel=0.02)
    energy, cost = books["energy"], books["cost"]
    assert energy["total"] == pytest.approx(sum(energy["by_node"].values()) + energy["radio"] + energy["links"])
    assert sum(energy["by_tier"].values()) == pytest.approx(sum(energy["by_node"].values()))
    assert energy["by_node"]["edge-1"] == pytest.approx(host["energy"][0])
    assert cost["total"] == pytest.approx(sum(cost["by_node"].values()))
    assert cost["total"] == pytest.approx(cost["cpu"] + cost["transfer"] + cost["energy"])
    assert host["cost"][0] == pytest.approx(cost["by_node"]["edge-1"])
    for way in books["bytes"].values():
        assert way["offered"] == pytest.approx(way["delivered"] + way["dropped"] + way["in_transit"])


def test_a_frame_holds_from_its_time_on():
    world = scene(workloads=(load(SlotRange(2), input=Law("fixed", 1e6), stop=0.5),))
    adapter = begin(world, scheduler="nearest")
    rates = {0.0: 1e6, 2.0: 8e6}
    tasks, _, _ = run(adapter, world, 8, lambda t: {"link": [link(t, [(2, 0, rates[2.0 if t >= 2 else 0.0])])]})
    made = tasks["created"][0]
    sent = (2.0 - made) * 1e6 / 8
    assert tasks["uploaded"][0] == pytest.approx(2.0 + (1e6 - sent) / 1e6 + 0.001)


def test_without_radio_the_links_of_the_scene_serve():
    world = scene(links=(Link((SlotRange(2),), (SlotRange(0),), LinkState(10e6, 0.005)),))
    tasks, _, _ = run(begin(world), world, 10)
    assert {TASK_STATUS[code] for code in tasks["status"]} == {"completed"}


def test_without_any_link_there_is_no_coverage():
    world = scene(links=())
    tasks, _, _ = run(begin(world, patience="500 ms"), world, 10)
    assert {TASK_STATUS[code] for code in tasks["status"]} == {"no-coverage"}
    np.testing.assert_allclose(tasks["ended"] - tasks["created"], 0.5)


def test_members_of_a_fleet_come_and_go():
    world = scene(workloads=(load(CARS, work=Law("fixed", 1e6)),), fleets=(Fleet("cars", "sumo", 0, 4, CAR),))
    adapter = begin(world)

    def frames(time):
        if time < 10:
            slots, generation = [3, 4], [0, 0]
        elif time < 20:
            slots, generation = [4], [0, 0]
        else:
            slots, generation = [3, 4, 5], [1, 0, 0]
        return {"mobility": [cars(time, slots, generation)], "link": [link(time, [(s, 0, 10e6) for s in slots])]}

    tasks, _, traffic = run(adapter, world, 30, frames)
    for slot, spans in {3: [(0, 10), (20, 30)], 4: [(0, 30)], 5: [(20, 30)]}.items():
        created = np.sort(tasks["created"][tasks["device"] == slot])
        inside = sum(((created >= a) & (created <= b)).sum() for a, b in spans)
        assert inside == len(created) > 15
    assert traffic.slot.tolist() == [2, 3, 4, 5]
    assert traffic["sent"][1] == pytest.approx(traffic["sent"][3], rel=0.1)  # a new car starts at zero
    assert set(adapter.finish()["energy"]["by_node"]) == {"edge-1", "cloud"}


def test_a_host_that_fails_for_a_while():
    world = scene(workloads=(load(SlotRange(2), work=Law("fixed", 2e9)),))
    events = [Event(10.25, "fail", (SlotRange(0),)), Event(20.75, "recover", (SlotRange(0),))]
    tasks, host, _ = run(begin(world, scheduler="nearest", patience="1 s"), world, 30, served, events)
    names = np.array(TASK_STATUS)[tasks["status"]]
    assert set(names) == {"completed", "node-failed", "no-coverage"}
    assert np.all(tasks["ended"][names == "node-failed"] == 10.25)
    assert np.all(tasks["ended"][names == "no-coverage"] < 20.75)
    assert host["up"].tolist() == [True, True]
    assert host["energy"][0] < 19.6 * 40.0  # nothing while it was down


def set_scheduler(at, name):
    block = SetScheduler.model_validate({"at": f"{at:g} s", "do": "set-scheduler", "scheduler": name})
    return next(happenings(block, lambda _: ()))


@pytest.mark.parametrize("name", ["nearest", "least-loaded", "random", "round-robin", "hybrid", "edf", "bandit"])
def test_a_scheduler_that_is_set_decides_from_then_on(name):
    hosts = EDGE, CLOUD, UAV, replace(EDGE, id="edge-2", clock=1.5e9)
    links = BACKHAUL, replace(BACKHAUL, a=(SlotRange(3),), b=(SlotRange(0),))
    world = scene(*hosts, links=links, workloads=(load(SlotRange(2), work=Law("exponential", 2e9)),))

    def tasks(first, *events):
        return run(begin(world, scheduler=first), world, 40, served, events)[0]

    wanted = tasks(name)
    for column, values in tasks("cloud", set_scheduler(0.0, name)).items():
        np.testing.assert_array_equal(values, wanted[column], column)
    if name != "bandit":  # which forgets what it has learnt
        for column, values in tasks(name, set_scheduler(17.5, name)).items():
            np.testing.assert_array_equal(values, wanted[column], column)
    changed, cloud = tasks(name, set_scheduler(20.0, "cloud")), 1
    before = changed["created"] < 20.0
    assert set(changed["host"][~before & (changed["status"] == 0)]) == {cloud}
    early = wanted["created"] < 20.0
    order, other = np.argsort(changed["task"][before]), np.argsort(wanted["task"][early])
    assert changed["host"][before][order].tolist() == wanted["host"][early][other].tolist()


def test_many_runs_in_one_process_are_not_prepared_with_a_scheduler_that_changes():
    context = Context("continuum", scene(), 1.0, 10.0, (1, 2, 3), ".", ".")
    for events, prepared in ([], True), ([set_scheduler(5.0, "edf")], False):
        assert (prepare(ContinuumConfig(), context, events) is not None) == prepared


@pytest.mark.parametrize(
    ("config", "name", "said"),
    [
        ({}, "edf", ""),
        ({}, "nearest", ""),
        ({}, "neerest", "neerest"),
        ({}, "os:system", "has a name"),
        ({"threads": 2}, "edf", "'threads'"),
        ({"scheduler": "search", "decide": "5 s"}, "edf", "'decide'"),
    ],
)
def test_schedulers_that_cannot_be_set_are_refused(config, name, said):
    event = SetScheduler.model_validate({"at": "0 s", "do": "set-scheduler", "scheduler": name})
    why = event.refusal(ADAPTER.load_config()(**config), [])
    assert (said in why) if said else why == ""


def test_what_befalls_a_radio_link_is_told_by_the_radio_adapter_alone():
    world = scene(workloads=(load(SlotRange(2), work=Law("fixed", 1e6)),))
    pair = ((SlotRange(2),), (SlotRange(0),))
    events = [Event(10.0, "degrade", link=pair, delay=0.2, rate=0.5), Event(20.0, "restore", link=pair)]
    with_events, _, _ = run(begin(world, scheduler="nearest"), world, 30, served, events)
    without, _, _ = run(begin(world, scheduler="nearest"), world, 30, served)
    np.testing.assert_array_equal(with_events["ended"], without["ended"])


def test_a_fixed_link_that_breaks():
    world = scene(links=(Link((SlotRange(2),), (SlotRange(0, 2),), LinkState(10e6, 0.005)),))
    pair = ((SlotRange(0),), (SlotRange(2),))
    events = [Event(5.0, "degrade", link=pair, rate=0.0), Event(10.0, "restore", link=pair)]
    tasks, _, _ = run(begin(world, scheduler="nearest"), world, 20, events=events)
    broken = (tasks["created"] > 5.0) & (tasks["created"] < 10.0)
    assert set(tasks["host"][broken]) == {1}
    assert 0 in set(tasks["host"][tasks["created"] > 10.0])


def test_two_runs_are_equal_to_the_bit():
    world = scene()
    first, second = (run(begin(world, discipline="fcfs"), world, 30, served) for _ in range(2))
    assert all(column.tobytes() == second[0][name].tobytes() for name, column in first[0].items())
    assert first[1].same_as(second[1])
    assert first[2].same_as(second[2])


@pytest.mark.parametrize(
    ("world", "config", "said"),
    [
        (scene(replace(EDGE, cores=0), replace(CLOUD, cores=0), UAV), {}, "no node can run tasks"),
        (scene(EDGE, replace(CLOUD, cores=0), UAV), {"scheduler": "cloud"}, "no cloud node with a cpu"),
        (scene(), {"scheduler": "no.module:f"}, "cannot be imported"),
        (scene(), {"scheduler": "local"}, "'uav-1' has no cpu"),
        (
            scene(replace(EDGE, cores=0), replace(CLOUD, cores=0), replace(UAV, cores=1, clock=1e9)),
            {},
            "no edge or cloud node with a cpu",
        ),
        (scene(fleets=(Fleet("cars", "sumo", 0, 4, replace(CAR, tier="edge")),)), {}, "takes fleets as devices only"),
    ],
)
def test_mistakes_are_said_at_the_start(world, config, said):
    with pytest.raises(ScenarioError, match=said):
        begin(world, **config)


def test_a_scene_without_workloads_runs():
    world = scene(replace(EDGE, cores=0), replace(CLOUD, cores=0), UAV, workloads=())
    tasks, host, traffic = run(begin(world), world, 3, served)
    assert len(tasks["task"]) == len(host) == 0
    assert len(traffic) == 1


README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("text", [README.split("```yaml\n")[1].split("```")[0], ADAPTER.example])
def test_the_example_blocks_are_valid(text):
    block = YAML(typ="safe").load(text)
    config = block.get("adapters", block)["continuum"]
    assert ADAPTER.load_config()(**config).scheduler == "least-loaded"


def test_the_scheduler_in_the_readme_works(monkeypatch):
    module = types.ModuleType("readme_scheduler")
    exec(README.split("```python\n")[1].split("```")[0], module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    world = scene(workloads=(load(SlotRange(2), work=Law("fixed", 6e9)),))
    tasks, _, _ = run(begin(world, scheduler="readme_scheduler:choose"), world, 30, served)
    assert set(tasks["host"]) == {0, 1}


def test_a_misspelt_scheduler_is_said_when_the_scenario_is_read():
    with pytest.raises(ValidationError, match="there is no scheduler 'nearst'; did you mean 'nearest'"):
        ContinuumConfig(scheduler="nearst")
