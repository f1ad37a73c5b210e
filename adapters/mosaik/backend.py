"""The simulator at the other end: starts or reaches it, calls it with a limit on every wait, ends it.

mosaik's own proxies and version adaptation speak the protocol; they live in an event loop of their
own in a thread, because the bus may itself be stepped from inside mosaik's event loop. Supervision
of the process is ours: mosaik waits without a limit and does not notice a command that ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

from mosaik import exceptions as mosaik_exceptions
from mosaik.adapters import init_and_get_adapter
from mosaik.proxies import BaseProxy, LocalProxy, Proxy, RemoteProxy
from mosaik.simmanager import MosaikRemote
from mosaik.starters import ConnectStarter, PythonStarter
from mosaik_api_v3 import MosaikProxy
from mosaik_api_v3.connection import Channel, RemoteException

from cosim.adapters.mosaik.config import SimulatorPart

log = logging.getLogger(__name__)
UNUSED: Any = {}  # mosaik's own settings, which connecting does not look at
LAST_WORDS = 2_000  # characters of a dead simulator's output that an error shows
FAREWELL = 10.0  # s that a process has to end by itself after a run that went well


class SimulatorFaultError(Exception):
    """The simulator failed, ended or kept silent; `remote_traceback` is its own, as far as it sent one."""

    def __init__(self, message: str, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.remote_traceback = remote_traceback


class Callbacks(MosaikProxy):
    """What a simulator may ask mosaik for while it is stepped."""

    def __init__(self, sid: str) -> None:
        self.sid = sid
        self.progress = 0.0  # percent
        self.nodes: dict[str, dict[str, str]] = {}  # full id -> {"type": model}
        self.events: list[int] = []  # steps that the simulator asked for

    async def get_progress(self) -> float:
        return self.progress

    async def get_related_entities(self, entities: str | list[str] | None = None) -> dict[str, Any]:
        if entities is None:
            return {"nodes": self.nodes, "edges": []}
        return {} if isinstance(entities, str) else {entity: {} for entity in entities}

    async def set_event(self, event_time: int) -> None:
        self.events.append(event_time)

    async def get_data(self, attrs: object) -> dict[str, dict[str, Any]]:
        raise NotImplementedError(f"asynchronous get_data({attrs}) is not supported: name an input instead")

    async def set_data(self, data: object) -> None:
        raise NotImplementedError(f"asynchronous set_data({data}) is not supported: name an output instead")


class MosaikBackend:
    """One simulator. `name` is the adapter's; relative paths start at `root`; output goes to `scratch`."""

    def __init__(self, name: str, where: SimulatorPart, timeout: float, root: str, scratch: str) -> None:
        self.name, self.where, self.timeout, self.root = name, where, timeout, root
        self.output = Path(scratch) / "simulator.log"
        self.callbacks = Callbacks(name)
        self._remote = cast(MosaikRemote, self.callbacks)  # mosaik only uses the methods of Callbacks
        self._process: subprocess.Popen[bytes] | None = None
        self._proxy: Proxy | None = None
        self._finished = False
        self._hung = False  # a call in this process did not come back, and the loop is stuck in it
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name=f"mosaik {name}", daemon=True)
        self._thread.start()

    def open(self, resolution: float, params: dict[str, Any]) -> dict[str, Any]:
        """Start the simulator, call its init, and give its meta data."""
        base = self._await(self._start(), "start")
        return self._await(self._init(base, {"time_resolution": resolution, **params}), "init")  # type: ignore[no-any-return]

    def call(self, function: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - mosaik's values are JSON or objects
        """The simulator's answer to one call of mosaik's API."""
        if self._proxy is None:
            raise SimulatorFaultError(f"{function} was called before the simulator was there")
        return self._await(self._proxy.send((function, args, kwargs)), function)

    def finish(self) -> None:
        """Let the simulator finalize; its errors are raised."""
        if self._proxy is not None and not self._finished:
            self._finished = True
            self._await(self._proxy.stop(), "finalize")
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(min(FAREWELL, self.timeout))

    def close(self) -> None:
        """End the process and the event loop, whatever state they are in."""
        if self._proxy is not None and not self._finished and not self._hung:
            self._finished = True
            try:
                self._await(self._proxy.stop(), "finalize", limit=min(2.0, self.timeout))
            except SimulatorFaultError as error:
                log.warning("%s: %s", self.name, error)
        if self._process is not None:
            _end(self._process)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel_and_stop)
            self._thread.join(2.0)

    def _turn(self) -> None:
        """The thread: the event loop closes when it stops, even after a call that hung for a while."""
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _cancel_and_stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.01, self._loop.stop)

    # -- waiting -------------------------------------------------------------------------------

    def _await(self, work: Coroutine[Any, Any, Any], what: str, limit: float | None = None) -> Any:  # noqa: ANN401
        limit = self.timeout if limit is None else limit
        future = asyncio.run_coroutine_threadsafe(_no_exit(work), self._loop)
        ends = time.monotonic() + limit
        while True:
            try:
                return future.result(max(0.0, min(0.1, ends - time.monotonic())))
            except concurrent.futures.TimeoutError:
                if not future.done():
                    self._still_there(future, what, limit, ends)
            except RemoteException as error:
                message = f"{what} raised {error.remote_type}: {error.remote_msg}"
                raise SimulatorFaultError(message, "".join(error.further_args)) from None
            except (mosaik_exceptions.ConnectionClosedError, asyncio.IncompleteReadError, ConnectionError) as error:
                raise SimulatorFaultError(f"its connection broke during {what}{self._last_words()}") from error
            except SimulatorFaultError:
                raise
            except Exception as error:  # foreign code may raise anything; it is re-raised as ours
                detail = "".join(traceback.format_exception(error))
                raise SimulatorFaultError(f"{what} raised {type(error).__name__}: {error}", detail) from error

    def _still_there(self, future: concurrent.futures.Future[Any], what: str, limit: float, ends: float) -> None:
        """Raise when the process has ended, or when the time is up."""
        if self._process is not None and self._process.poll() is not None:
            with contextlib.suppress(Exception):  # the answer may still be on its way
                future.result(0.5)
            if not future.done():
                future.cancel()
                raise SimulatorFaultError(f"it ended during {what}{self._last_words()}")
        elif time.monotonic() >= ends:
            self._hung = self.where.python is not None
            future.cancel()
            raise SimulatorFaultError(
                f"the bus waited {limit:g} s for it to answer '{what}'; raise 'timeout' if it may"
            )

    def _last_words(self) -> str:
        if self._process is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self._process.returncode
        state = "is still running" if code is None else f"ended with exit code {code}"
        said = self.output.read_text("utf-8", "replace").strip()[-LAST_WORDS:]
        return f"; its process {state}" + (f" and last wrote:\n{said}" if said else "")

    # -- inside the event loop -----------------------------------------------------------------

    async def _start(self) -> BaseProxy:
        try:
            if self.where.python is not None:
                with _importable(self.root):
                    starter = PythonStarter.from_string(self.where.python)
                return _InProcess(starter.cls(*starter.args, **starter.kwargs), self.callbacks)
            if self.where.connect is not None:
                return await ConnectStarter.from_addr(self.where.connect).start(self.name, self._remote, UNUSED)
        except (mosaik_exceptions.ScenarioError, mosaik_exceptions.SimulationError) as error:
            raise SimulatorFaultError(str(error)) from error
        return await self._spawn(self.where.command or "")

    async def _spawn(self, command: str) -> BaseProxy:
        connected: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

        async def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if connected.done():
                writer.close()
            else:
                connected.set_result(Channel(reader, writer, name=self.name))

        server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
        try:
            host, port = server.sockets[0].getsockname()[:2]
            names = {"%(addr)s": f"{host}:{port}", "%(python)s": sys.executable, "%(root)s": self.root}
            words = [_replaced(word, names) for word in shlex.split(command)]
            with self.output.open("wb") as output:
                try:
                    self._process = subprocess.Popen(
                        words, cwd=self.root, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    raise SimulatorFaultError(f"'{words[0]}' cannot be started: {error.strerror}") from error
            return RemoteProxy(await connected, self._remote)
        finally:
            server.close()

    async def _init(self, base: BaseProxy, params: dict[str, Any]) -> dict[str, Any]:
        with warnings.catch_warnings(record=True) as noted, contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("always")
            try:
                self._proxy = await init_and_get_adapter(base, self.name, params, self.timeout)
            except mosaik_exceptions.ScenarioError as error:
                cause = error.args[-1] if error.args else error
                raise SimulatorFaultError(f"init was refused: {cause}") from error
        for warning in noted:
            log.warning("%s: %s", self.name, warning.message)
        return dict(self._proxy.meta)


class _InProcess(LocalProxy):
    """A simulator in this process whose sys.exit ends the run with a word, and not the event loop."""

    async def send(self, request: tuple[str, tuple[Any, ...], dict[str, Any]]) -> Any:  # noqa: ANN401
        return await _no_exit(super().send(request))


async def _no_exit(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401
    """A simulator's sys.exit, or mosaik's, must not end the thread that the event loop runs in."""
    try:
        return await work
    except SystemExit as error:
        raise SimulatorFaultError(f"it gave up: {error}") from error


@contextlib.contextmanager
def _importable(folder: str) -> Any:  # noqa: ANN401 - a context manager
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _replaced(word: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        word = word.replace(name, value)
    return word


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process and its children to end, and make them when they do not."""
    for request, grace in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, request)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
            return
