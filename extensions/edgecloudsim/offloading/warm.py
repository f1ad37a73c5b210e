"""Whether the machine code of the place-based models is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.extensions.edgecloudsim.offloading import kernel


def compiled() -> bool:
    """Whether a simulation starts without compiling (some 20 s once per version and machine). Imports numba."""
    return ready(kernel.begin, kernel.act)
