"""Lines under the map of a run, from GeoJSON in metres."""

import json

from cosim.results import layers
from cosim.results.layers import map_lines

BOX = (0.0, 0.0, 100.0, 100.0)


def put(folder, adapter, shape):
    file = folder / "logs" / adapter / layers.FILE
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


def test_no_more_points_are_drawn_than_a_page_can_bear(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "POINTS", 5)
    put(tmp_path, "a", {"type": "MultiLineString", "coordinates": [[[0, 0], [n, 0]] for n in (1, 3, 2)]})
    assert map_lines(tmp_path, BOX) == [[(0.0, 0.0), (3.0, 0.0)], [(0.0, 0.0), (2.0, 0.0)]]
