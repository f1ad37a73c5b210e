"""Blocks of nodes that nobody takes up, as the adapter or the other end that it takes is not in the scenario."""

from __future__ import annotations

from collections.abc import Iterable

from cosim.plan.entities import Scene


def unanswered(scene: Scene, adapters: Iterable[str]) -> tuple[str, ...]:
    """Warnings, one for each kind of block; `adapters` are the kinds that the scenario has."""
    there = set(adapters)
    found = []
    attached = [node.id for _, node in scene.computers() if node.live is not None]
    if attached and "live" not in there:
        found.append(
            f"{_named(attached)} 'live', but no adapter 'live' lets machines attach, so its tasks are simulated; "
            "add  live: {}  to 'adapters', or leave the block out"
        )
    if "live" in there:
        found += _unshaped(scene)
    real = [node.id for _, node in scene.computers() if node.runs is not None]
    if scene.real and real and "network" not in there:
        found.append(
            f"{_named(real)} real, but no adapter 'network' says what links are like, so no packet passes between "
            "nodes; add  network: {}  to 'adapters'"
        )
    return tuple(found)


def _unshaped(scene: Scene) -> list[str]:
    """Nodes that may be shaped, and nobody to shape links to."""
    machines = {node.id: node.live for node in scene.nodes if node.live is not None and not (scene.real and node.runs)}
    placed = {name for name, live in machines.items() if live.address}
    alone = [name for name, live in machines.items() if live.shaping and not placed - {name}]
    if not alone:
        return []
    told = (
        f"{_named(alone)} to be shaped, but no other live node has an address, so no link is; write where its machine "
        "is reached, as  live: {address: 192.168.7.21}  at the others"
    )
    return [told]


def _named(nodes: list[str]) -> str:
    if len(nodes) == 1:
        return f"node '{nodes[0]}' is"
    return f"nodes '{nodes[0]}' and {len(nodes) - 1} more are"
