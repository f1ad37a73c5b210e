"""Where the runs of a sweep are carried out: processes on this machine, or a Ray cluster.

An executor takes tasks and yields their results as they are done, in any order. Each run has a
process of its own, so that a crash, a leak or a `libsumo` that stays behind concerns one run only.
"""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from cosim.errors import SetupError

_POLL = 0.05  # s between looks at the running processes
_GRACE = 20.0  # s that a run gets to write its partial results when it is told to stop


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be made: the scenario, what is set in it, and the key that its result is known by."""

    key: str  # hash of the plan
    scenario: str  # path of the scenario file
    overrides: tuple[str, ...]
    assignment: Mapping[str, Any]
    base: str  # folder that the run's folder is made in
    driver: Literal["mosaik", "loop"] = "loop"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a task. `folder` is relative to the task's base, "" when there is none."""

    key: str
    assignment: Mapping[str, Any]
    status: str  # complete | partial | failed
    folder: str
    error: str
    figures: Mapping[str, float | None]
    wall_seconds: float


class Executor(Protocol):
    """Carries out tasks; closing the iterator early stops what is still running."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """The results in the order in which the runs end."""


class LocalExecutor:
    """Up to `workers` processes on this machine."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise SetupError(f"{workers} workers cannot run anything; give at least 1")
        self.workers = workers

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        waiting = list(reversed(tasks))
        running: dict[subprocess.Popen[bytes], tuple[Task, Path, float]] = {}
        with tempfile.TemporaryDirectory(prefix="cosim-sweep-") as scratch:
            try:
                while waiting or running:
                    while waiting and len(running) < self.workers:
                        task = waiting.pop()
                        answer = Path(scratch) / f"{task.key}.json"
                        running[_spawn(task, answer)] = (task, answer, time.monotonic())
                    for process in [p for p in running if p.poll() is not None]:
                        task, answer, begun = running.pop(process)
                        yield _result(task, answer, process.returncode, time.monotonic() - begun)
                    time.sleep(_POLL)
            finally:
                _stop(list(running))


class RayExecutor:
    """The processes of a Ray cluster; `address` as `ray.init` takes it, "auto" for the one at hand.

    A run's folder comes back through Ray's object store, so no shared file system is needed; the
    scenario's folder travels to the workers the same way.
    """

    def __init__(self, address: str = "auto") -> None:
        try:
            import ray
        except ImportError as error:
            raise SetupError("Ray is not installed: pip install 'continuum-cosim[ray]'") from error
        self._ray = ray
        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            raise SetupError(f"no Ray cluster at '{address}': {error}") from error

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        ray = self._ray
        remote = ray.remote(max_calls=1, max_retries=2)(_run_packed)
        sources: dict[str, Any] = {}
        pending: dict[Any, Task] = {}
        for task in tasks:
            folder = str(Path(task.scenario).resolve().parent)
            if folder not in sources:
                sources[folder] = ray.put(pack(Path(folder), skip=("runs", "sweeps")))
            pending[remote.remote(asdict(task), sources[folder])] = task
        try:
            while pending:
                done, _ = ray.wait(list(pending), num_returns=1)
                for reference in done:
                    task = pending.pop(reference)
                    try:
                        data, archive = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield Result(task.key, task.assignment, "failed", "", str(error).splitlines()[0], {}, 0.0)
                        continue
                    if archive:
                        unpack(archive, Path(task.base))
                    yield Result(**data)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


def make_executor(name: str, workers: int) -> Executor:
    """`local` with that many workers, or `ray` / `ray:ADDRESS`."""
    if name == "local":
        return LocalExecutor(workers)
    kind, _, address = name.partition(":")
    if kind == "ray":
        return RayExecutor(address or "auto")
    raise SetupError(f"there is no executor '{name}'; known: local, ray, ray:ADDRESS")


def pack(folder: Path, skip: Sequence[str] = ()) -> bytes:
    """`folder`'s content as a tar archive, without the top-level entries named in `skip`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for entry in sorted(folder.iterdir()):
            if entry.name not in skip:
                archive.add(entry, arcname=entry.name)
    return buffer.getvalue()


def unpack(archive: bytes, folder: Path) -> None:
    """The opposite of `pack`; entries that would leave `folder` are refused."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        tar.extractall(folder, filter="data")


def _run_packed(data: dict[str, Any], source: bytes) -> tuple[dict[str, Any], bytes]:
    """Runs on a worker of the cluster: unpack the scenario, run it, pack what came of it."""
    with tempfile.TemporaryDirectory(prefix="cosim-ray-") as scratch:
        folder = Path(scratch)
        unpack(source, folder / "scenario")
        task = Task(**{**data, "overrides": tuple(data["overrides"])})
        local = Task(
            task.key,
            str(folder / "scenario" / Path(task.scenario).name),
            task.overrides,
            task.assignment,
            str(folder / "out"),
            task.driver,
        )
        result = next(iter(LocalExecutor(1).run([local])))
        out = folder / "out"
        return asdict(result), pack(out) if out.is_dir() else b""


def _spawn(task: Task, answer: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cosim.results.single", json.dumps(asdict(task)), str(answer)]
    # A session of its own: Ctrl-C reaches only the sweep, which then tells the runs to stop.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=answer.with_suffix(".log").open("wb"),
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _result(task: Task, answer: Path, code: int, seconds: float) -> Result:
    try:
        data = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        log = answer.with_suffix(".log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = f": {log[-1]}" if log else ""
        return Result(task.key, task.assignment, "failed", "", f"the run's process {how}{last}", {}, seconds)
    return Result(task.key, task.assignment, data["status"], data["folder"], data["error"], data["figures"], seconds)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
