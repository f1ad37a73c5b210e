"""Media: by what real nodes reach one another. An adapter that brings one declares it in its description.

A node with a key of a medium gets its interface, in a network of the medium's own. The rows of one signal say what
its links are like, and they are imposed there:

    ADAPTER = AdapterKind(name="lora", ..., medium=Medium("lora0", "10.175.0.0/16", ("lora",), "link", served=True))
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cosim.contract.entities import Node

_INTERFACE = re.compile(r"[a-z][a-z0-9]{0,9}[0-9]")  # as the kernel names interfaces; `lo` is none of these
_CORE = ("wifi", "radio", "cell", "uplink")  # keys of nodes that are fields of `Node`
ETHERNET = 1500  # B, the MTU of Ethernet (RFC 894)
LINKS = "links"  # stands for the links of the scenario among the keys of a medium


@dataclass(frozen=True, slots=True)
class Medium:
    """What real nodes need of a medium. Raises `ValueError` for an interface or a network that no node can have.

    Rows of `signal` have the columns of `link` where the medium is `served`: a device and the station that serves it.
    Otherwise they have those of `peer_link`: a sender and a receiver.
    """

    interface: str  # of nodes
    network: str  # IPv4; the host part of an address is the node's slot + 1
    keys: tuple[str, ...]  # nodes that have one of these have the interface
    signal: str = ""  # "": the scenario says what its links are like
    served: bool = False  # stations serve devices, and links from (to) a station share one transmitter
    stations: tuple[str, ...] = ()  # nodes with one of these keys are stations; (): all that are no devices
    shared: bool = False  # all that is sent shares one air
    mtu: int = ETHERNET  # B
    compared: bool = True  # what probes measure is compared with the states
    by: tuple[str, ...] = ()  # names by which `by` of cells and radios means it, filled in by the plan

    def __post_init__(self) -> None:
        if not _INTERFACE.fullmatch(self.interface) or self.interface == "eth0":
            raise ValueError(f"'{self.interface}' names no interface of a medium; write letters and a digit: lora0")
        if not 8 <= ipaddress.IPv4Network(self.network).prefixlen <= 24:
            raise ValueError(f"network {self.network} of {self.interface} needs a prefix of 8 to 24 bits")
        if not 68 <= self.mtu <= 65_000:  # RFC 791; as TAPs have it
            raise ValueError(f"{self.interface}: an MTU of {self.mtu} B is not between 68 and 65000")

    def addresses(self) -> ipaddress.IPv4Network:
        """Its network."""
        return ipaddress.IPv4Network(self.network)

    def is_station(self, node: Node) -> bool:
        """Whether `node`, which has the interface, serves others."""
        if not self.stations:
            return self.served and node.tier != "device"
        return any(_written(node, key) for key in self.stations)


WIFI = Medium("wlan0", "10.171.0.0/16", ("wifi",), "peer_link", shared=True)
CELL = Medium("lte0", "10.172.0.0/16", ("radio",), "link", served=True, stations=("cell",))
WIRE = Medium("eth1", "10.173.0.0/16", (LINKS,))
UPLINK = Medium("up0", "10.174.0.0/16", ("uplink",))  # to the network of the host
MEDIA = (WIFI, CELL, WIRE, UPLINK)  # RFC 1918 space that is seldom in use at home


def of_node(media: Sequence[Medium], node: Node, wired: bool) -> Iterator[Medium]:
    """Those by which `node` reaches others; `wired`: a link of the scenario ends at it.

    A radio or a cell that another medium serves (`by`) is none of `CELL`.
    """
    names = {name for medium in media for name in medium.by}
    for medium in media:
        written = [key for key in (*medium.keys, *medium.stations) if (wired and key == LINKS) or _written(node, key)]
        if medium is CELL:
            written = [key for key in written if getattr(node, key).by not in names]
        if written:
            yield medium


def conflict(media: Sequence[Medium]) -> str:
    """Why these media cannot be in one scenario, ""."""
    for one, other in combinations(media, 2):
        if one.interface == other.interface:
            return f"two media have the interface {one.interface}"
        if one.addresses().overlaps(other.addresses()):
            return f"the networks of {one.interface} and {other.interface} overlap: {one.network}, {other.network}"
    return ""


def _written(node: Node, key: str) -> bool:
    return getattr(node, key) is not None if key in _CORE else node.says(key)
