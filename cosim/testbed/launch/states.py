"""Turn the models' frames about links into states between interfaces of real nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from cosim.contract.entities import Event, Scene
from cosim.contract.faults import Faults
from cosim.contract.frame import Frame
from cosim.contract.presence import Presence
from cosim.testbed.emulation.message import Links
from cosim.testbed.emulation.state import DOWN, LinkState, differs
from cosim.testbed.launch.programs import HOST, UP, Interface

WIFI, CELL, WIRE = "wlan0", "lte0", "eth1"
TOLERANCE = 0.01  # of each figure; smaller changes are not worth a message


class End(Protocol):
    """A node whose links are imposed: a program that the run starts, or a machine that attaches."""

    @property
    def node(self) -> str:
        """Its name."""

    @property
    def slot(self) -> int:
        """Its place in the scene."""

    @property
    def interfaces(self) -> Sequence[Interface]:
        """What it has links by."""


class States:
    """The links between real nodes, and which of them have changed since they were last sent."""

    def __init__(self, scene: Scene, nodes: Sequence[End], jitter: float) -> None:
        self._names = {node.slot: node.node for node in nodes}
        self._media = {node.slot: {interface.name for interface in node.interfaces} for node in nodes}
        self._jitter = jitter
        self._wires = list(self._wired(scene))
        self._uplinks = list(self._up(scene))
        self._faults = Faults(scene.capacity)
        self.presence = Presence(scene)
        self._told: Links = {}

    def happen(self, events: Sequence[Event]) -> None:
        """Nodes fail and recover, links degrade."""
        self._faults.take(events)

    def changed(self, peers: Sequence[Frame], cells: Sequence[Frame], places: Sequence[Frame] = ()) -> Links:
        """The states that `peer_link` and `link` frames and the wires give, where they differ from those last sent.

        `places` are frames of `mobility`: the wires of a fleet's slot are unconnected while the slot is empty.
        """
        self.presence.take(places)
        now: Links = dict.fromkeys(self._told, DOWN)
        for frame in peers:
            self._straight(frame, now)
        for frame in cells:
            self._served(frame, now)
        self._wire(now)
        self._uplink(now)
        found = {
            key: state
            for key, state in now.items()
            if key not in self._told or differs(state, self._told[key], TOLERANCE)
        }
        self._told.update(found)
        return found

    @property
    def told(self) -> Links:
        """All states as they were last sent."""
        return self._told

    def _straight(self, frame: Frame, now: Links) -> None:
        """Rows of `peer_link`: Wi-Fi from one node to another."""
        columns = [frame[name].tolist() for name in ("peer", "rate", "delay", "jitter", "loss", "rssi")]
        for sender, receiver, *figures in zip(frame.slot.tolist(), *columns, strict=True):
            if WIFI in self._media.get(sender, ()) and WIFI in self._media.get(receiver, ()):
                now[self._names[sender], self._names[receiver], WIFI] = LinkState(*figures)

    def _served(self, frame: Frame, now: Links) -> None:
        """Rows of `link`: a device and the base station that serves it, up and down."""
        names = ("cell", "uplink_rate", "downlink_rate", "delay", "loss", "rsrp")
        columns = [frame[name].tolist() for name in names]
        for device, cell, up, down, delay, loss, rsrp in zip(frame.slot.tolist(), *columns, strict=True):
            if CELL not in self._media.get(device, ()) or CELL not in self._media.get(cell, ()):
                continue
            one, other = self._names[device], self._names[cell]
            for key, rate in (((one, other, CELL), up), ((other, one, CELL), down)):
                state = LinkState(rate, delay, self._jitter * delay, loss, rsrp)
                now[key] = state if rate > 0.0 and loss < 1.0 else DOWN

    def _wire(self, now: Links) -> None:
        """The scenario's wired links, as failures and degradations leave them."""
        if not self._wires:
            return
        a = np.array([sender for sender, _, _ in self._wires], np.int32)
        b = np.array([receiver for _, receiver, _ in self._wires], np.int32)
        rate, delay, loss = (np.array([state[k] for _, _, state in self._wires]) for k in (0, 1, 3))
        self._faults.apply(a, b, [rate], delay, loss)
        here = self.presence.here
        dead = self._faults.failed[a] | self._faults.failed[b] | ~here[a] | ~here[b]
        for k, (sender, receiver, usual) in enumerate(self._wires):
            figures = {"rate": float(rate[k]), "delay": float(delay[k]), "loss": float(loss[k])}
            state = DOWN if dead[k] else usual._replace(**figures)
            now[self._names[sender], self._names[receiver], WIRE] = state

    def _uplink(self, now: Links) -> None:
        """Links to the host's network, of nodes that are there and have not failed."""
        for slot, up, down in self._uplinks:
            dead = self._faults.failed[slot] or not self.presence.here[slot]
            now[self._names[slot], HOST, UP] = DOWN if dead else up
            now[HOST, self._names[slot], UP] = DOWN if dead else down

    def _up(self, scene: Scene) -> Iterable[tuple[int, LinkState, LinkState]]:
        for slot, node in scene.computers():
            uplink = node.uplink
            if uplink is not None and UP in self._media.get(slot, ()):
                up, down = (LinkState(r, uplink.delay, uplink.jitter, uplink.loss) for r in (uplink.rate, uplink.back))
                yield slot, up, down

    def _wired(self, scene: Scene) -> Iterable[tuple[int, int, LinkState]]:
        for link in scene.links:
            there = LinkState(link.rate, link.delay, link.jitter, link.loss, burst=link.burst, reorder=link.reorder)
            back = there._replace(rate=link.rate_back)
            ends = [
                [slot for part in side for slot in range(part.first, part.first + part.count) if slot in self._names]
                for side in (link.a, link.b)
            ]
            for one in ends[0]:
                for other in ends[1]:
                    if one != other:
                        yield one, other, there
                        yield other, one, back
