"""The network service's part of traffic control: sidecars impose the links, each those from its node.

The service needs no right for it and moves no packet. Whether a kernel can shape is known in the nodes only, so the
first sidecar decides for all: it brings its interfaces as it can.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cosim.contract.errors import RunError
from cosim.contract.link import LinkState
from cosim.talk.codec import Message
from cosim.testbed.emulation import orders
from cosim.testbed.emulation.divided import Carrying
from cosim.testbed.emulation.handover import Announcement, PortRefusedError
from cosim.testbed.emulation.orders import PART, LinkKey, SendTo
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.state import Health, Position
from cosim.testbed.emulation.tc import TRAFFIC_CONTROL

log = logging.getLogger("cosim.network")

APART = "links do not share the air of wlan0 or of a cell"  # as the kernel imposes them

Port = tuple[str, str]  # node and interface


@dataclass(slots=True)
class _SidecarReport:
    """What a sidecar has reported of its packets."""

    sent: int = 0
    dropped: int = 0
    cpu: float = 0.0  # s


class Relay:
    """A `Backend` that has sidecars shape. `send_to` sends a message to one."""

    def __init__(self) -> None:
        self.send_to: SendTo = lambda _node, _kind, _body: False
        self._macs: dict[Port, str] = {}  # of all that were ever attached
        self._at: dict[Port, str] = {}  # where they are, "": on one wire with all others
        self._nodes: dict[Port, str] = {}  # interface and MAC -> node
        self._states: dict[LinkKey, LinkState] = {}
        self._unsaid: dict[str, set[LinkKey]] = {}  # by sender
        self._strangers: dict[str, set[Port]] = {}  # by node: whose places have not been sent to it
        self._listening: set[str] = set()  # nodes; before that a word would be taken for an answer
        self._said: dict[str, _SidecarReport] = {}
        self._counts: dict[LinkKey, PairCount] = {}
        self._closed = False

    def announced(self, what: Announcement) -> None:
        """Take note of where a port is, before it is attached."""
        self._at[what.node, what.interface] = what.at or ""

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """A sidecar shapes this interface; there is no descriptor."""
        if self._closed:
            raise RunError("the backend is closed")
        self._macs[node, interface] = mac
        self._nodes[interface, mac] = node
        for other, name in self._macs:
            if name == interface and other != node:
                self._strangers.setdefault(other, set()).add((node, interface))
                if (other, node, interface) in self._states:
                    self._unsaid.setdefault(other, set()).add((other, node, interface))
                self._say(other)

    def wanted(self, node: str) -> None:
        """Send everything: a node's sidecar is there and listens."""
        self._listening.add(node)
        mine = {interface for owner, interface in self._macs if owner == node}
        self._strangers[node] = {(other, name) for other, name in self._macs if name in mine and other != node}
        self._unsaid[node] = {key for key in self._states if key[0] == node}
        self._say(node)

    def detach(self, node: str, interface: str) -> None:
        """Send nothing more: a sidecar's settings last as long as its node, and when it is back it requests all."""
        self._listening.discard(node)

    def move(self, positions: Mapping[str, Position]) -> None:
        """Nothing: there is no radio here."""

    def links(self, states: Mapping[LinkKey, LinkState]) -> None:
        """Have these imposed; what a sidecar refuses is heard later."""
        for state in states.values():
            state.check()
        self._states.update(states)
        for key in states:
            self._unsaid.setdefault(key[0], set()).add(key)
        for node in {key[0] for key in states}:
            self._say(node)

    def heard(self, node: str, message: Message) -> str:
        """Take a sidecar's report on its packets; return why it refuses something, or ""."""
        if message.kind == "unshaped":
            text = str(message.body["error"])
            for (_, mac), name in self._nodes.items():
                text = text.replace(mac, name)
            return f"{node}: {text}"
        said = self._said.setdefault(node, _SidecarReport())
        sent, dropped, said.cpu = message.body["health"]
        said.sent, said.dropped = said.sent + sent, said.dropped + dropped
        for interface, mac, frames, size, dropped in message.body["counts"]:
            receiver = self._nodes.get((interface, mac))
            if receiver:
                self._counts[node, receiver, interface] = PairCount(frames, size, 0, dropped)
        return ""

    @property
    def restarts(self) -> int:
        """None: the kernel needs no watching."""
        return 0

    def counts(self) -> dict[LinkKey, PairCount]:
        """What became of the packets so far, as reported by sidecars; losses count as drops."""
        return dict(self._counts)

    def health(self) -> Health:
        """Sums of all sidecars since the last call; lateness is NaN, as the kernel does not report it."""
        for node in {*self._unsaid, *self._strangers}:
            self._say(node)  # what found no room before
        sent, dropped = (sum(getattr(said, name) for said in self._said.values()) for name in ("sent", "dropped"))
        for said in self._said.values():
            said.sent = said.dropped = 0
        cpu = time.process_time() + sum(said.cpu for said in self._said.values())
        return Health(not self._closed, math.nan, math.nan, sent + dropped, sent, dropped, cpu, math.nan)

    def close(self) -> None:
        """Leave the sidecars alone: what they have set is theirs. May be called twice."""
        self._closed = True

    def _say(self, node: str) -> None:
        """Send what a sidecar has not received yet; what does not get through is sent later."""
        if node not in self._listening:
            return
        strangers = sorted(port for port in self._strangers.get(node, ()) if self._at.get(port))
        keys = sorted(key for key in self._unsaid.get(node, ()) if (key[1], key[2]) in self._macs)
        places = [[i, self._macs[other, i], self._at[other, i]] for other, i in strangers]
        links = [((node, self._macs[receiver, i], i), self._states[node, receiver, i]) for _, receiver, i in keys]
        if all(self.send_to(node, "peers", {"peers": places[k : k + PART]}) for k in range(0, len(places), PART)):
            self._strangers.pop(node, None)
        if all(
            self.send_to(node, "links", orders.links(dict(links[k : k + PART]))) for k in range(0, len(links), PART)
        ):
            self._unsaid.get(node, set()).difference_update(keys)
            if not self._unsaid.get(node):
                self._unsaid.pop(node, None)


class RelayChoice:
    """A `Backend` that is the relay or another, as the first sidecar's kernel has it."""

    def __init__(self, other: Callable[[], tuple[Carrying, str]], remark: str = "") -> None:
        self._other, self._remark = other, remark
        self._relay = Relay()
        self._chosen: Carrying | None = None
        self._states: dict[LinkKey, LinkState] = {}
        self.name = TRAFFIC_CONTROL  # in reports

    def reached_by(self, send_to: SendTo) -> None:
        """Use `send_to` to send to sidecars."""
        self._relay.send_to = send_to

    def announced(self, what: Announcement) -> None:
        """A sidecar comes with an interface. RefusedError when it does not suit those of others."""
        shaped = what.at is not None
        if self._chosen is None:
            if shaped:
                self._chosen, self.name = self._relay, f"{TRAFFIC_CONTROL} ({APART})"
            else:
                self._chosen, name = self._other()
                self.name = f"{name} ({self._remark}, but {what.remark or 'the sidecars have TAPs'})"
            log.info("%s", self.name)
            self._chosen.links(self._states)
        elif shaped != (self._chosen is self._relay):
            raise PortRefusedError(f"links are by {self.name}; all nodes have to be on machines that can do the same")
        if shaped:
            self._relay.announced(what)

    def wanted(self, node: str) -> None:
        """A node's sidecar listens."""
        if self._chosen is self._relay:
            self._relay.wanted(node)

    def heard(self, node: str, message: Message) -> str:
        """Take the message of a sidecar that shapes; return why it refuses something, or ""."""
        return self._relay.heard(node, message)

    @property
    def _backend(self) -> Carrying:
        return self._chosen or self._relay

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """To the one that was chosen."""
        self._backend.attach(node, interface, descriptor, mac)

    def detach(self, node: str, interface: str) -> None:
        """From the one that was chosen."""
        self._backend.detach(node, interface)

    def move(self, positions: Mapping[str, Position]) -> None:
        """To the one that was chosen."""
        self._backend.move(positions)

    def links(self, states: Mapping[LinkKey, LinkState]) -> None:
        """To the one that was chosen; until then they are kept."""
        if self._chosen is None:
            self._states.update(states)
        else:
            self._chosen.links(states)

    @property
    def restarts(self) -> int:
        """Of the one that was chosen."""
        return self._backend.restarts

    def counts(self) -> dict[LinkKey, PairCount]:
        """Of the one that was chosen."""
        return self._backend.counts()

    def health(self) -> Health:
        """Of the one that was chosen."""
        return self._backend.health()

    def close(self) -> None:
        """May be called twice."""
        self._backend.close()
