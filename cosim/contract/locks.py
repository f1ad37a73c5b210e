"""Locks on files, by which one process sees whether another one is still at work."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

RUN = Path("frames", ".lock")  # in a run's folder, held by the process that writes there


def held(path: Path) -> bool | None:
    """Whether a process holds the lock on the file at `path`; None where there is no such file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
