"""Sums of bytes that do not depend on the order in which they are added.

Floating-point sums do, by rounding. So each sum is kept as whole bytes and a fraction in 2^-30 B, both integers; what
an amount has below that is cut off.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record

_BITS: Final = 30


@jit
def add(s: Record, what: int, amount: float) -> None:
    """Add an amount (B, not negative) to sum `what`."""
    whole = int(amount)
    part = memory.whole(s.sums, 2 * what + 1).v + int((amount - whole) * (1 << _BITS))
    memory.whole(s.sums, 2 * what).v += whole + (part >> _BITS)
    memory.whole(s.sums, 2 * what + 1).v = part & ((1 << _BITS) - 1)


def merge(sums: NDArray[np.int64], others: NDArray[np.int64]) -> None:
    """Add all sums of `others` (SUMS, 2) to `sums`."""
    sums += others
    sums[:, 0] += sums[:, 1] >> _BITS
    sums[:, 1] &= (1 << _BITS) - 1


def value(sums: NDArray[np.int64], what: int) -> float:
    """B of sum `what`."""
    return float(sums[what, 0]) + float(sums[what, 1]) / (1 << _BITS)
