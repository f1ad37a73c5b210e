"""What a calibration is judged by and a page shows: measured and simulated values side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.calibration import Calibration
from cosim.twin.problem import CalibrationProblem, Case, Floats, Observed, Simulate
from cosim.twin.space import Space


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One part of the data with simulations of it; rows of `before` and `after` are replicates."""

    part: str
    observed: Observed
    before: Mapping[str, Floats]  # signal -> (n, m), with the values that the parameters had
    after: Mapping[str, Floats]  # signal -> (n, m), with the calibrated ones


def replicate(simulate: Simulate, values: Floats, seeds: Sequence[int]) -> dict[str, Floats]:
    """Signal -> (len(seeds), m) simulations of one vector `values` (d,) under each seed.

    Where seeds lead to different numbers of values, NaN fills up the shorter rows.
    """
    parts = [simulate(np.atleast_2d(values), seed) for seed in seeds]
    found: dict[str, Floats] = {}
    for name in parts[0]:
        rows = [np.asarray(part[name], np.float64).ravel() for part in parts]
        found[name] = np.full((len(rows), max(len(row) for row in rows)), np.nan)
        for k, row in enumerate(rows):
            found[name][k, : len(row)] = row
    return found


def numbers(space: Space, calibration: Calibration) -> Floats:
    """(d,) calibrated values as numbers, in the order of `space`; a choice is its position."""
    return np.array([
        float(p.choices.index(calibration.value(p.name))) if p.kind == "category" else float(calibration.value(p.name))
        for p in space.parameters
    ])  # fmt: skip


def gather(
    problem: CalibrationProblem, calibration: Calibration, *, seeds: Sequence[int] = (1, 2, 3)
) -> tuple[Evidence, ...]:
    """Simulations of the fitted and the held-back part before and after calibration, under `seeds`."""
    before, after = problem.space.start, numbers(problem.space, calibration)
    seeds = seeds[:1] if problem.deterministic else seeds

    def shown(part: Case, otherwise: str) -> Evidence:
        name = f"{otherwise} ({part.name})" if part.name else otherwise
        return Evidence(
            name, part.observed, replicate(part.simulate, before, seeds), replicate(part.simulate, after, seeds)
        )

    parts = [shown(problem.fit, "fitted")]
    if problem.held_back is not None:
        parts.append(shown(problem.held_back, "held back"))
    return tuple(parts)
