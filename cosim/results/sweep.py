"""Sweeps and replications: many runs of one scenario, appended to one folder as they end.

`<base>/<scenario>/sweep-<hash>/` holds `sweep.json` (what is swept), `results.jsonl` (one line per
ended run, only ever appended to) and the run folders below `runs/`. A run is known by the hash of
its plan: asking for the same sweep again makes only the runs that are missing or have failed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from cosim.errors import RunError
from cosim.plan.compile import compile_plan
from cosim.results.executor import Executor, Result, Task
from cosim.scenario.load import load
from cosim.scenario.sweep import Variant

Progress = Callable[[int, int, int, Result | None], None]  # done, failed, all, the run that just ended


class SweepFolder:
    """The folder of a sweep and its append-only list of results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results_file = path / "results.jsonl"

    @staticmethod
    def create(base: Path, scenario: str, tasks: Sequence[Task]) -> SweepFolder:
        """The folder of this sweep, made now or found again."""
        keys = hashlib.sha256("".join(sorted(task.key for task in tasks)).encode()).hexdigest()
        path = base / scenario / f"sweep-{keys[:8]}"
        path.mkdir(parents=True, exist_ok=True)
        return SweepFolder(path)

    def results(self) -> list[Result]:
        """The results so far, the last one of each run; a line cut off by a crash is passed over."""
        found: dict[str, Result] = {}
        if self.results_file.exists():
            for line in self.results_file.read_text(encoding="utf-8").splitlines():
                try:
                    result = Result(**json.loads(line))
                except (json.JSONDecodeError, TypeError):
                    continue
                found[result.key] = result
        return list(found.values())

    def append(self, result: Result) -> None:
        """Add a result so that it survives whatever happens next."""
        line = json.dumps(asdict(result), default=str) + "\n"
        try:
            with self.results_file.open("a+b") as file:
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read(1) != b"\n":  # the line before was cut off
                        file.write(b"\n")
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"the result of a run could not be added to {self.results_file}: {error}") from error

    def describe(self, scenario: Path, tasks: Sequence[Task]) -> None:
        """Write down what is swept."""
        data = {
            "format": 1,
            "scenario": str(scenario),
            "parameters": sorted({name for task in tasks for name in task.assignment}),
            "runs": [{"key": task.key, "assignment": task.assignment} for task in tasks],
        }
        unfinished = self.path / "sweep.json.part"
        unfinished.write_text(json.dumps(data, indent=2, default=str), encoding="utf-8")
        unfinished.rename(self.path / "sweep.json")


def run_sweep(
    scenario: Path,
    variants: Sequence[Variant],
    executor: Executor,
    *,
    base: Path,
    overrides: Sequence[str] = (),
    driver: Literal["mosaik", "loop"] = "loop",
    progress: Progress | None = None,
) -> SweepFolder:
    """Make the runs of `variants` that are not there yet.

    Every variant is checked before the first run starts: raises `ScenarioError` for a wrong one. A
    run that fails is listed in the results and stops no other.
    """
    plans = [compile_plan(load(scenario, (*overrides, *variant.overrides))) for variant in variants]
    name = plans[0].name
    probe = [
        Task(plan.hash, str(scenario), (*overrides, *variant.overrides), variant.assignments, "", driver)
        for plan, variant in zip(plans, variants, strict=True)
    ]
    folder = SweepFolder.create(base, name, probe)
    runs = str((folder.path / "runs").resolve())
    tasks = [Task(t.key, t.scenario, t.overrides, t.assignment, runs, t.driver) for t in probe]
    folder.describe(scenario, tasks)
    there = {result.key for result in folder.results() if result.status == "complete"}
    left = [task for task in tasks if task.key not in there]
    done, failed = len(tasks) - len(left), 0
    if progress:
        progress(done, failed, len(tasks), None)
    for result in _once(executor.run(left)):
        folder.append(result)
        done += 1
        failed += result.status != "complete"
        if progress:
            progress(done, failed, len(tasks), result)
    return folder


def _once(results: Iterator[Result]) -> Iterator[Result]:
    """`results`, closed when the reader stops early, so that what is running is stopped."""
    try:
        yield from results
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()
