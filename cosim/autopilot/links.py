"""Sockets for autopilots: UDP that sends first and learns who answers, TCP for several clients each."""

from __future__ import annotations

import errno
import selectors
import socket
import sys
from collections.abc import Callable, Hashable, Iterable
from contextlib import ExitStack, suppress
from time import monotonic

from cosim.autopilot.core import Autopilot
from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError

_DATAGRAMS = 64  # taken from one socket at a time
_LEARNED = 32  # peers per vehicle besides those it was given
_CLIENTS = 16  # of one TCP port
_UNSENT = 1 << 20  # B that a slow TCP client may leave unread before it is cut off
_DATAGRAM = 1200  # B of frames that share a datagram: less than a packet of any network, tunnels included


class Endpoint:
    """The sockets of one vehicle."""

    def __init__(
        self, autopilot: Autopilot, udp: Iterable[Address] = (), tcp: Address | None = None, bind: Address | None = None
    ) -> None:
        """Send to the peers `udp` from the first moment; listen at `tcp`; `bind`: own UDP address, else any port."""
        self.autopilot = autopilot
        self._fixed = {(socket.gethostbyname(peer.host), peer.port) for peer in udp}
        self._learned: dict[tuple[str, int], None] = {}
        self._clients: dict[socket.socket, bytearray] = {}  # what is still to be sent
        self._heard: dict[socket.socket, float] = {}  # s, when a client last sent something; 0: never
        self.udp: socket.socket | None = None
        self.tcp: socket.socket | None = None
        self._watch: Callable[[socket.socket, Callable[[], None]], None] = lambda *_: None
        self._unwatch: Callable[[socket.socket], None] = lambda *_: None
        self._stack = ExitStack()
        try:
            self._open(bind, tcp)
        except BaseException:
            self.close()
            raise

    def _open(self, bind: Address | None, tcp: Address | None) -> None:
        for peer in self._fixed:
            self._stack.enter_context(_claim(self.autopilot.sysid, Address(*peer)))
        if self._fixed or bind is not None:
            local = any(host.startswith("127.") for host, _ in self._fixed)
            self.udp = self._bound(socket.SOCK_DGRAM, bind or Address("127.0.0.1" if local else "", 0))
            for peer in self._fixed:
                self.autopilot.connect(peer)
        if tcp is not None:
            self.tcp = self._bound(socket.SOCK_STREAM, tcp)
            self.tcp.listen(_CLIENTS)

    def _bound(self, kind: int, at: Address) -> socket.socket:
        made = self._stack.enter_context(socket.socket(socket.AF_INET, kind))
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(at)
        except OSError as error:
            name = "TCP" if kind == socket.SOCK_STREAM else "UDP"
            raise SetupError(
                f"system {self.autopilot.sysid}: cannot listen at {name} {at}: {error.strerror}; "
                "choose another port or end the program that has it"
            ) from None
        made.setblocking(False)
        return made

    def attach(
        self, watch: Callable[[socket.socket, Callable[[], None]], None], unwatch: Callable[[socket.socket], None]
    ) -> None:
        """Let `watch(socket, call)` call back when there is something to read."""
        self._watch, self._unwatch = watch, unwatch
        if self.udp is not None:
            watch(self.udp, self.read_udp)
        if self.tcp is not None:
            watch(self.tcp, self.accept)

    def read_udp(self) -> None:
        """Take what came by UDP, and remember from whom."""
        assert self.udp is not None
        for _ in range(_DATAGRAMS):
            try:
                data, peer = self.udp.recvfrom(65536)
            except BlockingIOError:
                return
            except OSError:  # a peer's port is closed: it may come back
                continue
            if peer not in self._fixed:
                self._learned.pop(peer, None)
                self._learned[peer] = None
                if len(self._learned) > _LEARNED:
                    oldest = next(iter(self._learned))
                    del self._learned[oldest]
                    self.autopilot.disconnect(oldest)
            self.autopilot.receive(data, peer)

    def accept(self) -> None:
        """Take a new TCP client."""
        assert self.tcp is not None
        with suppress(BlockingIOError, ConnectionError):
            client, _ = self.tcp.accept()
            if len(self._clients) >= _CLIENTS:  # stations send a heartbeat each second, idle guests nothing
                self._drop(min(self._clients, key=lambda one: self._heard[one]))
            client.setblocking(False)
            self._heard[client] = 0.0
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._clients[client] = bytearray()
            self._watch(client, lambda: self.read_tcp(client))
            self.autopilot.connect(client)

    def read_tcp(self, client: socket.socket) -> None:
        """Take what a TCP client sent."""
        try:
            data = client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._heard[client] = monotonic()
            self.autopilot.receive(data, client)
        else:
            self._drop(client)

    def send(self, now: float, wall: float) -> None:
        """Send the autopilot's messages that are due at this moment."""
        out = self.autopilot.emit(now, wall)
        if not out and not any(self._clients.values()):
            return
        together: dict[Hashable, bytearray] = {}  # sending a datagram costs three times what making a frame does
        for link, data in out:
            frames = together.setdefault(link, bytearray())
            if len(frames) + len(data) > _DATAGRAM:
                self._send(link, frames)
                frames = together[link] = bytearray()
            frames += data
        for link, frames in together.items():
            self._send(link, frames)
        for client in [client for client, unsent in self._clients.items() if unsent]:
            self._flush(client)

    def _send(self, link: Hashable, data: bytearray) -> None:
        if isinstance(link, socket.socket):
            unsent = self._clients.get(link)
            if unsent is not None:
                unsent += data
        elif self.udp is not None:
            with suppress(OSError):  # nothing listens yet, or the buffer is full: as on the air
                self.udp.sendto(data, link)  # type: ignore[call-overload]  # what is no socket is an address

    def _flush(self, client: socket.socket) -> None:
        unsent = self._clients[client]
        try:
            del unsent[: client.send(unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if len(unsent) > _UNSENT:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self.autopilot.disconnect(client)
        self._clients.pop(client, None)
        self._heard.pop(client, None)
        self._unwatch(client)
        client.close()

    def close(self) -> None:
        """Close every socket."""
        for client in list(self._clients):
            self._drop(client)
        for own in (self.udp, self.tcp):
            if own is not None:
                self._unwatch(own)
        self._stack.close()
        self.udp = self.tcp = None


class LinkEndpoints:
    """The sockets of many vehicles, watched together."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._selector = selectors.DefaultSelector()
        self._all = list(endpoints)
        for endpoint in self._all:
            endpoint.attach(self._watch, self._unwatch)

    def _watch(self, sock: socket.socket, call: Callable[[], None]) -> None:
        self._selector.register(sock, selectors.EVENT_READ, call)

    def _unwatch(self, sock: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(sock)

    def poll(self, wait: float = 0.0) -> None:
        """Take what came, waiting at most `wait` s for it."""
        for key, _ in self._selector.select(wait):
            key.data()

    def send(self, now: float, wall: float) -> None:
        """Send the messages of all autopilots that are due."""
        for endpoint in self._all:
            endpoint.send(now, wall)

    def close(self) -> None:
        """Close every socket."""
        for endpoint in self._all:
            endpoint.close()
        self._selector.close()


def _claim(sysid: int, peer: Address) -> socket.socket:
    """Refuse a second vehicle with this system id that sends to the same peer from this machine.

    Clients mix the two up, with errors that do not show the cause. The claim is a name in the system's
    abstract socket namespace, which ends with the process, however it ends.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if not sys.platform.startswith("linux"):
        return made
    try:
        made.bind(f"\0continuum-cosim/mavlink/{peer}/{sysid}")
    except OSError as error:
        made.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise SetupError(
            f"another vehicle with system id {sysid} sends to UDP {peer} already; "
            "end the process that it belongs to, or choose another system id"
        ) from None
    return made
