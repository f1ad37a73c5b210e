"""Where the emulated network ends: between the nodes' uplinks and a network of the host.

All uplinks lead to one end, with an interface like a node's: its frames are delayed, lost and slowed down like all
others. What arrives there leaves by the namespace's own network under an address of that network (NAT), so that
answers come back and neighbours need not know the nodes. Hosts outside cannot open a connection to a node, and nodes
cannot reach each other or another emulated network this way.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import nftables as nf
from cosim.testbed.emulation.nftables import Netfilter

TABLE = "cosim_uplink"
ROUTES = Path("/proc/net/route")
ROUTER = "router"  # in place of an address: the router of this namespace


def rules(inside: str, own: ipaddress.IPv4Interface, host: str, closed: Sequence[ipaddress.IPv4Network]) -> list[bytes]:
    """Messages for the end of uplinks: interface `inside` with the address `own`, which stands for `host`.

    `closed` are networks that cannot be reached this way.
    """
    came = nf.comes_by(inside)
    return [
        nf.table(TABLE),
        nf.no_table(TABLE),
        nf.table(TABLE),
        nf.chain(TABLE, "forward", "filter", nf.FORWARD, nf.FILTER),
        nf.rule(TABLE, "forward", *came, *nf.leaves_by(inside), nf.drop()),
        nf.rule(TABLE, "forward", *came, *nf.within(own.network, nf.SOURCE_ADDRESS, no=True), nf.drop()),
        *(
            nf.rule(TABLE, "forward", *came, *nf.within(network, nf.DESTINATION_ADDRESS), nf.drop())
            for network in closed
        ),
        nf.rule(TABLE, "forward", *nf.leaves_by(inside), *nf.asked_for(), nf.accept()),
        nf.rule(TABLE, "forward", *nf.leaves_by(inside), nf.drop()),
        nf.chain(TABLE, "host", "nat", nf.PREROUTING, nf.DESTINATION),
        nf.rule(
            TABLE, "host", *came, *nf.within(ipaddress.IPv4Network(own.ip), nf.DESTINATION_ADDRESS), nf.to(host)
        ),
        nf.chain(TABLE, "out", "nat", nf.POSTROUTING, nf.SOURCE),
        nf.rule(TABLE, "out", *nf.leaves_by(inside, no=True), nf.masquerade()),
    ]  # fmt: skip


def routes(table: Path = ROUTES) -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    """The networks that this namespace has routes to, each with the address of the router to it, "" for none."""
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        to, through, mask = (socket.inet_ntoa(struct.pack("=I", int(fields[k], 16))) for k in (1, 2, 7))
        yield ipaddress.IPv4Network(f"{to}/{mask}"), through if int(fields[3], 16) & 2 else ""


def router(table: Path = ROUTES) -> str:
    """The IPv4 address of this namespace's router. Raises `SetupError` when there is none."""
    for network, through in routes(table):
        if through and int(network.network_address) == 0:
            return through
    raise SetupError(
        "there is no router here, so an uplink leads nowhere: connect this container to a network with one"
    )


def translate(inside: str, own: str, host: str, closed: Sequence[str]) -> None:
    """Make this namespace the end of uplinks, see `rules`; `host` may be `ROUTER`. Raises `SetupError`."""
    netfilter = Netfilter()
    try:
        address = router() if host == ROUTER else host
        networks = [ipaddress.IPv4Network(text) for text in closed]
        netfilter.send(rules(inside, ipaddress.IPv4Interface(own), address, networks))
    finally:
        netfilter.close()
