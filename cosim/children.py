"""Processes that end with the one that has started them, also when that one is killed."""

from __future__ import annotations

import ctypes
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with(parent: int) -> None:
    """Be killed when the process `parent`, which has started this one, ends; where the system (Linux) can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


def pool(workers: int) -> ProcessPoolExecutor:
    """An executor of `workers` fresh interpreters that end with this process."""
    return ProcessPoolExecutor(workers, get_context("spawn"), end_with, (os.getpid(),))
