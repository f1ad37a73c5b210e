"""Filters and address translation in the kernel's own words: nf_tables messages, sent in one transaction.

Layouts: linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h. Functions that make messages are pure. No program
(`nft`, `iptables`) and no library is needed, only CAP_NET_ADMIN in the network namespace.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Sequence

from cosim.contract.errors import SetupError
from cosim.testbed.emulation.rtnetlink import attribute

NEWTABLE, DELTABLE, NEWCHAIN, NEWRULE = 0, 2, 3, 6
PREROUTING, FORWARD, OUTPUT, POSTROUTING = 0, 2, 3, 4  # hooks
FILTER, DESTINATION, SOURCE = 0, -100, 100  # priorities that others use for the same
SOURCE_ADDRESS, DESTINATION_ADDRESS = 12, 16  # B, offsets in the IPv4 header
PATIENCE = 5.0  # s for answers

_SUBSYSTEM, _BEGIN, _END = 10, 16, 17
_NETLINK_NETFILTER, _REQUEST, _ACK, _ERROR, _CREATE = 12, 0x1, 0x4, 2, 0x400
_IPV4, _NESTED, _OWNED = 2, 0x8000, 0x2
_EQUAL, _OTHER = 0, 1
_IIFNAME, _OIFNAME = 6, 7
_ESTABLISHED_OR_RELATED = 2 | 4

Expression = bytes


def _nested(kind: int, data: bytes) -> bytes:
    return attribute(kind | _NESTED, data)


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value & 0xFFFFFFFF))


def _text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def _expression(name: str, data: bytes) -> Expression:
    return _nested(1, _text(1, name) + _nested(2, data))


def _compare(operation: int, value: bytes) -> Expression:
    return _expression("cmp", _number(1, 1) + _number(2, operation) + _nested(3, attribute(1, value)))


def _name(key: int, name: str, operation: int) -> list[Expression]:
    load = _expression("meta", _number(1, 1) + _number(2, key))
    return [load, _compare(operation, name.encode().ljust(16, b"\0"))]


def comes_by(interface: str) -> list[Expression]:
    """Packets that came by this interface."""
    return _name(_IIFNAME, interface, _EQUAL)


def leaves_by(interface: str, *, no: bool = False) -> list[Expression]:
    """Packets that leave by this interface, or by any other."""
    return _name(_OIFNAME, interface, _OTHER if no else _EQUAL)


def within(network: ipaddress.IPv4Network, offset: int, *, no: bool = False) -> list[Expression]:
    """Packets whose source or destination (`offset`) is in this network, or outside it."""
    load = _number(1, 1) + _number(2, 1) + _number(3, offset) + _number(4, 4)  # the network header, 4 bytes of it
    mask = _nested(4, attribute(1, network.netmask.packed)) + _nested(5, attribute(1, bytes(4)))
    masked = _number(1, 1) + _number(2, 1) + _number(3, 4) + mask
    compared = _compare(_OTHER if no else _EQUAL, network.network_address.packed)
    return [_expression("payload", load), _expression("bitwise", masked), compared]


def to_other_port(number: int) -> list[Expression]:
    """Packets that do not go to this port of TCP or UDP; of other protocols nearly all."""
    load = _number(1, 1) + _number(2, 2) + _number(3, 2) + _number(4, 2)  # the transport header, its second word
    return [_expression("payload", load), _compare(_OTHER, struct.pack("!H", number))]


def asked_for() -> list[Expression]:
    """Packets of connections that are there, or belong to one."""
    mask = _nested(4, attribute(1, struct.pack("=I", _ESTABLISHED_OR_RELATED))) + _nested(5, attribute(1, bytes(4)))
    masked = _number(1, 1) + _number(2, 1) + _number(3, 4) + mask
    return [
        _expression("ct", _number(1, 1) + _number(2, 0)),
        _expression("bitwise", masked),
        _compare(_OTHER, bytes(4)),
    ]


def _verdict(code: int) -> Expression:
    return _expression("immediate", _number(1, 0) + _nested(2, _nested(2, _number(1, code))))


def drop() -> Expression:
    """Take the packet away."""
    return _verdict(0)


def accept() -> Expression:
    """Let the packet pass this chain."""
    return _verdict(1)


def masquerade() -> Expression:
    """The packet leaves under the address of the interface by which it leaves."""
    return _expression("masq", b"")


def to(address: str) -> Expression:
    """The packet goes to this IPv4 address in place of its own destination."""
    value = _nested(2, attribute(1, ipaddress.IPv4Address(address).packed))
    load = _expression("immediate", _number(1, 1) + value)
    return load + _expression("nat", _number(1, 1) + _number(2, _IPV4) + _number(3, 1))


def _message(kind: int, body: bytes, flags: int = _CREATE, family: int = _IPV4) -> bytes:
    head = struct.pack("=IHHII", 20 + len(body), _SUBSYSTEM << 8 | kind, _REQUEST | _ACK | flags, 0, 0)
    return head + struct.pack("=BBH", family, 0, 0) + body


def table(name: str, *, owned: bool = False) -> bytes:
    """A table; one that is `owned` goes away with the socket that has made it (Linux 5.12)."""
    return _message(NEWTABLE, _text(1, name) + (_number(2, _OWNED) if owned else b""))


def no_table(name: str) -> bytes:
    """Take a table away, with all that is in it."""
    return _message(DELTABLE, _text(1, name), 0)


def chain(table: str, name: str, kind: str, hook: int, priority: int) -> bytes:
    """A chain of the kind `filter` or `nat`, which lets pass what no rule decides."""
    where = _nested(4, _number(1, hook) + _number(2, priority))
    return _message(NEWCHAIN, _text(1, table) + _text(3, name) + where + _number(5, 1) + _text(7, kind))


def rule(table: str, chain: str, *expressions: Expression) -> bytes:
    """The next rule of a chain."""
    return _message(NEWRULE, _text(1, table) + _text(2, chain) + _nested(4, b"".join(expressions)), _CREATE | 0x800)


class Netfilter:
    """An nf_tables socket; it stays in the network namespace of the thread that made it."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
        self._socket.bind((0, 0))
        self._socket.settimeout(PATIENCE)
        self._sequence = 0

    def send(self, messages: Sequence[bytes]) -> None:
        """All of them or none. Raises `SetupError` with the kernel's reason."""
        frame = [struct.pack("=IHHII", 20, kind, _REQUEST, 0, 0) + struct.pack("!BBH", 0, 0, _SUBSYSTEM)
                 for kind in (_BEGIN, _END)]  # fmt: skip
        data, waiting = bytearray(), set()
        for message in (frame[0], *messages, frame[1]):
            self._sequence += 1
            part = bytearray(message)
            struct.pack_into("=I", part, 8, self._sequence)
            data += part
            waiting.add(self._sequence)
        waiting -= {self._sequence, self._sequence - len(messages) - 1}  # begin and end are not acknowledged
        self._socket.send(data)
        while waiting:
            try:
                answer = self._socket.recv(65536)
            except TimeoutError:
                raise SetupError(f"the kernel has not answered nf_tables messages within {PATIENCE:g} s") from None
            at = 0
            while at + 20 <= len(answer):
                length, kind, _, sequence, _, code = struct.unpack_from("=IHHIIi", answer, at)
                if kind == _ERROR and code:
                    raise SetupError(
                        f"cannot filter or translate packets: {os.strerror(-code)}; this needs CAP_NET_ADMIN, "
                        "and a kernel with nf_tables (modprobe nf_tables nft_chain_nat nft_masq on the host)"
                    )
                waiting.discard(sequence)
                at += max(length + (-length % 4), 16)

    def close(self) -> None:
        """Tables that this socket owns go with it; may be called twice."""
        self._socket.close()
