"""What the continuum needs of a scene."""

from __future__ import annotations

from collections.abc import Iterable

from adapters.continuum.config import ContinuumConfig
from cosim.errors import Problem
from cosim.plan.entities import Node, Scene, Workload


def problems(name: str, config: ContinuumConfig, scene: Scene) -> list[Problem]:
    """What in the scene the continuum cannot work with, as far as it can be seen without the engine."""
    return hosts(scene, config.scheduler, name)


def hosts(scene: Scene, scheduler: str, name: str = "continuum") -> list[Problem]:
    """Fleets that cannot be, and hosts that a scheduler misses."""
    found = [
        Problem(
            f"fleet '{fleet.name}' is of tier {fleet.template.tier}; the continuum takes fleets as devices only",
            path=f"nodes.{fleet.name}.tier",
            hint="remove 'tier', or make the hosts static nodes",
        )
        for fleet in scene.fleets
        if fleet.template.tier != "device"
    ]
    hosts = [node for node in scene.nodes if node.cores > 0 and node.tier != "device"]
    own = any(node.cores > 0 for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets)))
    if scene.workloads and not own:
        found.append(
            Problem("no node can run tasks", path="nodes", hint="give an edge or cloud node 'cpu: 4 x 1.8 GHz'")
        )
    elif scene.workloads and scheduler == "cloud" and not any(node.tier == "cloud" for node in hosts):
        found.append(
            Problem(
                "scheduler 'cloud' has no cloud node with a cpu",
                path=f"adapters.{name}.scheduler",
                hint="add a node of tier cloud with 'cpu', or choose another scheduler",
            )
        )
    elif scene.workloads and scheduler != "local" and not hosts:
        found.append(
            Problem(
                f"scheduler '{scheduler}' has no edge or cloud node with a cpu",
                path="nodes",
                hint="give one a 'cpu', or choose the scheduler 'local'",
            )
        )
    elif scheduler == "local":
        for load in scene.workloads:
            idle = next((node for node in _makers(scene, load) if node.cores == 0), None)
            if idle is not None:
                found.append(
                    Problem(
                        f"scheduler 'local', but source '{idle.id}' has no cpu",
                        path=f"workloads.{load.name}.from",
                        hint="give it a 'cpu', or choose another scheduler",
                    )
                )
    return found


def _makers(scene: Scene, load: Workload) -> Iterable[Node]:
    """The nodes that make a workload; of a fleet, its template."""
    slots = [(part.first, part.first + part.count) for part in load.sources]
    for slot, node in enumerate(scene.nodes):
        if any(first <= slot < end for first, end in slots):
            yield node
    for fleet in scene.fleets:
        if any(first < fleet.first + fleet.capacity and fleet.first < end for first, end in slots):
            yield fleet.template
