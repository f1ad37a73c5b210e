"""The kinds that every scenario knows without defining them.

A scenario that defines a kind of the same name starts from the one here. Processors, memory and
power are left to the scenario: no figure would be right for every edge host.
"""

from __future__ import annotations

from functools import cache

from cosim.scenario.model import KindBlock

# Heights above the node's own position: a drone's position is the drone; 1.5 m is the user-equipment
# height of 3GPP TR 38.901 table 7.2-1 and, for vehicles, of TR 37.885 table 6.1.1-1; 10 m is the
# base-station height of TR 38.901's street canyon (UMi). Transmit powers and noise figures are the
# defaults of the radio and cell blocks, with their sources there.
_KINDS: dict[str, dict[str, object]] = {
    "uav": {"tier": "device", "radio": {"height": "0 m"}, "color": "#2a9d8f"},
    "rover": {"tier": "device", "radio": {"height": "1.5 m"}, "color": "#8a6d3b"},
    "vehicle": {"tier": "device", "radio": {"height": "1.5 m"}, "color": "#4c78a8"},
    "device": {"tier": "device", "radio": {}, "color": "#72b7b2"},
    "edge": {"tier": "edge", "color": "#f58518"},
    "base-station": {"tier": "edge", "cell": {"height": "10 m"}, "color": "#e45756"},
    "cloud": {"tier": "cloud", "color": "#b279a2"},
}

NAMES = tuple(_KINDS)


@cache
def built_in(name: str) -> KindBlock:
    """The built-in kind `name`; `KeyError` when there is none."""
    return KindBlock.model_validate(_KINDS[name])
