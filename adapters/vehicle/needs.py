"""What the vehicle model needs of a scene."""

from __future__ import annotations

from adapters.vehicle.config import VehicleConfig
from cosim.errors import Problem
from cosim.plan.entities import Scene


def problems(_name: str, _config: VehicleConfig, scene: Scene) -> list[Problem]:
    """What in the scene the vehicle model cannot work with."""
    found = []
    for fleet in scene.fleets:
        if fleet.template.vehicle is not None:
            hint = "write static nodes instead, for example uav-[1..8]: {...}"
            text = f"'{fleet.name}' is a fleet; vehicles are static nodes"
            found.append(Problem(text, f"nodes.{fleet.name}", hint=hint))
    for node in scene.nodes:
        if scene.real and node.vehicle and node.vehicle.autopilot != "builtin" and node.runs is not None:
            text = f"'{node.id}' has an autopilot and a program of its own"
            found.append(Problem(text, f"nodes.{node.id}", hint="remove 'autopilot' or 'runs'"))
    if not any(node.vehicle is not None for node in scene.nodes):
        hint = "give a node a vehicle, for example uav-1: {kind: uav, at: [0 m, 0 m], vehicle: {frame: copter}}"
        found.append(Problem("no node of the scenario has a 'vehicle' block", "nodes", hint=hint))
    return found
