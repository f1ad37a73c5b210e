"""Hills: planes are exact, copters land where the ground is, rovers climb, and who flies into a hill has hit it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cosim.physics.vehicles import Copter, Rover, VehicleFleet, Waypoint
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.driven import Driven
from cosim.physics.vehicles.terrain import Terrain, ground_at, read_terrain, slope_at


def plane(east=0.1, north=-0.05, level=5.0, cell=10.0, shape=(30, 40), corner=(-100.0, -100.0)):
    """The ground level + east x + north y."""
    box = np.array([corner[0] + 0.5 * cell, corner[1] + 0.5 * cell, cell])
    y, x = (box[k] + cell * np.arange(n) for k, n in ((1, shape[0]), (0, shape[1])))
    return Terrain(box, level + east * x[None, :] + north * y[:, None])


def test_a_plane_is_exact_everywhere_and_goes_on_level_beyond_the_middle_of_the_outermost_cells():
    land = plane()
    draw = np.random.default_rng(1)
    x, y = draw.uniform(-95.0, 295.0, 500), draw.uniform(-95.0, 195.0, 500)
    assert land.height(x, y) == pytest.approx(5.0 + 0.1 * x - 0.05 * y, abs=1e-12)
    kernel = [ground_at(land.heights, land.box, a, b) for a, b in zip(x, y, strict=True)]
    assert kernel == pytest.approx(land.height(x, y), abs=1e-12)
    assert [slope_at(land.heights, land.box, a, b) for a, b in zip(x, y, strict=True)] == [
        pytest.approx((0.1, -0.05), abs=1e-12)
    ] * 500
    assert land.height(1e4, -1e4) == pytest.approx(5.0 + 29.5 + 4.75)
    assert slope_at(land.heights, land.box, 1e4, 0.0) == pytest.approx((0.0, -0.05))
    assert ground_at(land.heights, land.box, math.nan, math.nan) == land.heights[0, 0]
    assert [land.covers(-100.0, 200.0), land.covers(-100.1, 0.0), land.covers(0.0, 200.1)] == [True, False, False]


def test_between_four_cells_it_is_bilinear():
    land = Terrain(np.array([0.0, 0.0, 2.0]), np.array([[0.0, 4.0], [8.0, 20.0]]))
    assert land.height([1.0, 0.5, 0.0, 5.0], [1.0, 1.5, 2.0, 5.0]) == pytest.approx([8.0, 0.25 * 1 + 0.75 * 11, 8, 20])
    assert slope_at(land.heights, land.box, 1.0, 1.0) == pytest.approx((4.0, 6.0))
    one = Terrain(np.array([0.0, 0.0, 2.0]), np.array([[3.0]]))
    assert [ground_at(one.heights, one.box, x, 7.0) for x in (-9.0, 0.0, 0.5, 9.0)] == [3.0] * 4
    assert float(one.height(0.5, 0.5)) == 3.0


GRID = "ncols 3\nnrows 2\nxllcorner -5\nyllcorner 10\ncellsize 10\nNODATA_value -1\n1 2 3\n4 5 6\n"


def test_a_grid_is_read_from_the_north_by_corner_or_by_centre(tmp_path):
    file = tmp_path / "hill.asc"
    file.write_text(GRID)
    land = read_terrain(file)
    assert land.box.tolist() == [0.0, 15.0, 10.0]
    assert land.height([0.0, 20.0, 0.0], [15.0, 15.0, 25.0]).tolist() == [4.0, 6.0, 1.0]
    file.write_text(GRID.replace("xllcorner -5", "XLLCENTER 0").replace("yllcorner 10", "yllcenter 15"))
    assert read_terrain(file).box.tolist() == land.box.tolist()


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("cellsize 10\n", "", "cellsize is missing"),
        ("xllcorner -5\n", "", "xllcorner is missing"),
        ("cellsize 10", "cellsize ten", "'cellsize' in the head is 'ten', not a number"),
        ("4 5 6", "4 5", "has 5 values"),
        ("4 5 6", "4 x 6", "line 8: 'x' is not a number"),
        ("4 5 6", "4 -1 6", "1 of 6 cells have no height, one in row 2 from the north, column 2"),
        ("ncols 3", "ncols 0", "cannot be"),
    ],
)
def test_what_is_no_grid_is_refused_with_the_place(tmp_path, old, new, what):
    (tmp_path / "hill.asc").write_text(GRID.replace(old, new))
    with pytest.raises(ValueError, match=what):
        read_terrain(tmp_path / "hill.asc")


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_a_copter_takes_off_above_home_and_lands_on_the_hill(dynamics):
    land = plane()
    fleet = VehicleFleet([Copter(dynamics=dynamics)], [(10.0, 20.0, 99.0)], substep=0.02, terrain=land)
    assert fleet.state["z"][0] == pytest.approx(5.0)
    fleet.arm([0])
    fleet.take_off([0], 12.0)
    fleet.advance(12.0)
    assert fleet.state["z"][0] == pytest.approx(17.0, abs=0.3)
    fleet.go([0], [[60.0, -20.0, 20.0]])
    fleet.advance(25.0)
    assert fleet.above_ground()[0] == pytest.approx(20.0 - 12.0, abs=0.1)
    fleet.land([0])
    fleet.advance(45.0)
    s = fleet.state[0]
    assert (s["landed"], s["crashed"]) == (1, 0)
    assert s["z"] == pytest.approx(5.0 + 0.1 * s["x"] - 0.05 * s["y"], abs=1e-9)
    assert math.hypot(s["x"] - 60.0, s["y"] + 20.0) < 0.5
    # half a metre a second, at right angles to the slope
    assert s["impact"] == pytest.approx(fleet.frames["land_speed"][0] / math.sqrt(1.0125), rel=0.05)


def test_who_flies_level_into_a_hill_has_hit_it_at_right_angles_to_the_slope():
    land = plane(east=0.5, north=0.0, level=0.0)
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)], substep=0.005, terrain=land)
    fleet.arm([0])
    fleet.take_off([0], 30.0)
    fleet.advance(20.0)
    fleet.go([0], [[200.0, 0.0, 30.0]])
    fleet.advance(35.0)
    s = fleet.state[0]
    assert s["crashed"] == 1
    assert s["armed"] == 0
    assert s["x"] == pytest.approx(60.0, abs=0.1)
    assert s["z"] == pytest.approx(0.5 * s["x"], abs=1e-9)
    assert s["impact"] == pytest.approx(10.0 * 0.5 / math.sqrt(1.25), rel=0.02)


def test_a_rover_climbs_and_pays_for_its_weight_times_the_rise():
    courses = {}
    for name, land in (("level", plane(0.0, 0.0, 0.0)), ("slope", plane(0.1, 0.0, 0.0)), ("none", None)):
        rover = Rover()
        fleet = VehicleFleet([rover], [(0.0, 0.0, 0.0)], [0.5 * math.pi], substep=0.02, terrain=land)
        fleet.set_mission(0, [Waypoint(100.0, 0.0)])
        fleet.arm([0])
        fleet.start_mission([0])
        fleet.advance(80.0)
        courses[name] = fleet.state[0].copy(), fleet.frames[0]
    s, frame = courses["slope"]
    assert s["x"] == pytest.approx(100.0, abs=1.0)
    assert s["z"] == pytest.approx(0.1 * s["x"], abs=1e-9)
    assert s["x"] == courses["none"][0]["x"]
    lifted = frame["mass"] * GRAVITY * s["z"] / frame["wheel_efficiency"]
    assert s["energy"] - courses["none"][0]["energy"] == pytest.approx(lifted, rel=0.02)
    for name in courses["none"][0].dtype.names:  # level ground costs no bit
        assert np.array_equal(courses["level"][0][name], courses["none"][0][name], equal_nan=True), name


def test_a_driven_copter_stands_on_the_slope_where_it_comes_down():
    land = plane(0.0, 0.02, 3.0)
    body = Driven(Copter(dynamics="rigid"), (0.0, 50.0, 4.0), terrain=land)
    hover = 1.0 / body.frame["thrust_ratio"]
    body.step(np.full(4, 1.05 * hover), 0.0025, 1200)
    assert body.state["z"] > 4.5
    body.step(np.full(4, 0.97 * hover), 0.0025, 4000)
    body.step(np.zeros(4), 0.0025, 400)
    assert body.state["landed"] == 1
    assert body.state["z"] == pytest.approx(3.0 + 0.02 * body.state["y"], abs=1e-3)
    seen = land.seen_from((0.0, 50.0, 4.0))
    assert float(seen.height(7.0, 10.0)) == pytest.approx(0.2)
    rover = Driven(Rover(), (0.0, 50.0, 4.0), terrain=land)  # to the north, up the slope
    rover.step(np.array([0.0, 1.0, 0.0, 0.0]), 0.01, 1000)
    assert rover.state["y"] > 60.0
    assert rover.state["z"] == pytest.approx(3.0 + 0.02 * rover.state["y"], abs=1e-9)


def test_the_lowest_point_of_a_leg_over_a_hill():
    land = plane(0.1, 0.0, 0.0)
    above, (x, _) = land.lowest((0.0, 0.0, 10.0), (150.0, 0.0, 10.0))
    assert (above, x) == (pytest.approx(-5.0), pytest.approx(150.0))
