"""Whether the machine code of the kernel is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.extensions.gpu_cluster.cluster.engine import kernel


def compiled() -> bool:
    """Whether the model starts without compiling (some 20 s once per version and machine). Imports numba.

    What only some policies call, such as trying orders, is compiled at its first use, so it is not asked for.
    """
    return ready(kernel.advance, kernel.happen, kernel.settle_all)
