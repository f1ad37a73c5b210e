"""The vehicle adapter: who moves, missions, engagements over links, events, and what is refused."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from cosim.adapters.vehicle import ADAPTER, AUTOPILOT, BEHAVIOUR, ENGAGEMENT, IMPACT
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.keys import Disengage, Engage, Pack, Vehicle
from cosim.adapters.vehicle.orders import Go
from cosim.adapters.vehicle.roster import airframe
from cosim.bus.steering import event_kinds, read_event
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Fleet, Geo, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame, fault
from cosim.contract.signals import MOBILITY, VEHICLE
from cosim.physics.vehicles import Copter, Rover, phases
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.scene import happenings
from cosim.testing import check_adapter

DRONE = Node("uav", "uav", "device", (0.0, 0.0, 2.0), keys=(Vehicle(frame="copter").written(),))
TRACTOR = Node(
    "tractor", "rover", "device", (20.0, 0.0, 0.0), keys=(Vehicle(frame="rover", speed="1.5 m/s").written(),)
)
HOUSE = Node("house", "edge", "edge", (0.0, 0.0, 0.0))
WORK = {"tractor": {"rows": {"corner": ["20 m", "5 m"], "rows": 2, "length": "60 m", "pitch": "4 m"}}}
ENGAGE = {"drone": "uav", "target": "tractor", "commands": [{"at": "5 s", "for": "30 s"}]}
SIGNALS = (MOBILITY, VEHICLE, BEHAVIOUR, ENGAGEMENT, AUTOPILOT, IMPACT)


class Run:
    """An adapter that is stepped once a second."""

    def __init__(self, nodes=(DRONE, TRACTOR, HOUSE), root=".", geo=None, **config):
        self.scene = Scene.build(tuple(nodes), geo=geo)
        self.adapter = ADAPTER.build(VehicleConfig.model_validate({"substep": "20 ms", **config}))
        self.adapter.start(Context("vehicle", self.scene, 1.0, 900.0, (3,), str(root), "."))
        self.time, self.ended, self.states = -1.0, [], {}

    def to(self, until, events=(), link=None):
        while self.time < until:
            self.time += 1.0
            due = [event for event in events if self.time - 1.0 < event.at <= self.time]
            frames = {} if link is None else {"peer_link": (link,)}
            self.frames = self.adapter.step(self.time, Inputs(frames, due))
            for frame, signal in zip(self.frames, SIGNALS, strict=True):
                assert fault(frame, signal, self.scene.capacity) == ""
            for slot, code in zip(self.frames[2].slot.tolist(), self.frames[2]["state"].tolist(), strict=True):
                seen = self.states.setdefault(slot, [])
                if not seen or seen[-1] != phases.STATES[code]:
                    seen.append(phases.STATES[code])
            ended = self.frames[3]
            self.ended += [
                {name: ended[name][k].item() for name in ended.columns} | {"slot": int(ended.slot[k])}
                for k in range(len(ended))
            ]
        return self

    def at(self, slot):
        k = self.frames[0].slot.tolist().index(slot)
        return tuple(self.frames[0][axis][k] for axis in "xyz")


def peer_link(*rows):
    """Rows are (sender, receiver, delay, loss)."""
    sender, peer, delay, loss = (np.array(column) for column in zip(*rows, strict=True))
    n = len(rows)
    columns = {
        "peer": peer.astype(np.int32), "rate": np.full(n, 1e7), "delay": delay.astype(float), "jitter": np.zeros(n),
        "loss": loss.astype(float), "rssi": np.full(n, -60.0),
    }  # fmt: skip
    return Frame("peer_link", 0.0, sender.astype(np.int32), columns)


def test_keeps_the_contract():
    check_adapter(ADAPTER)


def test_a_tractor_works_its_rows():
    run = Run(missions=WORK).to(200.0)
    assert run.states[1] == ["turning", "working", "turning", "working", "done"]
    assert run.at(1)[:2] == pytest.approx((24.0, 5.0), abs=1.5)
    assert run.at(0) == (0.0, 0.0, 2.0)
    assert 120.0 < run.adapter.finish()["vehicles"]["tractor"]["travelled"] < 135.0


def test_a_copter_flies_its_points_and_comes_home():
    places = [["30 m", "0 m"], ["30 m", "40 m", "25 m"]]
    run = Run(missions={"uav": {"points": places, "start": "3 s", "speed": "8 m/s"}}).to(25.0)
    assert run.at(0)[2] > 15.0
    run.to(120.0)
    assert run.at(0) == pytest.approx((0.0, 0.0, 2.0), abs=1.0)
    assert run.frames[1]["armed"].tolist() == [False, False]


def test_a_mission_that_waits_for_an_alarm_begins_with_it():
    mission = {"uav": {"points": [["30 m", "0 m", "20 m"], ["30 m", "40 m", "20 m"]], "alarm": True, "start": "5 s"}}

    def alarm(on):
        return {"alarm": (Frame("alarm", 0.0, np.array([2], np.int32), {"on": np.array([on])}),)}

    adapter = Run(missions=mission).adapter
    heights = [adapter.step(float(t), Inputs(alarm(t in (3, 12)), []))[0]["z"][0] for t in range(25)]
    assert heights[:12] == [2.0] * 12  # the alarm at 3 s came before the start
    assert heights[-1] > 15.0
    config = VehicleConfig.model_validate({"missions": mission})
    assert [read.signal for read in ADAPTER.ports_of(config).reads] == ["peer_link", "alarm"]


def test_an_engagement_from_order_to_landing():
    run = Run(missions=WORK, engage=[ENGAGE]).to(90.0)
    way = ["home-idle", "arming", "takeoff", "approach", "follow", "return", "landing", "home-idle"]
    assert run.states[0] == way
    (found,) = run.ended
    assert (found["slot"], found["target"], found["number"]) == (0, 1, 1)
    assert phases.OUTCOMES[found["outcome"]] == "completed"
    assert found["t_engage"] < 25.0
    assert found["coverage"] > 100.0
    reported = json.loads(json.dumps(run.adapter.finish(), allow_nan=False))
    assert reported["engaged"] == {"running": 0, "completed": 1, "aborted": 0, "failed": 0}
    assert reported["engagements"][0]["t_engage"] == found["t_engage"]
    energy = reported["energy"]
    assert energy["by_node"] == {name: entry["energy"] for name, entry in reported["vehicles"].items()}
    assert energy["total"] == pytest.approx(sum(energy["by_node"].values()))
    assert energy["by_node"]["uav"] == pytest.approx(found_energy(found), rel=0.2)


def found_energy(row):
    """J of an engagement, by phase."""
    return sum(float(row[name]) for name in row if name.startswith("energy_"))


def test_gusts_belong_to_the_seed():
    def fly(**more):
        run = Run(missions=WORK, engage=[ENGAGE], gusts="8 m/s", **more).to(40.0)
        return run.at(0)

    assert fly() == fly()
    assert fly() != Run(missions=WORK, engage=[ENGAGE]).to(40.0).at(0)


def test_orders_and_reports_go_over_their_links():
    rows = [(2, 0, 0.4, 0.0), (1, 0, 0.2, 0.0)]
    run = Run(missions=WORK, engage=[{**ENGAGE, "controller": "house"}]).to(34.0, link=peer_link(*rows))
    reported = run.adapter.finish()["engagements"][0]
    assert reported["latency"] == pytest.approx(0.5, abs=0.11)
    assert reported["delay"] == pytest.approx(0.2)
    assert reported["rssi"] == pytest.approx(-60.0)
    assert run.frames[2]["age"][0] == pytest.approx(0.3, abs=0.11)
    deaf = Run(missions=WORK, engage=[{**ENGAGE, "controller": "house"}]).to(60.0, link=peer_link(rows[1]))
    assert deaf.states[0] == ["home-idle"]
    assert phases.REASONS[deaf.ended[0]["reason"]] == "unheard"


def test_without_a_link_from_the_target_the_drone_comes_back():
    run = Run(missions=WORK, engage=[ENGAGE]).to(25.0)
    run.to(80.0, link=peer_link((2, 0, 0.0, 0.0)))
    assert phases.REASONS[run.ended[0]["reason"]] == "link-lost"


def test_failed_vehicles_land_and_stop():
    fail = [Event(20.4, "fail", (SlotRange(0),)), Event(30.0, "fail", (SlotRange(1),))]
    run = Run(missions=WORK, engage=[ENGAGE]).to(35.0, fail)
    there = run.at(1)
    run.to(60.0)
    assert run.at(1) == pytest.approx(there, abs=0.1)
    assert phases.REASONS[run.ended[0]["reason"]] == "node-failed"
    assert run.at(0)[2] == pytest.approx(2.0, abs=0.1)
    run.to(200.0, [Event(61.0, "recover", (SlotRange(1),))])
    assert run.states[1][-1] == "done"


def test_the_same_seed_gives_the_same_run():
    def fly():
        run = Run(missions=WORK, engage=[ENGAGE], link={"delay": "100 ms", "loss": "40 %"}).to(60.0)
        return run.adapter.finish()

    assert fly() == fly()


def test_a_line_of_geojson_is_a_mission(tmp_path):
    line = {"type": "LineString", "coordinates": [[22.9505, 39.36], [22.9505, 39.3603]]}
    data = {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": line}]}
    (tmp_path / "way.geojson").write_text(json.dumps(data), encoding="utf-8")
    run = Run(missions={"tractor": "way.geojson"}, root=tmp_path, geo=Geo(39.36, 22.95, 60.0)).to(120.0)
    assert run.at(1)[:2] == pytest.approx((43.1, 33.3), abs=2.0)


def test_airframes_are_those_of_the_nodes():
    pack = Pack(capacity="1000 mAh", low="30 %")
    copter = airframe(Vehicle(frame="copter", mass="2 kg", speed="12 m/s", acceleration="3 m/s2", battery=pack))
    assert isinstance(copter, Copter)
    assert (copter.mass, copter.speed, copter.accel, copter.climb) == (2.0, 12.0, 3.0, Copter().climb)
    assert (copter.battery.capacity, copter.battery.low) == (1.0, 0.3)
    rover = airframe(Vehicle(frame="rover", steering="ackermann", wheelbase="2 m"))
    assert rover == Rover(steering="ackermann", wheelbase=2.0)
    assert math.isclose(rover.battery.capacity, 40.0)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"missions": {"nobody": [["1 m", "2 m"]]}}, "'nobody' is no vehicle"),
        ({"missions": WORK, "engage": [{**ENGAGE, "drone": "tractor"}]}, "'tractor' does not fly"),
        ({"engage": [{**ENGAGE, "target": "uav"}]}, "cannot follow itself"),
        ({"engage": [ENGAGE, ENGAGE]}, "engaged twice"),
        ({"engage": [{**ENGAGE, "controller": "moon"}]}, "no node 'moon'"),
        ({"missions": {"uav": [["1 m", "2 m"]]}, "engage": [ENGAGE]}, "mission of its own"),
        ({"missions": {"tractor": "nowhere.geojson"}}, "nowhere.geojson"),
    ],
)
def test_impossible_tasks_are_refused(config, said):
    with pytest.raises(ScenarioError, match=said):
        Run(**config)


def test_impossible_scenes_are_refused():
    with pytest.raises(ScenarioError, match="no node of the scenario has a 'vehicle' block"):
        Run(nodes=(HOUSE,))
    with pytest.raises(ScenarioError, match="'uav' has no home"):
        Run(nodes=(Node("uav", "uav", "device", keys=(Vehicle(frame="copter").written(),)),))
    for keys, text in (({"mass": "60 kg"}, "a hover draws 45015 W"), ({"hover_power": "9 W"}, "than 129 W to hover")):
        with pytest.raises(ScenarioError, match=rf"nodes\.uav\.vehicle: .*{text}"):
            Run(nodes=(replace(DRONE, keys=(Vehicle(frame="copter", **keys).written(),)),))
    swarm = Fleet("swarm", "replay", 0, 4, DRONE)
    adapter = ADAPTER.build(VehicleConfig())
    with pytest.raises(ScenarioError, match="vehicles are static nodes"):
        adapter.start(Context("vehicle", Scene.build((TRACTOR,), (swarm,)), 1.0, 9.0, (3,), ".", "."))


@pytest.mark.parametrize(
    ("engage", "said"),
    [
        ({"height": "1 m", "behind": "1 m"}, "nearer to the target than the separation"),
        ({"commands": [{"at": "5 s", "for": "9 s"}, {"at": "8 s"}]}, "must follow each other"),
        ({"commands": []}, None),
        ({"engage": {"when": "time > 5"}}, "either 'commands'"),
        (None, "either 'commands'"),
    ],
)
def test_impossible_rules_are_refused(engage, said):
    rule = {**ENGAGE, **engage} if engage is not None else {k: v for k, v in ENGAGE.items() if k != "commands"}
    with pytest.raises(ValidationError, match=said) if said else nullcontext():
        VehicleConfig.model_validate({"engage": [rule]})


def test_orders_by_events_are_those_at_fixed_times():
    def ordered(**more):
        order = Engage.model_validate({"at": "5 s", "do": "engage", "node": "uav", **more})
        return list(happenings(order, lambda _: (SlotRange(0),)))

    fixed = Run(missions=WORK, engage=[ENGAGE]).to(90.0)
    waiting = {**ENGAGE, "commands": []}
    free = Run(missions=WORK, engage=[waiting]).to(90.0, ordered(**{"for": "30 s"}))
    assert free.states == fixed.states
    np.testing.assert_equal(free.ended, fixed.ended)
    assert len(free.ended) == 1
    assert Run(missions=WORK, engage=[waiting]).to(20.0, ordered(target="house")).states[0] == ["home-idle"]


@pytest.mark.parametrize(
    ("drones", "event", "said"),
    [
        (["uav"], Engage, ""),
        (["uav"], Disengage, ""),
        (["uav", "house"], Engage, ""),
        (["house"], Engage, "'house' is the drone of no engagement"),
        (["twice"], Engage, "name the 'target'"),
    ],
)
def test_orders_that_no_engagement_can_follow_are_refused(drones, event, said):
    both = [{**ENGAGE, "drone": "twice"}, {**ENGAGE, "drone": "twice", "target": "other"}]
    config = VehicleConfig.model_validate({"engage": [ENGAGE, *both]})
    why = event.model_validate({"at": "0 s", "do": event.__name__.lower()}).refusal(config, drones)
    assert (said in why) if said else why == ""


def test_a_mission_is_one_thing():
    with pytest.raises(ValidationError, match="one of 'rows', 'points', 'file' and 'ordered'"):
        VehicleConfig.model_validate({"missions": {"tractor": {"file": "a", "points": [["1 m", "2 m"]]}}})


def test_the_readme_shows_what_is_here():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for name in ("behaviour", "engagement", "swap", "stale", "separation", "ceiling", "pauses"):
        assert f"`{name}" in text, name


@pytest.mark.slow
def test_after_a_flight_without_a_camera_nothing_is_left_to_compile(tmp_path):
    code = (
        "import pathlib, cosim.compiled.compiling as compiling; compiling.PRECOMPILED = pathlib.Path('none brought'); "
        "from cosim.contract.registry import adapter_kind; from cosim.physics.vehicles import Copter, VehicleFleet; "
        "from cosim.physics.vehicles.impact import Contacts; kind = adapter_kind('vehicle'); "
        "fleet = VehicleFleet([Copter()], homes=[(0, 0, 0)]); fleet.contacts = Contacts(); "
        "assert not kind.is_compiled(); fleet.advance(1.0); "
        "assert kind.is_compiled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})


def test_a_copter_that_is_ordered_flies_where_it_is_sent_and_home():
    run = Run(missions={"uav": {"ordered": True, "speed": "8 m/s"}})
    slot = np.array([0], np.int32)

    def step(time, place):
        goal = {axis: np.array([value]) for axis, value in zip("xyz", place, strict=True)}
        sent = {"destination": (Frame("destination", time, slot, goal),)}
        mobility = run.adapter.step(time, Inputs(sent, []))[0]
        return [float(mobility[axis][0]) for axis in "xyz"]

    nowhere = (np.nan,) * 3
    for time in range(60):
        place = nowhere if time < 3 else (40.0, 30.0, 25.0) if time < 30 else (-20.0, 0.0, 25.0)
        seen = step(float(time), place)
        if time == 2:
            assert seen == [0.0, 0.0, 2.0]
        if time == 29:
            assert seen == pytest.approx([40.0, 30.0, 25.0], abs=1.0)
    assert seen == pytest.approx([-20.0, 0.0, 25.0], abs=1.0)
    for time in range(60, 140):
        seen = step(float(time), nowhere)
    assert seen == pytest.approx([0.0, 0.0, 2.0], abs=1.0)
    config = VehicleConfig.model_validate({"missions": {"uav": {"ordered": True}}})
    assert [read.signal for read in ADAPTER.ports_of(config).reads] == ["peer_link", "destination"]


def go(at, *place, node="uav"):
    to = {"to": [f"{value} m" for value in place]} if place else {}
    event = Go.model_validate({"at": f"{at} s", "do": "go", "node": node, **to})
    return list(happenings(event, lambda _: (SlotRange(0),)))


def test_a_copter_flies_where_events_send_it_and_home():
    events = [*go(3, 40, 30, 25), *go(30, -20, 0), *go(60)]
    run = Run(missions={"uav": {"ordered": True, "speed": "8 m/s"}})
    assert run.to(2.0, events).at(0) == (0.0, 0.0, 2.0)
    assert run.to(29.0, events).at(0) == pytest.approx((40.0, 30.0, 25.0), abs=1.0)
    assert run.to(59.0, events).at(0) == pytest.approx((-20.0, 0.0, 17.0), abs=1.0)  # 15 m above home
    assert run.to(140.0, events).at(0) == pytest.approx((0.0, 0.0, 2.0), abs=1.0)


def test_an_event_is_the_order_that_the_signal_is_and_the_last_one_holds():
    """Who writes `destination` says the same thing at every step: only a change of it is an order."""

    def fly(signalled, *events):
        run, ways = Run(missions={"uav": {"ordered": True}}), []
        for time in range(61):
            place = next(goal for begin, goal in reversed(signalled) if begin <= time)
            goal = {axis: np.array([value]) for axis, value in zip("xyz", place, strict=True)}
            sent = {"destination": (Frame("destination", float(time), np.array([0], np.int32), goal),)}
            due = [event for event in events if event.at == time]
            mobility = run.adapter.step(float(time), Inputs(sent, due))[0]
            ways.append([float(mobility[axis][0]) for axis in "xyz"])
        return ways

    nowhere = (math.nan,) * 3
    there, back = (40.0, 30.0, 25.0), (-20.0, 0.0, 25.0)
    signal = fly([(0, nowhere), (4, there), (31, back)])
    assert signal[60] == pytest.approx(list(back), abs=1.0)
    assert fly([(0, nowhere)], *go(3, *there), *go(30, *back)) == signal
    assert fly([(0, nowhere), (4, there)], *go(30, *back)) == signal  # though the signal goes on to say `there`
    assert fly([(0, nowhere), (31, back)], *go(3, *there)) == signal


SENT = """\
apiVersion: cosim/v1
kind: Scenario
name: sent
run: {duration: 9 s, step: 1 s}
nodes:
  uav-[1..2]: {kind: uav, at: "uniform in circle of 50 m", vehicle: {frame: copter}}
  mast: {kind: edge, at: [5 m, 5 m]}
adapters:
  vehicle: {missions: {uav-1: {ordered: true}}}
"""


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("node: uav-1, to: [20 m, 40 m, 15 m]", ""),
        ("node: uav-1, to: [20 m, 40 m]", ""),
        ("node: uav-1", ""),
        ("node: uav-2", "'uav-2' is sent nowhere: write missions: {uav-2: {ordered: true}}"),
        ("node: uav-*, to: [20 m, 40 m]", "uav-1, uav-2 are sent to one point, at which they collide"),
        ("node: mast", "needs a node with 'vehicle'"),
        ("to: [20 m, 40 m]", "'do: go' needs 'node'"),
        ("node: uav-1, for: 5 s", "'do: go' has no end"),
        ("node: uav-1, to: [20 m, 40 m, -5 m]", "-5 m is not above the ground of 'uav-1', which is as high as its"),
        ("node: uav-1, to: [20 m, 40 m, 200 km]", "200000 m above the sea is out of reach"),
        ("node: uav-1, to: [20 m, 40 m, nan]", "to.2"),
        ("node: uav-1, to: [20, 40 m, 9 m]", "to.0"),
        ("node: uav-1, to: [20 m]", "to"),
    ],
)
def test_check_and_commands_refuse_places_where_no_copter_can_be_sent(tmp_path, event, said):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(SENT, "utf-8")
    plan, keys = compile_plan(load(file)), YAML(typ="safe").load(f"{{{event}}}")
    with pytest.raises(ScenarioError, match=re.escape(said)) if said else nullcontext():
        read_event({"do": "go", **keys}, plan, event_kinds(plan))
    with pytest.raises(ScenarioError, match=re.escape(said)) if said else nullcontext():
        compile_plan(load(file, [f"events=[{{at: 1 s, do: go, {event}}}]"]))


def test_the_ground_below_a_place_is_that_of_the_terrain(tmp_path):
    grid = "ncols 3\nnrows 2\nxllcorner -50\nyllcorner -50\ncellsize 100\n0 0 80\n0 0 80\n"
    (tmp_path / "hill.asc").write_text(grid, "ascii")
    config = VehicleConfig.model_validate({"missions": {"uav": {"ordered": True}}, "terrain": "hill.asc"})
    scene = Scene.build((replace(DRONE, position=(0.0, 0.0, 0.0)),))
    for east, why in ((0, ""), (200, "60 m is not above the ground of 'uav', which is at 80.00 m there")):
        event = Go.model_validate({"at": "1 s", "do": "go", "node": "uav", "to": [f"{east} m", "0 m", "60 m"]})
        assert event.unfit(config, scene, ["uav"], tmp_path).partition(";")[0] == why


def test_a_rover_cannot_be_ordered_and_an_order_has_no_start():
    with pytest.raises(ScenarioError, match="'tractor' does not fly"):
        Run(missions={"tractor": {"ordered": True}})
    with pytest.raises(ValidationError, match="'start' belongs to a way of its own"):
        VehicleConfig.model_validate({"missions": {"uav": {"ordered": True, "start": "3 s"}}})


def test_in_thin_air_rotors_need_more_power():
    """By the density to the power of -1/2; 0.9091 kg/m^3 at 3000 m by ICAO's table, less 10 m higher."""
    power = []
    for config in ({}, {"altitude": "3000 m"}):
        adapter = ADAPTER.build(VehicleConfig.model_validate({"missions": {"uav": [["0 m", "0 m", "10 m"]]}, **config}))
        adapter.start(Context("vehicle", Scene.build((DRONE, TRACTOR, HOUSE)), 1.0, 900.0, (3,), "", ""))
        for time in range(16):
            frames = {frame.signal: frame for frame in adapter.step(float(time), Inputs({}, []))}
        power.append(float(frames["vehicle"]["power"][0]))
    assert (power[1] - 6.0) / (power[0] - 6.0) == pytest.approx(math.sqrt(1.225 / 0.9091), rel=0.01)


def test_a_terrain_counts_as_memory_and_one_that_is_missing_is_refused_before_all_else(tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(SENT.replace("vehicle: {missions", "vehicle: {terrain: t.asc, missions"), "utf-8")
    with pytest.raises(ScenarioError, match=r"adapters\.vehicle\.terrain: there is no file 't\.asc'"):
        load(file)
    rows = "\n".join(["0 " * 300] * 200)
    (tmp_path / "t.asc").write_text(f"ncols 300\nnrows 200\nxllcorner -1500\nyllcorner -1000\ncellsize 10\n{rows}\n")
    plan = compile_plan(load(file))
    assert plan.held == {"adapters.vehicle.terrain": 100.0 * 300 * 200}
    assert "'t.asc' has 60000 cells of 10 m" in plan.taken[0]
