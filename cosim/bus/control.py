"""Steer a run from outside: pause, resume, another pace, an event, stop.

One request, one answer (ZeroMQ REQ and REP), both msgpack maps of a few kilobytes:
`{token, do, ...}` and `{ok, error, ...state}`. Whoever knows the token may steer; without it nothing
is answered but the refusal. The address is loopback unless another one is given.
"""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import msgpack
import zmq

from cosim.errors import CosimError, ScenarioError, SetupError

log = logging.getLogger("cosim.control")

MAX_REQUEST = 8192  # B
_LOOK = 100  # ms between two looks at whether the run has ended
VERBS = ("state", "pause", "resume", "pace", "inject", "stop")

Act = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class ControlError(CosimError):
    """A command was refused, or nobody answered it."""

    exit_code = 2


def new_token() -> str:
    """The token of `COSIM_TOKEN`, or a fresh one of 192 random bits."""
    return os.environ.get("COSIM_TOKEN", "").strip() or secrets.token_urlsafe(24)


def same_token(given: object, token: str) -> bool:
    """Whether `given` is `token`; takes equally long for every wrong one. An empty token is never right."""
    return isinstance(given, str) and bool(token) and hmac.compare_digest(given.encode(), token.encode())


class ControlSocket:
    """The run's side: answers requests in a thread of its own until it is closed.

    `act(verb, arguments)` carries a command out and returns the state; a `ScenarioError` or
    `ValueError` that it raises is the answer "refused, because".
    """

    def __init__(self, act: Act, token: str, address: str = "tcp://127.0.0.1:*") -> None:
        if not token:
            raise SetupError("a run under control needs a token: set COSIM_TOKEN")
        self._act, self._token = act, token
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_REQUEST)
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise SetupError(f"cannot take commands at {address}: {error}") from error
        self.address: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="cosim-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more commands; may be called twice."""
        self._ending.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _serve(self) -> None:
        try:
            while not self._ending.is_set():
                if self._socket.poll(_LOOK):
                    self._socket.send(msgpack.packb(self._answer(self._socket.recv())))
        finally:
            self._socket.close(0)

    def _answer(self, data: bytes) -> Mapping[str, Any]:
        try:
            request = msgpack.unpackb(data, strict_map_key=True)
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
            return {"ok": False, "error": "the request is not a msgpack map"}
        if not isinstance(request, dict) or not same_token(request.get("token"), self._token):
            return {"ok": False, "error": "the token is wrong"}
        verb = request.get("do")
        if verb not in VERBS:
            return {"ok": False, "error": f"there is no command {verb!r}; there are {', '.join(VERBS)}"}
        try:
            state = self._act(verb, {key: value for key, value in request.items() if key not in ("token", "do")})
        except (ScenarioError, ValueError) as error:
            return {"ok": False, "error": str(error)}
        except Exception as error:  # the thread's boundary: the one who asked is told, the log has more
            log.exception("command '%s' failed", verb)
            return {"ok": False, "error": f"the command failed: {type(error).__name__}: {error}"}
        return {"ok": True, "error": "", **state}


def command(address: str, token: str, verb: str, *, timeout: float = 5.0, **arguments: object) -> dict[str, Any]:
    """Send one command to the run at `address` and return its state.

    Raises `ControlError` when it is refused or when no answer comes within `timeout` s.
    """
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.REQ)
    with socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, 1 << 20)
        try:
            socket.connect(address)
        except zmq.ZMQError as error:
            raise ControlError(f"'{address}' is no address of a run: {error}") from error
        socket.send(msgpack.packb({"token": token, "do": verb, **arguments}))
        if not socket.poll(max(int(timeout * 1e3), 1)):
            raise ControlError(f"the run at {address} does not answer; has it ended?")
        answer = msgpack.unpackb(socket.recv())
    if not isinstance(answer, dict) or not answer.get("ok"):
        raise ControlError(str(answer.get("error") if isinstance(answer, dict) else "the answer cannot be read"))
    return answer
