"""Power of a machine by load, from a few measured loads and a fleet of machines measured in full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats

LEVELS = np.arange(0.0, 1.01, 0.1)  # of the full load; the first is active idle
NOISE = 0.003  # sd of one measured point over the power at full load: whole watts, and what repeats differ by


@dataclass(frozen=True, slots=True, eq=False)
class PowerCurve:
    """Power at `LEVELS`."""

    watts: Floats  # (11,)
    sd: Floats  # (11,) W, of what the fleet leaves open


class MeasuredMachines:
    """Machines whose power was measured at every level: the prior of another machine's curve.

    The shape of a curve, power over power at full load, is taken as normal over the fleet, with its mean
    and covariance. Given some levels of one machine, the others follow in closed form (conditional normal
    law; Gelman et al., "Bayesian Data Analysis", 3rd ed., section 3.5). `watts` is (machines, 11).
    Raises `ScenarioError` for fewer than 12 machines, which leave the covariance singular.
    """

    def __init__(self, watts: ArrayLike) -> None:
        self.watts = np.atleast_2d(np.asarray(watts, np.float64))
        if len(self.watts) <= len(LEVELS):
            raise ScenarioError(
                Mistake(f"a fleet of {len(self.watts)} machines says too little", hint="take 12 machines or more")
            )
        self._shapes = self.watts / self.watts[:, -1:]

    def without(self, machine: int) -> MeasuredMachines:
        """The other machines."""
        return MeasuredMachines(np.delete(self.watts, machine, axis=0))

    def components(self, count: int) -> tuple[Floats, Floats]:
        """The mean shape (11,) and `count` principal components (count, 11), each of one standard deviation."""
        mean = self._shapes.mean(axis=0)
        _, scale, rows = np.linalg.svd(self._shapes - mean, full_matrices=False)
        return mean, rows[:count] * (scale[:count] / np.sqrt(len(self._shapes) - 1))[:, None]

    def curve(self, levels: ArrayLike, watts: ArrayLike) -> PowerCurve:
        """The curve of a machine measured at `levels` (indices of `LEVELS`, the last one among them)."""
        at = np.asarray(levels, np.int64)
        measured = np.asarray(watts, np.float64)
        if len(LEVELS) - 1 not in at:
            raise ScenarioError(Mistake("the power at full load is missing", hint="measure it: it is the scale"))
        full = float(measured[at == len(LEVELS) - 1][0])
        mean = self._shapes.mean(axis=0)
        spread = np.cov(self._shapes.T)
        gain = np.linalg.solve(spread[np.ix_(at, at)] + NOISE**2 * np.eye(len(at)), spread[at]).T
        found = mean + gain @ (measured / full - mean[at])
        left = np.clip(np.diag(spread - gain @ spread[at]), 0.0, None) + NOISE**2
        return PowerCurve(found * full, np.sqrt(left) * full)
