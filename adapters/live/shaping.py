"""What links the machines of live nodes shall have, by the models, and whether they have them.

Between two nodes holds the way of the fewest links, of equally many the one with the least delay: over Wi-Fi directly,
over base stations and wires as packets of real nodes go. A way has the least rate of its links, and their delays and
losses together.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cosim.contract.adapter import Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.link import DOWN, LinkState
from cosim.contract.medium import MEDIA, WIRE, of_node
from cosim.testbed.inference.limits import MAX_SHAPED
from cosim.testbed.launch.programs import NodeInterface, wired_slots
from cosim.testbed.launch.states import States
from cosim.testbed.live.lease import SlotStanding
from cosim.testbed.live.shaping import PATIENCE, Impairment

if TYPE_CHECKING:
    from cosim.testbed.emulation.message import Links

log = logging.getLogger("cosim.testbed.live")

_FREE = LinkState(math.inf, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _End:
    node: str
    slot: int
    interfaces: tuple[NodeInterface, ...]


@dataclass(slots=True)
class _Account:
    reports: int = 0  # while links were shaped, or should have been
    held: int = 0  # of these, with all links as they should
    ability: str = "none"  # of the last machine
    last: float = -1.0  # when the last report came, monotonic
    noted: set[str] = field(default_factory=set)
    unshaped: str = ""


class LiveShaping:
    """The links between the machines of `nodes` (slot -> node) that have an address, as those see them that may be
    shaped."""

    def __init__(self, scene: Scene, nodes: Mapping[int, Node]) -> None:
        wired, media = wired_slots(scene), (*MEDIA, *scene.media)
        self._forwards = {
            node.id
            for slot, node in scene.computers()
            if node.cell is not None or (slot in wired and node.tier != "device")
        }
        ends = [
            _End(node.id, slot, tuple(NodeInterface(m, "") for m in of_node(media, node, slot in wired)))
            for slot, node in scene.computers()
            if slot in nodes or node.id in self._forwards
        ]
        self._media = {end.node: {interface.medium for interface in end.interfaces} for end in ends}
        self._direct = {medium.interface for medium in media if medium.signal and not medium.served}
        self._states = States(scene, ends, 0.0)
        live = {node.id: node.live for node in nodes.values() if node.live is not None}
        self._addresses = {name: block.address for name, block in live.items() if block.address}
        self._accounts = {name: _Account() for name, block in live.items() if block.shaping}
        self._heard = {WIRE}  # media that something is known of
        self._reported: dict[tuple[str, str], Impairment] = {}
        for name in list(self._accounts):
            if not self._media[name]:
                log.warning(
                    "node '%s' has no link that its machine could get: give it 'wifi', a 'radio' or links", name
                )
            if len(self._addresses) - (name in self._addresses) > MAX_SHAPED:
                log.warning("more than %d addresses: nothing is shaped", MAX_SHAPED)
                self._accounts.clear()

    def changed(self, inputs: Inputs) -> Mapping[str, Sequence[Impairment]]:
        """By node, the links that are not as they were at the last call."""
        if not self._accounts:
            return {}
        self._states.happen(inputs.events)
        before = len(self._heard)
        self._heard |= {medium for has in self._media.values() for medium in has if inputs.all(medium.signal)}
        if not self._states.changed(inputs.frames) and before == len(self._heard) and self._reported:
            return {}
        near = _near(self._states.reported)
        found: dict[str, list[Impairment]] = {}
        for name in self._accounts:
            ways = self._ways(name, near)
            for other, address in self._addresses.items():
                if other == name or not self._known(name) or not self._known(other):
                    continue
                link = _link(address, ways.get(other, DOWN))
                if self._reported.get((name, other)) != link:
                    self._reported[name, other] = link
                    found.setdefault(name, []).append(link)
        return found

    def look(self, standings: Sequence[SlotStanding], now: float) -> None:
        """Take note of what machines report; `now` is the monotonic clock. Warns, of each thing once."""
        for standing in standings:
            account = self._accounts.get(standing.slot.node)
            lease, report = standing.lease, standing.report
            if account is None or lease is None or report is None or not standing.wishes.links:
                continue
            if account.last == standing.reported:
                continue
            account.last, account.ability = standing.reported, lease.facts["shaping"]
            if not report["obeyed"] and now - lease.since < PATIENCE:
                continue  # it has just come
            account.reports += 1
            account.held += report["shaped"] == len(standing.wishes.links)
            said = report["unshaped"]
            if not standing.shapes:
                said = "its agent runs without --allow-shaping"
            account.unshaped = said or account.unshaped
            if said and said not in account.noted and len(account.noted) < 10:
                account.noted.add(said)
                log.warning("links of the machine of '%s' are not as the models say: %s", standing.slot.node, said)

    def account(self, standing: SlotStanding) -> dict[str, Any]:
        """For the summary; nothing of a node that is not to be shaped."""
        account = self._accounts.get(standing.slot.node)
        if account is None:
            return {}
        shaping = {
            "ability": account.ability, "links": len(standing.wishes.links), "updates": standing.wishes.serial,
            "repeated": standing.wishes.repeated, "reports": account.reports,
            "held": account.held / account.reports if account.reports else None, "unshaped": account.unshaped,
        }  # fmt: skip
        return {"shaping": shaping}

    def _known(self, node: str) -> bool:
        return bool(self._media[node] & self._heard)

    def _ways(self, start: str, near: Mapping[str, Sequence[tuple[str, str, LinkState]]]) -> dict[str, LinkState]:
        """The way from `start` to each node that is reached."""
        found: dict[str, LinkState] = {}
        seen: set[tuple[str, bool]] = set()
        queue: list[tuple[int, float, int, str, bool, LinkState]] = [(0, 0.0, 0, start, False, _FREE)]
        pushed = 0
        while queue:
            count, _, _, node, ends, way = heapq.heappop(queue)
            if (node, ends) in seen or (node == start and count):
                continue
            seen.add((node, ends))
            if count:
                found.setdefault(node, way)
                if ends or node not in self._forwards:
                    continue
            for far, interface, state in near.get(node, ()):
                direct = interface in self._direct  # which no node forwards
                if direct and count:
                    continue
                pushed += 1
                new = LinkState(
                    min(way.rate, state.rate), way.delay + state.delay, way.jitter + state.jitter,
                    way.loss + state.loss - way.loss * state.loss,
                )  # fmt: skip
                heapq.heappush(queue, (count + 1, new.delay, pushed, far, direct, new))
        return found


def _near(links: Links) -> dict[str, list[tuple[str, str, LinkState]]]:
    """The links that are up, by their sender."""
    found: dict[str, list[tuple[str, str, LinkState]]] = {}
    for (sender, receiver, interface), state in links.items():
        if state.rate > 0.0 and state.loss < 1.0:
            found.setdefault(sender, []).append((receiver, interface, state))
    return found


def _link(address: str, state: LinkState) -> Impairment:
    return Impairment(address, None if math.isinf(state.rate) else state.rate, state.delay, state.jitter, state.loss)
