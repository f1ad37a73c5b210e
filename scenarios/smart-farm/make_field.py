"""Writes `field.geojson`: where crop and weeds stand on the farm. The field is invented; run it again to change it.

    python make_field.py

Rows of sugar beet half a metre apart along the tractor's way, a few weeds everywhere, and patches of many.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

from cosim.contract.geo import LocalFrame

ORIGIN = LocalFrame(39.36, 22.95, 60.0)  # that of the scenario
WEST, SOUTH, EAST, NORTH = 57.0, 10.0, 129.0, 160.0  # m, twelve passes of 6 m
ROW = 0.5  # m between two crop rows
FEW = 0.3  # weeds per m^2
PATCHES = 9


def degrees(places: list[tuple[float, float]]) -> list[list[float]]:
    """Longitude and latitude of places in m."""
    latitude, longitude, _ = ORIGIN.to_wgs84(*zip(*places, strict=True))
    return [[round(float(x), 8), round(float(y), 8)] for x, y in zip(longitude, latitude, strict=True)]


def feature(kind: str, coordinates: object, **properties: object) -> dict[str, object]:
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


def main() -> None:
    """Write the file beside this one."""
    chance = random.Random(5)
    outline = [(WEST, SOUTH), (EAST, SOUTH), (EAST, NORTH), (WEST, NORTH), (WEST, SOUTH)]
    features = [feature("Polygon", [degrees(outline)], weeds=FEW)]
    for _ in range(PATCHES):
        x, y = chance.uniform(WEST + 9, EAST - 9), chance.uniform(SOUTH + 12, NORTH - 12)
        radii = [chance.uniform(3.0, 9.0) for _ in range(12)]
        ring = [(x + r * math.cos(k * math.pi / 6), y + r * math.sin(k * math.pi / 6)) for k, r in enumerate(radii)]
        features.append(feature("Polygon", [degrees([*ring, ring[0]])], weeds=round(chance.uniform(2.0, 6.0), 1)))
    count = int((EAST - WEST) / ROW)
    lines = [[(WEST + (k + 0.5) * ROW, SOUTH), (WEST + (k + 0.5) * ROW, NORTH)] for k in range(count)]
    features.append(feature("MultiLineString", [degrees(line) for line in lines], crop="sugar beet"))
    words = json.dumps({"type": "FeatureCollection", "cell": 1.0, "features": features}, separators=(",", ":"))
    lined = words.replace('{"type":"Feature"', '\n{"type":"Feature"')
    Path(__file__).with_name("field.geojson").write_text(f"{lined}\n")


if __name__ == "__main__":
    main()
