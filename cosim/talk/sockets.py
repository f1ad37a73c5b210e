"""ZeroMQ sockets as all of ours are: bounded, with heartbeats, with keys where others can reach them."""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import zmq
from zmq.utils import z85

from cosim.contract.errors import CosimError, SetupError
from cosim.talk import keys
from cosim.talk.doorkeeper import Doorkeeper, Limits

log = logging.getLogger("cosim.talk")

HEARTBEAT = 5_000, 15_000  # ms between two, and without one until a connection counts as lost
HANDSHAKE = 5_000  # ms
DOMAIN = b"cosim"  # of keys, for ZeroMQ
_REREAD = 1.0  # s between two looks at the folder of keys
_LOGGED = 60  # refusals that are logged one by one, then each thousandth

Context = zmq.Context[zmq.Socket[bytes]]


class Closing:
    """What can be closed twice, and is when the block that it stands for ends."""

    def close(self) -> None:
        """Let go of everything."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Guard:
    """Answers ZeroMQ's questions about keys (ZAP, RFC 27) in a thread, by what `allowed` returns, as it changes.

    The thread ends with the context, which has one guard at most.
    """

    def __init__(self, context: Context, allowed: Callable[[], Mapping[str, str]]) -> None:
        self._look = allowed  # public key -> name
        self._allowed = allowed()
        self._read_at = time.monotonic()
        self.refused = 0  # connections
        self._socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind("inproc://zeromq.zap.01")
        threading.Thread(target=self._serve, name="cosim-keys", daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                self._socket.send_multipart(self._answer(self._socket.recv_multipart()))
        except zmq.ContextTerminated:
            pass
        finally:
            self._socket.close(0)

    def _answer(self, parts: Sequence[bytes]) -> list[bytes]:
        name = None
        if len(parts) == 7 and parts[2] == DOMAIN and parts[5] == b"CURVE" and len(parts[6]) == 32:
            self._reread()
            name = self._allowed.get(z85.encode(parts[6]).decode("ascii"))
        if name is None:
            self.refused += 1
            if self.refused <= _LOGGED or self.refused % 1000 == 0:
                log.warning("a connection with an unknown key was refused (%d so far)", self.refused)
        code, text = (b"200", b"OK") if name else (b"400", b"unknown key")
        return [b"1.0", parts[1] if len(parts) > 1 else b"", code, text, (name or "").encode(), b""]

    def _reread(self) -> None:
        now = time.monotonic()
        if now - self._read_at < _REREAD:
            return
        self._read_at = now
        try:
            self._allowed = self._look()
        except CosimError as error:
            log.warning("the keys stay as they were: %s", error)


def lock(socket: zmq.Socket[bytes], own: keys.Key) -> None:
    """Make `socket` a server that talks to none but keys that the guard of its context knows."""
    socket.curve_server = True
    socket.curve_publickey, socket.curve_secretkey = own.public.encode(), own.secret.encode()
    socket.zap_domain = DOMAIN


def bounded(
    context: Context, kind: int, longest: int, *, waiting: tuple[int, int] = (128, 64), key: keys.Key | None = None
) -> zmq.Socket[bytes]:
    """A socket with limits: B of a part, and messages that wait on the way in and out, of each connection.

    With `key`, it proves it to the server that the key is for; raises `SetupError` when the key does not name one.
    """
    if key is not None and not key.server:
        raise SetupError(f"the key '{key.name}' does not say which server it is for: its file has no 'server'")
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.linger = 0
    socket.setsockopt(zmq.MAXMSGSIZE, longest)
    socket.setsockopt(zmq.RCVHWM, waiting[0])
    socket.setsockopt(zmq.SNDHWM, waiting[1])
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT[0])
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT[1])
    if key is not None:
        socket.curve_publickey, socket.curve_secretkey = key.public.encode(), key.secret.encode()
        socket.curve_serverkey = key.server.encode()
    return socket


def dial(socket: zmq.Socket[bytes], address: str) -> None:
    """Connect `socket`, or close it and raise `SetupError`."""
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close(0)
        why = f"{error.strerror}; an address is tcp://HOST:PORT or ipc://PATH"
        raise SetupError(f"cannot connect to '{address}': {why}") from error


class Door:
    """A listening socket behind a doorkeeper, in a context of its own.

    With `folder`, every client proves a key of that folder of keys, and the "User-Id" of the frames that arrive names
    the key; with `token`, it proves that it knows the token, as this side does. `words`: see `Doorkeeper`. `needed`
    connections must be possible at least. Raises `SetupError` when it cannot listen.
    """

    def __init__(
        self,
        bind: str,
        longest: int,
        limits: Limits,
        *,
        kind: int = zmq.ROUTER,
        folder: Path | None = None,
        token: str = "",
        words: bytes = b"",
        needed: int = 0,
        waiting: tuple[int, int] = (128, 64),
    ) -> None:
        own, guest = keys.of_token(token) if token else (None, None)
        own = keys.server_key(folder) if folder is not None else own
        self.public = own.public if own is not None else ""
        self._keeper = Doorkeeper(bind, limits, needed=needed, words=words)
        self.address = self._keeper.address
        self._zmq: Context = zmq.Context()
        self._guard: Guard | None = None
        try:
            self.socket = bounded(self._zmq, kind, longest, waiting=waiting)
            if own is not None:
                known = {guest.public: guest.name} if guest is not None else {}
                self._guard = Guard(self._zmq, lambda: keys.allowed(folder) if folder is not None else known)
                lock(self.socket, own)
            if kind == zmq.ROUTER:
                self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.socket.bind(self._keeper.inner)
        except BaseException:
            self._zmq.destroy(0)
            self._keeper.close()
            raise

    @property
    def refused(self) -> int:
        """Connections whose key was unknown."""
        return self._guard.refused if self._guard is not None else 0

    @property
    def turned_away(self) -> int:
        """Connections that the doorkeeper has ended."""
        return sum(self._keeper.turned_away.values())

    def close(self, linger: int = 0) -> None:
        """Stop listening; the last messages have `linger` ms to leave. May be called twice."""
        self.socket.close(linger)
        self._zmq.term()  # waits for the last messages, and ends the guard
        self._keeper.close()


def event(monitor: zmq.Socket[bytes], flags: int = 0) -> tuple[int, int]:
    """The next event of a socket's monitor (zmq_socket_monitor(3)): its number and its value.

    The equivalent in pyzmq imports asyncio, a quarter of an agent's start. Raises `zmq.Again` as a socket does.
    """
    number, value = struct.unpack("=Hi", monitor.recv_multipart(flags)[0])
    return number, value


def each(socket: zmq.Socket[bytes], most: int, take: Callable[[list[zmq.Frame]], None]) -> None:
    """Hand at most `most` of the messages that have come to `take`."""
    for _ in range(most):
        try:
            parts = socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        take(parts)
