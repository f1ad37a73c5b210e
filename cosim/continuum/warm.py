"""Whether the kernel's machine code is already there."""

from __future__ import annotations

from typing import Any

from cosim.continuum import kernel, routes


def _cached(function: Any) -> bool:  # noqa: ANN401 - numba's dispatcher
    """Whether numba's index names machine code of `function` for this processor and these sources."""
    from numba import from_dtype, types

    from cosim.continuum.layout import META

    meta = types.Array(from_dtype(META), 1, "C")
    try:
        cache = function._cache  # numba has no public name for it
        target = function.targetdescr.target_context.codegen().magic_tuple()
        for signature, processor, _ in cache._cache_file._load_index():
            if signature[0] == meta and processor == target:
                return True
    except (AttributeError, OSError, TypeError, ValueError):
        return False
    return False


def compiled() -> bool:
    """Whether the engine starts without compiling (some 20 s once per version and machine).

    False when in doubt. Imports numba.
    """
    entries: tuple[Any, ...] = (kernel.act, routes.find)
    return all(bool(function.signatures) or _cached(function) for function in entries)
