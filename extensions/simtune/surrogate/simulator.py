"""A problem's simulator as surrogates use it: QoS vectors, counted against the budget of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import process_time

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosim.extensions.simtune.surrogate.encoding import Encoding
from cosim.extensions.simtune.surrogate.target import QosTarget
from cosim.twin.problem import CalibrationProblem

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Simulator:
    """The high-fidelity model f of equation 1 over the fit part of a problem.

    `runs` simulations of one vector under one seed may be spent, and `seconds` of CPU from now on.
    """

    problem: CalibrationProblem
    runs: int
    seconds: float = float("inf")
    seed: int = 1
    spent: int = 0
    target: QosTarget = field(init=False)
    encoding: Encoding = field(init=False)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.target, self.encoding = QosTarget(self.problem.fit.observed), Encoding(self.problem.space)
        self.began = process_time()

    @property
    def left(self) -> int:
        """Runs that may still be spent."""
        return self.runs - self.spent

    def time_left(self) -> float:
        """Seconds of CPU that may still be spent."""
        return max(0.0, self.seconds - (process_time() - self.began))

    def qos(self, units: ArrayLike, stream: int = 0) -> Floats:
        """(n, q) QoS vectors of points (n, d) of the unit cube; the same stream means the same random numbers.

        Raises `ValueError` when the budget of runs does not suffice: who plans the runs must look at `left`.
        """
        units = np.atleast_2d(np.asarray(units, np.float64))
        if len(units) > self.left:
            raise ValueError(f"{len(units)} runs wanted, {self.left} of {self.runs} left")
        self.spent += len(units)
        seed = int(np.random.SeedSequence([self.seed, stream]).generate_state(1)[0])
        return self.target.qos(self.problem.fit.simulate(self.problem.space.values(units), seed))

    def gaps(self, units: ArrayLike, stream: int = 0) -> Floats:
        """(n,) reality gaps, equation 2."""
        return self.target.gaps(self.qos(units, stream))

    def slope(self, unit: Floats, stream: int = 0, step: float = 0.02) -> Floats:
        """(e,) central differences of the gap by the features; those of discrete parameters are 0."""
        real = self.encoding.real
        found = np.zeros(self.encoding.width)
        if len(real):
            ends = np.repeat(unit[None], 2 * len(real), axis=0)
            rows = np.arange(len(real))
            ends[rows, real] = np.minimum(unit[real] + step, 1.0)
            ends[rows + len(real), real] = np.maximum(unit[real] - step, 0.0)
            width = ends[rows, real] - ends[rows + len(real), real]
            up, down = np.split(self.gaps(ends, stream), 2)
            found[self.encoding.real_features] = (up - down) / width
        return found
