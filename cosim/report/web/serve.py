"""Run the dashboard until it is stopped."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from cosim.contract.errors import SetupError

REQUEST = 4096  # B, of a WebSocket's message from the browser


class Server(uvicorn.Server):
    """uvicorn, ended by SIGINT or SIGTERM without raising them anew: that is how a dashboard is meant to end."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let the signals ask the server to end."""

        def end(_number: int, _frame: FrameType | None) -> None:
            self.force_exit = self.should_exit
            self.should_exit = True

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


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
        app, log_level="warning", ws_max_size=REQUEST, timeout_graceful_shutdown=1, server_header=False
    )
    say(_address(listener, published))
    Server(config).run(sockets=[listener])


def _address(listener: socket.socket, published: str) -> str:
    """Where the page is; in a container whose port the host chooses, how to find out."""
    host, port = listener.getsockname()[:2]
    if published and not published.isdigit():
        return f"the dashboard is at the address that `docker compose port dashboard {port}` prints"
    name = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{published or port}/"
