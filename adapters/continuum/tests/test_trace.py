"""Events of tasks and nodes, told while they happen."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.config import ContinuumConfig, EventName
from cosim.adapters.continuum.tests.test_continuum_adapter import CAR, CLOUD, EDGE, UAV, begin, cars, link, load, scene
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event, Fleet, Link, SlotRange, Stage
from cosim.contract.equipment import Power, PowerStates
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Battery
from cosim.contract.signals import CATALOGUE, NODE_EVENTS, TASK_EVENTS, TASK_STATUS

UNTIL = 20
CREATED, ASSIGNED, ENDED = 0, 1, 5
SLEEPY = replace(EDGE, states=PowerStates(sleep_after=1.5, sleep_power=2.0, wake_time=0.25, boot_time=0.5))
DOOMED = replace(
    UAV, radio_energy_sent=0.0, power=Power((10.0, 10.0)), battery=Battery(capacity="105 J")
)  # dead after 10.5 s
GRAPH = (
    Stage("capture", Law("fixed", 1e8), Law("fixed", 4e5), (), False),
    Stage("left", Law("fixed", 2e8), Law("fixed", 1e5), (0,), False),
    Stage("right", Law("fixed", 3e8), Law("fixed", 5e5), (0,), False),
    Stage("act", Law("fixed", 1e7), Law("fixed", 0.0), (1, 2), False),
)


def world():
    """Two hosts, a drone that runs out of power, four cars that come and go; tasks and jobs."""
    fleet = Fleet("cars", "sumo", 0, 4, CAR)
    cloud = Link((SlotRange(0),), (SlotRange(1),), LinkState(20e6, 0.02))
    tasks = load(SlotRange(2), SlotRange(3, 4), arrivals="poisson", rate=1.0, work=Law("exponential", 2e9), stop=13.8)
    jobs = load(SlotRange(3, 4), name="jobs", arrivals="poisson", rate=0.4, graph=GRAPH, stop=12.5)
    late = replace(tasks, name="late", start=17.2, stop=19.0)
    return scene(SLEEPY, CLOUD, DOOMED, links=(cloud,), workloads=(tasks, jobs, late), fleets=(fleet,))


HAPPENS = (
    Event(4.3, "fail", nodes=(SlotRange(1),)),
    Event(6.85, "recover", nodes=(SlotRange(1),)),
    Event(12.2, "fail", nodes=(SlotRange(0),)),
    Event(13.1, "recover", nodes=(SlotRange(0),)),
)


def frames(time):
    """Who is there, and served, in the second that `time` lies in; every third second some are out of coverage."""
    second = float(int(time))
    there = [3, 4, 5] if second < 8 else [4, 5, 6]
    generation = [1, 1, 1, 1] if second < 12 else [1, 2, 1, 1]  # another car takes slot 4
    served = [2, *there] if second % 3 else [2, there[0]]
    return {
        "mobility": [cars(time, there, generation)],
        "link": [link(time, [(slot, 0 if slot in served else -1, 8e6) for slot in (2, *there)])],
    }


def drive(period=1.0, events=HAPPENS, **config):
    """All rows of the traces and of `task`, as columns, and the books."""
    place = world()
    adapter = begin(place, **{"scheduler": "random", "patience": "800 ms", "trace": {}, **config})
    found = {}
    for number in range(round(UNTIL / period) + 1):
        time = number * period
        due = [event for event in events if time - period < event.at <= time]
        for frame in adapter.step(time, Inputs(frames(time), due)):
            assert fault(frame, CATALOGUE[frame.signal], place.capacity) == ""
            found.setdefault(frame.signal, []).append(frame)
    rows = {}
    for signal, all_of in found.items():
        rows[signal] = {name: np.concatenate([frame[name] for frame in all_of]) for name in all_of[0].columns}
        rows[signal]["slot"] = np.concatenate([frame.slot for frame in all_of])
        rows[signal]["time"] = np.concatenate([np.full(len(frame), frame.time) for frame in all_of])
    return rows, adapter.finish()


@pytest.fixture(scope="module")
def driven():
    return drive()


def as_set(rows):
    """The rows but for the time of telling; times of nodes rounded, as some are sums."""
    named = [rows[name] for name in sorted(rows) if name not in ("time", "at")]
    keys = list(zip(*named, np.round(rows["at"], 9), strict=True))
    assert len(set(keys)) == len(keys)
    return set(keys)


def test_every_event_is_told_once_and_while_it_happens(driven):
    events = driven[0]["task_event"]
    assert len(events["task"]) == len(as_set(events)) > 400
    assert len(set(zip(events["task"], events["event"], strict=True))) == len(events["task"])
    assert np.all(events["at"] <= events["time"])
    assert np.all(events["at"] >= events["time"] - 1.0)
    in_order = np.diff(events["at"]) >= 0.0
    assert np.all(in_order | (np.diff(events["time"]) > 0.0))
    assert set(events["event"]) == set(range(6))


def test_events_of_a_task_are_in_order_and_agree_with_its_row(driven):
    events, tasks = driven[0]["task_event"], driven[0]["task"]
    assert set(tasks["status"]) > {0, TASK_STATUS.index("no-coverage"), TASK_STATUS.index("left")}
    of = {}
    for task, event, at, host in zip(events["task"], events["event"], events["at"], events["host"], strict=True):
        of.setdefault(task, {})[event] = (at, host)
    for found in of.values():
        times = [found[event][0] for event in sorted(found)]
        assert times == sorted(times)
    whole = {code: name for code, name in enumerate(TASK_EVENTS) if name != "assigned"}
    for k, task in enumerate(tasks["task"]):
        reported = of[task]
        codes = (CREATED, ENDED) if tasks["workload"][k] == 1 else whole
        for code in codes:
            at = tasks[TASK_EVENTS[code]][k]
            assert reported[code][0] == at if code in reported else np.isnan(at)
        assert reported[ENDED][1] == tasks["host"][k]
        if tasks["workload"][k] != 1:
            assert (ASSIGNED in reported) == (tasks["host"][k] >= 0)
            assert all(reported[code][1] == tasks["host"][k] for code in reported if code >= ASSIGNED)
    first = events["event"] == CREATED
    assert np.array_equal(events["at"][first], events["created"][first])
    ended = events["event"] == ENDED
    assert np.array_equal(np.sort(events["task"][ended & (events["job"] < 0)]), np.sort(tasks["task"]))
    assert np.all(events["status"][ended] >= 0)
    assert np.all(events["status"][~ended] == -1)
    assert np.all(events["host"][first] == -1)


def test_the_events_add_up_to_the_books(driven):
    events, books = driven[0]["task_event"], driven[1]
    for code, (name, book) in enumerate(books["workloads"].items()):
        whole = (events["workload"] == code) & (events["job"] < 0)
        assert name == ("detect", "jobs", "late")[code]
        assert np.sum(whole & (events["event"] == CREATED)) == book["created"]
        ends = events["status"][whole & (events["event"] == ENDED)]
        assert np.sum(ends == 0) == book["completed"]
        assert {TASK_STATUS[status]: int(np.sum(ends == status)) for status in set(ends) - {0}} == book["failed"]
    stages = list(books["stages"]["jobs"].values())
    for number, book in enumerate(stages):
        of = (events["workload"] == 1) & (events["stage"] == number)
        assert np.sum(of & (events["event"] == CREATED)) == book["created"]
        assert np.sum(of & (events["status"] == 0)) == book["completed"]


def test_a_task_that_waits_for_coverage_is_assigned_when_that_is_back(driven):
    events = driven[0]["task_event"]
    created = {
        task: at for task, at, event in zip(*(events[n] for n in ("task", "at", "event")), strict=True) if not event
    }
    waits = [
        at - created[task]
        for task, at, event, job in zip(*(events[n] for n in ("task", "at", "event", "job")), strict=True)
        if event == ASSIGNED and job < 0
    ]
    assert any(wait > 0.0 for wait in waits)
    assert max(waits) <= 0.8


@settings(max_examples=4, deadline=None)
@given(period=st.sampled_from([0.125, 0.25, 0.5]))
def test_any_stepping_tells_the_same(driven, period):
    fine, _ = drive(period)
    for signal in ("task_event", "node_event"):
        assert as_set(fine[signal]) == as_set(driven[0][signal])


def test_nodes_tell_what_becomes_of_them(driven):
    rows = driven[0]["node_event"]
    reported = [
        (NODE_EVENTS[event], int(slot), float(at))
        for event, slot, at in zip(rows["event"], rows["slot"], rows["at"], strict=True)
    ]
    assert ("battery-empty", 2, pytest.approx(10.5)) in reported
    for event in (
        ("fail", 1, 4.3), ("recover", 1, 6.85), ("fail", 0, 12.2), ("recover", 0, 13.1), ("boot", 0, 13.1),
        ("ready", 0, 13.6), ("appear", 3, 0.0), ("vanish", 3, 8.0), ("appear", 6, 8.0), ("vanish", 4, 12.0),
        ("appear", 4, 12.0),
    ):  # fmt: skip
        assert event in reported
    vanished = (rows["event"] == NODE_EVENTS.index("vanish")) & (rows["slot"] == 4)
    assert rows["created"][vanished].tolist() == [0.0]  # the one that was there before


def test_a_machine_sleeps_and_wakes_as_its_books_say(driven):
    rows, books = driven
    reported = rows["node_event"]
    of = {
        name: reported["at"][(reported["event"] == NODE_EVENTS.index(name)) & (reported["slot"] == 0)]
        for name in NODE_EVENTS
    }
    slept = [
        min(end for end in [*of["wake"], *of["fail"], float(UNTIL)] if end >= begin) - begin for begin in of["sleep"]
    ]
    assert sum(slept) == pytest.approx(books["states"]["asleep"].get("edge-1", 0.0))
    assert len(of["wake"]) > 0


def test_what_is_chosen_is_told_and_off_costs_nothing(driven):
    plain, books = drive(trace=None)
    assert set(plain) == {"task", "host", "traffic"}
    assert books == driven[1]
    some, _ = drive(
        trace={"workloads": ["jobs"], "nodes": ["tier:cloud", "ca*"], "events": ["ended", "fail", "vanish"]}
    )
    every = driven[0]["task_event"]
    kept = (every["workload"] == 1) & (every["event"] == ENDED)
    assert as_set(some["task_event"]) == as_set({name: column[kept] for name, column in every.items()})
    nodes = driven[0]["node_event"]
    kept = (nodes["slot"] != 0) & np.isin(nodes["event"], [NODE_EVENTS.index(name) for name in ("fail", "vanish")])
    assert as_set(some["node_event"]) == as_set({name: column[kept] for name, column in nodes.items()})
    assert "node_event" not in drive(trace={"nodes": []})[0]


@pytest.mark.parametrize(
    ("trace", "text", "path"),
    [
        ({"workloads": ["detekt"]}, "there is no workload 'detekt'", "adapters.continuum.trace.workloads"),
        ({"nodes": "uav-[2..9]"}, "'uav-[2..9]' selects no node", "adapters.continuum.trace.nodes"),
    ],
)
def test_names_that_are_not_there_are_told(trace, text, path):
    with pytest.raises(ScenarioError) as caught:
        begin(world(), trace=trace)
    assert text in str(caught.value)
    assert caught.value.problems[0].path == path


def test_unknown_events_are_refused_and_ports_follow_the_choice():
    assert get_args(EventName) == (*TASK_EVENTS, *NODE_EVENTS)
    with pytest.raises(ValidationError, match="events"):
        ContinuumConfig(trace={"events": ["explode"]})
    writes = [
        ADAPTER.ports_of(ContinuumConfig(trace=trace)).writes[3:]
        for trace in (None, {}, {"workloads": []}, {"events": ["created"]})
    ]
    assert writes == [(), ("task_event", "node_event"), ("node_event",), ("task_event",)]
