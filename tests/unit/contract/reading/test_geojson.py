"""GeoJSON in other coordinates, without what it needs, or in one of its rarer forms."""

import numpy as np
import pytest

from cosim.contract.geo import LocalFrame
from cosim.contract.reading.geojson import features
from cosim.physics.vehicles.maps import polygons_of

SPOT = {"type": "Point", "coordinates": [22.95, 39.36]}
SQUARE = {"type": "Polygon", "coordinates": [[[22.95, 39.36], [22.951, 39.36], [22.951, 39.361], [22.95, 39.36]]]}


def collection(*geometries, **more):
    listed = [{"type": "Feature", "properties": None, "geometry": one} for one in geometries]
    return {"type": "FeatureCollection", "features": listed, **more}


def crs(name):
    return {"crs": {"type": "name", "properties": {"name": name}}}


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (collection(SPOT, SQUARE), 2),
        (collection(None, SPOT), 1),
        (collection(SPOT)["features"][0], 1),
        (SPOT, 1),
        (collection({"type": "GeometryCollection", "geometries": [SPOT, {**SQUARE}]}), 2),
        (collection(SPOT, **crs("urn:ogc:def:crs:OGC:1.3:CRS84")), 1),
        (collection(SPOT, **crs("urn:ogc:def:crs:EPSG::4326")), 1),
        (collection(SPOT, crs=None), 1),
    ],
)
def test_all_forms_are_features_with_a_geometry(data, count):
    found = features(data)
    assert len(found) == count
    assert all(one["properties"] == {} and "coordinates" in one["geometry"] for one in found)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (collection(SPOT, **crs("urn:ogc:def:crs:EPSG::32634")), r"its crs is .*32634, not degrees .* ogr2ogr"),
        (collection({"type": "Point", "coordinates": [323456.0, 4361234.0]}), "no place in degrees"),
        (collection({"type": "Point"}), "it has no coordinates"),
        (collection({"type": "LineString", "coordinates": [[1.0, 2.0], "x"]}), "its coordinates are no places"),
        ({"features": []}, "it has no 'type'"),
        ([SPOT], "it has no 'type'"),
    ],
)
def test_what_is_no_map_in_degrees_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        features(data)


def test_latitude_first_is_far_from_the_origin():
    frame = LocalFrame(39.36, 22.95)
    assert len(list(polygons_of(SQUARE, frame))) == 1
    swapped = {**SQUARE, "coordinates": [np.flip(SQUARE["coordinates"][0], axis=1).tolist()]}
    with pytest.raises(ValueError, match=r"[23],\d{3} km from the scenario's origin; longitude comes first"):
        list(polygons_of(swapped, frame))
