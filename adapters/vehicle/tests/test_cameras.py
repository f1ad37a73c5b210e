"""Pictures of a field with weeds, and decisions by what is found in them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.vehicle import ADAPTER, PICTURE, PICTURE_TRUTH
from cosim.adapters.vehicle.config import VehicleConfig
from cosim.adapters.vehicle.tests.test_vehicle_adapter import DRONE, HOUSE, TRACTOR, WORK
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Scene, SlotRange, Workload
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.laws import Law
from cosim.contract.signals import DEMAND

CAMERA = {"recall": [["1 mm", "90 %"], ["20 mm", "40 %"]], "precision": [["1 mm", "80 %"]], "source": "a trial"}
UP = {"uav": [["30 m", "30 m", "20 m"]]}


@pytest.fixture
def field(tmp_path):
    """2 weeds per m2 on 100 x 100 m, but none west of 0 m."""
    rows = "\n".join(" ".join("0" if column < 50 else "2" for column in range(100)) for _ in range(100))
    (tmp_path / "weeds.asc").write_text(f"ncols 100\nnrows 100\nxllcorner -50\nyllcorner -20\ncellsize 1\n{rows}\n")
    return tmp_path


def flown(root, until, seed=3, nodes=(DRONE, TRACTOR, HOUSE), **config):
    config = VehicleConfig.model_validate(
        {"substep": "20 ms", "weeds": "weeds.asc", "cameras": {"uav": CAMERA}, **config}
    )
    adapter = ADAPTER.build(config)
    scene = Scene.build(tuple(nodes))
    adapter.start(Context("vehicle", scene, 1.0, 900.0, (seed,), str(root), str(root)))
    reported = []
    for time in range(until):
        frames = adapter.step(float(time), Inputs({}, []))
        assert [frame.signal for frame in frames[4:]] == ["picture", "picture_truth", "autopilot", "impact"]
        for frame, signal in zip(frames[4:6], (PICTURE, PICTURE_TRUTH), strict=True):
            assert fault(frame, signal, 3) == ""
        reported.append(
            {**{k: v[0] for k, v in frames[4].columns.items()}, **{k: v[0] for k, v in frames[5].columns.items()}}
        )
    return reported, adapter


def test_pictures_are_taken_in_flight_and_show_what_grows_there(field):
    reported, adapter = flown(field, 40, missions=UP)
    assert reported[0]["pictures"] == 0
    assert math.isnan(reported[0]["pixel"])
    last = reported[39]
    assert last["pictures"] > 10
    high = 20.0 - 2.0  # above its home's ground
    across, along = (2 * high * math.tan(math.radians(v / 2)) for v in (70.0, 55.0))
    hover = min(reported, key=lambda one: abs(one["x"] - 30.0) + abs(one["y"] - 30.0) if one["pictures"] else math.inf)
    assert hover["area"] == pytest.approx(across * along, rel=0.02)
    assert hover["pixel"] == pytest.approx(math.sqrt(across * along / 12e6), rel=0.01)
    assert hover["weeds"] == pytest.approx(2.0 * hover["area"], abs=5 * math.sqrt(2.0 * hover["area"]))
    assert hover["found"] == hover["hits"] + hover["false_alarms"]
    assert hover["density"] == pytest.approx(hover["found"] / hover["area"])
    summary = adapter.finish()["cameras"]["uav"]
    assert summary["pictures"] == last["pictures"]
    assert 0.5 < summary["recall"] < 0.9
    assert summary["precision"] == pytest.approx(0.8, abs=0.05)


def test_a_run_repeats_and_another_seed_has_other_weeds(field):
    first, second, other = ([one["found"] for one in flown(field, 25, seed, missions=UP)[0]] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other, equal_nan=True)


def test_what_is_found_decides(field):
    missions = {**WORK}
    pair = {
        "drone": "uav", "target": "tractor", "height": "15 m", "engage": {"when": "time > 3"},
        "disengage": {"when": "drone.picture.density > 0.5", "hysteresis": "2 s"},
    }  # fmt: skip
    reported, adapter = flown(field, 60, missions=missions, engage=[pair])
    (record, *_) = adapter.finish()["engagements"]
    assert record["reason"] == "disengaged"
    assert max(one["density"] for one in reported if one["pictures"]) > 0.5


def test_the_light_of_the_day_decides_how_much_is_found(field):
    dim = {"light": "100 lx", "recall": [["1 mm", "5 %"]], "precision": [["1 mm", "80 %"]]}
    cameras = {"uav": {**CAMERA, "lights": [dim]}}
    bright, _ = flown(field, 25, missions=UP, cameras=cameras, light="20 klx")
    reported, adapter = flown(field, 25, missions=UP, cameras=cameras, light="100 lx")
    assert reported[24]["light"] == 100.0
    assert adapter.finish()["cameras"]["uav"]["recall"] == pytest.approx(0.05, abs=0.02)
    assert reported[24]["weeds"] == bright[24]["weeds"]
    assert reported[24]["found"] < 0.3 * bright[24]["found"]
    with pytest.raises(ScenarioError, match="daylight"):
        flown(field, 1, cameras=cameras, light={"begins": "2026-05-12T09:00:00+03:00"})


def test_tasks_about_a_picture_take_the_work_that_it_makes(field):
    work = {"workload": "detection", "base": "100 Mcycles", "pixel": "10 cycles", "find": "1 Mcycles"}
    config = VehicleConfig.model_validate(
        {"weeds": "weeds.asc", "missions": UP, "cameras": {"uav": {**CAMERA, "work": work}}}
    )
    assert "demand" in ADAPTER.ports_of(config).writes
    law = Law("fixed", 1.0)
    load = Workload(
        "detection", (SlotRange(0, 1),), "every", 1.0, law, law, law, deadline=1.0
    )  # fmt: skip
    scene = replace(Scene.build((DRONE, TRACTOR, HOUSE)), workloads=(load,))
    adapter = ADAPTER.build(config)
    adapter.start(Context("vehicle", scene, 1.0, 900.0, (3,), str(field), str(field)))
    for time in range(20):
        *_, picture, _, demand, _, _ = adapter.step(float(time), Inputs({}, []))
        assert fault(demand, DEMAND, 3, workloads=1) == ""
    assert demand["work"][0] == pytest.approx(100e6 + 10.0 * 12e6 + 1e6 * picture["found"][0])
    wrong = replace(scene, workloads=(replace(load, sources=(SlotRange(1, 1),)),))
    with pytest.raises(ScenarioError, match="makes no tasks"):
        ADAPTER.build(config).start(Context("vehicle", wrong, 1.0, 900.0, (3,), str(field), str(field)))


def test_tractors_and_masts_look_ahead_over_the_ground(field):
    heights = "\n".join(" ".join(f"{0.1 * (-200 + 20 * k):g}" for k in range(21)) for _ in range(21))
    (field / "hill.asc").write_text(f"ncols 21\nnrows 21\nxllcorner -210\nyllcorner -210\ncellsize 20\n{heights}\n")
    mast = replace(HOUSE, position=(20.0, 30.0, 6.0))
    view = {"view": ["40 deg", "30 deg"], "pitch": "-45 deg"}
    cameras = {
        "tractor": {**CAMERA, **view, "mount": "2.5 m", "every": "1 s"},
        "house": {**CAMERA, **view, "mount": "3 m", "heading": "90 deg", "every": "10 s"},
    }
    config = {"terrain": "hill.asc", "cameras": cameras, "missions": {"tractor": [["20 m", "60 m"]]}}
    nodes = (replace(DRONE, position=(0.0, 0.0, 0.0)), replace(TRACTOR, position=(20.0, 0.0, 0.0)), mast)
    adapter = ADAPTER.build(VehicleConfig.model_validate({"weeds": "weeds.asc", **config}))
    adapter.start(Context("vehicle", Scene.build(nodes), 1.0, 900.0, (3,), str(field), str(field)))
    for time in range(21):
        frames = adapter.step(float(time), Inputs({}, []))
    picture = frames[4]
    assert fault(picture, PICTURE, 3) == ""
    assert picture.slot.tolist() == [1, 2]
    assert picture["pictures"].tolist() == [21, 3]
    places = frames[0]
    tractor = [float(places[axis][places.slot.tolist().index(1)]) for axis in "xy"]
    # the tractor drives north along a contour: its axis meets ground that does not rise, at the height of its camera
    near, far = (2.5 * math.tan(math.radians(45.0 + part)) for part in (-15.0, 15.0))
    assert picture["heading"][0] == pytest.approx(0.0, abs=1.0)
    assert tractor[1] + near < picture["y"][0] < tractor[1] + far
    # the mast looks up the slope of 1 in 10: 6 m + 3 m above the origin, 7 m above the ground at its foot
    ends = [7.0 / (0.1 + 1.0 / math.tan(math.radians(45.0 + part))) for part in (-15.0, 15.0)]
    assert picture["heading"][1] == pytest.approx(90.0)
    assert picture["x"][1] == pytest.approx(20.0 + sum(ends) / 2.0, abs=1e-6)
    assert picture["y"][1] == pytest.approx(30.0, abs=1e-6)
    slant = [end / math.sin(math.radians(45.0 + part)) for end, part in zip(ends, (-15.0, 15.0), strict=True)]
    wide = [2.0 * reach * math.tan(math.radians(20.0)) * math.cos(math.radians(15.0)) for reach in slant]
    assert picture["area"][1] == pytest.approx((ends[1] - ends[0]) * sum(wide) / 2.0, rel=1e-9)
    assert set(adapter.finish()["cameras"]) == {"tractor", "house"}


def test_without_cameras_there_are_no_pictures():
    config = VehicleConfig.model_validate({})
    assert "picture" not in ADAPTER.ports_of(config).writes
    assert [signal.name for signal in ADAPTER.signals_of(config)] == ["behaviour", "engagement", "autopilot", "impact"]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"cameras": {"uav": CAMERA}}, "cameras"),
        ({"weeds": "weeds.asc"}, "weeds"),
        ({"weeds": "none.asc", "cameras": {"uav": CAMERA}}, "weeds"),
        ({"weeds": "weeds.asc", "cameras": {"tractor": CAMERA}}, "cameras.tractor"),
        ({"weeds": "weeds.asc", "cameras": {"house": CAMERA}}, "cameras.house"),
        ({"weeds": "weeds.asc", "cameras": {"nobody": CAMERA}}, "cameras.nobody"),
        (
            {"engage": [{"drone": "uav", "target": "tractor", "engage": {"when": "drone.picture.density > 1"}}]},
            "engage.0.engage.when",
        ),
    ],
)
def test_what_cannot_be_is_refused(field, config, path):
    adapter = ADAPTER.build(VehicleConfig.model_validate(config))
    with pytest.raises(ScenarioError) as caught:
        adapter.start(Context("vehicle", Scene.build((DRONE, TRACTOR, HOUSE)), 1.0, 9.0, (3,), str(field), "."))
    assert [problem.path for problem in caught.value.problems] == [f"adapters.vehicle.{path}"]


@pytest.mark.parametrize(
    "keys",
    [
        {"pitch": "5 deg"},
        {"pitch": "-91 deg"},
        {"source": ""},
        {"recall": []},
        {"precision": [["1 mm", "0 %"]]},
        {"pixels": [0, 10]},
    ],
)
def test_cameras_without_what_they_need_are_refused(keys):
    with pytest.raises(ValidationError):
        VehicleConfig.model_validate({"weeds": "weeds.asc", "cameras": {"uav": {**CAMERA, **keys}}})
