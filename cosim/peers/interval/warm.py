"""Whether the kernel's machine code is already there."""

from __future__ import annotations

from cosim.compiling import ready
from cosim.peers.interval import kernel


def compiled() -> bool:
    """Whether a simulation starts without compiling. Imports numba."""
    return ready(kernel.act)
