"""The one place that says how functions of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

from cosim import compiling

_njit: Any = numba.njit  # its stubs do not know all of its options
F = TypeVar("F", bound=Callable[..., Any])

# The kernel calls the built-in schedulers.
entry = compiling.entry("schedulers")


def jit(function: F) -> F:
    """Compile as a part of the kernel, for compiled callers only; the entry point's cache holds it."""
    made: F = _njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return made
