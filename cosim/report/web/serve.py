"""Run the dashboard until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from cosim.contract.errors import SetupError
from cosim.contract.handlers import handled
from cosim.talk.doorkeeper import PATIENCE, raise_descriptors, shown_out

SILENT = 64  # connections without a whole request, at a time
REQUEST = 4096  # B, of a WebSocket's message from the browser


class Server(uvicorn.Server):
    """uvicorn, ended by SIGINT or SIGTERM without raising them anew: that is how a dashboard is meant to end."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let the signals ask the server to end."""

        def end(_number: int, _frame: FrameType | None) -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        with handled(end):
            yield


class Impatient(AutoHTTPProtocol):  # type: ignore[misc,valid-type]  # one of two classes
    """HTTP that ends connections without a whole request, which would hold an open file for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait `PATIENCE` for the first request."""
        waiting = (one for one in self.connections if isinstance(one, Impatient) and one.cycle is None)
        silent = [one for one in waiting if not one.transport.is_closing()]
        if len(silent) >= SILENT:
            shown_out(silent, lambda one: one.client[0] if one.client else "").transport.close()
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._first)

    def _first(self) -> None:
        if self.cycle is None and self in self.connections:  # a WebSocket is no longer among them
            self.transport.close()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 lets the system choose. Raises `SetupError` that names the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise SetupError(f"cannot serve at {host}:{port}: {reason}; choose another --port or --host") from error
    return listener


def serve(app: FastAPI, listener: socket.socket, say: Callable[[str], None], published: str = "") -> None:
    """Serve `app` at `listener` until SIGINT or SIGTERM; `say` receives the page's address.

    `published` is the host's port for that of a container, or the range from which the host chooses it.
    """
    config = uvicorn.Config(
        app, log_level="warning", ws_max_size=REQUEST, timeout_graceful_shutdown=1, server_header=False, http=Impatient
    )
    raise_descriptors()
    say(_address(listener, published))
    Server(config).run(sockets=[listener])


def _address(listener: socket.socket, published: str) -> str:
    """Where the page is; in a container whose port the host chooses, how to find out."""
    host, port = listener.getsockname()[:2]
    if published and not published.isdigit():
        return f"the dashboard is at the address that `docker compose port dashboard {port}` prints"
    name = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{published or port}/"
