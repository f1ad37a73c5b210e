"""The one way in which this package compiles a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """`function` as machine code, kept in numba's cache between runs; same signature, same results."""
    return cast(F, njit(cache=True)(function))
