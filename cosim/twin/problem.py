"""What a calibration is given: free parameters, what was measured, and how to simulate the same.

    problem = Problem("pi", space, fit=Case(observed, simulate), held_back=Case(later, simulate_later))

`simulate` takes many parameter vectors at once, so that a compiled engine can run them as a batch
with common random numbers. The search sees `fit` only; `held_back` is for the judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosim.twin.judgement.subject import Judged
from cosim.twin.space import Space, Value

Floats = NDArray[np.float64]
Distance = Literal["w1", "energy"]  # Wasserstein-1, energy distance
# (values (n, d), seed) -> signal -> (n, m); the same seed means the same random numbers for all n. A
# vector that cannot be simulated answers with NaN in its row.
Simulate = Callable[[Floats, int], Mapping[str, Floats]]


def seeds_of(*entropy: int, count: int = 1) -> list[int]:
    """Seeds of simulations, below 2^63, that follow from whole numbers."""
    words = np.random.SeedSequence(entropy).generate_state(count, np.uint64) >> np.uint64(1)
    return [int(word) for word in words]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSignal:
    """What one signal measured. NaN stands for a value that is missing.

    A paired signal's value k is compared with the simulated value k (the same task, time, place); of
    the others only the distribution counts, and simulated signals may have any number of values.
    """

    values: Floats  # (m,)
    unit: str = ""
    paired: bool = False
    weight: float = 1.0  # in the misfit
    origin: Literal["measured", "modelled"] = "measured"  # a figure that was computed is not a measurement
    times: Floats | None = None  # (m,) s since the start of the part, for charts and windows
    groups: tuple[str, ...] | None = None  # (m,) such as node or service, for tables by group
    usual: frozenset[str] = frozenset()  # kinds of findings that its simulations show as well; not reported

    @property
    def span(self) -> float:
        """The range of the measured values, which misfits are scaled by; 1 when they are all equal."""
        kept = self.values[np.isfinite(self.values)]
        span = float(kept.max() - kept.min()) if len(kept) else 0.0
        return span if span > 0.0 else 1.0


Observed = Mapping[str, MeasuredSignal]
# Values by parameter -> what follows from them for a scenario, by name and as fields are written.
Results = Callable[[Mapping[str, Value]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One part of the data and the simulation of the same period, inputs and conditions."""

    observed: Observed
    simulate: Simulate
    name: str = ""  # what part it is: "rows 1 to 100"
    judged: Judged | None = None  # by node and at the recording's own times; else signals are judged as they stand
    tasks: frozenset[str] = frozenset()  # paired signals whose values are durations of tasks


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationProblem:
    """All that a calibration needs. Without `held_back` its judgement states that there is none."""

    name: str
    space: Space
    fit: Case
    held_back: Case | None = None
    # Least squares can be used when every signal is paired and the model is deterministic and smooth.
    deterministic: bool = False
    cost: float = 1e-4  # s of CPU per run, roughly; from 1 s on the search takes a surrogate
    assumptions: tuple[str, ...] = ()  # what the model's structure takes for granted
    sources: tuple[str, ...] = ()  # which data, by file name and rows
    warnings: tuple[str, ...] = field(default=())  # found while the data were read
    distance: Distance = "w1"  # between distributions, which the search makes small
    results: Results | None = None  # of a job, whose parameters are no fields of a scenario
    replayed: bool = False  # whether the chance of the arrivals is that of the recording itself
