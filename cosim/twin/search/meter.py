"""What a search may spend, what it has spent, and the best that it has seen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Objective = Callable[[Floats], Floats]  # points (n, d) of the unit cube -> losses (n,)

CONVERGED, RUNS, TIME = "converged", "budget of runs", "budget of time"


@dataclass(frozen=True, slots=True)
class Budget:
    """How many simulations may be run, and for how long; what is reached first ends the search."""

    runs: int = 20_000  # of one parameter vector under one seed
    seconds: float = math.inf  # s of wall clock


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a calibration stands."""

    stage: str  # screen, search, posterior, judgement
    runs: int  # so far
    best: float  # least loss so far, inf before any
    seconds_left: float  # s that the budget leaves at the present pace, an upper bound


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Where a search ended."""

    units: Floats  # (d,)
    loss: float
    stopped: str  # converged, budget of runs, budget of time


class Meter:
    """An objective that counts its runs and keeps its best points.

    Every point costs `runs_per_point` (the seeds that it is averaged over). Losses that are no numbers
    count as infinite. Called without room for all points it evaluates as many as there is room for and
    answers infinity for the rest, so that no search can spend more than the budget.
    """

    def __init__(
        self,
        objective: Objective,
        budget: Budget,
        *,
        runs_per_point: int = 1,
        kept: int = 32,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objective, self.budget, self.runs_per_point = objective, budget, runs_per_point
        self._clock, self._began, self._kept = clock, clock(), kept
        self.runs = 0
        self.points: Floats = np.empty((0, 0))  # (up to `kept`, d) best first
        self.losses: Floats = np.empty(0)

    def __call__(self, units: Floats) -> Floats:
        room = self.room
        losses = np.full(len(units), np.inf)
        if room and len(units):
            asked = units[:room]
            self.runs += len(asked) * self.runs_per_point
            answer = np.asarray(self._objective(asked), np.float64)
            losses[: len(asked)] = np.where(np.isfinite(answer), answer, np.inf)
            self._remember(asked, losses[: len(asked)])
        return losses

    @property
    def room(self) -> int:
        """How many more points there is room for."""
        if self._clock() - self._began >= self.budget.seconds:
            return 0
        return max(0, (self.budget.runs - self.runs) // self.runs_per_point)

    @property
    def over(self) -> str:
        """Which budget is used up, "" while there is room."""
        if self.room:
            return ""
        return RUNS if self.runs + self.runs_per_point > self.budget.runs else TIME

    @property
    def best(self) -> float:
        return float(self.losses[0]) if len(self.losses) else math.inf

    def found(self, otherwise: Floats, stopped: str) -> SearchResult:
        """The best point so far; `otherwise` when nothing finite was seen."""
        if not len(self.losses) or not math.isfinite(self.best):
            return SearchResult(np.asarray(otherwise, np.float64), math.inf, stopped)
        return SearchResult(self.points[0].copy(), self.best, stopped)

    def _remember(self, units: Floats, losses: Floats) -> None:
        points = np.concatenate([self.points.reshape(-1, units.shape[1]), units])
        every = np.concatenate([self.losses, losses])
        order = np.argsort(every, kind="stable")[: self._kept]
        self.points, self.losses = points[order], every[order]
