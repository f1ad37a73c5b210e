"""Plans: exact ticks, wires, order, slots, events, recordings, hash."""

from collections.abc import Callable

import pytest

from cosim.contract.entities import Event, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.seeds import stream
from cosim.contract.signals import CATALOGUE
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.plan import Plan
from tests.unit.scenario import fakes

MakePlan = Callable[..., Plan]


def test_time_is_counted_in_whole_ticks(make_plan: MakePlan) -> None:
    plan = make_plan()
    assert (plan.step_ns, plan.ticks) == (500_000_000, 1200)
    assert {adapter.name: adapter.period for adapter in plan.adapters} == {"traffic": 1, "air": 2, "engine": 1}


@pytest.mark.parametrize(
    ("step", "step_ns"),
    [("0.3 ms", 300_000), ("7 us", 7_000), ("100 ns", 100), ("0.1 s", 100_000_000), ("0.7 s", 700_000_000)],
)
def test_steps_that_floats_cannot_hold_are_still_exact(make_plan: MakePlan, step: str, step_ns: int) -> None:
    plan = make_plan(overrides=(f"run.step={step}", "adapters.air.step=null", "run.duration=2.1 s", "record={}"))
    assert plan.step_ns == step_ns
    assert plan.ticks * step_ns == 2_100_000_000


@pytest.mark.parametrize(
    ("overrides", "path", "message"),
    [
        (("run.duration=601.2 s",), "run.duration", r"601\.2 s is not a whole number of steps of 500 ms"),
        (("run.step=700 ms",), "run.duration", r"the nearest are 599\.9 s and 600\.6 s"),
        (("adapters.air.step=1.2 s",), "adapters.air.step", r"the nearest are 1 s and 1\.5 s"),
        (("adapters.air.step=100 ms",), "adapters.air.step", r"the nearest is 500 ms\)"),
        (("run.step=0.5 ns",), "run.step", "not a whole number of nanoseconds"),
        (("run.duration=1e9 d",), "run.duration", "at most 146 years"),
        (("record.mobility.every=1.3 s",), "record.mobility.every", "whole number of steps"),
        (("adapters.air.connect=host:5",), "adapters.air.connect", "write tcp://host:port"),
        (("adapters.air.connect=tcp://h:5", "adapters.air.isolated=true"), "adapters.air.isolated", "remove one"),
    ],
)
def test_what_cannot_be_planned(make_plan: MakePlan, overrides: tuple[str, ...], path: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        make_plan(overrides=overrides)
    assert path in {problem.path for problem in caught.value.problems}
    assert all(problem.file is not None for problem in caught.value.problems)


def test_all_that_cannot_be_planned_is_told_at_once(make_plan: MakePlan) -> None:
    with pytest.raises(ScenarioError) as caught:
        make_plan(overrides=("run.duration=601.2 s", "adapters.air.step=1.2 s", "record.mobility.every=1.3 s"))
    assert len(caught.value.problems) == 3


def test_writers_come_before_readers_and_delayed_reads_ask_for_no_order(make_plan: MakePlan) -> None:
    plan = make_plan()
    assert [adapter.name for adapter in plan.adapters] == ["traffic", "air", "engine"]
    air = plan.adapters[1]
    assert [(wire.signal, wire.sources, wire.delayed) for wire in air.reads] == [
        ("mobility", ("traffic",), False),
        ("traffic", ("engine",), True),
    ]


def test_a_reader_gets_every_writer_in_the_order_of_the_schedule(make_plan: MakePlan) -> None:
    more = ("  traffic:", "  buses: {use: traffic}\n  traffic:")
    plan = make_plan(more)
    assert [adapter.name for adapter in plan.adapters] == ["buses", "traffic", "air", "engine"]
    assert plan.adapters[2].reads[0].sources == ("buses", "traffic")
    assert plan.adapters[0].use == "traffic"


def test_the_order_of_the_file_decides_where_wires_do_not(make_plan: MakePlan) -> None:
    text = fakes.FARM.replace("  traffic:\n", "  traffic:\n  rain: {use: weather, city: Volos}\n")
    assert [a.name for a in make_plan(text=text).adapters] == ["traffic", "air", "engine", "rain"]
    text = fakes.FARM.replace("adapters:\n", "adapters:\n  rain: {use: weather, city: Volos}\n")
    assert [a.name for a in make_plan(text=text).adapters] == ["rain", "traffic", "air", "engine"]


def test_circles_are_named(make_plan: MakePlan) -> None:
    with pytest.raises(ScenarioError, match=r"wait for each other") as caught:
        make_plan(overrides=("adapters.air.delayed=false",))
    assert "air -(link)-> engine -(traffic)-> air" in str(caught.value) or (
        "engine -(traffic)-> air -(link)-> engine" in str(caught.value)
    )


def test_a_required_signal_without_writer_names_who_could_write_it(make_plan: MakePlan) -> None:
    text = fakes.FARM.replace("  air:\n    carrier: 3.5 GHz\n    step: 1 s\n", "")
    with pytest.raises(ScenarioError, match=r"'engine' reads 'link', which no adapter writes") as caught:
        make_plan(text=text)
    (problem,) = caught.value.problems
    assert problem.hint == "add one of these adapters: air"
    assert problem.line == fakes.FARM[: fakes.FARM.index("  engine: {")].count("\n") + 1


def test_slots_and_fleets(make_plan: MakePlan) -> None:
    scene = make_plan().scene
    assert [node.id for node in scene.nodes] == ["uav-1", "uav-2", "uav-3", "edge-1", "mast", "cloud"]
    (fleet,) = scene.fleets
    assert (fleet.name, fleet.adapter, fleet.first, fleet.capacity) == ("cars", "traffic", 6, 50)
    assert scene.capacity == 56
    assert fleet.template.radio is not None
    assert scene.nodes[0].position == (0.0, 20.0, 0.0)
    assert scene.nodes[3].power is not None
    assert scene.nodes[3].power.table == (2.7, 8.0)
    assert (scene.nodes[4].cores, scene.nodes[4].clock) == (2, 2e9)
    weeds, report = scene.workloads
    assert weeds.sources == (SlotRange(0), SlotRange(1), SlotRange(2), SlotRange(6, 50))
    assert (report.arrivals, report.rate, report.share, report.deadline) == ("every", 0.1, 0.5, float("inf"))
    assert scene.geo is not None
    assert scene.geo.height == 60.0


def test_events_are_sorted_and_undone(make_plan: MakePlan) -> None:
    link = ((SlotRange(3),), (SlotRange(5),))
    assert make_plan().events == (
        Event(240.0, "degrade", (), link, delay=0.12, loss=0.05, rate=1.0),
        Event(360.0, "fail", (SlotRange(3),)),
        Event(390.0, "recover", (SlotRange(3),)),
    )
    plan = make_plan(("delay: +120 ms,", "for: 10 s, delay: +120 ms,"))
    assert [event.do for event in plan.events] == ["degrade", "restore", "fail", "recover"]
    assert plan.events[1].link == link


def test_everything_is_recorded_unless_the_scenario_says_otherwise(make_plan: MakePlan) -> None:
    plain = make_plan(overrides=("record={}",)).recordings
    assert [r.signal for r in plain] == ["mobility", "link", "cell", "host", "task", "traffic"]
    assert all(r.keep and r.every == 0.0 and r.columns == () and r.slots == () for r in plain)
    chosen = {r.signal: r for r in make_plan(overrides=("record.task.keep=false",)).recordings}
    assert chosen["mobility"].columns == ("x", "y")
    assert chosen["mobility"].slots == ((6, 50),)
    assert chosen["mobility"].every == chosen["host"].every == 2.0
    assert not chosen["task"].keep


def test_seeds_depend_on_the_root_seed_and_the_name_only(make_plan: MakePlan) -> None:
    plan = make_plan()
    assert all(adapter.seed == stream(7, adapter.name) for adapter in plan.adapters)
    more = make_plan(("adapters:\n", "adapters:\n  rain: {use: weather, city: Volos}\n"))
    assert {a.name: a.seed for a in plan.adapters}.items() <= {a.name: a.seed for a in more.adapters}.items()


def test_processes(make_plan: MakePlan) -> None:
    def isolated(*overrides: str) -> dict[str, bool]:
        return {adapter.name: adapter.isolated for adapter in make_plan(overrides=overrides).adapters}

    assert isolated() == {"traffic": True, "air": False, "engine": False}
    assert isolated("adapters.traffic.isolated=false", "adapters.air.isolated=true")["air"]
    assert not isolated("adapters.traffic.connect=tcp://127.0.0.1:5555")["traffic"]


class TestHash:
    def test_it_does_not_depend_on_folder_key_order_or_words(self, make_plan: MakePlan) -> None:
        plan = make_plan()
        same = [
            make_plan(folder="elsewhere"),
            make_plan(("duration: 10 min, step: 500 ms, seed: 7", "seed: 7, step: 500 ms, duration: 600 s")),
            make_plan(("{scheduler: least-loaded, interval: 5 s}", "{interval: 5 s, scheduler: least-loaded}")),
            make_plan(("title: A farm", "title: Another farm # remark")),
        ]
        assert {other.hash for other in same} == {plan.hash}

    def test_it_changes_with_whatever_changes_the_result(self, make_plan: MakePlan) -> None:
        changes = [
            "run.seed=8", "run.duration=11 min", "run.step=250 ms", "adapters.engine.scheduler=random",
            "nodes.edge-1.at=[121 m, 40 m, 5 m]", "links.0.delay=2 ms", "workloads.report.share=60 %",
            "events.0.at=7 min", "record.mobility.every=4 s", "nodes.cars.capacity=51", "geo.origin=[39.36, 22.96]",
            "adapters.air.step=2 s", "kinds.edge.memory=16 GiB", "adapters.air.carrier=3.6 GHz",
        ]  # fmt: skip
        hashes = {make_plan(overrides=(change,)).hash for change in changes}
        assert len(hashes) == len(changes)
        assert make_plan().hash not in hashes


def test_adapters_extend_the_catalogue(make_plan: MakePlan) -> None:
    assert signals_of(make_plan()) == dict(CATALOGUE)
    plan = make_plan(("adapters:\n", "adapters:\n  rain: {use: weather, city: Volos}\n"))
    assert signals_of(plan)["rain"] == fakes.RAIN
    assert plan.adapters[0].origin == "measured"


def test_a_hundred_thousand_nodes(make_plan: MakePlan) -> None:
    plan = make_plan(("nodes:\n", "nodes:\n  d-[1..99000]: {kind: device, at: [1 m, 2 m]}\n"))
    assert len(plan.scene.nodes) == 99_006
    assert plan.scene.nodes[98_999].id == "d-99000"
