"""The gateway on its sockets: one thread that carries messages between agents and a `Roster`.

Everything that others call takes a lock for as long as one message lasts, so that a tick of the run is never held
up by an agent. CURVE decides who gets in: a connection whose key is not in the folder of keys ends in the handshake.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import zmq
from zmq.utils import z85

from cosim.errors import CosimError, SetupError
from cosim.inference.limits import boot_id
from cosim.live import keys
from cosim.live.control import ControlSocket
from cosim.live.errands import Errand, Result
from cosim.live.lease import Slot, Standing
from cosim.live.protocol import MAX_MESSAGE
from cosim.live.roster import Out, Roster
from cosim.live.shaping import Link

log = logging.getLogger("cosim.live")

_IDLE = 0.05  # s between two looks at the clock
_BATCH = 64  # messages taken before everything else gets its turn
_REREAD = 1.0  # s between two looks at the folder of keys
_FAREWELL = 500  # ms for the last messages to leave


class Doorkeeper:
    """Answers ZeroMQ's questions about keys (ZAP, RFC 27): the files in a folder, looked at again as they change."""

    domain = b"cosim-live"

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], folder: Path) -> None:
        self._folder = folder
        self._allowed = keys.allowed(folder)
        self._read_at = time.monotonic()
        self.refused = 0
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind("inproc://zeromq.zap.01")

    def answer(self) -> None:
        """Answer one question."""
        parts = self.socket.recv_multipart()
        name = None
        if len(parts) == 7 and parts[2] == self.domain and parts[5] == b"CURVE" and len(parts[6]) == 32:
            self._reread()
            name = self._allowed.get(z85.encode(parts[6]).decode("ascii"))
        if name is None:
            self.refused += 1
            log.warning("a connection with an unknown key was refused")
        code, text = (b"200", b"OK") if name else (b"400", b"unknown key")
        request = parts[1] if len(parts) > 1 else b""
        self.socket.send_multipart([b"1.0", request, code, text, (name or "").encode(), b""])

    def _reread(self) -> None:
        now = time.monotonic()
        if now - self._read_at < _REREAD:
            return
        self._read_at = now
        try:
            self._allowed = keys.allowed(self._folder)
        except CosimError as error:
            log.warning("the keys stay as they were: %s", error)


class Gateway:
    """Listens at `address` for the agents of `slots`. `listen` is a ZeroMQ address; port `*` lets the system choose.

    `control` is a folder that gets `control.json`, by which `cosim nodes` finds its way. Raises `SetupError` when
    the address or the keys cannot be used.
    """

    def __init__(
        self, slots: Sequence[Slot], folder: Path, listen: str, *, queue: int = 256, control: Path | None = None
    ) -> None:
        self.roster = Roster(slots, random=os.urandom, queue=queue, boot=boot_id())
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._stopping = False
        self._failure: BaseException | None = None
        own = keys.server_key(folder)
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._door = Doorkeeper(self._zmq, folder)
            self._socket = self._listen(own, listen)
            self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
            self.public = own.public
            self._control = ControlSocket(self._zmq, control, self._command) if control is not None else None
        except BaseException:
            self._zmq.destroy(0)
            raise
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="live-gateway", daemon=True)
        self._thread.start()

    def _listen(self, own: keys.Key, listen: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._zmq.socket(zmq.ROUTER)
        socket.linger = _FAREWELL
        socket.curve_server = True
        socket.curve_publickey, socket.curve_secretkey = own.public.encode(), own.secret.encode()
        socket.zap_domain = Doorkeeper.domain
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        socket.setsockopt(zmq.RCVHWM, 128)
        socket.setsockopt(zmq.SNDHWM, 64)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        socket.setsockopt(zmq.HANDSHAKE_IVL, 5_000)
        socket.setsockopt(zmq.HEARTBEAT_IVL, 5_000)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15_000)
        socket.setsockopt(zmq.BACKLOG, 64)
        try:
            socket.bind(listen)
        except zmq.ZMQError as error:
            raise SetupError(f"live machines cannot be awaited at {listen}: {error}") from error
        return socket

    # -- called by the run -------------------------------------------------------------------

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Call `act` in the gateway's thread at `when` (s, monotonic), with the lock held."""
        with self.lock:
            heapq.heappush(self._due, (when, next(self._order), act))
        self._wake()

    def offer(self, node: str, errand: Errand) -> bool:
        """Give a task to the machine at `node`; False when it is not there or too many wait for it."""
        with self.lock:
            taken = self.roster.offer(node, errand)
        self._wake()
        return taken

    def shape(self, node: str, links: Sequence[Link]) -> None:
        """What links of the machine at `node` are to be from now on."""
        with self.lock:
            self.roster.shape(node, links)
        self._wake()

    def results(self) -> list[Result]:
        """The tasks that have ended since the last call."""
        with self.lock:
            found = list(self.roster.results)
            self.roster.results.clear()
        return found

    def standings(self) -> list[Standing]:
        """Who is where now; the caller holds `lock` while looking at what is inside."""
        self.check()
        return self.roster.standings

    def absent(self, names: Collection[str]) -> list[str]:
        """Those of the nodes `names` without a machine."""
        with self.lock:
            return [s.slot.node for s in self.roster.standings if s.slot.node in names and s.lease is None]

    def wait_for(self, names: Collection[str], seconds: float) -> list[str]:
        """Wait until all of `names` have a machine, at most `seconds`; who is still missing."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self.absent(names), timeout=seconds)
            self.check()
            return self.absent(names)

    def check(self) -> None:
        """Raise `RuntimeError` when the gateway's thread has died."""
        if self._failure is not None:
            raise RuntimeError("the gateway's thread has died") from self._failure

    @property
    def refused(self) -> int:
        """Connections whose key was unknown."""
        return self._door.refused

    def close(self, reason: str = "the run has ended") -> None:
        """Tell everybody and stop; may be called twice."""
        if self._stopping:
            return
        with self.lock:
            self._stopping = True
            self._reason = reason
        self._wake()
        self._thread.join(5.0)
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, b"!")
        except (BlockingIOError, OSError):  # it is awake already, or has ended
            return

    # -- the thread --------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._loop()
        except BaseException as failure:
            log.exception("the gateway has died")
            with self._changed:
                self._failure = failure
                self._changed.notify_all()
        finally:
            if self._control is not None:
                self._control.close()
            self._socket.close()
            self._door.socket.close()
            self._zmq.term()  # waits for the farewells, at most their linger

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._door.socket, zmq.POLLIN)
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake_out, zmq.POLLIN)
        if self._control is not None:
            poller.register(self._control.socket, zmq.POLLIN)
        ticked = 0.0
        while True:
            ready = dict(poller.poll(self._pause()))
            if self._wake_out in ready:
                os.read(self._wake_out, 4096)
            if self._door.socket in ready:
                self._door.answer()
            if self._socket in ready:
                self._receive()
            if self._control is not None and self._control.socket in ready:
                self._control.answer()
            now = time.monotonic()
            with self._changed:
                while self._due and self._due[0][0] <= now:
                    heapq.heappop(self._due)[2]()
                now = time.monotonic()
                if now - ticked >= _IDLE / 2 or self._wake_out in ready:
                    ticked = now
                    self._send(self.roster.tick(now, time.time()))
                self._changed.notify_all()
                if self._stopping:
                    self._send(self.roster.end(self._reason, now))
                    return

    def _pause(self) -> int:
        """Milliseconds until something is due."""
        with self.lock:
            due = self._due[0][0] - time.monotonic() if self._due else _IDLE
        return math.ceil(max(0.0, min(_IDLE, due)) * 1e3)

    def _receive(self) -> None:
        for _ in range(_BATCH):
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            now, wall = time.monotonic(), time.time()
            if len(parts) != 2:
                self.roster.counts["malformed"] += 1
                continue
            name = parts[1].get("User-Id")
            with self.lock:
                self._send(self.roster.receive(parts[0].bytes, str(name), parts[1].bytes, now, wall))

    def _send(self, out: Sequence[Out]) -> None:
        for peer, data in out:
            try:
                self._socket.send_multipart([peer, data], zmq.NOBLOCK)
            except zmq.ZMQError:  # gone, or its queue is full: tasks are sent again, all else is out of date by then
                self.roster.counts["not-sent"] += 1

    def _command(self, verb: str, name: str) -> Any:  # noqa: ANN401 - a JSON value
        """What the control socket asks for."""
        now = time.monotonic()
        with self.lock:
            if verb == "nodes":
                return {
                    "address": self.address,
                    "nodes": self.roster.table(now),
                    "refused_keys": self._door.refused,
                    "left_out": dict(self.roster.counts),
                }
            if verb == "evict":
                try:
                    self._send(self.roster.evict(name, now))
                except KeyError:
                    known = ", ".join(standing.slot.node for standing in self.roster.standings)
                    return {"error": f"there is no live node '{name}'; there are {known}"}
                return {"evicted": name}
        return {"error": f"there is no command '{verb}'"}
