"""Nodes on several machines: frames and words of sidecars go to the network service of another machine, over TCP.

    python -m cosim.testbed.emulation.trunk near --listen 10.0.0.1:5605 --key trunk.key   # beside the network service
    python -m cosim.testbed.emulation.trunk far --to 10.0.0.1:5605 --key trunk.key        # beside the sidecars
    elsewhere

The far end listens where sidecars expect the network service, and keeps the descriptors of their interfaces. The near
end hands the service a socket for each, which carries frames like an interface. So one service has all links, shares
the air among all nodes and moves every frame; to the delays of links that of the network between the machines is
added, twice where both nodes are elsewhere. Frames that find no room in a connection are dropped.

Both ends know a secret, the file of `--key` or COSIM_TRUNK, and prove it. Nothing is encrypted: use a network of your
own, as WireGuard or an encrypted overlay. When a connection ends, sidecars hand everything over again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import selectors
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cosim.contract import environment
from cosim.contract.errors import CosimError, RunError, SetupError
from cosim.testbed.emulation import handover

log = logging.getLogger("cosim.trunk")

WORD, INTERFACE, FRAME = range(3)  # what a message is: a sidecar's word, one with an interface, a frame
LONGEST = 1 << 17  # B of a message
ROOM = 1 << 20  # B that wait in a connection
BATCH = 32  # frames of an interface before others have their turn
GREETINGS = 16  # at a time
GREETING = 5.0  # s for the far end to prove that it knows the secret
LEAST = 16  # B of a secret
SILENT = 15  # s without a sign of life, until a connection counts as broken; frames that old are worth nothing
AGAIN = 60.0  # s until the same complaint is logged again
_HEAD = struct.Struct("!BHI")  # what, number of the interface, length

Watch = Callable[[int | socket.socket, int, Callable[[int], None] | None], None]


class Line:
    """One sidecar's connection to the network service, between two machines."""

    def __init__(self, away: socket.socket, here: socket.socket, watch: Watch) -> None:
        """`away`: TCP to the other end; `here`: to the sidecar (far) or to the service (near)."""
        self._away, self._here, self._watch = away, here, watch
        self._ports: dict[int, int] = {}  # number -> descriptor
        self._made = 0  # numbers given
        self._out, self._in = bytearray(), bytearray()
        self.dropped = 0  # frames
        self.ended = False
        away.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice(away)
        for one in (away, here):
            one.setblocking(False)
        watch(away, selectors.EVENT_READ, self._from_away)
        watch(here, selectors.EVENT_READ, self._from_here)

    def close(self) -> None:
        """End both connections and let the interfaces go; may be called twice."""
        if self.ended:
            return
        self.ended = True
        for one in (self._away, self._here):
            self._watch(one, 0, None)
            one.close()
        for descriptor in self._ports.values():
            self._watch(descriptor, 0, None)
            os.close(descriptor)
        self._ports.clear()
        if self.dropped:
            log.warning("%s frames found no room between the machines", self.dropped)

    def _from_here(self, _events: int) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._here, LONGEST, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self.close()
            return
        for descriptor in descriptors:
            self._port(self._made, descriptor)
            self._send(INTERFACE, self._made, data)
            self._made += 1
        if not descriptors:
            self._send(WORD, 0, data)

    def _port(self, number: int, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        self._ports[number] = descriptor
        self._watch(descriptor, selectors.EVENT_READ, partial(self._frames, number))

    def _frames(self, number: int, _events: int) -> None:
        for _ in range(BATCH):
            if number not in self._ports:
                return
            try:
                frame = os.read(self._ports[number], LONGEST)
            except BlockingIOError:
                return
            except OSError:
                frame = b""
            if not frame:  # the interface is gone, or the service refuses it; the connection's end is reported apart
                self._watch(self._ports[number], 0, None)
                os.close(self._ports.pop(number))
                return
            if len(self._out) > ROOM:
                self.dropped += 1
            else:
                self._send(FRAME, number, frame)

    def _send(self, what: int, number: int, data: bytes) -> None:
        waited = bool(self._out)
        self._out += _HEAD.pack(what, number, len(data)) + data
        if not waited:
            self._flush()

    def _flush(self) -> None:
        try:
            del self._out[: self._away.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._watch(self._away, selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0), self._from_away)

    def _from_away(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if not events & selectors.EVENT_READ or self.ended:
            return
        try:
            data = self._away.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self._in += data
        while len(self._in) >= _HEAD.size and not self.ended:
            what, number, length = _HEAD.unpack_from(self._in)
            if what > FRAME or length > LONGEST or (what == INTERFACE and number in self._ports):
                log.warning("the other end says something else than a trunk does")
                self.close()
                return
            if len(self._in) < _HEAD.size + length:
                return
            body = bytes(self._in[_HEAD.size : _HEAD.size + length])
            del self._in[: _HEAD.size + length]
            self._take(what, number, body)

    def _take(self, what: int, number: int, body: bytes) -> None:
        if what == FRAME:
            if number in self._ports:
                with contextlib.suppress(OSError):  # full, down or gone: frames are lost there
                    os.write(self._ports[number], body)
            return
        try:
            if what == WORD:
                self._here.send(body)
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # like an interface: whole frames
            with theirs:
                for one in (ours, theirs):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
                self._port(number, ours.detach())
                socket.send_fds(self._here, [body], [theirs.fileno()])
        except OSError:
            self.close()


class Trunk:
    """One end: accepts at `listening`, and makes the other connection of each line by `other`."""

    def __init__(
        self, listening: socket.socket, other: Callable[[socket.socket], tuple[socket.socket, socket.socket]]
    ) -> None:
        """`other` gives the TCP and the Unix connection for one that was accepted; OSError, CosimError: none."""
        self._listening, self._other = listening, other
        self._selector = selectors.DefaultSelector()
        self._lines: list[Line] = []
        self._greeted: deque[tuple[socket.socket, socket.socket]] = deque()
        self._reported: dict[str, float] = {}  # complaint -> when
        self._closed = False
        self._greeting = threading.BoundedSemaphore(GREETINGS)
        self._bell, self._ringing = socket.socketpair()
        for one in (listening, self._bell):
            one.setblocking(False)
        self._watch(listening, selectors.EVENT_READ, self._accept)
        self._watch(self._bell, selectors.EVENT_READ, self._begin)

    @property
    def port(self) -> int:
        """Of the near end: where it listens."""
        return int(self._listening.getsockname()[1])

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve, until interrupted or `until` is true, which is asked every 0.1 s."""
        while not until():
            for key, events in self._selector.select(0.1):
                key.data(events)
            self._lines = [line for line in self._lines if not line.ended]

    def close(self) -> None:
        """End all lines; may be called twice."""
        for line in self._lines:
            line.close()
        self._lines.clear()
        for one in (self._listening, self._bell, self._ringing):
            one.close()
        self._closed = True
        self._forget()
        self._selector.close()

    def _forget(self) -> None:
        while self._greeted:
            for one in self._greeted.popleft():
                one.close()

    def _accept(self, _events: int) -> None:
        try:
            accepted, _ = self._listening.accept()
        except OSError:
            return
        if not self._greeting.acquire(blocking=False):
            accepted.close()
            return
        threading.Thread(target=self._greet, args=(accepted,), daemon=True).start()

    def _greet(self, accepted: socket.socket) -> None:
        """In a thread of its own, as the other one may be slow to prove itself, and frames do not wait for that."""
        try:
            self._greeted.append(self._other(accepted))
            if self._closed:
                self._forget()
            else:
                self._ringing.send(b"!")
        except (OSError, CosimError) as error:
            self._complain(str(error))
            accepted.close()
        finally:
            self._greeting.release()

    def _complain(self, text: str) -> None:
        """Log `text`, unless it was logged a moment ago: sidecars try again every second."""
        now = time.monotonic()
        if now - self._reported.get(text, -AGAIN) >= AGAIN:
            self._reported = {text: now}
            log.warning("%s", text)

    def _begin(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(64)
        while self._greeted:
            away, here = self._greeted.popleft()
            self._lines.append(Line(away, here, self._watch))

    def _watch(self, what: int | socket.socket, events: int, call: Callable[[int], None] | None) -> None:
        if not events:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(what)
        elif what in self._selector.get_map():
            self._selector.modify(what, events, call)
        else:
            self._selector.register(what, events, call)


def near(listen: tuple[str, int], sidecars: Path, key: bytes) -> Trunk:
    """The end beside the network service, which listens at `sidecars`. OSError when `listen` cannot be had."""

    def other(away: socket.socket) -> tuple[socket.socket, socket.socket]:
        away.settimeout(GREETING)
        asked = secrets.token_bytes(32)
        away.sendall(asked)
        answer = _exactly(away, 64)
        if not hmac.compare_digest(answer[32:], _proof(key, b"far", asked)):
            raise RunError("a client without the secret was refused")
        away.sendall(_proof(key, b"near", answer[:32]))
        return away, handover.connect(sidecars)

    return Trunk(socket.create_server(listen), other)


def far(to: tuple[str, int], sidecars: Path, key: bytes, mode: int = 0o660) -> Trunk:
    """The end beside sidecars, which look for a network service at `sidecars`. OSError when it cannot be had."""

    def other(here: socket.socket) -> tuple[socket.socket, socket.socket]:
        try:
            away = socket.create_connection(to, GREETING)
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"waiting for the first machine: no trunk at {to[0]}:{to[1]} yet ({reason})") from error
        try:
            asked = secrets.token_bytes(32)
            away.sendall(asked + _proof(key, b"far", _exactly(away, 32)))
            if not hmac.compare_digest(_exactly(away, 32), _proof(key, b"near", asked)):
                raise RunError(f"{to[0]}:{to[1]} does not know the secret")
        except (OSError, CosimError):
            away.close()
            raise
        return away, here

    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if sidecars.exists() and stat.S_ISSOCK(sidecars.stat().st_mode):
        sidecars.unlink()
    listening.bind(str(sidecars))
    sidecars.chmod(mode)
    listening.listen()
    return Trunk(listening, other)


def secret(file: Path) -> bytes:
    """The secret in a file that no other user may read. Raises `SetupError` for one that is too open or too short."""
    try:
        if file.stat().st_mode & 0o077:
            raise SetupError(f"{file} can be read by others; chmod 600 {file}")
        found = file.read_bytes().strip()
    except OSError as error:
        raise SetupError(f"{file}: {error.strerror}; make it by  openssl rand -hex 32  and copy it") from error
    return _long(found, str(file))


def secret_from_text(text: str) -> bytes:
    """A secret as it stands in COSIM_TRUNK. Raises `SetupError` for one that is too short."""
    return _long(text.strip().encode(), "COSIM_TRUNK")


def _long(found: bytes, where: str) -> bytes:
    if len(found) < LEAST:
        raise SetupError(f"{where} has {len(found)} B, fewer than {LEAST}; make it by  openssl rand -hex 32")
    return found


def _notice(link: socket.socket) -> None:
    """Have the kernel end a connection whose other machine or wire is gone, which nothing else would detect."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, SILENT // 3),
        (socket.TCP_KEEPINTVL, SILENT // 3),
        (socket.TCP_KEEPCNT, 2),
        (socket.TCP_USER_TIMEOUT, 1000 * SILENT),
    ):
        link.setsockopt(socket.IPPROTO_TCP, option, value)


def _proof(key: bytes, end: bytes, asked: bytes) -> bytes:
    return hmac.new(key, b"cosim trunk 1 " + end + asked, hashlib.sha256).digest()


def _exactly(link: socket.socket, size: int) -> bytes:
    end, found = time.monotonic() + GREETING, b""
    while len(found) < size:
        part = link.recv(size - len(found))
        if not part or time.monotonic() > end:
            raise RunError("the other end of the trunk ended the connection; is its key the same?")
        found += part
    return found


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no HOST:PORT")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stopped: exit code 0, and 2 when it cannot start."""
    parser = argparse.ArgumentParser(prog="trunk", description="nodes on several machines, one network service")
    parser.add_argument("end", choices=["near", "far"], help="near: beside the network service; far: beside sidecars")
    parser.add_argument("--listen", type=_address, default=("127.0.0.1", 5605), help="near: HOST:PORT of this machine")
    parser.add_argument("--to", type=_address, help="far: HOST:PORT of the near end")
    parser.add_argument("--sidecars", type=Path, default=Path("/run/cosim/links.sock"), help="Unix socket for sidecars")
    parser.add_argument("--mode", default="660", help="far: rights of that socket, octal")
    parser.add_argument(
        "--key", type=Path, help="file with the secret of both ends; default: COSIM_TRUNK is the secret"
    )
    options = parser.parse_args(arguments)
    if (options.end == "far") != (options.to is not None):
        parser.error("the far end, and no other, needs --to")
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        key = secret(options.key) if options.key else secret_from_text(environment.variable("COSIM_TRUNK"))
        if options.end == "near":
            trunk = near(options.listen, options.sidecars, key)
        else:
            trunk = far(options.to, options.sidecars, key, int(options.mode, 8))
    except (OSError, CosimError) as error:
        log.error("%s", error)
        return 2
    try:
        trunk.run()
    except KeyboardInterrupt:
        return 0
    finally:
        trunk.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
