"""TAP interfaces: a network card of a node whose other end is a descriptor.

The device lives as long as the descriptor (and its copies): when the last holder is gone, however it ended, the
kernel takes the interface away. So there is nothing to clean up. It belongs to the network namespace
in which /dev/net/tun was opened. Everything is done by ioctl: no program and no library is needed in a node.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosim.contract.errors import ProtocolError, SetupError
from cosim.testbed.emulation import netns
from cosim.testbed.emulation.protocol import mac_bytes

DEVICE = Path("/dev/net/tun")
INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")

# linux/if_tun.h and linux/sockios.h
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFMTU = 0x8915, 0x891B, 0x8921
SIOCSIFMTU, SIOCSIFHWADDR, SIOCSARP = 0x8922, 0x8924, 0x8955
IFF_UP, ARPHRD_ETHER, ATF_COM, ATF_PERM = 0x1, 1, 0x02, 0x04


@dataclass(frozen=True, slots=True)
class Tap:
    """An interface as a node sees it."""

    name: str  # at most 15 characters
    mac: str
    address: str = ""  # with the length of its prefix: 10.9.0.1/24; "": none
    mtu: int = 1500  # B
    neighbours: Sequence[tuple[str, str]] = ()  # IPv4 address and MAC, known for good: no ARP is sent

    def __post_init__(self) -> None:
        if not INTERFACE.fullmatch(self.name):
            raise SetupError(f"'{self.name}' cannot name an interface: letters, digits, _ . and -, at most 15")
        if not 68 <= self.mtu <= 65_000:
            raise SetupError(f"interface {self.name}: MTU {self.mtu} B is not between 68 and 65000")
        try:
            mac_bytes(self.mac)
            if self.address:
                ipaddress.IPv4Interface(self.address)
            for address, mac in self.neighbours:
                ipaddress.IPv4Address(address)
                mac_bytes(mac)
        except (ValueError, ProtocolError) as error:
            raise SetupError(f"interface {self.name}: {error}") from error


def make(tap: Tap, namespace: Path | None = None) -> int:
    """Make the interface, here or in another namespace (/run/netns/NAME, /proc/PID/ns/net); its descriptor.

    SetupError when the kernel refuses, with what to do.
    """
    return netns.inside(namespace, lambda: _make(tap))


def _make(tap: Tap) -> int:
    with _explained(tap.name):
        descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with _explained(tap.name):
            fcntl.ioctl(descriptor, TUNSETIFF, _request(tap.name, struct.pack("H22x", IFF_TAP | IFF_NO_PI)))
        configure(tap)
    except SetupError:
        os.close(descriptor)
        raise
    return descriptor


def configure(tap: Tap) -> None:
    """Give an interface of this name its MAC, MTU, address and neighbours, and start it. SetupError."""
    with _explained(tap.name), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        _configure(asking, tap)


def own(name: str) -> ipaddress.IPv4Interface | None:
    """The first IPv4 address of an interface, and its network; None when it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            found = [fcntl.ioctl(asking, what, _request(name, bytes(24))) for what in (SIOCGIFADDR, SIOCGIFNETMASK)]
        except OSError:
            return None
    return ipaddress.IPv4Interface(tuple(socket.inet_ntoa(one[20:24]) for one in found))


def mtu(name: str) -> int:
    """The MTU of an interface, B. OSError when there is none of this name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return int(struct.unpack_from("i", fcntl.ioctl(asking, SIOCGIFMTU, _request(name, bytes(24))), 16)[0])


def _configure(asking: socket.socket, tap: Tap) -> None:
    hardware = struct.pack("H6s16x", ARPHRD_ETHER, mac_bytes(tap.mac))
    fcntl.ioctl(asking, SIOCSIFHWADDR, _request(tap.name, hardware))
    fcntl.ioctl(asking, SIOCSIFMTU, _request(tap.name, struct.pack("i20x", tap.mtu)))
    if tap.address:
        interface = ipaddress.IPv4Interface(tap.address)
        fcntl.ioctl(asking, SIOCSIFADDR, _request(tap.name, _address(interface.ip)))
        fcntl.ioctl(asking, SIOCSIFNETMASK, _request(tap.name, _address(interface.netmask)))
    found = fcntl.ioctl(asking, SIOCGIFFLAGS, _request(tap.name, bytes(24)))
    (flags,) = struct.unpack_from("H", found, 16)
    fcntl.ioctl(asking, SIOCSIFFLAGS, _request(tap.name, struct.pack("H22x", flags | IFF_UP)))
    for address, mac in tap.neighbours:
        entry = _address(ipaddress.IPv4Address(address))[:16] + struct.pack("H6s8x", ARPHRD_ETHER, mac_bytes(mac))
        entry += struct.pack("i16x16s", ATF_COM | ATF_PERM, tap.name.encode())  # struct arpreq
        fcntl.ioctl(asking, SIOCSARP, entry)


def _request(name: str, value: bytes) -> bytes:
    """struct ifreq"""
    return struct.pack("16s24s", name.encode(), value)


def _address(address: ipaddress.IPv4Address) -> bytes:
    """struct sockaddr_in"""
    return struct.pack("HH4s8x", socket.AF_INET, 0, address.packed)


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn kernel errors into a `SetupError` with a remedy."""
    try:
        yield
    except OSError as error:
        number = error.errno
        if number in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
            what = f"no {DEVICE}; load its module (modprobe tun), or give it to the container (--device {DEVICE})"
        elif number in (errno.EPERM, errno.EACCES):
            what = "not permitted; this needs CAP_NET_ADMIN: root, or for a container --cap-add NET_ADMIN"
        elif number == errno.EBUSY:
            what = "there is an interface of this name, held by another process"
        else:
            what = str(error.strerror)
        raise SetupError(f"cannot make interface {name}: {what}") from error
