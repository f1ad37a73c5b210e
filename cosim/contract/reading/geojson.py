"""GeoJSON as others write it: its features, in degrees of WGS 84 (RFC 7946), or a refusal that names what it is."""

from __future__ import annotations

import re
from typing import Any

_DEGREES = re.compile(r"CRS:?:?84|EPSG:{1,2}[\d.]*:?4326|WGS ?84", re.I)
_MOST = (180.0, 90.0)  # deg of longitude and latitude


def features(data: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The features with a geometry of a FeatureCollection, a Feature or a geometry; collections of geometries in parts.

    Raises `ValueError` for other JSON, for another `crs` than WGS 84, and for places that are none in degrees.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise ValueError("it is no GeoJSON: it has no 'type'")
    crs = data.get("crs")
    name = str(((crs.get("properties") or {}) if isinstance(crs, dict) else {}).get("name", "")) if crs else ""
    if name and not _DEGREES.search(name):
        raise ValueError(f"its crs is {name}, not degrees of WGS 84: ogr2ogr -t_srs EPSG:4326 OUT.geojson IN.geojson")
    listed = data.get("features") if data["type"] == "FeatureCollection" else [data]
    if not isinstance(listed, list):
        raise ValueError("it has no list 'features'")
    found: list[dict[str, Any]] = []
    for number, one in enumerate(listed):
        plain = one if isinstance(one, dict) else {}
        geometry = plain.get("geometry") if plain.get("type") == "Feature" else plain if one is data else None
        parts = [geometry] if isinstance(geometry, dict) else []
        while any(part.get("type") == "GeometryCollection" for part in parts):
            parts = [
                inner
                for part in parts
                for inner in (part.get("geometries") or [] if part.get("type") == "GeometryCollection" else [part])
                if isinstance(inner, dict)
            ]
        for part in parts:
            if not isinstance(part.get("coordinates"), list):
                raise ValueError(f"feature {number} cannot be read: it has no coordinates")
            _placed(part["coordinates"], number)
            properties = plain.get("properties")
            found.append({**plain, "geometry": part, "properties": properties if isinstance(properties, dict) else {}})
    return found


def raised(found: list[dict[str, Any]]) -> int:
    """How many of these features have a place with a third coordinate, the height (m), that is not 0."""
    return sum(_heights(one["geometry"]["coordinates"]) for one in found)


def _heights(coordinates: list[Any]) -> bool:
    if coordinates and isinstance(coordinates[0], list):
        return any(map(_heights, coordinates))
    return len(coordinates) > 2 and bool(coordinates[2])


def _placed(coordinates: list[Any], number: int) -> None:
    if coordinates and isinstance(coordinates[0], list):
        for one in coordinates:
            if not isinstance(one, list):
                raise ValueError(f"feature {number} cannot be read: its coordinates are no places")
            _placed(one, number)
        return
    for value, most in zip(coordinates, _MOST, strict=False):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= most:
            raise ValueError(f"feature {number} cannot be read: {coordinates[:2]} is no place in degrees")
    if len(coordinates) == 1:
        raise ValueError(f"feature {number} cannot be read: a place has one number")
