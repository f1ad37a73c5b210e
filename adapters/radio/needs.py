"""What the radio needs of a scene."""

from __future__ import annotations

from adapters.radio.config import RadioConfig
from cosim.errors import Problem
from cosim.plan.entities import Scene


def problems(_name: str, _config: RadioConfig, scene: Scene) -> list[Problem]:
    """What in the scene the radio cannot work with."""
    cells = [node for node in scene.nodes if node.cell is not None]
    found = [
        Problem(
            f"base station '{node.id}' has no position", path=f"nodes.{node.id}.at", hint="write at: [0 m, 0 m, 0 m]"
        )
        for node in cells
        if node.position is None
    ]
    if not cells:
        found.append(
            Problem(
                "the radio has no base station: no node of the scenario has a 'cell'",
                path="nodes",
                hint="give at least one node a cell, for example bs-1: {tier: edge, at: [0 m, 0 m], cell: {}}",
            )
        )
    return found
