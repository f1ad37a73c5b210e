"""Fields from GeoJSON, and pictures of them that show what grows there."""

from __future__ import annotations

import json
import math
import zlib

import numpy as np
import pytest

from cosim.contract.geo import LocalFrame
from cosim.physics.vehicles.tiles import Shot, judged, png, ppm, render
from cosim.physics.vehicles.weeds import Plants, WeedDetector, WeedField, growth, read_weeds

FRAME = LocalFrame(39.36, 22.95, 60.0)


def ring(west, south, east, north):
    x, y = [west, east, east, west, west], [south, south, north, north, south]
    latitude, longitude, _ = FRAME.to_wgs84(x, y)
    return [[float(a), float(b)] for a, b in zip(longitude, latitude, strict=True)]


def feature(kind, coordinates, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def written(tmp_path, *features, **more):
    path = tmp_path / "field.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return path


def test_polygons_are_laid_over_each_other_and_holes_are_left_out(tmp_path):
    whole = feature("Polygon", [ring(10, 20, 50, 40), ring(30, 20, 40, 40)], weeds=1.0)
    patch = feature("MultiPolygon", [[ring(10, 20, 12, 22)], [ring(44, 30, 46, 40)]], weeds=5)
    rows = feature("LineString", ring(15, 20, 45, 40)[:2], crop="beet")
    field = read_weeds(written(tmp_path, whole, patch, rows, cell=2.0), FRAME)
    assert (field.west, field.south) == pytest.approx((10.0, 20.0), abs=0.01)
    assert field.density.shape == (10, 20)
    assert field.density[0].tolist() == [5.0, *[1.0] * 9, *[0.0] * 5, *[1.0] * 5]
    assert field.density[7].tolist() == [*[1.0] * 10, *[0.0] * 5, 1.0, 1.0, 5.0, 1.0, 1.0]
    assert field.crop == pytest.approx(np.array([[15.0, 20.0, 45.0, 20.0]]), abs=0.01)


@pytest.mark.parametrize(
    ("features", "more", "words"),
    [
        ([], {}, "no feature has the property 'weeds'"),
        ([feature("Polygon", [], weeds=-1.0)], {}, "feature 0.*0 or more"),
        ([feature("Point", [22.95, 39.36], weeds=1.0)], {}, "feature 0.*not a Polygon"),
        ([feature("Polygon", [[[22.95]]], weeds=1.0)], {}, "feature 0 cannot be read"),
        ([feature("Polygon", [ring(0, 0, 9, 9)[::2] + ring(0, 0, 9, 9)[1::2]], weeds=1.0)], {}, "crosses itself"),
        ([feature("Polygon", [ring(0, 0, 9, 9)], weeds=1.0)], {"cell": 0}, "side of a cell"),
        ([feature("Polygon", [ring(0, 0, 9e4, 9e4)], weeds=1.0)], {"cell": 0.1}, "cannot be"),
        ([], {"type": "Feature"}, "FeatureCollection"),
    ],
)
def test_fields_that_cannot_be_are_refused(tmp_path, features, more, words):
    with pytest.raises(ValueError, match=words):
        read_weeds(written(tmp_path, *features, **more), FRAME)


def test_degrees_need_an_origin(tmp_path):
    with pytest.raises(ValueError, match="origin"):
        read_weeds(written(tmp_path), None)


ROWS = np.array([[x, 0.0, x, 30.0] for x in np.arange(0.25, 30.0, 0.5)])
FIELD = WeedField(0.0, 0.0, 1.0, np.full((30, 30), 1.0), ROWS)
PLANTS = Plants.of(FIELD, growth((1, 2)))


def test_as_many_weeds_stand_in_a_cell_as_detectors_are_judged_by():
    weeds = slice(0, PLANTS.weeds)
    counted, _, _ = np.histogram2d(PLANTS.y[weeds], PLANTS.x[weeds], bins=30, range=[[0, 30], [0, 30]])
    assert (counted == FIELD.grown(growth((1, 2)))).all()
    assert len(PLANTS.x) - PLANTS.weeds == 60 * 151  # every 20 cm
    with pytest.raises(ValueError, match="too many"):
        Plants.of(WeedField(0.0, 0.0, 1.0, np.full((100, 100), 1e3)), growth((1,)))


def test_tiles_cover_their_picture_once():
    shot = Shot(10.0, 12.0, 0.7, 0.01, 400, 300)
    tiles = [shot.tile(k, 100) for k in range(shot.tiles(100))]
    assert len(tiles) == 12
    middles = shot.places(*np.array([(tile.x, tile.y) for tile in tiles]).T)
    wanted = [(column, line) for line in (50, 150, 250) for column in (50, 150, 250, 350)]
    assert middles == pytest.approx(np.array(wanted, float))
    assert shot.tile(12, 100) == tiles[0]


@pytest.mark.parametrize("heading", [0.0, 1.0, 4.0])
def test_plants_are_green_where_the_truth_says_they_are(heading):
    shot = Shot(15.0, 15.0, heading, 0.004, 256, 256, 5e4)
    shown = render(PLANTS, shot).astype(float)
    numbers, places = shot.seen(PLANTS)
    inner = ((places > 12) & (places < 244)).all(axis=1)
    column, line = places[inner].astype(int).T
    red, green, blue = shown[line, column].T
    assert len(numbers) >= 10
    assert (2 * green - red - blue > 20).all()
    red, green, blue = shown.reshape(-1, 3).T
    assert (2 * green - red - blue < 20).mean() > 0.5  # soil lies between


def test_the_same_ground_looks_the_same_from_two_places():
    one, other = (render(PLANTS, Shot(x, 15.0, 0.0, 0.005, 200, 200, 1e9), 1) for x in (15.0, 15.25))
    apart = one[:, 50:].astype(int) - other[:, :-50].astype(int)
    assert np.abs(apart[5:-5, 5:-5]).mean() < 4.0  # noise alone


def test_less_light_is_more_noise():
    shot = [Shot(-50.0, -50.0, 0.0, 0.005, 100, 100, light) for light in (5e4, 5e3, 5e2)]
    rough = [np.diff(render(PLANTS, one).astype(float), axis=1).std() for one in shot]
    assert rough[0] < rough[1] < rough[2]


def test_finds_count_once_and_only_on_weeds():
    shot = Shot(15.0, 15.0, 0.0, 0.01, 256, 256)
    numbers, places = shot.seen(PLANTS)
    weeds = [tuple(place) for number, place in zip(numbers, places, strict=True) if number < PLANTS.weeds]
    assert judged(shot, PLANTS, weeds) == (len(weeds), len(weeds), 0)
    assert judged(shot, PLANTS, [weeds[0], weeds[0], (-90.0, -90.0)]) == (len(weeds), 1, 2)
    assert judged(shot, PLANTS, []) == (len(weeds), 0, 0)
    assert judged(Shot(-90.0, 0.0, 0.0, 0.01, 9, 9), PLANTS, [(1.0, 1.0)]) == (0, 0, 1)


def test_pixmap_and_png_hold_the_picture():
    picture = np.random.default_rng(1).integers(0, 256, (5, 7, 3), np.uint8)
    assert ppm(picture) == b"P6\n7 5\n255\n" + picture.tobytes()
    data = png(picture)
    start = data.index(b"IDAT")
    raw = zlib.decompress(data[start + 4 : start + 4 + int.from_bytes(data[start - 4 : start], "big")])
    assert np.frombuffer(raw, np.uint8).reshape(5, 22)[:, 1:].tobytes() == picture.tobytes()


def test_a_detector_follows_the_light_by_its_logarithm():
    detector = WeedDetector([(0.01, 0.8)], [(0.01, 0.9)], 1e4, [(1e2, [(0.01, 0.2)], [(0.01, 0.5)])])
    assert detector.at(0.01, 1e4) == detector.at(0.01, 1e6) == pytest.approx((0.8, 0.9))
    assert detector.at(0.01, 1e3) == pytest.approx((0.5, 0.7))
    assert detector.at(0.01, 1.0) == pytest.approx((0.2, 0.5))
    with pytest.raises(ValueError, match="light of its own"):
        WeedDetector([(1.0, 1.0)], [(1.0, 1.0)], 5.0, [(5.0, [(1.0, 1.0)], [(1.0, 1.0)])])
    assert math.isclose(detector.at(0.01)[0], 0.8)
