"""Signal handlers that hold for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers,
    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM), *, ignored: bool = True,
) -> Iterator[None]:  # fmt: skip
    """Within, `handler` takes these signals, without `ignored` but for those that are ignored, as by nohup.

    In other threads than the main one nothing changes.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers if main}
    before = {number: old for number, old in before.items() if ignored or old is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)
