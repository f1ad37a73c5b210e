"""Weeds that the edge node's classifier finds in rendered tiles: recall and precision by pixel and light.

python -m benchmarks.pictures [--tiles 40] [--size 256] [--json]

Tiles are taken at random places of the field of the scenario `smart-farm`, in any direction, and looked at by the
kernel `weeds` of `cosim.testbed.inference`; the truth is what grows there. A share has a 95 % interval of Wilson
(1927). The scenario's detector is this table. It measures how good the classifier is on these pictures, not on
photographs. Also the CPU of a picture that the dashboard streams: a copter's view of that field with a tractor, and of
50 vehicles among hills.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result
from cosim.contract.geo import LocalFrame
from cosim.physics.vehicles.camera import Camera
from cosim.physics.vehicles.terrain import Terrain
from cosim.physics.vehicles.tiles import Shot, judged, png, ppm, render
from cosim.physics.vehicles.views import Scenery
from cosim.physics.vehicles.weeds import Plants, WeedField, growth, read_weeds
from cosim.report.web.pictures import SIDE
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


def streamed(scenery: Scenery, pose: Sequence[float], others: Mapping[int, Sequence[float]], count: int = 20) -> float:
    """CPU ms of one of the pictures of camera 0 as it flies from `pose`, compressed, by the fastest of three rounds."""

    def look(k: int) -> None:
        png(scenery.picture(0, {0: [pose[0] + 0.1 * k, *pose[1:]], **others}, 1e4, SIDE))

    look(0)
    rounds = []
    for _ in range(3):
        begun = time.process_time()
        for k in range(count):
            look(k)
        rounds.append(1e3 * (time.process_time() - begun) / count)
    return min(rounds)


def streams(field: WeedField) -> dict[str, float]:
    """CPU ms of a picture: of the farm with its tractor, and among hills with 50 vehicles and nothing that grows."""
    eye, chance = Camera(1.17, 0.84, 4000, 3000), np.random.default_rng(1)
    rows, columns = field.density.shape
    x, y = field.west + 0.5 * field.cell * columns, field.south + 0.5 * field.cell * rows
    bodies = {0: (True, 0.3, 0.0), 1: (False, 1.5, 0.0)}
    farm = streamed(
        Scenery(field, growth((15,)), {0: eye}, bodies), (x, y, 15.0, 0.3, 0.0, 0.0), {1: (x + 2, y + 3, 0, 0, 0, 0)}
    )
    land = Terrain(np.array([0.0, 0.0, 10.0]), chance.uniform(0.0, 20.0, (101, 101)))
    there = {k: (*place, float(land.height(*place)), 0.0, 0.0, 0.0)
             for k, place in enumerate((500.0 + chance.uniform(-30.0, 30.0, (50, 2))).tolist(), 1)}  # fmt: skip
    bare, tilted = WeedField(0.0, 0.0, 10.0, np.zeros((100, 100))), replace(eye, tilt=0.7)
    bodies = {0: bodies[0], **dict.fromkeys(there, bodies[1])}
    hills = streamed(Scenery(bare, growth((15,)), {0: tilted}, bodies, land), (500, 470, 60, 0, 0, 0), there)
    return {"farm_ms": farm, "hills_ms": hills}


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
    result = {
        "shares": found,
        **streams(field),
        "render_ms": 1e3 * rendering / every,
        "classify_ms": 1e3 * looking / every,
    }
    print_result("pictures", result, [table], as_json=given.json)


if __name__ == "__main__":
    main()
