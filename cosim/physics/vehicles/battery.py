"""A lithium-polymer pack: open-circuit voltage by charge, a resistance in series.

Terminal voltage U = E(charge) - R I, power P = U I, hence I = 2 P / (E + sqrt(E^2 - 4 R P)). At most
E^2 / (4 R) can be drawn; larger requests get that.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import part

# V of one cell at rest by charge in steps of 5 %, for lithium-polymer cells (4.2 V full). A generic
# curve of the common discharge tables; calibration may replace it.
OPEN_CIRCUIT = np.array([
    3.27, 3.61, 3.69, 3.71, 3.73, 3.75, 3.77, 3.79, 3.80, 3.82, 3.84,
    3.85, 3.87, 3.91, 3.95, 3.98, 4.02, 4.08, 4.11, 4.15, 4.20,
])  # fmt: skip


@part
def open_circuit(charge: float) -> float:
    """V of one cell at rest at a charge of 0..1."""
    at = min(max(charge, 0.0), 1.0) * (len(OPEN_CIRCUIT) - 1)
    k = min(int(at), len(OPEN_CIRCUIT) - 2)
    return float(OPEN_CIRCUIT[k] + (at - k) * (OPEN_CIRCUIT[k + 1] - OPEN_CIRCUIT[k]))


@part
def current(power: float, emf: float, resistance: float) -> float:
    """A that a load of `power` W draws from a pack of `emf` V at rest and `resistance` ohm."""
    # the smaller root, written so that it holds down to no resistance at all
    return (
        2.0 * power / (emf + math.sqrt(emf * emf - 4.0 * resistance * power))
        if (4.0 * resistance * power < emf * emf)
        else emf / (2.0 * resistance)
    )
