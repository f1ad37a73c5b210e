"""How a run is ended from outside: after the tick, at once, or by force when it does not listen.

Python runs its signal handlers between two bytecodes of the main thread, so a run inside a compiled
loop hears nothing. The interpreter's wake-up descriptor is written to by the signal itself; a thread
reads it, and compiled loops let it work. What it cannot end in time it leaves readable and ends.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from os import _exit  # the system's own: while an adapter is at work, `os._exit` is the guard's
from time import monotonic
from types import FrameType

from cosim.bus.runtime import Runtime
from cosim.contract.errors import Interruption
from cosim.contract.handlers import handled
from cosim.results.recorder import Recorder

_PATIENCE = 1.5  # s that a run gets to end by itself after a request to end at once
_GRACE = 6.0  # s after SIGTERM: container engines kill after ten by default
_REPORT = 60.0  # s that the report of a run that had to be ended may take; the sender of SIGTERM may grant less


class StopNow(KeyboardInterrupt, Interruption):
    """A second Ctrl-C."""


class Interrupts:
    """The first Ctrl-C or SIGTERM ends the run after the present tick, a second Ctrl-C at once.

    Further ones must not keep the adapters from being closed and the results from being saved. SIGTERM comes from
    programs, some of which send it twice without being in a hurry, as compose does when it is interrupted.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.may_raise = False  # once the run is under way, and until it is being closed
        self.terminated = False
        self.run: tuple[Runtime, Recorder] | None = None
        self._early = ""  # what came before there was a run to be ended
        self._say = say

    def end(self, runtime: Runtime, recorder: Recorder) -> None:
        """This is what ends from now on, and at once if a signal has come already."""
        self.run = runtime, recorder
        if self._early:
            runtime.stop(self._early)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.terminated |= number == signal.SIGTERM
        if not self._stopping:
            self._early = signal.Signals(number).name
            if self.run is not None:
                self.run[0].stop(self._early)
            self._say("stopping after this tick, results are kept; once more to stop at once")
        elif self.may_raise and number != signal.SIGTERM:
            self.may_raise = False
            raise StopNow(self.run[0].where() if self.run is not None else "")
        else:
            self._say("closing the adapters and saving the results")

    @property
    def _stopping(self) -> str:
        return self.run[0].stopping if self.run is not None else self._early


@contextmanager
def stop_on_signals(say: Callable[[str], None]) -> Iterator[Interrupts]:
    """Within, SIGINT and SIGTERM end the run, once there is one (`Interrupts.end`).

    A second SIGINT does within two seconds, a SIGTERM within six.

    A run that is still there then is marked as partial and its process ended, with exit code 1; after SIGTERM its
    report is written first. In other threads than the main one signals are left alone. A process that SIGTERM would
    have ended ignores further ones afterwards: it ends, and what it still writes is to be whole.
    """
    interrupts = Interrupts(say)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    ear, mouth = os.pipe()
    over, over_mouth = os.pipe()
    os.set_blocking(mouth, False)
    watching = threading.Thread(target=_watch, args=(ear, over, interrupts, say), name="endings", daemon=True)
    before = {number: signal.signal(number, interrupts) for number in (signal.SIGINT, signal.SIGTERM)}
    woken = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    watching.start()
    try:
        yield interrupts
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            ended = number == signal.SIGTERM and interrupts.terminated and handler is signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if ended else handler)
        for handle in (over_mouth, ear, mouth, over):
            with suppress(OSError):  # a library has closed all that it saw
                os.close(handle)
            if handle == over_mouth:  # which wakes the thread up for good
                watching.join(_PATIENCE)


@contextmanager
def report_first(say: Callable[[str], None]) -> Iterator[None]:
    """Within, for the figures and the report of a run that is over, only a second SIGINT interrupts."""
    heard = 0

    def hear(number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard += number == signal.SIGINT
        if heard > 1:
            raise KeyboardInterrupt
        say("the run is over; writing its report")

    with handled(hear, ignored=False):
        yield


def _watch(ear: int, over: int, interrupts: Interrupts, say: Callable[[str], None]) -> None:
    deadline, heard, terminated = float("inf"), 0, False
    while True:
        left = deadline - monotonic()
        ready, _, _ = select.select([ear, over], [], [], None if left == float("inf") else max(0.0, left))
        if over in ready:
            return
        if not ready and interrupts.run is None:  # in a moment
            deadline = monotonic() + _PATIENCE
        elif not ready and interrupts.run is not None:
            _end(*interrupts.run, say, report=terminated and heard < 2)
        for number in os.read(ear, 64) if ready else b"":
            heard += number == signal.SIGINT
            terminated |= number == signal.SIGTERM
            if heard > 1:
                deadline = min(deadline, monotonic() + _PATIENCE)
            elif number == signal.SIGTERM:
                deadline = min(deadline, monotonic() + _GRACE)


def _end(runtime: Runtime, recorder: Recorder, say: Callable[[str], None], *, report: bool) -> None:
    """Leave what was recorded in a readable state and end the process."""
    reached = max(0.0, runtime.reached)
    with suppress(Exception):
        where = runtime.where()
        recorder.abandon(f"stopped at {reached:g} s: ordered to end at once, in the middle of a tick{where}")
    with suppress(Exception):
        say(f"ended in the middle of a tick; the results up to {reached:g} s are kept")
    if report:
        command = [sys.executable, "-m", "cosim", "report", str(recorder.path)]
        with suppress(Exception):
            subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_REPORT, start_new_session=True
            )
    _exit(1)
