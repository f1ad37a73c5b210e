"""Whether the kernel's machine code is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.engine.interval import kernel


def compiled() -> bool:
    """Whether a simulation starts without compiling. Imports numba."""
    return ready(kernel.act)
