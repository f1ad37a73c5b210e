"""Routes inside nodes: set by the bus's side, kept by the service, made by sidecars."""

from __future__ import annotations

import errno
import ipaddress
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cosim.contract.errors import ProtocolError, SetupError
from cosim.talk.codec import Message
from cosim.testbed.emulation import rtnetlink
from cosim.testbed.emulation.orders import SendTo
from cosim.testbed.emulation.rtnetlink import Netlink
from cosim.testbed.emulation.taps import INTERFACE

log = logging.getLogger(__name__)

PART = 32  # routes in a packet
SETTINGS = Path("/proc/sys/net/ipv4")
# A base station passes packets on, also back into the cell that they came from, and that is as it should be.
FORWARDING = {"ip_forward": "1", "conf/all/send_redirects": "0", "conf/default/send_redirects": "0"}


class Hop(NamedTuple):
    """Where packets to a destination go next."""

    interface: str
    via: str = ""  # IPv4 address of a neighbour there; "": the destination itself is one


Table = Mapping[str, Hop | None]  # by destination (10.172.0.9/32), None: withdrawn


def checked(destination: object, interface: object, via: object) -> tuple[str, Hop | None]:
    """A route as it came from outside; `interface` None withdraws it. ProtocolError when it is none."""
    try:
        network = ipaddress.IPv4Network(destination)
        if interface is None:
            return str(network), None
        if not isinstance(interface, str) or not INTERFACE.fullmatch(interface) or not isinstance(via, str):
            raise ValueError(f"no interface and neighbour: {interface!r}, {via!r}"[:200])
        return str(network), Hop(interface, str(ipaddress.IPv4Address(via)) if via else "")
    except (ValueError, TypeError) as error:
        raise ProtocolError(f"not a route: {error}") from error


class SidecarRoutes:
    """The service's part. `send_to` sends a message to a node's sidecar, and returns whether there is one."""

    def __init__(self, send_to: SendTo) -> None:
        self._send_to = send_to
        self._tables: dict[str, dict[str, Hop]] = {}

    def change(self, tables: Mapping[str, Table]) -> None:
        """Routes of nodes are new or withdrawn; those that are not named stay."""
        for node, table in tables.items():
            kept = self._tables.setdefault(node, {})
            for destination, hop in table.items():
                if hop is None:
                    kept.pop(destination, None)
                else:
                    kept[destination] = hop
            self._say(node, table)

    def wanted(self, node: str) -> None:
        """Send all routes of a node whose interfaces have been made anew."""
        self._say(node, self._tables.get(node, {}))

    def _say(self, node: str, table: Table) -> None:
        rows = list(table.items())
        for start in range(0, len(rows), PART):
            part = [[to, *(hop or (None, None))] for to, hop in rows[start : start + PART]]
            self._send_to(node, "routes", {"routes": part})


class KernelRoutes:
    """A sidecar's part: the routes of its own network namespace."""

    def __init__(self) -> None:
        self._netlink = Netlink()

    def take(self, order: Message) -> None:
        """Make and withdraw routes as ordered by the service; failures are logged. Other messages are ignored."""
        messages, meant = [], []
        for destination, interface, via in order.body["routes"] if order.kind == "routes" else ():
            try:
                network, found = checked(destination, interface, via)
            except ProtocolError as error:
                log.warning("%s", error)
                continue
            index = self._netlink.index(found.interface) if found else 0
            if found and not index:
                log.warning("no interface %s for the route to %s", found.interface, network)
                continue
            messages.append(rtnetlink.route(network, index, found.via if found else "", new=found is not None))
            meant.append(network)
        for refusal in self._netlink.send(messages):
            if refusal.errno != errno.ESRCH:  # what is not there need not be withdrawn
                log.warning("%s", rtnetlink.failure(refusal, f"set the route to {meant[refusal.number]}"))

    def close(self) -> None:
        """Routes stay; may be called twice."""
        self._netlink.close()


def forward() -> None:
    """Let this network namespace pass packets on. SetupError when it may not be changed and does not do so already."""
    for name, wanted in FORWARDING.items():
        setting = SETTINGS / name
        try:
            if setting.read_text().strip() != wanted:
                setting.write_text(wanted)
        except OSError as error:
            raise SetupError(
                f"cannot set {setting} to {wanted} ({error.strerror}); in a container it is one of its sysctls"
            ) from error
    # Interfaces that are there already have a setting of their own, and either is enough for a redirect.
    for setting in SETTINGS.glob("conf/*/send_redirects"):
        with suppress(OSError):  # a container may not change its own; those of emulated links are made later
            setting.write_text("0")
