"""For what the Wi-Fi model refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator

from cosim.adapters.wifi.config import WifiConfig
from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem
from cosim.contract.jammer import Jammer
from cosim.contract.node_keys import Wifi


def problems(_config: WifiConfig, context: Context) -> list[Problem]:
    """Interfaces without a place, networks without one channel, and a scene without any interface."""
    scene = context.scene
    found = [
        Problem(
            f"'{node.id}' has a Wi-Fi interface but no position",
            f"nodes.{node.id}.at",
            hint="write at: [0 m, 0 m, 0 m]",
        )
        for node in scene.nodes
        if node.wifi is not None and node.position is None
    ]
    if not any(_interfaces(scene)):
        hint = "give at least two nodes an interface:  wifi: {}"
        return [Problem("no node of the scenario has a 'wifi' block", "nodes", hint=hint)]
    return [*found, *_channels(scene), *_alone(scene), *_jammers(scene)]


def _jammers(scene: Scene) -> list[Problem]:
    """Jammers that are wrong, or aim at what Wi-Fi does not have."""
    from cosim.physics.radio import jammer_set  # needs numpy

    found, mine = jammer_set.problems(scene), jammer_set.on_wifi(scene)
    for node in scene.nodes:
        block = Jammer.of(node)
        for key in ("target", "blocks"):
            if block is not None and key in block.model_fields_set and mine(block):
                text = f"'{node.id}' jams a Wi-Fi channel, which has no {key} to aim at"
                hint = f"leave '{key}' out; a narrow 'bandwidth' aims at a part of the channel"
                found.append(Problem(text, f"nodes.{node.id}.jammer.{key}", hint=hint))
    return found


def _interfaces(scene: Scene) -> Iterator[tuple[Node, Wifi]]:
    for node in (*scene.nodes, *(fleet.template for fleet in scene.fleets)):
        if node.wifi is not None:
            yield node, node.wifi


def _alone(scene: Scene) -> Iterator[Problem]:
    """A warning of networks with one interface, and of stations without an access point."""
    members: dict[str, list[tuple[Node, Wifi]]] = {}
    for node, block in _interfaces(scene):
        members.setdefault(block.network, []).append((node, block))
    fleets = {fleet.template.wifi.network for fleet in scene.fleets if fleet.template.wifi is not None}
    for network, interfaces in members.items():
        node, _ = interfaces[0]
        if len(interfaces) == 1 and network not in fleets:
            text, others = f"'{node.id}' is alone in the network '{network}'", ", ".join(members)
            yield Problem(text, f"nodes.{node.id}.wifi.network", hint=f"networks: {others}", fatal=False)
        elif all(block.mode == "station" for _, block in interfaces):
            text = f"the network '{network}' has stations and no access point, so nothing serves '{node.id}'"
            hint = "give one of them mode: access-point, or all mode: adhoc if straight links are meant"
            yield Problem(text, f"nodes.{node.id}.wifi.mode", hint=hint, fatal=False)


def _channels(scene: Scene) -> Iterator[Problem]:
    """One network has one channel, and it is one of 802.11n."""
    from cosim.physics.radio import wifi  # needs numpy

    first: dict[str, tuple[Node, Wifi]] = {}
    for node, block in _interfaces(scene):
        one, other = first.setdefault(block.network, (node, block))
        if (block.carrier, block.bandwidth) != (other.carrier, other.bandwidth):
            text = f"'{node.id}' and '{one.id}' are in the network '{block.network}' but not on the same channel"
            hint = "give them the same carrier and bandwidth, or other networks"
            yield Problem(text, f"nodes.{node.id}.wifi", hint=hint)
        elif block.bandwidth not in wifi.WIDER:
            known = " or ".join(f"{width / 1e6:g} MHz" for width in wifi.WIDER)
            text = f"802.11n has no channels of {block.bandwidth / 1e6:g} MHz"
            yield Problem(text, f"nodes.{node.id}.wifi.bandwidth", hint=f"write {known}")
