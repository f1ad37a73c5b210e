"""The agent: a machine's side of a run, in one small process. It dials out and opens no port.

Needs pyzmq and msgpack besides Python; psutil where there is no /proc. It keeps looking for its gateway until it is
stopped (SIGTERM, Ctrl-C, the end of its terminal), which gives the slot back, or until it is evicted.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from cosim.contract.errors import SetupError
from cosim.talk import keys
from cosim.talk.codec import Body
from cosim.talk.sockets import bounded, dial, event
from cosim.testbed.inference.limits import boot_id
from cosim.testbed.live.member import SILENT, AgentSession
from cosim.testbed.live.meters import MachineMeters, PowerLine, clock_rate, cores
from cosim.testbed.live.position import Position, position
from cosim.testbed.live.protocol import MAX_MESSAGE, MAX_TASKS
from cosim.testbed.live.shaping import Keeper, Shaper
from cosim.testbed.live.work import LOCAL, local
from cosim.testbed.live.worker_pool import WorkerPool

log = logging.getLogger("cosim.attach")

_IDLE = 0.1  # s between two looks at the clock
_FAREWELL = 1_000  # ms for the last messages to leave
_WATCHED = int(
    zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


@dataclass(frozen=True)
class Options:
    """What an agent does, as its owner allows."""

    key: Path
    server: str  # tcp://HOST:PORT, ipc://PATH
    node: str = ""  # "": the only slot of the key
    server_key: str = ""  # Z85; "": the one in the key file
    position: str = ""
    concurrency: int = 0  # tasks at once, 0: one per core
    waiting: int = 0  # further tasks that are taken, 0: as many as run
    tasks: bool = True
    forward: str = ""  # service on loopback for the work `forward`; tasks may name one of its kernels
    calls: tuple[str, ...] = ()  # networks (CIDR) of nodes whose services tasks of the work `call` may ask
    cores: int = 0  # that this node has, 0: all of the machine
    shares: bool = False  # the machine with other nodes: reports are of the processes in its network namespace
    clock: float = 0.0  # cycles/s, 0: as the machine reports it
    power: PowerLine | None = None  # for a machine without a meter
    shaper: Shaper | None = None  # shapes links when the gateway asks; None: not allowed
    version: str = field(default="")


def prepare(options: Options) -> tuple[keys.Key, Body]:
    """The key and the contents of a hello. Raises `SetupError` for values that cannot be used."""
    key = keys.read(options.key)
    server = options.server_key or key.server
    if not server:
        raise SetupError(f"{options.key} does not hold the server's public key: give --server-key server.pub")
    known = options.server.startswith("tcp://") and options.server.rpartition(":")[2].isdigit()
    if not known and not options.server.startswith("ipc:///"):
        raise SetupError(f"'{options.server}' is no address of a server: tcp://HOST:PORT")
    if options.concurrency < 0 or options.waiting < 0:
        raise SetupError("a number of tasks is not negative")
    works = [*LOCAL, *(["forward"] if local_service(options.forward) else []), *(["call"] if options.calls else [])]
    works = works if options.tasks else []
    count = options.concurrency or options.cores or cores()
    facts = {
        "node": options.node, "agent": options.version[:40], "cores": options.cores or cores(),
        "clock": options.clock or clock_rate(), "boot": boot_id()[:40], "works": works,
        "window": min(MAX_TASKS, count + (options.waiting or count)) if options.tasks else 0,
        "shaping": options.shaper.ability if options.shaper is not None else "none",
    }  # fmt: skip
    return keys.Key(key.name, key.public, key.secret, server), facts


def local_service(service: str) -> str:
    """`service` if it is one of this machine, "" for none. Raises `SetupError`."""
    return local(service) if service else ""


def survey(options: Options) -> dict[str, Any]:
    """What would be sent, without connecting: the facts and one report."""
    key, facts = prepare(options)
    meters, where = MachineMeters(model=options.power), position(options.position)
    try:
        time.sleep(0.5)  # shares and powers are means over this time
        return {"key": key.name, **facts, "report": {**meters.read(), "position": where.place()}}
    finally:
        where.close()


class Agent:
    """An agent that has not started yet; `run` returns the exit code."""

    def __init__(self, options: Options) -> None:
        self._key, facts = prepare(options)
        self._options = options
        self._where: Position = position(options.position)
        self._meters = MachineMeters(model=options.power, cores=(options.cores or cores()) if options.shares else 0)
        self._member = AgentSession(facts, random=os.urandom, jitter=random.SystemRandom().random)
        self._shaping = Keeper(options.shaper)
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = ""
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._pool: WorkerPool | None = None
        self._clock = float(facts["clock"])
        self._said = ("", "")

    def stop(self, reason: str) -> None:
        """Give the slot back and end; safe in signal handlers."""
        self._stopping = self._stopping or reason
        self._wake()

    def run(self) -> int:
        """Serve until stopped (0) or evicted (1)."""
        options = self._options
        if options.tasks:
            count = options.concurrency or options.cores or cores()
            self._pool = WorkerPool(count, self._clock, options.forward, self._wake, options.calls)
        try:
            while not self._stopping and self._member.state != "evicted":
                self._turn()
                self._report_state()
            end = time.monotonic() + _FAREWELL / 1e3
            while self._member.state == "asking" and time.monotonic() < end:
                self._turn()  # a slot that was just given must be given back
            self._send(self._member.leave(self._stopping or "evicted"))
            return 0 if self._stopping else 1
        finally:
            self._shaping.close()
            if self._pool is not None:
                self._pool.close()
            self._where.close()
            self._disconnect(_FAREWELL)
            self._zmq.term()
            os.close(self._wake_in)
            os.close(self._wake_out)

    def _turn(self) -> None:
        member = self._member
        if member.hello_due(time.monotonic()):
            self._connect()
            self._send([member.hello(time.monotonic())])
        poller = zmq.Poller()
        poller.register(self._wake_out, zmq.POLLIN)
        for socket in (self._socket, self._monitor):
            if socket is not None:
                poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(int(_IDLE * 1e3)))
        if self._wake_out in ready:
            os.read(self._wake_out, 4096)
        if self._socket is not None and self._socket in ready:
            self._receive(self._socket)
        if self._monitor is not None and self._monitor in ready:
            self._look_at_connection(self._monitor)
        self._work()
        self._send(member.tick(time.monotonic()))
        if member.report_due(time.monotonic()):
            now = time.monotonic()
            reading = {**self._meters.read(), "position": self._where.place(), **self._shaping.report(now)}
            self._send(member.report(reading, time.monotonic()))
        if member.state == "seeking":
            self._disconnect(0)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        for _ in range(64):
            try:
                parts = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(parts) == 1:
                self._send(self._member.receive(parts[0], time.monotonic(), time.time()))

    def _work(self) -> None:
        """Hand tasks to the pool and their results to the gateway."""
        member, pool = self._member, self._pool
        while member.shapes:
            self._shaping.take(member.shapes.popleft())
        self._shaping.act(time.monotonic())
        if pool is None:
            return
        while member.cancelled:
            pool.cancel(member.cancelled.popleft())
        while member.starting:
            pool.submit(member.starting.popleft())
        for task in pool.begun():
            member.started(task)
        while not pool.done.empty():
            done = pool.done.get()
            self._send(
                member.finished(
                    done.task, done.status, time.monotonic(), started=done.started, computed=done.computed,
                    uploaded=done.uploaded, answered=done.answered, output=done.output, detail=done.detail,
                )
            )  # fmt: skip

    def _connect(self) -> None:
        """A new socket, so that nothing of the last session is left in a queue."""
        self._disconnect(0)
        self._socket = socket = bounded(self._zmq, zmq.DEALER, MAX_MESSAGE, waiting=(128, 256), key=self._key)
        socket.setsockopt(zmq.RECONNECT_IVL, -1)  # we try again ourselves
        self._monitor = socket.get_monitor_socket(_WATCHED)
        try:
            dial(socket, self._options.server)
        except SetupError:
            self._monitor.close(0)
            self._monitor = self._socket = None
            raise

    def _disconnect(self, linger: int) -> None:
        if self._monitor is not None and self._socket is not None:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._monitor = None
        if self._socket is not None:
            self._socket.close(linger)
            self._socket = None

    def _look_at_connection(self, monitor: zmq.Socket[bytes]) -> None:
        number, _ = event(monitor, zmq.NOBLOCK)
        reason = "the connection was lost"
        if self._member.state == "asking":
            reason = SILENT
        if number == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            reason = "the server refuses this key: its .pub file must be in the folder of keys"
        elif number == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            reason = "the server is no gateway"
        self._member.lost(reason, time.monotonic())

    def _send(self, messages: list[bytes]) -> None:
        for data in messages:
            if self._socket is not None:
                try:
                    self._socket.send(data, zmq.NOBLOCK)
                except zmq.ZMQError:
                    log.warning("the way to the server is blocked")

    def _report_state(self) -> None:
        """Log what has changed, once."""
        member = self._member
        now = (member.state, member.said)
        if now == self._said or member.state == "asking":
            return
        self._said = now
        if member.state == "attached":
            log.info("attached as '%s'", member.node)
        else:
            log.warning("%s: %s", member.state, (member.said or "not attached").removeprefix(f"{member.state}: "))

    def _wake(self) -> None:
        try:
            os.write(self._wake_in, b"!")
        except OSError:  # awake already, or closed
            return


def run(options: Options) -> int:
    """Run an agent in the main thread until SIGTERM, Ctrl-C or the end of its terminal; its exit code."""
    agent = Agent(options)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # nohup
        signal.signal(number, lambda caught, _: agent.stop(signal.Signals(caught).name))
    return agent.run()
