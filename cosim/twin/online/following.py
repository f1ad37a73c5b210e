"""Follow a run through its folder: while it goes on, or as if it did when it has ended.

The recorder appends to the run's files while the run goes on; what is there is read window by window.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.results.folder import RunFolder, write_json
from cosim.results.load import load as load_run
from cosim.scenario.calibrate import FollowBlock
from cosim.scenario.load import load
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.calibrate import INTERRUPTED, calibrate
from cosim.twin.online.windows import Drift, OnlineStudy, Span, WindowReport, spans
from cosim.twin.problem import CalibrationProblem, Case
from cosim.twin.scenario.conditions import seen
from cosim.twin.scenario.overlay import SUFFIX, write
from cosim.twin.scenario.recording import EmptyError
from cosim.twin.scenario.study import ScenarioStudy, study
from cosim.twin.search.meter import Budget

POLL = 1.0  # s between two looks at a run that goes on


class Following:
    """The twin of a run. `reports` has a row per window; `overlay` is the file with the values in use."""

    def __init__(
        self,
        scenario: Path,
        overrides: Sequence[str],
        run: Path,
        folder: Path,
        *,
        seed: int = 1,
        workers: int | None = None,
    ) -> None:
        self._loaded = load(scenario, overrides)
        block = self._loaded.scenario.calibrate
        if block is None or block.job is not None:
            raise ScenarioError(Mistake("only a scenario with a block 'calibrate' of its own can follow a run"))
        self._how: FollowBlock = block.follow
        self._scenario, self._overrides, self._run = scenario, tuple(overrides), run
        self._folder, self._seed, self._workers = folder, seed, workers
        self._method, self._observed = block.method, list(block.observed.values())
        self._studies: dict[Span, ScenarioStudy] = {}
        self.overlay = folder / f"{self._loaded.scenario.name}{SUFFIX}"
        self.history = folder / "history.json"
        self._twin: OnlineStudy | None = None
        self._written = 0

    @property
    def twin(self) -> OnlineStudy:
        """The twin, once there was a window."""
        assert self._twin is not None
        return self._twin

    def follow(self, *, wait: bool = True) -> Iterator[WindowReport]:
        """A report per window, until the run has ended (`wait`), or of the windows that are there."""
        done = 0
        while True:
            ended = RunFolder.open(self._run).status != "running"
            for span in spans(self._how.window, self._reached(ended), done):
                done += 1
                report = self._window(span)
                if report is not None:
                    yield report
            if ended or not wait:
                return
            time.sleep(POLL)

    def _reached(self, ended: bool) -> float:
        """Until when (s) all is known that belongs to a window."""
        run = load_run(self._run)
        try:
            if ended:
                return float(run.manifest["reached"])
            needed = {one.signal.partition(".")[0] for one in self._observed}
            if not needed <= {*run.signals}:
                return 0.0
            latest = [run.execute(f'SELECT max(time) FROM "{name}"').fetchone() for name in sorted(needed)]
        finally:
            run.close()
        known = [float(row[0]) if row is not None and row[0] is not None else 0.0 for row in latest]
        return min(known) - self._how.settle

    def _window(self, span: Span) -> WindowReport | None:
        """The report on a window; None for one without measurements if no earlier window had any."""
        try:
            first = self._study(span)
        except EmptyError:
            if self._twin is None:
                return None
            report = self._twin.skip(span)
            self._report()
            return report
        if self._twin is None:
            self._twin = OnlineStudy(
                first.problem.name,
                first.problem.space,
                self._case,
                self._search,
                last=self._how.last,
                drift=Drift(threshold=self._how.threshold),
                deterministic=first.problem.deterministic,
            )
        report = self._twin.window(span)
        self._report()
        return report

    def _study(self, span: Span) -> ScenarioStudy:
        if span not in self._studies:
            found = study(
                self._scenario, self._overrides, folder=self._folder / "work", workers=self._workers,
                run=self._run, span=span, warm=self._how.warm,
            )  # fmt: skip
            self._studies = {**dict(list(self._studies.items())[-2 * self._how.last :]), span: found}
        return self._studies[span]

    def _case(self, span: Span) -> Case:
        return self._study(span).problem.fit

    def _search(self, problem: CalibrationProblem) -> Calibration:
        found = calibrate(problem, budget=Budget(self._how.runs, math.inf), seed=self._seed, method=self._method)
        if found.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        return found

    def _report(self) -> None:
        """Write the overlay when values were taken into use, and the history after every window."""
        twin = self.twin
        self._folder.mkdir(parents=True, exist_ok=True)
        if len(twin.adopted) > self._written:
            self._written = len(twin.adopted)
            free, conditions = next(reversed(self._studies.values())).free, seen(self._loaded, self._run)
            write(self.overlay, twin.adopted[-1], loaded=self._loaded, free=free, conditions=conditions)
        rows = [
            {
                "window": r.number, "from": r.since, "until": r.until, "misfit": r.misfit,
                "statistic": r.statistic, "drift": r.drift, "act": r.act, "values": r.values,
            }
            for r in twin.reports
        ]  # fmt: skip
        write_json(self.history, {"run": str(self._run), "windows": rows})
