"""The one place that says how functions of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_njit: Any = numba.njit  # its stubs do not know all of its options
F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile as a part of the kernel. Not cached by itself: the entry point's cache holds it."""
    compiled: F = _njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


def entry(function: F) -> F:
    """Compile as an entry point and keep the machine code for later processes."""
    compiled: F = _njit(nogil=True, error_model="numpy", cache=True)(function)
    return compiled
