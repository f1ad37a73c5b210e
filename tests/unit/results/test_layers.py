"""Lines under the map of a run, from GeoJSON in metres."""

import json

import pytest

from cosim.contract.errors import SetupError
from cosim.contract.geo import LocalFrame
from cosim.contract.map_lines import FILE, write_lines
from cosim.results.layers import add_lines, map_lines, streets

BOX = (0.0, 0.0, 100.0, 100.0)


def put(folder, adapter, shape):
    file = folder / "logs" / adapter / FILE
    file.parent.mkdir(parents=True)
    file.write_text(shape if isinstance(shape, str) else json.dumps(shape))


def line(*points):
    return {"type": "LineString", "coordinates": [list(point) for point in points]}


def test_lines_polygons_and_collections_are_read_longest_first(tmp_path):
    square = [[10, 10], [20, 10], [20, 20], [10, 20], [10, 10]]
    collection = {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [square]}},
            {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 1]}},
            {"type": "Feature", "geometry": None},
        ],
    }
    put(tmp_path, "a", collection)
    put(
        tmp_path, "b", {"type": "GeometryCollection", "geometries": [line((0, 0), (0, 90)), line((0, 0, 7), (5, 0, 7))]}
    )
    assert [len(found) for found in map_lines(tmp_path, BOX)] == [2, 5, 2]
    assert map_lines(tmp_path, BOX)[0] == [(0.0, 0.0), (0.0, 90.0)]


def test_what_is_far_broken_or_no_number_is_left_out(tmp_path):
    put(tmp_path, "broken", '{"type": "LineString", "coord')
    put(tmp_path, "odd", {"type": "LineString", "coordinates": ["ab", "cd"]})
    put(tmp_path, "far", line((500, 500), (600, 600)))
    put(tmp_path, "nan", '{"type": "LineString", "coordinates": [[NaN, 1], [2, 3]]}')
    put(tmp_path, "ok", line((50, 50), (500, 50)))
    assert map_lines(tmp_path, BOX) == [[(50.0, 50.0), (500.0, 50.0)]]


def test_no_more_points_are_drawn_than_a_page_can_bear(tmp_path):
    put(tmp_path, "a", {"type": "MultiLineString", "coordinates": [[[0, 0], [n, 0]] for n in (1, 3, 2)]})
    assert map_lines(tmp_path, BOX, 5) == [[(0.0, 0.0), (3.0, 0.0)], [(0.0, 0.0), (2.0, 0.0)]]


def planned(folder, geo):
    (folder / "plan.json").write_text(json.dumps({"scene": {"geo": geo, "nodes": []}}))


def test_geojson_in_degrees_is_placed_by_the_origin(tmp_path):
    planned(tmp_path, {"latitude": 45.0, "longitude": 7.6, "height": 240.0})
    ground = LocalFrame(45.0, 7.6)
    ends = [ground.to_wgs84(0.0, 0.0), ground.to_wgs84(80.0, 60.0)]
    file = tmp_path / "field.geojson"
    file.write_text(json.dumps(line(*[(float(lon), float(lat)) for lat, lon, _ in ends])))
    assert add_lines(tmp_path, file) == 1
    assert map_lines(tmp_path, BOX) == [[(0.0, 0.0), (80.0, 60.0)]]


@pytest.mark.parametrize(
    ("geo", "text", "words"),
    [
        (None, "{}", "no 'geo:"),
        ({"latitude": 45.0, "longitude": 7.6}, "{", "cannot be read"),
        ({"latitude": 45.0, "longitude": 7.6}, '{"type": "Point", "coordinates": [7, 45]}', "no line"),
        ({"latitude": 45.0, "longitude": 7.6}, json.dumps(line((4e5, 5e6), (4e5, 6e6))), "not in degrees"),
    ],
)
def test_a_map_that_cannot_be_placed_is_refused(geo, text, words, tmp_path):
    planned(tmp_path, geo)
    file = tmp_path / "field.geojson"
    file.write_text(text)
    with pytest.raises(SetupError, match=words):
        add_lines(tmp_path, file)


def test_what_an_adapter_writes_is_what_the_map_reads(tmp_path):
    lines = [[(0.04, 0.06), (90.0, 0.0)], [(1.0, 1.0), (2.0, 2.0)]]
    assert write_lines(tmp_path / "logs" / "town", lines) == 2
    assert map_lines(tmp_path) == [[(0.0, 0.1), (90.0, 0.0)], [(1.0, 1.0), (2.0, 2.0)]]
    assert map_lines(tmp_path, most=3) == [[(0.0, 0.1), (90.0, 0.0)]]
    assert streets(tmp_path) == [[0.0, 0.1, 90.0, 0.0], [1.0, 1.0, 2.0, 2.0]]
