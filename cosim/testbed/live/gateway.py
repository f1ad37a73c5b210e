"""The gateway on its sockets: one thread that carries messages between agents and a `Roster`.

Everything that others call takes a lock for as long as one message lasts, so that a tick of the run is never held
up by an agent. CURVE decides who gets in: a connection whose key is not in the folder of keys ends in the handshake,
and the doorkeeper bounds how many may be in theirs.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import zmq

from cosim.talk.control import ControlSocket, new_token
from cosim.talk.doorkeeper import Limits
from cosim.talk.sockets import Door, each
from cosim.testbed.inference.limits import boot_id
from cosim.testbed.live.lease import NodeSlot, SlotStanding
from cosim.testbed.live.protocol import MAX_MESSAGE
from cosim.testbed.live.roster import Out, Roster
from cosim.testbed.live.shaping import Impairment
from cosim.testbed.live.task_queue import QueuedTask, TaskResult

log = logging.getLogger("cosim.testbed.live")

_IDLE = 0.05  # s between two looks at the clock
_BATCH = 64  # messages taken before everything else gets its turn
_FAREWELL = 500  # ms for the last messages to leave


class Gateway:
    """Listens for the agents of `slots` at `doors`: each has a folder of keys and a ZeroMQ address, whose port may be
    `*` for the system to choose. `addresses` are theirs, in the same order; a slot names the door of its machine.

    `control` is a folder that gets `control.json`, by which `cosim nodes` finds the gateway. Raises `SetupError` when
    an address or keys cannot be used.
    """

    def __init__(
        self, slots: Sequence[NodeSlot], doors: Sequence[tuple[Path, str]], *, queue: int = 256,
        control: Path | None = None,
    ) -> None:  # fmt: skip
        self.roster = Roster(slots, random=os.urandom, queue=queue, boot=boot_id())
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._stopping = False
        self._failure: BaseException | None = None
        self._unsent: list[Out] = []  # by other threads
        limits = Limits(connections=2 * len(slots) + 16)  # a machine that comes back may still have its old one
        self._doors: list[Door] = []
        try:
            for number, (folder, listen) in enumerate(doors):
                needed = sum(slot.door == number for slot in slots)
                self._doors.append(Door(listen, MAX_MESSAGE, limits, folder=folder, needed=needed))
            self._control = None if control is None else self._controlled(control)
        except BaseException:
            self._shut()
            raise
        self.addresses = [door.address for door in self._doors]
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="live-gateway", daemon=True)
        self._thread.start()

    def _controlled(self, folder: Path) -> ControlSocket:
        return ControlSocket(self._command, new_token(), verbs=("nodes", "evict"), folder=folder)

    # -- called by the run -------------------------------------------------------------------

    def at(self, when: float, act: Callable[[], object]) -> None:
        """Call `act` in the gateway's thread at `when` (s, monotonic), with the lock held."""
        with self.lock:
            heapq.heappush(self._due, (when, next(self._order), act))
        self._wake()

    def catch_up(self, until: float) -> None:
        """Call at once what is due by `until` (s, monotonic) and was not called yet; the caller holds `lock`."""
        while self._due and self._due[0][0] <= until:
            heapq.heappop(self._due)[2]()

    def offer(self, node: str, queued: QueuedTask) -> bool:
        """Give a task to the machine at `node`; False when it is not there or too many wait for it."""
        with self.lock:
            taken = self.roster.offer(node, queued)
        self._wake()
        return taken

    def shape(self, node: str, links: Sequence[Impairment]) -> None:
        """What links of the machine at `node` are to be from now on."""
        with self.lock:
            self.roster.shape(node, links)
        self._wake()

    def results(self) -> list[TaskResult]:
        """The tasks that have ended since the last call."""
        with self.lock:
            found = list(self.roster.results)
            self.roster.results.clear()
        return found

    def standings(self) -> list[SlotStanding]:
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
        return sum(door.refused for door in self._doors)

    def close(self, reason: str = "the run has ended") -> None:
        """Notify all agents and stop; may be called twice."""
        if self._stopping:
            return
        if self._control is not None:
            self._control.close()
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
            self._shut(_FAREWELL)

    def _shut(self, linger: int = 0) -> None:
        for door in self._doors:
            door.close(linger)

    def _loop(self) -> None:
        poller = zmq.Poller()
        takes = {door.socket: functools.partial(self._take, number) for number, door in enumerate(self._doors)}
        for socket in takes:
            poller.register(socket, zmq.POLLIN)
        poller.register(self._wake_out, zmq.POLLIN)
        ticked = 0.0
        while True:
            ready = dict(poller.poll(self._pause()))
            if self._wake_out in ready:
                os.read(self._wake_out, 4096)
            for socket, take in takes.items():
                if socket in ready:
                    each(socket, _BATCH, take)
            now = time.monotonic()
            with self._changed:
                self.catch_up(now)
                self._send(self._unsent)
                self._unsent.clear()
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

    def _take(self, door: int, parts: Sequence[zmq.Frame]) -> None:
        now, wall = time.monotonic(), time.time()
        if len(parts) != 2:
            self.roster.counts["malformed"] += 1
            return
        name = parts[1].get("User-Id")
        with self.lock:
            peer = bytes((door,)) + parts[0].bytes
            self._send(self.roster.receive(peer, str(name), parts[1].bytes, now, wall, door))

    def _send(self, out: Sequence[Out]) -> None:
        for peer, data in out:
            try:
                self._doors[peer[0]].socket.send_multipart([peer[1:], data], zmq.NOBLOCK)
            except zmq.ZMQError:  # gone, or its queue is full: tasks are sent again, all else is out of date by then
                self.roster.counts["not-sent"] += 1

    def _command(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the control socket asks for, in its thread."""
        now = time.monotonic()
        with self.lock:
            if verb == "nodes":
                return {
                    "address": self.addresses[-1], "nodes": self.roster.table(now), "refused_keys": self.refused,
                    "turned_away": sum(door.turned_away for door in self._doors),
                    "left_out": dict(self.roster.counts),
                }  # fmt: skip
            name = str(arguments.get("node", ""))
            try:
                self._unsent += self.roster.evict(name, now)
            except KeyError:
                known = ", ".join(standing.slot.node for standing in self.roster.standings)
                raise ValueError(f"there is no live node '{name}'; there are {known}") from None
        self._wake()
        return {"evicted": name}
