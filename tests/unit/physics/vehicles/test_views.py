"""Pictures in perspective against the closed forms of a pinhole camera."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from cosim.physics.vehicles.camera import Camera, area
from cosim.physics.vehicles.terrain import Terrain
from cosim.physics.vehicles.views import Scenery, read_scenery
from cosim.physics.vehicles.weeds import WeedField, growth

ROWS = np.array([[x, 0.0, x, 30.0] for x in np.arange(0.25, 30.0, 0.5)])
FIELD = WeedField(0.0, 0.0, 1.0, np.full((30, 30), 1.0), ROWS)
BARE = WeedField(0.0, 0.0, 1.0, np.zeros((1, 1)))
WIDE, HIGH = math.radians(60.0), math.radians(45.0)
BRIGHT = 4.5e4  # lx


def camera(pitch=-90.0, heading=0.0, gimbal=True, mount=0.0, columns=240, lines=180):
    return Camera(WIDE, HIGH, columns, lines, gimbal, math.radians(90.0 + pitch), math.radians(heading), mount)


def scenery(eye, bodies=None, land=None, field=BARE):
    return Scenery(field, growth((1,)), {0: eye}, bodies or {}, land)


def pinhole(point, place, pitch, heading, body=(0.0, 0.0, 0.0)):
    """Column and line of a point, and how far ahead it is: by rotations of east, north and up, one after another."""
    turn, nose, roll = body
    rays = Rotation.from_euler("x", 90.0 + pitch, degrees=True)
    for axis, angle in (("z", -heading), ("y", roll), ("x", nose), ("z", -turn)):
        rays = Rotation.from_euler(axis, angle, degrees=True) * rays
    right, up, back = rays.inv().apply(np.subtract(point, place))
    column = 120.0 * (1.0 + right / -back / math.tan(WIDE / 2))
    return column, 90.0 * (1.0 - up / -back / math.tan(HIGH / 2)), -back


@pytest.mark.parametrize(
    ("pitch", "heading", "gimbal", "body", "at"),
    [
        (-90.0, 0.0, True, (0.0, 0.0, 0.0), (102.0, 51.0)),
        (-90.0, 30.0, True, (200.0, 9.0, -9.0), (99.0, 48.0)),
        (-40.0, 90.0, True, (15.0, 5.0, 5.0), (113.0, 46.0)),
        (-40.0, 90.0, False, (15.0, 8.0, -12.0), (112.0, 47.0)),
        (-15.0, 0.0, False, (330.0, -6.0, 10.0), (81.0, 83.0)),
    ],
)
@pytest.mark.parametrize("slope", [None, 0.1])
def test_vehicles_are_where_a_pinhole_camera_has_them(pitch, heading, gimbal, body, at, slope):
    land = None
    if slope is not None:
        x = np.arange(-500.0, 700.0, 20.0)
        land = Terrain(np.array([-500.0, -500.0, 20.0]), np.repeat(slope * x[None, :], 60, axis=0))
    ground = 0.0 if land is None else float(land.height(*at))
    foot = 0.0 if land is None else float(land.height(100.0, 50.0))
    place, radius = (100.0, 50.0, foot + 12.0), 0.5 if pitch < -30.0 else 2.0
    poses = {0: (*place[:2], place[2] - 2.0, *np.radians(body)), 1: (*at, ground, 0.0, 0.0, 0.0)}
    eye = camera(pitch, heading, gimbal, mount=2.0)
    with_it, without = (
        scenery(eye, bodies, land).picture(0, poses, BRIGHT, 240).astype(int)
        for bodies in ({1: (True, radius, 0.0), 0: (True, 0.3, 0.0)}, {0: (True, 0.3, 0.0)})
    )
    line, column = np.nonzero(np.abs(with_it - without).sum(axis=2) > 40)
    assert len(line) > 10
    wanted = pinhole((*at, ground + 0.35 * radius), place, pitch, heading, body if gimbal is False else (body[0], 0, 0))
    assert (column.mean() + 0.5, line.mean() + 0.5) == pytest.approx(wanted[:2], abs=1.0)
    wide = 240 / (2 * math.tan(WIDE / 2)) / wanted[2]  # pixels of a metre across
    assert np.ptp(column) <= 2.0 * radius * wide + 4.0
    assert np.ptp(column) >= radius * wide - 2.0
    if pitch == -90.0 and gimbal:
        assert np.ptp(column) == pytest.approx(2.0 * 0.95 * radius * wide, rel=0.35)


@pytest.mark.parametrize("pitch", [-15.0, -5.0, 0.0])
@pytest.mark.parametrize("hill", [False, True])
def test_the_horizon_is_in_the_row_of_its_pitch(pitch, hill):
    # a plain goes on to 5 km; from 10 m the horizon of what is drawn is 0.1 degrees below the true one
    land = Terrain(np.array([-9e3, -9e3, 500.0]), np.full((40, 40), 30.0)) if hill else None
    up = 40.0 if hill else 10.0
    shown = scenery(camera(pitch), None, land).picture(0, {0: (5.0, 5.0, up, 1.0, 0.0, 0.0)}, BRIGHT, 240).astype(int)
    blue = shown[:, :, 2] > shown[:, :, 0]
    wanted = 90.0 * (1.0 - math.tan(math.radians(-pitch)) / math.tan(HIGH / 2))
    assert blue.sum(axis=0) == pytest.approx(np.full(240, wanted), abs=1.5)
    assert not blue[int(wanted) + 3 :].any()


def test_what_is_behind_or_hidden_is_not_seen():
    place = {0: (0.0, 0.0, 3.0, 0.0, 0.0, 0.0)}
    bodies = {1: (False, 1.0, 0.0), 2: (False, 0.3, 0.0)}
    alone, behind, one, both = (
        scenery(camera(-10.0), bodies).picture(0, place | more, BRIGHT, 240).astype(int)
        for more in (
            {},
            {1: (0.0, -9.0, 0.0, 0.0, 0.0, 0.0)},
            {1: (0.0, 9.0, 0.0, 0.0, 0.0, 0.0)},
            {1: (0.0, 9.0, 0.0, 0.0, 0.0, 0.0), 2: (0.0, 10.5, 0.0, 0.0, 0.0, 0.0)},
        )
    )
    assert (behind == alone).all()
    assert (one != alone).any()
    assert (both == one).all()


def test_plants_grow_where_the_truth_has_them_in_perspective():
    sight = scenery(camera(-60.0, 20.0, columns=480, lines=360), field=FIELD)
    shown = sight.picture(0, {0: (15.0, 10.0, 3.0, 0.0, 0.0, 0.0)}, BRIGHT, 480).astype(float)
    plants = sight.plants
    places = [pinhole((x, y, 0.0), (15.0, 10.0, 3.0), -60.0, 20.0) for x, y in zip(plants.x, plants.y, strict=True)]
    inner = [(2 * c, 2 * r) for c, r, ahead in places if ahead > 0.0 and 5 < c < 235 and 5 < r < 175]
    column, line = np.array(inner).astype(int).T
    red, green, blue = shown[line, column].T
    assert len(inner) > 50
    assert (2 * green - red - blue > 10).mean() > 0.97
    red, green, blue = shown.reshape(-1, 3).T
    assert (2 * green - red - blue < 10).mean() > 0.5


def test_rays_meet_the_corners_of_the_footprint_and_points_their_places():
    eye, attitude = camera(-65.0, 40.0, gimbal=False), np.radians((25.0, 4.0, -7.0))
    axes = eye.axes(*attitude)
    corners = eye.rays(np.array([0.0, 180.0]), np.array([0.0, 240.0])) @ axes.T
    ground = (9.0 / corners[:, :, 2:] * corners).reshape(4, 3)[[0, 1, 3, 2]][:, [1, 0]] + (3.0, 4.0)
    found = eye.footprint(3.0, 4.0, 9.0, *attitude)
    np.testing.assert_allclose(found, ground, atol=1e-9)
    points = np.column_stack([found[:, 1] - 4.0, found[:, 0] - 3.0, np.full(4, 9.0)])
    places, size = eye.places(points @ axes)
    np.testing.assert_allclose(places, [(0, 0), (240, 0), (240, 180), (0, 180)], atol=1e-9)
    assert (size > 0.0).all()
    assert area(found) > 0.0
    small = Camera(WIDE, HIGH, 4000, 3000).smaller(480)
    assert (small.columns, small.lines) == (480, 360)


def test_what_is_kept_is_what_was_there(tmp_path):
    hill = Terrain(np.array([0.0, 0.0, 5.0]), np.arange(12.0).reshape(3, 4))
    for land in (None, hill):
        kept = Scenery(FIELD, growth((1, 2)), {3: camera(-30.0)}, {4: (False, 1.5, 2.0)}, land)
        kept.save(tmp_path / "field.npz")
        found = read_scenery(tmp_path / "field.npz")
        assert (found.cameras, found.bodies) == (kept.cameras, kept.bodies)
        assert (found.plants.x == kept.plants.x).all()
        assert (found.plants.radius == kept.plants.radius).all()
        assert (found.land is None) == (land is None)
    assert (found.land.heights == hill.heights).all()
