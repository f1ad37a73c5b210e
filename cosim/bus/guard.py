"""What a foreign adapter does to the process that it shares with the run: put back, or its fault at once."""

from __future__ import annotations

import os
import resource
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import numpy as np

T = TypeVar("T")

_LEAVE = os._exit
_probe: dict[int, int] = {}  # process -> a descriptor of ours, copied to see that further ones can be had


class CallGuard:
    """Makes the calls of one adapter.

    What other adapters would stumble over (numpy's error modes, filters of warnings, the depth of recursion) is put
    back after each call. Descriptors that are used up or closed, and a limit of file size that was lowered, cannot be:
    they are reported as this adapter's fault before the run, which needs them, fails in another place. `os._exit`
    raises `SystemExit` in the run's own process, which would end with the adapter's exit code, as if all were done.
    """

    def __init__(self) -> None:
        if os.getpid() not in _probe:
            _probe[os.getpid()] = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._pid = os.getpid()
        self._limits = {what: resource.getrlimit(what) for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)}

    def __call__(self, act: Callable[..., T], *words: Any) -> T:  # noqa: ANN401 - whatever `act` takes
        """What `act` of `words` returns."""
        pid, filters, depth = os.getpid(), warnings.filters[:], sys.getrecursionlimit()
        os._exit = self._stay
        try:
            with np.errstate():
                found = act(*words)
        finally:
            os._exit = _LEAVE
            if os.getpid() != pid:  # it has forked, and one of both is enough
                os._exit(1)
            if sys.getrecursionlimit() != depth:
                sys.setrecursionlimit(depth)
            if warnings.filters != filters:
                warnings.filters[:] = filters  # type: ignore[index]
                warnings._filters_mutated()  # type: ignore[attr-defined]
        if (probe := _probe.get(pid)) is not None:  # a copy of the run has closed what it inherited
            self._look(probe)
        return found

    def _stay(self, status: int) -> NoReturn:
        if os.getpid() != self._pid:  # a process that the adapter has started
            _LEAVE(status)
        raise SystemExit(f"os._exit({status})")

    def _look(self, probe: int) -> None:
        """Raise `OSError` when the process is not able to do what the run needs."""
        wrong = ""
        try:
            os.close(os.dup(probe))
        except OSError as error:
            wrong = f"its descriptors are used up or closed ({error.strerror})"
        if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != self._limits[resource.RLIMIT_FSIZE][0]:
            wrong = "the limit of file sizes has changed"
        if wrong:
            _probe.clear()  # what fails from now on follows from this
            for what, (before, _) in self._limits.items():
                with suppress(OSError, ValueError):
                    resource.setrlimit(what, (before, resource.getrlimit(what)[1]))
            raise OSError(f"after it, the process of the run cannot go on: {wrong}; 'isolated: true' keeps them apart")
