"""What cooling and power supply draw beside the hosts of a place: by their load and by the air outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats
from cosim.engine.continuum.price import StepSeries

COLDEST, WARMEST = -3.9, 35.0  # degrees Celsius, of the measurements


@dataclass(frozen=True, slots=True, eq=False)
class Cooling:
    """Overhead of a place: a factor on the power of its hosts, and a part that does not depend on it."""

    factor: StepSeries  # W of hosts and cooling for each W of hosts
    fixed: float = 0.0  # W

    def extra(self, joule: float, start: float, end: float) -> float:
        """J from `start` to `end` s beside `joule` of the hosts, which they draw evenly."""
        return joule * (self.factor.mean(start, end) - 1.0) + self.fixed * (end - start)


def partial_pue(celsius: ArrayLike) -> Floats:
    """W of hosts and cooling for each W of hosts, by the temperature outside (degrees Celsius).

    The fit to an air-side economiser with a chiller of Xu, Feng and Li, Temperature Aware Workload Management in
    Geo-distributed Datacenters (ICAC 2013), section 2. Beyond its range the nearest end holds.
    """
    t = np.clip(np.asarray(celsius, np.float64), COLDEST, WARMEST)
    return np.asarray(7.1705e-5 * t * t + 0.0041 * t + 1.0743)
