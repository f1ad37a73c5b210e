"""The management network of a node's software: a way to the run, and to nothing else.

A container's engine connects all services of a project, so a program could reach another node there, bypassing the
emulated network and its delays. The sidecar removes that network's route from its namespace and adds routes to only
those hosts that the software needs. Without a route no connection is made and no answer comes back. A program that
binds its socket to the interface needs no route to send, so the interface drops packets from senders to which no route
leads (strict reverse-path filter).

Where the engine's name server is in that network (Podman's is at its gateway; Docker's is inside the container) there
is a way to it too, to its port for names and to no other.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import nftables as nf
from cosim.testbed.emulation import rtnetlink, taps
from cosim.testbed.emulation.nftables import Netfilter
from cosim.testbed.emulation.rtnetlink import Netlink

log = logging.getLogger(__name__)

NAMES = Path("/etc/resolv.conf")
TABLE = "cosim_names"
PERIOD = 2.0  # s between two looks: a host that is started again may have another address
SOON = 0.1  # s until the next look for the first host, which may be started after this one; doubled each time
FAREWELL = 0.5  # s for a look in progress at the end; the engine may take ten to report that a host is not there


def addresses(name: str) -> set[str]:
    """The IPv4 addresses of a host; none while it is not there."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)}
    except OSError:
        return set()


def name_servers(file: Path = NAMES) -> set[str]:
    """The IPv4 addresses of the name servers that programs here ask."""
    found = set()
    with contextlib.suppress(OSError):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                with contextlib.suppress(ValueError):
                    found.add(str(ipaddress.IPv4Address(words[1])))
    return found


def for_names_only(servers: Iterable[str]) -> list[bytes]:
    """Messages that let programs here send to the port for names of these addresses, and nothing else."""
    closed = [
        nf.rule(
            TABLE,
            "out",
            *nf.within(ipaddress.IPv4Network(one), nf.DESTINATION_ADDRESS),
            *nf.to_other_port(53),
            nf.drop(),
        )
        for one in sorted(servers)
    ]
    made = [nf.table(TABLE), nf.chain(TABLE, "out", "filter", nf.OUTPUT, nf.FILTER)]
    return [nf.table(TABLE), nf.no_table(TABLE), *made, *closed]


class Management:
    """The routes of this network namespace to `hosts`, in place of those to the whole network where the first one is.

    The interfaces `own` are left alone, and so are those of other networks, by which ports are shown.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        own: Iterable[str],
        resolve: Callable[[str], Collection[str]] = addresses,
        servers: Callable[[], Collection[str]] = name_servers,
    ) -> None:
        self._hosts, self._own, self._resolve = tuple(hosts), frozenset(own), resolve
        self._servers, self._asked = servers, frozenset[ipaddress.IPv4Address]()  # those with a way
        self._made: dict[str, dict[str, int]] = {}  # host -> destination -> number of its interface
        self._filtered: set[int] = set()  # numbers of interfaces; once, as an overlay may open its own again
        self._netlink = Netlink()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Make the routes to the first host, those to others once their names are known, and keep them until `close`.

        A service that is not started has no name; an engine without Internet access takes ten seconds to report that.
        """
        if not self._hosts:
            return
        self.look(self._hosts[:1])
        self._thread = threading.Thread(target=self._keep, name="management", daemon=True)
        self._thread.start()

    def look(self, hosts: Sequence[str] = ()) -> None:
        """Make missing routes and remove superfluous ones, for all hosts or for `hosts`, which include the first.

        Failures are logged. A host that is not there now keeps its routes: it may come back, and no other host has its
        address.
        """
        found = {host: [ipaddress.IPv4Address(text) for text in self._resolve(host)] for host in hosts or self._hosts}
        networks = {
            network: index
            for network, index in self._networks().items()
            if any(address in network for address in found[self._hosts[0]])
        }
        messages = [rtnetlink.reverse_path(index, strict=True) for index in set(networks.values()) - self._filtered]
        self._filtered |= set(networks.values())
        messages += [rtnetlink.no_route(to, index) for net, index in networks.items() for to in (str(net), "0.0.0.0/0")]
        ways = {**found, "": list(self._named(networks))} if networks else found
        for host, there in ways.items():
            wanted = {f"{a}/32": index for a in there for network, index in networks.items() if a in network}
            if wanted:
                old, self._made[host] = self._made.get(host, {}), wanted
                messages += [rtnetlink.no_route(to, index) for to, index in old.items() if to not in wanted]
                messages += [rtnetlink.route(to, index, "", new=True) for to, index in wanted.items()]
        for refusal in self._netlink.send(messages):
            if refusal.errno != errno.ESRCH:  # what is not there need not be taken away
                log.warning("%s", rtnetlink.failure(refusal, "change the way to the management network"))

    def _named(self, networks: Collection[ipaddress.IPv4Network]) -> frozenset[ipaddress.IPv4Address]:
        """The name servers in these networks, once nothing but their port for names can be reached."""
        servers = map(ipaddress.IPv4Address, self._servers())
        there = frozenset(one for one in servers if any(one in network for network in networks))
        if there != self._asked:
            netfilter = Netfilter()
            try:
                netfilter.send(for_names_only(map(str, there)))
                self._asked = there
            except SetupError as error:
                log.warning("no way to the engine's name server, so names stand for nothing here: %s", error)
            finally:
                netfilter.close()
        return self._asked

    def close(self) -> None:
        """Routes stay as they are; may be called twice."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(FAREWELL)
        else:
            self._netlink.close()

    def _keep(self) -> None:
        first = self._hosts[0]
        try:
            pause = SOON
            while first not in self._made and not self._closing.wait(pause):
                self.look([first])
                pause = min(2.0 * pause, PERIOD)
            while not self._closing.is_set():
                self.look()
                self._closing.wait(PERIOD)
        finally:
            self._netlink.close()

    def _networks(self) -> dict[ipaddress.IPv4Network, int]:
        """Networks of the engine's interfaces, with the interface's number."""
        cards = ((index, name) for index, name in socket.if_nameindex() if name != "lo" and name not in self._own)
        found = [(taps.own(name), index) for index, name in cards]
        return {address.network: index for address, index in found if address is not None}
