"""Whether the machine code of the model is already there."""

from __future__ import annotations

from cosim.compiled.compiling import ready
from cosim.extensions.extcloudsim.datacentre import account, control


def compiled() -> bool:
    """Whether the model starts without compiling (some 30 s once per version and machine). Imports numba."""
    return ready(control.consolidate, account.account)
