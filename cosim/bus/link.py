"""The run's end of a connection to a worker: one that it started, or one that runs elsewhere."""

from __future__ import annotations

import math
import os
import select
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import zmq

from cosim.bus.channel import Channel
from cosim.bus.messages import FROM_RUN, FROM_WORKER
from cosim.bus.process import Child
from cosim.contract.errors import SetupError
from cosim.contract.frame import Array
from cosim.talk.codec import Body, Message
from cosim.talk.columns import Buffers
from cosim.talk.keys import Key
from cosim.talk.pipe import LostError, Pipe
from cosim.talk.sockets import event


class RefusedError(Exception):
    """The worker does not let us in."""


class WorkerLink(Protocol):
    """A connection to a worker."""

    def send(self, kind: str, number: int, body: Body, arrays: Sequence[Array] = ()) -> None:
        """Send a message; the arrays must not change before it is answered. Raises `LostError`."""

    def receive(self, limit: float) -> tuple[Message, Buffers] | None:
        """The next message, None when there is none within `limit` s.

        Raises `LostError` when the connection is gone, `ProtocolError` for what is no message.
        """

    def close(self) -> None:
        """Release the connection."""


class PipeLink:
    """To a process of our own; its end counts as a loss of the connection."""

    def __init__(self, pipe: Pipe, child: Child) -> None:
        self._pipe = pipe
        self._pipe.socket.setblocking(False)
        self._child = child
        self._poll = select.poll()
        self._poll.register(pipe.socket, select.POLLIN)
        self._poll.register(child.fd, select.POLLIN)
        self.send = pipe.send

    def receive(self, limit: float) -> tuple[Message, Buffers] | None:
        message = self._pipe.arrived()
        if message is not None:
            return message
        if self._pipe.sending:
            self._poll.modify(self._pipe.socket, select.POLLIN | select.POLLOUT)
            ready = self._poll.poll(math.ceil(limit * 1e3))
            self._poll.modify(self._pipe.socket, select.POLLIN)
            self._pipe.flush()
        else:
            ready = self._poll.poll(math.ceil(limit * 1e3))
        if not ready:
            return None
        message = self._pipe.receive()
        if message is None and any(fd == self._child.fd for fd, _ in ready):
            message = self._pipe.receive()  # what it sent before it ended has arrived by now
            if message is None:
                raise LostError("the process has ended")
        return message

    def close(self) -> None:
        self._pipe.close()


class SocketLink:
    """To a worker at `address`, by ZeroMQ; with `key`, which the worker must know."""

    def __init__(self, address: str, key: Key | None = None) -> None:
        self._channel = Channel(zmq.Context.instance(), zmq.DEALER, FROM_RUN, FROM_WORKER, key)
        self._socket = self._channel.socket
        watched = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        self._lost: zmq.Socket[bytes] = self._socket.get_monitor_socket(int(watched))
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._lost, zmq.POLLIN)
        try:
            self._socket.connect(address)
        except zmq.ZMQError:
            self.close()
            raise

    def send(self, kind: str, number: int, body: Body, arrays: Sequence[Array] = ()) -> None:
        try:
            self._channel.send(kind, number, body, arrays)
        except zmq.Again:
            if self._lost.poll(0):
                self._look()
            raise

    def receive(self, limit: float) -> tuple[Message, Buffers] | None:
        ready = dict(self._poller.poll(math.ceil(limit * 1e3)))
        if self._socket in ready or self._socket.poll(0):
            return self._channel.receive(self._socket.recv_multipart(copy=False))
        if self._lost in ready:
            self._look()
        return None

    def _look(self) -> None:
        number, _ = event(self._lost)
        if number == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            raise RefusedError("the worker does not know this key")
        if number == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            raise RefusedError("the worker asks for a key, or for none: adapters.NAME.key must match it")
        raise LostError("the connection was lost")

    def close(self) -> None:
        self._socket.disable_monitor()
        self._lost.close(0)
        self._socket.close(0)


def spawn(name: str, use: str, scratch: Path) -> tuple[Child, Pipe]:
    """Start a worker for adapter `name` of kind `use`, which logs to `scratch`; raises `SetupError`."""
    scratch.mkdir(parents=True, exist_ok=True)
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-m", "cosim.bus.worker", "--adapter", use]
    command += ["--parent", str(os.getpid()), "--pipe", str(theirs.fileno())]
    env = dict(os.environ)
    if "PYTHONPATH" in env:
        command += ["--python-path", env["PYTHONPATH"]]
    env["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109 - same text
    try:
        with theirs:
            child = Child(command, scratch / "worker.log", env, (theirs.fileno(),))
    except OSError as error:
        ours.close()
        raise SetupError(f"adapter '{name}': cannot start a worker process: {error}") from error
    return child, Pipe(ours, FROM_RUN, FROM_WORKER, forward=True)
