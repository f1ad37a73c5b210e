"""The streets of a network as lines on the map of the run."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from cosim.adapters.sumo.space import Alignment
from cosim.contract.map_lines import write_lines

LARGEST = 256 << 20  # B of a network without compression; larger ones are not read
_NOT_STREETS = frozenset({"internal", "crossing", "walkingarea", "connector"})


def write_streets(network: Path, alignment: Alignment, folder: Path) -> None:
    """Write the streets for the map: lines in m east and north of the scenario's origin, one per edge of the network.

    Does nothing for a network that cannot be read; SUMO reports that better.
    """
    try:
        lines = [[alignment.point(x, y) for x, y in line] for line in streets(network)]
    except (OSError, ValueError, ElementTree.ParseError):
        return
    write_lines(folder, lines)


def streets(network: Path) -> Iterator[list[tuple[float, float]]]:
    """The first lane of every edge (m, the network's own coordinates); of a two-way street one direction."""
    packed = network.suffix == ".gz"
    if network.stat().st_size > (LARGEST // 10 if packed else LARGEST):
        return
    seen: set[tuple[str, str]] = set()
    with gzip.open(network) if packed else network.open("rb") as stream:
        for _, element in ElementTree.iterparse(stream):
            if element.tag == "edge":
                ends = (element.get("from", ""), element.get("to", ""))
                street = element.get("function", "normal") not in _NOT_STREETS and ends[::-1] not in seen
                lane = element.find("lane")
                if street and lane is not None:
                    seen.add(ends)
                    yield [_point(pair) for pair in lane.get("shape", "").split()]
            if element.tag not in ("lane", "param"):
                element.clear()


def _point(pair: str) -> tuple[float, float]:
    x, y = pair.split(",")[:2]
    return float(x), float(y)
