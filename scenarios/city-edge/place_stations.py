"""How the base stations of this scenario were placed: python scenarios/city-edge/place_stations.py.

Greedy coverage. The roads that cars use are sampled every 20 m; each station goes to the junction
within whose radius lie most samples that no earlier station covers. Prints the lines for the YAML.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import sumolib

from cosim.adapters.sumo.demand import largest_component, read_roads
from cosim.adapters.sumo.install import package_file

STATIONS, RADIUS, SPACING = 24, 210.0, 20.0  # m


def main() -> None:
    path = package_file("package:sumo/tools/game/DRT/osm.net.xml")
    net = sumolib.net.readNet(str(path))
    edges = [net.getEdge(name) for name in largest_component(read_roads(path).onward)]
    samples = np.array([
        sumolib.geomhelper.positionAtShapeOffset(edge.getShape(), float(offset))
        for edge in edges
        for offset in np.arange(0.0, edge.getLength(), SPACING)
    ])  # fmt: skip
    sites = np.array(sorted({edge.getToNode().getCoord()[:2] for edge in edges}))
    covers = np.hypot(*(sites[:, None] - samples[None, :]).transpose(2, 0, 1)) <= RADIUS  # (sites, samples)
    open_samples = np.ones(len(samples), bool)
    for number in range(1, STATIONS + 1):
        best = int(np.argmax((covers & open_samples).sum(axis=1)))
        open_samples &= ~covers[best]
        x, y = sites[best]
        sys.stdout.write(f"  station-{number}: {{kind: roadside, at: [{x:.0f} m, {y:.0f} m, 0 m]}}\n")
    sys.stdout.write(f"# {1 - open_samples.mean():.1%} of the sampled road lies within {RADIUS:.0f} m of a station\n")


if __name__ == "__main__":
    main()
