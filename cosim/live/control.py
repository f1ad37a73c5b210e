"""How `cosim nodes` talks to a running gateway: a loopback socket and a token that only its user can read."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import zmq

from cosim.errors import RunError, SetupError

FILE = "control.json"
TOKEN = "COSIM_LIVE_TOKEN"
_LONGEST = 4096  # B of a request
_PATIENCE = 3_000  # ms for the answer


class ControlSocket:
    """Answers requests `[token, verb, name]`; `folder` gets the address and the token in a file of mode 0600."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], folder: Path, command: Callable[[str, str], object]
    ) -> None:
        self._command = command
        self._token = secrets.token_hex(32)
        self.socket: zmq.Socket[bytes] = context.socket(zmq.REP)
        self.socket.linger = 200
        self.socket.setsockopt(zmq.MAXMSGSIZE, _LONGEST)
        self.socket.bind("tcp://127.0.0.1:*")
        self.address: str = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._path = folder / FILE
        self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"address": self.address, "token": self._token, "pid": os.getpid()}, file)

    def answer(self) -> None:
        """Answer one request."""
        parts = self.socket.recv_multipart()
        self.socket.send(json.dumps(self._answer(parts), allow_nan=False).encode())

    def _answer(self, parts: list[bytes]) -> object:
        try:
            item = msgpack.unpackb(parts[0]) if len(parts) == 1 else None
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
            item = None
        if type(item) is not list or len(item) != 3 or not all(type(part) is str for part in item):
            return {"error": "not a request"}
        token, verb, name = item
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return {"error": "wrong token"}
        return self._command(verb, name)

    def close(self) -> None:
        """Stop listening and take the file away."""
        self.socket.close()
        self._path.unlink(missing_ok=True)


def find(where: str) -> tuple[str, str]:
    """Address and token of the gateway at `where`: a run's folder, or tcp://HOST:PORT.

    The token of an address is taken from the environment. Raises `SetupError` when there is none.
    """
    if where.startswith(("tcp://", "ipc://")):
        token = os.environ.get(TOKEN, "")
        if not token:
            raise SetupError(f"the token of {where} must be in {TOKEN}; it stands in the run's logs/*/{FILE}")
        return where, token
    paths = sorted(Path(where).glob(f"logs/*/{FILE}"))
    if not paths:
        raise SetupError(f"{where} is no run with live nodes under way: there is no logs/*/{FILE} in it")
    try:
        data = json.loads(paths[0].read_text("utf-8"))
        return str(data["address"]), str(data["token"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{paths[0]} cannot be read: {error}") from error


def newest(base: Path = Path("runs")) -> str:
    """The folder of the latest run with live nodes that is under way below `base`. Raises `SetupError`."""
    paths = sorted(base.glob(f"*/*/logs/*/{FILE}"), key=lambda path: path.stat().st_mtime)
    if not paths:
        raise SetupError(f"no run with live nodes is under way below '{base}'; name its folder or its address")
    return str(paths[-1].parents[2])


def ask(address: str, token: str, verb: str, name: str = "") -> dict[str, Any]:
    """The gateway's answer. Raises `RunError` when there is none, or it is an error."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.REQ)
    socket.linger = 0
    socket.setsockopt(zmq.MAXMSGSIZE, 16 << 20)
    try:
        socket.connect(address)
        socket.send(msgpack.packb([token, verb, name]))
        if not socket.poll(_PATIENCE):
            raise RunError(f"no gateway answers at {address}: the run has ended, or it hangs")
        answer = json.loads(socket.recv())
    except (zmq.ZMQError, ValueError) as error:
        raise RunError(f"the gateway at {address} cannot be asked: {error}") from error
    finally:
        socket.close()
        context.term()
    if not isinstance(answer, dict) or "error" in answer:
        raise RunError(str(answer["error"]) if isinstance(answer, dict) else "the gateway gave no proper answer")
    return answer
