"""A sweep on a Ray cluster.

Every node needs the same Python, this package with its dependencies and Ray (extra `ray`), all in the same
versions as here, and what the scenario's adapters need (SUMO, for example). Nothing else has to be shared:
the scenario's folder travels to the nodes through Ray's object store, and run folders travel back the same way.
"""

from __future__ import annotations

import io
import logging
import socket
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from cosim import version
from cosim.contract.errors import SetupError, require
from cosim.results.executor import JobResult, LocalExecutor, RunTask, failed
from cosim.results.forkserver import task_from

S = TypeVar("S")
T = TypeVar("T")
_RETRIES = 2  # attempts beyond the first at a run whose node or worker died
_REACH = 10.0  # s for the cluster's head to answer
_AHEAD = 2  # runs per core of the cluster that are handed to Ray at a time; the rest waits here


class RayExecutor:
    """One run per core of a Ray cluster; `address` as `ray.init` takes it, "auto" for the one at hand.

    `workers` > 0 bounds how many runs are under way at a time.
    """

    def __init__(self, address: str = "auto", workers: int = 0) -> None:
        require("ray", "ray")
        import ray

        self._ray = ray
        self._workers = workers
        _reach(address)
        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SetupError(f"no Ray cluster at '{address}': {error}; start one with: ray start --head") from error

    def run(self, tasks: Sequence[RunTask]) -> Iterator[JobResult]:
        sources: dict[Path, Any] = {}

        def arguments(task: RunTask) -> tuple[Any, ...]:
            folder = Path(task.scenario).parent
            if folder not in sources:
                sources[folder] = self._ray.put(pack(folder, skip=("runs", Path(task.base).name)))
            return asdict(task), sources[folder], version()

        for task, reference in self._done(run_packed, tasks, arguments):
            yield self._result(task, reference)

    def each(
        self, function: Callable[..., T], items: Sequence[S], arguments: Callable[[S], tuple[Any, ...]]
    ) -> Iterator[tuple[S, T]]:
        """Each of `items` with what `function` returns for its `arguments`, as they are done.

        Raises `SetupError` for the first that fails.
        """
        for item, reference in self._done(function, items, arguments):
            try:
                yield item, self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                raise SetupError(f"lost on the cluster: {self._cause(error)}") from None

    def _done(
        self, function: Callable[..., Any], items: Sequence[S], arguments: Callable[[S], tuple[Any, ...]]
    ) -> Iterator[tuple[S, Any]]:
        """Each of `items` with the reference to its result; few are handed to Ray at a time."""
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(function)
        waiting = list(reversed(items))
        pending: dict[Any, S] = {}
        try:
            while waiting or pending:
                most = self._workers or _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
                while waiting and len(pending) < most:
                    item = waiting.pop()
                    pending[remote.remote(*arguments(item))] = item
                done, _ = ray.wait(list(pending), num_returns=1)
                for reference in done:
                    yield pending.pop(reference), reference
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _cause(self, error: Exception) -> str:
        """The cause of an error in a worker stands last, of a death of the worker first."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1] if isinstance(error, self._ray.exceptions.RayTaskError) else lines[0]

    def _result(self, task: RunTask, reference: Any) -> JobResult:  # noqa: ANN401 - Ray has no types
        try:
            data, archive = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return failed(task, f"the run was lost on the cluster: {self._cause(error)}")
        try:
            unpack(archive, Path(task.base))
        except OSError as error:
            return failed(task, f"the run's folder could not be written here: {error.strerror or error}")
        return JobResult(**data)


def _reach(address: str) -> None:
    """Raise `SetupError` when nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return  # "auto", "local", a client's URL
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH).close()
    except (OSError, OverflowError) as error:
        raise SetupError(f"no Ray cluster at '{address}': {error}; start one with: ray start --head") from error


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


def run_packed(data: dict[str, Any], source: bytes, wanted: str) -> tuple[dict[str, Any], bytes]:
    """On a node of the cluster: unpack the scenario, run it, pack what came of it."""
    if version() != wanted:
        raise SetupError(f"this node has continuum-cosim {version()}, the sweep was started with {wanted}")
    task = task_from(data)
    with tempfile.TemporaryDirectory(prefix="cosim-ray-") as scratch:
        folder, out = Path(scratch) / "scenario", Path(scratch) / "out"
        unpack(source, folder)
        out.mkdir()
        local = replace(task, scenario=str(folder / Path(task.scenario).name), base=str(out))
        (result,) = LocalExecutor(1).run([local])
        return asdict(result), pack(out)
