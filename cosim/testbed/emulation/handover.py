"""How TAP descriptors get from sidecars to the network service: over a Unix socket, as long as both live.

A sidecar connects and sends one packet per interface (SOCK_SEQPACKET) with its descriptor (SCM_RIGHTS):

    {"protocol": 1, "node": "uav-1", "interface": "wlan0", "mac": "02:00:00:00:00:01"}

or, when it shapes the interface itself (`cosim.testbed.emulation.shaping`), without a descriptor and with "at": the
address where others reach its tunnel, or "" when it needs none. A "remark" explains why it does not shape. The answer
to each packet is {"taken": true} or {"refused": "why"}. Then the sidecar waits for orders to probe links
(`cosim.testbed.emulation.probing`), for routes (`cosim.testbed.emulation.routing`) and for links that it imposes
itself. The ports stay attached until the connection ends. Then the service closes them at once, because an open
descriptor would keep the network of a dead node alive, and that would go on answering pings. When the service is gone,
interfaces that were handed over are gone as well, and the sidecar makes and hands over new ones.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import re
import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosim.contract.errors import CosimError, RunError, SetupError
from cosim.talk.doorkeeper import forget
from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.state import Backend
from cosim.testbed.emulation.taps import INTERFACE

log = logging.getLogger(__name__)

PROTOCOL = 1
PACKET = 4096  # B
CONNECTIONS = 1024  # at a time
ANSWER = 10.0  # s for the service to answer
_NODE = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
_FIELDS = {"protocol", "node", "interface", "mac"}


class RefusedError(RunError):
    """The service does not want this port; what to change is in the message."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A sidecar's announcement of an interface."""

    node: str
    interface: str
    mac: str
    at: str | None = None  # None: a descriptor comes along
    remark: str = ""

    def packed(self) -> bytes:
        """As a packet; RefusedError when it breaks a rule."""
        said = {"protocol": PROTOCOL, "node": self.node, "interface": self.interface, "mac": self.mac}
        more = {"at": self.at} if self.at is not None else {"remark": self.remark} if self.remark else {}
        data = json.dumps({**said, **more}).encode()
        announcement(data)
        return data


def announcement(data: bytes) -> Announcement:
    """Read a sidecar's packet; RefusedError, with the reason, when it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise RefusedError("not a JSON object") from None
    if not isinstance(found, dict) or set(found) - {"at", "remark"} != _FIELDS:
        raise RefusedError(f"not an object with the fields {', '.join(sorted(_FIELDS))}")
    if found["protocol"] != PROTOCOL:
        raise RefusedError(
            f"protocol {found['protocol']!r}, but this is {PROTOCOL}; sidecar and service differ in version"
        )
    node, interface, mac = found["node"], found["interface"], found["mac"]
    if not isinstance(node, str) or not _NODE.fullmatch(node):
        raise RefusedError("node is no text of 1 to 128 printable characters")
    if not isinstance(interface, str) or not INTERFACE.fullmatch(interface):
        raise RefusedError("interface is no name of at most 15 letters, digits, _ . and -")
    if not isinstance(mac, str):
        raise RefusedError("mac is no text")
    protocol.mac_bytes(mac)
    at, remark = found.get("at"), found.get("remark", "")
    if at is not None and not (isinstance(at, str) and (not at or _ipv4(at))):
        raise RefusedError("at is no IPv4 address")
    if not isinstance(remark, str):
        raise RefusedError("remark is no text")
    return Announcement(node, interface, mac, at, remark[:200])


def _ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def connect(path: Path) -> socket.socket:
    """Connect to the service; OSError when it does not listen."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.settimeout(ANSWER)
        link.connect(str(path))
    except OSError:
        link.close()
        raise
    return link


def hand_over(link: socket.socket, what: Announcement, descriptor: int = -1) -> None:
    """Give a descriptor to the service and close it here. RefusedError with the reason; OSError: the service is gone.

    An interface that is shaped here has no descriptor, only its announcement.
    """
    if descriptor < 0:
        link.send(what.packed())
    else:
        try:
            socket.send_fds(link, [what.packed()], [descriptor])
        finally:
            os.close(descriptor)
    data = link.recv(PACKET)
    if not data:
        raise ConnectionResetError("the service has closed the connection")
    answer = json.loads(data)
    if "refused" in answer:
        raise RefusedError(f"{what.interface} of {what.node}: {answer['refused']}")


class Reception:
    """Takes descriptors from sidecars and attaches them to a backend; detaches when their connection ends."""

    def __init__(self, path: Path, backend: Backend, mode: int = 0o660) -> None:
        self._path, self._backend = path, backend
        self.heard: Callable[[str, Mapping[str, Any]], None] = lambda _node, _word: None  # takes words of sidecars
        self.announced: Callable[[Announcement], None] = _with_descriptor  # refuses what does not suit
        self._owner: dict[tuple[str, str], socket.socket] = {}  # port -> connection that brought it
        self._selector = selectors.EpollSelector()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            forget(path)
            self._listening.bind(str(path))
            path.chmod(mode)
            self._listening.listen(128)
        except OSError as error:
            self._listening.close()
            self._selector.close()
            raise SetupError(f"cannot listen for sidecars at {path}: {error.strerror or error}") from error
        self._listening.setblocking(False)
        self._selector.register(self._listening, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Readable when `serve` has something to do."""
        return self._selector.fileno()

    @property
    def ports(self) -> set[tuple[str, str]]:
        """Node and interface of the ports that are attached."""
        return set(self._owner)

    def tell(self, node: str, word: Mapping[str, Any]) -> bool:
        """Send a message to a node's sidecar; whether there is one that listens."""
        for (owned, _), link in self._owner.items():
            if owned == node:
                with contextlib.suppress(OSError):
                    link.send(json.dumps(word).encode(), socket.MSG_DONTWAIT)
                    return True
                return False
        return False

    def serve(self, wait: float = 0.0) -> None:
        """Do what there is to do, waiting at most `wait` s for it."""
        for key, _ in self._selector.select(wait):
            if key.fileobj is self._listening:
                self._accept()
            elif isinstance(key.fileobj, socket.socket):
                self._receive(key.fileobj)

    def close(self) -> None:
        """Detach all ports and listen no more; may be called twice."""
        if self._listening.fileno() < 0:
            return
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._listening:
                self._end(key.fileobj)
        self._listening.close()
        self._selector.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            link, _ = self._listening.accept()
        except OSError:  # it has gone again
            return
        if len(self._selector.get_map()) > CONNECTIONS:
            link.close()
            return
        link.setblocking(False)
        self._selector.register(link, selectors.EVENT_READ)

    def _receive(self, link: socket.socket) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(link, PACKET, 4)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors, flags = b"", [], 0
        if not data and not descriptors:
            self._end(link)
            return
        if not descriptors and self._word(link, data):
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # a child that held it would keep a dead node alive
        answer: dict[str, object] = {"taken": True}
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(descriptors) > 1:
                raise RefusedError(f"not a packet of at most {PACKET} B with one descriptor")
            what = announcement(data)
            if (what.at is None) != bool(descriptors):
                raise RefusedError("one descriptor is expected, or none with 'at'")
            self.announced(what)
            self._backend.attach(what.node, what.interface, descriptors.pop() if descriptors else -1, what.mac)
            self._owner[what.node, what.interface] = link
            log.info("attached %s of %s", what.interface, what.node)
        except CosimError as error:
            answer = {"refused": str(error)}
            log.warning("a sidecar was refused: %s", error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with contextlib.suppress(OSError):  # gone: its end will be seen
            link.send(json.dumps(answer).encode())

    def _word(self, link: socket.socket, data: bytes) -> bool:
        """Pass on a sidecar's message about a probe, its routes, its queues or unread frames; whether it was one."""
        node = next((node for (node, _), owner in self._owner.items() if owner is link), None)
        if node is None:
            return False
        try:
            word = json.loads(data)
        except (ValueError, RecursionError):
            return False
        if not isinstance(word, dict) or not {"probe", "routes", "shaped", "unread"} & set(word):
            return False
        self.heard(node, word)
        return True

    def _end(self, link: socket.socket) -> None:
        self._selector.unregister(link)
        link.close()
        for port in [port for port, owner in self._owner.items() if owner is link]:
            del self._owner[port]
            self._backend.detach(*port)
            log.info("detached %s of %s", port[1], port[0])


def _with_descriptor(what: Announcement) -> None:
    if what.at is not None:
        raise RefusedError("this service moves frames itself and needs a descriptor; start it with --backend tc")
