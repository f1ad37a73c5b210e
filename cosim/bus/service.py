"""The far end of a `RemoteAdapter`: answers hello, start, step, finish and close for one adapter.

One run is served at a time; another one that knocks meanwhile is told so. When the connection of
the run is lost, its adapter is closed and the next run may come.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from cosim.bus.adapter import Adapter, Context
from cosim.bus.channel import Channel, version
from cosim.bus.frame import Array
from cosim.bus.memory import Reader, Writer
from cosim.bus.wire import PROTOCOL, Buffers, Decoder, Encoder, Head, WireError, decode, plain, seconds
from cosim.errors import AdapterError, RunError, ScenarioError, SetupError
from cosim.registry import adapter_kind

log = logging.getLogger(__name__)

FAREWELL = 1_000  # ms for the last answer to leave


@dataclass
class Session:
    """What belongs to one run: its connection, the adapter, and the tables that both ends know."""

    peer: bytes
    fd: int
    adapter: Adapter | None = None
    name: str = ""
    encoder: Encoder = field(default_factory=Encoder)
    decoder: Decoder = field(default_factory=Decoder)

    def close(self) -> None:
        """Close the adapter, once."""
        adapter, self.adapter = self.adapter, None
        if adapter is not None:
            adapter.close()


class Service:
    """Serves adapter `use` at `address`.

    `memory` are the open files of shared memory: two to read from, two to write to; empty for none.
    `root` replaces the folder of the scenario when that is elsewhere on this machine.
    """

    def __init__(self, bind: str, use: str, memory: Sequence[int] = (), root: str = "") -> None:
        self.use = use
        self._root = root
        self._session: Session | None = None
        self._scratch = contextlib.ExitStack()
        for fd in memory:
            os.set_inheritable(fd, False)
        reader = Reader((memory[0], memory[1])) if memory else None
        writer = Writer((memory[2], memory[3])) if memory else None
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._zmq.socket(zmq.ROUTER)
        self._channel = Channel(self._socket, writer, reader)
        self._lost: zmq.Socket[bytes] = self._socket.get_monitor_socket(int(zmq.EVENT_DISCONNECTED))
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._lost, zmq.POLLIN)
        try:
            self._socket.bind(bind)
        except zmq.ZMQError as error:
            self.close()
            raise SetupError(f"cannot listen on {bind}: {error}") from error
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def serve(self, *, once: bool = False) -> None:
        """Answer until told to end; with `once`, until the first run has closed its adapter."""
        while True:
            ready = dict(self._poller.poll())
            if self._lost in ready and self._disconnected() and once:
                return
            if self._socket in ready and self._answer() and once:
                return

    def close(self) -> None:
        """Close the adapter and the socket."""
        try:
            self._end()
        finally:
            self._scratch.close()
            self._socket.disable_monitor()
            self._lost.close(0)
            self._socket.close(FAREWELL)
            self._zmq.term()  # waits for the last answer to leave

    def _answer(self) -> bool:
        """Handle one message; whether it ended the session."""
        parts = self._socket.recv_multipart(copy=False)
        peer, head, had_session = parts[0].bytes, None, self._session is not None
        try:
            head, buffers = self._channel.receive(parts[1:])
            result, arrays = self._handle(peer, parts[0], head, buffers)
            self._channel.send("done", head.serial, [result, cpu_seconds()], arrays, to=(peer,))
        except Exception as error:  # the boundary of this process: whatever went wrong is told to the run
            log.exception("%s failed", head.verb if head else "a message")
            self._channel.send("failed", head.serial if head else 0, failure(error), to=(peer,))
        return had_session and self._session is None

    def _handle(self, peer: bytes, part: zmq.Frame, head: Head, buffers: Buffers) -> tuple[object, Sequence[Array]]:
        session = self._session
        if session is not None and session.peer != peer:
            raise SetupError(f"this worker is busy with adapter '{session.name or self.use}' of another run")
        if head.verb == "hello":
            if session is not None:
                raise WireError("'hello' came twice")
            self._greet(head.body)
            self._session = Session(peer, int(part.get(zmq.SRCFD)))
            return {"pid": os.getpid(), "version": version()}, ()
        if session is None:
            raise WireError(f"'{head.verb}' came before 'hello'")
        if head.verb == "close":
            self._end()
            return None, ()
        if head.verb == "start":
            self._start(session, head.body)
            return None, ()
        adapter = session.adapter
        if adapter is None:
            raise WireError(f"'{head.verb}' came before 'start'")
        if head.verb == "step":
            if type(head.body) is not list or len(head.body) != 2:
                raise WireError("the far end sent a step without time and inputs")
            inputs = session.decoder.inputs(head.body[1], buffers)
            buffers.end()
            arrays: list[Array] = []
            items = session.encoder.frames(adapter.step(seconds(head.body[0]), inputs), arrays)
            return items, arrays
        if head.verb == "finish":
            return plain(adapter.finish()), ()
        raise WireError(f"there is no '{head.verb}'")

    def _greet(self, body: object) -> None:
        if not isinstance(body, dict):
            raise WireError("the far end said no proper hello")
        if body.get("protocol") != PROTOCOL or body.get("version") != version():
            raise SetupError(
                f"the run has continuum-cosim {body.get('version')} (protocol {body.get('protocol')}), this worker "
                f"{version()} (protocol {PROTOCOL}); install the same version on both"
            )
        if body.get("use") != self.use:
            raise SetupError(f"the run asks for adapter '{body.get('use')}', this worker serves '{self.use}'")

    def _start(self, session: Session, body: object) -> None:
        if not isinstance(body, dict) or not isinstance(body.get("config"), dict):
            raise WireError("the far end sent a start without a configuration")
        if session.adapter is not None:
            raise WireError("'start' came twice")
        context = decode(Context, body.get("context"))
        session.name = context.name
        if self._root:
            context = replace(context, root=self._root)
        if not Path(context.scratch).is_dir():
            folder = self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="cosim-"))
            context = replace(context, scratch=folder)
        kind = adapter_kind(self.use)
        session.adapter = kind.build(kind.load_config().model_validate(body["config"]))
        session.adapter.start(context)

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _disconnected(self) -> bool:
        """Take note of a lost connection; whether it was that of the session."""
        event = recv_monitor_message(self._lost)
        if self._session is None or int(event["value"]) != self._session.fd:
            return False
        log.warning("the connection to the run was lost; closing adapter '%s'", self._session.name)
        try:
            self._end()
        except Exception:  # nobody is left to be told; the next run must not suffer
            log.exception("closing the adapter failed")
        return True


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def failure(error: Exception) -> dict[str, Any]:
    """What the run is told about `error`."""
    family = "adapter"
    if isinstance(error, SetupError):
        family = "setup"
    elif isinstance(error, ScenarioError):
        family = "scenario"
    elif isinstance(error, RunError) and not isinstance(error, WireError):
        family = "run"
    message = str(error)
    if not isinstance(error, AdapterError | RunError | ScenarioError):
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return {"family": family, "message": message, "traceback": "".join(traceback.format_exception(error))[-100_000:]}
