"""Turn the models' frames about links into states between interfaces of real nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cosim.contract.entities import Event, Scene
from cosim.contract.faults import Faults
from cosim.contract.frame import Frame
from cosim.contract.link import DOWN, LinkState, differs
from cosim.contract.medium import MEDIA, UPLINK, WIRE
from cosim.contract.presence import Presence
from cosim.testbed.launch.programs import HOST, NodeInterface

if TYPE_CHECKING:
    from cosim.testbed.emulation.message import Links

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
    def interfaces(self) -> Sequence[NodeInterface]:
        """What it has links by."""


class States:
    """The links between real nodes, and which of them have changed since they were last sent."""

    def __init__(self, scene: Scene, nodes: Sequence[End], jitter: float) -> None:
        self._names = {node.slot: node.node for node in nodes}
        self._media = [medium for medium in (*MEDIA, *scene.media) if medium.signal]
        self._has = {node.slot: {interface.name for interface in node.interfaces} for node in nodes}
        self._jitter = jitter
        self._wires = list(self._wired(scene))
        self._uplinks = list(self._up(scene))
        self._faults = Faults(scene.capacity)
        self.presence = Presence(scene)
        self._reported: Links = {}

    def happen(self, events: Sequence[Event]) -> None:
        """Nodes fail and recover, links degrade."""
        self._faults.take(events)

    def changed(self, frames: Mapping[str, Sequence[Frame]]) -> Links:
        """The states that the frames of media and the wires give, where they differ from those last sent.

        By frames of `mobility` the wires of a fleet's slot are unconnected while the slot is empty.
        """
        self.presence.take(frames.get("mobility", ()))
        now: Links = dict.fromkeys(self._reported, DOWN)
        for medium in self._media:
            rows = self._served if medium.served else self._straight
            for frame in frames.get(medium.signal, ()):
                rows(frame, medium.interface, now)
        self._wire(now)
        self._uplink(now)
        found = {
            key: state
            for key, state in now.items()
            if key not in self._reported or differs(state, self._reported[key], TOLERANCE)
        }
        self._reported.update(found)
        return found

    @property
    def reported(self) -> Links:
        """All states as they were last sent."""
        return self._reported

    def _straight(self, frame: Frame, interface: str, now: Links) -> None:
        """Rows of `peer_link`: from one node to another."""
        columns = [frame[name].tolist() for name in ("peer", "rate", "delay", "jitter", "loss")]
        for sender, receiver, *figures in zip(frame.slot.tolist(), *columns, strict=True):
            if interface in self._has.get(sender, ()) and interface in self._has.get(receiver, ()):
                now[self._names[sender], self._names[receiver], interface] = LinkState(*figures)

    def _served(self, frame: Frame, interface: str, now: Links) -> None:
        """Rows of `link`: a device and the base station that serves it, up and down."""
        names = ("cell", "uplink_rate", "downlink_rate", "delay", "loss")
        columns = [frame[name].tolist() for name in names]
        for device, cell, up, down, delay, loss in zip(frame.slot.tolist(), *columns, strict=True):
            if interface not in self._has.get(device, ()) or interface not in self._has.get(cell, ()):
                continue
            one, other = self._names[device], self._names[cell]
            for key, rate in (((one, other, interface), up), ((other, one, interface), down)):
                state = LinkState(rate, delay, self._jitter * delay, loss)
                now[key] = state if rate > 0.0 and loss < 1.0 else DOWN

    def _wire(self, now: Links) -> None:
        """The scenario's wired links, as failures and degradations leave them."""
        if not self._wires:
            return
        a = np.array([sender for sender, _, _ in self._wires], np.int32)
        b = np.array([receiver for _, receiver, _ in self._wires], np.int32)
        states = [state for _, _, state in self._wires]
        rate = np.array([state.rate for state in states])
        delay, loss = np.array([state.delay for state in states]), np.array([state.loss for state in states])
        self._faults.apply(a, b, [rate], delay, loss)
        here = self.presence.here
        dead = self._faults.failed[a] | self._faults.failed[b] | ~here[a] | ~here[b]
        for k, (sender, receiver, usual) in enumerate(self._wires):
            figures = {"rate": float(rate[k]), "delay": float(delay[k]), "loss": float(loss[k])}
            state = DOWN if dead[k] else usual._replace(**figures)
            now[self._names[sender], self._names[receiver], WIRE.interface] = state

    def _uplink(self, now: Links) -> None:
        """Links to the host's network, of nodes that are there and have not failed."""
        for slot, up, down in self._uplinks:
            dead = self._faults.failed[slot] or not self.presence.here[slot]
            now[self._names[slot], HOST, UPLINK.interface] = DOWN if dead else up
            now[HOST, self._names[slot], UPLINK.interface] = DOWN if dead else down

    def _up(self, scene: Scene) -> Iterable[tuple[int, LinkState, LinkState]]:
        for slot, node in scene.computers():
            uplink = node.uplink
            if uplink is not None and UPLINK.interface in self._has.get(slot, ()):
                yield slot, uplink.state, uplink.back

    def _wired(self, scene: Scene) -> Iterable[tuple[int, int, LinkState]]:
        for link in scene.links:
            ends = [
                [slot for part in side for slot in range(part.first, part.first + part.count) if slot in self._names]
                for side in (link.a, link.b)
            ]
            for one in ends[0]:
                for other in ends[1]:
                    if one != other:
                        yield one, other, link.state
                        yield other, one, link.back
