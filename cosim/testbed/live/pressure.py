"""How long programs waited for a core, for memory and for storage, by counters of the kernel (Linux).

What a node's own threads waited for a core is in `/proc/PID/task/TID/schedstat`. The rest is the kernel's pressure
stall information (Documentation/accounting/psi.rst), the time in which some program waited: of this control group
(version 2), or of the machine. Without either, control groups of version 1 count how long the group was throttled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

KINDS = ("cpu", "memory", "io")
_GROUP = "sys/fs/cgroup"


class Pressure:
    """Waits since the last call of `read`, as shares of the time; None for what is not known here."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._at = clock()
        self._threads: dict[str, float] = {}  # file of a thread -> s that it waited
        self._files: dict[str, Path] = {}  # of counters
        self._stalls: dict[str, float | None] = {kind: self._stalled(kind) for kind in KINDS}

    def read(self, processes: Iterable[str] = ()) -> dict[str, float | None]:
        """By `KINDS`; of cpu the sum over the threads of `processes` (names in /proc), where these have a counter."""
        before, self._at = self._at, self._clock()
        span, found = self._at - before, dict[str, float | None]()
        for kind in KINDS:
            last, now = self._stalls[kind], self._stalled(kind)
            self._stalls[kind] = now
            found[kind] = None if last is None or now is None else max(0.0, now - last)
        runnable = self._runnable(processes)
        found["cpu"] = found["cpu"] if runnable is None else runnable
        return {kind: None if value is None or span <= 0.0 else value / span for kind, value in found.items()}

    def _runnable(self, processes: Iterable[str]) -> float | None:
        """s that the threads of these processes waited for a core since the last call; None at the first one."""
        before, self._threads = self._threads, {}
        waited = 0.0
        for process in processes:
            for thread, _, so_far in scheduled(self._root / "proc" / process):
                self._threads[thread] = so_far
                waited += max(0.0, so_far - before.get(thread, 0.0))
        return waited if before and self._threads else None

    def _stalled(self, kind: str) -> float | None:
        """s since some moment, of the first counter that there was."""
        group, machine = self._root / _GROUP / f"{kind}.pressure", self._root / "proc" / "pressure" / kind
        known = self._files.get(kind)
        for file in (group, machine, *((self._root / _GROUP / "cpu/cpu.stat",) if kind == "cpu" else ())):
            if known not in (None, file):
                continue
            try:
                total = _total(file.read_text())
            except (OSError, ValueError, KeyError):
                continue
            self._files[kind] = file
            return total
        return None


def scheduled(process: Path) -> Iterator[tuple[str, float, float]]:
    """Of the present threads of a process, a folder of /proc: the counter's file, s that it ran, s that it waited."""
    with suppress(OSError):  # it may end while its threads are listed
        for file in (process / "task").glob("*/schedstat"):
            with suppress(OSError, ValueError, IndexError):
                ran, waited = map(float, file.read_text().split()[:2])
                yield str(file), ran / 1e9, waited / 1e9


def _total(text: str) -> float:
    """s of "some" in a pressure file, or for which a group was throttled."""
    if text.startswith("some "):
        return float(text.split("\n", 1)[0].rpartition("total=")[2]) / 1e6
    return float(dict(line.split() for line in text.splitlines())["throttled_time"]) / 1e9
