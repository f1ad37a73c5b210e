"""For what the emulated network refuses a scene: what its nodes and its backend cannot carry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cosim.adapters.network.config import NetworkConfig
from cosim.contract.adapter import Context
from cosim.contract.entities import Scene, SlotRange
from cosim.contract.errors import Problem, refusals


def problems(config: NetworkConfig, context: Context) -> list[Problem]:
    """Real nodes without an interface, a radio that the backend does not have, nodes that do not pass packets on.

    While no node is real only the block itself is looked at.
    """
    found = []
    if config.radio and config.backend != "ns3":
        text, hint = f"backend {config.backend} has no radio of its own", "leave it out, or take backend ns3"
        found.append(Problem(text, f"adapters.{context.name}.radio", hint=hint))
    if not context.scene.real:
        return found
    from cosim.testbed.launch.programs import programs

    found += refusals(lambda: programs(context.scene))
    return [*found, *_gaps(context.scene)]


def _gaps(scene: Scene) -> Iterator[Problem]:
    """Nodes that forward tasks in the model, but no packets of the real nodes beside them: nothing runs there."""
    real = [(slot, node) for slot, node in scene.computers() if node.runs is not None]
    here = {slot for slot, _ in real}
    stations = {node.wifi.network for _, node in real if node.wifi is not None and node.wifi.mode == "station"}
    cells = any(node.radio is not None for _, node in real)
    missing = []
    for slot, node in enumerate(scene.nodes):
        if slot in here or node.tier == "device":
            continue
        wired = [link for link in scene.links if _at(link.a, slot) or _at(link.b, slot)]
        beside = any(_at(side, end) for link in wired for side in (link.a, link.b) for end in here)
        serves = node.wifi is not None and node.wifi.mode == "access-point" and node.wifi.network in stations
        if serves or (cells and node.cell is not None) or (beside and len(wired) > 1):
            missing.append(node.id)
    if missing:
        text = f"packets of real nodes do not pass {', '.join(missing[:5])}: nothing runs there"
        hint = "give it 'runs: vedgenode', or let no real node depend on what lies behind"
        yield Problem(text, f"nodes.{missing[0]}", hint=hint, fatal=False)


def _at(side: Iterable[SlotRange], slot: int) -> bool:
    return any(part.first <= slot < part.first + part.count for part in side)
