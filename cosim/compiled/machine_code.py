"""What numba does for `cosim.compiled.compiling`: how it compiles, what it keeps, and what that depends on.

Importing this imports numba, half the time of a short command.
"""

from __future__ import annotations

import atexit
import fcntl
import glob
import hashlib
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numba._dynfunc
import numba.core.caching
import numba.core.compiler
import numba.core.config
import numba.core.registry
import numba.core.runtime
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


def _describe_without_shapes() -> None:
    """Report assignments to a slice of another shape with numba's message for small machines.

    The message for processors like ours contains both shapes. With it, every function that assigns to a slice has
    number formatting and text joining compiled into it, which takes two seconds.
    """
    arrays: Any = importlib.import_module("numba.np.arrayobj")

    def unequal(source: object, slices: object) -> None:
        raise NotImplementedError

    numba.extending.overload(unequal)(arrays.ol_raise_with_shape_context_generic)
    arrays.raise_with_shape_context = unequal


_HERE = Path(__file__)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([\w.]+))", re.MULTILINE
)
_config: Any = numba.core.config
_config._config_fname = os.devnull  # else a file in the working folder names the folder of pickles
_config.reload_config()
_caching: Any = numba.core.caching
_compiler: Any = numba.core.compiler
_dynfunc: Any = numba._dynfunc
_runtime: Any = numba.core.runtime
_LEVEL, _LEVEL_HAS = "x86-64-v3", ("avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")


def _aim_at_level() -> None:
    """Let numba compile for `_LEVEL` if the processor has it, and no other level has been chosen or used."""
    chosen = _config.CPU_NAME is not None or _config.CPU_FEATURES is not None
    target: Any = numba.core.registry.cpu_target
    if chosen or "_toplevel_target_context" in vars(target):
        return
    binding: Any = llvmlite.binding
    features = binding.get_host_cpu_features()
    if all(features.get(name, False) for name in _LEVEL_HAS):
        _config.CPU_NAME, _config.CPU_FEATURES = _LEVEL, ""


def _keeps(environment: Mapping[str, str], home: Path) -> bool:
    """Whether numba finds a folder that it may write to: beside the sources, or the user's cache folder."""
    folder = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    while not folder.exists():
        folder = folder.parent
    return any(os.access(one, os.W_OK | os.X_OK) for one in (_HERE.parent, folder))


def _keep_for_once(environment: MutableMapping[str, str]) -> None:
    """Keep machine code for as long as this process lives, also for the processes that it starts.

    Users without a home and without write access to the installation, as in containers, cannot keep it for longer.
    """
    folder, owner = tempfile.mkdtemp(prefix="cosim-code-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and no child that was forked from it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    environment["NUMBA_CACHE_DIR"] = _config.CACHE_DIR = folder


def _sealed(folder: str) -> str:
    """`folder` if it is there to be read only, as in a container whose file system is; "" for any other."""
    return folder if Path(folder).is_dir() and folder and not os.access(folder, os.W_OK | os.X_OK) else ""


_aim_at_level()
_SEALED = _sealed(os.environ.get("COSIM_CACHE", ""))
if _SEALED and os.environ.get("NUMBA_CACHE_DIR", _SEALED) == _SEALED:
    _keep_for_once(os.environ)
elif os.environ.get("COSIM_CACHE") and not os.environ.get("NUMBA_CACHE_DIR"):
    _config.CACHE_DIR = os.environ["COSIM_CACHE"]
elif not os.environ.get("NUMBA_CACHE_DIR") and not _keeps(os.environ, Path("~").expanduser()):
    _keep_for_once(os.environ)
_load_without_scipy()
_describe_without_shapes()
_OPTIONS = {"nogil": True, "error_model": "numpy"}


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
    """numba's compiler, for a function that only compiled functions call.

    numba prepares each compiled function to be called by itself: it optimises the function together
    with everything that it calls, at every level of nested calls. A part is left as it is until its
    entry point is optimised, once, with all of its parts (measured: a fifth of the time). This
    overrides how numba's code libraries end; without these methods numba would only be slower.
    """

    def compile_extra(self, func: Any) -> Any:  # noqa: ANN401
        target = self.state.targetctx  # this compilation's own
        self.state.library = target.codegen().create_library(func.__qualname__)
        _leave_open(self.state.library)
        target.get_executable = _callee
        return super().compile_extra(func)


_PART = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _Part}


def part(function: F, regrouped: bool = False) -> F:
    """`function` for compiled callers; called from Python it is what it was. `regrouped`: sums in any order."""
    freedom = {"contract", "reassoc"} if regrouped else {"contract"}
    made: F = cast(Any, numba.extending.register_jitable)(**_PART, fastmath=freedom)(function)
    return made


def inner(function: F) -> F:
    """`function` compiled for compiled callers only."""
    made: F = cast(Any, numba.njit)(**_PART)(function)
    return made


class _Code(_caching.FunctionCache):  # type: ignore[misc]
    """numba's cache of one function, behind what the package brings.

    Its files are called after all that they depend on, so their age does not matter.
    """

    def __init__(self, function: Callable[..., Any], brought: Path) -> None:
        super().__init__(function)
        name = self._impl.filename_base
        self._cache_file = _caching.IndexDataCacheFile(self.cache_path, name, None)
        self._folder = brought
        self._own = function.__module__.startswith("cosim.")
        self._brought = _caching.IndexDataCacheFile(str(brought), name, None)
        self._sealed = Path(_SEALED, Path(self.cache_path).name) if _SEALED else brought
        self._read_only = _caching.IndexDataCacheFile(str(self._sealed), name, None)

    def load_overload(self, signature: Any, target: Any) -> Any:  # noqa: ANN401 - numba's types
        """What was compiled for `signature`, None when nothing was.

        numba gets ready to compile first, which takes longer than loading all code of a run. Of that our
        own code needs memory management only; others' may need the tables of dictionaries, random numbers, ...
        """
        if self._own:
            _runtime.rtsys.initialize(target)
        else:
            target.refresh()
        key = self._index_key(signature, target.codegen())
        for files in (self._brought, self._read_only, self._cache_file):
            found = files.load(key)
            if found is not None:
                return self._impl.rebuild(target, found)
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other process compiles the function; code that is kept needs no such care."""
        lock = Path(self.cache_path, f"{self._impl.filename_base}.lock")
        with ExitStack() as held:
            if not self.kept():
                with suppress(OSError):  # a folder that cannot be written, or without locks
                    self._impl.locator.ensure_cache_path()
                    file = held.enter_context(lock.open("wb"))
                    held.callback(lock.unlink, missing_ok=True)
                    fcntl.lockf(file, fcntl.LOCK_EX)  # forked processes do not inherit this kind
            yield

    def kept(self) -> bool:
        """Whether there is machine code."""
        pattern = f"{glob.escape(self._impl.filename_base)}.*.nbc"
        return any(any(Path(folder).glob(pattern)) for folder in (self._folder, self._sealed, self.cache_path))


def entry(function: F, brought: Path) -> F:
    """`function` compiled at its first call; its machine code is looked for in the folder `brought` first."""
    function.__qualname__ += "_" + _digest(Path(function.__code__.co_filename), function.__module__)
    made: Any = cast(Any, numba.njit)(**_OPTIONS)(function)
    made._cache = code = _Code(function, brought)
    made.compile = code.alone()(made.compile)
    return cast(F, made)


def disabled() -> bool:
    """Whether numba is configured to compile nothing."""
    return bool(_config.DISABLE_JIT)


def take(kind: type) -> None:
    """Let compiled functions call objects of the class `kind`: what their `made()` gives."""
    typeof: Any = numba.extending.typeof_impl
    typeof.register(kind)(lambda value, context: typeof(value.made(), context))


def array_at(dtype: np.dtype[Any]) -> Callable[[int, int], NDArray[Any]]:
    """A compiled function (address, n) -> the array of n `dtype` at the address."""
    element = numba.from_dtype(dtype)
    types: Any = numba.core.types

    def pointer(typing_context: object, address: object) -> Any:  # noqa: ANN401, ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401, ARG001
            return builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(element)))

        return types.CPointer(element)(types.int64), generate

    cast_to = cast(Any, numba.extending.intrinsic)(pointer)
    carray: Any = numba.carray

    def array(address: int, count: int) -> NDArray[Any]:
        found: NDArray[Any] = carray(cast_to(address), count)
        return found

    return inner(array)


@cache
def _digest(file: Path, module: str) -> str:
    """What the machine code of the functions in `file` depends on."""
    digest = hashlib.sha256(numba.__version__.encode())
    target: Any = numba.core.registry.cpu_target.target_context
    digest.update(repr((target.codegen().magic_tuple(), _config.USING_SVML)).encode())
    roots = {"cosim": _HERE.parents[2]}
    if "." in module:  # a package of another author
        roots.setdefault(module.partition(".")[0], file.parents[module.count(".")])
    for source in sorted({_HERE, *_reached(file, tuple(roots.items()))}):
        digest.update(_read(source)[0])
    return digest.hexdigest()[:16]


def _reached(file: Path, roots: tuple[tuple[str, Path], ...]) -> set[Path]:
    """`file` and all modules below `roots` (by package) that it imports, directly or through others."""
    found, left = set[Path](), [file]
    while left:
        source = left.pop()
        if source not in found:
            found.add(source)
            left += _beside(source, roots)
    return found


@cache
def _beside(source: Path, roots: tuple[tuple[str, Path], ...]) -> set[Path]:
    """The modules below `roots` that `source` imports itself."""
    known = dict(roots)
    places = [_place(name, known[top]) for name in _read(source)[1] if (top := name.partition(".")[0]) in known]
    return {path for path in places if path is not None}


@cache
def _read(source: Path) -> tuple[bytes, list[str]]:
    """The digest of a module's file, and dotted names that it imports; what they are is for `_place` to find out."""
    text, names = source.read_bytes(), []
    for package, few, plain in _IMPORT.findall(text.decode()):
        if plain:
            names.append(plain)
        words = (part.split() for part in re.sub(r"#.*|[()]", " ", few).split(","))
        names += [f"{package}.{some[0]}" for some in words if some]
    return hashlib.sha256(source.name.encode() + b"\0" + text).digest(), names


@cache
def _place(name: str, root: Path) -> Path | None:
    """The file below `root` of module `name`, or of the module that has the attribute `name`; None: there is none."""
    for parts in (name.split("."), name.split(".")[:-1]):
        path = root.joinpath(*parts)
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if parts and file.is_file():
                return file
    return None
