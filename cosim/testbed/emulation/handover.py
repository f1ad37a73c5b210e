"""How TAP descriptors get from sidecars to the network service: over a Unix socket, as long as both live.

A sidecar connects and announces each interface in a packet (SOCK_SEQPACKET) with its descriptor (SCM_RIGHTS), or
without one when it shapes the interface itself (`cosim.testbed.emulation.shaping`). Messages are those of
`cosim.testbed.emulation.orders`. Then the sidecar waits for orders: probes, routes, and links that it imposes itself.
The ports stay attached until the connection ends. Then the service closes them at once, because an open
descriptor would keep the network of a dead node alive, and that would go on answering pings. When the service is gone,
interfaces that were handed over are gone as well, and the sidecar makes and hands over new ones.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosim.contract.errors import CosimError, ProtocolError, RunError, SetupError
from cosim.talk.codec import Message
from cosim.talk.doorkeeper import forget
from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.orders import FROM_SIDECAR, PACKET, TO_SIDECAR
from cosim.testbed.emulation.state import Backend

log = logging.getLogger(__name__)

CONNECTIONS = 1024  # at a time
ANSWER = 10.0  # s for the service to answer


class PortRefusedError(RunError):
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
        """As a packet. Raises `ProtocolError` when it breaks a rule."""
        data = FROM_SIDECAR.pack("announce", asdict(self))
        announcement(FROM_SIDECAR.unpack(data))
        return data


def announcement(message: Message) -> Announcement:
    """What a sidecar announces. Raises `ProtocolError` with the reason when it is nothing that can be attached."""
    what = Announcement(**message.body)
    protocol.mac_bytes(what.mac)
    if what.at:
        try:
            ipaddress.IPv4Address(what.at)
        except ValueError:
            raise ProtocolError(f"{what.at!r} is no IPv4 address of a tunnel") from None
    return what


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
    """Give a descriptor to the service and close it here. PortRefusedError: why not; OSError: the service is gone.

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
    answer = TO_SIDECAR.unpack(data)
    if answer.kind == "refused":
        raise PortRefusedError(f"{what.interface} of {what.node}: {answer.body['error']}")


class Reception:
    """Takes descriptors from sidecars and attaches them to a backend; detaches when their connection ends."""

    def __init__(self, path: Path, backend: Backend, mode: int = 0o660) -> None:
        self._path, self._backend = path, backend
        self.heard: Callable[[str, Message], None] = lambda _node, _message: None  # takes messages of sidecars
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

    def send_to(self, node: str, kind: str, body: Mapping[str, Any]) -> bool:
        """Send a message to a node's sidecar; whether there is one that listens."""
        for (owned, _), link in self._owner.items():
            if owned == node:
                with contextlib.suppress(OSError):
                    link.send(TO_SIDECAR.pack(kind, dict(body)), socket.MSG_DONTWAIT)
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
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # a child that held it would keep a dead node alive
        answer = TO_SIDECAR.pack("taken")
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(descriptors) > 1:
                raise PortRefusedError(f"not a packet of at most {PACKET} B with one descriptor")
            message = FROM_SIDECAR.unpack(data)
            if message.kind != "announce":
                self._pass_on(link, message)
                return
            what = announcement(message)
            if (what.at is None) != bool(descriptors):
                raise PortRefusedError("one descriptor is expected, or none with 'at'")
            self.announced(what)
            self._backend.attach(what.node, what.interface, descriptors.pop() if descriptors else -1, what.mac)
            self._owner[what.node, what.interface] = link
            log.info("attached %s of %s", what.interface, what.node)
        except CosimError as error:
            answer = TO_SIDECAR.pack("refused", {"error": str(error)[:1000]})
            log.warning("a sidecar was refused: %s", error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with contextlib.suppress(OSError):  # gone: its end will be seen
            link.send(answer)

    def _pass_on(self, link: socket.socket, message: Message) -> None:
        """Give the service a message of a sidecar whose interfaces are attached."""
        node = next((node for (node, _), owner in self._owner.items() if owner is link), None)
        if node is not None:
            self.heard(node, message)

    def _end(self, link: socket.socket) -> None:
        self._selector.unregister(link)
        link.close()
        for port in [port for port, owner in self._owner.items() if owner is link]:
            del self._owner[port]
            self._backend.detach(*port)
            log.info("detached %s of %s", port[1], port[0])


def _with_descriptor(what: Announcement) -> None:
    if what.at is not None:
        raise PortRefusedError("this service moves frames itself and needs a descriptor; start it with --backend tc")
