"""Traffic generated on a real network: trips drawn under a seed, routed by SUMO's own router, cached."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import subprocess
import tempfile
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml import sax

import numpy as np

from cosim.adapters.sumo import install
from cosim.adapters.sumo.config import Demand
from cosim.contract.environment import cache
from cosim.contract.errors import RunError
from cosim.contract.reading.packed import open_unpacked

log = logging.getLogger(__name__)

FORM = 1  # of the generator; a change of what it makes needs another number
PATIENCE = 300.0  # s for the router
NOWHERE = "the network has no two roads between which a passenger car can go back and forth"
CALLS = 40  # most places that one trip calls at
UNREADABLE = (sax.SAXException, OSError, LookupError, ValueError)  # what `read_net` raises of a damaged network

Graph = Mapping[str, Sequence[str]]  # edge -> edges that a vehicle can go on to


@dataclass(frozen=True, slots=True)
class Roads:
    """The edges of a network that passenger cars can use."""

    onward: Graph
    weight: Mapping[str, float]  # m of lanes
    middle: Mapping[str, tuple[float, float]]  # m


def kept(network: Path, demand: Demand, begin: float) -> Path:
    """Where the routes of `demand` on `network` are kept: by a hash over both and the generator's form."""
    words = {"form": FORM, "begin": begin, **demand.model_dump()}
    digest = hashlib.sha256(network.read_bytes() + json.dumps(words, sort_keys=True).encode()).hexdigest()
    return cache() / "sumo-demand" / f"{digest[:32]}.rou.xml"


def demand_file(network: Path, demand: Demand, begin: float) -> Path:
    """The route file for `demand` on `network`, made on first use; it appears complete or not at all."""
    folder = (target := kept(network, demand, begin)).parent
    if target.is_file():
        return target
    log.warning("generating %d trips on %s (once; kept in %s)", demand.vehicles, network, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        trips, routes = Path(scratch) / "trips.xml", Path(scratch) / "routes.rou.xml"
        trips.write_text(write_trips(read_roads(network), demand, begin))
        route(network, trips, routes, demand.seed)
        os.replace(routes, target)  # noqa: PTH105 - atomic on the same file system, and says so
    return target


def read_net(network: Path) -> Any:  # noqa: ANN401 - sumolib has no types
    """A network file as sumolib has it."""
    import sumolib

    reader = sumolib.net.NetReader()
    with open_unpacked(network) as stream:  # sumolib's own `readNet` leaves it open
        sax.parse(stream, reader)
    return reader.getNet()


def onward_of(net: Any, kind: str) -> Graph:  # noqa: ANN401
    """The edges of a net that a vehicle class can use, with those that it can go on to."""
    edges = [edge for edge in net.getEdges() if edge.allows(kind)]
    return {edge.getID(): [e.getID() for e in edge.getAllowedOutgoing(kind)] for edge in edges}


def read_roads(network: Path) -> Roads:
    """What passenger cars can drive on, from a SUMO network file."""
    net = read_net(network)
    onward = onward_of(net, "passenger")
    weight, middle = {}, {}
    for edge in map(net.getEdge, onward):
        lanes = sum(lane.allows("passenger") for lane in edge.getLanes())
        weight[edge.getID()] = edge.getLength() * lanes
        shape = edge.getShape()
        (x0, y0), (x1, y1) = shape[0][:2], shape[-1][:2]
        middle[edge.getID()] = ((x0 + x1) / 2, (y0 + y1) / 2)
    return Roads(onward, weight, middle)


def backward(onward: Graph) -> Graph:
    """The same ways from their ends: edge -> edges from which one can go on to it."""
    back: dict[str, list[str]] = {edge: [] for edge in onward}
    for edge, targets in onward.items():
        for following in targets:
            if following in back:
                back[following].append(edge)
    return back


def reached(onward: Graph, start: str, among: Container[str]) -> set[str]:
    """The edges, `start` and those `among` some, to which a way of such edges leads from it."""
    seen, left = {start}, [start]
    while left:
        fresh = [edge for edge in onward[left.pop()] if edge in among and edge not in seen]
        seen.update(fresh)
        left += fresh
    return seen


def largest_component(onward: Graph) -> list[str]:
    """The largest set of edges that all reach each other, in the order of the graph; the first of several."""
    back, left, best = backward(onward), set(onward), set[str]()
    for root in onward:
        if root in left and len(best) < len(left):  # no other can be larger than what is left
            component = reached(onward, root, left) & reached(back, root, left)
            left -= component
            best = max(best, component, key=len)
    return [edge for edge in onward if edge in best]


def write_trips(roads: Roads, demand: Demand, begin: float) -> str:
    """The trips as a SUMO route file, in the order of departure."""
    edges = largest_component(roads.onward)
    if len(edges) < 2:
        raise RunError(NOWHERE)
    weight = np.array([roads.weight[edge] for edge in edges])
    share = np.cumsum(weight) / weight.sum()
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([demand.seed, FORM])))

    def draw() -> str:
        return edges[min(int(np.searchsorted(share, rng.random(), side="right")), len(edges) - 1)]

    lines = ["<routes>", '  <vType id="car" vClass="passenger" sigma="0.5"/>']
    for number, depart in enumerate(np.sort(rng.random(demand.vehicles)) * demand.over + begin):
        calls = [draw()]
        length = 0.0
        while len(calls) < 2 or (length < demand.distance and len(calls) < CALLS):
            place = draw()
            if place != calls[-1]:
                length += math.dist(roads.middle[calls[-1]], roads.middle[place])
                calls.append(place)
        via = f' via="{" ".join(calls[1:-1])}"' if len(calls) > 2 else ""
        lines.append(
            f'  <trip id="car.{number}" type="car" depart="{depart:.2f}" from="{calls[0]}" to="{calls[-1]}"{via}'
            ' departLane="best" departPos="random_free" departSpeed="max"/>'
        )
    return "\n".join([*lines, "</routes>", ""])


def route(network: Path, trips: Path, routes: Path, seed: int) -> None:
    """Shortest routes in free flow by duarouter. Raises `RunError` with its words."""
    run = [str(install.binary("duarouter")), "--net-file", str(network), "--route-files", str(trips),
           "--output-file", str(routes), "--alternatives-output", "NUL", "--seed", str(seed),
           "--ignore-errors", "false", "--no-step-log", "true", "--no-warnings", "true", "--xml-validation", "never",
           "--write-license", "false"]  # fmt: skip
    try:
        done = subprocess.run(
            run, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL, env=install.environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise RunError(f"duarouter found no routes on {network} within {PATIENCE:g} s") from error
    if done.returncode != 0 or not routes.is_file():
        raise RunError(f"duarouter cannot route the generated demand on {network}: {done.stderr.strip()[-500:]}")
