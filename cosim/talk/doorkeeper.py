"""The doorkeeper: guards a socket that others can reach, and bounds what strangers can take of this process.

ZeroMQ accepts every connection while files can be opened, and reads what clients send before anything can be refused.
So this module serves the public address itself. A thread accepts and counts the connections. It passes each on to the
ZeroMQ socket, which listens where no one else can reach it, once the client has begun to talk ZeroMQ.

There are three classes of guests: *silent* (nothing received yet; one descriptor each), *greeting* (handshake in
progress; three descriptors each) and *admitted* (our side has sent READY, which with CURVE it sends to known keys
only). Each class is bounded in number and the first two in time. When there are too many of a class, one of the address
that has most of them is disconnected at random. So a newcomer always has a chance, however many guests hold their
places. On sockets without keys the frames of admitted guests are checked as well: size, parts of a message, bytes in
all, and the time until the first request. When they are full, those that have asked nothing go first, and those one of
whose first requests ends with the words of the owner stay.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import logging
import os
import random
import re
import resource
import selectors
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from cosim.contract.errors import SetupError

log = logging.getLogger("cosim.doorkeeper")
T = TypeVar("T")

CHUNK = 1 << 18  # B carried at once, and at most held per direction of a guest
MOST_FILES = 1 << 16  # open files that this process asks for
RESERVE = 256  # open files that are left to the rest of the process
FAREWELL = 1.0  # s for the last messages to leave
PER_GUEST = 3  # descriptors: towards the guest, towards ZeroMQ, and ZeroMQ's own
PATIENCE = 2.0  # s for the first request
_RANDOM = random.SystemRandom()
_FOLDER = "cosim-door-"
_SIGNATURE = 0xFF  # first byte of ZeroMQ's greeting
_GREETING = 64  # B, ZMTP 3
# The last command of a handshake: how long it is, in one byte or in eight, and its name.
_READY = re.compile(rb"(\x04.|\x06.{8})\x05READY", re.DOTALL)
_LARGEST_COMMAND = 1 << 16  # B
_LONGEST_WORDS = 256  # B of a request that may show who the owner is
_FIRST = 8  # requests that may: subscriptions come in the order of their topics


@dataclass(frozen=True, slots=True)
class Limits:
    """What guests may take."""

    connections: int = 64  # admitted at a time
    silent: int = 64  # that have sent nothing yet
    greeting: int = 32  # in their handshake
    patience: float = PATIENCE  # for the first byte, and for the first request if frames are looked at
    handshake: float = 5.0  # s for the handshake
    looks: bool = False  # frames are looked at; needs a socket without encryption
    message: int = 1 << 16  # B of one frame, if looked at
    parts: int = 2  # frames of one message, if looked at
    total: int = 0  # B that a guest may send in all, 0: no limit


# For sockets with little traffic, without keys: requests of a few kilobytes, and subscriptions.
SMALL = Limits(connections=16, silent=16, greeting=8, looks=True, message=1 << 14)


def raise_descriptors() -> int:
    """Raise the limit of open files as far as it is allowed; what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def affordable(wanted: Limits, needed: int = 0) -> Limits:
    """`wanted`, with no more connections than half of the open files that are left can carry.

    Raises `SetupError` when they are fewer than `needed`.
    """
    limit = raise_descriptors()
    room = (
        (limit - sum(1 for _ in Path("/proc/self/fd").iterdir()) - RESERVE) // 2
        - wanted.silent
        - PER_GUEST * wanted.greeting
    )
    count = min(wanted.connections, max(room // PER_GUEST, 1))
    if count < needed:
        raise SetupError(
            f"{needed} connections are expected, and {limit} open files allow for {count} of them: raise the limit, "
            f"with  ulimit -n {limit + 2 * PER_GUEST * needed}"
        )
    return replace(wanted, connections=count)


def shown_out(guests: Collection[T], where: Callable[[T], str]) -> T:
    """Whom to disconnect at a door that is full: one at random of the address that has most."""
    (most, _), *_ = Counter(map(where, guests)).most_common(1)
    return _RANDOM.choice([guest for guest in guests if where(guest) == most])


def deserted(path: Path) -> bool:
    """Whether `path` is a Unix socket that a process left behind: nothing listens there any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # its queue of newcomers may be full
        return probe.connect_ex(str(path)) == errno.ECONNREFUSED


def forget(path: Path) -> None:
    """Remove a socket on which nothing listens any more. Raises `OSError` when something does."""
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        if not deserted(path):
            raise OSError("another program is listening there")
        path.unlink()


class Frames:
    """Follows the frames of one guest (ZMTP 3.1, not encrypted) without keeping any of them.

    `known` is whether one of the first requests ended with `words`.
    """

    def __init__(self, limits: Limits, words: bytes = b"") -> None:
        self._limits, self._words = limits, words
        self._skip = _GREETING  # B until the next header
        self._head = bytearray()
        self._body: bytearray | None = None  # of a frame that may be the first request
        self._parts = self._total = self._requests = 0
        self.known = False

    @property
    def asked(self) -> bool:
        """Whether there was more than a handshake and heartbeats."""
        return self._requests > 0

    def take(self, data: memoryview) -> str:
        """What is wrong with what the guest has sent up to here, "" if nothing."""
        self._total += len(data)
        if self._limits.total and self._total > self._limits.total:
            return f"more than {self._limits.total} B in all"
        at = 0
        while at < len(data):
            if self._skip:
                step = min(self._skip, len(data) - at)
                if self._body is not None:
                    self._body += data[at : at + step]
                self._skip -= step
                at += step
                if not self._skip:
                    self._request()
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) < (9 if self._head[0] & 2 else 2):
                continue
            flags, self._skip = self._head[0], int.from_bytes(self._head[1:], "big")
            self._head.clear()
            self._body = bytearray() if self._requests < _FIRST and self._skip <= _LONGEST_WORDS else None
            self._requests += self._skip > _LONGEST_WORDS
            if flags & 4:
                if self._skip > _LARGEST_COMMAND:
                    return f"a command of {self._skip} B"
                continue
            self._parts += 1
            if self._skip > self._limits.message or self._parts > self._limits.parts:
                return f"part {self._parts} of a message, of {self._skip} B"
            if not flags & 1:
                self._parts = 0
        return ""

    def _request(self) -> None:
        body, self._body = self._body, None
        if body is not None and bytes(body[1 : 1 + body[0]]) not in (b"READY", b"ERROR", b"PING", b"PONG"):
            self._requests += 1
            self.known |= bool(self._words) and hmac.compare_digest(body[-len(self._words) :], self._words)


@dataclass(slots=True, eq=False)
class _Guest:
    """A connection: `outer` is the guest's, `inner` leads to ZeroMQ."""

    outer: socket.socket
    where: str  # address without its port
    since: float
    inner: socket.socket | None = None
    ready: bool = False
    frames: Frames | None = None
    said: bytearray | None = field(default_factory=bytearray)  # by our side, until READY was seen; then None
    inward: bytearray = field(default_factory=bytearray)  # not passed on yet
    outward: bytearray = field(default_factory=bytearray)
    ending: bool = False  # ZeroMQ has closed; what is left goes out


class Doorkeeper:
    """Serves `bind` (tcp://HOST:PORT with * for any, ipc://PATH) in a thread, and passes admitted guests to `inner`.

    ZeroMQ is to listen at `inner` before the first guest comes; `address` is what others connect to. A guest of
    whose first requests one ends with `words` is the owner's. Raises `SetupError` when the address cannot be used.
    """

    def __init__(self, bind: str, limits: Limits, *, needed: int = 0, words: bytes = b"") -> None:
        self.limits, self._words = affordable(limits, needed), words
        self.turned_away: Counter[str] = Counter()  # connections, by reason
        for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):  # of processes that were killed
            if deserted(folder / "door"):
                shutil.rmtree(folder, ignore_errors=True)
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        self.inner = f"ipc://{self._folder}/door"
        self._own: Path | None = None
        try:
            self._listener, self.address = self._listen(bind)
        except (OSError, ValueError, OverflowError) as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise SetupError(f"cannot listen at {bind}: {getattr(error, 'strerror', '') or error}") from error
        self._guests: set[_Guest] = set()
        self._silent: set[_Guest] = set()
        self._greeting: set[_Guest] = set()
        self._buffer = memoryview(bytearray(CHUNK))
        self._closing = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._paused = 0.0  # until when no connection is accepted, for lack of descriptors
        self._thread = threading.Thread(target=self._serve, name="cosim-doorkeeper", daemon=True)
        self._thread.start()

    @property
    def admitted(self) -> int:
        """Guests that are in."""
        return len(self._guests) - len(self._silent) - len(self._greeting)

    def close(self) -> None:
        """Stop listening, and end once the last messages of ZeroMQ are out; may be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        os.eventfd_write(self._wake, 1)
        self._thread.join(FAREWELL + 4.0)
        if not self._thread.is_alive():
            os.close(self._wake)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._own is not None:
            self._own.unlink(missing_ok=True)

    def _listen(self, bind: str) -> tuple[socket.socket, str]:
        scheme, _, rest = bind.partition("://")
        if scheme == "ipc" and rest:
            path = Path(rest)
            forget(path)
            with contextlib.ExitStack() as failed:
                listener = failed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                listener.bind(rest)
                listener.listen(128)
                failed.pop_all()
            self._own = path
            address = bind
        elif scheme == "tcp":
            host, _, port = rest.rpartition(":")
            host = host.strip("[]")
            if not host or not (port == "*" or port.isdecimal()):
                raise ValueError("an address is tcp://HOST:PORT or ipc://PATH")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            name = "0.0.0.0" if host == "*" else host
            listener = socket.create_server((name, 0 if port == "*" else int(port)), family=family, backlog=128)
            bound = listener.getsockname()
            address = f"tcp://[{bound[0]}]:{bound[1]}" if family == socket.AF_INET6 else f"tcp://{bound[0]}:{bound[1]}"
        else:
            raise ValueError("an address is tcp://HOST:PORT or ipc://PATH")
        listener.setblocking(False)
        return listener, address

    # -- the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        swept, end = time.monotonic(), float("inf")
        while time.monotonic() < end and (end == float("inf") or self._guests):
            for key, mask in self._selector.select(0.25 if end == float("inf") else 0.05):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None and key.data in self._guests:
                    self._move(key.data, key.fileobj is key.data.outer, mask)
            now = time.monotonic()
            if now - swept >= 0.2:
                swept = now
                self._sweep(now)
            if self._closing.is_set() and end == float("inf"):
                end = now + FAREWELL
                self._selector.unregister(self._listener)
                self._listener.close()
                for guest in [*self._silent, *self._greeting]:
                    self._end(guest, "")
        for guest in list(self._guests):
            self._end(guest, "")
        self._selector.close()

    def _sweep(self, now: float) -> None:
        for guests, patience, why in (
            (self._silent, self.limits.patience, "said nothing"),
            (self._greeting, self.limits.handshake, "slow handshake"),
            (self._idle(), self.limits.patience, "asked nothing"),
        ):
            for guest in [guest for guest in guests if now - guest.since > patience]:
                self._end(guest, why)
        if self._paused and now >= self._paused and not self._closing.is_set():
            self._paused = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        for _ in range(64):  # then those who are in have their turn
            try:
                outer, where = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptors, or it has gone again
                if error.errno in (errno.ENFILE, errno.EMFILE):
                    self._selector.unregister(self._listener)
                    self._paused = time.monotonic() + 0.1
                return
            outer.setblocking(False)
            if outer.family != socket.AF_UNIX:
                outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            guest = _Guest(outer, where[0] if isinstance(where, tuple) else "", time.monotonic())
            self._room(self._silent, self.limits.silent, "too many that say nothing")
            self._guests.add(guest)
            self._silent.add(guest)
            self._selector.register(outer, selectors.EVENT_READ, guest)

    def _idle(self) -> set[_Guest]:
        """Admitted guests that have asked nothing, where that can be seen."""
        return {guest for guest in self._in() if guest.frames is not None and not guest.frames.asked}

    def _in(self) -> set[_Guest]:
        return self._guests - self._silent - self._greeting

    def _room(self, guests: set[_Guest], most: int, why: str) -> None:
        """Make room for one more: disconnect a guest of the address that has most."""
        if len(guests) < most:
            return
        self._end(shown_out(guests, lambda guest: guest.where), why)

    def _greet(self, guest: _Guest) -> bool:
        """The guest has begun to talk: connect it to ZeroMQ."""
        first = guest.outer.recv(1, socket.MSG_PEEK)
        if not first or first[0] != _SIGNATURE:
            self._end(guest, "does not talk ZeroMQ" if first else "")
            return False
        self._silent.discard(guest)
        self._room(self._greeting, self.limits.greeting, "too many in their handshake")
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        guest.inner = inner
        inner.setblocking(False)
        try:
            inner.connect(self.inner.removeprefix("ipc://"))
        except OSError:  # its queue of newcomers is full, or it has closed
            self._end(guest, "too many in their handshake")
            return False
        guest.since = time.monotonic()
        guest.frames = Frames(self.limits, self._words) if self.limits.looks else None
        self._greeting.add(guest)
        self._selector.register(inner, selectors.EVENT_READ, guest)
        return True

    def _move(self, guest: _Guest, outer: bool, mask: int) -> None:
        try:
            if guest.inner is None and not self._greet(guest):
                return
            assert guest.inner is not None
            here, there = (guest.outer, guest.inner) if outer else (guest.inner, guest.outer)
            if mask & selectors.EVENT_WRITE:
                left = guest.outward if outer else guest.inward
                del left[: _send(here, left)]
                if guest.ending and not guest.outward:
                    self._end(guest, "")
            if mask & selectors.EVENT_READ:
                self._carry(guest, here, there, outer)
            if guest in self._guests:
                self._listen_for(guest)
        except (BlockingIOError, InterruptedError):
            return  # nothing is there after all
        except OSError:
            self._end(guest, "")

    def _carry(self, guest: _Guest, here: socket.socket, there: socket.socket, outer: bool) -> None:
        size = here.recv_into(self._buffer)
        if not size:
            if outer or not guest.outward:
                self._end(guest, "")
            else:
                guest.ending = True  # our side's last words are still to go out
            return
        data = self._buffer[:size]
        if outer and guest.frames is not None and (why := guest.frames.take(data)):
            self._end(guest, why, loudly=True)
            return
        if not outer and guest.said is not None and not self._admit(guest, data):
            return
        left = guest.inward if outer else guest.outward
        sent = 0 if left else _send(there, data)
        left += data[sent:]

    def _admit(self, guest: _Guest, data: memoryview) -> bool:
        """Look for READY in what our side sends; False when there is no room for one more."""
        assert guest.said is not None
        guest.said += data[:4096]
        if not _READY.search(guest.said, _GREETING):
            if len(guest.said) > 8192:
                guest.said = None
            return True
        guest.said = None
        strangers = {other for other in self._in() if other.frames is not None and not other.frames.known}
        self._greeting.discard(guest)
        guest.since = time.monotonic()
        if strangers and self.admitted > self.limits.connections:
            self._room(self._idle() - {guest} or strangers, 0, "others needed the place")
        if self.admitted > self.limits.connections:
            self._end(guest, "no room for more connections", loudly=True)
            return False
        return True

    def _listen_for(self, guest: _Guest) -> None:
        """Read where there is room to pass it on, write where something is left."""
        assert guest.inner is not None
        for end, left, following in (
            (guest.outer, guest.outward, guest.inward),
            (guest.inner, guest.inward, guest.outward),
        ):
            mask = (0 if following or guest.ending else selectors.EVENT_READ) | (selectors.EVENT_WRITE if left else 0)
            known = self._selector.get_map().get(end)
            if mask == (known.events if known is not None else 0):
                continue
            if not mask:
                self._selector.unregister(end)
            elif known is None:
                self._selector.register(end, mask, guest)
            else:
                self._selector.modify(end, mask, guest)

    def _end(self, guest: _Guest, why: str, *, loudly: bool = False) -> None:
        if guest not in self._guests:
            return
        self._guests.discard(guest)
        self._silent.discard(guest)
        self._greeting.discard(guest)
        if why:
            self.turned_away[why if not loudly else "against the rules"] += 1
            if loudly and self.turned_away["against the rules"] <= 10:  # a stranger must not fill the log either
                log.warning("%s: a connection was closed: %s", self.address, why)
        for end in (guest.outer, guest.inner):
            if end is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(end)
                end.close()


def _send(to: socket.socket, data: bytearray | memoryview) -> int:
    try:
        return to.send(data)
    except BlockingIOError:
        return 0
