"""Footprints against plane geometry, and weeds that are found as often as the detector says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.physics.vehicles.camera import Camera, area
from cosim.physics.vehicles.terrain import Terrain
from cosim.physics.vehicles.weeds import WeedDetector, WeedField, read_weeds

Rotation = pytest.importorskip("scipy.spatial.transform").Rotation

SQUARE = Camera(math.radians(90.0), math.radians(90.0), 1000, 1000, gimbal=False)


def test_straight_down_the_footprint_is_a_rectangle():
    camera = Camera(math.radians(70.0), math.radians(55.0), 4000, 3000)
    corners = camera.footprint(100.0, 50.0, 20.0, math.radians(30.0), pitch=0.3, roll=-0.2)
    across, along = 2 * 20.0 * math.tan(math.radians(35.0)), 2 * 20.0 * math.tan(math.radians(27.5))
    assert area(corners) == pytest.approx(across * along)
    np.testing.assert_allclose(corners.mean(axis=0), [100.0, 50.0], atol=1e-9)
    front = corners[:2].mean(axis=0) - [100.0, 50.0]
    assert math.degrees(math.atan2(front[0], front[1])) == pytest.approx(30.0)
    assert camera.pixel(area(corners)) == pytest.approx(math.sqrt(across / 4000 * along / 3000))


@pytest.mark.parametrize(
    ("pitch", "roll", "east", "north"),
    [(10.0, 0.0, (-1, 1), (math.tan(math.radians(-35)), math.tan(math.radians(55)))),
     (0.0, 10.0, (math.tan(math.radians(-55)), math.tan(math.radians(35))), (-1, 1))],
)  # fmt: skip
def test_attitude_moves_the_footprint_as_rays_say(pitch, roll, east, north):
    # nose up looks ahead: edges at -45 + 10 and 45 + 10 degrees; right side down looks to the left
    corners = SQUARE.footprint(0.0, 0.0, 1.0, 0.0, math.radians(pitch), math.radians(roll))
    moved, limits = (1, north) if pitch else (0, east)
    assert (corners[:, moved].min(), corners[:, moved].max()) == pytest.approx(limits)
    assert area(corners) > 4.0


def test_a_picture_with_the_horizon_in_it_is_none():
    assert SQUARE.footprint(0.0, 0.0, 10.0, 0.0, pitch=math.radians(41.0)) is None
    assert SQUARE.footprint(0.0, 0.0, 0.0, 0.0) is None


@pytest.mark.parametrize("wrong", [(0.0, 1.0, 10, 10), (1.0, math.pi, 10, 10), (1.0, 1.0, 0, 10)])
def test_cameras_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=r"between 0 and 180|one pixel"):
        Camera(*wrong)


def test_cells_are_inside_when_their_middle_is():
    field = WeedField(0.0, 0.0, 1.0, np.ones((20, 30)))
    corners = np.array([[5.0, 5.0], [10.0, 5.0], [10.0, 8.0], [5.0, 8.0]])
    for turned in (corners, corners[::-1]):
        rows, columns, within = field.inside(turned)
        assert within.sum() == 15
        assert (rows.start, columns.start) == (5, 5)
    rows, columns, within = field.inside(corners - [20.0, 0.0])
    assert within.sum() == 0
    rows, columns, within = field.inside(np.array([[-5.0, -5.0], [3.0, -5.0], [3.0, 4.0], [-5.0, 4.0]]))
    assert within.sum() == 12


def test_weeds_grow_as_dense_as_the_field_says():
    field = WeedField(0.0, 0.0, 0.5, np.full((200, 200), 4.0))
    grown = field.grown(3)
    assert grown.sum() == pytest.approx(40_000, abs=4 * 200)
    assert (grown == field.grown(3)).all()
    assert (grown != field.grown(4)).any()


def test_a_detector_is_as_good_as_it_says():
    detector = WeedDetector([(0.001, 0.9), (0.011, 0.5)], [(0.001, 0.8)])
    assert detector.at(0.006) == pytest.approx((0.7, 0.8))
    assert detector.at(1.0) == (0.5, 0.8)
    draw = np.random.default_rng(1)
    hits, wrong = np.array([detector.found(1000, 0.006, draw) for _ in range(200)]).sum(axis=0)
    assert hits / 200_000 == pytest.approx(0.7, abs=0.005)
    assert hits / (hits + wrong) == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize(
    ("recall", "precision"),
    [
        ([], [(1.0, 1.0)]),
        ([(1.0, 0.5), (1.0, 0.4)], [(1.0, 1.0)]),
        ([(1.0, 1.1)], [(1.0, 1.0)]),
        ([(1.0, 1.0)], [(1.0, 0.0)]),
    ],
)
def test_detectors_that_cannot_be_are_refused(recall, precision):
    with pytest.raises(ValueError, match=r"recall|precision"):
        WeedDetector(recall, precision)


GRID = "ncols 3\nnrows 2\nxllcorner 10\nyllcorner -5\ncellsize 2\nNODATA_value -1\n1 2 3\n4 -1 0.5\n"


def test_a_grid_is_read_from_the_north(tmp_path):
    path = tmp_path / "weeds.asc"
    path.write_text(GRID)
    field = read_weeds(path)
    assert (field.west, field.south, field.cell) == (10.0, -5.0, 2.0)
    assert field.density.tolist() == [[4.0, 0.0, 0.5], [1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cellsize 2\n", "", "cellsize is missing"),
        ("1 2 3", "1 2", "has 5 values"),
        ("1 2 3", "-7 2 3", "0 or more"),
        ("1 2 3", "nan 2 3", "0 or more"),
        ("ncols 3", "ncols 1e9", "cannot be"),
        ("cellsize 2", "cellsize 0", "cannot be"),
        ("ncols 3", "ncols 3 4", "has 2 values"),
        ("1 2 3", "1 two 3", "line 7: 'two' is not a number"),
    ],
)
def test_grids_that_cannot_be_are_refused(tmp_path, old, new, words):
    path = tmp_path / "weeds.asc"
    path.write_text(GRID.replace(old, new))
    with pytest.raises(ValueError, match=words):
        read_weeds(path)


def plane(east, north, height, cell=8.0):
    """The plane height + east * x + north * y on 1600 x 1600 m around the origin."""
    at = -796.0 + cell * np.arange(200)
    return Terrain(np.array([at[0], at[0], cell]), height + east * at[None, :] + north * at[:, None])


@given(
    st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-90.0, -45.0), st.floats(0.0, 360.0), st.floats(0.0, 360.0),
    st.floats(-15.0, 15.0), st.floats(-15.0, 15.0), st.floats(2.0, 40.0), st.booleans(),
)  # fmt: skip
def test_on_a_plane_slope_the_footprint_is_that_of_the_closed_form(
    east, north, axis, turn, heading, pitch, roll, above, gimbal
):
    across, along = math.radians(40.0), math.radians(30.0)
    camera = Camera(across, along, 400, 300, gimbal, math.radians(90.0 + axis), math.radians(turn))
    x, y = 12.5, -31.0
    found = camera.footprint(
        x, y, above, *(math.radians(angle) for angle in (heading, pitch, roll)), plane(east, north, 7.0)
    )
    # by rotations of east, north and up, one after another: about the axes of roll, pitch and heading of the body
    corners = []
    for front, side in ((1, -1), (1, 1), (-1, 1), (-1, -1)):
        ray = np.array([side * math.tan(across / 2), front * math.tan(along / 2), -1.0])
        ray = Rotation.from_euler("x", 90.0 + axis, degrees=True).apply(ray)
        ray = Rotation.from_euler("z", -turn, degrees=True).apply(ray)
        if not gimbal:
            ray = Rotation.from_euler("y", roll, degrees=True).apply(ray)
            ray = Rotation.from_euler("x", pitch, degrees=True).apply(ray)
        ray = Rotation.from_euler("z", -heading, degrees=True).apply(ray)
        if -ray[2] < math.cos(math.radians(85.0)) * np.linalg.norm(ray):
            assert found is None
            return
        closing = east * ray[0] + north * ray[1] - ray[2]
        if closing < 0.02:
            return  # along the slope, beyond the map
        corners.append((x + above / closing * ray[0], y + above / closing * ray[1]))
    if np.abs(corners).max() < 780.0:
        np.testing.assert_allclose(found, corners, atol=1e-6)


def test_what_stands_before_hides_what_is_behind():
    at = -99.5 + np.arange(200)
    ridge = np.where(np.abs(at - 20.0) < 1.2, 8.0, 0.0)  # a wall along x, 20 m north, 8 m high
    land = Terrain(np.array([at[0], at[0], 1.0]), np.repeat(ridge[:, None], 200, axis=1))
    camera = Camera(math.radians(20.0), math.radians(10.0), 100, 100, tilt=math.radians(70.0))
    far, near = camera.footprint(0.0, 0.0, 10.0, 0.0), camera.footprint(0.0, 0.0, 10.0, 0.0, land=land)
    assert far[:, 1].min() > 21.0
    assert (near[:, 1] > 18.0).all()
    assert near[:2, 1].max() < 20.0  # the upper edge looks at the wall, which is 1 m of slope wide
    heights = land.height(near[:, 0], near[:, 1])
    for (x, y), z in zip(near, heights, strict=True):
        way = np.linspace(0.0, 1.0 - 1e-6, 100_001)[:, None] * (x, y)
        assert (10.0 + np.linspace(0.0, 1.0 - 1e-6, 100_001) * (z - 10.0) >= land.height(*way.T) - 1e-9).all()
