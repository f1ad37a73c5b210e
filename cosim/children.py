"""Processes that end with the one that has started them, also when that one is killed."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a worker of an agent, of which a node has one per core, only ends with its agent
    from concurrent.futures import ProcessPoolExecutor

Found = TypeVar("Found")

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with(parent: int) -> None:
    """Be killed when the process `parent`, which has started this one, ends; where the system (Linux) can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


def pool(workers: int) -> ProcessPoolExecutor:
    """An executor of `workers` fresh interpreters that end with this process."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(workers, get_context("spawn"), end_with, (os.getpid(),))


def as_they_come(
    make: Callable[..., Found], cases: Sequence[tuple[Any, ...]], workers: int
) -> Iterator[tuple[int, Found]]:
    """The position of each case and `make` of it, whichever ends first, by so many processes; 1: in this one."""
    if workers <= 1:
        yield from ((k, make(*case)) for k, case in enumerate(cases))
        return
    from concurrent.futures import as_completed

    with pool(workers) as processes:
        waiting = {processes.submit(make, *case): k for k, case in enumerate(cases)}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
