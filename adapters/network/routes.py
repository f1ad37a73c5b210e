"""How packets get from cells and Wi-Fi to the wired nodes behind them, and back: routes inside the real nodes.

A device sends everything that is not for its own cell's base station to that base station, which passes it on
over wires: along the fewest of them, and of equally few along the fastest. Every wired node knows by which of its
neighbours each served device is reached. A station that no base station serves sends what is for wired nodes to the
access point with the fastest link to it; among themselves stations are neighbours. A handover changes routes and no
address, so connections outlast it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from cosim.contract.medium import UPLINK, WIFI, Medium
from cosim.contract.medium import WIRE as WIRES
from cosim.testbed.emulation.message import Links
from cosim.testbed.emulation.routing import Hop
from cosim.testbed.launch.programs import UPLINKS_END, Program

Table = dict[str, Hop]
Changes = dict[str, dict[str, Hop | None]]

AIR, WIRE = WIFI.interface, WIRES.interface
_ALL_WIRES = WIRES.network
_ELSEWHERE = {"0.0.0.0/0": Hop(UPLINK.interface, UPLINKS_END.address)}  # of nodes with an uplink


class NodeRoutes:
    """The routes of the real nodes, and which of them have changed since they were last sent.

    Without a real base station, access point, node between wires or uplink there are none.
    """

    def __init__(self, nodes: Sequence[Program]) -> None:
        self._addresses = {(node.node, i.name): i.address for node in nodes for i in node.interfaces}
        self._served = {i.name: i.medium for node in nodes for i in node.interfaces if i.medium.served}
        self._bases = {(node.node, interface) for node in nodes for interface in node.serves}
        self._points = {node.node for node in nodes if node.point}
        self._stations = {node.node for node in nodes if node.station}
        self._wired = [node.node for node in nodes if (node.node, WIRE) in self._addresses]
        self._uplinks = [node.node for node in nodes if (node.node, UPLINK.interface) in self._addresses]
        self._forwards = {node.node for node in nodes if node.forwards}
        self._wires: dict[tuple[str, str], float] | None = None
        self._next: dict[str, dict[str, str]] = {}  # node -> far node -> neighbour
        self._reported: dict[str, Table] = {}

    def changed(self, links: Links) -> Changes:
        """The routes that these links give, if they are not those sent last; None withdraws one."""
        if not self._forwards and not self._uplinks:
            return {}
        up = {key: state for key, state in links.items() if state.rate > 0.0 and state.loss < 1.0}
        wires = {(a, b): state.delay for (a, b, interface), state in up.items() if interface == WIRE}
        if wires != self._wires:
            self._wires, self._next = wires, {node: self._hops(node, wires) for node in self._wired}
        bases = self._bases
        serving = {
            (a, i): b for (a, b, i) in up if i in self._served and (b, i) in bases and (a, i) not in bases
        }  # device and interface -> station
        near: dict[str, tuple[float, str]] = {}  # station -> rate and name of its access point
        for (a, b, interface), state in up.items():
            if interface == AIR and b in self._points and a in self._stations:
                near[a] = max(near.get(a, (0.0, "")), (state.rate, b))
        attached = {station: point for station, (_, point) in near.items()}
        tables = {node: self._behind(node, serving, attached) for node in self._wired}
        for station, point in attached.items():
            if (station, WIRE) not in self._addresses and station not in {device for device, _ in serving}:
                tables[station] = {_ALL_WIRES: Hop(AIR, self._addresses[point, AIR])}
        for (device, interface), base in serving.items():
            tables[device] = {**self._within(device, base, self._served[interface]), **tables.get(device, {})}
        for node in self._uplinks:
            tables[node] = {**tables.get(node, {}), **_ELSEWHERE}
        changes: Changes = {}
        for node in {**tables, **self._reported}:
            new, old = tables.get(node, {}), self._reported.get(node, {})
            change: dict[str, Hop | None] = {to: hop for to, hop in new.items() if old.get(to) != hop}
            change.update(dict.fromkeys(old.keys() - new.keys()))
            if change:
                changes[node] = change
        self._reported = tables
        return changes

    def _within(self, device: str, base: str, medium: Medium) -> Table:
        """What a device needs: everything goes to the station."""
        via = Hop(medium.interface, self._addresses[base, medium.interface])
        # More specific than the network of the interface itself, where every other device seems to be a neighbour.
        halves = map(str, medium.addresses().subnets())
        table = {f"{via.via}/32": Hop(medium.interface), **dict.fromkeys(halves, via)}
        if (device, WIRE) not in self._addresses:
            table[_ALL_WIRES] = via
        return table

    def _behind(self, node: str, serving: dict[tuple[str, str], str], attached: dict[str, str]) -> Table:
        """What a wired node needs: the way to devices, stations, base stations and access points by wire, and to wired
        nodes farther away."""
        hops, table = self._next[node], Table()
        ends = {(far, interface): far for far, interface in sorted(self._bases)} | serving
        for (end, interface), base in ends.items():
            if end != node and base in hops:
                table[f"{self._addresses[end, interface]}/32"] = self._over(hops[base])
        points = {point: point for point in self._points if point != node}
        for end, point in (points | {station: point for station, point in attached.items() if station != node}).items():
            if point in hops:
                table[f"{self._addresses[end, AIR]}/32"] = self._over(hops[point])
        for far, near in hops.items():
            if far != near:
                table[f"{self._addresses[far, WIRE]}/32"] = self._over(near)
        return table

    def _over(self, neighbour: str) -> Hop:
        return Hop(WIRE, self._addresses[neighbour, WIRE])

    def _hops(self, start: str, wires: dict[tuple[str, str], float]) -> dict[str, str]:
        """The first hop to each node that wires reach; between start and end are only nodes that pass packets on."""
        near: dict[str, list[tuple[str, float]]] = {}
        for (a, b), delay in wires.items():
            near.setdefault(a, []).append((b, delay))
        found: dict[str, str] = {}
        queue = [(0, 0.0, start, start)]
        while queue:
            wires_so_far, delay, node, first = heapq.heappop(queue)
            if node in found or (node == start and wires_so_far):
                continue
            if node != start:
                found[node] = first
                if node not in self._forwards:
                    continue
            for far, more in near.get(node, ()):
                heapq.heappush(queue, (wires_so_far + 1, delay + more, far, far if node == start else first))
        return found
