"""A sidecar's part of traffic control: it shapes what leaves its own node, as the network service orders.

The connection is the one by which it has announced its interfaces. The service sends, one JSON object a packet,

    {"links": [["wlan0", "02:00:0a:ab:00:02", rate, delay, jitter, loss, burst, reorder]]}
                                                                               towards the node with that MAC
    {"peers": [["wlan0", "02:00:0a:ab:00:02", "172.20.0.5"]]}                  where its tunnel ends

and the sidecar, each second,

    {"shaped": {"health": [sent, dropped, cpu], "counts": [["wlan0", "02:00:0a:ab:00:02", frames, bytes, dropped]]}}

or {"shaped": {"refused": "why"}}. When the service goes away, the last state stays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from cosim.contract.errors import CosimError
from cosim.testbed.emulation import overlay
from cosim.testbed.emulation.overlay import Overlay
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.state import LinkState
from cosim.testbed.emulation.taps import Tap
from cosim.testbed.emulation.tc import TcBackend

log = logging.getLogger(__name__)

PERIOD = 1.0  # s between reports
PART = 20  # rows in a word
OWN = "here"  # the name of this node; others are known by MAC


class Shaping:
    """The queues on the interfaces of this network namespace.

    With `underlay`, a host on the network that is to carry the frames, the interfaces are made as tunnels
    (`cosim.testbed.emulation.overlay`); else they are there already. Raises `OSError` when that host is not known now,
    `SetupError` when the kernel refuses.
    """

    def __init__(self, interfaces: Sequence[Tap], *, netem: bool, underlay: str = "") -> None:
        self._overlay = Overlay(overlay.address(underlay)) if underlay else None
        if self._overlay:
            for tap in interfaces:
                self._overlay.make(tap)
        self._backend = TcBackend({(mac, i.name): mac for i in interfaces for _, mac in i.neighbours}, netem=netem)
        for tap in interfaces:
            self._backend.attach(OWN, tap.name, -1, tap.mac)
        self._told: dict[tuple[str, str, str], PairCount] = {}

    @property
    def at(self) -> str:
        """Where others reach the tunnels, "" without any."""
        return self._overlay.at if self._overlay else ""

    def greet(self) -> None:
        """Include all counts in the next report, for a service that has received none."""
        self._told = {}

    def take(self, data: bytes) -> dict[str, Any]:
        """Impose the service's orders; return the answer, if any. Other messages are ignored."""
        try:
            word = json.loads(data)
            links = {(OWN, mac, i): _state(*map(float, state)) for i, mac, *state in word.get("links", ())}
            peers = [(str(i), str(mac), str(at)) for i, mac, at in word.get("peers", ())]
        except (ValueError, TypeError, AttributeError, RecursionError):
            return {}
        try:
            self._backend.links(links)
            if self._overlay:
                self._overlay.peers(peers)
        except (CosimError, OSError) as error:
            log.warning("%s", error)
            return {"shaped": {"refused": str(error)[:1000]}}
        return {}

    def report(self) -> Iterator[dict[str, Any]]:
        """Words about what has become of the packets."""
        health, counts = self._backend.health(), self._backend.counts()
        rows = [
            [interface, mac, count.frames, count.bytes, count.dropped]
            for (_, mac, interface), count in counts.items()
            if self._told.get((OWN, mac, interface)) != count
        ]
        self._told = counts
        yield {"shaped": {"health": [health.delivered, health.dropped, health.cpu], "counts": rows[:PART]}}
        for start in range(PART, len(rows), PART):
            yield {"shaped": {"counts": rows[start : start + PART]}}


def _state(rate: float, delay: float, jitter: float, loss: float, burst: float, reorder: float) -> LinkState:
    return LinkState(rate, delay, jitter, loss, burst=burst, reorder=reorder)
