"""The pattern of a base station's antenna, and what height costs: taken from received powers.

A = min(A_h + A_v, A_max), A_h = min(12 (phi / phi_3dB)^2, A_max), A_v = min(12 (theta / theta_3dB)^2, SLA_v),
with phi and theta the angles off the main lobe: 3GPP TR 38.901 table 7.3-1, and TR 36.814 table
A.2.1.1-2 with other widths.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry, part
from cosim.contract.records import Floats
from cosim.physics.radio.fast import exp

Real = TypeVar("Real", float, Floats)
Ints = NDArray[np.int32]

_DEGREES = 180.0 / np.pi
_PER_DECIBEL = np.log(10.0) / 10.0


def attenuation(
    east: Real, north: Real, up: Real, azimuth: Real, width: Real, tilt: Real, high: Real, side: Real, most: Real
) -> Real:
    """dB that the pattern takes off the peak gain towards a place `east`, `north`, `up` m of the antenna.

    `azimuth` of the main lobe in degrees clockwise from north, `width` and `high` its horizontal and
    vertical width at -3 dB in degrees (`width` inf: alike all around), `tilt` degrees below the
    horizon, `side` and `most` the limits SLA_v and A_max in dB.
    """
    bearing = np.arctan2(east, north) * _DEGREES
    off = (bearing - azimuth + 180.0) % 360.0 - 180.0
    elevation = np.arctan2(up, np.sqrt(east * east + north * north)) * _DEGREES
    flat = np.minimum(12.0 * (off / width) * (off / width), most)
    steep = (elevation + tilt) / high
    loss: Real = np.minimum(flat + np.minimum(12.0 * steep * steep, side), most)
    return loss


_attenuation = part(attenuation)


@entry()
def attenuate(
    rows: Ints, position: Floats, moved: Floats, cells: Floats, pattern: Floats, climb: float, power: Floats
) -> None:
    """Take patterns and the loss by height off `power[row, cell]`, which was just brought up to date.

    Arguments as those of `cosim.physics.radio.cells.receive`: rows that have not moved are left alone there
    and here. `pattern` (m, 6) holds azimuth, width, tilt, high, side and most of `attenuation`, most 0
    for no pattern. `climb` is lost per m of height above z = 0, in dB.
    """
    for i in range(len(rows)):
        if moved[i] == 0.0:
            continue
        x, y, z = position[i, 0], position[i, 1], position[i, 2]
        for c in range(len(cells)):
            loss = climb * max(z, 0.0)
            if pattern[c, 5] > 0.0:
                loss += _attenuation(
                    x - cells[c, 0], y - cells[c, 1], z - cells[c, 2], pattern[c, 0], pattern[c, 1], pattern[c, 2],
                    pattern[c, 3], pattern[c, 4], pattern[c, 5],
                )  # fmt: skip
            power[rows[i], c] *= exp(-_PER_DECIBEL * loss)
