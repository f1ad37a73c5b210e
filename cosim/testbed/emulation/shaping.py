"""A sidecar's part of traffic control: it shapes what leaves its own node, as the network service orders.

It sends `shaped` each second, and `unshaped` for links that the kernel refuses, until it takes others. When the service
goes away, the last state stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from cosim.contract.errors import CosimError
from cosim.talk.codec import Message
from cosim.testbed.emulation import orders, overlay
from cosim.testbed.emulation.overlay import TunnelOverlay
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.taps import Tap
from cosim.testbed.emulation.tc import TcBackend

log = logging.getLogger(__name__)

PERIOD = 1.0  # s between reports
OWN = "here"  # the name of this node; others are known by MAC


class Shaping:
    """The queues on the interfaces of this network namespace.

    With `underlay`, a host on the network that is to carry the frames, the interfaces are made as tunnels
    (`cosim.testbed.emulation.overlay`); else they are there already. Raises `OSError` when that host is not known now,
    `SetupError` when the kernel refuses.
    """

    def __init__(self, interfaces: Sequence[Tap], *, netem: bool, underlay: str = "") -> None:
        self._overlay = TunnelOverlay(overlay.address(underlay)) if underlay else None
        if self._overlay:
            for tap in interfaces:
                self._overlay.make(tap)
        self._backend = TcBackend({(mac, i.name): mac for i in interfaces for _, mac in i.neighbours}, netem=netem)
        for tap in interfaces:
            self._backend.attach(OWN, tap.name, -1, tap.mac)
        self._reported: dict[tuple[str, str, str], PairCount] = {}

    @property
    def at(self) -> str:
        """Where others reach the tunnels, "" without any."""
        return self._overlay.at if self._overlay else ""

    def greet(self) -> None:
        """Include all counts in the next report, for a service that has received none."""
        self._reported = {}

    def take(self, order: Message) -> str:
        """Impose the service's orders; return why not, "". Other messages are ignored."""
        try:
            if order.kind == "links":
                self._backend.links({(OWN, mac, i): state for (_, mac, i), state in orders.states_of(order.body)})
            elif order.kind == "peers" and self._overlay:
                self._overlay.peers(order.body["peers"])
        except (CosimError, OSError) as error:
            log.warning("%s", error)
            return str(error)[:1000]
        return ""

    def report(self) -> Iterator[dict[str, Any]]:
        """Bodies of messages about what has become of the packets."""
        health, counts = self._backend.health(), self._backend.counts()
        rows = [
            [interface, mac, count.frames, count.bytes, count.dropped]
            for (_, mac, interface), count in counts.items()
            if self._reported.get((OWN, mac, interface)) != count
        ]
        self._reported = counts
        figures = [health.delivered, health.dropped, health.cpu]
        for start in range(0, len(rows) or 1, orders.PART):
            yield {"health": figures, "counts": rows[start : start + orders.PART]}
            figures = [0, 0, health.cpu]
