"""Temporary folders that show whether the process that made them still runs.

A folder's lock is held by its process, and the system releases it when the process ends in any way. So the folders of
killed processes can be distinguished from those in use, without process numbers or clocks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cosim.contract.errors import SetupError

_LOCK = ".lock"


class HeldFolder:
    """A folder in the system's place for temporary files, held by this process until `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self.lock = path, lock  # `lock`: the descriptor that holds it

    @staticmethod
    def create(name: str) -> HeldFolder:
        """Make the folder `place(name)`, which must not be there. Raises `SetupError` when that cannot be done."""
        path = place(name)
        hidden = path.with_name(f".{name}")  # it must not be found until it is locked
        try:
            hidden.mkdir(mode=0o700)
            lock = os.open(hidden / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(path)
        except OSError as error:
            shutil.rmtree(hidden, ignore_errors=True)
            reason = f"cannot make a temporary folder {path}: {error.strerror}"
            raise SetupError(f"{reason}; TMPDIR names another place") from error
        return HeldFolder(path, lock)

    def remove(self) -> None:
        """Remove the folder; may be called twice."""
        if self.lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.lock)
            self.lock = -1

    def let_go(self) -> None:
        """Leave the folder to the cleanup of abandoned ones."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def place(name: str) -> Path:
    """Where the folder of that name is. Raises `SetupError` where there is no place for temporary files."""
    try:
        return Path(tempfile.gettempdir()) / name
    except FileNotFoundError as error:
        raise SetupError(f"{error.strerror}: free some space, or name a place by TMPDIR") from error


def left(pattern: str) -> Iterator[HeldFolder]:
    """The folders of this user with names like `pattern` whose makers have ended, now held by this process."""
    for path in sorted(place(pattern).parent.glob(pattern)):
        with suppress(OSError):  # gone meanwhile, or held
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue  # what is in it would be believed
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                continue
            yield HeldFolder(path, lock)
