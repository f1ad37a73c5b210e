"""What runs on a scenario's real nodes: image, command, interfaces, limits; the same for every way of starting it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem, ScenarioError

# One network per medium; the host part is the node's slot + 1. RFC 1918 space that is seldom in use at home.
NETWORKS: Mapping[str, ipaddress.IPv4Network] = {
    "wlan0": ipaddress.IPv4Network("10.171.0.0/16"),
    "lte0": ipaddress.IPv4Network("10.172.0.0/16"),
    "eth1": ipaddress.IPv4Network("10.173.0.0/16"),
    "up0": ipaddress.IPv4Network("10.174.0.0/16"),
}
AIR, CELL, WIRE, UP = "wlan0", "lte0", "eth1", "up0"
MOST = 2**16 - 3  # nodes that a network has addresses for; the last one is that of the host, where uplinks end
HOST = "_host"  # the end of all uplinks; no node is named so: ids begin with a letter or a digit
# Programs of our images, as arguments of Python; what other images run only they know.
OURS: Mapping[str, tuple[str, ...]] = {
    "vuav": ("-m", "cosim.autopilot.node"),
    "vrover": ("-m", "cosim.autopilot.node"),
    "vedgenode": ("-m", "cosim.testbed.inference.node"),
}


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a real node."""

    name: str  # wlan0, lte0, eth1
    mac: str
    address: str

    @property
    def prefix(self) -> int:
        """Length of the network's prefix."""
        return NETWORKS[self.name].prefixlen

    @property
    def text(self) -> str:
        """As the sidecar reads it."""
        return f"{self.name},{self.mac},{self.address}/{self.prefix}"


@dataclass(frozen=True, slots=True)
class Program:
    """A real node: its software and what it is given."""

    node: str
    slot: int
    image: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    ports: tuple[int, ...]  # shown on the host's loopback
    interfaces: tuple[Interface, ...]
    cores: int  # 0: not limited
    memory: int  # B, 0: not limited
    attaches: bool  # to the run, as a live node
    device: bool  # makes tasks and sends them to others
    base: bool = False  # a base station: all links of its cell share the air
    forwards: bool = False  # passes on packets that are for others
    routed: bool = False  # packets get from cells to wired nodes and back
    point: bool = False  # an access point that passes packets on between its stations and wires
    station: bool = False  # of the network of such an access point
    bridged: bool = False  # packets get from Wi-Fi to wired nodes and back
    flies: bool = False  # the run grants its program time, and learns from it where the vehicle is

    @property
    def keyed(self) -> bool:
        """Whether it has a key, by which the run knows it."""
        return self.attaches or self.flies

    def key(self, path: str) -> dict[str, str]:
        """Environment variables that give its programs the key at `path`, as far as they need one."""
        found = {"COSIM_KEY": path} if self.attaches else {}
        return found | ({"COSIM_VEHICLES_KEY": path} if self.flies else {})

    def reached(self, other: Program) -> str:
        """The address at which it reaches another node, "" when it does not: of an interface that both have, or
        across a base station or an access point."""
        mine = {interface.name for interface in self.interfaces} - {UP}  # by which nodes reach the host alone
        across = {CELL, WIRE} if self.routed and mine & {CELL, WIRE} else set()
        if self.bridged and (self.point or self.station or WIRE in mine):
            across |= {WIRE, AIR} if other.point or other.station else {WIRE}
        for names in (mine, across):
            for interface in other.interfaces:
                if interface.name in names:
                    return interface.address
        return ""


def interface(name: str, slot: int) -> Interface:
    """Interface `name` of the node at `slot`; the MAC is 02:00 and the address, so that each gives the other."""
    address = NETWORKS[name][slot + 1]
    return Interface(name, mac_of(str(address)), str(address))


def mac_of(address: str) -> str:
    """The locally administered MAC of the interface with this IPv4 address."""
    return "02:00:" + ":".join(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)


UPLINKS_END = interface(UP, MOST)


def host_end(nodes: Iterable[Program]) -> Program | None:
    """The end of the uplinks of `nodes`, which has an interface like a node's and no software; None: there are none."""
    if not any(interface.name == UP for node in nodes for interface in node.interfaces):
        return None
    return Program(HOST, MOST, "", (), (), (), (UPLINKS_END,), 0, 0, False, False)


def neighbours(node: Program, nodes: Iterable[Program]) -> list[Interface]:
    """The interfaces of others that are in a network of `node`. By an uplink nodes have the host's end alone."""
    mine = {interface.name for interface in node.interfaces}
    everyone = tuple(nodes)
    end = host_end(everyone)
    found = [
        interface
        for other in everyone
        if other.node != node.node
        for interface in other.interfaces
        if interface.name in mine and (interface.name != UP or node.node == HOST)
    ]
    return found + (list(end.interfaces) if end is not None and UP in mine and node.node != HOST else [])


def programs(scene: Scene) -> tuple[Program, ...]:
    """The real nodes of a scene in the order of slots: static nodes, then the computers on board of fleets.

    Raises `ScenarioError` for those that cannot be reached.
    """
    everything = [(slot, node) for slot, node in scene.computers() if node.runs is not None]
    if everything and everything[-1][0] >= MOST:
        raise ScenarioError(Problem(f"{everything[-1][0] + 1} nodes are more than a network has addresses", "nodes"))
    wired = {
        slot
        for link in scene.links
        for part in (*link.a, *link.b)
        for slot in range(part.first, part.first + part.count)
    }
    found = []
    routed = any(node.cell is not None for _, node in everything)
    served = {
        node.wifi.network
        for slot, node in everything
        if node.wifi is not None and node.wifi.mode == "access-point" and slot in wired and node.tier != "device"
    }
    between = _between(scene, wired)
    for slot, node in everything:
        assert node.runs is not None
        names = list(media(node, slot in wired))
        if not names:
            raise ScenarioError(
                Problem(
                    f"node '{node.id}' runs '{node.runs.image}' but has no network interface",
                    f"nodes.{node.id}",
                    hint="give it 'wifi: {}', a 'radio', a 'cell', a link or 'uplink: host'",
                )
            )
        found.append(
            Program(
                node.id, slot, node.runs.image, node.runs.command,
                tuple(node.runs.environment.items()), node.runs.ports,
                tuple(interface(name, slot) for name in names), node.cores, int(node.memory), node.live is not None,
                node.tier == "device", node.cell is not None,
                node.cell is not None
                or (node.tier != "device" and (slot in between or ((routed or bool(served)) and slot in wired))),
                routed,
                slot in wired and node.tier != "device" and _mode(node, served) == "access-point",
                _mode(node, served) == "station", bool(served),
                node.says("vehicle"),
            )
        )  # fmt: skip
    return tuple(found)


def _mode(node: Node, networks: Collection[str]) -> str:
    """What it is in one of these Wi-Fi networks, "": it is in none."""
    return node.wifi.mode if node.wifi is not None and node.wifi.network in networks else ""


def _between(scene: Scene, wired: Collection[int]) -> set[int]:
    """The slots of nodes with wires to more than one other, which may pass packets on."""
    ends: dict[int, set[int]] = {slot: set() for slot in wired}
    for link in scene.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            others = {part.first + k for part in far for k in range(min(part.count, 2))}
            for part in near:
                for slot in range(part.first, part.first + part.count):
                    ends[slot] |= others - {slot}
    return {slot for slot, others in ends.items() if len(others) > 1}


def software(node: Program) -> dict[str, str]:
    """Environment variables that describe a node to its software."""
    found = {"COSIM_NODE": node.node}
    if any(interface.name == UP for interface in node.interfaces):
        found["COSIM_HOST"] = UPLINKS_END.address
    if node.cores:
        found["COSIM_CORES"] = str(node.cores)
    if node.device and node.attaches:
        names = [interface.name for interface in node.interfaces]
        if WIRE not in names and ((node.routed and CELL in names) or node.station):
            names.append(WIRE)
        found["COSIM_CALLS"] = " ".join(str(NETWORKS[name]) for name in names)
    return found


def media(node: Node, wired: bool) -> Iterable[str]:
    """The interfaces that a node has; `wired`: a link of the scenario ends at it."""
    if node.wifi is not None:
        yield "wlan0"
    if node.radio is not None or node.cell is not None:
        yield "lte0"
    if wired:
        yield "eth1"
    if node.uplink is not None:
        yield UP
