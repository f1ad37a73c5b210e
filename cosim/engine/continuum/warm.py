"""Whether the kernel's machine code is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.engine.continuum import kernel, routes


def compiled() -> bool:
    """Whether the engine starts without compiling (some 15 s once per version and machine). Imports numba."""
    return ready(kernel.act, routes.find)
