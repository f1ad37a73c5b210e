"""A scenario with any adapters, run whole for every vector of values, and what its runs recorded."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosim import version
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats
from cosim.results.executor import Executor, JobResult, RunTask, made, make_executor
from cosim.results.load import load as load_run
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.scenario.batched import SEEDS, Pairs
from cosim.twin.telemetry.measured import run_table
from cosim.twin.telemetry.quantities import Codes

if TYPE_CHECKING:
    from cosim.scenario.free import Free


_MET = " met"  # values of a signal that had a counterpart, in the file of a run


class WholeRuns:
    """Simulates a scenario for many vectors of values by runs of their own, `workers` at a time.

    What a run gave is kept below `folder` under the hash of its plan, so that nothing is run twice,
    neither in this calibration nor in one that takes up where another was stopped.
    """

    def __init__(
        self,
        scenario: Path,
        overrides: Sequence[str],
        free: Sequence[Free],
        *,
        folder: Path,
        nodes: Codes,
        workloads: Codes,
        workers: int = 0,
        executor: Executor | None = None,
    ) -> None:
        self._scenario, self._overrides, self._free = scenario.resolve(), tuple(overrides), tuple(free)
        self._folder, self._nodes, self._workloads = folder.resolve(), nodes, workloads
        self._executor = executor or make_executor("local", workers)
        self.seconds: list[float] = []  # wall clock of every run that was made
        self.failures: list[str] = []  # why runs gave nothing, each once

    def __call__(self, values: Floats, seed: int, pairs: Pairs) -> dict[str, Floats]:
        """Signal -> (n, m) simulated values for (n, d) values; NaN in the row of a run that failed."""
        about = hashlib.sha256(version().encode())
        for name, (quantity, pairing) in pairs.items():
            about.update(repr((name, quantity, pairing.count, pairing.paired)).encode())
            about.update(pairing.measured.times.tobytes())
        suffix = about.hexdigest()[:8]
        files: list[Path | None] = []
        tasks: dict[str, RunTask] = {}
        base = self._folder / "making"
        for row in values:
            settings = (*self._settings(row), f"run.seed={seed % SEEDS}", "calibrate=null")
            try:
                plan = compile_plan(load(self._scenario, settings))
            except ScenarioError as error:
                self._failed(str(error))
                files.append(None)
                continue
            file = self._folder / "known" / f"{plan.hash[:32]}-{suffix}.npz"
            files.append(file)
            if not file.is_file():
                tasks[plan.hash] = RunTask(plan.hash, str(self._scenario), settings, {}, str(base))
        if tasks:
            self._make(list(tasks.values()), base, suffix, pairs)
        found = {name: np.full((len(values), pairing.count), np.nan) for name, (_, pairing) in pairs.items()}
        for row, path in enumerate(files):
            if path is not None and path.is_file():
                with np.load(path) as kept:
                    for name, (_, pairing) in pairs.items():
                        found[name][row] = kept[name]
                        pairing.met = max(pairing.met, int(kept[f"{name}{_MET}"]))
        return found

    def _settings(self, row: Floats) -> list[str]:
        own = [text for one, x in zip(self._free, row.tolist(), strict=True) for text in one.overrides(x)]
        return [*self._overrides, *own]

    def _make(self, tasks: Sequence[RunTask], base: Path, suffix: str, pairs: Pairs) -> None:
        (self._folder / "known").mkdir(parents=True, exist_ok=True)
        with closing(made(self._executor, tasks, base)) as results:
            for result in results:
                self._keep(result, base, suffix, pairs)

    def _keep(self, result: JobResult, base: Path, suffix: str, pairs: Pairs) -> None:
        self.seconds.append(result.wall_seconds)
        if result.status != "complete":
            self._failed(result.error)
            return
        run = load_run(base / result.run)
        try:
            end = float(run.manifest["reached"])
            found = {
                name: pairing.values(quantity.of(run_table(run, quantity, self._nodes, self._workloads)), end)
                for name, (quantity, pairing) in pairs.items()
            }
        finally:
            run.close()
        part = self._folder / "known" / f".{result.key[:32]}.npz"
        met = {f"{name}{_MET}": np.array(pairing.met) for name, (_, pairing) in pairs.items()}
        np.savez(part, **found, **met)  # type: ignore[arg-type]
        part.replace(self._folder / "known" / f"{result.key[:32]}-{suffix}.npz")
        shutil.rmtree(run.path, ignore_errors=True)

    def _failed(self, why: str) -> None:
        if why not in self.failures:
            self.failures.append(why)
