"""Sweeps and replications: many runs of one scenario, appended to one folder as they end.

`<base>/<scenario>/sweep-<hash>/` holds

- `sweep.json`: what is swept (`runs`: key and parameters of each),
- `results.jsonl`: one line per ended run (`key`, `run`: its folder, `parameters`, `status`, `error`,
  `log`, `figures`, `wall_seconds`, `basis`, `digest`: of the line and those before), only ever appended to; the last
  line of a key counts,
- `runs/<scenario>/...`: the run folders,
- `logs/<key>.log`: the output of a run's process, if any.

The hash of its plan identifies a run: repeating the same sweep makes only the runs that are
missing, have not completed, or were made from other data files or by another version (`basis`).
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from cosim import version
from cosim.contract.errors import RunError, SetupError
from cosim.contract.handlers import handled
from cosim.contract.seals import DamagedError, SealedLines, sealed, unsealed
from cosim.results.compiled import compile_first
from cosim.results.executor import Executor, JobResult, RunTask
from cosim.results.folder import RunFolder, refuse_links, write_json
from cosim.scenario.load import load
from cosim.scenario.named import files_named, texts
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan
from cosim.scenario.sweep import Variant

log = logging.getLogger("cosim.sweep")

FORMAT = 1
Progress = Callable[[int, int, int, JobResult | None], None]  # done, failed, all, the run that just ended


class SweepFolder:
    """The folder of a sweep and its append-only list of results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results_file = path / "results.jsonl"
        self._list = SealedLines(self.results_file)

    @staticmethod
    def create(base: Path, scenario: str, keys: Sequence[str], word: str = "sweep") -> SweepFolder:
        """The folder of the sweep over the runs `keys`, made now or found again."""
        name = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()[:8]
        refuse_links(base, scenario)
        path = (base / scenario / f"{word}-{name}").resolve()
        try:
            (path / "runs").mkdir(parents=True, exist_ok=True)
            (path / "logs").mkdir(exist_ok=True)
        except OSError as error:
            raise SetupError(f"cannot make the sweep's folder {path}: {error.strerror or error}") from error
        return SweepFolder(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from making this sweep meanwhile. Raises `RunError` when one does."""
        handle = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                other = os.read(handle, 32).decode(errors="replace").strip()
                raise RunError(
                    f"process {other or 'unknown'} is making the sweep in {self.path}; wait until it has ended, "
                    "or give another folder with --out"
                ) from None
            os.ftruncate(handle, 0)
            with suppress(OSError):  # the number only helps to find who it is
                os.write(handle, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.close(handle)

    def results(self) -> list[JobResult]:
        """The results so far, the last one of each run; a line cut off by a crash is passed over.

        Raises `DamagedError` for lines that are not as they were written, or are gone.
        """
        known = {field.name for field in fields(JobResult)}
        found: dict[str, JobResult] = {}
        for number, (data, whole) in enumerate(self._list.read(), 1):
            try:
                result = JobResult(**data if whole else {key: data[key] for key in known if key in data})
            except TypeError as error:
                raise self._list.damaged(number) from error
            found.pop(result.key, None)
            found[result.key] = result
        described = self.description()
        if found and not described:
            raise DamagedError(f"{self.path / 'sweep.json'} is missing, and results of the sweep are there")
        if (last := described.get("last")) is not None and last != self._list.last:
            raise DamagedError(f"{self.results_file} is damaged: lines at its end are gone or have come")
        return list(found.values())

    def append(self, result: JobResult) -> None:
        """Add a result so that it survives whatever happens next."""
        self._list.append(asdict(result))

    def description(self) -> dict[str, Any]:
        """What is swept; {} before the first run. Raises `DamagedError`."""
        file = self.path / "sweep.json"
        try:
            found = unsealed(file, must="last")
        except FileNotFoundError:
            return {}
        runs = found.get("runs")
        if not isinstance(runs, list) or not all(isinstance(one, dict) and "key" in one for one in runs):
            raise DamagedError(f"{file} is damaged: 'runs' is no list of runs")
        return found

    def describe(self, scenario: Path, tasks: Sequence[RunTask]) -> list[JobResult]:
        """Write down what is swept, besides what was; the results so far."""
        results = self.results()
        before = self.description()
        new = {task.key for task in tasks}
        runs = [one for one in before.get("runs", ()) if one["key"] not in new]
        names = {name for task in tasks for name in task.parameters}
        self._write({
            "format": FORMAT,
            "scenario": str(scenario),
            "parameters": sorted(names.union(before.get("parameters", ()))),
            "runs": [*runs, *({"key": task.key, "parameters": dict(task.parameters)} for task in tasks)],
            "last": None,
        })  # fmt: skip
        return results

    def end(self) -> None:
        """Write down where the list of results ends, now that all are there."""
        self.results()
        self._write({**self.description(), "last": self._list.last})

    def _write(self, description: Mapping[str, Any]) -> None:
        write_json(self.path / "sweep.json", sealed(description))

    def discard(self, result: JobResult) -> None:
        """Remove the folders of earlier attempts at a run that has now completed."""
        for folder in (self.path / "runs").glob(f"*/*-{result.key[:8]}*"):
            if os.path.relpath(folder, self.path) == result.run:
                continue
            try:
                earlier = RunFolder.open(folder)
            except SetupError:
                continue
            if earlier.manifest["plan_hash"] == result.key and not earlier.alive:
                shutil.rmtree(folder, ignore_errors=True)


def run_sweep(
    scenario: Path, variants: Sequence[Variant], executor: Executor, *, base: Path, overrides: Sequence[str] = (),
    driver: Literal["mosaik", "loop"] = "loop", limit: float | None = None, progress: Progress | None = None,
    folder: SweepFolder | None = None,
) -> SweepFolder:  # fmt: skip
    """Make the runs of `variants` that are not there yet, each within `limit` s of wall clock.

    They are added to `folder` if there is one, else they have a folder of their own under `base`.

    Every variant is checked before the first run starts: raises `ScenarioError` for a wrong one. A
    run that fails is listed in the results and stops no other. Ctrl-C and SIGTERM stop the runs
    under way and raise `RunError`; the finished ones are kept, and the same call makes the rest.
    """
    name, tasks, uses = _tasks(scenario.resolve(), variants, overrides, driver, limit)
    compile_first(uses, log.info)  # so that no run's limit counts it, and the runs do not all compile the same
    folder = folder or SweepFolder.create(base, name, list(tasks))
    with folder.held():
        wanted = [replace(task, base=str(folder.path)) for task in tasks.values()]
        so_far = folder.describe(scenario, wanted)
        there = {(r.key, r.basis) for r in so_far if r.status == "complete" and _kept(folder, r)}
        left = [task for task in wanted if (task.key, task.basis) not in there]
        done, failed = len(wanted) - len(left), 0
        if progress:
            progress(done, failed, len(wanted), None)
        try:
            with handled(_interrupt), _closing(executor.run(left)) as results:
                for result in results:
                    folder.append(result)
                    if result.status == "complete":
                        folder.discard(result)
                    done += 1
                    failed += result.status != "complete"
                    if progress:
                        progress(done, failed, len(wanted), result)
        except KeyboardInterrupt as interrupt:
            cause = str(interrupt) or "Ctrl-C"
            raise RunError(
                f"the sweep was stopped by {cause}: {done - failed} of {len(wanted)} runs are complete "
                f"in {folder.path}; the same command makes the rest"
            ) from None
        folder.end()
    return folder


def _tasks(
    scenario: Path, variants: Sequence[Variant], overrides: Sequence[str], driver: Literal["mosaik", "loop"],
    limit: float | None,
) -> tuple[str, dict[str, RunTask], set[str]]:  # fmt: skip
    """The scenario's name, the tasks by key and the adapters used; variants with the same plan are one run.

    Plans are not kept: a thousand of them take gigabytes where the scenario is large.
    """
    tasks: dict[str, RunTask] = {}
    digests: dict[Path, str] = {}
    name, uses = "", set[str]()
    for variant in variants:
        settings = (*overrides, *variant.overrides)
        plan = compile_plan(load(scenario, settings))
        name = plan.name
        uses |= {adapter.use for adapter in plan.adapters if not adapter.connect}
        basis = _basis(plan, scenario.parent, digests)
        parameters = dict(variant.assignments)
        tasks.setdefault(plan.hash, RunTask(plan.hash, str(scenario), settings, parameters, "", driver, limit, basis))
    return name, tasks, uses


def _basis(plan: Plan, folder: Path, digests: dict[Path, str]) -> str:
    """Digest of what a result depends on besides the plan: the package's version, the files the plan names."""
    whole = hashlib.sha256(version().encode())
    adapters = [[one.use, one.config] for one in plan.adapters]
    for text in texts([adapters, [one.trace for one in plan.scene.workloads]]):
        for path in files_named(folder, text):
            try:
                if path not in digests:
                    with path.open("rb") as file:
                        digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:  # the run reports it
                digests[path] = ""
            whole.update(digests[path].encode())
    return whole.hexdigest()[:16]


def _kept(folder: SweepFolder, result: JobResult) -> bool:
    """Whether the folder of a complete run is still there. Raises `DamagedError` where it is not what was written."""
    path = folder.path / result.run
    if not result.run or not path.is_dir():
        return False
    RunFolder.open(path).verify()
    return True


@contextmanager
def _closing(results: Iterator[JobResult]) -> Iterator[Iterator[JobResult]]:
    """`results`, closed at the end, so that what is running is stopped."""
    try:
        yield results
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Raise what Ctrl-C does, with the name of the signal."""
    raise KeyboardInterrupt(signal.Signals(number).name)
