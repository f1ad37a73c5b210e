"""How functions become machine code, and whether they have yet.

    from cosim.compiling import entry, part, ready

    @part
    def square(x): ...          # called by compiled functions; plain Python for everybody else

    @entry()
    def total(values): ...      # called from Python; its machine code is kept between processes

numba keeps the machine code of an entry point in a file next to its source or, where that folder
cannot be written, in the user's cache folder. It compiles anew when the entry point's own file has
changed, and does not see changes in the files of the functions that it calls. So the *name* of an
entry point, which numba names the file after, has a digest of everything that its machine code
depends on: the sources of its package, numba and the processor. Whether there is machine code that
holds is then a question for the file system, and processes that compile different versions at the
same time do not share a file. An entry point must be called with arguments of one signature: numba
can mix up two signatures that two processes compile at the same time.

With NUMBA_DISABLE_JIT=1 everything is plain Python, some hundred times slower, for debuggers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numba.core.config
import numba.extending
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__)
_config: Any = numba.core.config
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def part(function: F) -> F:
    """`function` for the use of compiled functions; called from Python it is what it was.

    There a * b + c may be rounded once instead of twice, as the processor has it.
    """
    made: F = cast(Any, numba.extending.register_jitable)(**_OPTIONS, fastmath={"contract"})(function)
    return made


def entry(*also: str) -> Callable[[F], F]:
    """Compile a function at its first call and keep the machine code for later processes.

    Its machine code is made of the modules in its own folder and in the folders `also`, which are
    named as seen from the `cosim` package.
    """

    def decorate(function: F) -> F:
        if not jitted():
            return _plain(function)
        folders = (Path(function.__code__.co_filename).parent, *(_HERE.parent / name for name in also))
        function.__qualname__ += "_" + _digest(folders)
        made: F = cast(Any, numba.njit)(cache=True, **_OPTIONS)(function)
        return made

    return decorate


def codes(count: int) -> tuple[int, ...]:
    """The numbers 0.. as int64: numba would compile a function anew for every literal it is given."""
    return cast(tuple[int, ...], tuple(np.arange(count, dtype=np.int64)))


def ready(*entries: Callable[..., Any]) -> bool:
    """Whether all `entries` start without compiling, in this process or from numba's cache."""
    return all(not jitted() or bool(function.signatures) or _kept(function) for function in map(_dispatcher, entries))


def jitted() -> bool:
    """Whether functions are compiled at all: not with NUMBA_DISABLE_JIT=1."""
    return not _config.DISABLE_JIT


def _dispatcher(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - numba's dispatcher has no type of its own
    return function


def _kept(function: Any) -> bool:  # noqa: ANN401
    folder = function.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{function.__qualname__}-*.nbc"))


@cache
def _digest(folders: tuple[Path, ...]) -> str:
    """What the machine code of the sources in `folders` depends on."""
    digest = hashlib.sha256(numba.__version__.encode())
    binding: Any = llvmlite.binding
    digest.update((_config.CPU_NAME or binding.get_host_cpu_name()).encode())
    digest.update((_config.CPU_FEATURES or binding.get_host_cpu_features().flatten()).encode())
    for file in [_HERE, *(file for folder in folders for file in sorted(folder.glob("*.py")))]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _plain(function: F) -> F:
    """`function` as it is, but silent where machine code is: overflow of words, 0 / 0."""

    @wraps(function)
    def call(*arguments: object) -> object:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return cast(F, call)
