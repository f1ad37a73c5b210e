"""The kinds that every scenario knows without defining them.

A scenario that defines a kind of the same name starts from the one here. Processors, memory and
power are left to the scenario: no figure would be right for every edge host.
"""

from __future__ import annotations

from cosim.contract.node_keys import Cell, Radio
from cosim.scenario.model import KindBlock

# Heights above the node's own position: a drone's position is the drone; 1.5 m is the user-equipment
# height of 3GPP TR 38.901 table 7.2-1 and, for vehicles, of TR 37.885 table 6.1.1-1; 10 m is the
# base-station height of TR 38.901's street canyon (UMi). Transmit powers and noise figures are the
# defaults of the radio and cell blocks, with their sources there.
_KINDS = {
    "uav": KindBlock.si(tier="device", radio=Radio.si(height=0.0), color="#2a9d8f"),
    "rover": KindBlock.si(tier="device", radio=Radio.si(height=1.5), color="#8a6d3b"),
    "vehicle": KindBlock.si(tier="device", radio=Radio.si(height=1.5), color="#4c78a8"),
    "device": KindBlock.si(tier="device", radio=Radio.si(), color="#72b7b2"),
    "edge": KindBlock.si(tier="edge", color="#f58518"),
    "base-station": KindBlock.si(tier="edge", cell=Cell.si(height=10.0), color="#e45756"),
    "cloud": KindBlock.si(tier="cloud", color="#b279a2"),
}

NAMES = tuple(_KINDS)


def built_in(name: str) -> KindBlock:
    """The built-in kind `name`; `KeyError` when there is none."""
    return _KINDS[name]
