"""The process that the runs of a sweep are forked from: `python -m cosim.results.forkserver GRACE`.

It imports what runs need and loads their compiled code once, then reads tasks from its input, one
JSON object per line, and forks a process for each. It starts no thread and runs no simulation
itself, so every fork begins in the same clean state. For each run that has ended it writes a line
`{"key", "outcome", "code", "seconds", "overdue"}`. When its input ends it asks the runs to stop,
kills those that have not ended after GRACE seconds, and exits.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from cosim.contract.children import end_with
from cosim.results.executor import RunTask, carry_out, log_of

_LOOK = 0.2  # s between looks at the limits of the runs


@dataclass
class _Run:
    """A run that was forked and has not been reported."""

    task: RunTask
    answer: int  # file descriptor that the outcome comes from; -1 when it is closed
    begun: float
    written: bytearray = field(default_factory=bytearray)
    stopped: float | None = None  # when it was asked to stop
    overdue: bool = False


class ForkServer:
    """The runs under way, by process id."""

    def __init__(self, grace: float, tasks: int, reports: int) -> None:
        self._grace = grace
        self._tasks = tasks  # file descriptor to read tasks from
        self._reports = reports  # file descriptor to write reports to
        self._runs: dict[int, _Run] = {}
        self._warm = False
        self._quiet = False  # no reader of reports is left

    def serve(self) -> None:
        """Until the input ends; then all runs have ended, too."""
        try:
            os.write(self._reports, b"ready\n")
            pending = b""
            while True:
                readable = self._look(self._tasks)
                if self._tasks in readable:
                    data = os.read(self._tasks, 1 << 16)
                    if not data:
                        return
                    *lines, pending = (pending + data).split(b"\n")
                    for line in lines:
                        self._fork(task_from(json.loads(line)))
        finally:
            self._stop()

    def _look(self, *more: int) -> list[int]:
        """Wait for something to happen, and see to the runs that have ended or are overdue."""
        answers = {run.answer: run for run in self._runs.values() if run.answer >= 0}
        # without an answer to wait for, the end of a run is only seen by looking
        soon = any(run.answer < 0 for run in self._runs.values())
        readable, _, _ = select.select([*answers, *more], [], [], 0.01 if soon else _LOOK)
        for answer in readable:
            if answer in answers:
                run = answers[answer]
                data = os.read(answer, 1 << 16)
                run.written += data
                if not data:
                    os.close(answer)
                    run.answer = -1
        for pid in list(self._runs):
            self._see(pid)
        return readable

    def _see(self, pid: int) -> None:
        run, now = self._runs[pid], time.monotonic()
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if run.stopped is None and run.task.limit is not None and now - run.begun > run.task.limit:
                run.overdue, run.stopped = True, now
                os.kill(pid, signal.SIGTERM)
            elif run.stopped is not None and now - run.stopped > self._grace:
                os.kill(pid, signal.SIGKILL)
            return
        # not yet reaped, so that its process id still means its group and no other
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        del self._runs[pid]
        if run.answer >= 0:
            while data := os.read(run.answer, 1 << 16):
                run.written += data
            os.close(run.answer)
        try:
            outcome = json.loads(bytes(run.written))
        except ValueError:
            outcome = None
        self._report(run.task, outcome, code, now - run.begun, run.overdue)

    def _report(self, task: RunTask, outcome: object, code: int, seconds: float, overdue: bool) -> None:
        report = {"key": task.key, "outcome": outcome, "code": code, "seconds": seconds, "overdue": overdue}
        if not self._quiet:
            _write(self._reports, json.dumps(report).encode() + b"\n")

    def _fork(self, task: RunTask) -> None:
        if not self._warm:
            self._warm = warm(task)
        reading, writing = os.pipe()
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or no memory
            os.close(reading)
            os.close(writing)
            message = f"no process could be made for the run: {error.strerror}"
            outcome = {"status": "failed", "run": "", "error": message, "figures": {}}
            self._report(task, outcome, 0, 0.0, False)
            return
        if pid == 0:
            os.close(reading)
            for other in (self._tasks, self._reports, *(run.answer for run in self._runs.values())):
                if other >= 0:
                    os.close(other)
            _run(task, writing, server)
        os.close(writing)
        self._runs[pid] = _Run(task, reading, time.monotonic())

    def _stop(self) -> None:
        self._quiet = True
        now = time.monotonic()
        for pid, run in self._runs.items():
            if run.stopped is None:
                run.stopped = now
                os.kill(pid, signal.SIGTERM)
        while self._runs:
            self._look()


def task_from(data: dict[str, Any]) -> RunTask:
    """The task that `dataclasses.asdict` made `data` of, also after a way through JSON."""
    return RunTask(**{**data, "overrides": tuple(data["overrides"])})


def warm(task: RunTask) -> bool:
    """Import what runs like `task` need and load their compiled code; whether there was any to load.

    Whatever goes wrong here goes wrong again in the run, which then reports it.
    """
    try:
        import cosim.results.compiled
        import cosim.results.load
        import cosim.results.session
        from cosim.contract.registry import adapter_kind
        from cosim.scenario.load import load
        from cosim.scenario.plan.compile import compile_plan

        with suppress(ImportError):
            importlib.import_module("pandas")  # Arrow imports it at its first computation, where it is installed
        plan = compile_plan(load(Path(task.scenario), task.overrides), force=True)
        for adapter in plan.adapters:
            if not adapter.isolated and not adapter.connect:
                kind = adapter_kind(adapter.use)
                importlib.import_module(kind.factory.partition(":")[0])
        cosim.results.compiled.uncompiled(adapter.use for adapter in plan.adapters)
        return load_machine_code() > 0
    except Exception:  # noqa: BLE001 - a foreign adapter may fail in any way
        traceback.print_exc()
        return False
    finally:
        gc.collect()
        gc.freeze()  # a collection in a run would touch, and so copy, every page of the server


def load_machine_code() -> int:
    """Load the machine code that numba has cached for the functions of imported modules; how many.

    Never compiles: signatures come from the cache's index of this processor and these sources.
    """
    numba = sys.modules.get("numba.core.dispatcher")
    if numba is None:
        return 0
    loaded = 0
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "cosim":
            continue
        for function in list(vars(module).values()):
            if not isinstance(function, numba.Dispatcher) or function.signatures:
                continue
            cache = getattr(function._cache, "_cache_file", None)  # numba has no public name for it
            if cache is None:
                continue
            target = function.targetdescr.target_context.codegen().magic_tuple()
            for signature, processor, _ in cache._load_index():
                if processor == target:
                    function.compile(signature)
                    loaded += 1
    return loaded


def _run(task: RunTask, answer: int, server: int) -> NoReturn:
    """The life of a forked process."""
    code = 1
    try:
        os.setsid()
        end_with(server)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _redirect(Path(task.base) / log_of(task))
        _write(answer, json.dumps(carry_out(task), default=str).encode())
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - the end of a process: reported in its log and by its exit code
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """Redirect the output of the process to `log`, or nowhere when the disk is full."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        target = os.open(log, flags, 0o644)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    source = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((source, 0), (target, 1), (target, 2)):
        os.dup2(old, new)
    os.close(source)
    os.close(target)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # Reports have a descriptor of their own, so that nothing that prints can spoil them.
    reports = os.dup(1)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):
        ForkServer(float(sys.argv[1]), 0, reports).serve()


if __name__ == "__main__":
    main()
