"""What the Wi-Fi model needs of a scene."""

from __future__ import annotations

from adapters.wifi.config import WifiConfig
from cosim.errors import Problem
from cosim.plan.entities import Scene


def problems(_name: str, _config: WifiConfig, scene: Scene) -> list[Problem]:
    """What in the scene the Wi-Fi model cannot work with."""
    placed = [node for node in scene.nodes if node.wifi is not None]
    found = [
        Problem(
            f"'{node.id}' has a Wi-Fi interface but no position",
            f"nodes.{node.id}.at",
            hint="write at: [0 m, 0 m, 0 m]",
        )
        for node in placed
        if node.position is None
    ]
    if not placed and not any(fleet.template.wifi is not None for fleet in scene.fleets):
        hint = "give at least two nodes an interface:  wifi: {}"
        found.append(Problem("no node of the scenario has a 'wifi' block", "nodes", hint=hint))
    return found
