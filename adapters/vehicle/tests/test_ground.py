"""Terrain and obstacles in a scenario: where vehicles stand and land, what they come near to, what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from cosim.adapters.vehicle import ADAPTER
from cosim.adapters.vehicle.check import problems
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.signals import IMPACT, PROXIMITY
from cosim.adapters.vehicle.tests.test_cameras import flown
from cosim.adapters.vehicle.tests.test_vehicle_adapter import DRONE, HOUSE, SIGNALS, TRACTOR, WORK, Run
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Event, Geo, Scene, SlotRange
from cosim.contract.frame import fault
from cosim.contract.geo import LocalFrame
from cosim.contract.node_keys import Software
from cosim.physics.vehicles import Copter, Rover
from cosim.physics.vehicles.layout import OBSTACLE, VEHICLE
from cosim.results.metrics import _reported

COPTER = replace(DRONE, position=(0.0, 0.0, 0.0))
HOME = Geo(39.35, 22.95, 100.0)


@pytest.fixture
def hill(tmp_path):
    """The plane 10 m + x / 10 + y / 20, on 400 x 400 m around the origin."""
    lines = ["ncols 40", "nrows 40", "xllcorner -200", "yllcorner -200", "cellsize 10"]
    middles = [-195.0 + 10.0 * k for k in range(40)]
    lines += [" ".join(f"{10.0 + 0.1 * x + 0.05 * y:.6f}" for x in middles) for y in reversed(middles)]
    (tmp_path / "hill.asc").write_text("\n".join(lines) + "\n")
    return tmp_path


def ground(x, y):
    return 10.0 + 0.1 * x + 0.05 * y


def checked(root, nodes=(COPTER, TRACTOR, HOUSE), real="", geo=None, **config):
    scene = replace(Scene.build(tuple(nodes), geo=geo), real=real)
    context = Context("vehicle", scene, 1.0, 900.0, (3,), str(root), ".")
    return [one for one in problems(VehicleConfig.model_validate(config), context) if not one.note]


def test_a_tractor_climbs_and_a_copter_lands_where_the_ground_is(hill):
    run = Run((COPTER, TRACTOR, HOUSE), root=hill, terrain="hill.asc", missions={
        **WORK, "uav": {"points": [["0 m", "40 m", "40 m"], ["80 m", "40 m", "40 m"]], "speed": "8 m/s"},
    })  # fmt: skip
    run.to(0.0)
    assert [run.at(slot)[2] for slot in (0, 1)] == pytest.approx([ground(0, 0), ground(*run.at(1)[:2])], abs=1e-9)
    for until in (30.0, 60.0, 90.0):
        x, y, z = run.to(until).at(1)
        assert z == pytest.approx(ground(x, y), abs=1e-5)  # what the file's digits leave
    run.to(140.0)
    assert run.at(0) == pytest.approx((0.0, 0.0, 10.0), abs=0.5)
    assert not run.adapter.finish()["vehicles"]["uav"]["crashed"]


def test_a_drone_that_fails_over_the_hill_lands_there(hill):
    run = Run((COPTER, TRACTOR, HOUSE), root=hill, terrain="hill.asc", missions={"uav": [["90 m", "0 m", "45 m"]]})
    run.to(60.0, [Event(18.0, "fail", (SlotRange(0, 1),))])
    x, y, z = run.at(0)
    assert z == pytest.approx(ground(x, y), abs=1e-5)


def test_pictures_are_as_large_as_the_height_above_the_ground_makes_them(hill):
    (hill / "weeds.asc").write_text("ncols 1\nnrows 1\nxllcorner -200\nyllcorner -200\ncellsize 400\n1\n")
    reported, _ = flown(hill, 40, terrain="hill.asc", missions={"uav": [["60 m", "20 m", "37 m"]]}, weeds="weeds.asc",
                    nodes=(COPTER, TRACTOR, HOUSE))  # fmt: skip
    level = [row for row in reported if 5.0 < row["x"] < 55.0]
    assert len(level) > 3
    for row in level:  # it flies at 37 m there and back
        high = 37.0 - ground(row["x"], row["y"])
        across, along = (2.0 * high * math.tan(math.radians(v / 2)) for v in (70.0, 55.0))
        assert row["area"] == pytest.approx(across * along, rel=0.02)
        assert row["pixel"] == pytest.approx(math.sqrt(across * along / 12e6), rel=0.01)
    areas = [row["area"] for row in level]
    assert max(areas) > 1.5 * min(areas)


def test_check_says_what_of_a_terrain_cannot_be_and_where(hill):
    assert checked(hill, terrain="hill.asc", missions=WORK) == []
    (wrong,) = checked(hill, terrain="none.asc")
    assert (wrong.path, "none.asc" in wrong.message) == ("adapters.vehicle.terrain", True)
    (hill / "bad.asc").write_text("ncols 2\n1 2\n")
    assert "nrows is missing" in checked(hill, terrain="bad.asc")[0].message
    (out,) = checked(hill, (replace(COPTER, position=(0.0, 250.0, 0.0)), TRACTOR), terrain="hill.asc")
    assert out.path == "nodes.uav.at"
    assert "outside the terrain 'hill.asc', which covers -200 to 200 m east and -200 to 200 m north" in out.message
    (high,) = checked(hill, (replace(COPTER, position=(0.0, 0.0, 30.0)), TRACTOR), terrain="hill.asc")
    assert "starts at a height of 30 m, but the ground there is at 10.00 m" in high.message


def test_check_refuses_homes_and_places_that_no_vehicle_can_be_at(tmp_path):
    high = replace(COPTER, position=(0.0, 0.0, 2e5))
    assert [p.path for p in checked(tmp_path, (high, TRACTOR))] == ["nodes.uav.at"]
    mission = {"uav": {"points": [["10 m", "0 m", "120 km"]]}}
    (place,) = checked(tmp_path, missions=mission)
    assert (place.path, place.fatal) == ("adapters.vehicle.missions.uav", True)
    assert "120000 m above the sea is out of reach: -500 to 100000 m" in place.message
    (engaged,) = checked(
        tmp_path, engage=[{"drone": "uav", "target": "tractor", "height": "200 km", "commands": [{"at": "5 s"}]}]
    )
    assert engaged.path == "adapters.vehicle.engage.0.height"


@pytest.mark.parametrize("blow", [{"wind": ["130 m/s", "0 m/s", "0 m/s"]}, {"gusts": "130 m/s"}])
def test_no_wind_is_faster_than_any_that_was_measured(blow):
    with pytest.raises(ValidationError, match="120"):
        VehicleConfig.model_validate(blow)


def test_a_terrain_is_too_large_for_programs_of_vehicles_only(hill, monkeypatch):
    monkeypatch.setattr("cosim.adapters.vehicle.roster.MOST_CELLS", 1000)
    nodes = (replace(COPTER, runs=Software(image="vuav")), TRACTOR)
    assert checked(hill, nodes, terrain="hill.asc") == []
    (large,) = checked(hill, nodes, real="netns", terrain="hill.asc")
    assert "the terrain has 1600 cells; programs of vehicles are sent 1000 at most" in large.message
    monkeypatch.undo()
    assert checked(hill, nodes, real="netns", terrain="hill.asc") == []


def test_legs_into_the_hill_are_warned_of(hill):
    found = checked(hill, terrain="hill.asc", missions={"uav": [["100 m", "0 m", "25 m"], ["140 m", "0 m", "20 m"]]})
    assert [problem.fatal for problem in found] == [False]
    assert found[0].message == "the leg to place 2 of 'uav' is 4.0 m below the ground at 140 m east, 0 m north"
    assert found[0].path == "adapters.vehicle.missions.uav"
    Run((COPTER, TRACTOR, HOUSE), root=hill, terrain="hill.asc", missions={"uav": [["150 m", "0 m", "20 m"]]})


@pytest.fixture
def farm(hill):
    """A silo, 10 x 10 m and 30 m high, with its middle at 50 m east."""
    frame = LocalFrame(HOME.latitude, HOME.longitude, HOME.height)
    latitude, longitude, _ = frame.to_wgs84([45.0, 55.0, 55.0, 45.0, 45.0], [-5.0, -5.0, 5.0, 5.0, -5.0])
    ring = [[float(a), float(b)] for a, b in zip(longitude, latitude, strict=True)]
    silo = {"type": "Feature", "properties": {"name": "silo", "height": 30},
            "geometry": {"type": "Polygon", "coordinates": [ring]}}  # fmt: skip
    (hill / "farm.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [silo]}))
    return hill


def watched(root, until, *places, **config):
    """The events of a copter that flies `places`, and the run's summary."""
    missions = {"uav": [[f"{x} m", f"{y} m", f"{z} m"] for x, y, z in places]}
    config = VehicleConfig.model_validate(
        {"substep": "20 ms", "obstacles": "farm.geojson", "missions": missions, **config}
    )
    adapter = ADAPTER.build(config)
    scene = Scene.build((COPTER, TRACTOR, HOUSE), geo=HOME)
    adapter.start(Context("vehicle", scene, 1.0, 900.0, (3,), str(root), "."))
    events = []
    for time in range(until):
        frames = adapter.step(float(time), Inputs({}, []))
        assert [frame.signal for frame in frames] == [
            *(signal.name for signal in SIGNALS[:-2]),
            "proximity",
            "autopilot",
            "impact",
        ]
        assert fault(frames[4], PROXIMITY, 3) == ""
        reported = frames[4]
        events += [{name: reported[name][k].item() for name in reported.columns} | {"slot": int(reported.slot[k])}
                   for k in range(len(reported))]  # fmt: skip
    return events, json.loads(json.dumps(adapter.finish(), allow_nan=False))["proximity"]


def test_past_the_silo_is_a_near_miss_through_it_a_collision_and_over_it_nothing(farm, caplog):
    events, reported = watched(farm, 24, (0, 6.5, 20), (100, 6.5, 20))
    assert [(event["slot"], event["obstacle"], event["kind"]) for event in events] == [(0, 0, 0)]
    assert reported["by_vehicle"]["uav"]["nearest"] == pytest.approx(
        1.5, abs=0.2
    )  # from within a metre of the first place
    assert (reported["near_misses"], reported["collisions"], reported["by_vehicle"]["tractor"]["near_misses"]) == (
        1,
        0,
        0,
    )
    events, reported = watched(farm, 25, (100, 0, 20))
    assert [event["kind"] for event in events] == [0, 1]  # near, and then inside
    (warning,) = caplog.records
    assert warning.getMessage().startswith("uav has hit 'silo' at ")
    assert warning.name.startswith("cosim.adapters.")  # of which a run prints warnings
    assert 0.0 < events[0]["distance"] < 2.0
    assert events[0]["at"] < events[1]["at"] < events[0]["at"] + 1.0
    assert (reported["near_misses"], reported["collisions"]) == (0, 1)
    assert reported["by_vehicle"]["uav"]["nearest"] == 0.0
    assert watched(farm, 25, (100, 0, 32))[0] == []
    assert watched(farm, 24, (0, 6.5, 20), (100, 6.5, 20), separation="1 m")[0] == []
    run = SimpleNamespace(signals=())
    figures = _reported(run, [{"proximity": reported}, {}])
    assert {name: figure["value"] for name, figure in figures.items()} == {"near_misses": 0.0, "collisions": 1.0}
    assert _reported(run, [{}]) == {}


@pytest.mark.parametrize("what", ["silo", "tractor"])
def test_what_a_vehicle_runs_into_is_an_event_and_a_figure(farm, what):
    tractor = replace(TRACTOR, position=(50.0, 0.0, 0.0) if what == "tractor" else TRACTOR.position)
    extra = {"obstacles": "farm.geojson"} if what == "silo" else {}
    missions = {"uav": [["100 m", "0 m", "20 m" if what == "silo" else "1 m"]]}
    run = Run((HOUSE, tractor, COPTER), root=farm, geo=HOME if extra else None, missions=missions, **extra)
    rows = []
    for time in range(25):
        (frame,) = (f for f in run.adapter.step(float(time), Inputs({}, [])) if f.signal == "impact")
        assert fault(frame, IMPACT, 3) == ""
        rows += [{name: frame[name][k].item() for name in frame.columns} | {"slot": int(frame.slot[k])}
                 for k in range(len(frame))]  # fmt: skip
    drone = next(row for row in rows if row["slot"] == 2)
    body = float(Copter().row()["body"][0])
    if what == "silo":
        assert (drone["what"], drone["obstacle"], drone["other"]) == (OBSTACLE, 0, -1)
        way = 45.0 - body
    else:
        assert (drone["what"], drone["obstacle"], drone["other"]) == (VEHICLE, -1, 1)
        assert [(row["other"], row["broken"]) for row in rows if row["slot"] == 1] == [(2, False)]
        way = 50.0 - math.sqrt((body + float(Rover().row()["body"][0])) ** 2 - 1.0)
    assert drone["broken"]
    assert drone["speed"] > 3.0
    summary = run.adapter.finish()
    assert summary["vehicles"]["uav"]["crashed"]
    assert summary["impacts"] == {"crashes": 1}
    assert run.adapter.finish()["vehicles"]["uav"]["travelled"] > way
    figures = _reported(SimpleNamespace(signals=()), [summary])
    assert figures["crashes"] == {"value": 1, "unit": "1", "meaning": "vehicles that an impact has broken"}


def test_on_a_hill_the_silo_stands_on_the_highest_ground_under_it(farm):
    top = ground(55.0, 5.0) + 30.0
    both = {"terrain": "hill.asc"}
    assert watched(farm, 25, (100, 0, top + 1.0), **both)[0] == []
    assert [event["kind"] for event in watched(farm, 25, (100, 0, top - 1.0), **both)[0]] == [0, 1]


def test_check_says_which_leg_leads_through_which_obstacle(farm):
    missions = {"uav": [["0 m", "40 m", "20 m"], ["100 m", "-40 m", "25 m"], ["100 m", "40 m", "25 m"]]}
    (leg,) = checked(farm, geo=HOME, obstacles="farm.geojson", missions=missions)
    assert (leg.fatal, leg.path) == (False, "adapters.vehicle.missions.uav")
    assert leg.message == "the leg to place 2 of 'uav' leads through 'silo'"
    assert leg.hint == "its top is at 30.0 m; fly higher or round it"
    (back,) = checked(
        farm, geo=HOME, obstacles="farm.geojson", missions={"uav": [*missions["uav"][:1], ["100 m", "0 m", "9 m"]]}
    )
    assert back.message == "the way home of 'uav' leads through 'silo'"
    drives = {"tractor": [["20 m", "40 m"], ["50 m", "40 m"], ["50 m", "-40 m"]]}
    (leg,) = checked(farm, geo=HOME, terrain="hill.asc", obstacles="farm.geojson", missions=drives)
    assert leg.message == "the leg to place 3 of 'tractor' leads through 'silo'"


def test_check_refuses_obstacles_that_cannot_be_read_or_stand_on_a_vehicle(farm):
    (lost,) = checked(farm, obstacles="farm.geojson")
    assert (lost.fatal, lost.path) == (True, "adapters.vehicle.obstacles")
    assert "no 'geo" in lost.message
    (inside,) = checked(farm, (replace(COPTER, position=(50.0, 0.0, 0.0)), TRACTOR), geo=HOME, obstacles="farm.geojson")
    assert (inside.message, inside.path) == ("'uav' starts inside 'silo'", "nodes.uav.at")
    text = (farm / "farm.geojson").read_text().replace('"height": 30', '"height": -30')
    (farm / "farm.geojson").write_text(text)
    assert "feature 0 cannot be read: 'height' is -30" in checked(farm, geo=HOME, obstacles="farm.geojson")[0].message


def test_without_a_terrain_or_obstacles_nothing_else_is_written():
    assert "proximity" not in ADAPTER.ports_of(VehicleConfig()).writes
    assert "proximity" in ADAPTER.ports_of(VehicleConfig(obstacles="farm.geojson")).writes
    assert "proximity" not in Run().adapter.finish()


def near(name, kind, x, y=0.0):
    return replace(DRONE if kind == "copter" else TRACTOR, id=name, position=(x, y, 0.0))


@pytest.mark.parametrize(
    ("nodes", "missions", "said"),
    [
        ((near("a", "copter", 0.0), near("b", "copter", 0.7)), {}, ["the homes of 'a' and 'b' are 0.7 m apart"]),
        ((near("a", "copter", 0.0), near("b", "copter", 0.71)), {}, []),
        ((near("a", "copter", 0.0), near("t", "rover", 0.0, 1.07)), {}, ["'t' is parked where 'a' is to land"]),
        ((near("a", "copter", 0.0), near("t", "rover", 0.0, 1.08)), {}, []),
        ((near("t", "rover", 0.0), near("u", "rover", 0.1)), {}, []),
        ((near("a", "copter", 0.0), near("t", "rover", 0.5)), {"t": [["40 m", "0 m"]]}, []),
        (
            (near("a", "copter", 0.0), near("t", "rover", 9.0)),
            {"t": [["40 m", "0 m"], ["0 m", "0.2 m"]]},
            ["'t' ends its mission where 'a' is to land"],
        ),
    ],
)
def test_homes_that_are_taken_are_warned_of(nodes, missions, said):
    found = [one for one in checked(".", nodes, missions=missions) if "apart" in one.message]
    assert [one.message.partition(":" if "where" in one.message else ",")[0] for one in found] == said
    assert not any(one.fatal for one in found)
    assert {one.path for one in found} <= {"nodes.a.at"}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"target": "t"}, True),
        ({"target": "t", "aside": "0.69 m"}, True),
        ({"target": "t", "aside": "0.71 m"}, False),
        ({"target": "u"}, False),
        ({"target": "t", "commands": [{"at": "30 s"}]}, False),
        ({"target": "t", "commands": [{"at": "29 s"}]}, True),
    ],
)
def test_a_stand_off_point_of_two_drones_is_warned_of(other, said):
    nodes = (
        near("a", "copter", 0.0),
        near("b", "copter", 9.0),
        near("t", "rover", 0.0, 9.0),
        near("u", "rover", 9.0, 9.0),
    )
    engage = [
        {"drone": "a", "target": "t", "commands": [{"at": "10 s", "for": "20 s"}]},
        {"drone": "b", "commands": [{"at": "0 s"}]} | other,
    ]
    found = [one for one in checked(".", nodes, engage=engage) if "and need" in one.message]
    assert [(one.path, one.fatal) for one in found] == [("adapters.vehicle.engage.1", False)] * said


def test_a_wind_that_carries_a_copter_away_is_warned_of():
    copter = Copter()
    held = copter.drag2 * 19.32**2 + copter.drag * 19.32
    assert held == pytest.approx(9.80665 * math.tan(copter.tilt), rel=1e-3)
    for speed, said in (("19.3 m/s", 0), ("19.4 m/s", 1)):
        wind = [speed, "0 m/s", "0 m/s"]
        found = checked(".", (near("uav", "copter", 0.0),), missions={"uav": [["40 m", "0 m", "9 m"]]}, wind=wind)
        assert len([one for one in found if "carries 'uav' away" in one.message]) == said
    assert not checked(".", (near("uav", "copter", 0.0),), wind=["40 m/s", "0 m/s", "0 m/s"])  # it stays on the ground


def test_heights_in_a_map_of_obstacles_are_warned_of(farm):
    data = json.loads((farm / "farm.geojson").read_text())
    (ring,) = data["features"][0]["geometry"]["coordinates"]
    data["features"][0]["geometry"]["coordinates"] = [[[*place, 240.0] for place in ring]]
    (farm / "farm.geojson").write_text(json.dumps(data))
    (warning,) = checked(farm, geo=HOME, obstacles="farm.geojson")
    assert (warning.fatal, warning.path) == (False, "adapters.vehicle.obstacles")
    assert "of 1 features of 'farm.geojson' the third coordinate, a height, has no effect" in warning.message
