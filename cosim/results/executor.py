"""Where the runs of a sweep are carried out: processes on this machine, or a Ray cluster.

An executor takes tasks and yields their results as they are done, in any order. Each run has a
process of its own, so that a crash, a leak or a `libsumo` that stays behind concerns one run only.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cosim.contract.children import signal_name
from cosim.contract.errors import CosimError, RunError, SetupError

if TYPE_CHECKING:
    from cosim.scenario.plan.plan import Plan

GRACE = 20.0  # s that a run gets to write its partial results when it is asked to stop
_START = 120.0  # s for the fork server to import everything; a cold network disk takes a minute
# One thread for each library of a run: N runs then use N cores, and sums are added up in the same
# order whatever the number of workers is. What the user has set in the environment is kept.
THREADS = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "ARROW_IO_THREADS"), "1"
)


@dataclass(frozen=True, slots=True)
class RunTask:
    """One run to be made: the scenario, what is set in it, and the key that its result is known by."""

    key: str  # hash of the plan
    scenario: str  # absolute path of the scenario file
    overrides: tuple[str, ...]
    parameters: Mapping[str, Any]  # scenario path -> value, for people and for grouping
    base: str  # folder of the sweep: the run's folder is made in its `runs`, its log in its `logs`
    driver: Literal["mosaik", "loop"] = "loop"
    limit: float | None = None  # s of wall clock that the run may take
    basis: str = ""  # what else the result depends on: version of the package, content of the data files


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of a task. `run` and `log` are relative to the task's base, "" when there is none."""

    key: str
    parameters: Mapping[str, Any]
    status: str  # complete | partial | failed
    run: str
    error: str
    log: str
    figures: Mapping[str, float | None]
    wall_seconds: float
    basis: str = ""


class Executor(Protocol):
    """Carries out tasks; closing the iterator early stops what is still running."""

    def run(self, tasks: Sequence[RunTask]) -> Iterator[JobResult]:
        """The results in the order in which the runs end."""


class LocalExecutor:
    """Up to `workers` processes on this machine, forked from one that has everything imported.

    A fresh interpreter spends 2.3 s of CPU on imports and on loading compiled code before its first
    tick, a fork 0.4 s. The runs live in sessions of their own and die with the fork server, which
    dies with this process: whatever is killed, nothing is left running.
    """

    def __init__(self, workers: int, grace: float = GRACE) -> None:
        if workers < 1:
            raise SetupError(f"{workers} workers cannot run anything; give at least 1")
        self.workers = workers
        self.grace = grace
        self._keeps = False
        self._kept: _Server | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within it the process that runs are forked from stays for the next `run`."""
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False
            self._drop()

    def run(self, tasks: Sequence[RunTask]) -> Iterator[JobResult]:
        waiting = deque(tasks)
        while waiting:  # again when a server was killed, without the runs that it took along
            server = self._kept or _Server(self.grace)
            self._kept = server
            whole = False
            try:
                whole = yield from server.serve(waiting, self.workers)
            finally:
                if not (whole and self._keeps):
                    self._drop()

    def _drop(self) -> None:
        server, self._kept = self._kept, None
        if server is not None:
            server.close()


def failed(task: RunTask, error: str, seconds: float = 0.0) -> JobResult:
    """The result of a run that left nothing but, perhaps, a log."""
    log = log_of(task)
    return JobResult(
        task.key, task.parameters, "failed", "", error, log if (Path(task.base) / log).is_file() else "", {}, seconds,
        task.basis,
    )  # fmt: skip


def made(runner: Executor, tasks: Sequence[RunTask], base: Path) -> Generator[JobResult, None, None]:
    """The results of runs below `base`, which is removed in the end."""
    for name in ("runs", "logs"):
        (base / name).mkdir(parents=True, exist_ok=True)
    try:
        with closing(runner.run(tasks)) as results:  # type: ignore[type-var]
            yield from results
    finally:
        shutil.rmtree(base, ignore_errors=True)


def log_of(task: RunTask) -> str:
    """The file for the output of a run's process, relative to the task's base."""
    return f"logs/{task.key[:16]}.log"


def make_executor(name: str, workers: int = 0) -> Executor:
    """`local` with that many workers (0: one per usable core), or `ray` / `ray:ADDRESS`."""
    if name == "local":
        return LocalExecutor(workers or len(os.sched_getaffinity(0)))
    kind, _, address = name.partition(":")
    if kind == "ray":
        from cosim.results.cluster import RayExecutor

        return RayExecutor(address or "auto", workers)
    raise SetupError(f"there is no executor '{name}'; known: local, ray, ray:ADDRESS")


class _Server:
    """The process that runs are forked from, as the sweep sees it."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._ready = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cosim.results.forkserver", str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C reaches the sweep only, which then asks the runs to stop
            env={**THREADS, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def serve(self, waiting: deque[RunTask], workers: int) -> Generator[JobResult, None, bool]:
        """Takes tasks off `waiting` until none is left or the server has ended; whether it is still there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._ready:
            self._await_ready()
            self._ready = True
        running: dict[str, tuple[RunTask, float]] = {}
        while waiting or running:
            with suppress(BrokenPipeError):  # the end of its answers is noticed below
                while waiting and len(running) < workers:
                    task = waiting.popleft()
                    running[task.key] = task, time.monotonic()
                    self._process.stdin.write(json.dumps(asdict(task), default=str).encode() + b"\n")
                    self._process.stdin.flush()
            line = self._process.stdout.readline()
            if not line.endswith(b"\n"):
                how = f"the process that the run was forked from {self._ending()}"
                for task, begun in running.values():
                    yield failed(task, how, time.monotonic() - begun)
                return False
            answer = json.loads(line)
            task, _ = running.pop(answer["key"])
            yield _result(task, answer)
        return True

    def close(self) -> None:
        """Stop what still runs, with time to write partial results, and wait for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.close()  # the server's word to stop
            self._process.wait(self._grace + 10.0)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
            self._log.close()

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START)
        if not ready:
            raise RunError(f"the process that runs are forked from did not start within {_START:g} s")
        if not self._process.stdout.readline():
            raise RunError(f"the process that runs are forked from {self._ending()}")

    def _ending(self) -> str:
        """How the server ended, with its last line of output."""
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return "says nothing any more"
        self._log.seek(0)
        return ended(code, self._log.read().decode(errors="replace"))


def ended(code: int, said: str) -> str:
    """`was killed by SIGKILL`, or `ended with exit code 3: ` and the last line of its output."""
    how = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    lines = said.strip().splitlines()
    return f"{how}: {lines[-1].strip()}" if lines else how


def _result(task: RunTask, answer: Mapping[str, Any]) -> JobResult:
    seconds = float(answer["seconds"])
    outcome = answer["outcome"]
    file = Path(task.base) / log_of(task)
    with suppress(OSError):
        if not file.stat().st_size:
            file.unlink()
    if answer["overdue"]:
        reason = f"stopped after its limit of {task.limit:g} s of wall clock"
        done = outcome or {"status": "failed", "run": "", "figures": {}}
        if done["status"] == "complete":
            reason = ""
    elif outcome is None:
        try:
            said = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            said = ""
        return failed(task, f"the run's process {ended(answer['code'], said)}", seconds)
    else:
        done, reason = outcome, outcome["error"]
    log = log_of(task) if file.is_file() else ""
    return JobResult(
        task.key, task.parameters, done["status"], done["run"], reason, log, done["figures"], seconds, task.basis
    )


def carry_out(task: RunTask) -> dict[str, Any]:
    """Make the run of `task` in this process; its status, folder (relative to the base), error and figures."""
    from cosim.results.session import run_plan
    from cosim.scenario.load import load
    from cosim.scenario.plan.compile import compile_plan
    from cosim.testbed.launch.require import has_containers

    base = Path(task.base)
    try:
        plan = compile_plan(load(Path(task.scenario), task.overrides), force=True)
        if plan.scene.real == "containers" and not has_containers(plan, os.environ):
            return _in_containers(plan, task)
        outcome = run_plan(plan, base / "runs", driver=task.driver)
    except CosimError as error:
        return {"status": "failed", "run": "", "error": str(error), "figures": {}}
    return {
        "status": outcome.status,
        "run": os.path.relpath(outcome.folder, base),
        "error": str(outcome.error) if outcome.error else "",
        "figures": dict(outcome.figures),
    }


def _in_containers(plan: Plan, task: RunTask) -> dict[str, Any]:
    """The run of a task inside containers, for which the images are there already."""
    from cosim.testbed.launch.contained import ended_by_signals, outcome
    from cosim.testbed.launch.deployment import Deployment

    base, code = Path(task.base), None
    values = [value for value in task.overrides if not value.startswith("run.nodes=")]
    words = ("--driver", task.driver, "--no-report")
    with ended_by_signals():
        deployment = Deployment(plan, Path(task.scenario), runs=base / "runs", values=values, options=words, say=print)
        with suppress(KeyboardInterrupt), deployment:
            code = deployment.wait()
    found = outcome(deployment, code)
    return {
        "status": found["status"],
        "run": os.path.relpath(found["folder"], base),
        "error": found["error"] or "",
        "figures": found["figures"],
    }
