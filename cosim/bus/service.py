"""The far end of a `RemoteAdapter`: answers hello, start, step, finish and close for one adapter.

One run is served at a time; another one that asks meanwhile gets an error. When the connection of
the run is lost, its adapter is closed.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import resource
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from cosim import version
from cosim.contract import trust
from cosim.contract.adapter import Adapter, Context, json_value
from cosim.contract.entities import Scene
from cosim.contract.errors import (
    AdapterError,
    ProtocolError,
    RunError,
    ScenarioError,
    SetupError,
    by_signal,
    error_line,
)
from cosim.contract.frame import Array
from cosim.contract.registry import adapter_kind
from cosim.talk.codec import Body, Message
from cosim.talk.columns import Buffers, Decoder, Encoder, decode
from cosim.talk.pipe import LostError, Pipe

log = logging.getLogger(__name__)

_PATIENCE = 2.0  # s between the hello of a run and the start of its adapter, while others want the place

Send = Callable[[str, int, Body, Sequence[Array]], None]  # kind, number, body, arrays


@dataclass
class RunSession:
    """What belongs to one run: its connection, the adapter, and the tables that both ends know."""

    peer: bytes
    since: float = field(default_factory=time.monotonic)  # of its hello
    adapter: Adapter | None = None
    name: str = ""
    encoder: Encoder = field(default_factory=Encoder)
    decoder: Decoder = field(default_factory=Decoder)

    def close(self) -> None:
        """Close the adapter, once."""
        adapter, self.adapter = self.adapter, None
        if adapter is not None:
            adapter.close()


class AdapterService:
    """Answers the messages of a run, wherever they come from, for an adapter of kind `use`.

    `root` replaces the folder of the scenario when that is elsewhere on this machine. `fixed` are values of the
    adapter's configuration that override those of the run. A run that is not `trusted` may only read files in `root`
    and set nothing that reaches beyond it (`cosim.contract.trust`): commands, code and addresses must be in `fixed`.
    """

    def __init__(
        self, use: str, root: str = "", fixed: Mapping[str, Any] = MappingProxyType({}), *, trusted: bool = True
    ) -> None:
        self.use = use
        self.session: RunSession | None = None
        self._root, self._fixed, self._trusted = root, fixed, trusted
        self._scratch = contextlib.ExitStack()
        self._pid = os.getpid()

    def answer(self, peer: bytes, read: Callable[[], tuple[Message, Buffers]], send: Send) -> bool:
        """Answer the message of `peer` that `read` returns with `send`; whether that ended the session."""
        head, had_session = None, self.session is not None
        try:
            head, buffers = read()
            result, arrays = self._handle(peer, head, buffers)
            self._leave_forked()
            send("done", head.number, {"result": result, "cpu": cpu_seconds()}, arrays)
        except LostError:
            raise
        except BaseException as error:  # the boundary of this process: every failure is reported to the run
            self._leave_forked()
            if by_signal(error):
                raise
            log.exception("%s failed", head.kind if head else "a message")
            send("failed", head.number if head else 0, failure(error), ())
        return had_session and self.session is None

    def _leave_forked(self) -> None:
        """End this process if the adapter has made it by a fork: the run is answered once."""
        if os.getpid() != self._pid:
            os._exit(1)

    def lost(self) -> None:
        """Close the adapter because the connection to its run was lost."""
        if self.session is None:
            return
        log.warning("the connection to the run was lost; closing adapter '%s'", self.session.name)
        try:
            self._end()
        except Exception:  # no run is left to report it to; the next one must not suffer
            log.exception("closing the adapter failed")

    def close(self) -> None:
        """Close the adapter."""
        try:
            self._end()
        finally:
            self._scratch.close()

    def _handle(self, peer: bytes, head: Message, buffers: Buffers) -> tuple[object, Sequence[Array]]:
        session = self.session
        if session is not None and session.adapter is None and time.monotonic() - session.since > _PATIENCE:
            session = self.session = None  # greeted, and started nothing
        if session is not None and session.peer != peer:
            raise SetupError(f"this worker is busy with adapter '{session.name or self.use}' of another run")
        if head.kind == "hello":
            if session is not None:
                raise ProtocolError("'hello' came twice")
            self._greet(head.body)
            self.session = RunSession(peer)
            return {"pid": os.getpid(), "version": version()}, ()
        if session is None:
            raise ProtocolError(f"'{head.kind}' came before 'hello'")
        if head.kind == "close":
            self._end()
            return None, ()
        if head.kind == "start":
            self._start(session, head.body)
            return None, ()
        adapter = session.adapter
        if adapter is None:
            raise ProtocolError(f"'{head.kind}' came before 'start'")
        if head.kind == "step":
            inputs = session.decoder.inputs(head.body["inputs"], buffers)
            buffers.end()
            arrays: list[Array] = []
            items = session.encoder.frames(adapter.step(float(head.body["time"]), inputs), arrays)
            return items, arrays
        return json_value(adapter.finish()), ()  # "finish" is all that is left

    def _greet(self, body: Body) -> None:
        if body["version"] != version():
            raise SetupError(
                f"the run has continuum-cosim {body['version']}, this worker {version()}; install the same version on "
                "both"
            )
        if body["use"] != self.use:
            raise SetupError(f"the run asks for adapter '{body['use']}', this worker serves '{self.use}'")

    def _start(self, session: RunSession, body: Body) -> None:
        if session.adapter is not None:
            raise ProtocolError("'start' came twice")
        context = decode(Context, body["context"])
        session.name = context.name
        if self._root:
            context = replace(context, root=self._root)
        if not Path(context.scratch).is_dir():
            folder = self._scratch.enter_context(tempfile.TemporaryDirectory(prefix="cosim-"))
            context = replace(context, scratch=folder)
        kind = adapter_kind(self.use)
        model = kind.load_config()
        given = {key: value for key, value in body["config"].items() if key not in ("connect", "key")}
        if not self._trusted:
            self._refuse(model, given, context.scene)
        session.adapter = kind.build(model.model_validate(merged(given, self._fixed)))
        session.adapter.start(context)

    def _refuse(self, model: type[BaseModel], given: Mapping[str, Any], scene: Scene) -> None:
        """Raise `SetupError` when the run gives what only the owner of this machine may."""
        root, own = Path(self._root), merged({}, self._fixed)
        found = list(trust.refused(model, given, root))
        rules = [load.agreement.rule for load in scene.workloads if load.agreement is not None]
        found += [(("workloads", "sla", "per"), f"is the code '{rule}'") for rule in rules if ":" in rule]
        reasons = [
            f"'{_dotted(keys)}' {what}; fix it by --set {_dotted(keys)}=VALUE"
            for keys, what in found
            if _value(own, keys) is None
        ]
        if reasons:
            raise SetupError(f"only the owner of this worker may say this: {' · '.join(reasons)}")

    def _end(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()


def serve_pipe(service: AdapterService, pipe: Pipe) -> None:
    """Answer the run at the other end of `pipe`, which waits, until it has closed the adapter or is gone."""

    def read() -> tuple[Message, Buffers]:
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


def failure(error: BaseException) -> dict[str, Any]:
    """The report of `error` for the run."""
    family = "adapter"
    if isinstance(error, SetupError):
        family = "setup"
    elif isinstance(error, ScenarioError):
        family = "scenario"
    elif isinstance(error, RunError) and not isinstance(error, ProtocolError):
        family = "run"
    known = isinstance(error, AdapterError | RunError | ScenarioError)
    message = str(error) if known else error_line(error)
    return {"family": family, "message": message, "traceback": "".join(traceback.format_exception(error))[-100_000:]}


def merged(given: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the values of `fixed`, by dotted keys, in the place of its own."""
    found = copy.deepcopy(dict(given))
    for path, value in fixed.items():
        *blocks, last = path.split(".")
        block = found
        for name in blocks:
            if not isinstance(block.get(name), dict):
                block[name] = {}
            block = block[name]
        block[last] = value
    return found


def _value(data: object, keys: trust.Keys) -> object:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _dotted(keys: trust.Keys) -> str:
    return ".".join(map(str, keys))
