"""Processes that end with the one that has started them, also when that one is killed."""

from __future__ import annotations

import ctypes
import gc
import logging
import math
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from select import POLLIN, poll
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cosim.contract.errors import RunError

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


def signal_name(number: int) -> str:
    """The name of a signal, as `SIGKILL`; `signal 40` for one of the real-time signals, which have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
                reported, found, error = child.answer()
                if reported is None:  # it has been imported and begins
                    continue
                del busy[link]
                if reported:
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
        except Exception as raised:  # noqa: BLE001 - what cannot be sent is reported
            link.send((None, RuntimeError(f"{found if error is None else error!r} cannot be sent: {raised}")))


_ALIVE = b"."  # before the answer of a copy, which is a pickle and begins with another byte


@dataclass(slots=True)
class _Copy:
    """A fork of this process at work."""

    case: int
    pid: int
    begun: float  # s, when it was last known to be alive
    answer: bytearray = field(default_factory=bytearray)


def in_copies(
    calls: Sequence[Callable[[Callable[[], None]], Found]], workers: int, *, limit: float = math.inf
) -> list[Found]:
    """What the calls return, each made in a fork of this process as it is now, up to `workers` at once.

    A fork shares no open file or socket with this process, prints and logs nothing, and ends when its call has
    returned, or with this process. A call gets a function to call at least every `limit` s, as a sign of life.
    Raises what a call raises, after ending the others, and `RunError` for a fork that ends or stands still.
    Threads of this process are not copied.
    """
    found, rest, busy, watched = dict[int, Found](), list(enumerate(calls)), dict[int, _Copy](), poll()
    try:
        while rest or busy:
            while rest and len(busy) < workers:
                watched.register(_fork(*rest.pop(0), busy), POLLIN)
            left = min(copy.begun for copy in busy.values()) + limit - monotonic()
            for ear, _ in watched.poll(1e3 * min(max(left, 0.0), _LONGEST)):
                copy = busy[ear]
                part, copy.begun = os.read(ear, 1 << 16), monotonic()
                copy.answer += part if copy.answer else part.lstrip(_ALIVE)
                if not part:
                    watched.unregister(ear)
                    found[copy.case] = _answer(busy.pop(ear), ear)
            for copy in busy.values():
                if copy.begun + limit < monotonic():
                    raise RunError(f"the process of case {copy.case} gave no sign of life for {limit:g} s")
    finally:
        for ear, copy in busy.items():
            os.kill(copy.pid, signal.SIGKILL)
            os.waitpid(copy.pid, 0)
            os.close(ear)
    return [found[case] for case in range(len(calls))]


def _fork(case: int, call: Callable[[Callable[[], None]], Any], busy: dict[int, _Copy]) -> int:
    """Have a copy, noted in `busy`, carry out the call; where its answer can be read. No signal comes in between."""
    parent, (ear, mouth) = os.getpid(), os.pipe()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of the threads of libraries
            pid = os.fork()
        if not pid:
            _carry_out(call, mouth, parent, masked)
        os.close(mouth)
        busy[ear] = _Copy(case, pid, monotonic())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    return ear


def _carry_out(call: Callable[[Callable[[], None]], Any], mouth: int, parent: int, masked: set[int]) -> NoReturn:
    """Answer through `mouth` and end."""
    try:
        end_with(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        os.closerange(3, mouth)
        os.closerange(mouth + 1, 1 << 20)
        logging.disable()
        gc.freeze()  # what the collector does not look at stays shared with the parent
        found, error = None, None
        try:
            found = call(lambda: _send(mouth, _ALIVE))
        except BaseException as raised:  # noqa: BLE001 - the parent's to raise
            raised.add_note(traceback.format_exc())
            error = raised
        try:
            text = pickle.dumps((found, error))
        except Exception as raised:  # noqa: BLE001 - what cannot be sent is reported
            text = pickle.dumps((None, RuntimeError(f"{found if error is None else error!r} cannot be sent: {raised}")))
        _send(mouth, text)
    finally:
        os._exit(0)


def _send(mouth: int, text: bytes) -> None:
    while text:
        text = text[os.write(mouth, text) :]


def _answer(copy: _Copy, ear: int) -> Any:  # noqa: ANN401 - what a call returned
    """What a copy that has ended answered."""
    os.close(ear)
    _, status = os.waitpid(copy.pid, 0)
    if not copy.answer:
        raise RunError(f"the process of case {copy.case} ended, status {os.waitstatus_to_exitcode(status)}")
    found, error = pickle.loads(copy.answer)
    if error is not None:
        raise error
    return found
