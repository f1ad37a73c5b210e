"""What the SUMO adapter decides, without SUMO."""

from __future__ import annotations

import gzip
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from cosim.adapters.sumo import ADAPTER, install
from cosim.adapters.sumo.adapter import command
from cosim.adapters.sumo.backend import Moves, explain
from cosim.adapters.sumo.check import problems as reported
from cosim.adapters.sumo.config import Demand, Region, SumoConfig
from cosim.adapters.sumo.demand import Roads, largest_component, write_trips
from cosim.adapters.sumo.roster import PresentVehicles
from cosim.adapters.sumo.space import FASTEST, Alignment, RegionFence
from cosim.contract.adapter import Context
from cosim.contract.entities import Fleet, Geo, Node, Scene
from cosim.contract.errors import Problem, ScenarioError


def make_context(root: Path, *fleets: str) -> Context:
    car = Node("cars", "car", "device")
    scene = Scene.build((), tuple(Fleet(name, "traffic", 0, 10, car) for name in fleets))
    return Context("traffic", scene, 1.0, 10.0, (1, 2), str(root), str(root))


def problems(config: SumoConfig, context: Context) -> list[Problem]:
    """What a check reports but for the notes of what it took of files."""
    return [one for one in reported(config, context) if not one.note]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({}, "exactly one of 'config', 'network' and 'server'; found none"),
        ({"config": "a.sumocfg", "network": "b.net.xml"}, "found 'config' and 'network'"),
        ({"network": "b.net.xml"}, "needs 'routes' or 'demand'"),
        ({"config": "a.sumocfg", "demand": {"vehicles": 5}}, "'demand' needs 'network'"),
        ({"server": "localhost:8813", "seed": 3}, "seed: belong to the SUMO at 'localhost:8813'"),
        ({"server": "localhost"}, "server"),
        ({"config": "a.sumocfg", "gui": True, "interface": "libsumo"}, "need TraCI"),
        ({"config": "a.sumocfg", "options": {"--step-length": 2}}, "use 'resolution'"),
        ({"config": "a.sumocfg", "teleport": 30}, "has no unit"),
        ({"config": "a.sumocfg", "region": {"radius": "5 m"}}, "either 'center' and 'radius', or 'box"),
        ({"config": "a.sumocfg", "region": {"box": ["5 m", "0 m", "0 m", "9 m"]}}, "west, south, east, north"),
        ({"config": "a.sumocfg", "sped": 3}, "sped"),
    ],
)
def test_a_wrong_block_is_refused_in_words(block: dict, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SumoConfig.model_validate(block)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["never", "120.0 s"])
def test_teleport_reads_back_what_it_writes(text: str) -> None:
    config = SumoConfig.model_validate({"config": "a.sumocfg", "teleport": text})
    again = SumoConfig.model_validate(config.model_dump(exclude_none=True, exclude_defaults=True))
    assert again == config
    assert config.teleport == (-1.0 if text == "never" else 120.0)


def test_the_example_is_a_valid_block() -> None:
    config = SumoConfig.model_validate(YAML(typ="safe").load(ADAPTER.example)["sumo"])
    assert config.demand is not None
    assert ADAPTER.ports_of(config).writes == ("mobility",)


def test_all_missing_files_are_named_at_once(tmp_path: Path) -> None:
    config = SumoConfig.model_validate({"network": "no.net.xml", "routes": ["a.xml", "package:nowhere/b.xml"]})
    found = problems(config, make_context(tmp_path, "cars"))
    assert [p.path for p in found] == [f"adapters.traffic.{k}" for k in ("network", "routes", "routes")]
    assert "no installed package 'nowhere'" in str(found[-1])


def test_demand_on_a_damaged_network_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("sumolib")
    (tmp_path / "n.net.xml").write_text("<net><location/><edge id='a' from='n' to='m'/></net>")
    config = SumoConfig.model_validate({"network": "n.net.xml", "demand": {"vehicles": 3}})
    (found,) = problems(config, make_context(tmp_path, "cars"))
    assert (found.path, found.fatal) == ("adapters.traffic.network", True)
    assert "is no network that can be read" in found.message
    location = "<location netOffset='0,0' convBoundary='0,0,1,1' origBoundary='0,0,1,1' projParameter='!'/>"
    (tmp_path / "n.net.xml").write_text(f"<net version='1.20'>{location}</net>")
    (found,) = problems(config, make_context(tmp_path, "cars"))
    assert "no two roads" in found.message


@pytest.mark.parametrize(
    ("routes", "begin", "said", "warned"),
    [
        ("<trip depart='2'/><trip id='b' depart='00:00:08'/>", 0, "2 trips, which depart from 2 s to 8 s", False),
        ("<flow id='a' begin='3' end='9' number='4'/>", 0, "1 flow, which depart from 3 s to 9 s", False),
        ("<flow id='a' begin='0' period='4'/>", 500, "1 flow, which depart from 0 s on", False),
        ("<vehicle id='a' depart='25200'/>", 0, "1 vehicle, which depart from 25200 s to 25200 s", True),
        ("<vehicle id='a' depart='5'/>", 6, "1 vehicle, which depart from 5 s to 5 s", True),
        ("<vehicle id='a' depart='triggered'/><person id='p' depart='1'/>", 0, "1 vehicle, 1 person, which", False),
        ("<vType id='t'/>", 0, "has no vehicle", False),
    ],
)  # fmt: skip
def test_what_routes_have_is_told_and_that_none_departs_during_the_run(
    tmp_path: Path, routes: str, begin: int, said: str, warned: bool
) -> None:
    net, rou = f"<net>{' ' * 1000}</net>", f"<routes>{routes}</routes>"
    (tmp_path / "n.net.xml").write_bytes(gzip.compress(net.encode()))
    (tmp_path / "r.rou.xml").write_text(rou)
    (tmp_path / "n.sumocfg").write_text(
        f"<configuration><n v='n.net.xml'/><r v='r.rou.xml'/><b v='{begin}'/></configuration>"
    )
    direct = {"network": "n.net.xml", "routes": "r.rou.xml", "begin": f"{begin} s"}
    for block in (direct, {"config": "n.sumocfg"}):
        found = reported(SumoConfig.model_validate(block), make_context(tmp_path, "cars"))
        network, took = (one for one in found if one.note)
        assert network.memory == 14.0 * len(net)
        assert said in took.message
        assert [one.hint[:12] for one in found if not one.note] == ["write  begin"] * warned


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ("<trip id='a' depart='9'/><trip id='b' depart='1'/><flow id='a' begin='9' end='12' number='2'/>",
         "1 entries of 'r.rou.xml' depart before one above them"),
        ("<trip id='a' depart='1'/><vehicle id='a' depart='1'/>", "1 entries of 'r.rou.xml' have the id of another"),
    ],
)  # fmt: skip
def test_routes_that_sumo_would_leave_out_or_stop_at_are_warned_of(tmp_path: Path, routes: str, said: str) -> None:
    (tmp_path / "n.net.xml").write_text("<net/>")
    (tmp_path / "r.rou.xml").write_text(f"<routes>{routes}</routes>")
    config = SumoConfig.model_validate({"network": "n.net.xml", "routes": "r.rou.xml"})
    (warned,) = (one for one in reported(config, make_context(tmp_path, "cars")) if not one.note)
    assert said in warned.message


def test_the_command_line_holds_what_the_block_says(tmp_path: Path) -> None:
    for name in ("n.net.xml", "r.rou.xml"):
        (tmp_path / name).write_text("<x/>")
    block = {"network": "n.net.xml", "routes": "r.rou.xml", "begin": "1 h", "teleport": "never", "scale": 0.5,
             "options": {"lateral-resolution": 0.8, "ignore-route-errors": True}}  # fmt: skip
    words = command(SumoConfig.model_validate(block), make_context(tmp_path), tmp_path / "log", 0.2)
    given_options = dict(zip(words[::2], words[1::2], strict=True))
    assert given_options["--net-file"] == str(tmp_path / "n.net.xml")
    assert given_options["--step-length"] == "0.200"
    assert given_options["--begin"] == "3600.0"
    assert given_options["--time-to-teleport"] == "-1.0"
    assert given_options["--ignore-route-errors"] == "true"
    assert 0 <= int(given_options["--seed"]) < 2**31
    assert words == command(SumoConfig.model_validate(block), make_context(tmp_path), tmp_path / "log", 0.2)


def test_options_are_not_blamed_for_a_sumo_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "n.sumocfg").write_text("<configuration/>")
    config = SumoConfig.model_validate({"config": "n.sumocfg", "options": {"ignore-route-errors": True}})
    monkeypatch.setattr(install, "binary", lambda name: Path("/bin/false"))
    assert problems(config, make_context(tmp_path, "cars")) == []


@pytest.mark.sumo
@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"device.rerouting.probabilty": 1}, "No option with the name"),
        ({"lateral-resolution": "wide"}, "float"),
        ({}, ""),
    ],
)
def test_options_that_sumo_refuses_are_found(tmp_path: Path, options: dict[str, object], reported: str) -> None:
    (tmp_path / "n.sumocfg").write_text("<configuration/>")
    right = {"config": "n.sumocfg", "options": {**options, "ignore-route-errors": True}}
    found = problems(SumoConfig.model_validate(right), make_context(tmp_path, "cars"))
    assert [p.path for p in found] == [f"adapters.traffic.options.{name}" for name in options]
    assert all(reported in p.message for p in found)


def test_files_of_another_kind_and_unknown_classes_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.net.xml").write_text("<net/>")
    (tmp_path / "a.rou.xml").write_text("<routes/>")
    right = {"network": "a.net.xml", "routes": "a.rou.xml", "classes": ["truck", "bicicle"]}
    (warning,) = problems(SumoConfig.model_validate(right), make_context(tmp_path, "cars"))
    assert not warning.fatal
    assert (warning.path, warning.hint) == ("adapters.traffic.classes.1", "did you mean 'bicycle'?")
    swapped = {"network": "a.rou.xml", "routes": "a.net.xml"}
    found = problems(SumoConfig.model_validate(swapped), make_context(tmp_path, "cars"))
    assert [(one.path, one.message) for one in found] == [
        ("adapters.traffic.network", "a.rou.xml is no file of that kind"),
        ("adapters.traffic.routes", "a.net.xml is no file of that kind"),
    ]


def test_package_files_stay_inside_their_package() -> None:
    assert install.package_file("package:adapters/sumo/config.py").name == "config.py"
    with pytest.raises(ScenarioError, match="leads out of"):
        install.package_file("package:adapters/../pyproject.toml")
    with pytest.raises(ScenarioError, match="has no file"):
        install.package_file("package:adapters/sumo/none.py")
    with pytest.raises(ScenarioError, match="no installed package"):
        install.package_file("package:../etc/passwd")


@pytest.mark.parametrize(("period", "resolution"), [(1.0, 0.3), (0.5, 1.0), (1.0, 0.0004), (1.0, 0.0015)])
def test_steps_that_do_not_fit_are_refused(tmp_path: Path, period: float, resolution: float) -> None:
    config = SumoConfig.model_validate({"server": "127.0.0.1:1", "resolution": f"{resolution:.4f} s"})
    context = replace(make_context(tmp_path, "cars"), period=period)
    assert {p.path for p in problems(config, context)} == {"adapters.traffic.resolution"}
    fits = SumoConfig.model_validate({"server": "127.0.0.1:1", "resolution": "100 ms"})
    assert problems(fits, replace(context, period=1.0)) == []


@pytest.mark.parametrize("fleets", [(), ("cars", "buses")])
def test_one_fleet_is_needed(tmp_path: Path, fleets: tuple[str, ...]) -> None:
    config = SumoConfig.model_validate({"server": "127.0.0.1:1"})
    (found,) = problems(config, make_context(tmp_path, *fleets))
    assert "needs one fleet" in found.message


@pytest.mark.parametrize(("origin", "warned"), [((52.52, 13.40), 0), ((39.36, 22.95), 1)])
def test_a_net_far_from_the_origin_is_warned_of(tmp_path: Path, origin: tuple[float, float], warned: int) -> None:
    location = '<location netOffset="0,0" origBoundary="13.3,52.4,13.5,52.6" projParameter="+proj=utm"/>'
    (tmp_path / "n.net.xml").write_text(f"<net>{location}</net>")
    (tmp_path / "r.rou.xml").write_text("<routes/>")
    config = SumoConfig.model_validate({"network": "n.net.xml", "routes": "r.rou.xml"})
    context = make_context(tmp_path, "cars")
    found = problems(config, replace(context, scene=replace(context.scene, geo=Geo(*origin))))
    assert [p.fatal for p in found] == [False] * warned
    assert all("km from the scenario's origin" in p.message for p in found)


def test_errors_carry_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "sumo.log"
    log.write_text("".join(f"line {k}\n\n" for k in range(30)) + "Simulation ended at time: 4.00.\nDuration: 3s\n")
    text = explain("SUMO cannot start", ValueError("two\n  words"), log, lines=2)
    assert text.startswith("SUMO cannot start: two words\n")
    assert text.endswith("  line 28\n  line 29")
    assert explain("x", ValueError("y"), tmp_path / "none") == "x: y"


# -- the roster ----------------------------------------------------------------------------------


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["depart", "leave", "land"]), st.integers(0, 8)), max_size=6), max_size=30
    )
)
def test_the_roster_equals_the_full_list_at_every_step(script: list[list[tuple[str, int]]]) -> None:
    road: dict[str, None] = {}
    flying: set[str] = set()
    roster = PresentVehicles()
    shown: set[str] = set()
    for actions in script:
        departed, arrived, landed, jumped = [], [], [], False
        for what, number in actions:
            name = f"v{number}"
            if what == "depart" and name not in road and name not in flying and name not in arrived:
                road[name] = None
                departed.append(name)
            elif what == "leave" and name in road:
                del road[name]
                if number % 2:
                    flying.add(name)
                    jumped = True
                else:
                    arrived.append(name)
            elif what == "land" and name in flying:
                flying.discard(name)
                road[name] = None
                landed.append(name)
        moves = Moves(departed, arrived, landed, jumped or bool(landed), len(road) + len(flying))
        came, went = roster.update(moves, lambda: tuple(road))
        assert set(went) <= shown
        assert not set(came) & (shown - set(went))
        shown = (shown - set(went)) | set(came)
        assert set(roster.present) == set(road) == shown


def test_unwanted_vehicles_are_asked_about_once() -> None:
    asked = []
    roster = PresentVehicles(lambda name: asked.append(name) is None and name != "bus")
    roster.update(Moves(["car", "bus"], [], [], False, 2), lambda: ("car", "bus"))
    roster.update(Moves([], [], [], True, 2), lambda: ("bus", "car"))
    assert list(roster.present) == ["car"]
    assert asked == ["car", "bus"]


# -- space ---------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([{"center": ["10 m", "0 m"], "radius": "300 m"}, {"box": ["-200 m", "0 m", "50 m", "400 m"]}]),
)
def test_sleeping_vehicles_never_miss_the_region(seed: int, block: dict) -> None:
    fence = RegionFence(Region.model_validate(block), period=0.5)
    rng = np.random.Generator(np.random.PCG64(seed))
    place = rng.uniform(-1500, 1500, 2)
    distance = fence.distance(*place)
    inside = distance == 0
    if not inside:
        fence.sleep("v", distance, 0)
    course = rng.uniform(0, 2 * math.pi)
    for step in range(1, 60):
        course += rng.normal(0, 0.3)
        place = place + FASTEST * 0.5 * rng.uniform(0.5, 1) * np.array([math.cos(course), math.sin(course)])
        distance = fence.distance(*place)
        if not inside and fence.due(step, ()):
            inside = distance == 0
            if not inside:
                fence.sleep("v", distance, step)
        elif inside and len(fence.outside(place[:1], place[1:])):
            inside = False
            fence.sleep("v", distance, step)
        assert inside == (distance == 0)


def test_a_teleported_sleeper_is_asked_at_once() -> None:
    fence = RegionFence(Region.model_validate({"center": ["0 m", "0 m"], "radius": "1 m"}), 1.0)
    fence.sleep("far", 5000.0, 0)
    assert fence.due(1, ["far", "other"]) == ["far"]
    assert fence.due(50, ()) == []
    assert not fence.forget("far")


def test_without_projection_or_origin_the_planes_are_the_same() -> None:
    assert Alignment.between(None, lambda x, y: (1.0, 2.0), lambda: True).identity
    assert Alignment.between(Geo(52.0, 13.0), lambda x, y: None, lambda: True).identity


@given(st.floats(-180, 180), st.floats(-90, 90), st.floats(0, 359.9))
def test_alignment_turns_the_grid_to_true_north(convergence: float, way: float, heading: float) -> None:
    """A network whose plane is turned by a known angle about the origin gives true east and north back."""
    turn, metres = math.radians(convergence), 111_000.0

    def project(longitude: float, latitude: float) -> tuple[float, float]:
        east, north = (longitude - 13.0) * metres, (latitude - 52.0) * metres
        return (
            500.0 + east * math.cos(turn) + north * math.sin(turn),
            700.0 + north * math.cos(turn) - east * math.sin(turn),
        )

    alignment = Alignment.between(Geo(52.0, 13.0, 60.0), project, lambda: True)
    x, y = project(13.0 + 300.0 / metres, 52.0 + way / metres)
    columns = [np.array([value]) for value in (x, y, 85.0, heading)]
    alignment.apply(*columns)
    assert np.allclose(np.concatenate(columns[:3]), [300.0, way, 25.0], atol=1e-6)
    assert np.allclose(alignment.point(x, y), (300.0, way), atol=1e-6)
    turned = (columns[3][0] - (heading - convergence)) % 360
    assert min(turned, 360 - turned) < 1e-6


# -- demand --------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40))
def test_the_component_is_the_largest_set_that_reaches_itself(pairs: list[tuple[int, int]]) -> None:
    onward = {str(k): [str(b) for a, b in pairs if a == k] for k in range(8)}

    def reach(start: str) -> set[str]:
        seen, todo = {start}, [start]
        while todo:
            for following in onward[todo.pop()]:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen

    mutual = {a: {b for b in onward if b in reach(a) and a in reach(b)} for a in onward}
    found = largest_component(onward)
    assert set(found) in mutual.values()
    assert len(found) == max(len(component) for component in mutual.values())


def test_trips_are_drawn_under_their_seed_and_long_enough() -> None:
    ring = [f"e{k}" for k in range(10)]
    middle = {edge: (100.0 * k, 0.0) for k, edge in enumerate(ring)}
    onward = {edge: [ring[(k + 1) % 10]] for k, edge in enumerate(ring)} | {"exit": []}
    roads = Roads(onward, dict.fromkeys(onward, 1.0), middle | {"exit": (9e9, 0.0)})
    demand = Demand.model_validate({"vehicles": 40, "over": "100 s", "distance": "1.5 km", "seed": 4})
    text = write_trips(roads, demand, 50.0)
    assert text == write_trips(roads, demand, 50.0)
    assert text != write_trips(roads, demand.model_copy(update={"seed": 5}), 50.0)
    assert text.count("<trip ") == 40
    assert "exit" not in text
    for trip in ElementTree.fromstring(text).iter("trip"):
        calls = [trip.attrib["from"], *trip.get("via", "").split(), trip.attrib["to"]]
        steps = itertools.pairwise(middle[call][0] for call in calls)
        assert sum(abs(a - b) for a, b in steps) >= 1500.0
        assert 50.0 <= float(trip.attrib["depart"]) <= 150.0


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("<random_number><random value='true'/></random_number>", ["'random' is switched off"]),
        ("<random v='on'/><seed value='42'/>", ["'random' is switched off", "its seed 42 has no effect"]),
        ("<time><step-length value='0.1'/><begin value='5'/></time>", ["its step-length of 0.1 s has no effect"]),
        ("<time><step-length value='00:00:01.00'/></time><time-to-teleport value='-1'/>", []),
        ("<output><fcd-output value='fcd.xml'/></output>", ["it writes fcd.xml at its place in every run"]),
        ("<time><step-length value='slow'/></time>", []),
        ("<time><begin value='06:59:59'/><end value='07:00:00'/></time>", ["its end of 07:00:00 has no effect"]),
        ("<time><begin value='07:00:00'/><end value='1:00:00:00'/></time>", []),
    ],
)
def test_what_a_configuration_sets_in_vain_is_warned_of(tmp_path: Path, inside: str, words: list[str]) -> None:
    (tmp_path / "n.sumocfg").write_text(f"<configuration>{inside}</configuration>")
    config, context = SumoConfig(config="n.sumocfg"), make_context(tmp_path, "cars")
    found = problems(config, context)
    assert not any(one.fatal for one in found)
    assert [part for one, part in zip(found, words, strict=True) if part not in one.message] == []
    line = command(config, context, tmp_path / "log", 1.0)
    assert line[line.index("--random") + 1] == "false"


@pytest.mark.parametrize(
    ("inside", "more", "why"),
    [
        ("<load-state value='gone.xml'/>", {}, "its load-state names gone.xml, and there is no such file"),
        ("<a value='n.sumocfg, gone.xml'/>", {}, "its a names gone.xml"),
        ("<a value='gone.xml'/>", {"additional": "n.sumocfg"}, ""),
        ("<remote-port value='8813'/>", {}, "with its remote-port SUMO would wait for another program"),
        ("<remote-port value='8813'/>", {"interface": "traci"}, ""),
        ("<num-clients value='2'/>", {"interface": "traci"}, "with its num-clients SUMO would wait"),
    ],
)
def test_what_sumo_would_miss_or_wait_for_is_refused(tmp_path: Path, inside: str, more: Any, why: str) -> None:
    (tmp_path / "n.sumocfg").write_text(f"<configuration>{inside}</configuration>")
    found = problems(SumoConfig(config="n.sumocfg", **more), make_context(tmp_path, "cars"))
    assert [one.message[: len(why)] for one in found if one.fatal] == ([why] if why else [])
