"""An adapter that runs in another process, used like any other adapter.

`RemoteAdapter` starts a worker process of its own, or connects to a worker that runs elsewhere, and
passes every call on: one round trip per step, with the inputs out and the frames back. Every wait
has a limit. When it expires, the error names both ends, the time waited and the state of the far
end. Exceptions of the far end come back with their traceback. Closing always ends
a process that was started here, with everything that it started itself.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import zmq

from cosim import version
from cosim.bus.link import PipeLink, RefusedError, SocketLink, WorkerLink, spawn
from cosim.bus.process import Child
from cosim.contract.adapter import Context, Inputs, Summary, json_value
from cosim.contract.block import as_plain
from cosim.contract.errors import AdapterError, ProtocolError, RunError, ScenarioError, SetupError
from cosim.contract.frame import Array, Frame
from cosim.talk import keys
from cosim.talk.codec import Anything, Body, Message, TableOf
from cosim.talk.columns import Buffers, Decoder, Encoder, expect
from cosim.talk.pipe import LostError

log = logging.getLogger(__name__)

SLICE = 0.5  # s between two looks at the far end while waiting for it
CLOSE_LIMIT = 10.0  # s for a polite end
KILL_LIMIT = 2.0  # s between SIGTERM and SIGKILL
LAST_WORDS = 1.0  # s between the loss of the connection to a process and its end
_SUMMARY = TableOf(Anything(), 1 << 20)


class RemoteAdapter:
    """Adapter `name` of kind `use` in a process of its own, or at the worker at address `connect`.

    `config` is the adapter's block of the scenario as JSON values, `timeout` the limit in s of every wait for the far
    end, `key` the file with the private key that the worker at `connect` asks for. Columns go through shared memory to
    a process of our own, and as ZeroMQ messages otherwise.
    """

    def __init__(
        self,
        name: str,
        use: str,
        config: Mapping[str, Any],
        *,
        timeout: float,
        connect: str = "",
        key: str = "",
    ) -> None:
        self.name = name
        self.use = use
        self.timeout = timeout
        self.connect = connect
        self._key = key
        self.cpu_seconds = 0.0  # of the far end so far, as of its last answer
        self.pid = 0  # of the far end, once it has answered
        self._config = json_value(config, "config")
        self._open = contextlib.ExitStack()
        self._child: Child | None = None
        self._link: WorkerLink | None = None
        self._encoder, self._decoder = Encoder(), Decoder()
        self._serial = 0
        self._asked: list[tuple[str, int, float, float | None]] = []  # verb, serial, when, simulated time
        self._failed = self._closed = False

    # -- the adapter contract ------------------------------------------------------------------

    def start(self, context: Context) -> None:
        """Start the far end and wait until its adapter is ready."""
        self.begin_start(context)
        self.end_start()

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Advance the far end to `time` (s)."""
        self.begin_step(time, inputs)
        return self.end_step()

    def finish(self) -> Summary:
        """The far end's summary; a step that was begun and not ended is ended first."""
        if self._asked:
            self.end_step()
        self._ask("finish")
        found = self._result("finish")[0]
        expect(_SUMMARY(found), "a summary is not a mapping of texts")
        return cast("Summary", found)

    def close(self) -> None:
        """End the far end: politely, then by SIGTERM, then by SIGKILL if it is a process of ours."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._link is not None and not self._failed and self.pid:
                self._say_goodbye()
        finally:
            self._open.close()
            self._link = None

    # -- the same in halves, so that several far ends can work at the same time ------------------

    def begin_start(self, context: Context) -> None:
        """Start the far end without waiting for it."""
        if self._link is not None or self._closed:
            raise RuntimeError(f"adapter '{self.name}' was started before")
        self._link = self._connect(context)
        self._open.callback(self._link.close)
        self._ask("hello", {"version": version(), "use": self.use})
        self._ask("start", {"config": self._config, "context": as_plain(context)})

    def end_start(self) -> None:
        """Wait until the far end's adapter is ready."""
        hello, _ = self._result("hello")
        if not isinstance(hello, dict) or type(hello.get("pid")) is not int:
            self._fail("start", None, "the far end said no proper hello")
        self.pid = hello["pid"]
        self._result("start")

    def begin_step(self, time: float, inputs: Inputs) -> None:
        """Send a step without waiting for its frames; the inputs must not change before `end_step`."""
        if self._asked:
            raise RuntimeError(f"adapter '{self.name}' has not ended its last step")
        arrays: list[Array] = []
        item = self._encoder.inputs(inputs, arrays)
        self._ask("step", {"time": float(time), "inputs": item}, arrays, at=float(time))

    def end_step(self) -> Sequence[Frame]:
        """The frames of the step that was begun."""
        at = self._asked[0][3] if self._asked else None
        items, buffers = self._result("step")
        try:
            frames = self._decoder.frames(items, buffers)
            buffers.end()
        except ProtocolError as error:
            self._fail("step", at, str(error), cause=error)
        return frames

    # -- the connection ------------------------------------------------------------------------

    def _connect(self, context: Context) -> WorkerLink:
        if not self.connect:
            child, pipe = spawn(self.name, self.use, Path(context.scratch))
            self._child = child
            self._open.callback(child.stop, KILL_LIMIT)
            return PipeLink(pipe, child)
        proof = keys.read(context.path(self._key)) if self._key else None
        try:
            return SocketLink(self.connect, proof)
        except zmq.ZMQError as error:
            raise SetupError(f"adapter '{self.name}': cannot connect to '{self.connect}': {error}") from error

    def _ask(self, verb: str, body: Body | None = None, arrays: Sequence[Array] = (), at: float | None = None) -> None:
        if self._link is None or self._failed:
            raise RuntimeError(f"adapter '{self.name}' is not running")
        self._serial += 1
        self._asked.append((verb, self._serial, time.monotonic(), at))
        try:
            self._link.send(verb, self._serial, body or {}, arrays)
        except zmq.Again:
            self._fail(_phase(verb), at, f"cannot send '{verb}': {self._far_end()} takes no messages")
        except RefusedError as error:
            self._refused(error)
        except LostError:
            pass  # the caller that waits for the answer reports how the far end ended

    def _result(self, verb: str, limit: float | None = None) -> tuple[object, Buffers]:
        """What the far end answered to the oldest question, which was `verb`."""
        if not self._asked or self._asked[0][0] != verb:
            raise RuntimeError(f"adapter '{self.name}' was not asked to {verb}")
        _, serial, asked, at = self._asked[0]
        head, buffers = self._wait(verb, asked, at, self.timeout if limit is None else limit)
        self._asked.pop(0)  # not before: when Ctrl-C ends the wait, the answer is still to come
        if head.number != serial:
            self._fail(_phase(verb), at, f"the far end answered '{head.kind}' {head.number} to '{verb}' {serial}")
        if head.kind == "failed":
            self._raise(_phase(verb), at, head.body)
        self.cpu_seconds = float(head.body["cpu"])
        return head.body["result"], buffers

    def _wait(self, verb: str, asked: float, at: float | None, limit: float) -> tuple[Message, Buffers]:
        assert self._link is not None
        cpu = None
        while True:
            left = asked + limit - time.monotonic()
            lost = False
            try:
                message = self._link.receive(max(min(left, SLICE), 0.0))
                if message is not None:
                    return message
            except ProtocolError as error:
                self._fail(_phase(verb), at, str(error), cause=error)
            except RefusedError as error:
                self._refused(error)
            except LostError:
                lost = True
            waited = f"the run waited {time.monotonic() - asked:.3g} s for {self._far_end()} to answer '{verb}'"
            child = self._child
            if child is not None and (lost or not child.alive()):
                child.wait(LAST_WORDS)  # it may be ending right now
                self._fail(_phase(verb), at, f"{waited}, but the process {child.state()}")
            if lost and self.pid:
                self._fail(_phase(verb), at, f"{waited}, but the connection was lost")
            if left <= 0.0:
                self._expired(verb, at, waited, cpu)
            cpu = child.cpu_seconds() if child is not None and cpu is None else cpu

    def _expired(self, verb: str, at: float | None, waited: str, cpu: float | None) -> NoReturn:
        if self._child is not None:
            used = "" if cpu is None else f" and used {self._child.cpu_seconds() - cpu:.2f} s of CPU meanwhile"
            self._fail(_phase(verb), at, f"{waited}; the process {self._child.state()}{used} (limit: run.timeout)")
        if verb == "hello":
            self._failed = True
            raise SetupError(
                f"adapter '{self.name}': {waited}; it is not running, or busy. Start one with: "
                f"python -m cosim.bus.worker --adapter {self.use} --bind {self.connect}"
            )
        self._fail(_phase(verb), at, f"{waited}; the connection is up (limit: run.timeout)")

    def _refused(self, error: RefusedError) -> NoReturn:
        self._failed = True
        raise SetupError(f"adapter '{self.name}': {self._far_end()} does not let this run in: {error}") from error

    def _far_end(self) -> str:
        if self._child is not None:
            return f"process {self._child.pid} ({self.use})"
        return f"the worker at {self.connect} ({self.use})"

    def _fail(self, phase: str, at: float | None, message: str, cause: Exception | None = None) -> NoReturn:
        """Raise for a far end that cannot be used any more."""
        self._failed = True
        self._asked.clear()
        if self._child is not None:
            tail = self._child.log_tail()
            message += f"; its log {self._child.log} ends with:\n{tail}" if tail else "; it wrote no log"
        raise AdapterError(message, adapter=self.name, phase=phase, time=at) from cause

    def _raise(self, phase: str, at: float | None, body: Body) -> NoReturn:
        """Raise what the far end reported."""
        message, family = body["message"], body["family"]
        if family in ("setup", "scenario", "run"):
            error: type[RunError | ScenarioError] = {"setup": SetupError, "scenario": ScenarioError}.get(
                family, RunError
            )
            raise error(f"adapter '{self.name}' in {self._far_end()}: {message}")
        raise AdapterError(message, adapter=self.name, phase=phase, time=at, remote_traceback=body["traceback"])

    def _say_goodbye(self) -> None:
        limit = min(self.timeout, CLOSE_LIMIT)
        self._ask("close")
        end = time.monotonic() + limit
        while self._asked:  # steps that were begun and not ended are answered first
            verb = self._asked[0][0]
            left = end - self._asked[0][2]
            with contextlib.nullcontext() if verb == "close" else contextlib.suppress(AdapterError, RunError):
                self._result(verb, left)
        if self._child is not None:
            self._child.wait(limit)


def _phase(verb: str) -> str:
    return "start" if verb == "hello" else verb
