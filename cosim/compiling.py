"""How functions become machine code, and whether they have yet.

    from cosim.compiling import entry, part, ready

    @part
    def square(x): ...          # called by compiled functions; plain Python for everybody else

    @entry()
    def total(values): ...      # called from Python; its machine code is kept between processes

numba keeps the machine code of an entry point in the folder that COSIM_CACHE names, else next to its
source or, where that folder cannot be written, in the user's cache folder. It compiles anew when the
entry point's own file has changed, and does not see changes in the files of the functions that it
calls. So the *name* of an entry point, which numba names the file after, has a digest of everything
that its machine code depends on: the source of its module and of all modules that this imports,
directly and through others, numba and the processor. An edit recompiles what it touches. Whether
there is machine code that holds is then a question for the file system, and processes that compile
different versions at the same time do not share a file. An entry point must be called with
arguments of one signature: numba can mix up two signatures that two processes compile at the same
time.

With NUMBA_DISABLE_JIT=1 everything is plain Python, some hundred times slower, for debuggers.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numba.core.config
import numba.core.types
import numba.extending
import numba.np.linalg
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])


def _load_without_scipy() -> None:
    """Load numba's array functions without scipy.linalg, which they import only to see that it is there.

    That is a tenth of a short run's time. Code that does use linear algebra looks for it again.
    """
    linalg: Any = numba.np.linalg
    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = look


_HERE = Path(__file__)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))", re.MULTILINE
)
_config: Any = numba.core.config
if os.environ.get("COSIM_CACHE") and not os.environ.get("NUMBA_CACHE_DIR"):
    _config.CACHE_DIR = os.environ["COSIM_CACHE"]
_load_without_scipy()
_OPTIONS = {"nogil": True, "error_model": "numpy"}


def part(function: F) -> F:
    """`function` for the use of compiled functions; called from Python it is what it was.

    There a * b + c may be rounded once instead of twice, as the processor has it.
    """
    made: F = cast(Any, numba.extending.register_jitable)(**_OPTIONS, fastmath={"contract"})(function)
    return made


def entry() -> Callable[[F], F]:
    """Compile a function at its first call and keep the machine code for later processes."""

    def decorate(function: F) -> F:
        if not jitted():
            return _plain(function)
        function.__qualname__ += "_" + _digest(Path(function.__code__.co_filename), function.__module__)
        made: F = cast(Any, numba.njit)(cache=True, **_OPTIONS)(function)
        return made

    return decorate


def view(dtype: np.dtype[Any], address: int, count: int) -> NDArray[Any]:
    """The array of `count` `dtype` at the address, for plain Python."""
    memory: Any = (ctypes.c_char * (dtype.itemsize * count)).from_address(int(address))
    return np.ndarray((count,), dtype, memory)


def array_at(dtype: np.dtype[Any]) -> Callable[[int, int], NDArray[Any]]:
    """A compiled function (address, n) -> the array of n `dtype` at the address."""
    if not jitted():
        return lambda address, count: view(dtype, address, count)
    element = numba.from_dtype(dtype)
    types: Any = numba.core.types

    def pointer(typing_context: object, address: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(element)))

        return types.CPointer(element)(types.int64), generate

    cast_to = cast(Any, numba.extending.intrinsic)(pointer)
    carray: Any = numba.carray  # type: ignore[attr-defined]

    def array(address: int, count: int) -> NDArray[Any]:
        found: NDArray[Any] = carray(cast_to(address), count)
        return found

    compiled: Callable[[int, int], NDArray[Any]] = cast(Any, numba.njit)(array)
    return compiled


def codes(count: int) -> tuple[int, ...]:
    """The numbers 0.. as int64: numba would compile a function anew for every literal it is given."""
    return cast(tuple[int, ...], tuple(np.arange(count, dtype=np.int64)))


def ready(*entries: Callable[..., Any]) -> bool:
    """Whether all `entries` start without compiling, in this process or from numba's cache."""
    return all(not jitted() or bool(function.signatures) or _kept(function) for function in map(_dispatcher, entries))


def only(function: Callable[..., Any]) -> None:
    """From now on `function` takes what it has been compiled for, and raises `TypeError` for anything else."""
    if jitted():
        _dispatcher(function).disable_compile()


def jitted() -> bool:
    """Whether functions are compiled at all: not with NUMBA_DISABLE_JIT=1."""
    return not _config.DISABLE_JIT


def _dispatcher(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - numba's dispatcher has no type of its own
    return function


def _kept(function: Any) -> bool:  # noqa: ANN401
    folder = function.stats.cache_path
    return folder is not None and any(Path(folder).glob(f"*.{function.__qualname__}-*.nbc"))


@cache
def _digest(file: Path, module: str) -> str:
    """What the machine code of the functions in `file` depends on."""
    digest = hashlib.sha256(numba.__version__.encode())
    binding: Any = llvmlite.binding
    digest.update((_config.CPU_NAME or binding.get_host_cpu_name()).encode())
    digest.update((_config.CPU_FEATURES or binding.get_host_cpu_features().flatten()).encode())
    roots = {"cosim": _HERE.parent.parent}
    if "." in module:  # a package of somebody else's
        roots.setdefault(module.partition(".")[0], file.parents[module.count(".")])
    for source in sorted({_HERE, *_reached(file, roots)}):
        digest.update(source.name.encode() + b"\0" + _text(source))
    return digest.hexdigest()[:16]


def _reached(file: Path, roots: Mapping[str, Path]) -> set[Path]:
    """`file` and all modules below `roots` (by package) that it imports, directly or through others."""
    found, left = set[Path](), [file]
    while left:
        source = left.pop()
        if source not in found:
            found.add(source)
            left += [path for name in _imported(source) if (path := _place(name, roots)) is not None]
    return found


@cache
def _text(source: Path) -> bytes:
    return source.read_bytes()


@cache
def _imported(source: Path) -> tuple[str, ...]:
    """Dotted names that a module imports, wherever in it; what they are is for `_place` to find out."""
    names = []
    for package, few, plain in _IMPORT.findall(_text(source).decode()):
        if plain:
            names.append(plain)
        words = (part.split() for part in re.sub(r"#.*|[()]", " ", few).split(","))
        names += [f"{package}.{some[0]}" for some in words if some]
    return tuple(names)


def _place(name: str, roots: Mapping[str, Path]) -> Path | None:
    """The file of module `name`, or of the module that has the attribute `name`; None for others' modules."""
    root = roots.get(name.partition(".")[0])
    if root is None:
        return None
    for parts in (name.split("."), name.split(".")[:-1]):
        path = root.joinpath(*parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if parts and file.is_file():
                return file
    return None


def _plain(function: F) -> F:
    """`function` as it is, but silent where machine code is: overflow of words, 0 / 0."""

    @wraps(function)
    def call(*arguments: object) -> object:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return cast(F, call)
