"""Weeds that the edge node's classifier finds in rendered tiles: recall and precision by pixel and light.

python -m benchmarks.pictures [--tiles 40] [--size 256] [--json]

Tiles are taken at random places of the field of the scenario `smart-farm`, in any direction, and looked at by the
kernel `weeds` of `cosim.testbed.inference`; the truth is what grows there. A share has a 95 % interval of Wilson
(1927). The scenario's detector is this table. It measures how good the classifier is on these pictures, not on
photographs.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.contract.geo import LocalFrame
from cosim.physics.vehicles.tiles import Shot, judged, ppm, render
from cosim.physics.vehicles.weeds import Plants, growth, read_weeds
from cosim.testbed.inference.plants import picture, weeds

FIELD = Path(__file__).resolve().parents[1] / "scenarios" / "smart-farm" / "field.geojson"
PIXELS = (0.003, 0.005, 0.008, 0.012, 0.02)  # m
LIGHTS = (500.0, 2e3, 1e4, 5e4)  # lx


def share(count: int, of: int) -> tuple[float, float, float]:
    """`count / of` and its 95 % interval; NaN where there is nothing."""
    if not of:
        return math.nan, math.nan, math.nan
    z, p = 1.96, count / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return p, (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--tiles", type=int, default=40, help="per distance and light")
    arguments.add_argument("--size", type=int, default=256, help="pixels of a tile's side")
    given = arguments.parse_args()
    field = read_weeds(FIELD, LocalFrame(39.36, 22.95, 60.0))
    plants = Plants.of(field, growth((15,)))
    rows, columns = field.density.shape
    table = Table(
        f"{given.tiles} tiles of {given.size} pixels", ["pixel, mm", "light, lx", "weeds", "recall", "precision"]
    )
    found: list[dict[str, Any]] = []
    rendering = looking = 0.0
    for pixel in PIXELS:
        margin = given.size * pixel
        for light in LIGHTS:
            chance = np.random.default_rng([15, round(1e4 * pixel)])  # the same places in every light
            sums = np.zeros(3, np.int64)
            for k in range(given.tiles):
                x = chance.uniform(field.west + margin, field.west + columns * field.cell - margin)
                y = chance.uniform(field.south + margin, field.south + rows * field.cell - margin)
                view = Shot(x, y, chance.uniform(0.0, 2.0 * math.pi), pixel, given.size, given.size, light)
                begun = time.process_time()
                data = ppm(render(plants, view, k))
                between = time.process_time()
                places = weeds(picture(data))
                looking += time.process_time() - between
                rendering += between - begun
                sums += judged(view, plants, places)
            there, hits, wrong = (int(value) for value in sums)
            recall, precision = share(hits, there), share(hits, hits + wrong)
            found.append({"pixel": pixel, "light": light, "weeds": there, "recall": recall, "precision": precision})
            words = [f"{one[0]:.1%} ({one[1]:.1%} to {one[2]:.1%})" for one in (recall, precision)]
            table.add([f"{1e3 * pixel:g}", f"{light:g}", there, *words])
    every = len(found) * given.tiles
    result = {"shares": found, "render_ms": 1e3 * rendering / every, "classify_ms": 1e3 * looking / every}
    print_result("pictures", result, [table], as_json=given.json)


if __name__ == "__main__":
    main()
