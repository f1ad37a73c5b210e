"""What runs on a scenario's real nodes: image, command, interfaces, limits; the same for every way of starting it."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.medium import ETHERNET, MEDIA, UPLINK, WIFI, WIRE, Medium, of_node
from cosim.contract.node_keys import ARDUPILOT

MOST = 2**16 - 3  # nodes that a network has addresses for; the last one is that of the host, where uplinks end
HOST = "_host"  # the end of all uplinks; no node is named so: ids begin with a letter or a digit
# Programs of our images, as arguments of Python; what other images run only they know.
OURS: Mapping[str, tuple[str, ...]] = {
    "vuav": ("-m", "cosim.autopilot.node"),
    ARDUPILOT: ("-m", "cosim.autopilot.node", "--ardupilot"),
    "vrover": ("-m", "cosim.autopilot.node"),
    "vedgenode": ("-m", "cosim.testbed.inference.node"),
}


@dataclass(frozen=True, slots=True)
class NodeInterface:
    """A network interface of a real node; the MAC is 02:00 and the address, so that each gives the other."""

    medium: Medium
    address: str

    @property
    def name(self) -> str:
        """wlan0, lte0, eth1, or that of another medium."""
        return self.medium.interface

    @property
    def mac(self) -> str:
        """A locally administered one."""
        return mac_of(self.address)

    @property
    def prefix(self) -> int:
        """Length of the network's prefix."""
        return self.medium.addresses().prefixlen

    @property
    def text(self) -> str:
        """As the sidecar reads it."""
        own = f"{self.name},{self.mac},{self.address}/{self.prefix}"
        return own if self.medium.mtu == ETHERNET else f"{own},{self.medium.mtu}"


@dataclass(frozen=True, slots=True)
class Program:
    """A real node: its software and what it is given."""

    node: str
    slot: int
    image: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    ports: tuple[int, ...]  # shown on the host's loopback
    interfaces: tuple[NodeInterface, ...]
    cores: int  # 0: not limited
    memory: int  # B, 0: not limited
    attaches: bool  # to the run, as a live node
    device: bool  # makes tasks and sends them to others
    serves: tuple[str, ...] = ()  # interfaces as whose station it serves others: all links of its cell share the air
    forwards: bool = False  # passes on packets that are for others
    routed: bool = False  # packets get from devices that stations serve to wired nodes and back
    point: bool = False  # an access point that passes packets on between its stations and wires
    station: bool = False  # of the network of such an access point
    bridged: bool = False  # packets get from Wi-Fi to wired nodes and back
    flies: bool = False  # the run grants its program time, and learns from it where the vehicle is

    @property
    def names(self) -> tuple[str, ...]:
        """Of its interfaces."""
        return tuple(interface.name for interface in self.interfaces)

    @property
    def files(self) -> list[str]:
        """What in its command are files of this machine, by their whole paths."""
        words = [part for word in self.command for part in re.split("[,=]", word)]
        return sorted({word for word in words if word.startswith("/") and Path(word).is_file()})

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
        mine = {interface.name for interface in self.interfaces if interface.medium is not UPLINK}
        wired, across = WIRE.interface in mine, set[str]()
        if self.routed:
            cells = {i.name for i in (*self.interfaces, *(other.interfaces if wired else ())) if i.medium.served}
            across = {WIRE.interface, *cells} if cells or wired else across
        if self.bridged and (self.point or self.station or wired):
            across |= {WIRE.interface, WIFI.interface} if other.point or other.station else {WIRE.interface}
        for names in (mine, across):
            for interface in other.interfaces:
                if interface.name in names:
                    return interface.address
        return ""


def interface(medium: Medium, slot: int) -> NodeInterface:
    """The interface of the node at `slot`."""
    return NodeInterface(medium, str(medium.addresses()[slot + 1]))


def mac_of(address: str) -> str:
    """The locally administered MAC of the interface with this IPv4 address."""
    return "02:00:" + ":".join(f"{byte:02x}" for byte in ipaddress.IPv4Address(address).packed)


UPLINKS_END = interface(UPLINK, MOST)


def host_end(nodes: Iterable[Program]) -> Program | None:
    """The end of the uplinks of `nodes`, which has an interface like a node's and no software; None: there are none."""
    if not any(UPLINKS_END.name in node.names for node in nodes):
        return None
    return Program(HOST, MOST, "", (), (), (), (UPLINKS_END,), 0, 0, False, False)


def closed(nodes: Iterable[Program], *, uplinks: bool = False) -> str:
    """The networks of all media, which are not reached by `uplinks`, separated by spaces; those of uplinks too."""
    media = dict.fromkeys((*MEDIA, *(interface.medium for node in nodes for interface in node.interfaces)))
    return " ".join(one.network for one in media if uplinks or one is not UPLINK)


def neighbours(node: Program, nodes: Iterable[Program]) -> list[NodeInterface]:
    """The interfaces of others that are in a network of `node`. By an uplink nodes have the host's end alone."""
    mine = set(node.names)
    everyone = tuple(nodes)
    end = host_end(everyone)
    found = [
        interface
        for other in everyone
        if other.node != node.node
        for interface in other.interfaces
        if interface.name in mine and (interface.medium is not UPLINK or node.node == HOST)
    ]
    return found + (list(end.interfaces) if end is not None and UPLINKS_END.name in mine and node.node != HOST else [])


def programs(scene: Scene) -> tuple[Program, ...]:
    """The real nodes of a scene in the order of slots: static nodes, then the computers on board of fleets.

    Raises `ScenarioError` for those that cannot be reached.
    """
    everything = [(slot, node) for slot, node in scene.computers() if node.runs is not None]
    if everything and everything[-1][0] >= MOST:
        raise ScenarioError(Problem(f"{everything[-1][0] + 1} nodes are more than a network has addresses", "nodes"))
    wired, known = wired_slots(scene), (*MEDIA, *scene.media)
    found = []
    media = {slot: tuple(of_node(known, node, slot in wired)) for slot, node in everything}
    serves = {slot: tuple(m.interface for m in media[slot] if m.is_station(node)) for slot, node in everything}
    routed = any(serves.values())
    served = {
        node.wifi.network
        for slot, node in everything
        if node.wifi is not None and node.wifi.mode == "access-point" and slot in wired and node.tier != "device"
    }
    between = _between(scene, wired)
    for slot, node in everything:
        assert node.runs is not None
        if not media[slot]:
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
                tuple(interface(medium, slot) for medium in media[slot]), node.cores, int(node.memory),
                node.live is not None, node.tier == "device", serves[slot],
                bool(serves[slot])
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


def unnamed(nodes: Iterable[Program]) -> list[Problem]:
    """ArduPilots of vehicles that are not named, or not on this machine."""
    found = []
    for node in nodes:
        if node.image != ARDUPILOT:
            continue
        named = Path(node.command[0]) if node.command else None
        if named is None:
            text, hint = f"'{node.node}' runs '{ARDUPILOT}' and names no ArduPilot", "command: [/PATH/OF/arducopter]"
        elif not named.is_absolute() or not named.is_file():
            text, hint = f"there is no program '{named}'", "write the whole path of an ArduPilot of this machine"
        elif not os.access(named, os.X_OK):
            text, hint = f"'{named}' is not executable", f"chmod +x {named}"
        else:
            continue
        found.append(Problem(text, f"nodes.{node.node}.runs.command", hint=hint))
    return found


def software(node: Program) -> dict[str, str]:
    """Environment variables that describe a node to its software."""
    found = {"COSIM_NODE": node.node}
    if UPLINKS_END.name in node.names:
        found["COSIM_HOST"] = UPLINKS_END.address
    if node.cores:
        found["COSIM_CORES"] = str(node.cores)
    if node.device and node.attaches:
        media = [interface.medium for interface in node.interfaces]
        if WIRE not in media and ((node.routed and any(medium.served for medium in media)) or node.station):
            media.append(WIRE)
        found["COSIM_CALLS"] = " ".join(medium.network for medium in media)
    return found


def wired_slots(scene: Scene) -> set[int]:
    """The slots at which links of the scenario end."""
    return {
        slot
        for link in scene.links
        for part in (*link.a, *link.b)
        for slot in range(part.first, part.first + part.count)
    }
