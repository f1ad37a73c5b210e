"""Mean path loss in dB, shadowing not included.

The functions take floats or arrays that broadcast, and use nothing but arithmetic that numba
compiles for floats as well: `cosim.physics.radio.cells` does so, and there is one definition of each law.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

LIGHT = 299_792_458.0  # m/s
Real = TypeVar("Real", float, NDArray[np.float64])


def free_space(distance: Real, frequency: float) -> Real:
    """Free-space loss, 20 log10(4 pi d f / c); Friis. `distance` m, at least 1 m is used."""
    loss: Real = 20.0 * np.log10(4.0 * np.pi * np.maximum(distance, 1.0) * frequency / LIGHT)
    return loss


def close_in(distance: Real, frequency: float, exponent: float) -> Real:
    """Close-in reference law: free-space loss at 1 m + 10 n log10(d / 1 m).

    S. Sun et al., "Investigation of prediction accuracy, sensitivity, and parameter stability of
    large-scale propagation path loss models", IEEE Trans. Veh. Technol. 65(5), 2016. `distance` is
    the three-dimensional one in m; closer than the reference distance counts as 1 m.
    """
    reference = 20.0 * np.log10(4.0 * np.pi * frequency / LIGHT)
    loss: Real = reference + 10.0 * exponent * np.log10(np.maximum(distance, 1.0))
    return loss


def umi_los(ground: Real, cell_height: float, device_height: Real, frequency: float) -> Real:
    """Urban micro street canyon, line of sight: 3GPP TR 38.901 table 7.4.1-1.

    `ground` is the horizontal distance in m (at least 10 m is used, as the table demands), heights
    are in m above ground. The two slopes meet at the breakpoint 4 h' h' f / c, and beyond it the
    second is the greater, so the law is the maximum of both.
    """
    flat = np.maximum(ground, 10.0)
    lift = cell_height - device_height
    distance = np.sqrt(flat * flat + lift * lift)
    reach = 4.0 * np.maximum(cell_height - 1.0, 0.1) * np.maximum(device_height - 1.0, 0.1) * frequency / LIGHT
    common = 32.4 + 20.0 * np.log10(frequency * 1e-9)
    near = common + 21.0 * np.log10(distance)
    far = common + 40.0 * np.log10(distance) - 9.5 * np.log10(reach * reach + lift * lift)
    loss: Real = np.maximum(near, far)
    return loss


def umi_nlos(ground: Real, cell_height: float, device_height: Real, frequency: float) -> Real:
    """Urban micro street canyon, no line of sight: 3GPP TR 38.901 table 7.4.1-1. As `umi_los`."""
    flat = np.maximum(ground, 10.0)
    lift = cell_height - device_height
    distance = np.sqrt(flat * flat + lift * lift)
    blocked = 35.3 * np.log10(distance) + 22.4 + 21.3 * np.log10(frequency * 1e-9) - 0.3 * (device_height - 1.5)
    loss: Real = np.maximum(umi_los(ground, cell_height, device_height, frequency), blocked)
    return loss


def umi_los_probability(ground: Real) -> Real:
    """Chance of line of sight at the horizontal distance `ground` (m): 3GPP TR 38.901 table 7.4.2-1."""
    near = np.minimum(18.0 / np.maximum(ground, 1e-9), 1.0)
    chance: Real = near + np.exp(-ground / 36.0) * (1.0 - near)
    return chance


UMI_SHADOWING = (4.0, 7.82)  # dB with and without line of sight, TR 38.901 table 7.4.1-1
UMI_DECORRELATION = (10.0, 13.0)  # m with and without line of sight, TR 38.901 table 7.5-6
UMI_LOS_DECORRELATION = 50.0  # m, correlation of the line-of-sight state, TR 38.901 table 7.6.3.1-2
