"""The row that is kept of an engagement."""

from __future__ import annotations

from typing import Final

import numpy as np

from cosim.physics.vehicles.phases import METRICS

RECORD: Final = np.dtype(
    [("pair", "i8"), ("number", "i8"), ("outcome", "i8"), ("reason", "i8"), *((name, "f8") for name in METRICS)]
)
