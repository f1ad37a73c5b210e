"""Compiled calls in threads: they do not hold the interpreter's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def side_by_side(calls: Sequence[Callable[[], object]]) -> None:
    """Make all calls at once, the first one in this thread; returns when all have. An exception of any is raised."""
    failures: list[BaseException] = []

    def attempt(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            failures.append(error)

    others = [threading.Thread(target=attempt, args=(call,), daemon=True) for call in calls[1:]]
    for thread in others:
        thread.start()
    attempt(calls[0])
    for thread in others:
        thread.join()
    if failures:
        raise failures[0]
