"""Whether the link model's machine code is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.physics.radio import cells, shadowing


def compiled() -> bool:
    """Whether the link model starts without compiling (some 5 s once per version and machine). Imports numba.

    Interference may be switched off and is compiled with the rest otherwise, so it is not asked for.
    """
    return ready(shadowing.device_keys, cells.receive, cells.associate)
