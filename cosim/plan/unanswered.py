"""Blocks of nodes that nobody takes up, as the adapter that would is not in the scenario."""

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
    real = [node.id for _, node in scene.computers() if node.runs is not None]
    if scene.real and real and "network" not in there:
        found.append(
            f"{_named(real)} real, but no adapter 'network' says what links are like, so no packet passes between "
            "nodes; add  network: {}  to 'adapters'"
        )
    return tuple(found)


def _named(nodes: list[str]) -> str:
    if len(nodes) == 1:
        return f"node '{nodes[0]}' is"
    return f"nodes '{nodes[0]}' and {len(nodes) - 1} more are"
