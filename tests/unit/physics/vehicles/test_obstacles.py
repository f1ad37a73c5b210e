"""Distances from polygons in 2.5 dimensions, by cases that are clear without a computer."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from cosim.contract.geo import LocalFrame
from cosim.physics.vehicles.obstacles import Obstacles, read_obstacles
from cosim.physics.vehicles.terrain import Terrain

FRAME = LocalFrame(39.35, 22.95, 100.0)
SQUARE = [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)]
YARD = [(4.0, 4.0), (6.0, 4.0), (6.0, 6.0), (4.0, 6.0)]  # a hole
ELL = [(20.0, 0.0), (30.0, 0.0), (30.0, 2.0), (22.0, 2.0), (22.0, 10.0), (20.0, 10.0)]


@pytest.fixture(scope="module")
def barns():
    """A square barn with a yard, 8 m high, and an L, 5 m high."""
    return Obstacles.of([("barn", [np.array(SQUARE), np.array(YARD)], 8.0), ("ell", [np.array(ELL)], 5.0)])


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ((1.0, 1.0, 3.0), (0.0, math.inf)),
        ((5.0, 5.0, 3.0), (1.0, math.inf)),  # in the yard
        ((-3.0, -4.0, 3.0), (5.0, math.inf)),  # from the corner
        ((15.0, 5.0, 3.0), (5.0, 5.0)),
        ((15.0, 5.0, 6.0), (5.0, math.inf)),  # above the L
        ((15.0, 5.0, 8.0), (math.inf, math.inf)),  # as high as the barn
        ((25.0, 5.0, 1.0), (math.inf, 3.0)),  # in the L's corner
        ((21.0, 9.0, 1.0), (math.inf, 0.0)),
        ((10.0 + 6.0, 5.0, 1.0), (6.0, 4.0)),
        ((10.0 + 6.5, 5.0, 1.0), (math.inf, 3.5)),
    ],
)
def test_a_place(barns, place, expected):
    at = np.array([place])
    assert barns.distances(at, at, 6.0).tolist() == [pytest.approx(list(expected))]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        ((-5.0, 5.0, 3.0), (15.0, 5.0, 3.0), 0.0),  # through, although both ends are outside
        ((-5.0, -2.0, 3.0), (15.0, -2.0, 3.0), 2.0),  # along a side
        ((-6.0, 2.0, 3.0), (2.0, -6.0, 3.0), math.sqrt(8.0)),  # past the corner, by its diagonal
        ((-5.0, 5.0, 9.0), (15.0, 5.0, 9.0), math.inf),  # over it
        ((-5.0, 5.0, 3.0), (-2.0, 5.0, 9.0), 5.0 - 3.0 * 5.0 / 6.0),  # it climbs beside it, below the top till -2.5
        ((-2.0, 5.0, 9.0), (-5.0, 5.0, 3.0), 2.5),
        ((-5.0, 5.0, 8.0), (5.0, 2.0, 8.0), math.inf),
        ((5.0, 2.0, 20.0), (5.0, 2.0, 2.0), 0.0),  # down onto it
    ],
)
def test_a_way(barns, begin, end, expected):
    found = barns.distances(np.array([begin]), np.array([end]), 6.0)[0, 0]
    assert found == pytest.approx(expected)
    assert barns.hit(begin, end) == ([0] if expected == 0.0 else [])


def test_many_at_once_are_as_one_by_one(barns):
    draw = np.random.default_rng(4)
    low, high = np.array([-10.0, -10.0, 0.0]), np.array([40.0, 20.0, 10.0])
    before, after = draw.uniform(low, high, (300, 3)), draw.uniform(low, high, (300, 3))
    found = barns.distances(before, after, 4.0)
    fine = np.linspace(0.0, 1.0, 401)[:, None, None]
    places = (before + fine * (after - before)).reshape(-1, 3)
    walked = barns.distances(places, places, 4.0).reshape(401, 300, 2).min(axis=0)
    both = np.isfinite(found) & np.isfinite(walked)
    assert (found <= walked + 1e-12).all()
    assert np.abs(found[both] - walked[both]).max() < 0.2  # half a step
    assert both.sum() > 100


def degrees(corners):
    longitude, latitude = FRAME.to_wgs84([x for x, _ in corners], [y for _, y in corners])[1::-1]
    ring = [[float(a), float(b)] for a, b in zip(longitude, latitude, strict=True)]
    return [*ring, ring[0]]


def written(path, *features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [
        {"type": "Feature", "properties": p, "geometry": {"type": "Polygon", "coordinates": rings}}
        for p, rings in features
    ]}))  # fmt: skip
    return path


def test_geojson_is_read_with_heights_above_the_highest_ground_under_it(tmp_path):
    file = written(
        tmp_path / "farm.geojson",
        ({"height": 8.0, "name": "barn"}, [degrees(SQUARE), degrees(YARD)]),
        ({"weeds": 1}, [degrees(SQUARE)]),
        ({"height": 5}, [degrees(ELL)]),
    )
    read = read_obstacles(file, FRAME)
    assert read.names == ("barn", "obstacle 1")
    assert read.tops.tolist() == [8.0, 5.0]
    assert read.bounds[1] == pytest.approx([20.0, 0.0, 30.0, 10.0], abs=1e-3)
    assert read.distances(np.array([[25.0, 5.0, 1.0]]), np.array([[25.0, 5.0, 1.0]]), 6.0)[0, 1] == pytest.approx(
        3.0, abs=1e-3
    )
    slope = Terrain(np.array([0.0, 0.0, 100.0]), np.array([[1.0, 11.0], [1.0, 11.0]]))  # 1 m + x / 10
    assert read_obstacles(file, FRAME, slope).tops == pytest.approx([10.0, 9.0], abs=1e-3)


@pytest.mark.parametrize(
    ("properties", "rings", "what"),
    [
        ({"height": "tall"}, [SQUARE], "feature 0 cannot be read: 'height' is 'tall'"),
        ({"height": 0}, [SQUARE], "more than 0"),
        ({"height": 3}, [SQUARE[:2]], "three corners or more"),
        ({"height": 3}, [[SQUARE[k] for k in (0, 2, 1, 3)]], "from corner 1 to 2 crosses that from 3 to 4 "),
        ({"hight": 3}, [SQUARE], "no polygon has the property 'height'"),
    ],
)
def test_what_is_no_obstacle_is_refused(tmp_path, properties, rings, what):
    file = written(tmp_path / "farm.geojson", (properties, [degrees(ring) for ring in rings]))
    with pytest.raises(ValueError, match=what):
        read_obstacles(file, FRAME)
    with pytest.raises(ValueError, match="no 'geo"):
        read_obstacles(file, None)
