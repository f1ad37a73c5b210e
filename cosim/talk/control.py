"""Commands to a run in progress: pause it, inject an event, list its live nodes, ...

Each request gets one answer. Both sides prove that they know the token, by keys derived from it (CURVE), before
anything is sent. The address is loopback unless another one is given. A run may write address and token into a file
that only its user can read (`FILE`), from which `find` reads them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import zmq

from cosim.contract import locks
from cosim.contract.errors import CosimError, ProtocolError, SetupError
from cosim.talk.codec import Anything, Body, Is, MessageSet, TableOf, Text
from cosim.talk.doorkeeper import SMALL
from cosim.talk.keys import of_token
from cosim.talk.sockets import Closing, Door, bounded, dial, each, event

log = logging.getLogger("cosim.control")

FILE = "control.json"
# Of a run's commands, and of those of its live nodes: where the files lie in its folder, what such a run is called,
# and the variable with the token.
RUN = (f"logs/{FILE}", "run under --control", "COSIM_TOKEN")
LIVE = (f"logs/*/{FILE}", "run with live nodes", "COSIM_LIVE_TOKEN")
MAX_REQUEST = 8192  # B
MAX_ANSWER = 16 << 20  # B
_LOOK = 100  # ms between two looks at whether the run has ended
_BATCH = 16  # requests in a row
_TURN = 20  # ms between two looks at whether a connection was refused
_REFUSED = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_DISCONNECTED)
_CLOSED = int(zmq.EVENT_CLOSED)  # nobody takes the connection
_REFUSALS = 3  # connections that end in the handshake, one of which may have had to make room

REQUESTS = MessageSet(
    "a client",
    {"request": {"token": Text(200, free=True), "do": Text(40), "with": TableOf(Anything(), 32)}},
    MAX_REQUEST,
)
ANSWERS = MessageSet(
    "a run",
    {"answer": {"ok": Is(bool), "error": Text(2000, free=True), "state": TableOf(Anything(), 1000)}},
    MAX_ANSWER,
)

Act = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class ControlError(CosimError):
    """A command was refused, or nothing has answered it."""

    exit_code = 2


def new_token() -> str:
    """A token of 192 random bits."""
    return secrets.token_urlsafe(24)


def same_token(given: object, token: str) -> bool:
    """Whether `given` is `token`; takes equally long for every wrong one. An empty token is never right."""
    if not isinstance(given, str) or not token:
        return False
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


class ControlSocket(Closing):
    """The run's side: answers requests in a thread of its own until it is closed.

    `act(verb, arguments)` carries out one of `verbs` and returns the answer; a `CosimError` or `ValueError` that it
    raises becomes the answer "refused, because". With `folder`, address and token are written there, into `FILE`
    (mode 0600); a token that is not `fresh` stays out of it.
    """

    def __init__(
        self,
        act: Act,
        token: str,
        address: str = "tcp://127.0.0.1:*",
        *,
        verbs: Sequence[str],
        folder: Path | None = None,
        fresh: bool = True,
    ) -> None:
        if not token:
            raise SetupError("a run under control needs a token: set COSIM_TOKEN")
        self._act, self._token, self._verbs = act, token, tuple(verbs)
        self._path = folder / FILE if folder is not None else None
        self._door = Door(address, MAX_REQUEST, replace(SMALL, looks=False), token=token, waiting=(16, 16))
        self.address = self._door.address
        try:
            self._write(token if fresh else "")
        except OSError as error:
            self._door.close()
            raise SetupError(f"the address of the control socket cannot be written: {error}") from error
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="cosim-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands; may be called twice."""
        self._ending.set()
        self._thread.join()

    def _write(self, token: str) -> None:
        if self._path is None:
            return
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"address": self.address, "token": token, "pid": os.getpid()}, file)

    def _serve(self) -> None:
        try:
            while not self._ending.is_set():
                if self._door.socket.poll(_LOOK):
                    each(self._door.socket, _BATCH, self._take)
        finally:
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            self._door.close(200)

    def _take(self, parts: Sequence[zmq.Frame]) -> None:
        """Answer a request, which may have the empty part of a REQ socket before it."""
        peer, *envelope, data = parts if len(parts) > 1 else (*parts, zmq.Frame(b""))
        answer = self._answer(data.bytes)
        try:
            packed = ANSWERS.pack("answer", answer)
        except ProtocolError as error:
            packed = ANSWERS.pack("answer", refusal(str(error)))
        try:
            self._door.socket.send_multipart([peer.bytes, *(part.bytes for part in envelope), packed], zmq.NOBLOCK)
        except zmq.ZMQError:  # it has gone, or takes no answers
            log.debug("an answer was not taken")

    def _answer(self, data: bytes) -> Body:
        try:
            request = REQUESTS.unpack(data).body
        except ProtocolError as error:
            return refusal(f"the request cannot be read: {error}")
        if not same_token(request["token"], self._token):
            return refusal("the token is wrong")
        verb = request["do"]
        if verb not in self._verbs:
            return refusal(f"there is no command {verb!r}; there are {', '.join(self._verbs)}")
        try:
            return {"ok": True, "error": "", "state": dict(self._act(verb, request["with"]))}
        except (CosimError, ValueError) as error:
            return refusal(str(error))
        except Exception as error:  # boundary of the thread: the client gets the error, the log has more
            log.exception("command '%s' failed", verb)
            return refusal(f"the command failed: {type(error).__name__}: {error}")


def refusal(why: str) -> Body:
    """The answer to a request that is not carried out."""
    return {"ok": False, "error": why[:2000], "state": {}}


def command(address: str, token: str, verb: str, *, timeout: float = 5.0, **arguments: object) -> dict[str, Any]:
    """Send one command to the run at `address` and return its state.

    Raises `ControlError` when it is refused or when no answer comes within `timeout` s.
    """
    data = REQUESTS.pack("request", {"token": token, "do": verb, "with": arguments})
    key = of_token(token)[1]
    with (
        zmq.Context() as context,
        bounded(context, zmq.DEALER, MAX_ANSWER, key=key) as socket,
        socket.get_monitor_socket(_REFUSED | _CLOSED) as monitor,
    ):
        try:
            dial(socket, address)
        except SetupError as error:
            raise ControlError(str(error)) from error
        socket.send(data)
        end, refused, closed = monotonic() + timeout, 0, 0
        while not socket.poll(_TURN):
            with suppress(zmq.Again):
                happened, _ = event(monitor, zmq.NOBLOCK)
                refused += bool(happened & _REFUSED)
                closed += bool(happened & _CLOSED)
            if closed >= _REFUSALS:
                raise ControlError(f"nothing listens at {address}: the run there has ended")
            if refused >= _REFUSALS:
                raise ControlError(f"the token is wrong, or {address} is not that of the run")
            if monotonic() > end:
                raise ControlError(f"the run at {address} does not answer; has it ended?")
        try:
            answer = ANSWERS.unpack(socket.recv()).body
        except ProtocolError as error:
            raise ControlError(f"the answer of {address} cannot be read: {error}") from error
    if not answer["ok"]:
        raise ControlError(answer["error"])
    state: dict[str, Any] = answer["state"]
    return state


def _run_of(path: Path) -> Path:
    """The folder of the run that has written `FILE` at `path`."""
    return next(one.parent for one in path.parents if one.name == "logs")


def find(
    where: str = "", token: str = "", kind: tuple[str, str, str] = RUN, base: Path = Path("runs")
) -> tuple[str, str]:
    """Address and token of a run under way: of its folder, or of tcp://HOST:PORT, which needs `token`.

    Without `where` it is the latest below `base`. `kind` is `RUN` or `LIVE`. Raises `SetupError` when there is none.
    """
    pattern, what, variable = kind
    if not where.startswith(("tcp://", "ipc://")):
        found = Path(where).glob(pattern) if where else base.glob(f"*/*/{pattern}")
        paths = sorted(found, key=lambda path: path.stat().st_mtime)
        if not paths:
            none = f"no {what} is under way below '{base}'; name its folder or its address"
            raise SetupError(f"{where} is no {what} under way: there is no {pattern} in it" if where else none)
        under_way = [path for path in paths if locks.held(_run_of(path) / locks.RUN) is not False]
        if not under_way:
            gone = _run_of(paths[-1])
            raise SetupError(f"the run in {gone} is gone: its process was killed; what it left: cosim report {gone}")
        try:
            data = json.loads(under_way[-1].read_text("utf-8"))
            where, token = str(data["address"]), str(data["token"]) or token
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SetupError(f"{under_way[-1]} cannot be read: {error}") from error
    if not token:
        raise SetupError(f"the token of {where} must be in {variable}; a new one stands in the run's {pattern}")
    return where, token
