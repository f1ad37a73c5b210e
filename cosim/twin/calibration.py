"""What a calibration found: values with intervals, and how far simulation and reality are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cosim.twin.judgement.subject import JudgedStatistic
from cosim.twin.space import Value

# fitted: identified by the data; correlated: only together with `partners`; no effect: refused, kept at
# its start; fixed: not searched.
Verdict = Literal["fitted", "correlated", "no effect", "fixed"]


@dataclass(frozen=True, slots=True)
class ParameterEstimate:
    """One parameter after calibration."""

    name: str
    value: Value  # as an author writes it
    low: float | None  # bounds of the 90 % interval; None for a category, or when there is no posterior
    high: float | None
    start: Value
    unit: str = ""
    verdict: Verdict = "fitted"
    reason: str = ""  # why it was refused, or whom it is correlated with and how much
    sensitivity: float | None = None  # share of the effects on the misfit, 0 to 1
    bounds: tuple[float, float] | None = None
    members: tuple[str, ...] = ()  # the scenario's fields that take the value


@dataclass(frozen=True, slots=True)
class Gap:
    """How far one signal is from what was measured; NaN where a figure means nothing for the signal.

    w1: Wasserstein-1 over the measured range. g1: mean |difference| over the range, paired as the rows
    stand. nrmse: rmse over the range. All signals together are the row "all": there g1 is SimTune's
    paired figure, the mean length of the vector of scaled differences.
    """

    signal: str
    w1: float
    g1: float
    rmse: float  # in the unit of the signal
    nrmse: float
    r2: float
    floor: float  # w1 of one measured half against the other: no model can be shown to be better
    energy_distance: float = float("nan")
    unit: str = ""
    count: int = 0  # measured values


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gaps of one part of the data before and after calibration."""

    part: str
    before: tuple[Gap, ...]
    after: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The whole answer; `cosim.twin.scenario.overlay` writes it as an overlay file, `cosim.report` as a page."""

    problem: str
    estimates: tuple[ParameterEstimate, ...]
    fit: Judgement
    held_back: Judgement | None
    method: str  # least squares, cma-es, bayesian, ...
    runs: int  # simulations of one parameter vector under one seed
    cpu_seconds: float
    wall_seconds: float
    seed: int
    stopped: str  # why the search ended: converged, budget of runs, budget of time, interrupted
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)  # further ones of the job: mape, coverage, ...
    findings: tuple[JudgedStatistic, ...] = ()  # what no simulation shows, also where it does not matter
    draws: tuple[tuple[float, ...], ...] = ()  # from the posterior: numbers in the order of the estimates

    def value(self, name: str) -> Value:
        """The calibrated value of parameter `name`. Raises `KeyError`."""
        for estimate in self.estimates:
            if estimate.name == name:
                return estimate.value
        raise KeyError(f"there is no parameter '{name}'; there are {', '.join(e.name for e in self.estimates)}")
