"""Impose link states by the kernel's traffic control: HTB for the rate, netem for delay, jitter and loss.

It acts on the egress of each node's interface, inside the node's network namespace: one class per destination address
below an HTB root, a netem queue below each class, and u32 filters hashed by the last octet of the destination. So every
ordered pair has its own state. Only IPv4 to the addresses of nodes is shaped; ARP, broadcasts and everything else pass
unchanged. Where packets take several hops, nodes are distinguished by the MAC of the next one. Pairs do not share the
medium: the user-space emulator does that.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosim.contract.errors import Problem, ProtocolError, RunError, ScenarioError, SetupError
from cosim.contract.link import DOWN, LinkState, differs
from cosim.testbed.emulation import netns, protocol, rtnetlink
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.rtnetlink import CREATE, Netlink, failure
from cosim.testbed.emulation.state import Health, Position

TRAFFIC_CONTROL = "traffic control"  # its name in reports
HANDLE = 0x5E10000  # 5e1:, our root's; whatever carries it was left by us
DESTINATIONS = 60_000  # per interface: class 5e1:n has the leaf (0x1000 + n):
QUEUE = 100  # packets that may wait for the rate
PACKET = 1500  # B, with which packets under way are counted

_UNKNOWN = LinkState(*[math.nan] * 4)
_NO_NETEM = "this kernel has no netem; `modprobe sch_netem` on the host brings it where the module is installed"


def probe_netem() -> str:
    """Why netem cannot be used here, or "" if it can; found out by using it, as versions and module lists mislead.

    Tried on the loopback device of a throw-away network namespace, or, where none may be made, on a throw-away pair of
    devices of this one.
    """

    made = 0
    try:
        netlink = netns.inside(Path("/proc/thread-self/ns/net"), _unshared)
        interface = netlink.index("lo")
    except (SetupError, OSError):  # that takes CAP_SYS_ADMIN
        netlink, name = Netlink(), f"cosim{os.getpid() % 10**8}"
        refused = netlink.send([rtnetlink.veth(name)])
        if refused:
            netlink.close()
            if refused[0].errno == errno.EPERM:
                return "no permission to try netem: needs CAP_NET_ADMIN"
            return f"no device to try netem on: {os.strerror(refused[0].errno)}"
        interface = made = netlink.index(name)
    try:
        refused = netlink.send(
            [rtnetlink.netem(interface, HANDLE, rtnetlink.ROOT, LinkState(math.inf, 0.01), 10, CREATE)]
        )
        if made:
            netlink.send([rtnetlink.no_device(made)])
    finally:
        netlink.close()
    if not refused:
        return ""
    if refused[0].errno in (errno.ENOENT, errno.EOPNOTSUPP):
        return _NO_NETEM
    return f"netem cannot be used: {os.strerror(refused[0].errno)}"


def _unshared() -> Netlink:
    """A socket in a new network namespace, which is gone with it; the calling thread stays there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(netns.CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return Netlink()


def down(state: LinkState) -> bool:
    """Whether nothing gets through."""
    return state.rate <= 0 or state.loss >= 1


def packets(state: LinkState) -> int:
    """How many packets a netem queue must hold: those under way, half as many again, and `QUEUE` that wait."""
    rate = min(state.rate, 8.0 * rtnetlink.LIMITLESS)
    return QUEUE + math.ceil(1.5 * rate * (state.delay + state.jitter) / (8 * PACKET))


def _queued(state: LinkState) -> tuple[float, ...]:
    """What the netem queue of a link depends on."""
    return (packets(state), *state[1:])


@dataclass(slots=True)
class _Port:
    """An interface with our root on it."""

    netlink: Netlink
    interface: int  # number of the device
    imposed: dict[str, LinkState] = field(default_factory=dict)  # by receiver, as the kernel has them
    counted: tuple[int, int] = (0, 0)  # packets sent and dropped at the last question


class TcBackend:
    """A `Backend` by traffic control. `addresses` gives the IPv4 of each port: ("uav-1", "wlan0") -> "10.9.0.1".

    Or the MAC of each: then a packet for a host behind a forwarding node is shaped as one to that node.

    Attach takes a descriptor of the node's network namespace (`/proc/PID/ns/net`), or -1 for the own one: a sidecar
    attaches its own node and needs CAP_NET_ADMIN only; others also need CAP_SYS_ADMIN. States of pairs whose sender
    is not attached are remembered. With `netem=False` only rates and `DOWN` can be imposed, and any delay, jitter or
    loss is refused with `SetupError`: call `probe_netem` first, and use the user-space emulator when it returns a
    reason. Safe to use from several threads.
    """

    def __init__(self, addresses: Mapping[tuple[str, str], str], netem: bool = True) -> None:
        problems = []
        macs = self._macs = any(address.count(":") == 5 for address in addresses.values())
        for (node, interface), address in addresses.items():
            try:
                protocol.mac_bytes(address) if macs else ipaddress.IPv4Address(address)
            except (ValueError, ProtocolError):
                kind, hint = "MAC" if macs else "IPv4 address", "traffic control matches destinations by these"
                problems.append(Problem(f"'{address}' of {interface} is no {kind}", f"nodes.{node}", hint=hint))
        if problems:
            raise ScenarioError(problems)
        self._addresses = dict(addresses)
        self._netem = netem
        self._numbers: dict[tuple[str, str], int] = {}  # of the receiver among those of its interface, from 1
        count: dict[str, int] = {}
        for node, interface in sorted(addresses):
            count[interface] = self._numbers[node, interface] = count.get(interface, 0) + 1
            if count[interface] > DESTINATIONS:
                raise ScenarioError(
                    f"backend tc takes at most {DESTINATIONS} nodes per interface, {interface} has more"
                )
        self._ports: dict[tuple[str, str], _Port] = {}
        self._states: dict[tuple[str, str, str], LinkState] = {}
        self._closed = False
        self._lock = threading.RLock()

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """Put the queues on `interface` in the namespace of `descriptor`; what we had left there is replaced."""
        self.detach(node, interface)
        try:
            if self._closed:
                raise RunError("the backend is closed")
            # A descriptor's file in /proc is the namespace itself.
            netlink = Netlink() if descriptor < 0 else Netlink.within(Path(f"/proc/self/fd/{descriptor}"))
        except SetupError as error:
            raise SetupError(f"node {node}: {error}; or run the backend in the node's sidecar") from None
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        number = netlink.index(interface)
        if not number:
            netlink.close()
            raise SetupError(f"node {node} has no interface {interface}; is it made before it is attached?")
        netlink.send([rtnetlink.remove(number, HANDLE)])  # refused when there is nothing of ours
        port = _Port(netlink, number)
        with self._lock:
            messages = [rtnetlink.root(number, HANDLE), *rtnetlink.table(number, HANDLE, mac=self._macs)]
            for (receiver, own), address in self._addresses.items():
                if own == interface and receiver != node:
                    state = self._states.get((node, receiver, interface), DOWN)
                    messages += self._pair(port, receiver, interface, address, state)
            refused = netlink.send(messages)
            if refused:
                self._drop(port)
                raise failure(refused[0], f"shape {interface} of {node}")
            self._ports[node, interface] = port

    def detach(self, node: str, interface: str) -> None:
        """Take our queues off again; the interface's own queue comes back."""
        with self._lock:
            port = self._ports.pop((node, interface), None)
            if port:
                self._drop(port)

    def move(self, positions: Mapping[str, Position]) -> None:
        """Nothing: there is no radio here."""

    def links(self, states: Mapping[tuple[str, str, str], LinkState]) -> None:
        """Set what differs from what the kernel has by more than `state.TOLERANCE`.

        Nothing is set if one of the states is impossible (`ProtocolError`) or needs a netem that is not there.
        """
        for pair, state in states.items():
            state.check()
            plain = not any(state[1:])
            if not self._netem and not plain and not down(state):
                raise SetupError(f"cannot delay or lose packets from {pair[0]} to {pair[1]}: {_NO_NETEM}")
        with self._lock:
            self._states.update(states)
            changes: dict[tuple[str, str], tuple[list[str], list[bytes]]] = {}
            for (sender, receiver, interface), state in states.items():
                port = self._ports.get((sender, interface))
                old = port.imposed.get(receiver) if port else None
                if port is None or old is None or not differs(state, old):
                    continue
                receivers, messages = changes.setdefault((sender, interface), ([], []))
                receivers.append(receiver)
                messages += self._change(port, self._numbers[receiver, interface], state, old)
                port.imposed[receiver] = state
            for ends, (receivers, messages) in changes.items():
                self._send(ends, receivers, messages)

    def _change(self, port: _Port, number: int, state: LinkState, old: LinkState) -> list[bytes]:
        messages = []
        if state.rate != old.rate and state.rate > 0:
            # A class that is down keeps its rate: a frame sent at nearly none would block it for minutes after.
            messages.append(rtnetlink.htb_class(port.interface, HANDLE + number, HANDLE, state.rate))
        if down(state) != down(old) or (self._netem and _queued(state) != _queued(old)):
            messages.append(self._leaf(port, number, state))
        return messages

    def _send(self, ends: tuple[str, str], receivers: list[str], messages: list[bytes]) -> None:
        port = self._ports[ends]
        refused = port.netlink.send(messages)
        if any(one.errno == errno.ENODEV for one in refused):
            self._drop(self._ports.pop(ends))  # the node is gone, and its queues with it
        elif refused:
            port.imposed.update(dict.fromkeys(receivers, _UNKNOWN))  # all of them are sent again at the next change
            raise failure(refused[0], f"change a link of {ends[1]} of {ends[0]}")

    def health(self) -> Health:
        """Counters of all roots; lateness and memory are NaN, as the kernel does not report them."""
        sent = dropped = 0
        with self._lock:
            for port in self._ports.values():
                now = port.netlink.counters(port.interface)
                sent += (now[0] - port.counted[0]) & 0xFFFFFFFF
                dropped += (now[1] - port.counted[1]) & 0xFFFFFFFF
                port.counted = now
        return Health(
            not self._closed, math.nan, math.nan, sent + dropped, sent, dropped, time.process_time(), math.nan
        )

    @property
    def restarts(self) -> int:
        """None: the kernel needs no watching."""
        return 0

    def counts(self) -> dict[tuple[str, str, str], PairCount]:
        """(sender, receiver, interface) -> what became of the packets so far, of attached pairs that had any.

        Counted is what has left a class, and what its queue has dropped: losses that were asked for among them.
        """
        found: dict[tuple[str, str, str], PairCount] = {}
        with self._lock:
            receivers = {(i, number): node for (node, i), number in self._numbers.items()}
            for (sender, interface), port in self._ports.items():
                for classid, (size, sent, dropped) in port.netlink.classes(port.interface).items():
                    receiver = receivers.get((interface, classid - HANDLE))
                    if receiver and (sent or dropped):
                        found[sender, receiver, interface] = PairCount(sent, size, 0, dropped)
        return found

    def close(self) -> None:
        """Take our queues off everywhere."""
        self._closed = True
        for node, interface in list(self._ports):
            self.detach(node, interface)

    def _pair(self, port: _Port, receiver: str, interface: str, address: str, state: LinkState) -> list[bytes]:
        """Class, leaf and filter of a new destination."""
        number = self._numbers[receiver, interface]
        classid = HANDLE + number
        port.imposed[receiver] = state
        return [
            rtnetlink.htb_class(port.interface, classid, HANDLE, state.rate if state.rate > 0 else math.inf, CREATE),
            self._leaf(port, number, state, CREATE),
            rtnetlink.destination(port.interface, HANDLE, address, classid),
        ]

    def _leaf(self, port: _Port, number: int, state: LinkState, flags: int = 0) -> bytes:
        handle, parent = (0x1000 + number) << 16, HANDLE + number
        if not self._netem:
            limit = 1 if down(state) else QUEUE * rtnetlink.FRAME
            return rtnetlink.fifo(port.interface, handle, parent, limit, flags)
        shown = state._replace(loss=1.0) if down(state) else state
        return rtnetlink.netem(port.interface, handle, parent, shown, packets(state), flags)

    def _drop(self, port: _Port) -> None:
        port.netlink.send([rtnetlink.remove(port.interface, HANDLE)])
        port.netlink.close()
