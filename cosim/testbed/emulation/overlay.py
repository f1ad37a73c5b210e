"""A node's interfaces for traffic control where no bridge joins the nodes: tunnels over an existing network.

Containers have a management network, which drops frames with addresses other than the engine's. So each interface is
a VXLAN device (RFC 7348): frames travel as datagrams between the sidecars' addresses there. A medium has a number of
its own, from its IPv4 network. MAC addresses are configured, not learned; broadcasts go to each peer in turn. The
node's software needs no route to the others there, and gets none (`cosim.testbed.emulation.management`). This takes
CAP_NET_ADMIN in the node's network namespace and nothing else.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Iterable
from dataclasses import replace

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import rtnetlink, taps
from cosim.testbed.emulation.rtnetlink import Netlink, failure
from cosim.testbed.emulation.taps import Tap

ALL = "00:00:00:00:00:00"  # the entry for frames to all
HEADERS = 50  # B that a tunnel adds: Ethernet, VXLAN, UDP, IPv4
_DISCARD = 9  # an unused port: nothing is sent there


def missing() -> str:
    """Why there can be no tunnels here, or ""; found out by making one."""
    netlink, name = Netlink(), f"cosim{os.getpid() % 10**8}"
    try:
        refused = netlink.send([rtnetlink.vxlan(name, 1, netlink.index("lo"), "127.0.0.1")])
        if not refused:
            netlink.send([rtnetlink.no_device(netlink.index(name))])
            return ""
    finally:
        netlink.close()
    if refused[0].errno == errno.EOPNOTSUPP:
        return "this kernel has no vxlan; `modprobe vxlan` on the host brings it where the module is installed"
    return f"vxlan cannot be used: {os.strerror(refused[0].errno)}"


def address(host: str) -> str:
    """Our own IPv4 address on the network on which `host` is. OSError when it is not known now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((host, _DISCARD))
        return str(asking.getsockname()[0])


class TunnelOverlay:
    """The tunnels of this network namespace; `at` is its address between them. SetupError when it is not ours."""

    def __init__(self, at: str) -> None:
        self.at = at
        cards = ((index, taps.own(name)) for index, name in socket.if_nameindex())
        self._card = next((index for index, own in cards if own and str(own.ip) == at), 0)
        if not self._card:
            raise SetupError(f"no interface has the address {at}")
        self._mtu = taps.mtu(socket.if_indextoname(self._card)) - HEADERS
        self._netlink = Netlink()
        for refusal in self._netlink.send([rtnetlink.reverse_path(self._card, strict=False)]):
            raise failure(refusal, f"take what comes to {at}")
        self._peers: dict[tuple[str, str], str] = {}  # interface and MAC -> where it is

    def make(self, tap: Tap) -> None:
        """Make an interface anew. SetupError when the kernel refuses."""
        if index := self._netlink.index(tap.name):
            self._netlink.send([rtnetlink.no_device(index)])
        # A number of 24 bits, which the first three bytes of its network are.
        medium = int(ipaddress.IPv4Interface(tap.address or "0.0.0.0/0").network.network_address) >> 8
        refused = self._netlink.send([rtnetlink.vxlan(tap.name, medium, self._card, self.at, tap.mac)])
        if refused:
            raise SetupError(str(failure(refused[0], f"make interface {tap.name}")))
        taps.configure(replace(tap, mtu=min(tap.mtu, self._mtu)))

    def peers(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Who is where: interface, MAC and address. What the kernel refuses raises `RunError`, `SetupError`."""
        messages = []
        for interface, mac, at in rows:
            index = self._netlink.index(interface)
            old = self._peers.get((interface, mac))
            if not index or old == at:
                continue
            messages.append(rtnetlink.forwarding(index, mac, self._card, at))
            others = {place for (name, _), place in self._peers.items() if name == interface}
            if at not in others:
                messages.append(rtnetlink.forwarding(index, ALL, self._card, at, also=True))
            self._peers[interface, mac] = at
            if old and old not in {place for (name, _), place in self._peers.items() if name == interface}:
                messages.append(rtnetlink.forwarding(index, ALL, self._card, old, gone=True))
        for refusal in self._netlink.send(messages):
            raise failure(refusal, "say where a neighbour is")

    def close(self) -> None:
        """Make no more changes; the tunnels stay."""
        self._netlink.close()
