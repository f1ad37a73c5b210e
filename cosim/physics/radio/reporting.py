"""What a phone's modem reports, which is another quantity than what its channel is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats
from cosim.physics.radio.shadowing import cell_key, draw_key, normal

Keys = NDArray[np.uint64]

LOWEST, HIGHEST = -20.0, 35.0  # dB that a modem reports at least and at most
_REPORT_DRAWS = 1 << 25  # numbers from here on draw what is reported, beside shadowing and fading


@entry()
def modem_snr(sinr: Floats, key: Keys, draw: int, offset: float, slope: float, spread: float) -> Floats:
    """The SNR (n,) in whole dB that modems report at the channel's `sinr` (n,) dB.

    offset + slope x SINR + spread x N(0, 1), rounded, from `LOWEST` to `HIGHEST`. `key` (n,) of the
    devices and the number `draw` choose the draws: a device's report does not depend on other devices.
    """
    found = np.empty(len(sinr))
    for i in range(len(sinr)):
        error = spread * normal(cell_key(draw_key(key[i], draw + _REPORT_DRAWS), 0))
        found[i] = min(max(np.rint(offset + slope * sinr[i] + error), LOWEST), HIGHEST)
    return found
