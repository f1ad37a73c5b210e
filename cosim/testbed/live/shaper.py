"""Shapes links of this machine by the kernel's traffic control, as far as its owner allows it.

What leaves one interface for the ordered addresses gets the ordered rate, delay and loss; everything else stays as it
is. Never shaped are the way to the run, the routers of this machine, and what is outside its owner's networks.
Needs CAP_NET_ADMIN. HTB is needed for rates, netem for delay and loss.

    python -m cosim.testbed.live.shaper INTERFACE    removes what a killed agent has left there
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import math
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cosim.contract.errors import CosimError, RunError, SetupError
from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import rtnetlink, taps
from cosim.testbed.emulation.rtnetlink import Netlink
from cosim.testbed.emulation.tc import HANDLE, TcBackend, probe_netem
from cosim.testbed.emulation.uplink import ROUTES, routes
from cosim.testbed.live.shaping import Ability, Impairment, outside

Networks = Sequence[ipaddress.IPv4Network]

_NO_SUCH = 0x5E20000  # 5e2:, a root that does not exist, to test whether one may be deleted
_AMBIENT, _CLEAR_ALL = 47, 4  # prctl
_NAME = re.compile(r"[^\s/:]{1,15}")
_AGAIN = 60.0  # s after which a name is looked up again
_SHOWN = 3  # addresses that a message names


def routers(table: Path = ROUTES) -> frozenset[str]:
    """The IPv4 addresses by which this machine reaches other networks."""
    with contextlib.suppress(OSError):
        return frozenset(through for _, through in routes(table) if through)
    return frozenset()


def resolved(server: str) -> frozenset[str]:
    """The IP addresses of `tcp://HOST:PORT`; none for other addresses. Raises `OSError` when HOST is not known."""
    if not server.startswith("tcp://"):
        return frozenset()
    host = server.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, None))


def permitted(interface: str) -> Netlink:
    """A socket that may change the queues of `interface`. Raises `SetupError` when there is none, or it may not."""
    netlink = Netlink()
    number = netlink.index(interface)
    if not number:
        netlink.close()
        raise SetupError(f"there is no interface '{interface}'; `ip link` shows those there are")
    refused = netlink.send([rtnetlink.remove(number, _NO_SUCH)])
    if refused and refused[0].errno == errno.EPERM:
        netlink.close()
        raise SetupError(
            f"shaping {interface} needs CAP_NET_ADMIN: run as root, or as the unit of --systemd does, with "
            "AmbientCapabilities=CAP_NET_ADMIN"
        )
    return netlink


def clear(interface: str) -> None:
    """Take away the queues that a killed agent has left. Raises `SetupError`."""
    with contextlib.closing(permitted(interface)) as netlink, alone(interface):
        netlink.send([rtnetlink.remove(netlink.index(interface), HANDLE)])


def alone(interface: str) -> socket.socket:
    """Keeps others of this program from shaping the same interface until it is closed. Raises `SetupError`."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(f"\0cosim-shaping-{interface}")  # abstract: one per network namespace, gone with its process
    except OSError as error:
        held.close()
        raise SetupError(f"another agent shapes {interface}; stop it first") from error
    return held


def keep_from_children() -> None:
    """Programs that are started from now on get none of the capabilities that systemd has given to this one."""
    ctypes.CDLL(None).prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)


class KernelShaper:
    """A `Shaper` of one interface. Raises `SetupError` when it can shape nothing there.

    `within` are the networks whose addresses may be shaped; () is that of the interface. `server` is the address of
    the gateway.
    """

    def __init__(self, interface: str, within: Networks = (), server: str = "") -> None:
        self.interface, self._server = interface, server
        self._lock: socket.socket | None = None
        self._backend: TcBackend | None = None
        self._states: dict[str, LinkState] = {}
        self._run: frozenset[str] = frozenset()
        self._resolved_at = -math.inf
        self._netlink = permitted(interface)
        own = taps.own(interface)
        self._own = "" if own is None else str(own.ip)
        self.within = tuple(within) or (() if own is None else (own.network,))
        try:
            if not self.within:
                raise SetupError(f"{interface} has no IPv4 address: say with --shape-within what may be shaped")
            self.lacks = probe_netem()  # why there is neither delay nor loss, ""
            self._netem = not self.lacks
            self.ability: Ability = "full" if self._netem else "rate"
        except BaseException:
            self._netlink.close()
            raise

    def open(self) -> None:
        """Get ready: clears what a killed agent has left, and tries. Raises `SetupError`."""
        self._lock = alone(self.interface)
        keep_from_children()
        trial = TcBackend({}, netem=False)
        try:
            trial.attach("", self.interface, -1, "")
        finally:
            trial.close()

    def impose(self, links: Mapping[str, Impairment]) -> tuple[int, str]:
        """See `Shaper`."""
        why = self._refusal()
        states: dict[str, LinkState] = {}
        refused: dict[str, list[str]] = {}
        curtailed = []
        for address, link in links.items():
            if reason := why(address):
                refused.setdefault(reason, []).append(address)
                continue
            state = _state(link)
            if not self._netem and state != DOWN and (state.delay or state.jitter or state.loss):
                curtailed.append(address)
                state = LinkState(state.rate, 0.0, 0.0, 0.0)
            states[address] = state
        self._set(states)
        reported = [f"{reason}: {_named(addresses)}" for reason, addresses in refused.items()]
        if curtailed:
            reported.append(f"neither delay nor loss, as this kernel has no netem: {_named(curtailed)}")
        return len(states) - len(curtailed), "; ".join(reported)

    def trouble(self) -> str:
        """Whether our queue is still there."""
        if self._backend is None:
            return ""
        number = self._netlink.index(self.interface)
        if not number:
            return f"{self.interface} is gone"
        body, _ = self._netlink.ask(rtnetlink.traffic(rtnetlink.GETQDISC, rtnetlink.ECHO, number, 0, rtnetlink.ROOT))
        ours = len(body) >= 12 and struct.unpack_from("=I", body, 8)[0] == HANDLE
        return "" if ours else f"another program has taken our queue from {self.interface}"

    def close(self) -> None:
        self._release()
        self._netlink.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _release(self) -> None:
        backend, self._backend = self._backend, None
        self._states = {}
        if backend is not None:
            backend.close()

    def _set(self, states: Mapping[str, LinkState]) -> None:
        if self._backend is not None and (states.keys() != self._states.keys() or self.trouble()):
            self._release()
        if not states:
            return
        reported = {("", address, self.interface): state for address, state in states.items()}
        if self._backend is None:
            self._backend = TcBackend({(address, self.interface): address for address in states}, self._netem)
            self._backend.links(reported)  # before there is a port: no packet finds a link that is down until it is set
            try:
                self._backend.attach("", self.interface, -1, "")
            except CosimError:
                self._release()
                raise
        else:
            try:
                self._backend.links(reported)
            except CosimError:
                self._release()  # made anew at the next attempt
                raise
        self._states = dict(states)

    def _spared(self) -> frozenset[str]:
        """The addresses of the run, asked for again now and then."""
        now = time.monotonic()
        if now - self._resolved_at > _AGAIN:
            try:
                self._run, self._resolved_at = resolved(self._server), now
            except OSError as error:
                if self._resolved_at < 0:
                    why = f"the address of {self._server} is not known, so it cannot be spared: {error}"
                    raise RunError(why) from error
        return self._run

    def _refusal(self) -> Callable[[str], str]:
        """A function that returns why an address must not be shaped, or ""."""
        server = self._spared()
        ways = routers()

        def why(address: str) -> str:
            there = ipaddress.IPv4Address(address)
            near = [network for network in self.within if there in network]
            if address in server:
                return "the way to the run"
            if address in ways:
                return "a router of this machine"
            if not near:
                return outside(self.within)
            if address == self._own or there.is_multicast or there.is_loopback:
                return "no other machine"
            edges = [(n.network_address, n.broadcast_address) for n in near if n.prefixlen < 31]
            return "no address of a machine" if any(there in edge for edge in edges) else ""

        return why


def is_interface(text: str) -> bool:
    """Whether `text` can name an interface; MODULE:FUNCTION cannot."""
    return _NAME.fullmatch(text) is not None


def _state(link: Impairment) -> LinkState:
    if link.rate == 0 or link.loss == 1:
        return DOWN
    return LinkState(
        math.inf if link.rate is None else link.rate, link.delay or 0.0, link.jitter or 0.0, link.loss or 0.0
    )


def _named(addresses: Sequence[str]) -> str:
    more = len(addresses) - _SHOWN
    return ", ".join(addresses[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def main(arguments: Sequence[str]) -> int:
    """Clear the interface that is named; its exit code."""
    if len(arguments) != 1 or not is_interface(arguments[0]):
        sys.stderr.write("usage: python -m cosim.testbed.live.shaper INTERFACE\n")
        return 2
    try:
        clear(arguments[0])
    except CosimError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
