"""Whether the machine code of the kernel is already there."""

from __future__ import annotations

from cosim.cluster import surrogate
from cosim.cluster.engine import kernel
from cosim.compiling import ready


def compiled() -> bool:
    """Whether the model starts without compiling (some 40 s once per version and machine). Imports numba."""
    entries = (
        kernel.advance,
        kernel.decide,
        kernel.start_at,
        kernel.drop,
        kernel.adopt,
        kernel.try_orders,
        kernel.happen,
        kernel.switch,
    )
    return ready(*entries, kernel.settle_all, kernel.fitting, surrogate.features)
