"""Whether an installed version is one that a requirement allows."""

from __future__ import annotations

import re


def outside(version: str, requirement: str) -> bool:
    """Whether `version` breaks a bound (`>=` or `<`) of `requirement`, as in `numba>=0.61.2,<0.69`."""
    bounds = re.findall(r"(>=|<)\s*([\d.]+)", requirement)
    return any((_release(version) < _release(bound)) == (sign == ">=") for sign, bound in bounds)


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
