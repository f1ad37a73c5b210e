"""Calibration while a run goes on: window after window the twin is compared, and tuned when it drifts.

    twin = Online(space, case, search)
    for report in map(twin.window, spans):
        report.misfit, report.drift, twin.values

Every window is simulated with the values in use. When the misfit drifts (`Drift`), the
windows since the change are calibrated anew; what was found is taken into use only when it agrees
better with the next window, which the search has not seen. When enough windows have passed since, they
are calibrated once more by themselves, because the first ones may have held some of what was before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cosim.contract.errors import ScenarioError
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.judging import before_and_after, numbers
from cosim.twin.fitting.misfit import Misfit
from cosim.twin.fitting.screen import SEEDS
from cosim.twin.judgement.table import RELATIVE
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.space import Space, Value

Span = tuple[float, float]  # s
Act = Literal["", "calibrated", "adopted", "rejected"]
_LEAST = 2  # windows that are fitted: so many must have passed since a drift began


@dataclass(frozen=True, slots=True)
class WindowReport:
    """The result of one window."""

    number: int
    since: float  # s
    until: float  # s
    misfit: float  # with the values in use when the window came
    statistic: float  # of the drift
    drift: bool
    act: Act  # what was done after it; calibrated: a candidate waits for the next window
    values: dict[str, Value] = field(default_factory=dict)  # in use after the window


@dataclass(slots=True)
class Drift:
    """A cumulative sum of misfits, one per window, which says when a twin no longer agrees with what it follows.

    E. S. Page, Biometrika 41 (1954). The sum grows by how far a misfit lies above its usual value, less a slack, and
    never falls below zero; where it last stood at zero the change is taken to have begun. `slack` and `threshold` are
    in standard deviations.
    """

    slack: float = 1.0
    threshold: float = 6.0
    spread: float = 0.15  # least standard deviation, as a part of the usual misfit
    floor: float = 1e-3  # least standard deviation at all
    usual: list[float] = field(default_factory=list)  # misfits of windows that were fitted, or were quiet
    statistic: float = 0.0
    begun: int = 0  # windows since the sum last stood at zero

    def restart(self, usual: list[float]) -> None:
        """Other values are in use; under them windows had these misfits."""
        self.usual, self.statistic, self.begun = [x for x in usual if math.isfinite(x)], 0.0, 0

    def look(self, misfit: float) -> bool:
        """Whether the sum has passed the threshold with the window of this misfit."""
        if not self.usual:
            self.usual.append(misfit)
            return False
        mean, deviation = self._usual()
        far = (misfit - mean) / deviation if math.isfinite(misfit) else self.threshold + self.slack
        self.statistic = max(0.0, self.statistic + far - self.slack)
        self.begun = self.begun + 1 if self.statistic > 0.0 else 0
        if self.statistic < self.threshold / 2:
            self.usual.append(misfit)
        return self.statistic > self.threshold

    def _usual(self) -> tuple[float, float]:
        """Mean and standard deviation of a further misfit; the fewer are known, the wider."""
        count = len(self.usual)
        mean, deviation = float(np.mean(self.usual)), float(np.std(self.usual, ddof=1)) if count > 1 else 0.0
        deviation = max(deviation, self.spread * mean, self.floor)
        return mean, deviation * math.sqrt(1.0 + 1.0 / count) * (1.0 + 1.0 / count)


class OnlineStudy:
    """A twin that follows: the first `last` windows are fitted, and after a drift at most as many.

    `case` gives what was measured and the simulation of a span of time; `search` calibrates a problem
    whose start are the values in use. Windows must come in the order of time and without gaps.
    """

    def __init__(
        self,
        name: str,
        space: Space,
        case: Callable[[Span], Case],
        search: Callable[[CalibrationProblem], Calibration],
        *,
        last: int = 4,
        drift: Drift | None = None,
        deterministic: bool = False,
    ) -> None:
        self.name, self.space, self._last = name, space, last
        self._case, self._search, self._drift = case, search, drift or Drift()
        self._deterministic, self._seeds = deterministic, range(1, 2 if deterministic else SEEDS + 1)
        self.numbers: Floats = space.start
        self.reports: list[WindowReport] = []
        self.adopted: list[Calibration] = []
        self._cases: list[Case] = []
        self._spans: list[Span] = []
        self._candidate: tuple[Calibration, Floats, int] | None = None  # and the first window that it was fitted on
        self._calibrated = False
        self._settled: int | None = None  # the window after which a change is fitted by itself
        self._scales: dict[str, list[float]] = {}  # ranges of the signals in the first windows

    @property
    def values(self) -> dict[str, Value]:
        """The values in use, as an author writes them."""
        return dict(self.space.as_written(self.numbers))

    def window(self, span: Span) -> WindowReport:
        """Compare the next window, and do what is to be done."""
        case = self._case(span)
        number = len(self._spans)
        self._cases.append(case)
        self._spans.append(span)
        for name, signal in case.observed.items():
            if len(self._scales.setdefault(name, [])) < self._last:
                self._scales[name].append(_scale(signal))
        misfit = self._misfit(case, self.numbers)
        act: Act = ""
        drift = False
        if self._candidate is not None:
            act = self._judge(case, misfit)
            if act == "rejected":
                drift = self._drift.look(misfit)
                if drift:  # the change is still there, and there is one window more to learn from
                    act = self._calibrate(self._begin())
        elif not self._calibrated:
            if number + 1 >= self._last:
                act, self._calibrated = self._calibrate(0), True
        else:
            drift = self._drift.look(misfit)
            if drift and self._drift.begun >= _LEAST:
                act, self._settled = self._calibrate(self._begin()), number + 1 + self._last
            elif self._settled is not None and number >= self._settled:
                act, self._settled = self._calibrate(number + 1 - self._last), None
        for old in range(len(self._cases) - 2 * self._last):
            self._cases[old] = Case({}, case.simulate)  # nothing looks back farther
        return self._report(span, misfit, act, drift=drift)

    def skip(self, span: Span) -> WindowReport:
        """Nothing was measured in the next window."""
        self._spans.append(span)
        self._cases.append(Case({}, lambda values, seed: {}))  # noqa: ARG005 - the signature of a simulation
        return self._report(span, float("nan"))

    def _report(self, span: Span, misfit: float, act: Act = "", *, drift: bool = False) -> WindowReport:
        report = WindowReport(len(self.reports), *span, misfit, self._drift.statistic, drift, act, self.values)
        self.reports.append(report)
        return report

    def _begin(self) -> int:
        """The first of the windows that are fitted: since the change, and not too many."""
        since = max(self._drift.begun, _LEAST)
        return max(0, len(self._cases) - min(since, self._last))

    def _misfit(self, case: Case, values: Floats) -> float:
        """The misfit of one window; signals are scaled by their ranges in the first windows, not in this one."""
        simulated = [case.simulate(values[None], seed) for seed in self._seeds]
        weights = total = 0.0
        for name, signal in case.observed.items():
            one = Misfit({name: signal})
            loss = float(np.mean([one.losses({name: rows[name]})[0] for rows in simulated])) * signal.span
            total += signal.weight * loss / float(np.median(self._scales[name]))
            weights += signal.weight
        return total / weights if weights else float("nan")

    def _misfits(self, first: int) -> list[float]:
        """The misfits of the windows from number `first` on, with the values in use."""
        return [self._misfit(one, self.numbers) for one in self._cases[first:] if one.observed]

    def _calibrate(self, first: int) -> Act:
        span = self._spans[first][0], self._spans[-1][1]
        start = dict(zip(self.space.names, self.numbers.tolist(), strict=True))
        space = Space([replace(p, start=float(np.clip(start[p.name], p.low, p.high))) for p in self.space.parameters])
        try:
            problem = CalibrationProblem(self.name, space, self._case(span), deterministic=self._deterministic)
            found = self._search(problem)
        except ScenarioError:  # too little was measured; there will be more
            return ""
        self._candidate = found, numbers(space, found), first
        return "calibrated"

    def _judge(self, case: Case, misfit: float) -> Act:
        """Take the candidate into use if it agrees better with a window that it has not seen."""
        assert self._candidate is not None
        found, values, first = self._candidate
        self._candidate = None
        if not self._misfit(case, values) < misfit:
            if not self._drift.usual or np.array_equal(values, self.numbers):  # nothing was to be gained
                self._drift.restart(self._misfits(first))
            return "rejected"
        judged, *_ = before_and_after(case, np.stack([self.numbers, values]), self._seeds, "held back")
        self.numbers = values
        self.adopted.append(replace(found, held_back=judged))
        self._drift.restart(self._misfits(first))
        return "adopted"


def _scale(signal: MeasuredSignal) -> float:
    """The range of a signal in a window; of one that hardly varies a part of its size."""
    known = np.abs(signal.values[np.isfinite(signal.values)])
    return max(signal.span, RELATIVE * float(np.median(known))) if len(known) else signal.span


def spans(window: float, until: float, done: int = 0) -> Sequence[Span]:
    """The whole windows of `window` s up to `until` s, without the first `done`."""
    count = int(until / window + 1e-9)
    return [(k * window, (k + 1) * window) for k in range(done, count)]
