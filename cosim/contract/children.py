"""Processes that end with the one that has started them, also when that one is killed."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a worker of an agent, of which a node has one per core, only ends with its agent
    from concurrent.futures import ProcessPoolExecutor

Found = TypeVar("Found")

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_LONGEST = 3600.0  # s of a wait
_GRACE = 5.0  # s that a process has to end by itself


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
    make: Callable[..., Found], cases: Iterable[tuple[Any, ...]], workers: int, *, limit: float | None = None,
    lost: Callable[[int, int | None], Found] | None = None,
) -> Iterator[tuple[int, Found]]:  # fmt: skip
    """The position of each case and `make` of it, whichever ends first, by so many processes; 1: in this one.

    With a `limit` (s of a case) or with `lost` even one process is another one. A process that takes longer is killed.
    `lost` answers for the case of a process that ended before it had answered, from its position and the exit status,
    None where the limit ended it; without it that is a `RuntimeError`. A case is taken when a process is free.
    """
    if workers <= 1 and limit is None and lost is None:
        yield from ((k, make(*case)) for k, case in enumerate(cases))
        return
    from multiprocessing.connection import wait

    rest, free, busy = enumerate(cases), list[_Child](), dict[Any, _Child]()
    try:
        while True:
            while len(busy) < workers and (case := next(rest, None)) is not None:
                child = free.pop() if free else _Child(make)
                child.begin(*case)
                busy[child.link] = child
            if not busy:
                return
            left = None if limit is None else max(0.0, min(one.begun for one in busy.values()) + limit - monotonic())
            for link in wait(list(busy), None if left is None else min(left, _LONGEST)):
                child = busy[link]
                told, found, error = child.answer()
                if told is None:  # it has been imported and begins
                    continue
                del busy[link]
                if told:
                    free.append(child)
                    if error is not None:
                        raise error
                    yield child.case, found
                else:
                    yield child.case, _lost(lost, child.case, child.end(_GRACE))
            for child in [one for one in busy.values() if limit is not None and one.begun + limit < monotonic()]:
                if not child.link.poll():
                    del busy[child.link]
                    child.end()
                    yield child.case, _lost(lost, child.case, None)
    finally:
        for child in busy.values():
            child.end()
        for child in free:
            child.end(_GRACE)


def _lost(lost: Callable[[int, int | None], Found] | None, case: int, status: int | None) -> Found:
    if lost is None:
        raise RuntimeError(f"the process of case {case} ended, status {status}")
    return lost(case, status)


class _Child:
    """A fresh interpreter that carries out one case after another and ends with this process."""

    def __init__(self, make: Callable[..., Any]) -> None:
        from multiprocessing import get_context

        context = get_context("spawn")
        self.link, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, os.getpid(), make), daemon=True)
        self._process.start()
        theirs.close()  # else the end of the process would go unnoticed
        self.case, self.begun = -1, math.inf

    def begin(self, number: int, case: tuple[Any, ...]) -> None:
        """Hand it a case."""
        self.case, self.begun = number, math.inf
        with suppress(BrokenPipeError):  # its end is noticed when it is to answer
            self.link.send(case)

    def answer(self) -> tuple[bool | None, Any, BaseException | None]:
        """None: it begins; else whether it has answered, and what."""
        try:
            said = self.link.recv()
        except (EOFError, ConnectionResetError):
            return False, None, None
        if said is None:
            self.begun = monotonic()
            return None, None, None
        return True, *said

    def end(self, grace: float = 0.0) -> int | None:
        """Let go of it and, after `grace` s, kill it and what it has started; its exit status."""
        self.link.close()
        self._process.join(grace)
        if self._process.pid is not None:
            with suppress(ProcessLookupError):  # nothing is left, or it has no group yet
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _serve(link: Any, parent: int, make: Callable[..., Any]) -> None:  # noqa: ANN401 - a Connection
    """Carry out the cases that come over `link`."""
    from multiprocessing import current_process

    end_with(parent)
    os.setpgid(0, 0)  # what a case starts ends with this process
    current_process().daemon = False  # a case may start processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    os.dup2(2, 1)  # the standard output stream is the parent's, for results
    while True:
        try:
            case = link.recv()
        except EOFError:
            return
        link.send(None)
        found, error = None, None
        try:
            found = make(*case)
        except BaseException as raised:  # noqa: BLE001 - the parent's to raise
            raised.add_note(traceback.format_exc())
            error = raised
        try:
            link.send((found, error))
        except Exception as raised:  # noqa: BLE001 - what cannot be sent is told
            link.send((None, RuntimeError(f"{found if error is None else error!r} cannot be sent: {raised}")))
