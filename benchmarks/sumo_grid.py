"""A grid city and random walks through it, so that SUMO can be measured with N vehicles that all stay inside."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import numpy as np

from cosim.adapters.sumo import install
from cosim.contract import environment

WALK = 120  # edges of 200 m: more than an hour at free flow
SPREAD = 20  # s over which the vehicles depart
SEED = 42


def side_for(vehicles: int) -> int:
    """Streets in each direction: 20 for 1,000 vehicles and 50 for 10,000, as many per metre of lane or fewer."""
    return max(10, min(60, round(0.63 * vehicles**0.5 if vehicles <= 2000 else 0.5 * vehicles**0.5)))


def make(vehicles: int) -> tuple[Path, Path]:
    """Network and routes for `vehicles`, kept in the cache."""
    side = side_for(vehicles)
    words = f"grid 2 {side} {vehicles} {WALK} {SPREAD}".encode()
    folder = environment.cache() / "benchmark-sumo" / hashlib.sha256(words).hexdigest()[:16]
    network, routes = folder / "grid.net.xml", folder / "walks.rou.xml"
    if not routes.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [install.binary("netgenerate"), "--grid", "--grid.number", str(side), "--grid.length", "200", "-L", "1",
             "--no-turnarounds", "--seed", "1", "-o", str(network)],
            check=True, capture_output=True, env=install.environment(), timeout=300,
        )  # fmt: skip
        draft = routes.with_suffix(".draft")
        draft.write_text(_walks(network, vehicles))
        os.replace(draft, routes)  # noqa: PTH105 - atomic
    return network, routes


def _walks(network: Path, vehicles: int) -> str:
    import sumolib

    net = sumolib.net.readNet(str(network))
    onward = {edge.getID(): [e.getID() for e in edge.getOutgoing()] for edge in net.getEdges()}
    edges = [edge for edge, following in onward.items() if following]
    rng = np.random.Generator(np.random.PCG64(vehicles))
    lines = ['<routes><vType id="car" sigma="0.5"/>']
    for number in range(vehicles):
        walk = [edges[rng.integers(len(edges))]]
        for _ in range(WALK):
            walk.append(onward[walk[-1]][rng.integers(len(onward[walk[-1]]))])
        lines.append(
            f'<vehicle id="v{number}" type="car" depart="{number * SPREAD // vehicles}" departPos="random_free" '
            f'departLane="best" departSpeed="avg"><route edges="{" ".join(walk)}"/></vehicle>'
        )
    return "\n".join([*lines, "</routes>"])


def options(network: Path, routes: Path) -> list[str]:
    """What every case tells SUMO."""
    return ["-n", str(network), "-r", str(routes), "--seed", str(SEED), "--time-to-teleport", "-1",
            "--no-step-log", "true", "--no-warnings", "true"]  # fmt: skip
