"""The emulated network on the bus: links in, what became of the packets out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from cosim.adapters.network import EMULATION
from cosim.adapters.network.check import problems
from cosim.adapters.network.config import NetworkConfig
from cosim.adapters.network.lateness import LATE, Lateness, moments
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import RunError, SetupError, refuse
from cosim.contract.frame import Array, Frame
from cosim.contract.medium import UPLINK, WIFI
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.launch.programs import HOST, host_end, programs
from cosim.testbed.launch.states import States

if TYPE_CHECKING:
    from cosim.adapters.network.probing import Probing
    from cosim.testbed.emulation.client import Client
    from cosim.testbed.emulation.message import EmulationReport
    from cosim.testbed.emulation.orders import LinkKey

log = logging.getLogger(__name__)

_NOTHING = PairCount(0, 0, 0, 0)


class NetworkAdapter:
    """Sends the states of links to the network service, and reports on the bus what it did to the packets."""

    def __init__(self, config: NetworkConfig) -> None:
        self._config = config
        self._client: Client | None = None

    def start(self, context: Context) -> None:
        """Wait for the service and for the interfaces of all real nodes. Raises `SetupError`, `RunError`."""
        config = self._config
        refuse(problems(config, context))
        self._slots: dict[str, int] = {}
        self._counts: dict[LinkKey, PairCount] = {}
        self._report: EmulationReport | None = None
        self._heard, self._gap, self._updates = monotonic(), 0.0, 0
        self._lateness = Lateness()
        self._probing: Probing | None = None
        if config.probe is not None:
            from cosim.adapters.network.probing import Probing

            apart = {medium.interface for medium in context.scene.media if not medium.compared}
            self._probing = Probing(
                config.probe, context.scene, apart | ({WIFI.interface} if config.backend == "ns3" else set())
            )
        if not context.scene.real:
            return
        from cosim.adapters.network.routes import NodeRoutes  # most runs have no real nodes and need not load sockets
        from cosim.testbed.emulation.client import Client

        nodes = programs(context.scene)
        self._slots = {node.node: node.slot for node in nodes}
        self._names = {node.slot: node.node for node in nodes}
        self._states, self._routes = States(context.scene, nodes, config.jitter), NodeRoutes(nodes)
        commands = config.commands or context.service("network")
        reports = config.reports or context.service("reports")
        if not commands or not reports:
            raise SetupError(
                f"adapters.{context.name}: no network service; `cosim run --nodes netns` starts one, the compose file "
                "has one, and 'commands' and 'reports' name any other"
            )
        self._client = Client(commands, reports)
        end = host_end(nodes)
        everyone = (*nodes, end) if end is not None else nodes
        self._client.await_ports({(node.node, i.name) for node in everyone for i in node.interfaces}, config.ready)
        self._uplinks = {node.id: node.uplink for _, node in context.scene.computers() if node.runs and node.uplink}
        # Nodes that stand still are in no frame of mobility.
        still = {node.id: node.position for node in context.scene.nodes if node.position and node.id in self._slots}
        self._client.move(still)
        self._client.healths()  # of the time before the run
        if config.backend in ("tc", "auto") and context.scene.real == "containers" and self._client.report:
            # Only their kernel decides; in namespaces it is known, and reported, before anything is started.
            log.warning("backend %s: %s", config.backend, self._client.report.backend)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Impose what has changed. Raises `RunError` when the service has been silent for too long."""
        if self._client is None:
            return self._frames(time)
        self._states.happen(inputs.events)
        changed = self._states.changed(inputs.frames)
        self._client.links(changed)
        self._updates += len(changed)
        if changed:
            self._client.routes(self._routes.changed(self._states.reported))
        places: dict[str, tuple[float, float, float]] = {}
        for frame in inputs.all("mobility"):
            columns = [frame[axis].tolist() for axis in "xyz"]
            for slot, x, y, z in zip(frame.slot.tolist(), *columns, strict=True):
                if slot in self._names:
                    places[self._names[slot]] = (x, y, z)
        self._client.move(places)
        self._client.poll()
        self._listen(time)
        return self._frames(time)

    def finish(self) -> Summary:
        """How the service fared."""
        if self._client is None:
            return {"nodes": 0}
        late = self._lateness.summary()
        if late["late_seconds"]:
            log.warning(
                "packets were forwarded more than %g s late in %s s of the run, until %s (at most %.3g s): do not "
                "believe its delays there; fewer nodes or lower rates help",
                LATE, late["late_seconds"], moments(late["late_at"]), late["lag_max"],
            )  # fmt: skip
        if late["unread"]:
            log.warning(
                "interfaces of nodes dropped %s packets in %s s of the run, until %s, before the links had them: the "
                "network service did not keep up; fewer nodes or lower rates help",
                late["unread"], late["unread_seconds"], moments(late["unread_at"]),
            )  # fmt: skip
        if late["overflowed"]:
            log.warning(
                "the network service refused %s packets in %s s of the run, until %s, since more were on their way "
                "than it holds, whatever room their queues had; lower rates or shorter delays help",
                late["overflowed"], late["overflowed_seconds"], moments(late["overflowed_at"]),
            )  # fmt: skip
        report = self._client.report
        return {
            "nodes": len(self._slots),
            "asked": self._config.backend,
            "backend": report.backend if report else "",
            "restarts": report.restarts if report else 0,
            "updates": self._updates,
            "longest_silence": round(self._gap, 3),
            **late,
            **({"uplinks": self._uplinked()} if self._uplinks else {}),
            **({"probe": self._probing.summary()} if self._probing else {}),
        }

    def close(self) -> None:
        """Leave the service alone; may be called twice."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _listen(self, time: float) -> None:
        """Keep track of the silence of the service, and of how late it is."""
        assert self._client is not None
        self._lateness.stepped(time)
        for health in self._client.healths():
            self._lateness.heard(time, health)
        report, now = self._client.report, monotonic()
        if report is not self._report:  # a new one, even if it contains no event
            self._report, self._heard = report, now
        self._gap = max(self._gap, now - self._heard)
        if now - self._heard > self._config.silence:
            raise RunError(
                f"the network service has said nothing for {self._config.silence:g} s; "
                "'adapters.network.silence' allows more"
            )

    def _frames(self, time: float) -> Sequence[Frame]:
        traffic = self._traffic(time)
        frames = [traffic, self._emulation(time)]
        if self._probing is None:
            return frames
        reported = self._states.reported if self._client else {}
        between = {
            key: state for key, state in reported.items() if key[2] != UPLINK.interface
        }  # uplinks lead to no node
        return [*frames, self._probing.step(time, between, self._client)]

    def _emulation(self, time: float) -> Frame:
        """One row while nodes are real, none otherwise."""
        now = self._lateness.now()
        slot = np.array(sorted(self._slots.values())[:1], np.int32)
        return Frame(
            EMULATION.name, time, slot,
            {column.name: np.full(len(slot), now[column.name], column.dtype) for column in EMULATION.columns},
        )  # fmt: skip

    def _uplinked(self) -> dict[str, dict[str, float]]:
        """What nodes with uplinks were given, and what went over them, B."""
        assert self._client is not None
        counts = self._client.counts()
        return {
            name: {
                "rate": uplink.state.rate,
                "rate_back": uplink.back.rate,
                "delay": uplink.state.delay,
                "loss": uplink.state.loss,
                "sent": counts.get((name, HOST, UPLINK.interface), _NOTHING).bytes,
                "received": counts.get((HOST, name, UPLINK.interface), _NOTHING).bytes,
            }
            for name, uplink in self._uplinks.items()
        }

    def _traffic(self, time: float) -> Frame:
        """One row per pair that had frames since the last row."""
        rows: list[tuple[int, int, int, int, int, int]] = []
        if self._client is not None:
            counts, known = self._client.counts(), self._states.presence.known
            for (sender, receiver, _), count in counts.items():
                old = self._counts.get((sender, receiver, _), _NOTHING)
                if count == old or sender not in self._slots or receiver not in self._slots:
                    continue
                ends = self._slots[sender], self._slots[receiver]
                if known[ends[0]] and known[ends[1]]:  # traffic of a computer that no vehicle has yet does not count
                    new = [max(a - b, 0) for a, b in zip(count, old, strict=True)]
                    rows.append((*ends, *new))  # type: ignore[arg-type]
            self._counts = counts
        table = np.array(sorted(rows), np.int64).reshape(-1, 6)
        columns: dict[str, Array] = {
            "peer": table[:, 1].astype(np.int32),
            **{name: table[:, k].copy() for k, name in enumerate(("delivered", "bytes", "lost", "dropped"), 2)},
        }
        return Frame("link_traffic", time, table[:, 0].astype(np.int32), columns)
