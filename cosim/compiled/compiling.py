"""How functions become machine code, and whether they have yet.

    from cosim.compiled.compiling import entry, part, ready

    @part
    def square(x): ...          # called by compiled functions; plain Python for everybody else

    @entry()
    def total(values): ...      # called from Python; its machine code is kept between processes

Machine code of an entry point is looked for in `PRECOMPILED`, which an installed package brings, and
then where numba keeps it: in the folder that COSIM_CACHE names, else next to its source or, where
that folder cannot be written, in the user's cache folder, and where there is none, for this process
only. numba compiles anew when the entry point's
own file has changed, and does not see changes in the files of the functions that it calls. So the
*name* of an entry point, which numba names the file after, has a digest of everything that its
machine code depends on: the source of its module and of all modules that this imports, directly and
through others, numba and the processor. An edit recompiles what it touches. Whether there is machine
code that holds is then a question for the file system, and processes that compile different versions
at the same time do not share a file; of several that need the same code one
compiles, and the others wait for it. An entry point must be called with arguments of one signature:
numba can mix up two signatures that two processes compile at the same time.

Code is made for the processor's level x86-64-v3 (all servers and desktops of the last ten years), not
for the very processor: it is as fast, all such processors compute the same bits, and an installed
package can bring it along. Other processors compile for themselves.

Importing numba takes longer than all that `cosim check` does. Where code is rather looked at than run, `defer()` puts
that off until an entry point is called.

With NUMBA_DISABLE_JIT=1 everything is plain Python, some hundred times slower, for debuggers. An index outside an array
is an error then, also where rows are had by address.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import SetupError
from cosim.contract.extras import pip
from cosim.contract.versions import outside

F = TypeVar("F", bound=Callable[..., Any])

PRECOMPILED = Path(__file__).parents[1] / "precompiled"
NUMBA = "numba>=0.61.2,<0.69"  # as in pyproject.toml: private names of numba are used, which any release may change
_NUMBA = "cosim.compiled.machine_code"
_ends: dict[int, int] = {}  # by the first address of an array; written while nothing is compiled
_waiting: list[tuple[Callable[..., Any], bool]] | None = None  # not yet passed to numba; None: numba is used at once


def defer() -> None:
    """From now on do without numba until an entry point is called, or code needs numba to be defined."""
    global _waiting
    if _waiting is None and _NUMBA not in sys.modules:
        _waiting = []


@contextmanager
def _without(*names: str) -> Iterator[None]:
    """Import without optional modules that take longer to load than what they are loaded for is worth.

    Nothing is hidden that is there already, or while other threads may import it.
    """
    hidden = [name for name in names if name not in sys.modules] if threading.active_count() == 1 else []
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import fails
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _numba() -> ModuleType:
    """`cosim.compiled.machine_code`, which from now on is used at once."""
    global _waiting
    if _NUMBA not in sys.modules:
        # numba loads scipy to see its version, and yaml for a file of settings, which `machine_code` ignores
        warnings.filterwarnings("ignore", "A Numba config file is found")
        with _without("scipy", "yaml"):
            found = import_module("numba").__version__
            if outside(found, NUMBA):
                raise SetupError(f"numba {found} is installed, and machine code needs {NUMBA}: {pip(NUMBA)}")
            import_module(_NUMBA).take(_Deferred)
    from cosim.compiled import machine_code

    waiting, _waiting = _waiting, None
    for function, regrouped in waiting or ():
        machine_code.part(function, regrouped)
    return machine_code


class _Deferred:
    """A function that has not been passed to numba yet: `make` does, when it is called or compiled."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._made: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:  # noqa: ANN401
        return self.made()(*arguments)

    def made(self) -> Callable[..., Any]:
        """What numba makes of the function."""
        if self._made is None:
            self._made = self._make()
        return self._made


def part(function: F) -> F:
    """`function` for the use of compiled functions; called from Python it is what it was.

    There a * b + c may be rounded once instead of twice, as the processor has it.
    """
    return _part(function, regrouped=False)


def reduction(function: F) -> F:
    """As `part`, for a function whose sums may be added up in any order: vector instructions then do it."""
    return _part(function, regrouped=True)


def _part(function: F, *, regrouped: bool) -> F:
    if _waiting is None:
        return cast(F, _numba().part(function, regrouped))
    _waiting.append((function, regrouped))
    return function


def inner(function: F) -> F:
    """Compile for compiled callers only; the entry point's cache holds it."""
    return cast(F, update_wrapper(_Deferred(lambda: cast(F, _numba().inner(function))), function))


def entry() -> Callable[[F], F]:
    """Compile a function at its first call and keep the machine code for later processes."""
    return _entry if _waiting is None else _put_off


def _put_off(function: F) -> F:
    return cast(F, update_wrapper(_Deferred(lambda: _entry(function)), function))


def _entry(function: F) -> F:
    return cast(F, _numba().entry(function, PRECOMPILED)) if jitted() else _plain(function)


def address_of(array: NDArray[Any]) -> int:
    """Where the array's memory begins; from now on plain Python finds an index beyond its end."""
    start = int(array.ctypes.data)
    if not jitted():
        _ends[start] = start + array.nbytes
    return start


class _Record(np.record):  # type: ignore[misc]  # numpy takes any subclass as the type of rows
    """A row with its fields as attributes, also those whose names numpy's own records have for other things."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        names = super().__getattribute__("dtype").names
        return self[name] if name in names else super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        self[name] = value


def records(array: NDArray[Any]) -> NDArray[Any]:
    """The record array with fields of its rows as attributes, as compiled code has them."""
    return array.view(np.dtype((_Record, array.dtype)))


def view(dtype: np.dtype[Any], address: int, count: int, first: int = 0) -> NDArray[Any]:
    """The array of `count` `dtype` from item `first` of the array at the address, for plain Python.

    Raises `IndexError` for items outside the array that `address_of` was asked for, which machine code does not find.
    """
    size, address = dtype.itemsize, int(address)
    place = address + int(first) * size
    end = _ends.get(address) or next((end for start, end in _ends.items() if start <= address < end), 0)
    if place < address or place + size * int(count) > end:
        raise IndexError(
            f"items {first} to {first + count} of an array of {(end - address) / size:g} records at {address:#x}"
        )
    memory: Any = (ctypes.c_char * (size * int(count))).from_address(place)
    return np.ndarray((count,), dtype, memory)


def array_at(dtype: np.dtype[Any]) -> Callable[[int, int], NDArray[Any]]:
    """A compiled function (address, n) -> the array of n `dtype` at the address."""

    def make() -> Callable[..., Any]:
        if not jitted():
            return lambda address, count: view(dtype, address, count)
        return cast(Callable[..., Any], _numba().array_at(dtype))

    return _Deferred(make)


def codes(count: int) -> tuple[int, ...]:
    """The numbers 0.. as int64: numba would compile a function anew for every literal it is given."""
    return cast(tuple[int, ...], tuple(np.arange(count, dtype=np.int64)))


def ready(*entries: Callable[..., Any]) -> bool:
    """Whether all `entries` start without compiling, in this process or from numba's cache."""
    return all(not jitted() or bool(function.signatures) or _kept(function) for function in map(_dispatcher, entries))


def direct(function: F) -> F:
    """The machine code of the entry point `function`, which has been called before, without a look at arguments.

    It takes those that `function` was compiled for; a call costs half as much.
    """
    if not jitted():
        return function
    (compiled,) = _dispatcher(function).overloads.values()
    return cast(F, compiled.entry_point)


def only(function: Callable[..., Any]) -> None:
    """From now on `function` takes what it has been compiled for, and raises `TypeError` for anything else."""
    if jitted():
        _dispatcher(function).disable_compile()


def jitted() -> bool:
    """Whether functions are compiled at all: not with NUMBA_DISABLE_JIT=1."""
    return not _numba().disabled()


def _dispatcher(function: Callable[..., Any]) -> Any:  # noqa: ANN401 - numba's dispatcher has no type of its own
    return function.made() if isinstance(function, _Deferred) else function


def _kept(function: Any) -> bool:  # noqa: ANN401
    return bool(function._cache.kept())


def _attributes(value: object) -> object:
    return records(value) if isinstance(value, np.ndarray) and value.dtype.names else value


def _plain(function: F) -> F:
    """`function` as it is, but with fields as attributes of rows, and silent where machine code is: overflow, 0 / 0."""

    @wraps(function)
    def call(*arguments: object) -> object:
        with np.errstate(all="ignore"):
            return function(*map(_attributes, arguments))

    return cast(F, call)
