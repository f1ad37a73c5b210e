"""Which call of an adapter is under way, in a file that outlives the process.

A crash of a native library ends the process by a signal that no handler survives: what was being called has to be
written before.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

PHASES = ("start", "step", "finish", "close")
FILE = ".call"
_SIZE = 4  # B of the number


@contextmanager
def call_mark(folder: Path, adapters: Sequence[str]) -> Iterator[MutableSequence[int]]:
    """A place for the number of the call that is under way, 0: none; `number_of` has them.

    It is kept in `folder` as long as the process has not left this block. On a disk that refuses, it is kept nowhere.
    """
    path, place = folder / FILE, cast("MutableSequence[int]", [0])
    with suppress(OSError):
        path.write_bytes(bytes(_SIZE) + json.dumps(list(adapters)).encode())
        with path.open("r+b") as file:
            place = cast("MutableSequence[int]", memoryview(mmap.mmap(file.fileno(), _SIZE)).cast("I"))
    try:
        yield place
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def number_of(adapter: int, phase: str) -> int:
    """The number of a call of the adapter at place `adapter` of the list."""
    return 1 + adapter * len(PHASES) + PHASES.index(phase)


def marked(folder: Path) -> tuple[str, str] | None:
    """The adapter and the phase of the call that was under way when the run's process ended; None: none is known."""
    try:
        raw = (folder / FILE).read_bytes()
        number, adapters = int.from_bytes(raw[:_SIZE], "little"), json.loads(raw[_SIZE:])
        adapter, phase = divmod(number - 1, len(PHASES))
        return (str(adapters[adapter]), PHASES[phase]) if number else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
