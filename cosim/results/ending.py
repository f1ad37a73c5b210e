"""How a run is ended from outside: after the tick, at once, or by force when it does not listen.

Python runs its signal handlers between two bytecodes of the main thread, so a run inside a compiled
loop hears nothing. The interpreter's wake-up descriptor is written to by the signal itself; a thread
reads it, and compiled loops let it work. What it cannot end in time it leaves readable and ends.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from types import FrameType

from cosim.bus.runtime import Runtime
from cosim.results.recorder import Recorder

_PATIENCE = 1.5  # s that a run gets to end by itself after it was told to end at once


class Interrupts:
    """The first Ctrl-C or SIGTERM ends the run after the present tick, the second one at once.

    Further ones must not keep the adapters from being closed and the results from being saved.
    """

    def __init__(self, runtime: Runtime, say: Callable[[str], None]) -> None:
        self.may_raise = True
        self._runtime = runtime
        self._say = say

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self._runtime.stopping:
            self._runtime.stop(signal.Signals(number).name)
            self._say("stopping after this tick, results are kept; once more to stop at once")
        elif self.may_raise:
            self.may_raise = False
            raise KeyboardInterrupt
        else:
            self._say("closing the adapters and saving the results")


@contextmanager
def stop_on_signals(runtime: Runtime, recorder: Recorder, say: Callable[[str], None]) -> Iterator[Interrupts]:
    """Within, SIGINT and SIGTERM end the run; a second SIGINT or a SIGTERM does within two seconds.

    A run that is still there then is marked as partial and its process ended, with exit code 1. In
    other threads than the main one signals are left alone.
    """
    interrupts = Interrupts(runtime, say)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    ear, mouth = os.pipe()
    over, over_mouth = os.pipe()
    os.set_blocking(mouth, False)
    watching = threading.Thread(target=_watch, args=(ear, over, runtime, recorder, say), name="endings", daemon=True)
    before = {number: signal.signal(number, interrupts) for number in (signal.SIGINT, signal.SIGTERM)}
    woken = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    watching.start()
    try:
        yield interrupts
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(over_mouth)  # wakes the thread up for good
        watching.join()
        for handle in (ear, mouth, over):
            os.close(handle)


def _watch(ear: int, over: int, runtime: Runtime, recorder: Recorder, say: Callable[[str], None]) -> None:
    deadline, heard = float("inf"), 0
    while True:
        left = deadline - monotonic()
        ready, _, _ = select.select([ear, over], [], [], None if left == float("inf") else max(0.0, left))
        if over in ready:
            return
        if not ready:
            _end(runtime, recorder, say)
        for number in os.read(ear, 64) if ready else b"":
            heard += number in (signal.SIGINT, signal.SIGTERM)
            if number == signal.SIGTERM or heard > 1:
                deadline = min(deadline, monotonic() + _PATIENCE)


def _end(runtime: Runtime, recorder: Recorder, say: Callable[[str], None]) -> None:
    """Leave what was recorded in a readable state and end the process."""
    reached = max(0.0, runtime.reached)
    with suppress(Exception):
        recorder.abandon(f"stopped at {reached:g} s: told to end at once, in the middle of a tick")
    with suppress(Exception):
        say(f"ended in the middle of a tick; the results up to {reached:g} s are kept")
    os._exit(1)
