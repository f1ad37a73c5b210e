"""The one place that says how functions of this package are compiled.

numba makes each compiled function ready to be called by itself: it optimises the function together
with everything that it calls, at every level of a nest of calls. Parts of a kernel are called by the
kernel only, so `jit` leaves them as they are until the entry point is optimised, once, with all of
them in it (measured: a fifth of the time). This overrides how numba's code libraries end; without
these methods numba would only be slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba._dynfunc
import numba.core.compiler

from cosim import compiling

_njit: Any = numba.njit  # its stubs do not know all of its options
_compiler: Any = numba.core.compiler
_dynfunc: Any = numba._dynfunc
F = TypeVar("F", bound=Callable[..., Any])

entry = compiling.entry()


def _leave_open(library: Any) -> None:  # noqa: ANN401
    """Let the library be linked into others without being optimised or turned into machine code."""

    def end() -> None:
        library._finalize_dynamic_globals()
        library._finalized = True

    library._optimize_final_module = lambda: None
    library._finalize_final_module = end


def _callee(library: Any, description: Any, environment: Any) -> Any:  # noqa: ANN401
    """What stands for a function that only compiled functions call: it has no address."""
    name = description.qualname.split(".")[-1]
    return _dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (library,))


class _Part(_compiler.Compiler):  # type: ignore[misc]  # numba has no types
    """numba's compiler, for a part of a kernel."""

    def compile_extra(self, func: Any) -> Any:  # noqa: ANN401
        target = self.state.targetctx  # this compilation's own
        self.state.library = target.codegen().create_library(func.__qualname__)
        _leave_open(self.state.library)
        target.get_executable = _callee
        return super().compile_extra(func)


def jit(function: F) -> F:
    """Compile as a part of the kernel, for compiled callers only; the entry point's cache holds it."""
    made: F = _njit(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_Part
    )(function)
    return made
