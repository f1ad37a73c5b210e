"""Traffic control in the kernel's own words: rtnetlink messages and the socket that sends them in batches.

Layouts: linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h. All functions that make messages are pure; the socket
numbers the messages when it sends them. Spawning `tc` costs milliseconds per change, a message here microseconds.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cosim.contract.errors import RunError, SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import netns

NEWLINK, DELLINK, GETLINK, SETLINK = 16, 17, 18, 19
NEWROUTE, DELROUTE = 24, 25
NEWNEIGH, DELNEIGH = 28, 29
NEWQDISC, DELQDISC, GETQDISC = 36, 37, 38
NEWCLASS, GETCLASS, NEWFILTER = 40, 42, 44
ECHO, REPLACE, EXCLUSIVE, CREATE, APPEND, DUMP = 0x8, 0x100, 0x200, 0x400, 0x800, 0x300
ROOT = 0xFFFFFFFF
TICK = 64e-9  # s, unit of times in traffic control (PSCHED_SHIFT of every kernel since 2.6.31)
LIMITLESS = 0xFFFFFFFF  # B/s, the highest rate that 32 bits can express: 34 Gbit/s
FRAME = 1514  # B, the largest frame of Ethernet
VXLAN_PORT = 4789  # UDP
PATIENCE = 5.0  # s for answers, which come at once or never
BATCH = 64  # messages per send; their refusals must fit into the socket's receive buffer

_REQUEST, _ACK, _ERROR = 0x1, 0x4, 2
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_TC = struct.Struct("=BxHiIII")  # family, interface, handle, parent, info
# Header, tcmsg, KIND, OPTIONS: the three messages of every step as one pack each.
_CLASS = struct.Struct("=IHHII BxHiIII HH4s HHHH BBHhHI BBHhHI IIIII".replace(" ", ""))
_NETEM = struct.Struct("=IHHII BxHiIII HH8s HH IIIIII HHq HHq HHIiIi".replace(" ", ""))
# TCA_NETEM_LOSS with NETEM_LOSS_GE: to enter the bad state, to leave it, to pass in it, to be lost in the good one.
_BURSTS = struct.Struct("=HHHHIIII")
_REORDER = struct.Struct("=HHII")  # TCA_NETEM_REORDER
_FIFO = struct.Struct("=IHHII BxHiIII HH8s HHI".replace(" ", ""))


class Refusal(NamedTuple):
    """A message that the kernel did not accept."""

    number: int  # of the message in the list that was sent, from 0
    errno: int
    text: str  # the kernel's own words, "" when it has none


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 0, 0) + body


def traffic(
    kind: int, flags: int, interface: int, handle: int, parent: int, info: int = 0, name: str = "", options: bytes = b""
) -> bytes:
    """A message about a qdisc, class or filter; `name` is its kind ("htb"), `options` its nested attributes."""
    body = _TC.pack(0, 0, interface, handle, parent, info)
    if name:
        body += attribute(1, name.encode() + b"\0") + attribute(2, options)
    return _message(kind, flags, body)


def root(interface: int, handle: int) -> bytes:
    """An HTB qdisc as root; what no filter gives to a class passes it untouched."""
    glob = struct.pack("=IIIII", 3, 10, 0, 0, 0)  # version, rate to quantum, default class (none), debug, direct
    return traffic(NEWQDISC, CREATE | EXCLUSIVE, interface, handle, ROOT, name="htb", options=attribute(2, glob))


def htb_class(interface: int, classid: int, parent: int, rate: float, flags: int = 0) -> bytes:
    """A class that sends `rate` bit/s, at most; flags CREATE for a new one.

    The burst grows with the rate: rate / 250 + 1 frame, so that a kernel of 250 timer ticks per second keeps it up.
    """
    speed = int(min(max(rate / 8, 1.0), LIMITLESS))  # B/s
    burst = max(FRAME, speed // 250) + FRAME  # B
    ticks = min(int(burst / speed / TICK), 0xFFFFFFFF)
    quantum = max(FRAME, min(speed // 10, 60000))
    return _CLASS.pack(
        _CLASS.size, NEWCLASS, _REQUEST | flags, 0, 0, 0, 0, interface, classid, parent, 0,
        8, 1, b"htb", 52, 2, 48, 1,
        0, 1, 0, -1, 0, speed, 0, 1, 0, -1, 0, speed,  # linklayer Ethernet; ceil = rate: nothing is borrowed
        ticks, ticks, quantum, 0, 0,
    )  # fmt: skip


def netem(interface: int, handle: int, parent: int, state: LinkState, limit: int, flags: int = 0) -> bytes:
    """All of `state` but its rate; `limit` in packets; flags CREATE for a new one.

    A `burst` above 0 makes the losses those of Gilbert's model, with as many packets in a row on average.

    Jitter is uniform. netem sorts packets by the time they are due, unless it has a rate: then each follows the last.
    """
    orderly = LIMITLESS if state.jitter > 0 else 0  # B/s
    more, loss = b"", state.loss
    if state.burst and 0.0 < loss < 1.0:
        leave = 1.0 / state.burst
        enter = min(1.0, leave * loss / (1.0 - loss))
        more, loss = _BURSTS.pack(24, 5, 20, 2, round(enter * 0xFFFFFFFF), round(leave * 0xFFFFFFFF), 0, 0), 0.0
    if state.reorder:
        more += _REORDER.pack(12, 3, round(state.reorder * 0xFFFFFFFF), 0)
    return _NETEM.pack(
        _NETEM.size + len(more), NEWQDISC, _REQUEST | flags, 0, 0, 0, 0, interface, handle, parent, 0,
        10, 1, b"netem", 72 + len(more), 2,
        min(int(state.delay / TICK), 0xFFFFFFFF), limit, round(loss * 0xFFFFFFFF), int(state.reorder > 0),
        round(state.duplicate * 0xFFFFFFFF),
        min(int(state.jitter / TICK), 0xFFFFFFFF),
        12, 10, round(state.delay * 1e9), 12, 11, round(state.jitter * 1e9), 20, 6, orderly, 0, 0, 0,
    ) + more  # fmt: skip


def fifo(interface: int, handle: int, parent: int, limit: int, flags: int = 0) -> bytes:
    """A queue of at most `limit` bytes; 1 lets nothing in."""
    return _FIFO.pack(
        _FIFO.size, NEWQDISC, _REQUEST | flags, 0, 0, 0, 0, interface, handle, parent, 0, 10, 1, b"bfifo", 8, 2, limit
    )


def _selector(keys: Sequence[tuple[int, int, int]], terminal: bool, mask: int = 0, offset: int = 0) -> bytes:
    """`keys` are (mask, value, offset in the IP header); `mask` and `offset` of the hash of a table below."""
    head = struct.pack("=BBBxHHhh", int(terminal), 0, len(keys), 0, 0, 0, offset) + struct.pack("!I", mask)
    return attribute(5, head + b"".join(struct.pack("!II", m, v) + struct.pack("=ii", o, 0) for m, v, o in keys))


_IPV4 = 1 << 16 | socket.htons(0x0800)  # priority 1, protocol
_TABLE = 0x200000  # u32 hash table 2
_DESTINATION = 16  # B, offset in the IPv4 header
_MAC = -12  # B, offset of the last 4 of 6 bytes, from the IPv4 header; the frame's header of 14 bytes is before it


def table(interface: int, parent: int, *, mac: bool = False) -> list[bytes]:
    """A u32 hash table of 256 buckets, by the last octet of the destination, and the rule that leads there.

    The destination is that of the IPv4 header, or with `mac` that of the frame: the next hop.
    """
    link = (
        attribute(2, struct.pack("=I", 0x80000000))  # the root table
        + attribute(3, struct.pack("=I", _TABLE))
        + _selector([(0, 0, 0)], False, 0xFF, _MAC if mac else _DESTINATION)
    )
    divisor = attribute(4, struct.pack("=I", 256))
    return [
        traffic(NEWFILTER, CREATE, interface, _TABLE, parent, _IPV4, "u32", divisor),
        traffic(NEWFILTER, CREATE | EXCLUSIVE, interface, 0, parent, _IPV4, "u32", link),
    ]


def destination(interface: int, parent: int, address: str, classid: int) -> bytes:
    """A filter of that table: IPv4 packets to `address`, an IPv4 address or a MAC, go to `classid`."""
    if ":" in address:
        mac = bytes.fromhex(address.replace(":", ""))
        number = int.from_bytes(mac[2:], "big")
        # Words are read at multiples of 4; the first two bytes of the MAC are the second half of one.
        keys = [(0xFFFFFFFF, number, _MAC), (0xFFFF, int.from_bytes(mac[:2], "big"), _MAC - 4)]
    else:
        number = int.from_bytes(socket.inet_aton(address), "big")
        keys = [(0xFFFFFFFF, number, _DESTINATION)]
    options = (
        attribute(1, struct.pack("=I", classid))
        + attribute(2, struct.pack("=I", _TABLE | (number & 0xFF) << 12))
        + _selector(keys, True)
    )
    return traffic(NEWFILTER, CREATE | EXCLUSIVE, interface, 0, parent, _IPV4, "u32", options)


def remove(interface: int, handle: int) -> bytes:
    """Delete the root qdisc, if `handle` is its handle."""
    return traffic(DELQDISC, 0, interface, handle, ROOT)


def veth(name: str) -> bytes:
    """A pair of devices, the other one named by the kernel; deleting one deletes both."""
    info = attribute(1, b"veth\0")
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, name.encode() + b"\0") + attribute(18, info)
    return _message(NEWLINK, CREATE | EXCLUSIVE, body)


def vxlan(name: str, number: int, card: int, at: str, mac: str = "") -> bytes:
    """A tunnel (RFC 7348) of network `number`, from the IPv4 address `at`; it learns nothing of what comes in.

    It leaves by the device `card`, where all ends are neighbours, and needs no route.
    """
    data = attribute(1, struct.pack("=I", number)) + attribute(3, struct.pack("=i", card))
    data += attribute(4, socket.inet_aton(at))
    data += attribute(7, b"\0") + attribute(15, struct.pack("!H", VXLAN_PORT))
    body = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, name.encode() + b"\0")
    if mac:
        body += attribute(1, bytes.fromhex(mac.replace(":", "")))
    # One packet a frame: what the kernel would cut up only later would be delayed and lost in lumps.
    body += attribute(40, struct.pack("=I", 1)) + attribute(18, attribute(1, b"vxlan\0") + attribute(2, data))
    return _message(NEWLINK, CREATE | EXCLUSIVE, body)


def reverse_path(interface: int, *, strict: bool) -> bytes:
    """Whether a device drops packets from senders to whom no route leads by it (RFC 3704; rp_filter 1 or 0).

    The stricter of this and the namespace's own setting counts.
    """
    setting = struct.pack("=I", int(strict))
    reverse_path = attribute(1, attribute(8, setting))  # IFLA_INET_CONF: IPV4_DEVCONF_RP_FILTER
    body = struct.pack("=BxHiII", 0, 0, interface, 0, 0) + attribute(26, attribute(socket.AF_INET, reverse_path))
    return _message(SETLINK, 0, body)


def forwarding(interface: int, mac: str, card: int, at: str, *, also: bool = False, gone: bool = False) -> bytes:
    """Send frames to `mac` (zeros: those for all) out of a tunnel by the device `card` to its neighbour `at` (IPv4).

    `also`: in addition to other addresses, in place of them otherwise; `gone`: no longer.
    """
    permanent, own = 0x80 | 0x40, 0x02  # NUD_PERMANENT | NUD_NOARP, NTF_SELF
    body = struct.pack("=BxxxiHBB", 7, interface, permanent, own, 0)  # AF_BRIDGE
    body += attribute(2, bytes.fromhex(mac.replace(":", ""))) + attribute(1, socket.inet_aton(at))
    body += attribute(8, struct.pack("=i", card))
    if gone:
        return _message(DELNEIGH, 0, body)
    return _message(NEWNEIGH, CREATE | (APPEND if also else REPLACE), body)


def no_device(interface: int) -> bytes:
    """Delete a device."""
    return _message(DELLINK, 0, struct.pack("=BxHiII", 0, 0, interface, 0, 0))


def route(destination: str, interface: int, via: str, *, new: bool) -> bytes:
    """Make or change the route to `destination` (IPv4, with the length of its prefix), or delete it if it is not `new`.

    `via` need not be in a network of the interface; "": the destination is a neighbour itself.
    """
    address, _, prefix = destination.partition("/")
    scope = 0 if via or not new else 253  # of the link; when deleting, any
    onlink = 4 if via else 0
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, int(prefix or 32), 0, 0, 254, 4, scope if new else 255, 1, onlink)
    body += attribute(1, socket.inet_aton(address))
    if new:
        body += attribute(4, struct.pack("=i", interface)) + (attribute(5, socket.inet_aton(via)) if via else b"")
    return _message(NEWROUTE if new else DELROUTE, CREATE | REPLACE if new else 0, body)


def no_route(destination: str, interface: int) -> bytes:
    """Delete the route of `interface` to `destination` (IPv4, with prefix length), regardless of its origin."""
    address, _, prefix = destination.partition("/")
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, int(prefix or 32), 0, 0, 254, 0, 255, 0, 0)
    return _message(
        DELROUTE, 0, body + attribute(1, socket.inet_aton(address)) + attribute(4, struct.pack("=i", interface))
    )


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by kind; the last of a kind counts. Cut off data ends them."""
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4 or at + length > len(data):
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += length + (-length % 4)
    return found


class Netlink:
    """An rtnetlink socket; it stays in the network namespace of the thread that made it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))
        self._socket.settimeout(PATIENCE)
        self._sequence = 0
        for option in (_CAP_ACK, _EXT_ACK):  # refusals without a copy of the request, with words
            self._socket.setsockopt(_SOL_NETLINK, option, 1)

    @classmethod
    def within(cls, namespace: Path) -> Netlink:
        """A socket in another namespace, given by its file. SetupError when it cannot be entered."""
        return netns.inside(namespace, cls)

    def send(self, messages: Sequence[bytes]) -> list[Refusal]:
        """Send all, in order; the refused ones. A refused message stops none of the others."""
        refused: list[Refusal] = []
        for start in range(0, len(messages), BATCH):
            part = messages[start : start + BATCH]
            data = bytearray(b"".join(part))
            at, first = 0, self._sequence + 1
            for number, one in enumerate(part):
                struct.pack_into("=I", data, at + 8, (first + number) & 0xFFFFFFFF)
                last, at = at, at + len(one)
            # Refusals come unasked and in order, so one acknowledgement ends the batch.
            (flags,) = struct.unpack_from("=H", data, last + 6)
            struct.pack_into("=H", data, last + 6, flags | _ACK)
            self._sequence = (first + len(part) - 1) & 0xFFFFFFFF
            self._socket.send(data)
            refused += self._refusals(start, first, self._sequence)
        return refused

    def _refusals(self, start: int, first: int, last: int) -> list[Refusal]:
        refused: list[Refusal] = []
        while True:
            for kind, flags, sequence, body in self._replies():
                if kind != _ERROR:
                    continue
                (code,) = struct.unpack_from("=i", body)
                if code:
                    words = attributes(body[20:]).get(1, b"") if flags & 0x200 else b""
                    text = words.rstrip(b"\0").decode(errors="replace")
                    refused.append(Refusal(start + ((sequence - first) & 0xFFFFFFFF), -code, text))
                if sequence == last:
                    return refused

    def _replies(self) -> list[tuple[int, int, int, bytes]]:
        """(type, flags, sequence, body) of one read."""
        try:
            data = self._socket.recv(65536)
        except TimeoutError:
            raise RunError(f"the kernel has not answered rtnetlink messages within {PATIENCE:g} s") from None
        replies, at = [], 0
        while at + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            replies.append((kind, flags, sequence, data[at + _HEADER.size : at + length]))
            at += max(length + (-length % 4), _HEADER.size)
        return replies

    def ask(self, message: bytes) -> tuple[bytes, int]:
        """The body of the one answer to a question, and 0; or b"" and the errno."""
        self._query(message)
        while True:
            for kind, _, sequence, body in self._replies():
                if sequence == self._sequence:
                    return (b"", -struct.unpack_from("=i", body)[0]) if kind == _ERROR else (body, 0)

    def index(self, name: str) -> int:
        """The number of the interface `name`; 0 when there is none."""
        question = struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, name.encode() + b"\0")
        body, _ = self.ask(_message(GETLINK, 0, question))
        return int(struct.unpack_from("=i", body, 4)[0]) if body else 0

    def counters(self, interface: int) -> tuple[int, int]:
        """Packets that the root qdisc has sent, and dropped."""
        body, _ = self.ask(traffic(GETQDISC, ECHO, interface, 0, ROOT))
        return _figures(body)[1:]

    def classes(self, interface: int) -> dict[int, tuple[int, int, int]]:
        """Of each class of an interface: bytes and packets that it has sent, packets that it has dropped."""
        self._query(traffic(GETCLASS, DUMP, interface, 0, 0))
        found: dict[int, tuple[int, int, int]] = {}
        while True:
            for kind, _, sequence, body in self._replies():
                if sequence != self._sequence:
                    continue
                if kind != NEWCLASS:  # the end, or a refusal
                    return found
                found[struct.unpack_from("=I", body, 8)[0]] = _figures(body)

    def _query(self, message: bytes) -> None:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._socket.send(message[:8] + struct.pack("=I", self._sequence) + message[12:])

    def close(self) -> None:
        """May be called twice."""
        self._socket.close()


def _figures(body: bytes) -> tuple[int, int, int]:
    """Bytes and packets that a qdisc or class has sent, packets that it has dropped (TCA_STATS2)."""
    statistics = attributes(attributes(body[_TC.size :]).get(7, b""))
    basic, queue = statistics.get(1, b""), statistics.get(3, b"")
    size, sent = struct.unpack_from("=QI", basic) if len(basic) >= 12 else (0, 0)
    return size, sent, struct.unpack_from("=III", queue)[2] if len(queue) >= 12 else 0


def failure(refusal: Refusal, what: str) -> RunError:
    """What a refusal means for the operator; `what` was asked for."""
    advice = {
        errno.EPERM: "needs CAP_NET_ADMIN in the node's network namespace: cap_add [NET_ADMIN], or run as root",
        errno.ENOENT: "the kernel lacks it: modprobe sch_htb sch_netem cls_u32 on the host, or use backend linkd",
        errno.EOPNOTSUPP: "the kernel lacks it: modprobe sch_htb sch_netem cls_u32 on the host, or use backend linkd",
        errno.ENODEV: "the interface is gone; was the node restarted?",
        errno.EEXIST: "the interface has another root qdisc; delete it with: tc qdisc del dev INTERFACE root",
    }.get(refusal.errno, "")
    words = f"{os.strerror(refusal.errno)}{f' ({refusal.text})' if refusal.text else ''}"
    kind = SetupError if advice and refusal.errno != errno.ENODEV else RunError
    return kind(f"cannot {what}: {words}{f'; {advice}' if advice else ''}")
