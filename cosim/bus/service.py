"""The far end of a `RemoteAdapter`: answers hello, start, step, finish and close for one adapter.

One run is served at a time; another one that knocks meanwhile is told so. When the connection of
the run is lost, its adapter is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cosim.bus.adapter import Adapter, Context
from cosim.bus.frame import Array
from cosim.bus.pipe import LostError, Pipe
from cosim.bus.wire import (
    PROTOCOL,
    Buffers,
    Decoder,
    Encoder,
    Head,
    WireError,
    decode,
    plain,
    seconds,
    version,
)
from cosim.errors import AdapterError, RunError, ScenarioError, SetupError
from cosim.registry import adapter_kind

log = logging.getLogger(__name__)

Send = Callable[[str, int, object, Sequence[Array]], None]  # verb, serial number, body, arrays


@dataclass
class Session:
    """What belongs to one run: its connection, the adapter, and the tables that both ends know."""

    peer: bytes
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
    """Answers the messages of a run, wherever they come from, for an adapter of kind `use`.

    `root` replaces the folder of the scenario when that is elsewhere on this machine.
    """

    def __init__(self, use: str, root: str = "") -> None:
        self.use = use
        self.session: Session | None = None
        self._root = root
        self._scratch = contextlib.ExitStack()

    def answer(self, peer: bytes, read: Callable[[], tuple[Head, Buffers]], send: Send) -> bool:
        """Answer the message of `peer` that `read` returns with `send`; whether that ended the session."""
        head, had_session = None, self.session is not None
        try:
            head, buffers = read()
            result, arrays = self._handle(peer, head, buffers)
            send("done", head.serial, [result, cpu_seconds()], arrays)
        except LostError:
            raise
        except Exception as error:  # the boundary of this process: whatever went wrong is told to the run
            log.exception("%s failed", head.verb if head else "a message")
            send("failed", head.serial if head else 0, failure(error), ())
        return had_session and self.session is None

    def lost(self) -> None:
        """Close the adapter because the connection to its run was lost."""
        if self.session is None:
            return
        log.warning("the connection to the run was lost; closing adapter '%s'", self.session.name)
        try:
            self._end()
        except Exception:  # nobody is left to be told; the next run must not suffer
            log.exception("closing the adapter failed")

    def close(self) -> None:
        """Close the adapter."""
        try:
            self._end()
        finally:
            self._scratch.close()

    def _handle(self, peer: bytes, head: Head, buffers: Buffers) -> tuple[object, Sequence[Array]]:
        session = self.session
        if session is not None and session.peer != peer:
            raise SetupError(f"this worker is busy with adapter '{session.name or self.use}' of another run")
        if head.verb == "hello":
            if session is not None:
                raise WireError("'hello' came twice")
            self._greet(head.body)
            self.session = Session(peer)
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
        session, self.session = self.session, None
        if session is not None:
            session.close()


def serve_pipe(service: Service, pipe: Pipe) -> None:
    """Answer the run at the other end of `pipe`, which waits, until it has closed the adapter or is gone."""

    def read() -> tuple[Head, Buffers]:
        message = pipe.receive()
        assert message is not None
        return message

    try:
        while not service.answer(b"", read, pipe.send):
            pass
    except LostError:
        service.lost()


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
