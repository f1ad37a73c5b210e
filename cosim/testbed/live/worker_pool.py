"""The agent's workers: as many processes as tasks may run at once, ended when a task takes too long."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cosim.talk.codec import Body
from cosim.testbed.live.worker import ENDS, TASKS, read, write

_GRACE = 1.0  # s beyond its limit before a worker is killed: most work looks at the clock itself


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task has ended; times are this machine's monotonic clock (s)."""

    task: int
    status: Any  # one of the words of a result
    started: float | None
    computed: float | None
    output: bytes
    detail: str
    uploaded: float | None = None  # of a call
    answered: float | None = None


class WorkerPool:
    """`count` workers. `notify` is called, in any thread, when `done` holds something new."""

    def __init__(
        self, count: int, clock: float, service: str, notify: Callable[[], None], calls: Sequence[str] = ()
    ) -> None:
        self.done: queue.SimpleQueue[EndedTask] = queue.SimpleQueue()
        self._notify = notify
        self._command = [sys.executable, "-m", "cosim.testbed.live.worker", repr(clock), service, *calls]
        self._tasks: queue.SimpleQueue[Body | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._cancelled: set[int] = set()
        self._begun: set[int] = set()
        self._closed = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Body) -> None:
        """Run `task` when a worker is free."""
        self._tasks.put(task)

    def cancel(self, task: int) -> None:
        """Cancel a task whose result is no longer wanted."""
        with self._lock:
            self._cancelled.add(task)
            process = self._running.get(task)
            if process is not None:
                process.kill()

    def begun(self) -> set[int]:
        """The tasks that a worker has taken since the last call."""
        with self._lock:
            found, self._begun = self._begun, set()
        return found

    def close(self) -> None:
        """End all workers at once."""
        with self._lock:
            self._closed = True
            for process in self._running.values():
                process.kill()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(5.0)

    def _serve(self) -> None:
        process = self._worker()  # at once, so that the first task does not pay for its start
        while True:
            task = self._tasks.get()
            if task is None:
                break
            number = task["task"]
            if process.poll() is not None:
                process = self._worker()
            with self._lock:
                if self._closed or number in self._cancelled:
                    self._cancelled.discard(number)
                    continue
                self._running[number] = process
                self._begun.add(number)
            done = self._run(process, task)
            with self._lock:
                del self._running[number]
                wanted = number not in self._cancelled and not self._closed
                self._cancelled.discard(number)
            if wanted:
                self.done.put(done)
                self._notify()
        _end(process)

    def _worker(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _run(self, process: subprocess.Popen[bytes], task: Body) -> EndedTask:
        late = threading.Event()

        def kill() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(task["limit"] + _GRACE, kill)
        timer.start()
        data = None
        try:
            if process.stdin is not None and process.stdout is not None:
                write(process.stdin, TASKS.pack("task", task))  # type: ignore[arg-type]  # both are buffered streams
                data = read(process.stdout)  # type: ignore[arg-type]
        except OSError:
            data = None
        finally:
            timer.cancel()
        if data is None:
            _end(process)
            status = "timeout" if late.is_set() else "failed"
            detail = f"longer than {task['limit']:g} s" if late.is_set() else "the worker has died"
            return EndedTask(task["task"], status, None, None, b"", detail)
        return EndedTask(task["task"], **ENDS.unpack(data).body)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
